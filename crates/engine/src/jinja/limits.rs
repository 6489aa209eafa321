//! The limits of templates. A checkpoint brings its template along: it is a stranger's program.

use std::cell::Cell;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// The most bytes of a template. The longest published ones have 40,000.
pub(super) const SOURCE_BYTES: usize = 128 << 10;
/// The most tokens between `{{` and `}}`, or `{%` and `%}`: the compiler recurses once for each
/// operator.
pub(super) const TAG_TOKENS: usize = 4096;
/// The most `elif` of a template: the compiler recurses once for each.
pub(super) const ELIFS: usize = 1000;
/// The most bytes of a product of constants, which the compiler computes.
pub(super) const CONSTANT_BYTES: f64 = (1 << 20) as f64;
/// The most lists whose items one call may take as its arguments.
pub(super) const UNPACKED: usize = 8;
/// The most instructions of a rendering.
pub(super) const FUEL: u64 = 250_000;
/// The most bytes of the template's own text that a rendering may write, repetitions included.
pub(super) const RAW_BYTES: usize = 256 << 20;
/// Bytes of stack for a thread that compiles, or that renders deeply nested values.
pub(super) const STACK_BYTES: usize = 64 << 20;

/// The most levels of lists and maps inside each other.
const DEPTH: usize = 32;
/// The most items of a list.
const ITEMS: usize = 1 << 16;
/// The most namespaces of a rendering, which may hold each other to any depth.
const NAMESPACES: usize = 512;
/// The most bytes of a string, in addition to four for each byte of input.
const STRING_BYTES: usize = 1 << 20;
/// The most bytes that a rendering makes, in addition to 64 for each byte of input.
const TOTAL_BYTES: usize = 64 << 20;
/// The bytes that an item of a list is charged.
const ITEM: usize = 24;

/// The rest of a rendering's limits.
#[derive(Clone, Copy, Default)]
struct Left {
    string: usize,
    total: usize,
    namespaces: usize,
}

thread_local! {
    /// The account of the rendering on this thread. A global, since filters and functions do not
    /// see which rendering calls them.
    static LEFT: Cell<Left> = Cell::default();
}

/// Renders with a fresh account; `input` is the number of bytes that the caller brings.
pub(super) fn within<T>(input: usize, render: impl FnOnce() -> T) -> T {
    LEFT.set(Left {
        string: STRING_BYTES.saturating_add(input.saturating_mul(4)),
        total: TOTAL_BYTES.saturating_add(input.saturating_mul(64)),
        namespaces: NAMESPACES,
    });
    let rendered = render();
    // An empty account: a filter that ran outside of a rendering could spend nothing.
    LEFT.set(Left::default());
    rendered
}

pub(crate) fn refusal(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// The source of errors from a limit, by which [`is_exceeded`] recognises them.
#[derive(Debug, thiserror::Error)]
#[error("beyond the limits of templates")]
struct Exceeded;

fn exceeded(message: impl Into<String>) -> Error {
    refusal(message).with_source(Exceeded)
}

/// Whether an error comes from a limit rather than from the template.
pub(super) fn is_exceeded(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    error.kind() == ErrorKind::OutOfFuel
        || source.is_some_and(<dyn std::error::Error>::is::<Exceeded>)
}

/// Charges bytes that are made or read.
pub(crate) fn spend(bytes: usize) -> Result<(), Error> {
    let left = LEFT.get();
    let total = left
        .total
        .checked_sub(bytes)
        .ok_or_else(|| exceeded("makes too much text"))?;
    LEFT.set(Left { total, ..left });
    Ok(())
}

/// Charges a string of `bytes` bytes before it is made.
pub(super) fn spend_string(bytes: usize) -> Result<(), Error> {
    if bytes > LEFT.get().string {
        return Err(exceeded("makes too long a text"));
    }
    spend(bytes)
}

/// Charges a list of `items` items before it is made.
pub(super) fn spend_items(items: usize) -> Result<(), Error> {
    if items > ITEMS {
        return Err(exceeded(format!("makes a list of more than {ITEMS} items")));
    }
    spend(ITEM * items)
}

pub(super) fn spend_namespace() -> Result<(), Error> {
    let left = LEFT.get();
    let namespaces = left
        .namespaces
        .checked_sub(1)
        .ok_or_else(|| exceeded(format!("makes more than {NAMESPACES} namespaces")))?;
    LEFT.set(Left { namespaces, ..left });
    Ok(())
}

/// Charges a value that was made, with everything inside it.
pub(super) fn admit(value: Value) -> Result<Value, Error> {
    match value.as_str() {
        // A string counts whole, as each operation makes a new one.
        Some(text) => spend_string(text.len())?,
        None => check_depth(&value, DEPTH)?,
    }
    Ok(value)
}

/// Charges a value that is read as a whole, in a comparison for example.
pub(super) fn read(value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => spend(text.len()),
        None if is_nested(value) => spend(ITEM * value.len().unwrap_or(0)),
        None => Ok(()),
    }
}

pub(super) fn is_nested(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map
    )
}

fn check_depth(value: &Value, left: usize) -> Result<(), Error> {
    if !is_nested(value) {
        return spend(ITEM);
    }
    let left = deeper(left)?;
    let is_map = value.kind() == ValueKind::Map;
    let mut items = 0;
    for item in value.try_iter()? {
        items += 1;
        // A list without a known length may have no end: stop at the limit.
        if items > ITEMS {
            spend_items(items)?;
        }
        let item = if is_map { value.get_item(&item)? } else { item };
        check_depth(&item, left)?;
    }
    spend(ITEM)
}

/// The levels that remain inside a value; an error if there are none.
pub(super) fn deeper(left: usize) -> Result<usize, Error> {
    left.checked_sub(1)
        .ok_or_else(|| exceeded(format!("nests values more than {DEPTH} deep")))
}

/// A text that is charged while it is written.
#[derive(Default)]
pub(crate) struct Text(String);

impl Text {
    /// The most levels of nesting that are printed.
    pub(crate) const DEPTH: usize = DEPTH;

    pub(crate) fn push_str(&mut self, text: &str) -> Result<(), Error> {
        if text.len() > LEFT.get().string.saturating_sub(self.0.len()) {
            return Err(exceeded("makes too long a text"));
        }
        spend(text.len())?;
        self.0.push_str(text);
        Ok(())
    }

    pub(crate) fn push(&mut self, c: char) -> Result<(), Error> {
        self.push_str(c.encode_utf8(&mut [0; 4]))
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}
