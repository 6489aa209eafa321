//! Sets a setting by its key, such as `search.mcts.exploration`. Errors suggest the nearest key or
//! the allowed type.

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::Error;
use crate::nearest::nearest;

/// The maximum number of parts in a key. No real key has more, and a key from outside must not
/// create deeply nested tables.
const MOST_PARTS: usize = 8;

/// Returns a copy of settings with one key changed. The settings may be a
/// [`Config`](crate::Config), or the [`Settings`](crate::Settings) of a request.
///
/// ```
/// let config = beamgen::program::set_key(&beamgen::Config::default(), "search.mcts.exploration", 2.into())?;
/// # Ok::<(), beamgen::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::Key`] for an unknown key, of which the nearest is named, or for an invalid
/// value.
pub fn set_key<T: Serialize + DeserializeOwned>(
    settings: &T,
    key: &str,
    value: Value,
) -> Result<T, Error> {
    let refused = |reason: &str| Error::Key {
        key: key.chars().take(LONGEST_KEY).collect(),
        reason: reason.trim().replace('\n', " "),
    };
    let parts: Vec<&str> = key.trim().split('.').take(MOST_PARTS + 1).collect();
    let Some((last, tables)) = parts.split_last().filter(|_| parts.len() <= MOST_PARTS) else {
        return Err(refused(&format!("no key has more than {MOST_PARTS} parts")));
    };
    let mut root = Table::try_from(settings).map_err(|error| refused(&error.to_string()))?;
    let mut at = &mut root;
    for name in tables {
        // A table such as `models.prm_server` is missing in the serialized form until it is set.
        let inner = at.entry(*name).or_insert_with(|| Table::new().into());
        at = match inner {
            Value::Table(table) => table,
            _ => return Err(refused(&format!("{name:?} has no keys below it"))),
        };
    }
    at.insert((*last).to_owned(), value);
    // serde checks key and value here, so the rules are the same as for a file.
    root.try_into().map_err(|error: toml::de::Error| {
        let message = error.message();
        match unknown_key(&parts, message) {
            Some(reason) => refused(&reason),
            None => refused(&plain(message)),
        }
    })
}

/// The maximum number of characters of a key that an error repeats.
const LONGEST_KEY: usize = 200;

/// Returns an error text for an unknown key, with the nearest key of the same table; `None` if
/// serde's message is about a value.
fn unknown_key(parts: &[&str], message: &str) -> Option<String> {
    // serde gives the known names only within the text of its message.
    let (unknown, known) = message
        .strip_prefix("unknown field `")?
        .rsplit_once("`, expected ")?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    // A key inside a value, such as `n` in `search={n=4}`, is not among the parts, so it is named
    // without its path.
    let at = parts.iter().position(|&part| part == unknown).unwrap_or(0);
    let full = |name: &str| [&parts[..at], &[name]].concat().join(".");
    let advice = match nearest(unknown, known.iter().copied()) {
        Some(name) => format!("the nearest is `{}`", full(name)),
        None => format!("there are {}", known.join(", ")),
    };
    Some(format!("there is no key `{}`; {advice}", full(unknown)))
}

/// Replaces the names of Rust types in serde's message by plain words.
fn plain(message: &str) -> String {
    message
        .replace("expected usize", "expected a whole number")
        .replace("expected u64", "expected a whole number")
        .replace("expected f32", "expected a number")
        .replace("expected a boolean", "expected true or false")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    #[test]
    fn a_request_has_the_keys_of_its_search_and_no_others() {
        let settings = Settings::default();
        let set = |key: &str| set_key(&settings, key, 3.into());
        assert_eq!(set("search.n").unwrap().search.n, 3);
        assert_eq!(set("generator.seed").unwrap().generator.seed, 3);
        let refused = set("engine.threads").unwrap_err().to_string();
        assert_eq!(
            refused,
            "engine.threads: there is no key `engine`; there are search, generator"
        );
    }
}
