//! The flags that name checkers.

use beamgen::checkers::CHECKERS;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

/// Which checkers.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Checkers")]
pub struct CheckerFlags {
    /// Checkers that veto steps that they prove wrong: arithmetic, consistency
    ///
    /// arithmetic: equations in text and in <<3*4=12>>, exactly. consistency: a
    /// calculation that the next step gives another result. Several with commas between them, or repeated.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = checker(),
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub checker: Vec<String>,
    /// A checker of one's own: a shell command that speaks JSON lines (docs/checkers.md)
    ///
    /// May be repeated. What it does not answer, or dies on, counts as abstained from.
    #[arg(long, value_name = "CMD", hide_short_help = true)]
    pub checker_command: Vec<String>,
    /// Seconds after which a command that answers nothing is ended [default: 10]
    #[arg(long, value_name = "SECONDS", hide_short_help = true)]
    pub checker_timeout: Option<f64>,
}

fn checker() -> PossibleValuesParser {
    PossibleValuesParser::new(
        CHECKERS
            .iter()
            .map(|row| PossibleValue::new(row.name).help(row.about)),
    )
}
