//! The filter `tojson` as `transformers` has it: `json.dumps`, nothing escaped for HTML.

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
    let json = Json {
        indent,
        between,
        colon,
        ascii: options
            .get::<Option<bool>>("ensure_ascii")?
            .unwrap_or(false),
        sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    let mut out = Text::default();
    json.write(value, 0, &mut out)?;
    Ok(out.into_string())
}

struct Json<'a> {
    indent: Option<String>,
    between: &'a str,
    colon: &'a str,
    ascii: bool,
    sorted: bool,
}

impl Json<'_> {
    fn write(&self, value: &Value, depth: usize, out: &mut Text) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
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
                    keys.sort();
                }
                self.list(('{', '}'), keys.into_iter(), depth, out, |key, out| {
                    match key.as_str() {
                        Some(key) => self.string(key, out)?,
                        None => {
                            out.push('"')?;
                            self.write(&key, depth + 1, out)?;
                            out.push('"')?;
                        }
                    }
                    out.push_str(self.colon)?;
                    self.write(&value.get_item(&key)?, depth + 1, out)
                })
            }
            kind => Err(refusal(format!("tojson: {kind} is no JSON"))),
        }
    }

    fn list(
        &self,
        (open, close): (char, char),
        items: impl Iterator<Item = Value>,
        depth: usize,
        out: &mut Text,
        mut write: impl FnMut(Value, &mut Text) -> Result<(), Error>,
    ) -> Result<(), Error> {
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
        out.push('"')?;
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\"")?,
                '\\' => out.push_str("\\\\")?,
                '\n' => out.push_str("\\n")?,
                '\r' => out.push_str("\\r")?,
                '\t' => out.push_str("\\t")?,
                '\x08' => out.push_str("\\b")?,
                '\x0c' => out.push_str("\\f")?,
                c if c < ' ' || (self.ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"))?;
                    }
                }
                c => out.push(c)?,
            }
        }
        out.push('"')
    }
}
