//! Values as text, as Python writes them.

use minijinja::Error;
use minijinja::value::{Value, ValueKind};

use super::limits::{Text, deeper};

/// `str(value)`, and nothing for what is undefined.
pub(crate) fn print(value: &Value, out: &mut Text) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::String => out.push_str(value.as_str().unwrap_or_default()),
        _ => repr(value, Text::DEPTH, out),
    }
}

/// [`print`] as a string.
pub(crate) fn printed(value: &Value) -> Result<String, Error> {
    let mut text = Text::default();
    print(value, &mut text)?;
    Ok(text.into_string())
}

/// `repr(value)`.
pub(super) fn repr(value: &Value, depth: usize, out: &mut Text) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::String => quote(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq | ValueKind::Iterable => {
            let depth = deeper(depth)?;
            out.push('[')?;
            for (i, item) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" })?;
                repr(&item, depth, out)?;
            }
            out.push(']')
        }
        ValueKind::Map => {
            let depth = deeper(depth)?;
            out.push('{')?;
            for (i, key) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" })?;
                repr(&key, depth, out)?;
                out.push_str(": ")?;
                repr(&value.get_item(&key)?, depth, out)?;
            }
            out.push('}')
        }
        _ => out.push_str(&value.to_string()),
    }
}

/// A string as Python writes it in a list.
fn quote(text: &str, out: &mut Text) -> Result<(), Error> {
    let mark = match text.contains('\'') && !text.contains('"') {
        true => '"',
        false => '\'',
    };
    out.push(mark)?;
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n")?,
            '\r' => out.push_str("\\r")?,
            '\t' => out.push_str("\\t")?,
            '\\' => out.push_str("\\\\")?,
            c if c == mark => {
                out.push('\\')?;
                out.push(c)?;
            }
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c)))?,
            c => out.push(c)?,
        }
    }
    out.push(mark)
}

#[cfg(test)]
mod tests {
    use super::super::limits::within;
    use super::*;

    #[test]
    fn strings_are_quoted_as_python_quotes_them() {
        let quoted = |text| {
            let mut out = Text::default();
            within(0, || quote(text, &mut out)).unwrap();
            out.into_string()
        };
        assert_eq!(quoted("it's"), r#""it's""#);
        assert_eq!(quoted("it's \"x\""), r#"'it\'s "x"'"#);
        assert_eq!(quoted("é\n\u{7f}\\"), r"'é\n\x7f\\'");
    }
}
