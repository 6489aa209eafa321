//! Files of given chains: a problem and its steps. JSON lines, or one JSON array as ProcessBench
//! ships it. Labels are not read.

use std::fmt;
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

/// The largest file of chains read; it is held in memory as a whole.
pub const MAX_BYTES: u64 = 2 << 30;

/// A chain that was not made here.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenChain {
    /// `id` of the file, or its number from 1.
    pub id: String,
    /// The problem's text.
    pub problem: String,
    /// Its steps; none of them blank.
    pub steps: Vec<String>,
}

/// A file of chains that was read.
#[derive(Clone, Debug)]
pub struct GivenChains {
    /// What messages call the file.
    pub source: String,
    /// In the file's order; never empty.
    pub chains: Vec<GivenChain>,
}

/// Where in a file a chain is, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of JSON lines.
    Line(usize),
    /// An item of a JSON array.
    Item(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Item(item) => write!(f, "item {item}"),
        }
    }
}

/// A file of chains that cannot be used. Messages are one line.
#[derive(Debug, thiserror::Error)]
pub enum ChainsError {
    /// It cannot be opened or read.
    #[error("{source_name}: {}: give a readable file of chains, or `-` for stdin", .error.to_string().split(" (os error").next().unwrap_or(""))]
    Unreadable {
        /// The file.
        source_name: String,
        /// What the operating system said.
        error: io::Error,
    },
    /// There is not one chain in it.
    #[error(
        "{source_name}: no chains in it: write one JSON object a line with \"problem\" and \"steps\""
    )]
    Empty {
        /// The file.
        source_name: String,
    },
    /// It begins as a JSON array and does not go on as one.
    #[error("{source_name}: not JSON: {reason}")]
    Json {
        /// The file.
        source_name: String,
        /// What the parser said, with line and column.
        reason: String,
    },
    /// One of its chains is none.
    #[error("{source_name}: {place}: {fault}")]
    Chain {
        /// The file.
        source_name: String,
        /// Where.
        place: Place,
        /// What is wrong, and what to do.
        fault: String,
    },
}

impl GivenChain {
    /// Reads a chain. Without an `id` it is called by its number.
    ///
    /// # Errors
    /// The fault, with the field, and what to do.
    pub fn of(value: &Value, number: usize) -> Result<Self, String> {
        let Value::Object(object) = value else {
            return Err("not an object: write {\"problem\": \"...\", \"steps\": [\"...\"]}".into());
        };
        chain(object, number)
    }
}

impl GivenChains {
    /// The problem of each chain.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.chains.iter().map(|chain| chain.problem.as_str())
    }

    /// Reads a regular file of at most 2 GiB; `-` is the standard input.
    ///
    /// # Errors
    /// With file, line or item, and field.
    pub fn open(path: &Path) -> Result<Self, ChainsError> {
        let stdin = path == Path::new("-");
        let source = if stdin {
            "<stdin>".to_owned()
        } else {
            path.display().to_string()
        };
        let read = if stdin {
            beamgen_files::read_capped(io::stdin().lock(), MAX_BYTES).and_then(beamgen_files::text)
        } else {
            beamgen_files::read_text_file(path, MAX_BYTES)
        };
        match read {
            Ok(text) => Self::parse(&text, &source),
            Err(error) => Err(ChainsError::Unreadable {
                source_name: source,
                error,
            }),
        }
    }

    /// Reads a file's text; `source` names it in messages.
    ///
    /// # Errors
    /// With file, line or item, and field.
    pub fn parse(text: &str, source: &str) -> Result<Self, ChainsError> {
        let text = text.trim_start_matches('\u{feff}');
        let mut chains = Self {
            source: source.to_owned(),
            chains: Vec::new(),
        };
        if text.trim_start().starts_with('[') {
            let items: Vec<Value> =
                serde_json::from_str(text).map_err(|error| ChainsError::Json {
                    source_name: source.to_owned(),
                    reason: error.to_string(),
                })?;
            for (i, item) in items.into_iter().enumerate() {
                chains.add(Place::Item(i + 1), Ok(item))?;
            }
        } else {
            for (i, line) in text.lines().enumerate() {
                if !line.trim().is_empty() {
                    chains.add(Place::Line(i + 1), serde_json::from_str(line))?;
                }
            }
        }
        if chains.chains.is_empty() {
            return Err(ChainsError::Empty {
                source_name: source.to_owned(),
            });
        }
        Ok(chains)
    }

    fn add(
        &mut self,
        place: Place,
        value: Result<Value, serde_json::Error>,
    ) -> Result<(), ChainsError> {
        let number = self.chains.len() + 1;
        let chain = match value {
            Ok(value) => GivenChain::of(&value, number),
            Err(error) => Err(format!(
                "not JSON at column {}: write one object a line",
                error.column()
            )),
        };
        self.chains
            .push(chain.map_err(|fault| self.fault(place, fault))?);
        Ok(())
    }

    fn fault(&self, place: Place, fault: String) -> ChainsError {
        ChainsError::Chain {
            source_name: self.source.clone(),
            place,
            fault,
        }
    }
}

fn chain(object: &Map<String, Value>, number: usize) -> Result<GivenChain, String> {
    let (field, problem) = find(object, &["problem", "question", "prompt"])
        .ok_or("field \"problem\": missing: add the problem's text")?;
    let problem = text(problem, field)?;
    let (field, steps) = find(object, &["steps", "completions"])
        .ok_or("field \"steps\": missing: add the chain's steps, a list of strings")?;
    let steps = steps
        .as_array()
        .filter(|steps| !steps.is_empty())
        .ok_or_else(|| format!("field \"{field}\": write a list of at least one string"))?
        .iter()
        .enumerate()
        .map(|(i, step)| text(text_of(step), &format!("{field}[{i}]")))
        .collect::<Result<Vec<_>, _>>()?;
    let id = match object.get("id") {
        None | Some(Value::Null) => number.to_string(),
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        Some(_) => return Err("field \"id\": write a string or a number".into()),
    };
    Ok(GivenChain { id, problem, steps })
}

fn find<'a>(
    object: &'a Map<String, Value>,
    keys: &[&'static str],
) -> Option<(&'static str, &'a Value)> {
    keys.iter().find_map(|&key| Some((key, object.get(key)?)))
}

/// The text of a step that is an object, as `beamgen label` writes them.
fn text_of(step: &Value) -> &Value {
    step.get("text").unwrap_or(step)
}

fn text(value: &Value, field: &str) -> Result<String, String> {
    match value.as_str() {
        Some(text) if text.trim().is_empty() => Err(format!(
            "field \"{field}\": empty: leave empty steps out, and give every problem its text"
        )),
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("field \"{field}\": write a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_arrays_and_steps_with_facts() {
        let lines = r#"{"problem": "p", "steps": ["a", "b"]}

            {"id": 7, "prompt": "q", "completions": ["a"], "labels": [false]}
            {"id": "x", "question": "r", "steps": [{"text": "a", "right": true}, {"text": "b"}]}"#;
        let chains = GivenChains::parse(lines, "f").unwrap();
        let ids: Vec<_> = chains.chains.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, ["1", "7", "x"]);
        assert_eq!(chains.chains[0].steps, chains.chains[2].steps);
        let array = r#" [{"problem": "p", "steps": ["a", "b"], "label": 1}]"#;
        let array = GivenChains::parse(array, "f").unwrap();
        assert_eq!(array.chains[0], chains.chains[0]);
    }

    #[test]
    fn faults_name_place_and_field() {
        for (text, wanted) in [
            ("", "no chains"),
            ("[{]", "f: not JSON: "),
            ("[]", "no chains"),
            ("[3]", "f: item 1: not an object"),
            ("\n{\"problem\": 1}", "f: line 2: field \"problem\""),
            (r#"{"problem": "p"}"#, "line 1: field \"steps\": missing"),
            (r#"{"problem": "p", "steps": []}"#, "at least one"),
            (
                r#"{"problem": "p", "steps": ["a", " "]}"#,
                "\"steps[1]\": empty",
            ),
            (
                r#"{"problem": "p", "steps": [{"right": true}]}"#,
                "\"steps[0]\": write a string",
            ),
            (r#"{"problem": "p", "#, "line 1: not JSON at column"),
        ] {
            let error = GivenChains::parse(text, "f").unwrap_err().to_string();
            assert!(error.contains(wanted) && !error.contains('\n'), "{error}");
        }
        let error = GivenChains::open(Path::new("/no/such"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/no/such") && !error.contains("os error"),
            "{error}"
        );
    }
}
