//! Annotation: people rate steps, and a file keeps the ratings.
//!
//! The file is only ever appended to. It has each chain once, with its recorded facts, and after
//! the chain an [`Event`] for every change of a rating or remark. The file can therefore be resumed
//! at its end and shared by several people, and [`open`](crate::open) reads it as chains with
//! [ratings](crate::LabelledStep::ratings).

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use beamgen_eval::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::Event;
use crate::{Format, LabelledChain, LabelsError, Rated};

/// The order in which chains are rated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The order in which the file has the chains.
    #[default]
    Given,
    /// A random order, which follows from the seed and the chains.
    Random,
    /// Chains with a step that a judge is unsure about come first, by the distance of the score
    /// from one half.
    Unsure,
    /// Chains with a step on which a judge and the rollouts differ come first, by that difference.
    Apart,
    /// Chains with a wrong answer that a judge rates high come first, by their lowest score (the
    /// convincing wrong answers of PRM800K).
    Convincing,
}

impl Order {
    /// All orders, as help texts list them.
    pub const ALL: [Self; 5] = [
        Self::Given,
        Self::Random,
        Self::Unsure,
        Self::Apart,
        Self::Convincing,
    ];

    /// Returns the name on command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Random => "random",
            Self::Unsure => "unsure",
            Self::Apart => "apart",
            Self::Convincing => "convincing",
        }
    }

    /// Returns the order with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }

    /// Returns the facts that the order needs, in words.
    fn facts(self) -> &'static str {
        match self {
            Self::Given | Self::Random => "none",
            Self::Unsure => "the scores of a judge",
            Self::Apart => "rollouts and the scores of a judge",
            Self::Convincing => "wrong outcomes and the scores of a judge",
        }
    }

    /// Returns the value of rating a chain, the higher the earlier; `None` if the facts are
    /// missing.
    fn worth(self, chain: &LabelledChain) -> Option<f64> {
        let steps = chain.steps.iter();
        match self {
            Self::Given | Self::Random => None,
            Self::Unsure => {
                let sure = steps.filter_map(|step| Some((step.opinion(None)? - 0.5).abs()));
                sure.reduce(f64::min).map(|least| -least)
            }
            Self::Apart => {
                let apart =
                    steps.filter_map(|step| Some((step.opinion(None)? - step.share()?).abs()));
                apart.reduce(f64::max)
            }
            Self::Convincing => {
                let scores: Option<Vec<f64>> = steps.map(|step| step.opinion(None)).collect();
                let lowest = scores?.into_iter().reduce(f64::min);
                lowest.filter(|_| chain.outcome == Some(false))
            }
        }
    }

    /// Returns the indices of the chains in this order; chains of unknown value come last, in the
    /// given order. `None` if no chain has the facts that the order needs.
    fn sorted(self, chains: &[LabelledChain], seed: u64) -> Option<Vec<usize>> {
        let mut places: Vec<usize> = (0..chains.len()).collect();
        if self == Self::Random {
            // Hashed by text: adding or removing other chains does not reorder the rest.
            places.sort_by_cached_key(|&at| {
                let mut hash = Fingerprint::default();
                hash.field(&seed.to_le_bytes());
                hash.field(chains[at].key().as_bytes());
                hash.finish()
            });
        } else if self != Self::Given {
            let worth: Vec<Option<f64>> = chains.iter().map(|chain| self.worth(chain)).collect();
            worth.iter().flatten().next()?;
            let worth: Vec<f64> = worth
                .into_iter()
                .map(|worth| worth.unwrap_or(f64::NEG_INFINITY))
                .collect();
            // Stable, so chains of equal or unknown value keep the order of the file.
            places.sort_by(|&a, &b| worth[b].total_cmp(&worth[a]));
        }
        Some(places)
    }
}

/// The settings of an annotation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the person who rates.
    pub rater: String,
    /// The order in which chains are rated.
    pub order: Order,
    /// The seed of [`Order::Random`], which the other orders ignore.
    pub seed: u64,
    /// Whether a chain is done at its first wrong step, so that later steps need no rating.
    pub stops: bool,
}

/// An action of the person who rates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Act {
    /// Returns the view and changes nothing.
    Look {},
    /// Rates the current step: 1 right, 0 neutral, -1 wrong. Moves to the next step without a
    /// rating, or to the next chain that is not done.
    Rate {
        /// 1 right, 0 neutral, -1 wrong.
        rating: i8,
    },
    /// Sets the remark on the current step; an empty text removes it.
    Comment {
        /// The text of the remark; white space around it is removed.
        text: String,
    },
    /// Takes back the last rating or remark of this session.
    Undo {},
    /// Moves to another step or chain; both count from 0.
    Go {
        /// The index of the chain in the order of rating.
        chain: usize,
        /// The index of the step in the chain.
        #[serde(default)]
        step: usize,
    },
    /// Sets whether a chain is done at its first wrong step.
    Stop {
        /// Whether later steps need no rating.
        at_first_error: bool,
    },
}

/// The state shown to the person. It contains no facts except the problem and its answer, so that
/// ratings are the person's own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View<'a> {
    /// The name of the person who rates.
    pub rater: &'a str,
    /// The index of the current chain in the order of rating, from 0.
    pub chain: usize,
    /// The number of chains.
    pub chains: usize,
    /// The number of chains that are done.
    pub done: usize,
    /// The index of the current step, from 0.
    pub step: usize,
    /// Whether the current chain is done.
    pub is_done: bool,
    /// Whether a chain is done at its first wrong step.
    pub stops: bool,
    /// Whether a change of this session can be taken back.
    pub can_undo: bool,
    /// The text of the problem.
    pub problem: &'a str,
    /// The reference answer, if the chain has it.
    pub answer: Option<&'a str>,
    /// The steps of the current chain.
    pub steps: Vec<StepView<'a>>,
}

/// A step with the person's opinion on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepView<'a> {
    /// The text of the step.
    pub text: &'a str,
    /// The rating: 1 right, 0 neutral, -1 wrong; `None` before the step is rated.
    pub rating: Option<i8>,
    /// The remark on the step.
    pub comment: Option<&'a str>,
}

/// A running annotation: the chains that a person rates, and the file that keeps the ratings.
#[derive(Debug)]
pub struct Annotation {
    options: Options,
    /// The chains in the order of rating.
    chains: Vec<LabelledChain>,
    /// The keys of the chains that the file contains.
    written: HashSet<String>,
    path: PathBuf,
    file: File,
    chain: usize,
    step: usize,
    /// For each change of this session: chain, step, and the opinion before it.
    changes: Vec<(usize, usize, Rated)>,
}

impl Annotation {
    /// Resumes the file or creates it, and moves to the first chain that is not done.
    ///
    /// # Errors
    /// The file cannot be read or written, or contains something else than chains and ratings; or
    /// the chains lack the facts that the order needs.
    pub fn open(
        mut chains: Vec<LabelledChain>,
        out: &Path,
        options: Options,
    ) -> Result<Self, LabelsError> {
        let mut seen = HashSet::new();
        // Ratings refer to chains by key, so of equal chains only one can be rated.
        chains.retain(|chain| seen.insert(chain.key()));
        let places: HashMap<String, usize> =
            chains.iter().map(LabelledChain::key).zip(0..).collect();
        let source_name = out.display().to_string();
        if chains.is_empty() {
            return Err(LabelsError::Empty { source_name });
        }
        let order = options.order.sorted(&chains, options.seed);
        let order = order.ok_or_else(|| LabelsError::NoFacts {
            order: options.order.name(),
            facts: options.order.facts(),
        })?;
        let (file, before) = reopen(out).map_err(|error| LabelsError::Unwritable {
            source_name: source_name.clone(),
            error,
        })?;
        let mut written = HashSet::new();
        if !before.trim_ascii().is_empty() {
            let before = crate::parse(&before[..], &source_name, Some(Format::own()))?;
            // A file with other contents is not an annotation: nothing is appended to it.
            if let Some(first) = before.rejected.into_iter().next() {
                return Err(LabelsError::NoneUsable {
                    source_name,
                    place: first.place,
                    reason: first.reason,
                    others: 0,
                });
            }
            for before in before.chains {
                let key = before.key();
                if let Some(&at) = places.get(&key) {
                    for (step, before) in chains[at].steps.iter_mut().zip(&before.steps) {
                        // Ratings of other people stay in the file but are not shown: they would
                        // influence this person.
                        let rated = before.ratings.get(&options.rater).cloned();
                        step.set_rated(&options.rater, rated.unwrap_or_default());
                    }
                }
                written.insert(key);
            }
        }
        let mut waiting: Vec<Option<LabelledChain>> = chains.into_iter().map(Some).collect();
        let mut annotation = Self {
            chains: order.iter().filter_map(|&at| waiting[at].take()).collect(),
            options,
            written,
            path: out.to_owned(),
            file,
            chain: 0,
            step: 0,
            changes: Vec::new(),
        };
        let first = (0..annotation.chains.len()).find(|&at| !annotation.is_done(at));
        annotation.go(first.unwrap_or(0));
        Ok(annotation)
    }

    /// Carries out an action and returns the new view. On an error nothing changes.
    ///
    /// # Errors
    /// The step or the rating does not exist, or the file cannot be written.
    pub fn act(&mut self, act: Act) -> Result<View<'_>, LabelsError> {
        match act {
            Act::Look {} => {}
            Act::Rate { rating } => self.rate(rating)?,
            Act::Comment { text } => {
                let text = text.trim();
                let comment = (!text.is_empty()).then(|| text.to_owned());
                let rating = self.said(self.chain, self.step).rating;
                self.change(Rated { rating, comment })?;
            }
            Act::Undo {} => {
                // Written first: if that fails, the change stays and can be undone again.
                if let Some((chain, step, before)) = self.changes.last().cloned() {
                    self.write(chain, step, before)?;
                    self.changes.pop();
                    (self.chain, self.step) = (chain, step);
                }
            }
            Act::Go { chain, step } => {
                let steps = self.chains.get(chain).map(|chain| chain.steps.len());
                if steps.is_none_or(|steps| step >= steps) {
                    return Err(LabelsError::NoStep { chain, step });
                }
                (self.chain, self.step) = (chain, step);
            }
            Act::Stop { at_first_error } => self.options.stops = at_first_error,
        }
        Ok(self.view())
    }

    /// Returns what the person sees, after all actions so far.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        let chain = &self.chains[self.chain];
        let steps = chain.steps.iter().map(|step| {
            let rated = step.ratings.get(&self.options.rater);
            StepView {
                text: &step.text,
                rating: rated.and_then(|rated| rated.rating),
                comment: rated.and_then(|rated| rated.comment.as_deref()),
            }
        });
        View {
            rater: &self.options.rater,
            chain: self.chain,
            chains: self.chains.len(),
            // Counted again for each view: other settings of `stops` change which chains are done.
            done: (0..self.chains.len())
                .filter(|&at| self.is_done(at))
                .count(),
            step: self.step,
            is_done: self.is_done(self.chain),
            stops: self.options.stops,
            can_undo: !self.changes.is_empty(),
            problem: &chain.problem,
            answer: chain.answer.as_deref(),
            steps: steps.collect(),
        }
    }

    fn rate(&mut self, rating: i8) -> Result<(), LabelsError> {
        if !(-1..=1).contains(&rating) {
            return Err(LabelsError::NoRating { rating });
        }
        let comment = self.said(self.chain, self.step).comment;
        let rating = Some(rating);
        self.change(Rated { rating, comment })?;
        if !self.is_done(self.chain) {
            let steps = self.chains[self.chain].steps.len();
            // Onwards from the current step and then from the start, so that skipped steps come up
            // again.
            let mut places = (self.step + 1..steps).chain(0..self.step);
            let left = places.find(|&at| self.said(self.chain, at).rating.is_none());
            self.step = left.unwrap_or(self.step);
        } else if let Some(next) = self.next_left() {
            self.go(next);
        }
        Ok(())
    }

    /// Returns the next chain that is not done, searching on from the current chain.
    fn next_left(&self) -> Option<usize> {
        let mut places = (self.chain + 1..self.chains.len()).chain(0..self.chain);
        places.find(|&at| !self.is_done(at))
    }

    /// Moves to the first step of a chain without a rating.
    fn go(&mut self, chain: usize) {
        let steps = 0..self.chains[chain].steps.len();
        let left = steps
            .into_iter()
            .find(|&at| self.said(chain, at).rating.is_none());
        (self.chain, self.step) = (chain, left.unwrap_or(0));
    }

    /// Returns the opinion of the person on a step.
    fn said(&self, chain: usize, step: usize) -> Rated {
        let step = &self.chains[chain].steps[step];
        step.ratings
            .get(&self.options.rater)
            .cloned()
            .unwrap_or_default()
    }

    /// Whether the person has rated as much of a chain as the settings ask for.
    fn is_done(&self, chain: usize) -> bool {
        let steps = 0..self.chains[chain].steps.len();
        let mut ratings = steps.map(|step| self.said(chain, step).rating);
        if self.options.stops {
            // The chain ends at its first wrong step; a gap before that step means that it is not
            // done.
            let end = ratings.find(|rating| rating.is_none_or(|rating| rating < 0));
            end.is_none_or(|rating| rating.is_some())
        } else {
            ratings.all(|rating| rating.is_some())
        }
    }

    /// Changes the opinion on the current step, and records the old one for undo.
    fn change(&mut self, to: Rated) -> Result<(), LabelsError> {
        let (chain, step) = (self.chain, self.step);
        let before = self.said(chain, step);
        self.write(chain, step, to)?;
        self.changes.push((chain, step, before));
        Ok(())
    }

    /// Appends the opinion on a step to the file, after its chain if the file lacks it.
    fn write(&mut self, chain: usize, step: usize, rated: Rated) -> Result<(), LabelsError> {
        let labelled = &self.chains[chain];
        let event = Event {
            chain: labelled.key(),
            step,
            rater: self.options.rater.clone(),
            rating: rated.rating,
            comment: rated.comment.clone(),
        };
        let appended = self.append(labelled, &event);
        appended.map_err(|error| LabelsError::Unwritable {
            source_name: self.path.display().to_string(),
            error,
        })?;
        self.written.insert(event.chain);
        // Memory follows the file: an opinion that was not written is not shown as recorded.
        self.chains[chain].steps[step].set_rated(&self.options.rater, rated);
        Ok(())
    }

    fn append(&self, chain: &LabelledChain, event: &Event) -> io::Result<()> {
        let mut lines = Vec::new();
        if !self.written.contains(&event.chain) {
            serde_json::to_writer(&mut lines, chain)?;
            lines.push(b'\n');
        }
        serde_json::to_writer(&mut lines, event)?;
        lines.push(b'\n');
        // A single write, so that the lines of several people do not mix.
        (&self.file).write_all(&lines)?;
        // A rating is a person's work: it must survive a crash of the machine.
        self.file.sync_data()
    }
}

/// Opens a file for appending and returns its contents. A last line that was only partly written is
/// cut off.
fn reopen(path: &Path) -> io::Result<(File, Vec<u8>)> {
    let mut file = beamgen_files::append(path)?;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let whole = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    if whole < bytes.len() {
        if serde_json::from_slice::<Value>(&bytes[whole..]).is_ok() {
            // The line is whole except for its end: a person may have edited the file.
            file.write_all(b"\n")?;
        } else {
            file.set_len(whole as u64)?;
            bytes.truncate(whole);
        }
    }
    Ok((file, bytes))
}
