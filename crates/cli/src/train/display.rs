//! Shows the progress of training on given examples.

use std::time::{Duration, Instant};

use beamgen_train::tune::Report;

use crate::output;
use crate::table::{grouped, thousandths};

/// The minimum time between two lines of progress.
const LINE: Duration = Duration::from_secs(20);

/// Writes a line to stderr every [`LINE`], with the mean loss since the previous line.
#[derive(Default)]
pub(super) struct Display {
    shown: Option<Instant>,
    /// The losses of the updates since the previous line.
    losses: Vec<f64>,
}

impl Display {
    pub(super) fn show(&mut self, report: &Report) {
        match report {
            Report::Note(text) => output::note(text),
            Report::Features(done, total) => {
                if self.is_due() || done == total {
                    let (done, total) = (grouped(*done as u64), grouped(*total as u64));
                    output::note(format_args!("  frozen layers: {done} of {total} tokens"));
                }
            }
            Report::Step {
                step,
                steps,
                loss,
                rate,
                tokens_per_second,
                seconds_left,
            } => {
                self.losses.push(*loss);
                // The first update shows early whether the loss is sensible; the last one shows the
                // result of the training.
                if self.is_due() || step == steps || *step == 1 {
                    let mean = self.losses.iter().sum::<f64>() / self.losses.len() as f64;
                    self.losses.clear();
                    let speed = grouped(*tokens_per_second as u64);
                    let minutes = seconds_left / 60.0;
                    output::note(format_args!(
                        "  {step}/{steps}  loss {mean:.4}  rate {rate:.2e}  {speed} tokens/s  {minutes:.1} min left"
                    ));
                }
            }
            Report::HeldOut(step, held) => {
                let mut line = format!("  after {step}: held out, loss {:.4}", held.loss);
                if let Some(judged) = held.judged {
                    line += &format!(
                        ", AUC {}, balanced accuracy {}, {:.1} % of {} labels right",
                        thousandths(judged.auc),
                        thousandths(judged.balanced_accuracy),
                        100.0 * judged.right,
                        judged.labels
                    );
                }
                output::note(line);
            }
        }
    }

    fn is_due(&mut self) -> bool {
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() > LINE);
        if is_due {
            self.shown = Some(Instant::now());
        }
        is_due
    }
}
