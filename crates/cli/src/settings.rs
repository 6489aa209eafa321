//! Builds a command's configuration, problems and solver from its arguments.

use std::path::Path;
use std::slice::from_ref;

use beamgen::eval::{Problems, Wanted};
use beamgen::launcher::Launcher;
use beamgen::models::Prepared;
use beamgen::program::{QuantileReader, is_word};
use beamgen::result::VerifierConfig;
use beamgen::scorer::{Scorer, ScorerKind};
use beamgen::settings::{SETTINGS, Setting, put_all};
use beamgen::{Config, Error, Problem, Recipe, Solver, SolverBuilder};

use crate::args::{DataFlags, Flags, Given, PartFlags, SearchFlags, flagged};
use crate::assign;
use crate::data;
use crate::download;
use crate::effective;
use crate::failure::{Failure, refuse};
use crate::foreign;
use crate::output;
use crate::plan;

/// Returns the configuration. Each of these overrides the former: defaults, the pair, the settings
/// file, `--set`, other flags.
pub(crate) fn config<const PARTS: u16>(flags: &Flags<PARTS>) -> Result<Config, Failure> {
    let (pair, prm) = (flags.given.text("pair"), flags.given.path("prm"));
    with_flags(Config::of(pair, flags.config.as_deref(), prm)?, flags)
}

/// Returns the configuration for a single search. A flag that has no effect in the search is an
/// error.
pub(crate) fn search_config(flags: &SearchFlags) -> Result<Config, Failure> {
    let config = config(flags)?;
    refuse_idle(from_ref(&config), &flags.given, "--scorer prm or orm")?;
    Ok(config)
}

/// Refuses flags that have no effect in any of `searches`. `scores` is the flag of this command
/// that adds a reward model, for the message.
pub(crate) fn refuse_idle(searches: &[Config], given: &Given, scores: &str) -> Result<(), Failure> {
    for Setting { name, needs, .. } in SETTINGS {
        let mut missing = needs.iter().filter(|need| !searches.iter().any(need.1));
        if given.has(name)
            // `--prm none` means no scorer, so it has its effect just where a reward model has
            // none.
            && (*name, given.text(name)) != ("prm", Some("none"))
            && let Some((need, _)) = missing.next()
        {
            let need = need.replace("`scorer` prm or orm", scores);
            return refuse(flagged(&format!(
                "`{name}` changes nothing here without {need}: add {need}, or leave `{name}` out"
            )));
        }
    }
    Ok(())
}

/// Refuses problems of which nothing tells whether a chain is right: there is neither a reference
/// answer nor a verifier.
pub(crate) fn require_outcomes(
    problems: &Problems,
    count: usize,
    verifier: &VerifierConfig,
) -> Result<(), Failure> {
    let known: Vec<&str> = verifier.names().collect();
    problems.check_verifiers(count, &known)?;
    Ok(problems.require_outcomes(count, |problem| verifier.judges(problem))?)
}

/// Refuses a verifier in the settings of `command`, which compares answers with references.
pub(crate) fn refuse_verifier(config: &Config, command: &str) -> Result<(), Failure> {
    if config.verifier.is_math() {
        return Ok(());
    }
    refuse(format!(
        "`beamgen {command}` compares answers with references, without a verifier: leave the verifier out"
    ))
}

/// Returns the configuration with the changes of `--set` and of other flags.
pub(crate) fn with_flags<const PARTS: u16>(
    mut config: Config,
    flags: &Flags<PARTS>,
) -> Result<Config, Failure> {
    for assignment in &flags.set {
        config = assign::set(&config, assignment)?;
    }
    put_all(&config, &flags.given.0).map_err(|error| match error {
        // The library's messages name settings in backticks; they become flags for the user.
        Error::Refused(reason) => Failure::Input(flagged(&reason.to_string())),
        error => error.into(),
    })
}

/// Returns the configuration of a command that scores chains without a search.
pub(crate) fn prm_config<const PARTS: u16>(flags: &Flags<PARTS>) -> Result<Config, Failure> {
    if is_word(flags.given.path("prm"), "none") {
        let message = "--prm none: this command needs a reward model: name a model, or leave --prm out for the bundled PRM";
        return refuse(message);
    }
    let mut config = config(flags)?;
    // A settings file may be for a search without a reward model, but these commands always need
    // one.
    if matches!(config.models.scorer, ScorerKind::Exact | ScorerKind::None) {
        config.models.scorer = ScorerKind::Prm;
    }
    Ok(config)
}

/// Reads the problems of a file or a data set, or the bundled sample. Returns them with the number to
/// solve.
///
/// Problems of a file beyond the limit are read, too, because the fingerprint of all problems
/// identifies a run file, which may be resumed with another limit.
pub(crate) fn problems(
    given: Option<&Path>,
    flags: &DataFlags,
    offline: bool,
    limit: Option<usize>,
) -> Result<(Problems, usize), Failure> {
    let wanted = Wanted {
        limit,
        ..Wanted::default()
    };
    wanted_problems(given, flags, offline, wanted)
}

/// Reads the wanted problems as [`problems`] does.
fn wanted_problems(
    given: Option<&Path>,
    flags: &DataFlags,
    offline: bool,
    wanted: Wanted,
) -> Result<(Problems, usize), Failure> {
    let limit = wanted.limit;
    if limit == Some(0) {
        return refuse("--limit 0 leaves no problem to solve: use at least 1");
    }
    let problems = match given {
        Some(given) => data::problems(data::source(given, &flags.part, offline)?, flags, wanted)?,
        None => beamgen::bundled::sample()?,
    };
    let notes = [problems.unread_note(), problems.given_note()];
    for note in notes.into_iter().flatten() {
        output::note_once(format_args!("note: {note}"));
    }
    let count = limit.unwrap_or(usize::MAX).min(problems.problems.len());
    Ok((problems, count))
}

/// Reads the problems that a recipe names, and prints a note for each of its keys that changes
/// nothing. Flags win over the recipe.
pub(crate) fn problems_of(
    recipe: &Recipe,
    flags: &DataFlags,
    offline: bool,
    limit: Option<usize>,
) -> Result<(Problems, usize), Failure> {
    for note in &recipe.notes {
        output::note(format_args!("note: {note}"));
    }
    let data = &recipe.data;
    let given = &flags.part;
    let flags = DataFlags {
        part: PartFlags {
            subset: given.subset.clone().or_else(|| data.subset.clone()),
            split: given.split.clone().or_else(|| data.split.clone()),
        },
        ..flags.clone()
    };
    let wanted = Wanted {
        start: data.start,
        end: data.end,
        limit,
    };
    wanted_problems(Some(Path::new(&data.name)), &flags, offline, wanted)
}

/// Reads a file as [`problems`] does. If no such file exists, the argument may be a question.
pub(crate) fn problems_or_question(
    given: Option<&Path>,
    flags: &DataFlags,
    offline: bool,
    limit: Option<usize>,
) -> Result<(Problems, usize), Failure> {
    let Some(name) = given.filter(|given| given.as_os_str() != "-" && is_absent(given)) else {
        return problems(given, flags, offline, limit);
    };
    match name.to_str() {
        Some(text) if is_question(text) => Ok((Problems::question(text)?, 1)),
        Some(text) if beamgen::may_be_data_set(text) => problems(given, flags, offline, limit),
        _ => refuse(format!(
            "{}: No such file or directory: give a readable file of problems, a data set ORG/NAME, `-` for stdin, or a \
             question in quotes, such as \"How much is 2 + 2?\"",
            name.display()
        )),
    }
}

/// Whether no file has this name. A question may even be too long for a file name.
fn is_absent(path: &Path) -> bool {
    use std::io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    let found = std::fs::metadata(path);
    found.is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory | InvalidFilename))
}

/// Whether an argument that is not a file is a question: it contains a blank, and does not look
/// like a path or a file name. A text that ends in a question mark may contain a slash, such as in
/// `1/2`.
fn is_question(text: &str) -> bool {
    let text = text.trim();
    let extension = Path::new(text).extension().unwrap_or_default();
    let extension = extension.to_string_lossy();
    let ends_as_file = extension.starts_with(|c: char| c.is_ascii_alphabetic())
        && extension.chars().all(|c| c.is_ascii_alphanumeric());
    let is_path = ends_as_file || text.contains(std::path::is_separator);
    text.contains(' ') && (text.ends_with('?') || !is_path)
}

/// The information to print before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShowPlan {
    /// The memory plan, and the effective settings.
    Always,
    /// The memory plan, unless all models are bundled, since those need little.
    OwnModels,
    Never,
}

impl ShowPlan {
    /// Returns `Never` if `quiet`, or else `OwnModels`.
    pub(crate) fn unless(quiet: bool) -> Self {
        if quiet { Self::Never } else { Self::OwnModels }
    }
}

/// The advice for a problem that is too long, in commands with `--skip-too-long`.
pub(crate) const SHORTEN_OR_SKIP: &str =
    "shorten it, or leave such problems out with --skip-too-long";

/// Loads the models of a configuration, for the first `count` problems of each set.
///
/// With `advice`, a problem that does not fit into the generator's context is an error before the
/// run. Without it, the problem's result will have an error.
pub(crate) fn solver(
    config: Config,
    sets: &[(&Problems, usize)],
    show: ShowPlan,
    advice: Option<&str>,
) -> Result<Solver, Failure> {
    let known: Vec<&str> = config.verifier.names().collect();
    for (problems, count) in sets {
        problems.check_verifiers(*count, &known)?;
    }
    // A plain majority vote works with any generator, so only a search that uses scores is refused.
    let prepared = prepare(builder(config)?, Config::uses_scorer)?;
    for (problems, count) in sets {
        if let Some(advice) = advice {
            check_lengths(&prepared, problems, *count, advice)?;
        }
    }
    load(prepared, show)
}

/// Prints the layout of a problem file unless `is_quiet`, and how many of the first `count` problems
/// the bundled models do not know. Must be called after all checks of the call, since a note before
/// an error would distract from the error.
pub(crate) fn note_problems(solver: &Solver, problems: &Problems, count: usize, is_quiet: bool) {
    if let Some(found) = problems.found_note().filter(|_| !is_quiet) {
        output::note_once(format_args!("note: {found}"));
    }
    note_foreign(solver, problems, count);
}

/// Prints how many of the first `count` problems the bundled models do not know.
pub(crate) fn note_foreign(solver: &Solver, problems: &Problems, count: usize) {
    let texts = problems.problems[..count].iter().map(Problem::with_context);
    foreign::note(solver.has_bundled(), "problems", texts);
}

/// Loads the models for requests that may have other settings. The scorer is loaded even if the
/// strategy of the settings needs none.
pub(crate) fn any_solver(config: Config, show: ShowPlan) -> Result<Solver, Failure> {
    let builder = builder(config)?.load_scorer();
    // A later request may use scores, so a scorer that does not fit the generator is refused now.
    load(prepare(builder, |_| true)?, show)
}

/// Returns a builder with the configuration and the settings of the environment. Copies of this
/// program, started as launchers, start the checker commands.
pub(crate) fn builder(config: Config) -> Result<SolverBuilder, Failure> {
    let builder = Solver::builder().config(config);
    let builder = builder.settings_from(|name| std::env::var(name).ok())?;
    Ok(builder.launcher(Launcher::this_program()))
}

/// Finds and checks the models. If `scores` returns true, the bundled reward model is refused with
/// a generator that has another tokenizer: its scores would mean nothing.
fn prepare(builder: SolverBuilder, scores: impl Fn(&Config) -> bool) -> Result<Prepared, Failure> {
    let config = builder.current_config();
    // The settings are checked before the hub is asked, so that an error in them needs no network.
    config.check()?;
    if config.is_bundled_scorer_foreign() && scores(config) {
        let generator = match (&config.models.generator, &config.models.generator_server) {
            (_, Some(server)) => format!("--generator-url {}", server.urls.join(",")),
            (Some(model), None) => format!("--generator {}", model.display()),
            (None, None) => "--generator".to_owned(),
        };
        return refuse(format!(
            "{generator}: the bundled reward model's scores of its steps mean nothing: name a reward model with \
             --prm, or add --scorer none to a strategy that needs no scores, such as majority or greedy"
        ));
    }
    Ok(download::attach(builder)?.prepare()?)
}

fn load(prepared: Prepared, show: ShowPlan) -> Result<Solver, Failure> {
    announce(&prepared, show);
    let (plan, chat) = (prepared.plan().clone(), prepared.has_chat_template());
    let solver = prepared.solver()?;
    if show == ShowPlan::Always {
        // The settings are for information only, so a closed stderr does not stop the run.
        let _ = effective::write(&mut std::io::stderr().lock(), solver.config(), &plan, chat);
    }
    output::notes(solver.notes());
    Ok(solver)
}

/// Loads only the reward model. Prints a note if the bundled model does not know some of
/// `problems`.
pub(crate) fn reward_model(
    config: Config,
    problems: impl Iterator<Item = impl AsRef<str>>,
) -> Result<Box<dyn Scorer + Send>, Failure> {
    Ok(observed_reward_model(config, problems, None)?.0)
}

/// Loads only the reward model, and returns it with its fingerprint. `observer` gets the hidden
/// state of each step that the model scores.
pub(crate) fn observed_reward_model(
    config: Config,
    problems: impl Iterator<Item = impl AsRef<str>>,
    observer: Option<QuantileReader>,
) -> Result<(Box<dyn Scorer + Send>, String), Failure> {
    let mut prepared = download::attach(builder(config)?)?.prepare_reward_model()?;
    announce(&prepared, ShowPlan::OwnModels);
    foreign::note(prepared.has_bundled(), "chains", problems);
    if let Some(observer) = observer {
        prepared.observe_hidden(observer);
    }
    let fingerprint = prepared.prm_fingerprint().unwrap_or_default().to_owned();
    output::notes(prepared.notes());
    let model = prepared.reward_model()?;
    // Loading may add notes. `output::notes` prints each note only once.
    output::notes(prepared.notes());
    Ok((model, fingerprint))
}

/// Prints the memory plan. Called before the models are loaded, which may take minutes.
fn announce(prepared: &Prepared, show: ShowPlan) {
    let is_empty = prepared.plan().models.is_empty();
    if show != ShowPlan::Never && !prepared.is_bundled() && !is_empty {
        // The plan is for information only, so a closed stderr does not stop the run.
        let budget = prepared.thought_budget();
        let _ = plan::write(&mut std::io::stderr().lock(), prepared.plan(), budget);
    }
}

/// Fails at the first problem that does not fit into the generator's context. `advice` ends the
/// message.
fn check_lengths(
    prepared: &Prepared,
    problems: &Problems,
    count: usize,
    advice: &str,
) -> Result<(), Failure> {
    for (index, problem) in problems.problems[..count].iter().enumerate() {
        if let Err(reason) = prepared.validate(problem) {
            let reason = if reason.is_too_long() {
                format!("{reason}: {advice}")
            } else {
                reason.to_string()
            };
            return Err(problems.refused(index, reason).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_question;

    #[test]
    fn questions_are_told_from_names_of_files() {
        for question in [
            "What is 2+2?",
            "Mia has 34 pens. Leo has 8 more. How many has he",
            "How much is 1/2 + 1/3?",
            "Add 1.5 and 2.5",
            "Solve x^2 = 4.\nGive all solutions.",
        ] {
            assert!(is_question(question), "{question}");
        }
        for name in [
            "problems.jsonl",
            "my problems.jsonl",
            "my data/problems",
            "What?",
            "",
            " x ",
        ] {
            assert!(!is_question(name), "{name}");
        }
    }
}
