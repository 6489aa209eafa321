//! The sources of labels: rules that derive a step's label from one kind of fact.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A source of labels. Of several sources, the first that decides a step counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Source {
    /// The rating of the named person or, without a name, the most frequent rating. If two ratings
    /// are equally frequent, the step has no label.
    Rating(Option<String>),
    /// The counts of rollouts, which [`RolloutLabel`](crate::RolloutLabel) converts to a label.
    Rollouts,
    /// The labels of unknown origin (`right`, `soft`), and the marked first error of a chain.
    Given,
    /// The fails of the named checker or, without a name, of all checkers. The first failed step
    /// has the label 0; later steps have no label.
    Verdict(Option<String>),
    /// The passes of the named checker or, without a name, of all checkers. A passed step has the
    /// label 1.
    Pass(Option<String>),
    /// The score of the named judge or, without a name, the mean score of all judges.
    Judge {
        /// The name of a judge; `None` for the mean of all judges.
        name: Option<String>,
        /// The required certainty, from 0.5 to 1: scores between `1 - cut` and `cut` give no label.
        /// `None` accepts all scores.
        cut: Option<f64>,
        /// Whether the score is rounded to a hard label: 1 above one half, otherwise 0.
        hard: bool,
    },
    /// The chain's outcome. A right outcome labels every step 1, a wrong one labels the last step
    /// 0. No effect if an earlier source labels a step wrong.
    Outcome,
    /// A label for steps on which every number is beyond its bound: 0 for upper bounds (`<`), 1 for
    /// lower bounds (`>`).
    When {
        /// The numbers that are compared, each with its bound.
        bounds: Vec<Bound>,
        /// Whether all bounds are lower bounds, which give the label 1.
        above: bool,
    },
}

/// A bound for one number of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The number that is compared with the bound.
    pub of: Quantity,
    /// The limit, from 0 to 1. A number equal to the limit is not beyond it.
    pub bound: f64,
}

/// A number that may be recorded on a step, in `[0, 1]`.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// The share of right rollouts; rules write `V`.
    Share,
    /// The score of the named judge or, without a name, the mean score of all judges.
    Judge(Option<String>),
}

/// The message for a text that is not a source.
const ADVICE: &str = "write rating, rollouts, given, verdict, pass, judge, judge-hard or outcome (rating=NAME, \
                      verdict=CHECKER, judge=NAME:CUT), or bounds as in V<0.2&judge<0.5";

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        fn judge(rest: &str, hard: bool) -> Result<Source, String> {
            // A name may contain colons, e.g. `http://host:8080`: only a number from 0 to 1 is a
            // cut.
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

/// Reads `=NAME`; an empty text is `None`.
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
        // All numbers are shares, so a bound above 1 is an error: `V<2` would always hold.
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
