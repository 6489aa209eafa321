//! Annotation: people rate the steps of chains, and a file records the ratings.
//!
//! The file is only ever appended to. It contains each rated chain once, and after the chain an
//! [`Event`] for every change of a rating or remark. An annotation can therefore be resumed from
//! the file, and several people can share the file. [`open`](crate::open) reads the file as chains
//! with [ratings](crate::LabelledStep::ratings).

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use beamgen_eval::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::Event;
use crate::{Format, LabelledChain, LabelsError, Rated};

/// The order in which a person is shown the chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The order of the chains in their file.
    #[default]
    Given,
    /// A random order. The same seed and chains give the same order.
    Random,
    /// The chains about which a judge is least sure come first. A chain is sorted by its step whose
    /// score is nearest to one half.
    Unsure,
    /// The chains in which a judge and the rollouts disagree most come first. A chain is sorted by
    /// its largest difference between a score and a share of right rollouts.
    Apart,
    /// The wrong answers that a judge rates highest come first, sorted by the lowest score of a
    /// step (the convincing wrong answers of PRM800K).
    Convincing,
}

impl Order {
    /// All orders; help texts list them in this sequence.
    pub const ALL: [Self; 5] = [
        Self::Given,
        Self::Random,
        Self::Unsure,
        Self::Apart,
        Self::Convincing,
    ];

    /// Returns the lower-case name that command lines use.
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

    /// Returns the order that [`name`](Self::name) calls `name`, or `None`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }

    /// Describes the facts without which no chain can be sorted; error messages quote the text.
    fn facts(self) -> &'static str {
        match self {
            Self::Given | Self::Random => "none",
            Self::Unsure => "the scores of a judge",
            Self::Apart => "rollouts and the scores of a judge",
            Self::Convincing => "wrong outcomes and the scores of a judge",
        }
    }

    /// Returns the sort key of a chain: the highest comes first. `None` if the chain lacks the
    /// facts.
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

    /// Returns the indices of the chains in this order. Chains that lack the facts come last, in
    /// the given order. `None` if all chains lack the facts.
    fn sorted(self, chains: &[LabelledChain], seed: u64) -> Option<Vec<usize>> {
        let mut places: Vec<usize> = (0..chains.len()).collect();
        if self == Self::Random {
            // Each chain is hashed by its own text, so adding chains does not reorder the others.
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
            // `sort_by` is stable: chains with equal keys or without facts keep the order of the
            // file.
            places.sort_by(|&a, &b| worth[b].total_cmp(&worth[a]));
        }
        Some(places)
    }
}

/// The settings of an [`Annotation`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The name under which the file records this person's ratings.
    pub rater: String,
    /// The order in which the chains are shown.
    pub order: Order,
    /// The seed of [`Order::Random`]; the other orders ignore the seed.
    pub seed: u64,
    /// Whether a chain is done at its first wrong step, so that the steps after it need no rating.
    pub stops: bool,
}

/// An action of the person who rates. The page sends actions as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Act {
    /// Changes nothing; only asks for the current view.
    Look {},
    /// Rates the current step. The annotation then moves to the next unrated step of the chain or,
    /// if the chain is done, to the next chain that is not.
    Rate {
        /// 1 for right, 0 for neutral, -1 for wrong.
        rating: i8,
    },
    /// Sets the remark on the current step; a blank text removes the remark.
    Comment {
        /// The remark; white space at both ends is removed.
        text: String,
    },
    /// Takes back the last rating or remark since the annotation was opened.
    Undo {},
    /// Moves to a step of a chain.
    Go {
        /// The index of the chain in the order shown, from 0.
        chain: usize,
        /// The index of the step in the chain, from 0.
        #[serde(default)]
        step: usize,
    },
    /// Changes [`Options::stops`].
    Stop {
        /// Whether a chain is done at its first wrong step.
        at_first_error: bool,
    },
}

/// The state that is shown to the person. Labels and scores from elsewhere are left out, because
/// they would influence the ratings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View<'a> {
    /// The name under which ratings are recorded.
    pub rater: &'a str,
    /// The index of the current chain in the order shown, from 0.
    pub chain: usize,
    /// The number of chains to rate, after equal chains were merged.
    pub chains: usize,
    /// The number of chains that need no more ratings.
    pub done: usize,
    /// The index of the step that the next rating or remark applies to, from 0.
    pub step: usize,
    /// Whether the current chain needs no more ratings.
    pub is_done: bool,
    /// Whether a chain is done at its first wrong step.
    pub stops: bool,
    /// Whether [`Act::Undo`] has a change to take back.
    pub can_undo: bool,
    /// The problem of the current chain.
    pub problem: &'a str,
    /// The reference answer to the problem, if known.
    pub answer: Option<&'a str>,
    /// All steps of the current chain, rated or not.
    pub steps: Vec<StepView<'a>>,
}

/// A step with the rating and remark of this person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepView<'a> {
    /// The step as the generator wrote it.
    pub text: &'a str,
    /// 1 for right, 0 for neutral, -1 for wrong; `None` before the step is rated.
    pub rating: Option<i8>,
    /// The person's remark, if any.
    pub comment: Option<&'a str>,
}

/// A running annotation: the chains to rate and the file that records the ratings.
#[derive(Debug)]
pub struct Annotation {
    options: Options,
    /// The chains in the order shown.
    chains: Vec<LabelledChain>,
    /// The keys of the chains that the file contains already.
    written: HashSet<String>,
    path: PathBuf,
    file: File,
    chain: usize,
    step: usize,
    /// The changes since the annotation was opened: chain, step, and the opinion before the change.
    changes: Vec<(usize, usize, Rated)>,
}

impl Annotation {
    /// Opens or creates the file, restores this person's ratings from it, and moves to the first
    /// chain that is not done.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, if it contains something other than
    /// chains and ratings, or if no chain has the facts that the order needs.
    pub fn open(
        mut chains: Vec<LabelledChain>,
        out: &Path,
        options: Options,
    ) -> Result<Self, LabelsError> {
        let mut seen = HashSet::new();
        // The file refers to chains by key, and equal chains have the same key: keep the first.
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
            // A record that is not a chain or a rating means that this is another kind of file:
            // never append to it.
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
                        // Other people's ratings stay in the file but are not shown, since they
                        // would influence this person.
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

    /// Carries out an action and returns the new view. After an error the state is unchanged.
    ///
    /// # Errors
    /// Returns an error if the step does not exist, the rating is not 1, 0 or -1, or the file
    /// cannot be written.
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
                // The file is written first: after an error the change stays on the list and can be
                // undone again.
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

    /// Returns the state to show, after all actions so far.
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
            // Counted for each view, because [`Act::Stop`] changes which chains are done.
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
            // Steps after the current one come first, then those before it that were skipped.
            let mut places = (self.step + 1..steps).chain(0..self.step);
            let left = places.find(|&at| self.said(self.chain, at).rating.is_none());
            self.step = left.unwrap_or(self.step);
        } else if let Some(next) = self.next_left() {
            self.go(next);
        }
        Ok(())
    }

    /// Returns the next chain that is not done: first those after the current chain, then those
    /// before it.
    fn next_left(&self) -> Option<usize> {
        let mut places = (self.chain + 1..self.chains.len()).chain(0..self.chain);
        places.find(|&at| !self.is_done(at))
    }

    /// Moves to a chain, at its first unrated step; at the first step if all are rated.
    fn go(&mut self, chain: usize) {
        let steps = 0..self.chains[chain].steps.len();
        let left = steps
            .into_iter()
            .find(|&at| self.said(chain, at).rating.is_none());
        (self.chain, self.step) = (chain, left.unwrap_or(0));
    }

    /// Returns this person's opinion on a step; the empty opinion before the step is rated.
    fn said(&self, chain: usize, step: usize) -> Rated {
        let step = &self.chains[chain].steps[step];
        step.ratings
            .get(&self.options.rater)
            .cloned()
            .unwrap_or_default()
    }

    /// Whether a chain needs no more ratings: all steps are rated, or with `stops` all steps up to
    /// the first wrong one.
    fn is_done(&self, chain: usize) -> bool {
        let steps = 0..self.chains[chain].steps.len();
        let mut ratings = steps.map(|step| self.said(chain, step).rating);
        if self.options.stops {
            // Finds the first step that is unrated or wrong. The chain is done if that step is
            // wrong.
            let end = ratings.find(|rating| rating.is_none_or(|rating| rating < 0));
            end.is_none_or(|rating| rating.is_some())
        } else {
            ratings.all(|rating| rating.is_some())
        }
    }

    /// Changes the opinion on the current step. The old opinion can be restored by an undo.
    fn change(&mut self, to: Rated) -> Result<(), LabelsError> {
        let (chain, step) = (self.chain, self.step);
        let before = self.said(chain, step);
        self.write(chain, step, to)?;
        self.changes.push((chain, step, before));
        Ok(())
    }

    /// Appends an opinion to the file. The chain is written first if the file does not contain it.
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
        // Changed after the write, so that an opinion which was not recorded is never shown.
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
        // One write for all lines: the lines of several people who share the file do not mix.
        (&self.file).write_all(&lines)?;
        // A rating is a person's work and has to survive a crash of the machine.
        self.file.sync_data()
    }
}

/// Opens a file for appending and returns its contents. A crash may have left an unfinished last
/// line: that line is cut off.
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
            // Only the line break is missing, e.g. after an edit by hand.
            file.write_all(b"\n")?;
        } else {
            file.set_len(whole as u64)?;
            bytes.truncate(whole);
        }
    }
    Ok((file, bytes))
}
