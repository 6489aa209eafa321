//! Scores of unfinished steps, compared with the scores of the whole steps.

use beamgen::Problem;
use beamgen::eval::GivenChain;
use beamgen::eval::quality::{auc, pearson, spearman};
use beamgen::scorer::{ScoreError, ScoreId, ScoreItem, Scorer, StepRef};
use serde::Serialize;

use super::Set;
use crate::{Error, Watch};

/// The most words of a step after which its beginning is scored.
const MOST_WORDS: usize = 24;

/// The shares of a step's words for which there is a row, too.
const SHARES: [f64; 3] = [0.25, 0.5, 0.75];

/// The number of chains that are read at the same time.
const AT_ONCE: usize = 16;

/// The scores of beginnings in one set.
#[derive(Clone, Debug, Serialize)]
pub struct Partial {
    /// The name of the set.
    pub set: String,
    /// A row for each number of words.
    pub after_words: Vec<PartialRow>,
    /// A row for each share of a step's words: a quarter, a half, three quarters.
    pub at_share: Vec<PartialRow>,
}

/// The beginnings of steps at one length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartialRow {
    /// The number of words that were read, or their share of the step.
    pub read: f64,
    /// The number of steps that are longer.
    pub steps: usize,
    /// Pearson's correlation of the score with that of the whole step; `None` if one of them never changes.
    pub correlation: Option<f64>,
    /// Spearman's rank correlation of the two.
    pub rank_correlation: Option<f64>,
    /// The area under the ROC curve of the score for the step's label; `None` unless there are right and wrong steps.
    pub area: Option<f64>,
    /// The area under the ROC curve of the whole step's score, for the same steps.
    pub whole_area: Option<f64>,
}

/// A step's score after each of its cuts, and as a whole.
struct Read {
    cuts: Vec<f32>,
    whole: f32,
    label: Option<bool>,
}

/// Scores the beginnings of all steps of the sets, after each of their words up to the 24th, in the way in which a
/// search scores a paused step. A chain that the model refuses is left out.
///
/// # Errors
/// The model is lost, or the caller cancelled.
pub fn partial(
    model: &mut dyn Scorer,
    sets: &[Set],
    watch: &mut dyn Watch,
) -> Result<Vec<Partial>, Error> {
    let total = sets.iter().map(|set| set.chains.len()).sum();
    watch.begin(total, "chains", total as f64);
    let mut found = Vec::new();
    for set in sets {
        let mut reads = Vec::new();
        for (chains, rows) in set.chains.chunks(AT_ONCE).zip(set.rows.chunks(AT_ONCE)) {
            let labels: Vec<&[Option<f64>]> =
                rows.iter().map(|row| row.labels.as_slice()).collect();
            read(model, chains, &labels, watch, &mut reads)?;
            if watch.is_cancelled() {
                return Err(Error::Cancelled);
            }
        }
        found.push(Partial {
            set: set.outline.name.clone(),
            after_words: (1..=MOST_WORDS)
                .filter_map(|words| after(&reads, words))
                .collect(),
            at_share: SHARES
                .iter()
                .filter_map(|&share| at(&reads, share))
                .collect(),
        });
    }
    Ok(found)
}

/// Reads some chains step by step. All beginnings of a step are read on forks of the chain before it.
fn read(
    model: &mut dyn Scorer,
    chains: &[GivenChain],
    labels: &[&[Option<f64>]],
    watch: &mut dyn Watch,
    reads: &mut Vec<Read>,
) -> Result<(), Error> {
    let mut open: Vec<Option<ScoreId>> = Vec::new();
    for chain in chains {
        let problem = Problem::from(chain.problem.as_str());
        let opened = model.open(&problem, problem.key());
        if let Err(reason) = &opened {
            watch.refused(&chain.id, reason);
        }
        open.push(opened.ok());
    }
    let longest = chains
        .iter()
        .map(|chain| chain.steps.len())
        .max()
        .unwrap_or(0);
    for at in 0..longest {
        let mut items = Vec::new();
        let mut owners = Vec::new();
        for (number, chain) in chains.iter().enumerate() {
            let (Some(id), Some(text)) = (open[number], chain.steps.get(at)) else {
                continue;
            };
            if text.trim().is_empty() {
                continue;
            }
            let cuts = cuts(text);
            for &cut in &cuts {
                items.push(item(model.fork(id), &text[..cut]));
            }
            items.push(item(id, text));
            owners.push((number, cuts.len()));
        }
        let scored = model.score(&items);
        // The forks are read once; the chains themselves grow.
        for item in items.iter().filter(|item| !open.contains(&Some(item.id))) {
            model.release(item.id);
        }
        let mut scored = scored.map_err(Error::from)?.into_iter();
        for (number, cuts) in owners {
            let scores: Result<Vec<f32>, ScoreError> = scored
                .by_ref()
                .take(cuts + 1)
                .map(|scored| {
                    let score = scored?.probabilities.first().copied().flatten();
                    score.ok_or(ScoreError::Abstained { step: at + 1 })
                })
                .collect();
            match scores {
                Ok(mut cuts) => {
                    let whole = cuts.pop().unwrap_or_default();
                    let label = labels[number].get(at).copied().flatten();
                    let label = label.map(|right| right >= 0.5);
                    reads.push(Read { cuts, whole, label });
                }
                Err(reason) => {
                    watch.refused(&chains[number].id, &reason);
                    if let Some(id) = open[number].take() {
                        model.release(id);
                    }
                }
            }
        }
    }
    for id in open.into_iter().flatten() {
        model.release(id);
    }
    for _ in chains {
        watch.done(None);
    }
    Ok(())
}

fn item(id: ScoreId, text: &str) -> ScoreItem<'_> {
    ScoreItem {
        id,
        steps: vec![StepRef {
            text,
            tokens: &[],
            finish: None,
        }],
    }
}

/// Returns the ends of the step's words in bytes, at most [`MOST_WORDS`], without the last word's.
fn cuts(text: &str) -> Vec<usize> {
    let text = text.trim_end();
    let bytes = text.char_indices();
    let ends = bytes.filter(|&(at, c)| {
        c.is_whitespace()
            && !text[..at].ends_with(char::is_whitespace)
            && !text[..at].trim().is_empty()
    });
    ends.map(|(at, _)| at).take(MOST_WORDS).collect()
}

fn after(reads: &[Read], words: usize) -> Option<PartialRow> {
    let scores = reads
        .iter()
        .filter_map(|read| Some((*read.cuts.get(words - 1)?, read)));
    row(words as f64, scores)
}

fn at(reads: &[Read], share: f64) -> Option<PartialRow> {
    let scores = reads.iter().filter_map(|read| {
        // A step of n words has n - 1 cuts; longer ones are cut up to a bound only, so their share is of the bound.
        let words = ((read.cuts.len() + 1) as f64 * share).round() as usize;
        Some((*read.cuts.get(words.checked_sub(1)?)?, read))
    });
    row(share, scores)
}

fn row<'r>(read: f64, scores: impl Iterator<Item = (f32, &'r Read)>) -> Option<PartialRow> {
    let scores: Vec<(f32, &Read)> = scores.collect();
    let pairs: Vec<(f64, f64)> = scores
        .iter()
        .map(|(partial, read)| (f64::from(*partial), f64::from(read.whole)))
        .collect();
    let area = |score: fn(&(f32, &Read)) -> f32| {
        let labelled = scores
            .iter()
            .filter_map(|of| Some((score(of), of.1.label?, 1.0)));
        let mut labelled: Vec<(f32, bool, f64)> = labelled.collect();
        labelled.sort_by(|a, b| a.0.total_cmp(&b.0));
        auc(labelled.into_iter())
    };
    (!pairs.is_empty()).then(|| PartialRow {
        read,
        steps: pairs.len(),
        correlation: pearson(&pairs),
        rank_correlation: spearman(&pairs),
        area: area(|(partial, _)| *partial),
        whole_area: area(|(_, read)| read.whole),
    })
}

#[cfg(test)]
mod tests {
    use beamgen::scorer::{PerStep, StepScorer};
    use beamgen_labels::LabelRule;

    use super::*;

    /// Scores a step by what was read of it: a "-" is bad news, and the rest of the text is neutral.
    struct Minus;

    impl StepScorer for Minus {
        fn score(&mut self, _: &Problem, steps: &[&str]) -> Result<f32, ScoreError> {
            let step = steps.last().copied().unwrap_or_default();
            if step.contains("refuse") {
                return Err(ScoreError::Failed("it refuses".into()));
            }
            Ok(if step.contains('-') { 0.1 } else { 0.9 })
        }
    }

    #[test]
    fn words_end_where_white_space_begins() {
        assert_eq!(cuts("  a bc  d \n"), [3, 6]);
        assert_eq!(cuts("word"), [0; 0]);
        assert_eq!(cuts(&"x ".repeat(60)).len(), MOST_WORDS);
    }

    #[test]
    fn a_score_says_something_from_the_word_on_that_decides() {
        let chain = |id: usize, steps: [&str; 2], wrong: i64| serde_json::json!({"id": id.to_string(), "problem": format!("p{id}"), "steps": steps, "label": wrong});
        let lines = [
            chain(1, ["a b c d", "a b - d"], 1),
            chain(2, ["a b c d", "a b c d"], -1),
            chain(3, ["a b - d", "a b c d"], 0),
            chain(4, ["a refuse", "a b c d"], -1),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let labelled = beamgen_labels::parse(text.as_bytes(), "data", None).unwrap();
        let set = Set::new("data".to_owned(), labelled, None, &LabelRule::default()).unwrap();
        let found = partial(&mut PerStep::new(Minus), &[set], &mut ()).unwrap();
        let row = |words: usize| &found[0].after_words[words - 1];
        // Two words say nothing, the third everything. The refused chain has no row.
        assert_eq!(
            (row(2).steps, row(2).correlation, row(2).area),
            (6, None, Some(0.5))
        );
        assert_eq!(
            (row(3).correlation, row(3).rank_correlation),
            (Some(1.0), Some(1.0))
        );
        assert_eq!(row(3).area, row(3).whole_area);
        assert_eq!(found[0].after_words.len(), 3);
        let shares: Vec<f64> = found[0].at_share.iter().map(|row| row.read).collect();
        assert_eq!(shares, SHARES);
        assert_eq!(found[0].at_share[1].correlation, None);
        assert_eq!(found[0].at_share[2].correlation, Some(1.0));
    }
}
