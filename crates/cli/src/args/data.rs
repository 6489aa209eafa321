//! Flags of the data: which part of a data set, and which keys of a record.

use clap::Args;

/// The part of a data set from the Hub.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct PartFlags {
    /// Subset (configuration) of a data set ORG/NAME [default: `default`, or the only one]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub subset: Option<String>,
    /// Split of a data set ORG/NAME [default: `test`, or the only one]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub split: Option<String>,
}

/// The part of a data set, and the keys of problems.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct DataFlags {
    #[command(flatten)]
    pub part: PartFlags,
    /// Key of the problem's text [default: recognised]
    #[arg(long, value_name = "KEY", hide_short_help = true)]
    pub problem_key: Option<String>,
    /// Key of the reference answer [default: recognised]
    #[arg(long, value_name = "KEY", hide_short_help = true)]
    pub answer_key: Option<String>,
    /// Key of a worked solution whose boxed answer is the reference [default: recognised]
    #[arg(
        long,
        value_name = "KEY",
        hide_short_help = true,
        conflicts_with = "answer_key"
    )]
    pub solution_key: Option<String>,
}
