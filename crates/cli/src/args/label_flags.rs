//! Flags for how labels are derived from raw facts, of commands that read labelled chains.

use beamgen_labels::{LabelRule, Neutral, RolloutLabel};
use clap::{Args, ValueEnum};

/// What becomes of a [`LabelRule`].
#[derive(Args, Debug)]
#[command(next_help_heading = "Labels")]
pub struct LabelFlags {
    /// What a person's neutral rating counts as
    #[arg(long, value_enum, default_value_t = NeutralFlag::Positive)]
    pub neutral: NeutralFlag,
    /// How counts of rollouts become a label: hard, soft, above:T or ratio:R
    ///
    /// hard: right if any rollout is. soft: the share of right ones. above:T: right if that share is
    /// above T. ratio:R: right if it is at least R times that of the step before.
    #[arg(long, value_name = "RULE", default_value = "hard", value_parser = rollouts)]
    pub rollouts: RolloutLabel,
}

/// [`Neutral`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NeutralFlag {
    Positive,
    Negative,
    Drop,
    Half,
}

impl LabelFlags {
    pub fn rule(&self) -> LabelRule {
        LabelRule {
            neutral: match self.neutral {
                NeutralFlag::Positive => Neutral::Positive,
                NeutralFlag::Negative => Neutral::Negative,
                NeutralFlag::Drop => Neutral::Drop,
                NeutralFlag::Half => Neutral::Half,
            },
            rollouts: self.rollouts,
            ..LabelRule::default()
        }
    }
}

fn rollouts(text: &str) -> Result<RolloutLabel, String> {
    let number = |text: &str| {
        let number = text.parse().ok();
        number.filter(|number: &f64| (0.0..=1.0).contains(number))
    };
    let parsed = match text.split_once(':') {
        None if text == "hard" => Some(RolloutLabel::Hard),
        None if text == "soft" => Some(RolloutLabel::Soft),
        Some(("above", at)) => number(at).map(RolloutLabel::Threshold),
        Some(("ratio", at)) => number(at).map(RolloutLabel::Ratio),
        _ => None,
    };
    parsed.ok_or_else(|| "give hard, soft, above:T or ratio:R with a number from 0 to 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollout_rules_are_read() {
        assert_eq!(rollouts("soft"), Ok(RolloutLabel::Soft));
        assert_eq!(rollouts("above:0.25"), Ok(RolloutLabel::Threshold(0.25)));
        assert_eq!(rollouts("ratio:0.8"), Ok(RolloutLabel::Ratio(0.8)));
        for bad in ["", "above", "above:2", "ratio:NaN", "soft:1", "none"] {
            assert!(rollouts(bad).is_err(), "{bad}");
        }
    }
}
