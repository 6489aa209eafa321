//! The rule for early stopping. A run ends if the held-out accuracy falls while the reward rises, because the policy
//! then exploits the reward.

/// The state of the rule between measurements.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Watch {
    /// The highest held-out accuracy so far; `None` before the first measurement.
    pub best: Option<f64>,
    /// The number of updates that preceded the best measurement.
    pub best_update: usize,
    /// The mean reward of the updates before the best measurement. For a measurement before the first update it is
    /// the mean up to the next measurement.
    pub best_reward: Option<f64>,
    /// The number of consecutive measurements that found [`Found::Fallen`].
    pub fallen: usize,
    /// The sum and the number of updates' rewards since the last measurement.
    pub since: (f64, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The best accuracy so far.
    Best,
    /// The accuracy is not the best, but the drop is small or the reward is not higher.
    Nothing,
    /// The accuracy is more than one standard error below the best, and the reward is higher.
    Fallen,
}

impl Watch {
    /// Records the mean reward of an update since the last measurement.
    pub(super) fn reward(&mut self, reward: f64) {
        self.since.0 += reward;
        self.since.1 += 1;
    }

    /// Judges a measurement of `accuracy` on `problems` problems after `update` updates.
    pub(super) fn measured(&mut self, accuracy: f64, problems: usize, update: usize) -> Found {
        let (sum, count) = std::mem::take(&mut self.since);
        let reward = (count > 0).then(|| sum / count as f64);
        let Some(best) = self.best.filter(|&best| accuracy <= best) else {
            self.best = Some(accuracy);
            (self.best_update, self.best_reward) = (update, reward);
            self.fallen = 0;
            return Found::Best;
        };
        let before = *self.best_reward.get_or_insert(reward.unwrap_or(f64::NAN));
        // The binomial standard error counts each problem once. The samples of a problem are not independent, so
        // counting them all would make the error too small.
        let error = (best * (1.0 - best) / problems.max(1) as f64).sqrt();
        if accuracy < best - error && reward.is_some_and(|reward| reward > before) {
            self.fallen += 1;
            return Found::Fallen;
        }
        self.fallen = 0;
        Found::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(watch: &mut Watch, reward: f64, accuracy: f64, update: usize) -> Found {
        watch.reward(reward);
        watch.measured(accuracy, 100, update)
    }

    #[test]
    fn a_fall_counts_while_the_reward_rises() {
        let mut watch = Watch::default();
        assert_eq!(measure(&mut watch, 0.2, 0.2, 0), Found::Best);
        assert_eq!(measure(&mut watch, 0.3, 0.5, 10), Found::Best);
        // Within the standard error of 0.05.
        assert_eq!(measure(&mut watch, 0.4, 0.46, 20), Found::Nothing);
        assert_eq!(measure(&mut watch, 0.4, 0.4, 30), Found::Fallen);
        assert_eq!(measure(&mut watch, 0.4, 0.3, 40), Found::Fallen);
        assert_eq!(watch.fallen, 2);
        // The reward fell, too: training goes badly, but nothing is gamed.
        assert_eq!(measure(&mut watch, 0.1, 0.3, 50), Found::Nothing);
        assert_eq!(watch.fallen, 0);
        assert_eq!((watch.best, watch.best_update), (Some(0.5), 10));
    }

    #[test]
    fn the_first_updates_stand_for_the_reward_of_the_start() {
        let mut watch = Watch::default();
        assert_eq!(watch.measured(0.5, 100, 0), Found::Best);
        assert_eq!(measure(&mut watch, -0.5, 0.2, 10), Found::Nothing);
        assert_eq!(measure(&mut watch, -0.4, 0.2, 20), Found::Fallen);
        assert_eq!(measure(&mut watch, -0.6, 0.2, 30), Found::Nothing);
    }

    #[test]
    fn equal_accuracy_keeps_the_earlier_checkpoint() {
        let mut watch = Watch::default();
        measure(&mut watch, 0.2, 0.5, 0);
        assert_eq!(measure(&mut watch, 0.9, 0.5, 10), Found::Nothing);
    }
}
