//! The solver: two models, one search.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use beamgen_checkers::{Lost, LostSoFar};
use beamgen_engine::Compute;
use beamgen_eval::calibrate::{Calibration, PolicyName, RiskCurve};
use beamgen_search::{
    Answers, Callbacks, Clock, Event, Generator, Intake, Models, Problem, ProblemResult,
    RequestList, RunSummary, Scorer, Settings, Sink,
};
use serde_json::{Map, Value};

use crate::calibrated::{ScoreAs, mismatches};
use crate::config::{Defaults, ScorerKind};
use crate::long_texts::TextLimits;
use crate::request::Request;
use crate::soundness::{Audited, Auditor};
use crate::{Config, Error};

/// Solves problems by step-wise search: a generator, a scorer, and the search between them.
///
/// Both models' caches belong to the solver and are empty between runs. It can be moved to another
/// thread; runs take it by `&mut`, for one thread drives the models.
pub struct Solver {
    pub(crate) config: Config,
    pub(crate) generator: Box<dyn Generator + Send>,
    pub(crate) scorer: Option<Box<dyn Scorer + Send>>,
    pub(crate) answers: Box<dyn Answers + Send>,
    pub(crate) models: Map<String, Value>,
    pub(crate) notes: Vec<String>,
    pub(crate) compute: Compute,
    pub(crate) has_bundled: bool,
    pub(crate) has_chat_template: bool,
    pub(crate) limits: TextLimits,
    pub(crate) effective: Map<String, Value>,
    /// By checker that is a command.
    pub(crate) lost: Vec<(String, LostSoFar)>,
    #[cfg(feature = "remote")]
    pub(crate) served: Vec<(
        &'static str,
        Arc<beamgen_remote::Connection>,
        beamgen_remote::ServerFacts,
    )>,
}

impl Solver {
    /// The settings as they act.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Notes for the user so far, a line each: what a checkpoint asks for and does not get,
    /// weights that are shared, a hub that was not asked, what a device lost in a run.
    pub fn notes(&self) -> Vec<String> {
        let noted = self.notes.iter().cloned();
        noted.chain(self.compute.note()).collect()
    }

    /// Whether one of the models is bundled: it knows the problems of [the bundled
    /// world](crate::bundled) only.
    pub fn has_bundled(&self) -> bool {
        self.has_bundled
    }

    /// Whether the generator's prompt has a place for a system message: its checkpoint has a chat
    /// template. A generator of one's own is taken to have none.
    pub fn has_chat_template(&self) -> bool {
        self.has_chat_template
    }

    /// Whether there is a scorer.
    pub fn has_scorer(&self) -> bool {
        self.scorer.is_some()
    }

    /// Whether a problem is foreign to a bundled model that this solver has
    /// ([`bundled::knows`](crate::bundled::knows)): its result will mean nothing.
    pub fn is_foreign(&self, problem: &Problem) -> bool {
        self.has_bundled && !crate::bundled::knows(&problem.with_context())
    }

    /// The settings of a search unless its request says otherwise.
    pub fn settings(&self) -> Settings {
        self.config.settings()
    }

    /// A problem with this solver's own settings, to be changed as wanted.
    pub fn request(&self, problem: impl Into<Problem>) -> Request {
        Request::new(problem, self.settings())
    }

    /// Solves one problem: a text or a [`Problem`] with the solver's own settings, or a [`Request`].
    /// With bundled models, see [`is_foreign`](Self::is_foreign).
    ///
    /// # Errors
    /// The problem is refused (longer than the generator's context, say), or a model fails.
    pub fn solve(&mut self, request: impl IntoRequest) -> Result<ProblemResult, Error> {
        let request = request.into_request(self);
        request.settings.validate()?;
        let mut solved = None;
        self.run_requests([request], &mut |_| {}, &mut |result| {
            solved = Some(result);
            ControlFlow::Continue(())
        })?;
        let result = solved.ok_or_else(|| Error::Refused("the search gave no result".into()))?;
        match result.error {
            Some(reason) => Err(Error::Refused(reason.into())),
            None => Ok(result),
        }
    }

    /// Solves many problems together, which fills the forward passes. Results come as soon as they
    /// are there, with their position in the input; a refused problem's result has its `error` set
    /// and stops nothing.
    ///
    /// # Errors
    /// A model fails.
    pub fn solve_all(
        &mut self,
        problems: impl IntoIterator<Item = Problem>,
        mut each: impl FnMut(ProblemResult),
    ) -> Result<RunSummary, Error> {
        self.run(problems, &mut |_| {}, &mut |result| {
            each(result);
            ControlFlow::Continue(())
        })
    }

    /// The streaming form: `observe` sees every step close, get its score, go on or be pruned;
    /// `deliver` takes the results and may stop the run. Problems are pulled as there is room for
    /// them.
    ///
    /// # Errors
    /// A model fails.
    pub fn run(
        &mut self,
        problems: impl IntoIterator<Item = Problem>,
        observe: &mut dyn FnMut(Event<'_>),
        deliver: &mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
    ) -> Result<RunSummary, Error> {
        self.config.search.build(self.scorer.is_some())?;
        let defaults = Arc::new(self.settings());
        let requests = problems
            .into_iter()
            .map(|problem| beamgen_search::Request::new(problem, Arc::clone(&defaults)));
        self.run_all(requests, observe, deliver)
    }

    /// [`run`](Self::run) for requests with settings of their own, side by side in the same
    /// batches. A request that cannot be run has its reason in its result.
    ///
    /// # Errors
    /// A model is lost.
    pub fn run_requests(
        &mut self,
        requests: impl IntoIterator<Item = Request>,
        observe: &mut dyn FnMut(Event<'_>),
        deliver: &mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
    ) -> Result<RunSummary, Error> {
        let defaults = self.defaults();
        let mut last: Option<(Settings, Arc<Settings>)> = None;
        let requests = requests.into_iter().map(move |request| {
            let resolved = match &last {
                Some((given, resolved)) if *given == request.settings => Arc::clone(resolved),
                _ => {
                    let resolved = Arc::new(defaults.resolve(request.settings.clone()));
                    last = Some((request.settings.clone(), Arc::clone(&resolved)));
                    resolved
                }
            };
            request.for_search(resolved, Duration::ZERO)
        });
        self.run_all(requests, observe, deliver)
    }

    fn run_all(
        &mut self,
        requests: impl Iterator<Item = beamgen_search::Request>,
        observe: &mut dyn FnMut(Event<'_>),
        deliver: &mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
    ) -> Result<RunSummary, Error> {
        let mut intake = RequestList(requests);
        let mut sink = Callbacks { observe, deliver };
        self.serve(WallClock::start(), &mut intake, &mut sink)
    }

    pub(crate) fn serve(
        &mut self,
        clock: WallClock,
        intake: &mut dyn Intake,
        sink: &mut dyn Sink,
    ) -> Result<RunSummary, Error> {
        let models = Models {
            generator: &mut *self.generator,
            scorer: self
                .scorer
                .as_deref_mut()
                .map(|scorer| scorer as &mut dyn Scorer),
            answers: &*self.answers,
            clock: &clock,
        };
        let in_flight = self.config.search.in_flight;
        let mut audited = Audited {
            auditor: Auditor::new(&self.config)?,
            sink,
            require: self.config.checkers.require_sound,
            withheld: 0,
        };
        let mut summary = beamgen_search::serve(models, in_flight, intake, &mut audited)?;
        summary.answered -= audited.withheld;
        Ok(summary)
    }

    /// Takes a calibration over: says what does not fit, and finds the thresholds that `max_error` and
    /// `confidence` ask for.
    pub(crate) fn calibrate(
        &mut self,
        calibration: &Calibration,
        path: &Path,
        prm: &str,
    ) -> Result<(), Error> {
        let mapped = self.config.models.score_as == ScoreAs::Calibrated;
        let search = self.defaults().resolve(self.settings()).search;
        let aggregation = mapped.then_some(search.aggregation);
        let unfit = mismatches(calibration, path, prm, &self.policy(), aggregation);
        self.notes.extend(unfit);
        let refuse = |reason: String| Error::Calibration {
            path: path.to_owned(),
            reason,
        };
        let no_answers = |of: &'static str| Error::NoAnswers {
            path: path.to_owned(),
            of,
        };
        let at = |curve: &RiskCurve, error: f64, key: &str| -> Result<f32, Error> {
            let point = curve.point(error).ok_or_else(|| {
                let error = 100.0 * error;
                refuse(format!(
                    "no threshold keeps the error at {error:.2} %, which {key} asks for"
                ))
            })?;
            Ok(point.threshold)
        };
        let curves = &calibration.answers;
        let of = |settings: &Settings| {
            let name = search_name(&self.identity_of(settings));
            curves.iter().find(|curve| curve.search == name)
        };
        let mut settings = self.settings();
        let error = f64::from(self.config.models.max_error);
        let mut threshold = None;
        let mut note = None;
        if error > 0.0 {
            let own = of(&settings);
            let curve = own.or(curves.last());
            let curve = curve.ok_or_else(|| no_answers("searches, which max_error goes by"))?;
            threshold = Some(at(curve, error, "max_error")?);
            note = own.is_none().then(|| {
                format!(
                    "warning: {} has no answers of a search with these settings: max_error goes by another one",
                    path.display()
                )
            });
        }
        // Scores that were made probabilities need no threshold to stand for one.
        let search = &mut settings.search;
        let is_raw = self.config.models.score_as == ScoreAs::Raw;
        let mut sure = None;
        if search.confidence > 0.0 && search.sure_score == 0.0 && is_raw {
            let error = 1.0 - f64::from(search.confidence);
            // The chain that ends the search is the first that reaches the threshold, not the best
            // of a number: it errs as single chains do that reach it.
            (search.n, search.confidence) = (1, 0.0);
            let curve = of(&settings)
                .ok_or_else(|| no_answers("this search with n = 1, which confidence goes by"))?;
            // An exact 0 would say that there is none.
            sure = Some(at(curve, error, "confidence")?.max(f32::MIN_POSITIVE));
        }
        self.notes.extend(note);
        let search = &mut self.config.search;
        search.threshold = search.threshold.max(threshold.unwrap_or(0.0));
        search.sure_score = sure.unwrap_or(search.sure_score);
        Ok(())
    }

    /// Who writes the chains: the generator's fingerprint or name, and the temperature.
    pub fn policy(&self) -> PolicyName {
        let generator = match self.models.get("generator") {
            Some(Value::String(name)) => name.clone(),
            other => other.map(ToString::to_string).unwrap_or_default(),
        };
        let settings = self.generator.resolve(&self.config.generator);
        // As it is written, not as f32 has it.
        let short = |temperature: f32| temperature.to_string().parse().ok();
        PolicyName {
            generator,
            temperature: settings.sampling.temperature.and_then(short),
        }
    }

    pub(crate) fn defaults(&self) -> Defaults {
        Defaults::of(&self.config)
    }

    /// What the servers of each role (`generator`, `prm`) were asked so far; empty where no servers
    /// were named.
    #[cfg(feature = "remote")]
    pub fn traffic(&self) -> Vec<(&'static str, beamgen_remote::Traffic)> {
        let served = self.served.iter();
        served
            .map(|(role, connection, _)| (*role, connection.traffic()))
            .collect()
    }

    /// What checkers that are commands lost so far, by their names: verdicts that were owed, and
    /// why a command is not asked any more. A search goes on without it.
    pub fn lost_verdicts(&self) -> impl Iterator<Item = (&str, Lost)> {
        let each = self.lost.iter();
        each.map(|(name, lost)| (name.as_str(), lost.get()))
    }

    /// Bytes of keys and values that chains hold in both models now; 0 between runs.
    pub fn cache_bytes(&self) -> u64 {
        let generator = self.generator.memory();
        let scorer = self.scorer.as_ref().map(|scorer| scorer.memory());
        generator.used_bytes + scorer.map_or(0, |memory| memory.used_bytes)
    }

    /// Whether a problem fits the generator's context, without solving it.
    ///
    /// # Errors
    /// Why it does not.
    pub fn validate(&self, problem: &Problem) -> Result<(), Error> {
        let checked = self.generator.check(problem);
        checked.map_err(|error| Error::Refused(error.into()))
    }

    /// What the run really uses, for people who look at a run file later: the tier of instructions,
    /// the device, bytes of KV cache. It decides no result, unless memory is short.
    pub fn effective(&self) -> Map<String, Value> {
        self.effective.clone()
    }

    /// All that decides the results, as one would compare two runs: the settings without those that
    /// change the speed only, and the models' fingerprints in place of their directories.
    pub fn identity(&self) -> Map<String, Value> {
        self.identity_of(&self.settings())
    }

    /// [`identity`](Self::identity) of a search with these settings.
    pub fn identity_of(&self, settings: &Settings) -> Map<String, Value> {
        let settings = self.defaults().resolve(settings.clone());
        let generator = self.generator.resolve(&settings.generator);
        let mut models = self.models.clone();
        if !settings.search.uses_scores() {
            models.insert("scorer".into(), ScorerKind::None.name().into());
            for unused in [
                "prm",
                "reference",
                "prm_format",
                "judges",
                "combine",
                "calibration",
            ] {
                models.shift_remove(unused);
            }
        }
        let mut identity = Map::new();
        let mut add = |key: &str, value: Result<Value, serde_json::Error>| {
            identity.insert(key.to_owned(), value.unwrap_or(Value::Null));
        };
        add("models", Ok(Value::Object(models)));
        let mut search = settings.search.clone();
        search.choose = Some(search.choosing());
        add("search", serde_json::to_value(&search));
        add("generator", serde_json::to_value(&generator));
        // Of the engine, what touches the last bits of an activation.
        let engine = &self.config.engine;
        add("page_size", serde_json::to_value(engine.page_size));
        // All tiers with fused multiply-add give the same bits; plain loops give others.
        let portable = engine.isa.resolved().is_ok_and(|tier| tier == "portable");
        let isa = if portable { "portable" } else { "auto" };
        add("isa", Ok(isa.into()));
        // An audit that withholds nothing changes no answer.
        let checkers = &self.config.checkers;
        if checkers.require_sound {
            add("audit", serde_json::to_value(checkers.auditors()));
            add("sound_above", serde_json::to_value(checkers.sound_above));
        }
        if let Some(Value::Object(search)) = identity.get_mut("search") {
            search.remove("in_flight");
        }
        identity
    }
}

/// What stands for the search that [`Solver::identity`] or a run file's header tells of, whatever
/// its seed and its threshold: the curve of how often its answers are wrong is that of no other.
#[must_use]
pub fn search_name(identity: &Map<String, Value>) -> String {
    let mut identity = identity.clone();
    // A calibration that only chose a threshold changed no score.
    if let Some(Value::Object(models)) = identity.get_mut("models") {
        let raw = ScoreAs::Raw.to_string();
        if models
            .get("calibration")
            .is_some_and(|of| of["score_as"] == raw)
        {
            models.shift_remove("calibration");
        }
    }
    for (table, key) in [("search", "threshold"), ("generator", "seed")] {
        if let Some(Value::Object(table)) = identity.get_mut(table) {
            table.shift_remove(key);
        }
    }
    let text = serde_json::to_vec(&identity).unwrap_or_default();
    crate::fingerprint::of_files([("search", text.as_slice())])
}

/// The argument of [`Solver::solve`]: a text, a problem, or a request.
pub trait IntoRequest {
    /// Returns the request; a problem or a text has the solver's settings.
    fn into_request(self, solver: &Solver) -> Request;
}

impl IntoRequest for Request {
    fn into_request(self, _: &Solver) -> Request {
        self
    }
}

macro_rules! problems_into_requests {
    ($($problem:ty),*) => {$(
        impl IntoRequest for $problem {
            fn into_request(self, solver: &Solver) -> Request {
                solver.request(self)
            }
        }
    )*};
}

problems_into_requests!(Problem, &Problem, String, &str);

/// Solves one problem with the bundled models and the default settings, which are loaded for it.
///
/// # Errors
/// The errors of [`Solver::solve`].
pub fn solve(request: impl IntoRequest) -> Result<ProblemResult, Error> {
    Solver::builder().build()?.solve(request)
}

#[derive(Clone, Copy)]
pub(crate) struct WallClock(Instant);

impl WallClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
