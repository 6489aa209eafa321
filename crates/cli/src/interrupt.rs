//! Handles signals that ask the process to end. The first signal ends a run and keeps its finished
//! problems; a second Ctrl-C or SIGQUIT ends the process at once. Also turns the signal of a file
//! size limit into an error of the write.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use beamgen::service::CancelToken;
use beamgen::{Event, ProblemResult, Request, RunSummary, Solver};
#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGQUIT, SIGXFSZ};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// The signals that end a run but keep its results. Windows has only two of these.
#[cfg(unix)]
const ENDING: &[i32] = &[SIGINT, SIGQUIT, SIGTERM, SIGHUP];
#[cfg(not(unix))]
const ENDING: &[i32] = &[SIGINT, SIGTERM];

/// The signals that a keyboard sends. A second one ends the process at once.
#[cfg(unix)]
const KEYBOARD: &[i32] = &[SIGINT, SIGQUIT];
#[cfg(not(unix))]
const KEYBOARD: &[i32] = &[SIGINT];

/// Makes a write beyond `ulimit -f` fail with an error that names the file. By default the signal
/// would end the process without a message.
pub(crate) fn survive_file_limits() {
    // If the handler cannot be registered, the default applies: the signal ends the process.
    #[cfg(unix)]
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// A record of signals that arrived. Clones share the record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    came: Arc<AtomicBool>,
    last: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Registers handlers, which record the signals from now on.
    pub(crate) fn watch() -> Self {
        let interrupt = Self::default();
        for &signal in ENDING {
            #[cfg(unix)]
            if signal == SIGHUP && !is_default(SIGHUP) {
                continue;
            }
            // If a handler cannot be registered, the signal ends the process at once.
            let _ = interrupt.note(signal);
        }
        interrupt
    }

    fn note(&self, signal: i32) -> std::io::Result<()> {
        // Handlers run in the order of registration. The shutdown comes first, so it still sees
        // `came` unset at the first signal, and ends the process only at the second one. SIGTERM
        // and SIGHUP get no shutdown, since `timeout` and a closed terminal send these twice.
        if KEYBOARD.contains(&signal) {
            let came = Arc::clone(&self.came);
            flag::register_conditional_shutdown(signal, 128 + signal, came)?;
        }
        flag::register_usize(signal, Arc::clone(&self.last), signal as usize)?;
        flag::register(signal, Arc::clone(&self.came))?;
        Ok(())
    }

    /// Whether the process was asked to end.
    pub(crate) fn is_pressed(&self) -> bool {
        self.came.load(Ordering::Relaxed)
    }

    /// Returns a token that a signal cancels.
    pub(crate) fn token(&self) -> CancelToken {
        CancelToken::from(Arc::clone(&self.came))
    }

    /// Returns the failure of an interrupted run. Its exit code is the one that shells use for the
    /// signal.
    pub(crate) fn failure(&self, line: String) -> Failure {
        let signal = match self.last.load(Ordering::Relaxed) {
            0 => SIGINT as usize,
            last => last,
        };
        Failure::Interrupted(line, 128 + signal as u8)
    }

    /// Runs requests until all are done. A signal cancels the running ones, whose results are not
    /// delivered, so that a resumed run solves them again.
    pub(crate) fn run(
        &self,
        solver: &mut Solver,
        requests: impl Iterator<Item = Request>,
        observe: &mut dyn FnMut(&Event<'_>),
        deliver: &mut dyn FnMut(ProblemResult) -> Result<(), Failure>,
    ) -> Result<RunSummary, Failure> {
        let cancel = self.token();
        let requests = requests
            .take_while(|_| !self.is_pressed())
            .map(|request| request.cancel(cancel.clone()));
        let mut failure = None;
        let summary =
            solver.run_requests(requests, &mut |event| observe(&event), &mut |result| {
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
            })?;
        failure.map_or(Ok(summary), Err)
    }
}

/// Whether a signal has its default action. `nohup` makes a process ignore SIGHUP, which a handler
/// would undo. Returns false if the system does not report the action.
#[cfg(unix)]
pub(crate) fn is_default(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 0)
}
