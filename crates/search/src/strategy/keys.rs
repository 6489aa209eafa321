//! Keys that only one strategy reads: its table `[search.NAME]` in a configuration.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::error::ConfigError;

/// The keys of one strategy, as a struct whose every field has a default.
pub trait StrategyKeys:
    Serialize + DeserializeOwned + Default + Clone + PartialEq + fmt::Debug + Send + Sync + 'static
{
    /// The name of the table: `[search.TABLE]`.
    const TABLE: &'static str;

    /// # Errors
    /// A number is out of its range; the error names it as `TABLE.KEY`.
    fn validate(&self) -> Result<(), ConfigError> {
        Ok(())
    }
}

/// [`StrategyKeys`] of a type that is not known here.
pub(crate) trait ErasedKeys: erased_serde::Serialize + fmt::Debug + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn is_default(&self) -> bool;
    fn equals(&self, other: &dyn ErasedKeys) -> bool;
    fn validate(&self) -> Result<(), ConfigError>;
    fn names(&self) -> Vec<String>;
    /// The same keys with one of them set.
    fn with(&self, name: &str, value: Value) -> Result<Arc<dyn ErasedKeys>, serde_json::Error>;
}

erased_serde::serialize_trait_object!(ErasedKeys);

impl<K: StrategyKeys> ErasedKeys for K {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_default(&self) -> bool {
        *self == K::default()
    }

    fn equals(&self, other: &dyn ErasedKeys) -> bool {
        other.as_any().downcast_ref::<K>() == Some(self)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        StrategyKeys::validate(self)
    }

    fn names(&self) -> Vec<String> {
        object(self)
            .unwrap_or_default()
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    fn with(&self, name: &str, value: Value) -> Result<Arc<dyn ErasedKeys>, serde_json::Error> {
        let mut keys = object(self)?;
        keys.insert(name.to_owned(), value);
        Ok(Arc::new(serde_json::from_value::<K>(Value::Object(keys))?))
    }
}

fn object(keys: &impl Serialize) -> Result<Map<String, Value>, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(keys)?)
}

/// What a strategy says of its keys: the name of their table and their defaults.
#[derive(Debug, Clone)]
pub struct KeysSpec {
    pub(crate) table: &'static str,
    pub(crate) defaults: Arc<dyn ErasedKeys>,
    pub(crate) always_written: bool,
}

impl KeysSpec {
    /// Keys of type `K`.
    pub fn of<K: StrategyKeys>() -> Self {
        Self {
            table: K::TABLE,
            defaults: Arc::new(K::default()),
            always_written: false,
        }
    }

    /// Has the table written with every configuration. Otherwise it is written if the strategy is
    /// chosen or a key is set, so that a configuration without it stays as it was before the
    /// strategy existed, and runs of that time can be resumed.
    #[must_use]
    pub(crate) fn always_written(mut self) -> Self {
        self.always_written = true;
        self
    }
}

/// The tables of a configuration that differ from their defaults.
#[derive(Clone, Default)]
pub struct KeyTables(BTreeMap<&'static str, Arc<dyn ErasedKeys>>);

impl KeyTables {
    /// The keys of type `K`; their defaults if none was set.
    pub fn get<K: StrategyKeys>(&self) -> K {
        let keys = self.0.get(K::TABLE);
        let keys = keys.and_then(|keys| keys.as_any().downcast_ref::<K>());
        keys.cloned().unwrap_or_default()
    }

    /// Sets all keys of type `K`.
    pub fn set<K: StrategyKeys>(&mut self, keys: K) {
        self.insert(K::TABLE, Arc::new(keys));
    }

    pub(crate) fn insert(&mut self, table: &'static str, keys: Arc<dyn ErasedKeys>) {
        match keys.is_default() {
            true => self.0.remove(table),
            false => self.0.insert(table, keys),
        };
    }

    pub(crate) fn table(&self, table: &str) -> Option<&Arc<dyn ErasedKeys>> {
        self.0.get(table)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &Arc<dyn ErasedKeys>)> {
        self.0.iter().map(|(&table, keys)| (table, keys))
    }
}

impl fmt::Debug for KeyTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.0).finish()
    }
}

impl PartialEq for KeyTables {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, x): (&&str, &Arc<dyn ErasedKeys>),
                    (b, y): (&&str, &Arc<dyn ErasedKeys>)| {
            a == b && x.equals(&**y)
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| same(a, b))
    }
}

/// Reads a table key by key, so that a mistake is reported where it was made.
pub(crate) struct TableSeed(pub Arc<dyn ErasedKeys>);

impl<'de> DeserializeSeed<'de> for TableSeed {
    type Value = Arc<dyn ErasedKeys>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TableSeed {
    type Value = Arc<dyn ErasedKeys>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of the strategy's keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let names = self.0.names();
        let mut keys = self.0;
        while let Some(name) = map.next_key_seed(NameSeed(&names))? {
            keys = map.next_value_seed(ValueSeed { keys, name })?;
        }
        Ok(keys)
    }
}

/// One of the names of a table.
pub(crate) struct NameSeed<'a>(pub &'a [String]);

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        let name = String::deserialize(from)?;
        match self.0.contains(&name) {
            true => Ok(name),
            false => Err(D::Error::custom(unknown_key(&name, self.0))),
        }
    }
}

/// The words of serde's own message.
fn unknown_key(name: &str, known: &[String]) -> String {
    let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let expected = match known.as_slice() {
        [] => "there are no keys".to_owned(),
        [one] => format!("expected {one}"),
        [one, other] => format!("expected {one} or {other}"),
        all => format!("expected one of {}", all.join(", ")),
    };
    format!("unknown field `{name}`, {expected}")
}

struct ValueSeed {
    keys: Arc<dyn ErasedKeys>,
    name: String,
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Arc<dyn ErasedKeys>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        let value = Value::deserialize(from)?;
        self.keys.with(&self.name, value).map_err(D::Error::custom)
    }
}
