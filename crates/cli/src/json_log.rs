//! Messages as JSON objects, one object per line on stderr, for programs that collect logs.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use beamgen_measure::date_of;
use serde_json::{Map, Value, json};

/// The importance of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warn,
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Makes all later messages of the process JSON.
pub(crate) fn turn_on() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// Whether messages are written as JSON.
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Writes a line with time, level, event and `facts`, which must be an object. A closed stderr is
/// ignored.
pub(crate) fn write(level: Level, event: &str, facts: Value) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut line = object(now.unwrap_or_default(), level, event, facts).to_string();
    line.push('\n');
    // A single write for each line, so that lines of two threads do not mix.
    let _ = io::stderr().write_all(line.as_bytes());
}

fn object(since_1970: Duration, level: Level, event: &str, facts: Value) -> Value {
    let mut line = Map::new();
    line.insert("time".to_owned(), rfc_3339(since_1970).into());
    line.insert("level".to_owned(), level.name().into());
    line.insert("event".to_owned(), event.into());
    if let Value::Object(facts) = facts {
        line.extend(facts);
    }
    Value::Object(line)
}

/// Returns the facts of a message that is only a text.
pub(crate) fn message(text: &str) -> Value {
    json!({"message": text})
}

/// Formats a time as in RFC 3339, in UTC.
fn rfc_3339(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    let (second, milliseconds) = (seconds % 60, since_1970.subsec_millis());
    let date = date_of(seconds);
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (milliseconds, written) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_007, "2024-02-29T23:59:59.007Z"),
            (1_795_780_246_120, "2026-11-27T11:50:46.120Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc_3339(Duration::from_millis(milliseconds)), written);
        }
    }

    #[test]
    fn a_line_begins_with_time_level_and_event() {
        let facts = json!({"route": "chat", "status": 200});
        let line = object(Duration::ZERO, Level::Warn, "request", facts).to_string();
        let wanted = r#"{"time":"1970-01-01T00:00:00.000Z","level":"warn","event":"request","route":"chat","status":200}"#;
        assert_eq!(line, wanted);
    }
}
