//! Solves problems with a generator, a scorer, and the search that uses both.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use beamgen_checkers::{Lost, LostSoFar, Verifiers};
use beamgen_engine::Compute;
use beamgen_eval::calibrate::{Calibration, PolicyName, RiskCurve};
use beamgen_search::{
    Answers, Callbacks, Clock, Event, Generator, Intake, Models, Problem, ProblemResult,
    RequestList, RunSummary, Scorer, Settings, Sink, Verifier as _,
};
use serde_json::{Map, Value};

use crate::calibrated::{ScoreAs, mismatches};
use crate::config::{Defaults, ScorerKind};
use crate::long_texts::TextLimits;
use crate::memory::MemoryPlan;
use crate::request::Request;
use crate::soundness::{Audited, Auditor};
use crate::{Config, Error};

/// A generator and a scorer, with the search that solves problems step by step with both.
///
/// The solver owns the KV caches of both models, which are empty between runs. A solver can move to
/// another thread. Runs take `&mut self`, because only one thread may drive the models.
pub struct Solver {
    pub(crate) config: Config,
    pub(crate) generator: Box<dyn Generator + Send>,
    pub(crate) scorer: Option<Box<dyn Scorer + Send>>,
    pub(crate) answers: Box<dyn Answers + Send>,
    pub(crate) verifiers: Verifiers,
    pub(crate) models: Map<String, Value>,
    pub(crate) notes: Vec<String>,
    pub(crate) compute: Compute,
    pub(crate) has_bundled: bool,
    pub(crate) chat_template: Option<String>,
    pub(crate) limits: TextLimits,
    pub(crate) memory: MemoryPlan,
    pub(crate) effective: Map<String, Value>,
    /// The counters of verdicts that checker commands failed to give, by the command's name.
    pub(crate) lost: Vec<(String, LostSoFar)>,
    #[cfg(feature = "remote")]
    pub(crate) served: Vec<(
        &'static str,
        Arc<beamgen_remote::Connection>,
        beamgen_remote::ServerFacts,
    )>,
}

impl Solver {
    /// Returns the effective settings: those of the builder, completed from the models.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the notes for the user, one line each, such as unsupported features of a checkpoint,
    /// shared weights, an unreachable hub, or a device that was lost during a run.
    pub fn notes(&self) -> Vec<String> {
        let noted = self.notes.iter().cloned();
        noted.chain(self.compute.note()).collect()
    }

    /// Whether one of the models is bundled, and so knows only problems of [the bundled
    /// world](crate::bundled).
    pub fn has_bundled(&self) -> bool {
        self.has_bundled
    }

    /// Whether the generator's checkpoint has a chat template, so that prompts can contain a system
    /// message. False for a custom generator.
    pub fn has_chat_template(&self) -> bool {
        self.chat_template.is_some()
    }

    /// Returns the source of the generator's chat template, in Jinja; `None` for a custom
    /// generator, or if the checkpoint has no template.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// Whether searches can use scores.
    pub fn has_scorer(&self) -> bool {
        self.scorer.is_some()
    }

    /// Whether an open verifier judges problems that name none, so that searches can use outcomes.
    pub fn has_open_verifier(&self) -> bool {
        self.verifiers.is_open(&Problem::default())
    }

    /// Whether the solver has a bundled model and the problem is of a kind that the model does not
    /// know ([`bundled::knows`](crate::bundled::knows)). The result of such a problem means
    /// nothing.
    pub fn is_foreign(&self, problem: &Problem) -> bool {
        self.has_bundled && !crate::bundled::knows(&problem.with_context())
    }

    /// Returns the settings of a request that changes none of them.
    pub fn settings(&self) -> Settings {
        self.config.settings()
    }

    /// Returns the settings of a request as the search takes them, completed from the generator's
    /// checkpoint.
    pub fn settings_in_effect(&self, settings: Settings) -> Settings {
        let mut settings = self.defaults().resolve(settings);
        settings.generator = self.generator.resolve(&settings.generator);
        settings
    }

    /// Returns the memory that the models take.
    pub fn memory_plan(&self) -> &MemoryPlan {
        &self.memory
    }

    /// Returns a request with this solver's settings, which the request's methods can change.
    pub fn request(&self, problem: impl Into<Problem>) -> Request {
        Request::new(problem, self.settings())
    }

    /// Solves a problem. A text or a [`Problem`] gets the solver's settings, a [`Request`] has its
    /// own. With bundled models, see [`is_foreign`](Self::is_foreign).
    ///
    /// # Errors
    /// Returns an error if the problem is refused, for example because it is longer than the
    /// generator's context, or if a model fails.
    pub fn solve(&mut self, request: impl IntoRequest) -> Result<ProblemResult, Error> {
        let request = request.into_request(self);
        // The run itself would report invalid settings as an error of the problem.
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

    /// Solves many problems together, so that forward passes are full. `each` gets a result as soon
    /// as it is finished, with the problem's position in the input. If a problem is refused, its
    /// result has `error` set, and the others continue.
    ///
    /// # Errors
    /// Returns an error if a model fails, or if the settings are invalid.
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

    /// Solves problems and reports events: `observe` is called when a step closes, is scored, is
    /// continued or is pruned. `deliver` gets the results, and can stop the run. A problem is taken
    /// from the iterator only when the search has room for it.
    ///
    /// # Errors
    /// Returns an error if a model fails, or if the settings are invalid.
    pub fn run(
        &mut self,
        problems: impl IntoIterator<Item = Problem>,
        observe: &mut dyn FnMut(Event<'_>),
        deliver: &mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
    ) -> Result<RunSummary, Error> {
        // The strategy is built only to find invalid settings before the first problem is taken.
        self.config.search.build(self.scorer.is_some())?;
        let defaults = Arc::new(self.settings());
        let requests = problems
            .into_iter()
            .map(|problem| beamgen_search::Request::new(problem, Arc::clone(&defaults)));
        self.run_all(requests, observe, deliver)
    }

    /// Solves requests, which may have different settings and still share batches. If a request
    /// cannot be run, its result has the reason as `error`.
    ///
    /// # Errors
    /// Returns an error if a model was lost.
    pub fn run_requests(
        &mut self,
        requests: impl IntoIterator<Item = Request>,
        observe: &mut dyn FnMut(Event<'_>),
        deliver: &mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
    ) -> Result<RunSummary, Error> {
        let defaults = self.defaults();
        // Neighbouring requests mostly have equal settings, so they share one resolved copy.
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
            verifier: Some(&mut self.verifiers),
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
        // The search counted these answers before the audit withheld them.
        summary.answered -= audited.withheld;
        Ok(summary)
    }

    /// Applies a calibration: sets the thresholds for `max_error` and `confidence`, and adds notes
    /// if the calibration was fitted to another search.
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
        let no_answers = |of: &'static str| Error::NoAnswers {
            path: path.to_owned(),
            of,
        };
        let at = |curve: &RiskCurve, error: f64, key: &str| -> Result<f32, Error> {
            let point = curve.point(error).ok_or_else(|| {
                let error = 100.0 * error;
                let reason = format!(
                    "no threshold of the calibration keeps the error at {error:.2} %, as {key} wants: change {key}"
                );
                let path = path.to_owned();
                Error::Calibration { path, reason }
            })?;
            Ok(point.threshold)
        };
        let curves = &calibration.answers;
        let own_curve = |settings: &Settings| {
            let name = search_name(&self.identity_of(settings));
            curves.iter().find(|curve| curve.search == name)
        };
        let mut settings = self.settings();
        let error = f64::from(self.config.models.max_error);
        let mut threshold = None;
        let mut note = None;
        if error > 0.0 {
            let own = own_curve(&settings);
            let curve = own.or(curves.last());
            let curve = curve.ok_or_else(|| no_answers("searches, which max_error goes by"))?;
            threshold = Some(at(curve, error, "max_error")?);
            note = own.is_none().then(|| {
                format!(
                    "warning: {} has no answers of a search with these settings: max_error uses another search's",
                    path.display()
                )
            });
        }
        // Calibrated scores are probabilities already, so `confidence` is compared with them
        // directly.
        let search = &mut settings.search;
        let is_raw = self.config.models.score_as == ScoreAs::Raw;
        let mut sure = None;
        if search.confidence > 0.0 && search.sure_score == 0.0 && is_raw {
            let error = 1.0 - f64::from(search.confidence);
            // The search ends at the first chain that reaches the threshold, so its error is that
            // of single chains above the threshold. A search with n = 1 has measured that error.
            (search.n, search.confidence) = (1, 0.0);
            let curve = own_curve(&settings)
                .ok_or_else(|| no_answers("this search with n = 1, which confidence goes by"))?;
            // A threshold of exactly 0 would mean that there is none.
            sure = Some(at(curve, error, "confidence")?.max(f32::MIN_POSITIVE));
        }
        self.notes.extend(note);
        let search = &mut self.config.search;
        search.threshold = search.threshold.max(threshold.unwrap_or(0.0));
        search.sure_score = sure.unwrap_or(search.sure_score);
        Ok(())
    }

    /// Returns the policy that samples the chains: the fingerprint or name of the generator, and
    /// the temperature.
    pub fn policy(&self) -> PolicyName {
        let generator = match self.models.get("generator") {
            Some(Value::String(name)) => name.clone(),
            other => other.map(ToString::to_string).unwrap_or_default(),
        };
        let settings = self.generator.resolve(&self.config.generator);
        let temperature = settings.sampling.temperature;
        PolicyName {
            generator,
            // The f32 nearest to 0.7 is 0.699999988 as f64. The shortest decimal text gives the
            // number that was set.
            temperature: temperature.and_then(|temperature| temperature.to_string().parse().ok()),
        }
    }

    pub(crate) fn defaults(&self) -> Defaults {
        Defaults::of(&self.config)
    }

    /// Returns the traffic so far for each role (`generator`, `prm`, `judge`) that servers have.
    #[cfg(feature = "remote")]
    pub fn traffic(&self) -> Vec<(&'static str, beamgen_remote::Traffic)> {
        let served = self.served.iter();
        served
            .map(|(role, connection, _)| (*role, connection.traffic()))
            .collect()
    }

    /// Returns, for each checker command, the number of lost verdicts and, if the command is no
    /// longer used, the reason. Searches continue without the command.
    pub fn lost_verdicts(&self) -> impl Iterator<Item = (&str, Lost)> {
        let each = self.lost.iter();
        each.map(|(name, lost)| (name.as_str(), lost.get()))
    }

    /// Returns the KV cache that chains hold in both models, in bytes; 0 between runs.
    pub fn cache_bytes(&self) -> u64 {
        let generator = self.generator.memory();
        let scorer = self.scorer.as_ref().map(|scorer| scorer.memory());
        generator.used_bytes + scorer.map_or(0, |memory| memory.used_bytes)
    }

    /// Checks that a problem fits into the generator's context.
    ///
    /// # Errors
    /// Returns the reason why the problem cannot be solved.
    pub fn validate(&self, problem: &Problem) -> Result<(), Error> {
        let checked = self.generator.check(problem);
        checked.map_err(|error| Error::Refused(error.into()))
    }

    /// Returns facts about the run for readers of its run file, such as instruction set, device,
    /// and size of the KV cache. These facts do not change results, unless memory is short.
    pub fn effective(&self) -> Map<String, Value> {
        self.effective.clone()
    }

    /// Returns everything that results depend on, to compare two runs: settings that change more
    /// than the speed, and fingerprints in place of the models' paths.
    pub fn identity(&self) -> Map<String, Value> {
        self.identity_of(&self.settings())
    }

    /// Returns the [`identity`](Self::identity) of a search with other settings than the solver's.
    pub fn identity_of(&self, settings: &Settings) -> Map<String, Value> {
        let settings = self.defaults().resolve(settings.clone());
        let generator = self.generator.resolve(&settings.generator);
        let mut models = self.models.clone();
        // A plain vote asks no scorer, so its run may be resumed with another reward model.
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
        // The default rule depends on the strategy. Written out, it is equal to the same rule named
        // in the settings.
        search.choose = Some(search.choosing());
        add("search", serde_json::to_value(&search));
        add("generator", serde_json::to_value(&generator));
        // Only those engine settings count that can change the last bits of an activation.
        let engine = &self.config.engine;
        add("page_size", serde_json::to_value(engine.page_size));
        // All tiers with fused multiply-add give the same bits; plain loops give others.
        let portable = engine.isa.resolved().is_ok_and(|tier| tier == "portable");
        let isa = if portable { "portable" } else { "auto" };
        add("isa", Ok(isa.into()));
        // An audit that withholds nothing does not change answers, so it is left out.
        let checkers = &self.config.checkers;
        if checkers.require_sound {
            add("audit", serde_json::to_value(checkers.auditors()));
            add("sound_above", serde_json::to_value(checkers.sound_above));
        }
        // The reference is compared without a verifier, as always before there were others.
        let verifier = self.verifiers.identity(self.config.verifier.open);
        if let Some(mut verifier) = verifier {
            // Another command under the same name may give other outcomes.
            verifier["others"] = serde_json::json!(self.config.verifier.others);
            add("verifier", Ok(verifier));
        }
        if let Some(Value::Object(search)) = identity.get_mut("search") {
            // `in_flight` changes the speed only.
            search.remove("in_flight");
        }
        identity
    }
}

/// Returns the key of a search, without its seed and threshold. `identity` is that of
/// [`Solver::identity`], or of a run file's header. Calibrations store risk curves under this key,
/// since a curve is valid for one search only.
#[must_use]
pub fn search_name(identity: &Map<String, Value>) -> String {
    let mut identity = identity.clone();
    // With raw scores, a calibration only chooses a threshold, and does not change the scores of
    // the curve.
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

/// Solves a problem with the bundled models. A text or a [`Problem`] gets the default settings, a
/// [`Request`] has its own. Each call loads the models again.
///
/// # Errors
/// Returns an error if the models cannot be loaded, and the errors of [`Solver::solve`].
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
