//! A rule for labels: the origin of a step's label.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The origin of a step's label. In a list of origins the first that has a label for the step
/// counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Source {
    /// The rating of the person with this name, or the most frequent rating. If two ratings are
    /// equally frequent, the step has no label.
    Rating(Option<String>),
    /// The counts of rollouts, turned into a label by [`RolloutLabel`](crate::RolloutLabel).
    Rollouts,
    /// The labels of unknown origin, and the first errors that a source marks.
    Given,
    /// The fails of the checker with this name, or of all checkers. The first failed step is 0, and
    /// later steps have no label.
    Verdict(Option<String>),
    /// The passes of the checker with this name, or of all checkers. A passed step is 1.
    Pass(Option<String>),
    /// The score of the judge with this name, or the mean score of all judges.
    Judge {
        /// The judge's name; `None` for the mean of all.
        name: Option<String>,
        /// The least certainty, from 0.5 to 1: a score between 1 - cut and cut gives no label.
        cut: Option<f64>,
        /// Whether a score above one half becomes 1 and any other score 0.
        hard: bool,
    },
    /// The chain's outcome, unless an origin before it calls a step wrong. Every step of a right
    /// chain is 1, and the last step of a wrong chain is 0.
    Outcome,
    /// A label for steps whose numbers are all beyond their bounds: 0 below them, or 1 above them.
    When {
        /// The numbers, each with its bound.
        bounds: Vec<Bound>,
        /// Whether the numbers have to be above their bounds, which gives 1.
        above: bool,
    },
}

/// A bound for a number that is recorded on a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The number to compare.
    pub of: Quantity,
    /// The bound, from 0 to 1. An equal number is not beyond it.
    pub bound: f64,
}

/// A number that may be recorded on a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// The share of right rollouts, written `V`.
    Share,
    /// The score of the judge with this name, or the mean score of all judges.
    Judge(Option<String>),
}

/// The advice for a text that is not a rule.
const ADVICE: &str = "write rating, rollouts, given, verdict, pass, judge, judge-hard or outcome (rating=NAME, \
                      verdict=CHECKER, judge=NAME:CUT), or bounds as in V<0.2&judge<0.5";

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        fn judge(rest: &str, hard: bool) -> Result<Source, String> {
            // A name may contain colons, as the address of a server does: only a number is a cut.
            let (name, cut) = match rest.rsplit_once(':') {
                Some((name, cut)) if cut.parse::<f64>().is_ok_and(is_share) => {
                    (name, cut.parse().ok())
                }
                _ => (rest, None),
            };
            if cut.is_some_and(|cut| cut < 0.5) {
                return Err("a judge's cut is from 0.5 to 1".to_owned());
            }
            let name = named(name)?;
            Ok(Source::Judge { name, cut, hard })
        }
        if text.contains(['<', '>']) {
            return when(text);
        }
        let (kind, rest) = match text.find(['=', ':']) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        match kind {
            "rating" => Ok(Self::Rating(named(rest)?)),
            "verdict" => Ok(Self::Verdict(named(rest)?)),
            "pass" => Ok(Self::Pass(named(rest)?)),
            "judge" => judge(rest, false),
            "judge-hard" => judge(rest, true),
            "rollouts" if rest.is_empty() => Ok(Self::Rollouts),
            "given" if rest.is_empty() => Ok(Self::Given),
            "outcome" if rest.is_empty() => Ok(Self::Outcome),
            _ => Err(ADVICE.to_owned()),
        }
    }
}

fn is_share(number: f64) -> bool {
    (0.0..=1.0).contains(&number)
}

/// Reads the name after `=`; an empty text means no name.
fn named(text: &str) -> Result<Option<String>, String> {
    match text.strip_prefix('=') {
        None if text.is_empty() => Ok(None),
        Some(name) if !name.is_empty() => Ok(Some(name.to_owned())),
        _ => Err(ADVICE.to_owned()),
    }
}

fn when(text: &str) -> Result<Source, String> {
    fn bound(text: &str) -> Result<Bound, String> {
        let (of, bound) = text.rsplit_once(['<', '>']).ok_or(ADVICE)?;
        let bound = bound.parse::<f64>().ok().filter(|&bound| is_share(bound));
        // Bounds are shares, like labels: `V<2` would always hold, so it is an error.
        let of = match of.strip_prefix("judge") {
            _ if of == "V" => Quantity::Share,
            Some(name) => Quantity::Judge(named(name)?),
            None => return Err(ADVICE.to_owned()),
        };
        let bound = bound.ok_or("a bound is a number from 0 to 1")?;
        Ok(Bound { of, bound })
    }
    let above = text.contains('>');
    if above && text.contains('<') {
        return Err("bounds are all < (which gives 0) or all > (which gives 1)".to_owned());
    }
    let bounds = text.split('&').map(bound).collect::<Result<_, String>>()?;
    Ok(Source::When { bounds, above })
}

impl TryFrom<String> for Source {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Source> for String {
    fn from(source: Source) -> Self {
        source.to_string()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn named(f: &mut fmt::Formatter<'_>, kind: &str, name: &Option<String>) -> fmt::Result {
            match name {
                Some(name) => write!(f, "{kind}={name}"),
                None => f.write_str(kind),
            }
        }
        match self {
            Self::Rating(name) => named(f, "rating", name),
            Self::Rollouts => f.write_str("rollouts"),
            Self::Given => f.write_str("given"),
            Self::Verdict(name) => named(f, "verdict", name),
            Self::Pass(name) => named(f, "pass", name),
            Self::Judge { name, cut, hard } => {
                named(f, if *hard { "judge-hard" } else { "judge" }, name)?;
                cut.map_or(Ok(()), |cut| write!(f, ":{cut}"))
            }
            Self::Outcome => f.write_str("outcome"),
            Self::When { bounds, above } => {
                for (i, Bound { of, bound }) in bounds.iter().enumerate() {
                    f.write_str(if i > 0 { "&" } else { "" })?;
                    match of {
                        Quantity::Share => f.write_str("V")?,
                        Quantity::Judge(name) => named(f, "judge", name)?,
                    }
                    write!(f, "{}{bound}", if *above { ">" } else { "<" })?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        fn judge(name: &str, cut: Option<f64>) -> Result<Source, String> {
            let (name, hard) = (Some(name.to_owned()), false);
            Ok(Source::Judge { name, cut, hard })
        }
        for text in [
            "rating",
            "rating=anna",
            "rollouts",
            "given",
            "verdict",
            "verdict=arithmetic",
            "pass",
            "judge",
            "judge:0.9",
            "judge=Qwen/Qwen2.5-Math-PRM-7B:0.8",
            "judge=http://127.0.0.1:8080",
            "judge=http://127.0.0.1:8080:0.75",
            "judge-hard",
            "judge-hard=a:b",
            "outcome",
            "V<0.2&judge<0.5",
            "V>0.9",
            "judge=my-prm>0.9&judge=orm>0.8",
        ] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        assert_eq!("judge=a:b".parse(), judge("a:b", None));
        assert_eq!("judge=a:1".parse(), judge("a", Some(1.0)));
        for (text, told) in [
            ("", "write rating"),
            ("ratings", "write rating"),
            ("rating=", "write rating"),
            ("outcome=x", "write rating"),
            ("judge:0.4", "from 0.5 to 1"),
            ("V<0.2&judge>0.5", "all <"),
            ("V<2", "from 0 to 1"),
            ("V<", "from 0 to 1"),
            ("W<0.1", "write rating"),
        ] {
            let error = text.parse::<Source>().unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
