//! The state that all requests share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use beamgen::{Config, Service, Solver};
use serde_json::{Value, json};

use crate::access::Access;
use crate::long_texts::LongTexts;
use crate::metrics::Metrics;
use crate::options::{Limits, ServeOptions};
use crate::presets::Presets;
use crate::stop::Stop;

/// The state that all requests share.
pub(crate) struct App {
    pub service: Service,
    pub presets: Presets,
    pub access: Access,
    pub limits: Limits,
    pub metrics: Metrics,
    pub stop: Stop,
    pub long_texts: LongTexts,
    pub options: ServeOptions,
    pub models: ModelFacts,
    /// The start of the server, in seconds since 1970.
    pub started: u64,
    next_id: AtomicU64,
}

/// Facts about the models, which routes report or check.
#[derive(Debug, Clone)]
pub(crate) struct ModelFacts {
    /// The names of the models in the settings.
    pub names: Value,
    pub config: Config,
    pub has_scorer: bool,
    pub has_bundled: bool,
    pub takes_system: bool,
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
            takes_system: solver.has_chat_template(),
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
        Self {
            service,
            presets,
            access: Access::new(options.keys.clone(), &options.host_names),
            limits: options.limits,
            metrics: Metrics::default(),
            stop,
            long_texts: LongTexts::default(),
            options,
            models,
            started: now(),
            next_id: AtomicU64::new(1),
        }
    }

    /// Returns a unique id for an answer.
    pub(crate) fn next_id(&self, prefix: &str) -> String {
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}-{:x}-{number:x}", self.started)
    }
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
