//! People rate steps: which chain comes next, what was said, and the file that keeps it.
//!
//! The file is only ever appended to. It has each chain once, with the facts that are known of it,
//! and after it an [`Event`] for all that a person says of a step. So it is resumed where it ends,
//! several people may share it, and [`open`](crate::open) reads it as chains with
//! [ratings](crate::LabelledStep::ratings).

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use beamgen_eval::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::Event;
use crate::{Format, LabelledChain, LabelledStep, LabelsError, Rated};

/// Which chains come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The order of the file.
    #[default]
    Given,
    /// An order drawn by the seed.
    Random,
    /// Chains with a step of which a judge is unsure: the nearest to one half first.
    Unsure,
    /// Chains with a step on which a judge and the rollouts differ: the furthest apart first.
    Apart,
    /// Chains with a wrong answer that a judge rates high, by their lowest score (the convincing
    /// wrong answers of PRM800K).
    Convincing,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Given,
        Self::Random,
        Self::Unsure,
        Self::Apart,
        Self::Convincing,
    ];

    /// The name on command lines.
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

    /// The order of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }

    /// The facts that it goes by.
    fn facts(self) -> &'static str {
        match self {
            Self::Given | Self::Random => "none",
            Self::Unsure => "the scores of a judge",
            Self::Apart => "rollouts and the scores of a judge",
            Self::Convincing => "wrong outcomes and the scores of a judge",
        }
    }

    /// How much a chain teaches, or nothing if its facts do not say.
    fn worth(self, chain: &LabelledChain) -> Option<f64> {
        let score = |step: &LabelledStep| step.opinion(None);
        let steps = chain.steps.iter();
        match self {
            Self::Given | Self::Random => None,
            Self::Unsure => {
                let sure = steps.filter_map(|step| Some((score(step)? - 0.5).abs()));
                sure.reduce(f64::min).map(|least| -least)
            }
            Self::Apart => {
                let apart = steps.filter_map(|step| Some((score(step)? - step.share()?).abs()));
                apart.reduce(f64::max)
            }
            Self::Convincing => {
                let scores: Option<Vec<f64>> = steps.map(score).collect();
                let lowest = scores?.into_iter().reduce(f64::min);
                lowest.filter(|_| chain.outcome == Some(false))
            }
        }
    }

    /// The places of the chains in this order; those of unknown worth are last, as they came.
    fn sorted(self, chains: &[LabelledChain], seed: u64) -> Option<Vec<usize>> {
        let mut places: Vec<usize> = (0..chains.len()).collect();
        if self == Self::Random {
            places.sort_by_cached_key(|&at| {
                let mut hash = Fingerprint::default();
                hash.field(&seed.to_le_bytes());
                hash.field(chains[at].key().as_bytes());
                hash.finish()
            });
        } else if self != Self::Given {
            let worth: Vec<Option<f64>> = chains.iter().map(|chain| self.worth(chain)).collect();
            worth.iter().flatten().next()?;
            let key = |at: usize| worth[at].unwrap_or(f64::NEG_INFINITY);
            places.sort_by(|&a, &b| key(b).total_cmp(&key(a)));
        }
        Some(places)
    }
}

/// How chains are rated.
#[derive(Clone, Debug)]
pub struct Options {
    /// The person's name.
    pub rater: String,
    /// Which chains come first.
    pub order: Order,
    /// The seed of [`Order::Random`].
    pub seed: u64,
    /// Whether a chain is done at its first wrong step.
    pub stops: bool,
}

/// A thing that a person does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Act {
    /// Looks.
    Look {},
    /// Rates the step at hand: 1 right, 0 neutral, -1 wrong. The next step is at hand then, or the
    /// next chain that is not done.
    Rate {
        /// The rating.
        rating: i8,
    },
    /// Remarks on the step at hand; an empty remark takes it back.
    Comment {
        /// The remark.
        text: String,
    },
    /// Takes the last rating or remark of this sitting back.
    Undo {},
    /// Goes to another step or chain, both from 0.
    Go {
        /// The chain's place in the order.
        chain: usize,
        /// The step.
        #[serde(default)]
        step: usize,
    },
    /// Decides whether a chain is done at its first wrong step.
    Stop {
        /// Whether it is.
        at_first_error: bool,
    },
}

/// The view of a person. It has no facts but the problem, so that ratings are the person's own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View<'a> {
    /// The person's name.
    pub rater: &'a str,
    /// The chain's place in the order, from 0.
    pub chain: usize,
    /// How many chains there are.
    pub chains: usize,
    /// How many of them are done.
    pub done: usize,
    /// The step at hand, from 0.
    pub step: usize,
    /// Whether the chain is done.
    pub is_done: bool,
    /// Whether a chain is done at its first wrong step.
    pub stops: bool,
    /// Whether there is something to undo.
    pub can_undo: bool,
    /// The problem's text.
    pub problem: &'a str,
    /// The reference answer.
    pub answer: Option<&'a str>,
    /// The steps.
    pub steps: Vec<StepView<'a>>,
}

/// A step, and what the person says of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepView<'a> {
    /// The text.
    pub text: &'a str,
    /// 1, 0 or -1.
    pub rating: Option<i8>,
    /// The remark.
    pub comment: Option<&'a str>,
}

/// Chains that a person rates, and the file that keeps the ratings.
#[derive(Debug)]
pub struct Annotation {
    options: Options,
    /// In the order in which they come.
    chains: Vec<LabelledChain>,
    /// The keys of the chains that the file has.
    written: HashSet<String>,
    path: PathBuf,
    file: File,
    chain: usize,
    step: usize,
    /// Chain, step and what was said of it before, for each change.
    changes: Vec<(usize, usize, Rated)>,
}

impl Annotation {
    /// Continues the file, or begins it. The first chain that is not done is at hand.
    ///
    /// # Errors
    /// The file cannot be read or written, or has other things in it; the chains lack the facts that
    /// the order goes by.
    pub fn open(
        mut chains: Vec<LabelledChain>,
        out: &Path,
        options: Options,
    ) -> Result<Self, LabelsError> {
        let mut seen = HashSet::new();
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
            // To a file of other things nothing is added.
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

    /// Does it, and returns what there is to see then. Nothing happens on an error.
    ///
    /// # Errors
    /// There is no such step or rating; the file cannot be written.
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

    /// Returns the view of the person.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        let chain = &self.chains[self.chain];
        let steps = chain.steps.iter().map(|step| {
            let rated = step.ratings.get(&self.options.rater);
            StepView {
                text: &step.text,
                rating: rated.and_then(|of| of.rating),
                comment: rated.and_then(|of| of.comment.as_deref()),
            }
        });
        View {
            rater: &self.options.rater,
            chain: self.chain,
            chains: self.chains.len(),
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
            let left = |&at: &usize| self.said(self.chain, at).rating.is_none();
            let steps = self.chains[self.chain].steps.len();
            let mut places = (self.step + 1..steps).chain(0..self.step);
            self.step = places.find(left).unwrap_or(self.step);
        } else if let Some(next) = self.next_left() {
            self.go(next);
        }
        Ok(())
    }

    /// The next chain that is not done.
    fn next_left(&self) -> Option<usize> {
        let mut places = (self.chain + 1..self.chains.len()).chain(0..self.chain);
        places.find(|&at| !self.is_done(at))
    }

    /// Goes to the first step of a chain without a rating.
    fn go(&mut self, chain: usize) {
        let steps = 0..self.chains[chain].steps.len();
        let left = steps
            .into_iter()
            .find(|&at| self.said(chain, at).rating.is_none());
        (self.chain, self.step) = (chain, left.unwrap_or(0));
    }

    /// The opinion of the person on a step.
    fn said(&self, chain: usize, step: usize) -> Rated {
        let step = &self.chains[chain].steps[step];
        step.ratings
            .get(&self.options.rater)
            .cloned()
            .unwrap_or_default()
    }

    /// Whether the person has said all of a chain.
    fn is_done(&self, chain: usize) -> bool {
        let steps = 0..self.chains[chain].steps.len();
        let mut ratings = steps.map(|step| self.said(chain, step).rating);
        if self.options.stops {
            let end = ratings.find(|rating| rating.is_none_or(|rating| rating < 0));
            end.is_none_or(|rating| rating.is_some())
        } else {
            ratings.all(|rating| rating.is_some())
        }
    }

    /// Changes what the person says of the step at hand.
    fn change(&mut self, to: Rated) -> Result<(), LabelsError> {
        let (chain, step) = (self.chain, self.step);
        let before = self.said(chain, step);
        self.write(chain, step, to)?;
        self.changes.push((chain, step, before));
        Ok(())
    }

    /// Appends what the person says of a step to the file, and its chain if that is not there.
    fn write(&mut self, chain: usize, step: usize, rated: Rated) -> Result<(), LabelsError> {
        let of = &self.chains[chain];
        let event = Event {
            chain: of.key(),
            step,
            rater: self.options.rater.clone(),
            rating: rated.rating,
            comment: rated.comment.clone(),
        };
        let append = || {
            let mut lines = Vec::new();
            if !self.written.contains(&event.chain) {
                serde_json::to_writer(&mut lines, of)?;
                lines.push(b'\n');
            }
            serde_json::to_writer(&mut lines, &event)?;
            lines.push(b'\n');
            // One write, so that the lines of several people do not mix.
            (&self.file).write_all(&lines)?;
            self.file.sync_data()
        };
        append().map_err(|error| LabelsError::Unwritable {
            source_name: self.path.display().to_string(),
            error,
        })?;
        self.written.insert(event.chain);
        self.chains[chain].steps[step].set_rated(&self.options.rater, rated);
        Ok(())
    }
}

/// Opens a file to append to it, with what it has. A last line that was not written to its end is
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
            file.write_all(b"\n")?;
        } else {
            file.set_len(whole as u64)?;
            bytes.truncate(whole);
        }
    }
    Ok((file, bytes))
}
