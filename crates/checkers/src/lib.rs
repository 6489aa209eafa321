//! Checkers: programs that can prove a step of a solution wrong.
//!
//! A reward model is trained and returns a probability. A [`Checker`] proves or abstains. Its
//! [`Verdict`] on a step is [`Fail`](Verdict::Fail) if the step is provably wrong,
//! [`Pass`](Verdict::Pass) if some part of the step was verified (which does not make it a good
//! step), and otherwise [`Abstain`](Verdict::Abstain). [`CHECKERS`] lists the built-in checkers;
//! [`External`] runs the user's program.
//!
//! [`Verifiers`] judge whole chains instead of steps, by the user's programs.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod arithmetic;
mod checker;
mod consistency;
mod exact;
mod external;
mod panel;
mod scorer;
mod table;
mod verdict;
mod verifier;

pub use arithmetic::Arithmetic;
pub use checker::{CheckItem, Checker, Lost, PerStep, StepState};
pub use consistency::Consistency;
pub use exact::Exact;
pub use external::{External, ExternalConfig, ExternalError, ExternalScorer, LostSoFar};
pub use panel::{Opinion, Panel, Tally};
pub use scorer::CheckerScorer;
pub use table::{CHECKERS, Row, UnknownChecker, named};
pub use verdict::Verdict;
pub use verifier::{
    BuiltIn, LEAN, LeanConfig, LeanError, LeanVerifier, MATH, ProgramVerifier, VERIFIERS, Verifiers,
};
