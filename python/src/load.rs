//! From settings to models.

use std::sync::mpsc::Sender;

use beamgen::launcher::Launcher;
use beamgen::scorer::{ExactScorer, Scorer, ScorerKind};
use beamgen::{Config, Error, Solver, SolverBuilder};

use crate::callable::Callable;
use crate::download::{self, News};
use crate::wait::Told;
use crate::wanted::{Base, Wanted};

/// Loads generator and scorer, and gives what requests' settings are made of.
pub fn solver<T: 'static>(
    wanted: &Wanted,
    generator: Option<Callable>,
    scorer: Option<Callable>,
    launcher: Launcher,
    tell: Sender<Told<News, T>>,
) -> Result<(Solver, Base), Error> {
    let base = Base::of(wanted)?;
    let config = base.config.clone();
    let foreign = config.is_bundled_scorer_foreign() && scorer.is_none();
    if foreign && config.uses_scorer() {
        let line = "the bundled reward model knows the bundled problems only, so it cannot score a generator with \
                    another tokenizer: name a prm that can, or give scorer=\"none\" with a strategy that needs no scores";
        return Err(Error::Refused(line.into()));
    }
    // A bundled scorer or a callable costs nothing, and requests may want it.
    let costs_nothing = scorer.is_some()
        || (!foreign
            && generator.is_none()
            && config.models.prm.is_none()
            && config.models.prm_server.is_none());
    let kind = config.models.scorer;
    let mut builder = builder(config)?.launcher(launcher);
    if let Some(generator) = generator {
        builder = builder.step_generator("a callable", generator);
    }
    if let Some(scorer) = scorer {
        builder = builder.step_scorer("a callable", scorer);
    } else if kind == ScorerKind::Exact {
        builder = builder.custom_scorer("exact", ExactScorer::default());
    }
    if costs_nothing {
        builder = builder.load_scorer();
    }
    Ok((download::attach(builder, tell)?.build()?, base))
}

/// Loads the reward model alone. The second value says whether it is bundled.
pub fn reward_model<T: 'static>(
    wanted: &Wanted,
    tell: Sender<Told<News, T>>,
) -> Result<(Box<dyn Scorer + Send>, bool), Error> {
    let mut config = Base::of(wanted)?.config;
    match config.models.scorer {
        ScorerKind::Exact => return Ok((Box::new(ExactScorer::default()), true)),
        // The settings may be those of a search without scores; here there is always a model.
        ScorerKind::None => config.models.scorer = ScorerKind::Prm,
        ScorerKind::Prm | ScorerKind::Orm => {}
    }
    let builder = builder(config)?;
    let mut prepared = download::attach(builder, tell)?.prepare_reward_model()?;
    let is_bundled = prepared.has_bundled();
    Ok((prepared.reward_model()?, is_bundled))
}

/// A builder with these settings and what the environment says, as in the program.
fn builder(config: Config) -> Result<SolverBuilder, Error> {
    let builder = Solver::builder().config(config);
    with_keys(builder.settings_from(|name| std::env::var(name).ok())?)
}

/// Gives the builder the servers' keys and certificates, which come from the environment as in the
/// program.
#[cfg(feature = "remote")]
fn with_keys(mut builder: SolverBuilder) -> Result<SolverBuilder, Error> {
    use beamgen::hub::Certificates;
    use beamgen::remote::ApiKey;

    let key = |name: &str| match std::env::var(name) {
        Err(_) => Ok(None),
        Ok(value) => match ApiKey::new(&value) {
            Ok(key) => Ok(Some(key)),
            Err(error) => Err(Error::Refused(format!("{name}: {error}").into())),
        },
    };
    let models = &builder.current_config().models;
    let served = (
        models.generator_server.is_some(),
        models.prm_server.is_some(),
    );
    if served.0
        && let Some(key) = key("BEAMGEN_GENERATOR_KEY")?
    {
        builder = builder.generator_key(key);
    }
    if served.1
        && let Some(key) = key("BEAMGEN_PRM_KEY")?
    {
        builder = builder.prm_key(key);
    }
    let certificates = Certificates::from_lookup(|name| std::env::var(name).ok());
    Ok(builder.certificates(certificates))
}

/// The builder as it is: this build refuses servers.
#[cfg(not(feature = "remote"))]
fn with_keys(builder: SolverBuilder) -> Result<SolverBuilder, Error> {
    Ok(builder)
}
