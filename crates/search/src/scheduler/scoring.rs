//! Steps of all problems go to the scorer together, and equal texts once.

use std::collections::BTreeMap;

use super::Scheduler;
use super::contents::ContentId;
use super::live::{Live, Stage};
use crate::error::{ScoreError, SearchError};
use crate::event::Event;
use crate::finish::Finish;
use crate::scorer::{ScoreId, ScoreItem, Scored, StepRef};
use crate::tree::{ChainTree, NodeId, State};

/// New steps of one text, to be read after what `id` holds.
struct Request {
    index: usize,
    steps: Vec<ContentId>,
    id: ScoreId,
}

impl Scheduler<'_, '_> {
    /// Scores what waits in all problems that can do nothing else. A problem's steps gather until
    /// then: it is scored once a round, whatever else is in flight. Chains that begin alike
    /// are read in several calls, each beginning once. Returns whether there was a call.
    pub(super) fn score_ready(&mut self) -> Result<bool, SearchError> {
        if self.models.scorer.is_none() {
            return Ok(false);
        }
        let stalled = self.models.generator.active() == 0;
        let due = |live: &Live| stalled || (live.growing == 0 && live.queue.is_empty());
        let due: Vec<usize> = self
            .live
            .iter()
            .filter(|(_, live)| !live.ready.is_empty() && due(live))
            .map(|(&index, _)| index)
            .collect();
        loop {
            self.share_out(&due);
            let requests = self.gather(&due);
            if requests.is_empty() {
                break;
            }
            self.read(&requests)?;
        }
        for index in &due {
            if let Some(live) = self.live.get_mut(index) {
                if live.stage == Stage::FinalScoring {
                    live.done(&mut self.models);
                } else {
                    live.release_read(&mut self.models);
                }
            }
        }
        Ok(!due.is_empty())
    }

    /// Tells the nodes whose texts have a score.
    fn share_out(&mut self, due: &[usize]) {
        for index in due {
            let Some(live) = self.live.get_mut(index) else {
                continue;
            };
            for node in std::mem::take(&mut live.ready) {
                let content = live.resources(node).content.unwrap_or(ContentId::ROOT);
                if live.contents.score(content).is_none() {
                    live.ready.push(node);
                    continue;
                }
                live.take_scores(node, self.observe);
                if live.stage == Stage::Searching {
                    live.report(node);
                }
            }
        }
    }

    /// The next steps to read: of chains that begin alike, what they have in common.
    fn gather(&mut self, due: &[usize]) -> Vec<Request> {
        let mut requests = Vec::new();
        for &index in due {
            let Some(live) = self.live.get_mut(&index) else {
                continue;
            };
            for (from, steps) in live.beginnings() {
                let source = live.contents.handle(from);
                if let (Some(source), Some(scorer)) = (source, self.models.scorer.as_mut()) {
                    let id = scorer.fork(source);
                    if let Some(&end) = steps.last() {
                        live.contents.set_handle(end, id);
                    }
                    requests.push(Request { index, steps, id });
                }
            }
        }
        requests
    }

    fn read(&mut self, requests: &[Request]) -> Result<(), SearchError> {
        let before = self.models.clock.now();
        let items: Vec<ScoreItem<'_>> = requests
            .iter()
            .map(|request| ScoreItem {
                id: request.id,
                steps: step_refs(&self.live[&request.index], &request.steps),
            })
            .collect();
        let Some(scorer) = self.models.scorer.as_mut() else {
            return Ok(());
        };
        let scored = scorer.score(&items)?;
        drop(items);
        let seconds = self.seconds_since(before);
        if scored.len() != requests.len() {
            let what = format!("{} results for {} chains", scored.len(), requests.len());
            return Err(SearchError::BadScores(what));
        }
        self.charge(requests, &scored, seconds);
        for (request, scored) in requests.iter().zip(scored) {
            self.take_in(request, scored)?;
        }
        self.note_memory();
        let mut last = None;
        for request in requests {
            if last != Some(request.index)
                && let Some(live) = self.live.get_mut(&request.index)
            {
                live.note_memory(&self.models);
            }
            last = Some(request.index);
        }
        Ok(())
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
                for (&step, score) in request.steps.iter().zip(scored.probabilities) {
                    live.contents.set_score(step, score);
                }
            }
            // Chains that the scorer cannot read are cut short, as those the generator cannot write.
            Err(error) => {
                let finish = match error {
                    ScoreError::TooLong { .. } => Finish::ChainCap,
                    ScoreError::NoMemory { .. } => Finish::NoMemory,
                    ScoreError::Prompt(_) | ScoreError::Failed(_) => return Err(error.into()),
                };
                let handle = request.steps.last();
                let handle = handle.and_then(|&end| live.contents.take_handle(end));
                if let (Some(handle), Some(scorer)) = (handle, self.models.scorer.as_mut()) {
                    scorer.release(handle);
                }
                for node in live.take_ready_after(&request.steps) {
                    live.finish(node, finish, &mut self.models, self.observe);
                    if live.stage == Stage::Searching {
                        live.report(node);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Live {
    /// What is to be read next for the nodes that are ready: for those that go on from the same
    /// text with the same step, all that they have in common.
    fn beginnings(&self) -> Vec<(ContentId, Vec<ContentId>)> {
        let mut groups: BTreeMap<ContentId, (ContentId, Vec<ContentId>)> = BTreeMap::new();
        for &node in &self.ready {
            let content = self.resources[node.index()]
                .content
                .unwrap_or(ContentId::ROOT);
            let (from, steps) = self.contents.unread(content);
            let Some(&first) = steps.first() else {
                continue;
            };
            groups
                .entry(first)
                .and_modify(|(_, common)| {
                    let alike = common.iter().zip(&steps).take_while(|(a, b)| a == b);
                    let alike = alike.count();
                    common.truncate(alike);
                })
                .or_insert((from, steps));
        }
        groups.into_values().collect()
    }

    /// Gives a node, and the nodes above it, the scores of their texts.
    fn take_scores(&mut self, end: NodeId, observe: &mut dyn FnMut(Event<'_>)) {
        for id in self.tree.path(end) {
            let content = self.resources[id.index()]
                .content
                .unwrap_or(ContentId::ROOT);
            let node = self.tree.node(id);
            let Some(score) = self.contents.score(content) else {
                continue;
            };
            if node.state == State::Paused {
                self.tree.node_mut(id).partial_score = Some(score);
            } else if node.score.is_none() && !node.is_empty_step() {
                self.tree.node_mut(id).score = Some(score);
                observe(Event::StepScored {
                    index: self.index,
                    tree: &self.tree,
                    node: id,
                    score,
                });
            }
        }
    }

    /// Takes the ready nodes whose texts contain that of the first of `steps`.
    fn take_ready_after(&mut self, steps: &[ContentId]) -> Vec<NodeId> {
        let first = steps.first().copied();
        let ready = std::mem::take(&mut self.ready);
        let (after, others) = ready.into_iter().partition(|node| {
            let content = self.resources[node.index()]
                .content
                .unwrap_or(ContentId::ROOT);
            self.contents.unread(content).1.first().copied() == first
        });
        self.ready = others;
        after
    }
}

fn step_refs<'a>(live: &'a Live, steps: &[ContentId]) -> Vec<StepRef<'a>> {
    let tree: &ChainTree = &live.tree;
    steps
        .iter()
        .map(|&content| {
            let id = live.contents.node(content);
            let node = tree.node(id);
            StepRef {
                text: &node.text,
                tokens: match live.resources[id.index()].tokens_match_text {
                    true => &node.tokens,
                    false => &[],
                },
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
