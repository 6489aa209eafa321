//! What a template may use up: a checkpoint brings it along, so it is a stranger's program.

use std::cell::Cell;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Bytes of a template. The longest published ones have 40,000.
pub(super) const SOURCE_BYTES: usize = 128 << 10;
/// Tokens between `{{` and `}}`, or `{%` and `%}`: the compiler recurses once for each operator.
pub(super) const TAG_TOKENS: usize = 4096;
/// `elif` in a template: the compiler recurses once for each.
pub(super) const ELIFS: usize = 1000;
/// Bytes that a product of constants may have, which the compiler works out.
pub(super) const CONSTANT_BYTES: f64 = (1 << 20) as f64;
/// Lists whose items one call may take as its arguments.
pub(super) const UNPACKED: usize = 8;
/// Instructions of a rendering.
pub(super) const FUEL: u64 = 250_000;
/// Bytes of plain text of the template that a rendering may write, however often.
pub(super) const RAW_BYTES: usize = 256 << 20;
/// Stack of a thread that compiles, or that renders what may be nested deeply.
pub(super) const STACK_BYTES: usize = 64 << 20;

/// Lists and maps inside each other.
const DEPTH: usize = 32;
/// Items of a list.
const ITEMS: usize = 1 << 16;
/// Namespaces of a rendering. They may hold each other to any depth.
const NAMESPACES: usize = 512;
/// Bytes of a string, and of all that a rendering makes, beside what its input accounts for.
const STRING_BYTES: usize = 1 << 20;
const TOTAL_BYTES: usize = 64 << 20;
/// What an item of a list counts, in bytes.
const ITEM: usize = 24;

#[derive(Clone, Copy, Default)]
struct Left {
    string: usize,
    total: usize,
    namespaces: usize,
}

thread_local! {
    /// What the rendering of this thread may still use. Filters and functions do not see whose they
    /// are.
    static LEFT: Cell<Left> = Cell::default();
}

/// Renders within the limits, given the bytes that come from outside.
pub(super) fn within<T>(input: usize, render: impl FnOnce() -> T) -> T {
    LEFT.set(Left {
        string: STRING_BYTES.saturating_add(input.saturating_mul(4)),
        total: TOTAL_BYTES.saturating_add(input.saturating_mul(64)),
        namespaces: NAMESPACES,
    });
    let rendered = render();
    LEFT.set(Left::default());
    rendered
}

pub(crate) fn refusal(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// What tells an error of the limits from one of the template.
#[derive(Debug, thiserror::Error)]
#[error("beyond the limits of templates")]
struct Exceeded;

fn exceeded(message: impl Into<String>) -> Error {
    refusal(message).with_source(Exceeded)
}

/// Whether a limit was exceeded.
pub(super) fn is_exceeded(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    error.kind() == ErrorKind::OutOfFuel
        || source.is_some_and(<dyn std::error::Error>::is::<Exceeded>)
}

/// Counts bytes that are made or read.
pub(crate) fn spend(bytes: usize) -> Result<(), Error> {
    let left = LEFT.get();
    let total = left
        .total
        .checked_sub(bytes)
        .ok_or_else(|| exceeded("makes too much text"))?;
    LEFT.set(Left { total, ..left });
    Ok(())
}

/// Counts a string of as many bytes, before it is made.
pub(super) fn spend_string(bytes: usize) -> Result<(), Error> {
    if bytes > LEFT.get().string {
        return Err(exceeded("makes too long a text"));
    }
    spend(bytes)
}

/// Counts a list of as many items, before it is made.
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

/// Counts a value that was made, with all that is in it.
pub(super) fn admit(value: Value) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => spend_string(text.len())?,
        None => check_depth(&value, DEPTH)?,
    }
    Ok(value)
}

/// Counts a value that is read as a whole (compared, say).
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
        if items > ITEMS {
            spend_items(items)?;
        }
        let item = if is_map { value.get_item(&item)? } else { item };
        check_depth(&item, left)?;
    }
    spend(ITEM)
}

/// The levels that are left one level further down.
pub(super) fn deeper(left: usize) -> Result<usize, Error> {
    left.checked_sub(1)
        .ok_or_else(|| exceeded(format!("nests values more than {DEPTH} deep")))
}

/// Text that is counted while it is written.
#[derive(Default)]
pub(crate) struct Text(String);

impl Text {
    /// The levels that a value may be nested.
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
