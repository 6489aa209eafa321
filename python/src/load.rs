//! Loads the models that settings name.

use std::sync::mpsc::Sender;

use beamgen::launcher::Launcher;
use beamgen::scorer::PerStep;
use beamgen::{Config, Error, Solver, SolverBuilder};

use crate::callable::{Callable, CallableJudge, CallableVerifier};
use crate::download::{self, News};
use crate::wait::Told;
use crate::wanted::{Base, Wanted};

/// The Python functions that a solver is made of, besides the models of its settings.
#[derive(Default)]
pub(crate) struct Callables {
    pub generator: Option<Callable>,
    pub scorer: Option<Callable>,
    pub verifier: Option<Callable>,
    /// Judges with their names; `true` for one that can only veto.
    pub judges: Vec<(String, bool, Callable)>,
}

/// Loads generator, scorer, judges and verifier. Returns the solver, and the base from which settings of requests are
/// made.
pub(crate) fn solver<T: 'static>(
    wanted: &Wanted,
    callables: Callables,
    launcher: Launcher,
    tell: Sender<Told<News, T>>,
) -> Result<(Solver, Base), Error> {
    let Callables {
        generator,
        scorer,
        verifier,
        judges,
    } = callables;
    let base = Base::of(wanted, verifier.is_some())?;
    let config = base.config.clone();
    let foreign = config.is_bundled_scorer_foreign() && scorer.is_none();
    if foreign {
        refuse_foreign(&config)?;
    }
    // A bundled scorer or a function takes almost no time to load, and requests with other settings
    // may need it.
    let costs_nothing = scorer.is_some()
        || (!foreign
            && generator.is_none()
            && config.models.prm.is_none()
            && config.models.prm_server.is_none());
    let mut builder = builder(config)?.launcher(launcher);
    if let Some(generator) = generator {
        builder = builder.step_generator("a callable", generator);
    }
    if let Some(scorer) = scorer {
        builder = builder.step_scorer("a callable", scorer);
    }
    for (name, vetoes, callable) in judges {
        let judge = PerStep::new(CallableJudge(callable));
        builder = if vetoes {
            builder.vetoing_judge(name, judge)
        } else {
            builder.judge(name, judge)
        };
    }
    if let Some(callable) = verifier {
        let verifier = CallableVerifier {
            callable,
            is_open: base.config.verifier.open,
            done: Vec::new(),
        };
        builder = builder.custom_verifier("a callable", verifier);
    }
    if costs_nothing {
        builder = builder.load_scorer();
    }
    Ok((download::attach(builder, tell)?.build()?, base))
}

/// Fails if the bundled reward model would have to score a generator that has another tokenizer.
pub(crate) fn refuse_foreign(config: &Config) -> Result<(), Error> {
    let line = "the bundled reward model cannot score a generator with \
                another tokenizer: name a prm for it, or use scorer=\"none\" with a strategy that needs no scores";
    if config.is_bundled_scorer_foreign() && config.uses_scorer() {
        Err(Error::Refused(line.into()))
    } else {
        Ok(())
    }
}

/// Returns a builder with `config` and the settings in environment variables.
pub(crate) fn builder(config: Config) -> Result<SolverBuilder, Error> {
    let builder = Solver::builder().config(config);
    builder.settings_from(|name| std::env::var(name).ok())
}
