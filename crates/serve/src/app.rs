//! The state that all requests share: the service, presets, keys, limits and counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use beamgen::{Config, Service, Solver};
use serde_json::{Value, json};

use crate::access::{Access, Key};
use crate::body::LargeBodies;
use crate::calls::Form;
use crate::ignored::Told;
use crate::log::Event;
use crate::long_texts::LongTexts;
use crate::metrics::Metrics;
use crate::monitor::Monitor;
use crate::options::{Limits, ServeOptions};
use crate::presets::Presets;
use crate::reload::Loaded;
use crate::seeds::Seeds;
use crate::stop::Stop;

pub(crate) struct App {
    pub service: Service,
    pub access: Access,
    pub limits: Limits,
    pub metrics: Metrics,
    pub stop: Stop,
    pub long_texts: LongTexts,
    pub seeds: Seeds,
    /// The names of ignored fields that the log has reported already.
    pub told: Told,
    pub large_bodies: LargeBodies,
    pub options: ServeOptions,
    pub models: ModelFacts,
    /// The time of the start, in seconds since 1970.
    pub started: u64,
    /// The lock on reading presets and keys again. Of two readings, the later one wins, since it
    /// waits for the earlier one.
    pub reloading: tokio::sync::Mutex<()>,
    current: RwLock<Current>,
    next_id: AtomicU64,
}

/// The presets and keys, which a running server can read again. A request keeps the copy that it
/// took.
#[derive(Clone)]
struct Current {
    presets: Arc<Presets>,
    keys: Arc<[Key]>,
}

impl From<Loaded> for Current {
    fn from(loaded: Loaded) -> Self {
        Self {
            presets: Arc::new(loaded.presets),
            keys: loaded.keys.into(),
        }
    }
}

/// Facts about the models, which routes report or check.
#[derive(Debug, Clone)]
pub(crate) struct ModelFacts {
    /// The names of generator and reward model in the settings.
    pub names: Value,
    pub config: Config,
    pub has_scorer: bool,
    pub has_open_verifier: bool,
    pub has_bundled: bool,
    pub has_template: bool,
    /// The form in which the generator writes calls of tools; `None` if its template has no known form.
    pub calls: Option<Form>,
}

impl ModelFacts {
    pub(crate) fn of(solver: &Solver) -> Self {
        let models = &solver.config().models;
        let name = |model: &Option<std::path::PathBuf>| match model {
            Some(name) => name.display().to_string(),
            None => "bundled".to_owned(),
        };
        let prm = if solver.has_scorer() {
            name(&models.prm).into()
        } else {
            Value::Null
        };
        Self {
            config: solver.config().clone(),
            names: json!({"generator": name(&models.generator), "prm": prm}),
            has_scorer: solver.has_scorer(),
            has_open_verifier: solver.has_open_verifier() || solver.config().verifier.has_open(),
            has_bundled: solver.has_bundled(),
            has_template: solver.has_chat_template(),
            calls: solver.chat_template().and_then(Form::of_template),
        }
    }
}

impl App {
    pub(crate) fn new(
        service: Service,
        models: ModelFacts,
        presets: Presets,
        options: ServeOptions,
        stop: Stop,
    ) -> Self {
        let keys = options.keys.clone();
        Self {
            service,
            access: Access::new(&options.host_names, options.allow_origins.clone()),
            limits: options.limits,
            metrics: Metrics::of(Monitor::new(
                options.references.clone(),
                options.shadow_share,
            )),
            stop,
            long_texts: LongTexts::default(),
            seeds: Seeds::default(),
            told: Told::default(),
            large_bodies: LargeBodies::default(),
            options,
            models,
            started: now(),
            reloading: tokio::sync::Mutex::default(),
            current: RwLock::new(Loaded { presets, keys }.into()),
            next_id: AtomicU64::new(1),
        }
    }

    fn current(&self) -> Current {
        // A writer replaces the whole value at once, so the value is valid even after a panic of a
        // writer.
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    pub(crate) fn presets(&self) -> Arc<Presets> {
        self.current().presets
    }

    /// Returns the accepted API keys. If the list is empty, requests need no key.
    pub(crate) fn keys(&self) -> Arc<[Key]> {
        self.current().keys
    }

    /// Replaces presets and keys. Running requests keep their settings.
    pub(crate) fn replace(&self, loaded: Loaded) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = loaded.into();
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        if let Some(observe) = &self.options.observe {
            observe(event);
        }
    }

    /// Returns an id that is unique across restarts.
    pub(crate) fn next_id(&self, prefix: &str) -> String {
        // The counter begins at 0 after each restart; the time of the start distinguishes the ids.
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}-{:x}-{number:x}", self.started)
    }
}

/// Returns the system's time in seconds since 1970; 0 if the clock is before 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
