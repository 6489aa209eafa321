//! The state that all requests share.

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
use crate::options::{Limits, ServeOptions};
use crate::presets::Presets;
use crate::reload::Loaded;
use crate::seeds::Seeds;
use crate::stop::Stop;

/// The state that all requests share.
pub(crate) struct App {
    pub service: Service,
    pub access: Access,
    pub limits: Limits,
    pub metrics: Metrics,
    pub stop: Stop,
    pub long_texts: LongTexts,
    pub seeds: Seeds,
    /// The fields without effect that the log was told of.
    pub told: Told,
    pub large_bodies: LargeBodies,
    pub options: ServeOptions,
    pub models: ModelFacts,
    /// The start of the server, in seconds since 1970.
    pub started: u64,
    /// Held while presets and keys are read again: of two readings, the one that began later is kept.
    pub reloading: tokio::sync::Mutex<()>,
    current: RwLock<Current>,
    next_id: AtomicU64,
}

/// The part of the state that a running server can read again. A request keeps the copy that it took.
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
    /// The names of the models in the settings.
    pub names: Value,
    pub config: Config,
    pub has_scorer: bool,
    pub has_bundled: bool,
    pub has_template: bool,
    /// The form in which the generator writes calls of tools; `None` if it is not known.
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
            metrics: Metrics::default(),
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
        // The value is replaced as a whole, so it is valid even if another thread panicked.
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    /// Returns the presets in effect.
    pub(crate) fn presets(&self) -> Arc<Presets> {
        self.current().presets
    }

    /// Returns the API keys in effect; without any, requests need no key.
    pub(crate) fn keys(&self) -> Arc<[Key]> {
        self.current().keys
    }

    /// Replaces presets and keys. Running requests keep their settings.
    pub(crate) fn replace(&self, loaded: Loaded) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = loaded.into();
    }

    /// Reports a fact to the log.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        if let Some(observe) = &self.options.observe {
            observe(event);
        }
    }

    /// Returns a unique id, for an answer or a request.
    pub(crate) fn next_id(&self, prefix: &str) -> String {
        // The numbers begin again after a restart; the time of the start keeps ids apart.
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}-{:x}-{number:x}", self.started)
    }
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
