//! Turns panics in libraries that parse files into errors.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether panics of this thread are caught, so that the hook prints nothing.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Calls `f`, which parses bytes that a user gave by a library that may panic.
///
/// # Errors
/// If `f` panics, nothing is printed, and the panic's message is returned.
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    // The hook is global, so it is set once and looks at the thread that panics. Panics of other
    // threads are still printed.
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                others(info);
            }
        }));
    });
    let outer = QUIET.replace(true);
    // `AssertUnwindSafe` is sound here: after a panic, callers return an error and drop what `f`
    // has changed.
    let done = panic::catch_unwind(AssertUnwindSafe(f));
    QUIET.set(outer);
    done.map_err(|payload| message(&*payload))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(caught(|| 7), Ok(7));
        assert_eq!(caught(|| panic!("no")), Err::<(), _>("no".into()));
        let index = 3;
        let error = caught(|| [1, 2][index]).unwrap_err();
        assert!(error.contains("out of bounds"), "{error}");
    }
}
