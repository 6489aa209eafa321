//! Prints values like Python does, and as JSON like the filter `tojson` of `transformers` does
//! (`json.dumps`; nothing is escaped for HTML).

use minijinja::Error;
use minijinja::value::{Kwargs, Value, ValueKind};

use super::limits::{Text, deeper, refusal};

pub(crate) fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent = match options.get::<Option<Value>>("indent")? {
        Some(n) if n.as_str().is_none() => Some(" ".repeat(u16::try_from(n)?.into())),
        text => text.and_then(|t| t.as_str().map(str::to_owned)),
    };
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let (between, colon) = match separators.as_deref() {
        None if indent.is_some() => (",", ": "),
        None => (", ", ": "),
        Some([between, colon]) => (between.as_str(), colon.as_str()),
        Some(_) => return Err(refusal("tojson: separators are two strings")),
    };
    let ascii = options.get::<Option<bool>>("ensure_ascii")?;
    let json = Writer {
        indent,
        between,
        colon,
        sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        language: Language::Json {
            ascii: ascii.unwrap_or(false),
        },
    };
    options.assert_all_used()?;
    let mut out = Text::default();
    json.write(value, 0, &mut out)?;
    Ok(out.into_string())
}

/// Writes `str(value)` in Python's form. An undefined value is empty.
pub(crate) fn print(value: &Value, out: &mut Text) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::String => out.push_str(value.as_str().unwrap_or_default()),
        _ => Writer::PYTHON.write(value, 0, out),
    }
}

pub(crate) fn printed(value: &Value) -> Result<String, Error> {
    let mut text = Text::default();
    print(value, &mut text)?;
    Ok(text.into_string())
}

#[derive(Clone, Copy)]
enum Language {
    Json {
        /// Whether characters outside ASCII are escaped (`ensure_ascii`).
        ascii: bool,
    },
    Python,
}

/// A printing style: separators, indentation and language.
struct Writer<'a> {
    indent: Option<String>,
    between: &'a str,
    colon: &'a str,
    sorted: bool,
    language: Language,
}

impl Writer<'_> {
    /// The style of Python's `repr`.
    const PYTHON: Self = Writer {
        indent: None,
        between: ", ",
        colon: ": ",
        sorted: false,
        language: Language::Python,
    };

    fn write(&self, value: &Value, depth: usize, out: &mut Text) -> Result<(), Error> {
        let [none, yes, no] = match self.language {
            Language::Json { .. } => ["null", "true", "false"],
            Language::Python => ["None", "True", "False"],
        };
        match value.kind() {
            ValueKind::None => out.push_str(none),
            ValueKind::Bool => out.push_str(if value.is_true() { yes } else { no }),
            ValueKind::Number => out.push_str(&value.to_string()),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?;
                self.list(('[', ']'), items, depth, out, |item, out| {
                    self.write(&item, depth + 1, out)
                })
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sorted {
                    // By default a map keeps the order of insertion, like in Python.
                    keys.sort();
                }
                self.list(('{', '}'), keys.into_iter(), depth, out, |key, out| {
                    self.key(&key, depth + 1, out)?;
                    out.push_str(self.colon)?;
                    self.write(&value.get_item(&key)?, depth + 1, out)
                })
            }
            kind => match self.language {
                Language::Json { .. } => Err(refusal(format!("tojson: {kind} has no JSON form"))),
                Language::Python => out.push_str(&value.to_string()),
            },
        }
    }

    /// Writes a map's key. JSON keys are always strings, so other keys are put in quotes.
    fn key(&self, key: &Value, depth: usize, out: &mut Text) -> Result<(), Error> {
        // `json.dumps` also turns keys that are numbers or constants into strings.
        let is_bare = matches!(self.language, Language::Json { .. }) && key.as_str().is_none();
        let quote = if is_bare { "\"" } else { "" };
        out.push_str(quote)?;
        self.write(key, depth, out)?;
        out.push_str(quote)
    }

    fn list(
        &self,
        (open, close): (char, char),
        items: impl Iterator<Item = Value>,
        depth: usize,
        out: &mut Text,
        mut write: impl FnMut(Value, &mut Text) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Printing recurses once per level, so the stack needs a limit.
        deeper(Text::DEPTH.saturating_sub(depth))?;
        out.push(open)?;
        let mut is_empty = true;
        for item in items {
            out.push_str(if is_empty { "" } else { self.between })?;
            is_empty = false;
            self.newline(depth + 1, out)?;
            write(item, out)?;
        }
        if !is_empty {
            self.newline(depth, out)?;
        }
        out.push(close)
    }

    fn newline(&self, depth: usize, out: &mut Text) -> Result<(), Error> {
        if let Some(indent) = &self.indent {
            out.push('\n')?;
            for _ in 0..depth {
                out.push_str(indent)?;
            }
        }
        Ok(())
    }

    fn string(&self, text: &str, out: &mut Text) -> Result<(), Error> {
        let is_python = matches!(self.language, Language::Python);
        // Python's `repr` uses double quotes only if that saves escaping.
        let mark = if is_python && (text.contains('"') || !text.contains('\'')) {
            '\''
        } else {
            '"'
        };
        out.push(mark)?;
        for c in text.chars() {
            match (c, self.language) {
                ('\n', _) => out.push_str("\\n")?,
                ('\r', _) => out.push_str("\\r")?,
                ('\t', _) => out.push_str("\\t")?,
                ('\\', _) => out.push_str("\\\\")?,
                (c, _) if c == mark => {
                    out.push('\\')?;
                    out.push(c)?;
                }
                ('\x08', Language::Json { .. }) => out.push_str("\\b")?,
                ('\x0c', Language::Json { .. }) => out.push_str("\\f")?,
                (c, Language::Json { ascii }) if c < ' ' || (ascii && c > '~') => {
                    // JSON escapes a character beyond 16 bits as two surrogates.
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"))?;
                    }
                }
                (c, Language::Python) if c.is_control() => {
                    out.push_str(&format!("\\x{:02x}", u32::from(c)))?;
                }
                (c, _) => out.push(c)?,
            }
        }
        out.push(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::within;
    use super::*;

    #[test]
    fn strings_are_quoted_as_python_quotes_them() {
        let quoted = |text| {
            let mut out = Text::default();
            within(0, || Writer::PYTHON.string(text, &mut out)).unwrap();
            out.into_string()
        };
        assert_eq!(quoted("it's"), r#""it's""#);
        assert_eq!(quoted("it's \"x\""), r#"'it\'s "x"'"#);
        assert_eq!(quoted("é\n\u{7f}\\"), r"'é\n\x7f\\'");
    }
}
