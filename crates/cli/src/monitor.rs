//! `beamgen monitor`: compares the answers of run files with those of a reference.

use std::io::{self, Write};

use anyhow::anyhow;
use beamgen_measure::monitor::{Report, Row};

use crate::args::MonitorArgs;
use crate::failure::Failure;
use crate::output;
use crate::table::{Table, counted, percent};

pub(crate) fn main(args: &MonitorArgs) -> Result<(), Failure> {
    let report = Report::read(&args.reference, &args.runs)?;
    let alarms: Vec<&str> = report.alarms().collect();
    if args.json {
        let mut line = Vec::new();
        output::json_line(&mut line, &report)?;
        io::stdout().lock().write_all(&line)?;
    } else {
        print(&report)?;
    }
    if alarms.is_empty() {
        return Ok(());
    }
    let drifted = alarms.join(", ");
    Err(Failure::Run(anyhow!(
        "the answers have drifted from the reference: {drifted}: label some of the new problems and calibrate again"
    )))
}

fn print(report: &Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut table = Table::new(&["", "reference", "now", "PSI", "bound", "KS", "bound"]);
    for row in &report.rows {
        let shown = |mean: Option<f64>| match mean {
            Some(share) if row.is_flag => percent(share),
            Some(mean) => format!("{mean:.3}"),
            None => "-".to_owned(),
        };
        let mut cells = vec![
            row.name.replace('_', " "),
            shown(row.before),
            shown(row.now),
        ];
        cells.extend(distances(row));
        table.row(cells);
    }
    table.write(&mut out)?;
    writeln!(
        out,
        "\n{} in the reference, {} now",
        counted(report.reference_searches, "search", "searches"),
        counted(report.searches, "search", "searches")
    )
}

/// Returns the cells of both statistics and their bounds; a statistic above its bound is marked.
fn distances(row: &Row) -> [String; 4] {
    let Some(drift) = row.drift else {
        return [(); 4].map(|()| "-".to_owned());
    };
    let marked = |value: f64, bound: f64| {
        let mark = if value > bound { " !" } else { "" };
        format!("{value:.3}{mark}")
    };
    [
        marked(drift.psi, drift.psi_bound),
        format!("{:.3}", drift.psi_bound),
        marked(drift.ks, drift.ks_bound),
        format!("{:.3}", drift.ks_bound),
    ]
}
