//! Closed steps of all problems go to the scorer in one call.

use super::live::{Live, Stage};
use super::{Models, Scheduler};
use crate::error::{ScoreError, SearchError};
use crate::event::Event;
use crate::finish::Finish;
use crate::scorer::{ScoreId, ScoreItem, Scored, StepRef};
use crate::tree::{ChainTree, NodeId};

/// New steps of one chain: those of `steps`, read after what `id` holds.
struct Request {
    index: usize,
    /// The end of the chain.
    node: NodeId,
    steps: Vec<NodeId>,
    id: ScoreId,
}

impl Scheduler<'_, '_> {
    /// Scores, in one call, the closed steps of all problems that can do nothing else. A problem's
    /// steps gather until then: it is scored once a round, whatever else is in flight. Returns
    /// whether there was a call.
    pub(super) fn score_ready(&mut self) -> Result<bool, SearchError> {
        let requests = self.gather();
        if requests.is_empty() {
            return Ok(false);
        }

        let before = self.models.clock.now();
        let items: Vec<ScoreItem<'_>> = requests
            .iter()
            .map(|request| ScoreItem {
                id: request.id,
                steps: step_refs(&self.live[&request.index].tree, &request.steps),
            })
            .collect();
        let Some(scorer) = self.models.scorer.as_mut() else {
            return Ok(false);
        };
        let scored = scorer.score(&items)?;
        drop(items);
        let seconds = self.seconds_since(before);
        if scored.len() != requests.len() {
            let what = format!("{} results for {} chains", scored.len(), requests.len());
            return Err(SearchError::BadScores(what));
        }

        self.note_memory();
        self.charge(&requests, &scored, seconds);
        for (request, scored) in requests.iter().zip(scored) {
            self.take_in(request, scored)?;
        }
        for live in self.live.values_mut() {
            if live.stage == Stage::FinalScoring {
                live.done(&mut self.models);
            }
        }
        Ok(true)
    }

    /// Takes the waiting chains, each with a scorer handle of its own.
    fn gather(&mut self) -> Vec<Request> {
        let stalled = self.models.generator.active() == 0;
        let due = |live: &Live| stalled || (live.growing == 0 && live.queue.is_empty());
        let mut requests = Vec::new();
        for (&index, live) in self.live.iter_mut().filter(|(_, live)| due(live)) {
            for node in std::mem::take(&mut live.ready) {
                let (id, steps) = match live.stage {
                    Stage::FinalScoring => {
                        (fork_root(live, &mut self.models), all_steps(live, node))
                    }
                    _ => (live.fork_score(node, &mut self.models), vec![node]),
                };
                if let Some(id) = id {
                    live.held(node).score = Some(id);
                    requests.push(Request {
                        index,
                        node,
                        steps,
                        id,
                    });
                }
            }
        }
        requests
    }

    /// Books the call to the problems that took part and to the total.
    fn charge(
        &mut self,
        requests: &[Request],
        scored: &[Result<Scored, ScoreError>],
        seconds: f64,
    ) {
        let read = |scored: &Result<Scored, ScoreError>| {
            scored.as_ref().map_or((0, 0), |scored| {
                (scored.read_tokens as u64, scored.reused_tokens as u64)
            })
        };
        let all_read: u64 = scored.iter().map(|scored| read(scored).0).sum();
        let mut last = None;
        for (request, scored) in requests.iter().zip(scored) {
            let (tokens, reused) = read(scored);
            let share = match all_read {
                0 => 1.0 / requests.len() as f64,
                all => tokens as f64 / all as f64,
            };
            if let Some(live) = self.live.get_mut(&request.index) {
                live.ledger.scored_tokens += tokens;
                live.ledger.reused_tokens += reused;
                live.ledger.seconds.score += seconds * share;
                // The requests of a problem are adjacent.
                live.ledger.score_passes += u64::from(last != Some(request.index));
            }
            last = Some(request.index);
            self.summary.ledger.scored_tokens += tokens;
            self.summary.ledger.reused_tokens += reused;
        }
        self.summary.ledger.score_passes += 1;
        self.summary.ledger.seconds.score += seconds;
    }

    fn take_in(
        &mut self,
        request: &Request,
        scored: Result<Scored, ScoreError>,
    ) -> Result<(), SearchError> {
        let Some(live) = self.live.get_mut(&request.index) else {
            return Ok(());
        };
        match scored {
            Ok(scored) => {
                check(&scored.probabilities, request.steps.len())?;
                for (&node, score) in request.steps.iter().zip(scored.probabilities) {
                    live.tree.node_mut(node).score = Some(score);
                    (self.observe)(Event::StepScored {
                        index: request.index,
                        tree: &live.tree,
                        node,
                        score,
                    });
                }
            }
            // A chain that the scorer cannot read is cut short, as one the generator cannot write.
            Err(error) => {
                let finish = match error {
                    ScoreError::TooLong { .. } => Finish::ChainCap,
                    ScoreError::NoMemory { .. } => Finish::NoMemory,
                    ScoreError::Prompt(_) | ScoreError::Failed(_) => return Err(error.into()),
                };
                live.finish(request.node, finish, &mut self.models, self.observe);
            }
        }
        if live.tree.node(request.node).finish().is_some() {
            live.release_score(request.node, &mut self.models);
        }
        if live.stage == Stage::Searching {
            live.settle(request.node, &mut self.models);
        }
        Ok(())
    }
}

fn fork_root(live: &mut Live, models: &mut Models<'_>) -> Option<ScoreId> {
    let root = live.held(ChainTree::ROOT).score?;
    Some(models.scorer.as_mut()?.fork(root))
}

fn all_steps(live: &Live, node: NodeId) -> Vec<NodeId> {
    let mut path = live.tree.path(node);
    path.retain(|&id| !live.tree.node(id).is_empty_step());
    path
}

fn step_refs<'a>(tree: &'a ChainTree, steps: &[NodeId]) -> Vec<StepRef<'a>> {
    steps
        .iter()
        .map(|&id| {
            let node = tree.node(id);
            StepRef {
                text: &node.text,
                tokens: &node.tokens,
                finish: node.finish(),
            }
        })
        .collect()
}

fn check(probabilities: &[f32], steps: usize) -> Result<(), SearchError> {
    if probabilities.len() != steps {
        let what = format!("{} scores for {steps} steps", probabilities.len());
        return Err(SearchError::BadScores(what));
    }
    match probabilities.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        Some(p) => Err(SearchError::BadScores(format!("{p} is no probability"))),
        None => Ok(()),
    }
}
