//! Steps that judges are asked about, and the opinions so far.

use std::sync::Arc;

use crate::error::ScoreError;
use crate::finish::Finish;
use crate::scorer::{
    JudgeScores, Opinion, ScoreId, ScoreItem, ScoreResult, Scored, StepRef, is_probability,
};

/// A copy of a step: a judge may need it after the call that gave the step has returned.
#[derive(Debug)]
pub(super) struct OwnStep {
    text: String,
    tokens: Vec<u32>,
    pub finish: Option<Finish>,
}

impl OwnStep {
    pub(super) fn step_ref(&self) -> StepRef<'_> {
        StepRef {
            text: &self.text,
            tokens: &self.tokens,
            finish: self.finish,
        }
    }
}

/// A batch that passes from stage to stage of judges.
#[derive(Debug)]
pub(super) struct Batch {
    pub items: Vec<Item>,
    /// Whether the judges have to answer at once, without pending batches.
    pub at_once: bool,
    /// The index of the stage to be asked next.
    pub stage: usize,
    /// The number of judges that have not answered yet.
    pub waiting: usize,
    /// The error of the whole batch.
    pub failed: Option<ScoreError>,
    /// For each judge, the items that it was handed: the item's index, the number of steps before
    /// this batch that were read with it, and the steps of the item that the judge was asked about.
    pub asked: Vec<Vec<(usize, usize, Vec<usize>)>>,
}

/// The new steps of one chain, with the opinions about them.
#[derive(Debug)]
pub(super) struct Item {
    pub chain: ScoreId,
    pub steps: Vec<Arc<OwnStep>>,
    /// The opinions, by judge and step.
    opinions: Vec<Vec<Opinion>>,
    /// For each judge: tokens read, and tokens found in the cache.
    tokens: Vec<(usize, usize)>,
    flops: u64,
    again_flops: u64,
    retries: u32,
    lost_verdicts: usize,
    pub error: Option<ScoreError>,
}

impl Batch {
    pub(super) fn new(items: &[ScoreItem<'_>], judges: usize, at_once: bool) -> Self {
        Self {
            items: items.iter().map(|item| Item::new(item, judges)).collect(),
            at_once,
            stage: 0,
            waiting: 0,
            failed: None,
            asked: vec![Vec::new(); judges],
        }
    }

    /// Adds the answer of a judge to the items that the judge was asked about.
    pub(super) fn take(&mut self, judge: usize, name: &str, result: ScoreResult) {
        let asked = std::mem::take(&mut self.asked[judge]);
        let results = match result {
            Ok(results) if results.len() == asked.len() => results,
            Ok(results) => {
                let (given, chains) = (results.len(), asked.len());
                let what = format!("judge {name}: {given} results for {chains} chains");
                self.failed = Some(ScoreError::Failed(what.into()));
                return;
            }
            Err(error) => {
                let error = error.of_judge(name);
                // A lost model outweighs other failures, since it ends the run.
                if !matches!(self.failed, Some(ScoreError::Lost(_))) {
                    self.failed = Some(error);
                }
                return;
            }
        };
        for ((item, before, wanted), result) in asked.into_iter().zip(results) {
            self.items[item].take(judge, name, before, &wanted, result);
        }
    }
}

impl Item {
    fn new(item: &ScoreItem<'_>, judges: usize) -> Self {
        // The steps are copied once and shared: a judge may answer after the call has returned.
        let own = item.steps.iter().map(|step| {
            Arc::new(OwnStep {
                text: step.text.to_owned(),
                tokens: step.tokens.to_vec(),
                finish: step.finish,
            })
        });
        Self {
            chain: item.id,
            steps: own.collect(),
            opinions: vec![vec![Opinion::NotAsked; item.steps.len()]; judges],
            tokens: vec![(0, 0); judges],
            flops: 0,
            again_flops: 0,
            retries: 0,
            lost_verdicts: 0,
            error: None,
        }
    }

    /// Returns the opinions of all judges about a step.
    pub(super) fn said(&self, step: usize) -> Vec<Opinion> {
        self.opinions.iter().map(|said| said[step]).collect()
    }

    fn take(
        &mut self,
        judge: usize,
        name: &str,
        before: usize,
        wanted: &[usize],
        result: Result<Scored, ScoreError>,
    ) {
        let scored = match result {
            Ok(scored) => scored,
            Err(error) => {
                // The first error counts; judges of later stages are not asked about the item.
                self.error.get_or_insert(error.of_judge(name));
                return;
            }
        };
        // A judge returns a score for every step that it read, also for those it was not asked
        // about.
        let given = &scored.probabilities;
        let (count, steps) = (
            given.len(),
            before + wanted.last().map_or(0, |last| last + 1),
        );
        let mut values = given.iter().flatten();
        let fault = match values.find(|p| !is_probability(**p)) {
            Some(p) => format!("{p} is not a probability"),
            None if count != steps => format!("{count} scores for {steps} steps"),
            None => String::new(),
        };
        if !fault.is_empty() {
            self.error = Some(ScoreError::Failed(format!("judge {name}: {fault}").into()));
            return;
        }
        for &step in wanted {
            self.opinions[judge][step] = given[before + step].into();
        }
        self.tokens[judge] = (scored.read_tokens, scored.reused_tokens);
        self.flops = self.flops.saturating_add(scored.flops);
        self.again_flops = self.again_flops.saturating_add(scored.again_flops);
        self.retries += scored.retries;
        self.lost_verdicts += scored.lost_verdicts;
    }

    /// Returns the item's reply with the combined scores.
    pub(super) fn scored(
        self,
        probabilities: Vec<Option<f32>>,
        names: &[Arc<str>],
    ) -> Result<Scored, ScoreError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        // Quantiles of single judges have no meaning for the combined score, so there are none.
        let judges = names.iter().zip(self.opinions).zip(&self.tokens);
        let judges = judges.map(|((name, opinions), &(read, reused))| JudgeScores {
            name: Arc::clone(name),
            opinions,
            read_tokens: read,
            reused_tokens: reused,
        });
        Ok(Scored {
            probabilities,
            quantiles: Vec::new(),
            read_tokens: self.tokens.iter().map(|(read, _)| read).sum(),
            reused_tokens: self.tokens.iter().map(|(_, reused)| reused).sum(),
            flops: self.flops,
            again_flops: self.again_flops,
            retries: self.retries,
            lost_verdicts: self.lost_verdicts,
            judges: judges.collect(),
        })
    }
}
