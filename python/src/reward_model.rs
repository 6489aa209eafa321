//! A reward model without a generator, for given steps.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use beamgen::program::QuantileReader;
use beamgen::scorer::{ExactScorer, Scorer, ScorerKind, score_chains};
use beamgen::{Config, Error};
use pyo3::prelude::*;

use crate::download::{self, News};
use crate::errors;
use crate::load;
use crate::lock::lock;
use crate::wait::{self, Told};
use crate::wanted::{Base, Wanted};

/// See the file.
#[pyclass(frozen, module = "beamgen._beamgen")]
#[derive(Clone)]
pub struct RewardModel {
    pub model: Arc<Mutex<Box<dyn Scorer + Send>>>,
    pub config: Config,
    is_bundled: bool,
}

impl RewardModel {
    /// Returns the configuration for scoring without a search.
    pub fn config(wanted: &Wanted) -> Result<Config, Error> {
        let mut config = Base::of(wanted, false)?.config;
        if !(config.models.judges.is_empty() && config.checkers.is_empty()) {
            let line = "a reward model scores without judges and checkers: leave them out, or use the score method \
                        of a solver with them";
            return Err(Error::Refused(line.into()));
        }
        // Settings for a search may turn the scorer off, but a reward model is always needed here.
        if config.models.scorer == ScorerKind::None {
            config.models.scorer = ScorerKind::Prm;
        }
        Ok(config)
    }

    /// Loads a model whose hidden states `observer` gets. Returns it with the fingerprint of its
    /// files, and whether it is bundled.
    pub fn observed<T: 'static>(
        config: Config,
        observer: QuantileReader,
        tell: Sender<Told<News, T>>,
    ) -> Result<(Box<dyn Scorer + Send>, String, bool), Error> {
        let builder = download::attach(load::builder(config)?, tell)?;
        let mut prepared = builder.prepare_reward_model()?;
        prepared.observe_hidden(observer);
        let fingerprint = prepared.prm_fingerprint().unwrap_or_default().to_owned();
        let is_bundled = prepared.has_bundled();
        Ok((prepared.reward_model()?, fingerprint, is_bundled))
    }

    pub fn load<T: 'static>(config: Config, tell: Sender<Told<News, T>>) -> Result<Self, Error> {
        let (model, is_bundled): (Box<dyn Scorer + Send>, _) =
            if config.models.scorer == ScorerKind::Exact {
                (Box::new(ExactScorer::default()), true)
            } else {
                let builder = download::attach(load::builder(config.clone())?, tell)?;
                let mut prepared = builder.prepare_reward_model()?;
                let is_bundled = prepared.has_bundled();
                (prepared.reward_model()?, is_bundled)
            };
        Ok(Self {
            model: Arc::new(Mutex::new(model)),
            config,
            is_bundled,
        })
    }
}

#[pymethods]
impl RewardModel {
    /// Loads the model; `download` is called as for an `Engine`.
    #[new]
    fn new(py: Python<'_>, wanted: &str, download: Option<Py<PyAny>>) -> PyResult<Self> {
        let wanted = Wanted::read(wanted)?;
        let load = move |tell| Self::load(Self::config(&wanted)?, tell);
        let hear = |news| download::hear(py, download.as_ref(), news);
        let loaded = wait::run(py, load, hear)?;
        loaded.map_err(|error| errors::from_library(&error))
    }

    /// Returns the score of each step, which is the probability that the step is right.
    fn score(&self, py: Python<'_>, problem: String, steps: Vec<String>) -> PyResult<Vec<f32>> {
        let model = Arc::clone(&self.model);
        let score = move |_| {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            let scored = score_chains(&mut **lock(&model), &[(&problem, &steps)])?;
            scored.into_iter().next().unwrap_or_else(|| Ok(Vec::new()))
        };
        let scored = wait::run::<(), _>(py, score, Ok)?;
        scored.map_err(|error| errors::from_scorer(&error))
    }

    /// Whether the model is bundled and does not know this kind of problem. Its scores then mean
    /// nothing.
    pub fn is_foreign(&self, problem: &str) -> bool {
        self.is_bundled && !beamgen::bundled::knows(problem)
    }
}
