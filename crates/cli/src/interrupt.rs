//! Ctrl-C: the first ends a run with what it has, the second ends the process at once.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use beamgen::{CancelToken, Event, ProblemResult, Request, RunSummary, Solver};
use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::failure::{Failure, INTERRUPTED};

/// Whether Ctrl-C was pressed.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From here on the first Ctrl-C is noted, and the second ends the process.
    pub fn watch() -> Self {
        let pressed = Arc::new(AtomicBool::new(false));
        // Handlers run in this order: at the first signal the flag is not set yet. Where there can
        // be no handlers, Ctrl-C ends the process as it always does.
        let _ = flag::register_conditional_shutdown(
            SIGINT,
            i32::from(INTERRUPTED),
            Arc::clone(&pressed),
        )
        .and_then(|_| flag::register(SIGINT, Arc::clone(&pressed)));
        Self(pressed)
    }

    /// Whether Ctrl-C was pressed.
    pub fn is_pressed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs requests until they are done or Ctrl-C is pressed, which cancels those at work. What
    /// was cancelled is not delivered: it is not done, and a resumed run does it.
    pub fn run(
        &self,
        solver: &mut Solver,
        requests: impl Iterator<Item = Request>,
        observe: &mut dyn FnMut(&Event<'_>),
        deliver: &mut dyn FnMut(ProblemResult) -> Result<(), Failure>,
    ) -> Result<RunSummary, Failure> {
        let cancel = CancelToken::new();
        let requests = requests
            .take_while(|_| !self.is_pressed())
            .map(|request| request.cancel(cancel.clone()));
        let mut failure = None;
        let summary = solver.run_requests(
            requests,
            &mut |event| {
                if self.is_pressed() {
                    cancel.cancel();
                }
                observe(&event);
            },
            &mut |result| {
                if result.stopped.is_some() {
                    return ControlFlow::Continue(());
                }
                match deliver(result) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failure = Some(error);
                        ControlFlow::Break(())
                    }
                }
            },
        )?;
        failure.map_or(Ok(summary), Err)
    }
}
