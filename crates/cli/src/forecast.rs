//! The plan of a run: its bounds, its memory, and its time by a short measured pass.

use std::io::{self, Write};

use beamgen::models::MemoryPlan;
use beamgen::service::CancelToken;
use beamgen::{Forecast, Most, Request, Solver};

use crate::failure::Failure;
use crate::lost;
use crate::output;
use crate::plan;
use crate::progress;
use crate::table::{counted, grouped};

/// The estimated seconds from which on a run prints its plan.
pub(crate) const LONG: f64 = 60.0;

/// Measures a short pass, and prints the plan of a run. `most` is the bound of one search.
pub(crate) fn print(
    solver: &mut Solver,
    problems: usize,
    most: Most,
    request: &mut dyn FnMut(usize) -> Request,
    json: bool,
) -> Result<(), Failure> {
    // Signals are not handled yet, so one ends the process at once.
    let forecast = solver.forecast(problems, most, request, &CancelToken::new())?;
    lost::tell_of(solver);
    let (mut out, memory) = (io::stdout().lock(), solver.memory_plan());
    if json {
        let mut plan = serde_json::to_value(forecast).map_err(io::Error::from)?;
        plan["memory"] = memory.most().into();
        output::json_line(&mut out, &plan)?;
    } else {
        write(&mut out, &forecast, memory)?;
    }
    Ok(out.flush()?)
}

/// Writes the plan of a run.
pub(crate) fn write(
    out: &mut dyn Write,
    forecast: &Forecast,
    memory: &MemoryPlan,
) -> io::Result<()> {
    let (problems, Most { steps, tokens }) = (forecast.problems, forecast.most);
    let all = counted(problems, "problem", "problems");
    writeln!(out, "plan      {all}")?;
    let [sampled, scored] =
        [forecast.sampled, forecast.scored].map(|tokens| expected(tokens, problems));
    let [steps, tokens] = [steps, tokens].map(grouped);
    writeln!(out, "sampled   at most {tokens} tokens; about {sampled}")?;
    writeln!(out, "scored    at most {steps} steps; about {scored}")?;
    plan::write_line(out, memory)?;
    writeln!(
        out,
        "time      about {}, measured on {}",
        progress::words_of(forecast.seconds),
        counted(forecast.measured, "problem", "problems"),
    )
}

/// Formats the expected tokens of a run over `problems`, and of one of them.
fn expected(tokens: f64, problems: usize) -> String {
    let each = tokens / problems.max(1) as f64;
    let [tokens, each] = [tokens, each].map(|tokens| grouped(tokens.round() as u64));
    format!("{tokens} tokens, {each} a problem")
}
