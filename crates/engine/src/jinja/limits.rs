//! Limits the time and memory of templates. A template comes with a checkpoint, so it is untrusted
//! code.

use std::cell::Cell;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// The most bytes of a template's source. The longest known templates have 40,000.
pub(super) const SOURCE_BYTES: usize = 128 << 10;
/// The most tokens between `{{` and `}}`, or `{%` and `%}`. The compiler recurses once per
/// operator.
pub(super) const TAG_TOKENS: usize = 4096;
/// The most `elif` in a template. The compiler recurses once per `elif`.
pub(super) const ELIFS: usize = 1000;
/// The most bytes of a string that is a product of constants, which the compiler evaluates.
pub(super) const CONSTANT_BYTES: f64 = (1 << 20) as f64;
/// The most lists that a call may unpack as its arguments. The limit on list items counts each list
/// alone.
pub(super) const UNPACKED: usize = 8;
/// The most instructions of a rendering, which bounds its time.
pub(super) const FUEL: u64 = 250_000;
/// The most bytes of plain text that a rendering may write, repetitions included.
pub(super) const RAW_BYTES: usize = 256 << 20;
/// The stack of a thread that compiles a template or renders deeply nested values, in bytes.
pub(super) const STACK_BYTES: usize = 64 << 20;

/// The most levels of nested lists and maps.
const DEPTH: usize = 32;
const ITEMS: usize = 1 << 16;
/// The most namespaces in a rendering. Namespaces may contain each other to any depth.
const NAMESPACES: usize = 512;
/// The most bytes of a string, plus four for each byte of input.
const STRING_BYTES: usize = 1 << 20;
/// The most bytes that a rendering may make or read, plus 64 for each byte of input.
const TOTAL_BYTES: usize = 64 << 20;
/// The bytes that each item of a list is charged.
const ITEM: usize = 24;

#[derive(Clone, Copy, Default)]
struct Left {
    string: usize,
    total: usize,
    namespaces: usize,
}

thread_local! {
    /// The remaining limits of this thread's rendering. They are global because filters and
    /// functions are not told which rendering calls them.
    static LEFT: Cell<Left> = Cell::default();
}

/// Calls `render` with full limits. `input` is the number of bytes that the caller passes in.
pub(super) fn within<T>(input: usize, render: impl FnOnce() -> T) -> T {
    LEFT.set(Left {
        string: STRING_BYTES.saturating_add(input.saturating_mul(4)),
        total: TOTAL_BYTES.saturating_add(input.saturating_mul(64)),
        namespaces: NAMESPACES,
    });
    let rendered = render();
    // Outside a rendering nothing may be spent.
    LEFT.set(Left::default());
    rendered
}

pub(crate) fn refusal(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Marks an error as coming from a limit; see [`is_exceeded`].
#[derive(Debug, thiserror::Error)]
#[error("beyond the limits of templates")]
struct Exceeded;

fn exceeded(message: impl Into<String>) -> Error {
    refusal(message).with_source(Exceeded)
}

/// Whether an error comes from a limit and not from the template itself.
pub(super) fn is_exceeded(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    error.kind() == ErrorKind::OutOfFuel
        || source.is_some_and(<dyn std::error::Error>::is::<Exceeded>)
}

/// Charges for `bytes` bytes that are made or read.
pub(crate) fn spend(bytes: usize) -> Result<(), Error> {
    let left = LEFT.get();
    let total = left
        .total
        .checked_sub(bytes)
        .ok_or_else(|| exceeded("makes too much text"))?;
    LEFT.set(Left { total, ..left });
    Ok(())
}

/// Charges for a string of `bytes` bytes before memory is allocated.
pub(super) fn spend_string(bytes: usize) -> Result<(), Error> {
    if bytes > LEFT.get().string {
        return Err(exceeded("makes too long a text"));
    }
    spend(bytes)
}

/// Charges for a list of `items` items before memory is allocated.
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

/// Charges for a new value and everything inside it.
pub(super) fn admit(value: Value) -> Result<Value, Error> {
    match value.as_str() {
        // A string is charged in full, because each operation makes a new one.
        Some(text) => spend_string(text.len())?,
        None => check_depth(&value, DEPTH)?,
    }
    Ok(value)
}

/// Charges for a value that is read to its end, for example by a comparison.
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
        // A list of unknown length may have no end, so counting stops at the limit.
        if items > ITEMS {
            spend_items(items)?;
        }
        let item = if is_map { value.get_item(&item)? } else { item };
        check_depth(&item, left)?;
    }
    spend(ITEM)
}

/// Returns the levels that remain inside a value; an error if none remain.
pub(super) fn deeper(left: usize) -> Result<usize, Error> {
    left.checked_sub(1)
        .ok_or_else(|| exceeded(format!("nests values more than {DEPTH} deep")))
}

/// A text that is charged for while it grows.
#[derive(Default)]
pub(crate) struct Text(String);

impl Text {
    /// The most levels of nested lists and maps that are printed.
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
