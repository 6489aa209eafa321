//! Ctrl-C: the first ends a run with what it has, the second ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// The exit code after Ctrl-C: 128 and the signal's number, as shells have it.
pub const EXIT_CODE: u8 = 130;

/// Whether Ctrl-C was pressed.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From here on the first Ctrl-C is noted, and the second ends the process.
    pub fn watch() -> Self {
        let pressed = Arc::new(AtomicBool::new(false));
        // Handlers run in this order: at the first signal the flag is not set yet. Where there can
        // be no handlers, Ctrl-C ends the process as it always does.
        let _ =
            flag::register_conditional_shutdown(SIGINT, i32::from(EXIT_CODE), Arc::clone(&pressed))
                .and_then(|_| flag::register(SIGINT, Arc::clone(&pressed)));
        Self(pressed)
    }

    /// Whether Ctrl-C was pressed.
    pub fn is_pressed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
