//! Signals that ask the process to end: the first ends a run with what it has. A second Ctrl-C (or
//! SIGQUIT) ends the process at once. A limit on the size of files is an error of the write that
//! meets it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use beamgen::service::CancelToken;
use beamgen::{Event, ProblemResult, Request, RunSummary, Solver};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::failure::Failure;

/// A write beyond `ulimit -f` fails from here on with an error that names the file; without a
/// handler its signal ends the process without a word.
pub(crate) fn survive_file_limits() {
    // Where there can be no handlers, it ends as it always does.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Whether such a signal came, and which.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    came: Arc<AtomicBool>,
    last: Arc<AtomicUsize>,
}

impl Interrupt {
    /// From here on signals are noted.
    pub(crate) fn watch() -> Self {
        let interrupt = Self::default();
        let is_watched = |signal: &i32| *signal != SIGHUP || is_default(SIGHUP);
        for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP]
            .into_iter()
            .filter(is_watched)
        {
            // Where there can be no handlers, the signal ends the process as it always does.
            let _ = interrupt.note(signal);
        }
        interrupt
    }

    fn note(&self, signal: i32) -> std::io::Result<()> {
        // Handlers run in this order: at the first signal the flag is not set yet. A terminal that is
        // closed, and `timeout`, send the others twice.
        if signal == SIGINT || signal == SIGQUIT {
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

    /// The token of what is to end with the process.
    pub(crate) fn token(&self) -> CancelToken {
        CancelToken::from(Arc::clone(&self.came))
    }

    /// A run that was ended: one line on how to go on, and the exit code that shells have for the
    /// signal.
    pub(crate) fn failure(&self, line: String) -> Failure {
        let signal = match self.last.load(Ordering::Relaxed) {
            0 => SIGINT as usize,
            last => last,
        };
        Failure::Interrupted(line, 128 + signal as u8)
    }

    /// Runs requests until they are done or the process is asked to end, which cancels those at
    /// work. What was cancelled is not delivered: it is not done, and a resumed run does it.
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

/// Whether the process does not ignore a signal, as `nohup` has it ignore SIGHUP. Where that cannot
/// be known, the signal is left as it is.
pub(crate) fn is_default(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 0)
}
