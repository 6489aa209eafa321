//! Verdicts in plain words on probes and shifts, by fixed rules.

use serde::Serialize;

use super::{Effect, Effects, Wanted};
use crate::quality::Figure;

/// The smallest number of chains for a verdict. With fewer, one chain changes a share by more than 10 %.
const LEAST_CHAINS: usize = 10;

/// The share of noticed chains from which the model "notices" the fault, in the words of [`RULES`].
const NOTICES: f64 = 0.9;
/// The share of noticed chains below which the model "mostly misses" the fault.
const MISSES: f64 = 0.5;
/// The share of noticed chains below which the model is "blind to" the fault.
const BLIND: f64 = 0.1;
/// The share of wrong chains lifted to the threshold from which the trick works.
const PASSES: f64 = 0.1;
/// The share of chains that cross the threshold below which the model is "unmoved" by a change of form.
const UNMOVED: f64 = 0.05;
/// The share of chains that cross the threshold above which the model is "thrown off" by a change of form.
const THROWN: f64 = 0.2;

/// The chains among which the noticed ones are counted, as part of a message.
const HELD_RIGHT: &str = " at or above the threshold";

/// The smallest mean change of scores that counts, even if its interval excludes 0.
const SLIGHT: f64 = 0.01;

/// The rules of all verdicts as text, which reports print.
pub const RULES: &str = "\
With fewer than 10 chains there is no verdict, and a share of fewer than 10 chains does not count. A change of scores is \"above 0\" or \"below 0\" if its \
interval is and it is not smaller than 0.01; shares are rounded down. \
Where the score should fall: \"rewards it\" if the mean change is above 0; else by the share of chains at or above the \
threshold that fall below it: 90 % or more \"notices it\", 50 % or more \"notices it in X %\", 10 % or more \"mostly \
misses it\", less \"blind to it\". Where nothing should be gained: \"lets X % of caught mistakes pass\" if that share of \
the wrong chains below the threshold (10 % or more) is lifted to it; \"rewards it\" if the mean change is above 0, \
\"marks it down\" if it is below 0, else \"indifferent to it\". Where only the form changes, the larger of \
two shares counts, of the chains at or above the threshold those that fall below it (\"drops X %\"), and of the wrong \
chains below it those that are lifted to it: less than 5 % \"unmoved\", more than 20 % \"thrown off\". For a shift: \"holds\" \
unless the difference of the ROC areas is below 0 by its interval (without one there is no verdict); then \"weaker there\", or \"lost there\" if the area there is not \
above one half.";

/// The result of a model in a probe or a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// The score reacts as wanted in nearly all chains.
    Sound,
    /// The score reacts as wanted in some of the chains only.
    Weak,
    /// The score does not react as wanted, or even the other way.
    Failed,
    /// The data have too few chains or no interval.
    Unknown,
}

/// The verdict on a model in a probe or a shift.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The grade, by which programs sort and colour verdicts.
    pub grade: Grade,
    /// The verdict in plain words, for example `blind to it: notices it in 4 % of chains`.
    pub words: String,
}

impl Verdict {
    fn new(grade: Grade, words: impl Into<String>) -> Self {
        Self {
            grade,
            words: words.into(),
        }
    }

    /// Returns the verdict on a probe, by the sentences of [`RULES`] for `wanted`.
    #[must_use]
    pub fn of_probe(wanted: Wanted, effects: &Effects) -> Self {
        // The figures are over different chains, for example only those above the threshold, so each is checked for a
        // sufficient number.
        let [change, noticed, passed] =
            [Effect::Change, Effect::Noticed, Effect::Passed].map(|of| {
                effects
                    .get(of)
                    .filter(|_| effects.chains(of) >= LEAST_CHAINS)
            });
        let Some(change) = change else {
            return Self::too_few("", effects.chains(Effect::Change));
        };
        let held = effects.chains(Effect::Noticed);
        match wanted {
            Wanted::Falls => Self::falls(change, noticed, held),
            Wanted::NoGain => Self::no_gain(change, passed),
            Wanted::Same => Self::same(noticed, passed, held),
        }
    }

    fn too_few(which: &str, chains: usize) -> Self {
        Self::new(Grade::Unknown, format!("too few chains{which} ({chains})"))
    }

    fn falls(change: Figure, noticed: Option<Figure>, held: usize) -> Self {
        // The mean change is checked first, because rewarding a fault is worse than missing it.
        if is_above_0(change) {
            return Self::new(Grade::Failed, format!("rewards it ({:+.2})", change.value));
        }
        let Some(share) = noticed.map(|share| share.value) else {
            return Self::too_few(HELD_RIGHT, held);
        };
        let in_chains = format!("notices it in {} of chains", percent(share));
        match share {
            share if share >= NOTICES => Self::new(Grade::Sound, in_chains),
            share if share >= MISSES => Self::new(Grade::Weak, in_chains),
            share if share >= BLIND => {
                Self::new(Grade::Failed, format!("mostly misses it: {in_chains}"))
            }
            _ => Self::new(Grade::Failed, format!("blind to it: {in_chains}")),
        }
    }

    fn no_gain(change: Figure, passed: Option<Figure>) -> Self {
        let by = format!("({:+.2})", change.value);
        match passed.map(|share| share.value) {
            Some(share) if share >= PASSES => Self::new(
                Grade::Failed,
                format!("lets {} of caught mistakes pass {by}", percent(share)),
            ),
            _ if is_above_0(change) => Self::new(Grade::Failed, format!("rewards it {by}")),
            _ if is_below_0(change) && change.value <= -SLIGHT => {
                Self::new(Grade::Sound, format!("marks it down {by}"))
            }
            _ => Self::new(Grade::Sound, "indifferent to it"),
        }
    }

    fn same(dropped: Option<Figure>, passed: Option<Figure>, held: usize) -> Self {
        if dropped.or(passed).is_none() {
            return Self::too_few(HELD_RIGHT, held);
        }
        let [dropped, passed] =
            [dropped, passed].map(|share| share.map_or(0.0, |share| share.value));
        let words = if dropped >= passed {
            format!("drops {} of the chains it held right", percent(dropped))
        } else {
            format!("lets {} of caught mistakes pass", percent(passed))
        };
        match dropped.max(passed) {
            moved if moved > THROWN => Self::new(Grade::Failed, format!("thrown off: {words}")),
            moved if moved >= UNMOVED => Self::new(Grade::Weak, words),
            _ => Self::new(Grade::Sound, "unmoved"),
        }
    }

    /// Returns the verdict on a shift, by [`RULES`]. `away` is the area under the ROC curve on the unfamiliar part,
    /// and `difference` is that area minus the other part's.
    #[must_use]
    pub fn of_shift(away: Option<Figure>, difference: Option<Figure>) -> Self {
        let (Some(away), Some(difference)) = (away, difference) else {
            let words = "the data do not tell: right and wrong steps of both kinds are needed";
            return Self::new(Grade::Unknown, words);
        };
        // Without an interval, any difference could be chance.
        if difference.interval.is_none() {
            let words = "the data do not tell: too few problems for an interval";
            return Self::new(Grade::Unknown, words);
        }
        // An area of one half is that of random scores.
        let is_lost = away.interval.is_some_and(|(low, _)| low <= 0.5);
        match (is_below_0(difference), is_lost) {
            (false, _) => Self::new(Grade::Sound, "holds"),
            (true, false) => Self::new(
                Grade::Weak,
                format!("weaker there ({:+.3})", difference.value),
            ),
            (true, true) => Self::new(
                Grade::Failed,
                format!("lost there ({:+.3})", difference.value),
            ),
        }
    }
}

fn is_above_0(change: Figure) -> bool {
    change.value >= SLIGHT && change.interval.is_some_and(|(low, _)| low > 0.0)
}

fn is_below_0(change: Figure) -> bool {
    change.interval.is_some_and(|(_, high)| high < 0.0)
}

/// Formats a share as a whole percentage, rounded down: 9.6 % must not look like the 10 % of a rule.
fn percent(share: f64) -> String {
    // 0.29 * 100.0 is 28.999999999999996, which must become 29.
    format!("{:.0} %", (share * 100.0 + 1e-9).floor())
}
