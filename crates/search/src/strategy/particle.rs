use serde::{Deserialize, Serialize};

use super::{Action, Start, Strategy, StrategySpec};
use crate::aggregation::Aggregation;
use crate::choose::Choose;
use crate::config::SearchConfig;
use crate::error::ConfigError;
use crate::stream::child_stream;
use crate::tree::{ChainTree, NodeId, State};

/// The settings of [`Particle`], a table in a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of keys")]
pub struct ParticleConfig {
    /// T of the softmax over the logits of chain scores; large values resample evenly.
    pub temperature: f32,
}

impl Default for ParticleConfig {
    fn default() -> Self {
        Self { temperature: 1.0 }
    }
}

impl ParticleConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_positive("particle.temperature", self.temperature)
    }
}

/// Particle filtering (Puri et al., <https://arxiv.org/abs/2502.01618>): N chains, resampled after
/// every step in proportion to softmax(logit(score) / T).
///
/// Complete chains are particles like the others: they are resampled, too. A chain that is not
/// resampled is dropped and gives no answer. Chains cut short by a limit are no longer particles;
/// their places go to the rest. The search ends when every place belongs to a complete chain. All
/// random numbers follow from the problem and the round.
#[derive(Debug, Clone)]
pub struct Particle {
    n: usize,
    temperature: f64,
    aggregation: Aggregation,
    strategy_seed: u64,
    round: u32,
    /// Complete particles, each with the number of places that it holds.
    complete: Vec<(NodeId, usize)>,
}

impl Particle {
    /// Makes the filter; the configuration must be valid.
    pub(super) fn of(config: &SearchConfig) -> Self {
        Self {
            n: config.n,
            temperature: f64::from(config.particle.temperature),
            aggregation: config.aggregation,
            strategy_seed: 0,
            round: 0,
            complete: Vec::new(),
        }
    }

    /// Samples N places in proportion to the weights of the particles. Returns the number of places
    /// for each of `field`.
    fn resample(&mut self, tree: &ChainTree, field: &[(NodeId, usize)]) -> Vec<usize> {
        let mut logits = Vec::with_capacity(field.len());
        for &(id, _) in field {
            let score = tree.chain_score(id, self.aggregation).unwrap_or(0.0);
            logits.push(logit(score) / self.temperature);
        }
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Exponents relative to the largest logit, whose weight is 1: the total cannot vanish.
        let mut total = 0.0;
        let weights = field.iter().zip(&logits).map(|(&(_, places), logit)| {
            total += places as f64 * (logit - most).exp();
            total
        });
        let cumulative: Vec<f64> = weights.collect();

        // Each round has its own stream, so a repeated search resamples the same particles.
        let stream = child_stream(self.strategy_seed, self.round);
        self.round += 1;
        let mut counts = vec![0; field.len()];
        for place in 0..self.n {
            let at = uniform(child_stream(stream, place as u32)) * total;
            let particle = cumulative.partition_point(|&sum| sum <= at);
            // By rounding, `at` may equal the total, which is after the last particle.
            counts[particle.min(field.len() - 1)] += 1;
        }
        counts
    }
}

/// Returns the log-odds of a probability; 0 and 1 are moved inside by 1e-6, so the result is
/// finite.
fn logit(probability: f32) -> f64 {
    const NEAR: f64 = 1e-6;
    let p = f64::from(probability).clamp(NEAR, 1.0 - NEAR);
    (p / (1.0 - p)).ln()
}

/// Returns a number in [0, 1) from 64 random bits, of which f64 can hold 53.
fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 * (0.5f64).powi(53)
}

impl Strategy for Particle {
    fn begin(&mut self, start: Start) -> Vec<Action> {
        self.strategy_seed = start.strategy_seed;
        vec![Action::expand(start.node, self.n)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        let is_open = |id: NodeId| tree.node(id).state == State::Open;
        let mut field = std::mem::take(&mut self.complete);
        let new = nodes
            .iter()
            .filter(|&&id| is_open(id) || tree.node(id).is_complete());
        // Each copy has a place, so a text sampled k times has k times the weight.
        field.extend(new.map(|&id| (id, tree.node(id).copies)));
        if !field.iter().any(|&(id, _)| is_open(id)) {
            return vec![Action::Done];
        }
        let counts = self.resample(tree, &field);
        let mut actions = Vec::new();
        for ((id, _), count) in field.into_iter().zip(counts) {
            match (count, is_open(id)) {
                (0, _) => actions.push(Action::Prune(id)),
                (count, true) => actions.push(Action::expand(id, count)),
                (count, false) => self.complete.push((id, count)),
            }
        }
        actions
    }
}

pub(super) const SPEC: StrategySpec = StrategySpec {
    rolls_out: true,
    paper: Some(("2502.01618", "https://arxiv.org/abs/2502.01618")),
    // Particles are a sample of the posterior, so their vote estimates its mode. The single best of
    // many particles is often one that the scorer overrates.
    usual_choose: Choose::Weighted,
    ..StrategySpec::new(
        "particle",
        "N particles, resampled in proportion to the odds of their scores",
        |config, _| Box::new(Particle::of(config)),
    )
};

#[cfg(test)]
mod tests {
    use super::super::sim::World;
    use super::*;
    use crate::finish::Finish;

    fn particle(n: usize, temperature: f32) -> Particle {
        Particle::of(&SearchConfig {
            n,
            particle: ParticleConfig { temperature },
            ..SearchConfig::default()
        })
    }

    /// Makes children of the root with these scores; `true` for a complete child.
    fn tree(children: &[(f32, bool)]) -> (ChainTree, Vec<NodeId>) {
        let mut tree = ChainTree::new();
        let mut ids = Vec::new();
        for &(score, complete) in children {
            let id = tree.add_child(ChainTree::ROOT);
            tree.node_mut(id).score = Some(score);
            tree.node_mut(id).state = if complete {
                State::Finished(Finish::Answer)
            } else {
                State::Open
            };
            ids.push(id);
        }
        (tree, ids)
    }

    fn count(actions: &[Action], id: NodeId) -> usize {
        let found = actions.iter().find_map(|action| match action {
            Action::Expand { node, count, .. } if *node == id => Some(*count),
            _ => None,
        });
        found.unwrap_or(0)
    }

    #[test]
    fn places_go_by_the_odds() {
        // Odds 3, 1 and 1/3, the last twice.
        let (mut tree, ids) = tree(&[(0.75, false), (0.5, false), (0.25, false)]);
        tree.node_mut(ids[2]).copies = 2;
        let n = 30_000;
        let actions = particle(n, 1.0).on_steps(&tree, &ids);
        let all = 3.0 + 1.0 + 2.0 / 3.0;
        for (id, weight) in ids.into_iter().zip([3.0, 1.0, 2.0 / 3.0]) {
            let share = count(&actions, id) as f64 / n as f64;
            // Four standard deviations of a share are below 0.012.
            assert!((share - weight / all).abs() < 0.012, "{id:?} {share}");
        }
    }

    #[test]
    fn certain_scores_stay_finite() {
        assert!(logit(1.0).is_finite() && logit(0.0).is_finite());
        let (tree, ids) = tree(&[(0.0, false), (1.0, false), (0.5, false)]);
        let actions = particle(100, 0.1).on_steps(&tree, &ids);
        assert_eq!(
            actions,
            [
                Action::Prune(ids[0]),
                Action::expand(ids[1], 100),
                Action::Prune(ids[2])
            ]
        );
        // Equal scores of 0 are resampled evenly.
        let (tree, ids) = self::tree(&[(0.0, false), (0.0, false)]);
        let actions = particle(100, 0.1).on_steps(&tree, &ids);
        assert!(ids.iter().all(|&id| count(&actions, id) > 20));
    }

    #[test]
    fn complete_particles_hold_their_places_or_lose_them() {
        let (tree, ids) = tree(&[(1.0, true), (0.0, false), (0.0, true)]);
        let mut strategy = particle(8, 1.0);
        let actions = strategy.on_steps(&tree, &ids);
        assert_eq!(actions, [Action::Prune(ids[1]), Action::Prune(ids[2])]);
        assert_eq!(strategy.complete, [(ids[0], 8)]);
        assert_eq!(particle(8, 1.0).on_steps(&tree, &ids[..1]), [Action::Done]);
    }

    #[test]
    fn draws_follow_from_the_problem_and_the_round() {
        let world = World::random(3);
        let first = world.play(&mut particle(16, 1.0));
        assert_eq!(world.play(&mut particle(16, 1.0)).actions, first.actions);
        let mut other = World::random(3);
        other.start.strategy_seed = 8;
        assert_ne!(other.play(&mut particle(16, 1.0)).actions, first.actions);
    }

    #[test]
    fn plays_to_the_end_within_n_chains() {
        for seed in 0..200 {
            let n = [8, 16, 7, 4, 1][seed as usize % 5];
            let mut world = World::random(seed);
            let played = world.play(&mut particle(n, 1.0));
            assert!(played.peak <= n && played.complete().len() <= n);
            world.token_limit = 13;
            assert!(world.play(&mut particle(n, 1.0)).grown <= 13);
        }
    }
}
