//! Counts fields of requests that have no effect, and reports each name to the log once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::app::App;
use crate::field_table::row;
use crate::log::Event;

/// The maximum number of names to report: clients can invent names without end.
const MOST_TOLD: usize = 256;

/// The label of names that are not in the table of fields.
const OTHER: &str = "other";

/// The names that were reported to the log.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeSet<String>>);

impl Told {
    /// Returns whether a name is to be reported, and remembers it.
    fn is_new(&self, name: &str) -> bool {
        // A set is valid even if another thread panicked with the lock.
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < MOST_TOLD && told.insert(name.to_owned())
    }
}

pub(crate) fn count(app: &App, names: &[String]) {
    for name in names {
        let known = row(name).map(|row| row.name);
        app.metrics.ignored(known.unwrap_or(OTHER));
        // A name that is not a word may be a private text of a request, which must not be in the
        // log.
        let field = known.unwrap_or(if is_word(name) { name } else { OTHER });
        if app.told.is_new(field) {
            app.tell(&Event::FieldIgnored { field });
        }
    }
}

fn is_word(name: &str) -> bool {
    let is_fit = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(is_fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_once_and_not_without_end() {
        let told = Told::default();
        assert!(told.is_new("user") && !told.is_new("user"));
        let new = (0..1000).filter(|i| told.is_new(&format!("x{i}"))).count();
        assert_eq!(new, MOST_TOLD - 1);
        assert!(is_word("top_logprobs") && !is_word("my secret") && !is_word(""));
    }
}
