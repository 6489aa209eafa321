//! Sets a key of the settings by its name, such as `search.mcts.exploration`, with a helpful message
//! for a wrong name or value.

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::Error;
use crate::nearest::nearest;

/// The most parts of a key. No key has more, and a name from outside must not nest tables without end.
const MOST_PARTS: usize = 8;

/// Returns settings with a key set: a [`Config`](crate::Config), or the
/// [`Settings`](crate::Settings) of a request.
///
/// ```
/// let config = beamgen::program::set_key(&beamgen::Config::default(), "search.mcts.exploration", 2.into())?;
/// # Ok::<(), beamgen::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::Key`] for an unknown key, with the nearest one, or for an invalid value.
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
        // A table such as `models.prm_server` is not serialized while it is unset.
        let inner = at.entry(*name).or_insert_with(|| Table::new().into());
        at = match inner {
            Value::Table(table) => table,
            _ => return Err(refused(&format!("{name:?} has no keys below it"))),
        };
    }
    at.insert((*last).to_owned(), value);
    // serde checks key and value, so a key has the same rules here as in a file.
    root.try_into().map_err(|error: toml::de::Error| {
        let message = error.message();
        match unknown_key(&parts, message) {
            Some(reason) => refused(&reason),
            None => refused(&plain(message)),
        }
    })
}

/// The most characters of a key that a message repeats.
const LONGEST_KEY: usize = 200;

/// Returns a message for an unknown key, with the nearest key of its table; `None` if serde's message
/// is about something else.
fn unknown_key(parts: &[&str], message: &str) -> Option<String> {
    // serde tells the names only in the text of its message.
    let (unknown, known) = message
        .strip_prefix("unknown field `")?
        .rsplit_once("`, expected ")?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    // A key inside a value, as in `search={n=4}`, is not among the parts: it is named without a path.
    let at = parts.iter().position(|&part| part == unknown).unwrap_or(0);
    let full = |name: &str| [&parts[..at], &[name]].concat().join(".");
    let advice = match nearest(unknown, known.iter().copied()) {
        Some(name) => format!("the nearest is `{}`", full(name)),
        None => format!("there are {}", known.join(", ")),
    };
    Some(format!("there is no key `{}`; {advice}", full(unknown)))
}

/// Replaces names of Rust's types in serde's message.
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
