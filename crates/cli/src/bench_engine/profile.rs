//! The account of a pass: each operation's time next to the least that the machine needs.

use beamgen::models::Work;
use beamgen::program::{DecodeBench, MachineRates, Phase};
use serde_json::{Value, json};

use super::rounded;
use crate::table::Table;

/// The time and work of one operation in an average pass.
struct Line {
    name: &'static str,
    calls: f64,
    seconds: f64,
    work: Work,
    /// The least time, by the roofline.
    least: f64,
}

/// The operations of an average pass, and the whole pass.
pub(super) struct Profile {
    lines: Vec<Line>,
    seconds: f64,
}

/// Returns the number of passes of the prompt and of decoding in all runs.
pub(super) fn passes(point: &DecodeBench) -> [usize; 2] {
    [point.repeat, point.repeat * point.new]
}

impl Profile {
    pub(super) fn new(phase: &Phase, passes: usize, rates: &MachineRates) -> Self {
        let passes = passes as f64;
        let lines = phase.account.entries().map(|(operation, entry)| Line {
            name: operation.name(),
            calls: entry.calls as f64 / passes,
            seconds: entry.time.as_secs_f64() / passes,
            work: entry.work.over(passes),
            least: entry.work.least_seconds(rates) / passes,
        });
        Self {
            lines: lines.collect(),
            seconds: phase.seconds / passes,
        }
    }

    /// Returns the time that no operation accounts for: sampling, and the rows' bookkeeping.
    fn rest(&self) -> f64 {
        self.seconds - self.lines.iter().map(|line| line.seconds).sum::<f64>()
    }

    /// Returns the least time of all operations.
    fn least(&self) -> f64 {
        self.lines.iter().map(|line| line.least).sum()
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(&[
            "operation",
            "calls",
            "ms a pass",
            "share",
            "GB/s",
            "GOP/s",
            "least ms",
            "of the roofline",
        ]);
        let share = |part: f64, whole: f64| format!("{:.0} %", 100.0 * part / whole);
        for line in &self.lines {
            table.row(vec![
                line.name.to_owned(),
                format!("{:.0}", line.calls),
                format!("{:.3}", 1e3 * line.seconds),
                share(line.seconds, self.seconds),
                format!("{:.1}", line.work.bytes / line.seconds / 1e9),
                format!("{:.1}", line.work.operations() / line.seconds / 1e9),
                format!("{:.3}", 1e3 * line.least),
                share(line.least, line.seconds),
            ]);
        }
        let least = self.least();
        let least = [format!("{:.3}", 1e3 * least), share(least, self.seconds)];
        for (name, seconds, [least, of_roofline]) in [
            ("sampling and the rest", self.rest(), Default::default()),
            ("whole pass", self.seconds, least),
        ] {
            table.row(vec![
                name.to_owned(),
                String::new(),
                format!("{:.3}", 1e3 * seconds),
                share(seconds, self.seconds),
                String::new(),
                String::new(),
                least,
                of_roofline,
            ]);
        }
        table
    }

    pub(super) fn json(&self) -> Value {
        let lines = self.lines.iter().map(|line| {
            json!({
                "operation": line.name,
                "calls": line.calls,
                "ms": rounded(1e6 * line.seconds) / 1e3,
                "bytes": line.work.bytes,
                "operations": line.work.operations(),
                "least_ms": rounded(1e6 * line.least) / 1e3,
            })
        });
        json!({
            "ms": rounded(1e6 * self.seconds) / 1e3,
            "least_ms": rounded(1e6 * self.least()) / 1e3,
            "operations": lines.collect::<Vec<_>>(),
        })
    }
}
