//! What Jinja does differently in Python, where `transformers` renders chat templates.

use std::fmt::Write;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat;

/// Sets what `transformers` sets, and makes values act and print as Python's do.
pub(super) fn prepare(environment: &mut Environment<'_>) {
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(method);
    environment.set_formatter(|out, _, value| {
        let mut text = String::new();
        print(value, &mut text);
        out.write_str(&text).map_err(Error::from)
    });
    environment.add_function("raise_exception", |message: String| {
        Err::<Value, _>(refusal(message))
    });
    environment.add_filter("tojson", tojson);
    environment.add_filter("trim", |text: &str| strip(text).to_owned());
    environment.add_filter("string", |value: &Value| {
        let mut text = String::new();
        print(value, &mut text);
        text
    });
    // None is not, what is undefined is.
    environment.add_test("iterable", |value: &Value| {
        !value.is_none() && value.try_iter().is_ok()
    });
    // Whatever has a length and items: a string too.
    environment.add_test("sequence", |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::String | ValueKind::Seq | ValueKind::Map
        )
    });
}

/// A template's source with its `generation` blocks, which mark what the assistant says, as plain
/// scopes.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = rest.find("%}") else { break };
        let tag = &rest[..end + 2];
        let inside = &rest[2..end];
        match inside.trim_matches(['-', '+']).trim() {
            name @ ("generation" | "endgeneration") => {
                let plain = name.replace("generation", "with");
                out.push_str(&tag.replace(name, &plain));
            }
            _ => {
                // No further than this tag's beginning: it may lie within a comment.
                out.push_str("{%");
                rest = &rest[2..];
                continue;
            }
        }
        rest = &rest[end + 2..];
    }
    out.push_str(rest);
    out
}

/// Without the white space around it, by Python's idea of it.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Without the white space after it, by Python's idea of it.
pub(super) fn rstrip(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// `str.isspace`: Unicode's white space, and four separators of ASCII.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

fn refusal(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

fn method(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let (Some(text), []) = (value.as_str(), args) {
        match name {
            "strip" => return Ok(strip(text).into()),
            "lstrip" => return Ok(text.trim_start_matches(is_space).into()),
            "rstrip" => return Ok(rstrip(text).into()),
            _ => {}
        }
    }
    pycompat::unknown_method_callback(state, value, name, args)
}

/// `str(value)`, and nothing for what is undefined.
fn print(value: &Value, out: &mut String) {
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::String => out.push_str(value.as_str().unwrap_or_default()),
        _ => repr(value, out),
    }
}

/// `repr(value)`.
fn repr(value: &Value, out: &mut String) {
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::String => quote(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (i, item) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(&item, out);
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (i, (key, item)) in pairs(value).into_iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(&key, out);
                out.push_str(": ");
                repr(&item, out);
            }
            out.push('}');
        }
        _ => {
            let _ = write!(out, "{value}");
        }
    }
}

/// A string as Python writes it in a list.
fn quote(text: &str, out: &mut String) {
    let mark = match text.contains('\'') && !text.contains('"') {
        true => '"',
        false => '\'',
    };
    out.push(mark);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == mark => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push(mark);
}

fn pairs(map: &Value) -> Vec<(Value, Value)> {
    map.try_iter()
        .into_iter()
        .flatten()
        .map(|key| {
            let item = map.get_item(&key).unwrap_or_default();
            (key, item)
        })
        .collect()
}

/// `json.dumps`, which is the filter that `transformers` puts in place of Jinja's own: nothing is
/// escaped for HTML.
fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
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
    let mut out = String::new();
    json.write(value, 0, &mut out)?;
    Ok(out)
}

struct Json<'a> {
    indent: Option<String>,
    between: &'a str,
    colon: &'a str,
    ascii: bool,
    sorted: bool,
}

impl Json<'_> {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => {
                let _ = write!(out, "{value}");
            }
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.list(('[', ']'), &items, depth, out, |item, out| {
                    self.write(item, depth + 1, out)
                })?;
            }
            ValueKind::Map => {
                let mut items = pairs(value);
                if self.sorted {
                    items.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.list(('{', '}'), &items, depth, out, |(key, item), out| {
                    match key.as_str() {
                        Some(key) => self.string(key, out),
                        None => {
                            out.push('"');
                            self.write(key, depth + 1, out)?;
                            out.push('"');
                        }
                    }
                    out.push_str(self.colon);
                    self.write(item, depth + 1, out)
                })?;
            }
            kind => return Err(refusal(format!("tojson: {kind} is no JSON"))),
        }
        Ok(())
    }

    fn list<T>(
        &self,
        (open, close): (char, char),
        items: &[T],
        depth: usize,
        out: &mut String,
        mut write: impl FnMut(&T, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for (i, item) in items.iter().enumerate() {
            out.push_str(if i > 0 { self.between } else { "" });
            self.newline(depth + 1, out);
            write(item, out)?;
        }
        if !items.is_empty() {
            self.newline(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn newline(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x08' => out.push_str("\\b"),
                '\x0c' => out.push_str("\\f"),
                c if c < ' ' || (self.ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_blocks_are_scopes() {
        assert_eq!(
            without_generation_tags("a{%- generation -%}b{% endgeneration %}{# {% #}{% if x %}"),
            "a{%- with -%}b{% endwith %}{# {% #}{% if x %}"
        );
        assert_eq!(
            without_generation_tags("{% set generation = 1 %}{%"),
            "{% set generation = 1 %}{%"
        );
    }

    #[test]
    fn strings_are_quoted_as_python_quotes_them() {
        let quoted = |text| {
            let mut out = String::new();
            quote(text, &mut out);
            out
        };
        assert_eq!(quoted("it's"), r#""it's""#);
        assert_eq!(quoted("it's \"x\""), r#"'it\'s "x"'"#);
        assert_eq!(quoted("é\n\u{7f}\\"), r"'é\n\x7f\\'");
    }
}
