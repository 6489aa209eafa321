//! `beamgen train rl`: trains a generator by reinforcement learning on its own chains.

use std::io::Write;
use std::time::{Duration, Instant};

use beamgen::checkers::{MATH, Verifiers};
use beamgen::eval::Problems;
use beamgen::eval::metrics::wilson;
use beamgen::generator::GeneratorConfig;
use beamgen::launcher::Launcher;
use beamgen::scorer::{Scorer, ScorerKind};
use beamgen::{Config, Problem};
use beamgen_train::rl::{
    Algorithm, Credit, Ended, Event, Job, Recipe, Reward, RewardSources, hold_out, run,
};
use beamgen_train::tune;

use super::numbers::{not_negative, recipe_of, share};
use super::{checkpoint, failure, refresh};
use crate::args::RlArgs;
use crate::failure::{Failure, refuse};
use crate::lost;
use crate::output;
use crate::peak_memory;
use crate::printable;
use crate::settings;
use crate::table::{counted, grouped};

/// The minimum time between two lines about updates.
const LINE: Duration = Duration::from_secs(5);

/// The number of lines between two headings.
const HEADING: usize = 20;

pub(super) fn main(args: &RlArgs) -> Result<(), Failure> {
    let (problems, held_out) = problems(args)?;
    let recipe = recipe(args)?;
    if args.refresh_prm > 0 {
        refresh::check(args, recipe.reward)?;
    }
    let mut scorer = scorer(args, recipe.reward, &problems)?;
    let verifier = args.refresh.verifier.config();
    let mut verifier = if verifier.is_math() {
        None
    } else {
        Some(verifier.open(&Launcher::this_program())?)
    };
    let job = Job {
        from: checkpoint(&args.run.from),
        problems,
        held_out,
        out: args.run.out.clone(),
        recipe,
        float32: args.run.float32,
        resume: args.run.resume,
        stop_after: args.run.stop_after,
        pause_at: None,
    };
    let mut display = Display::default();
    let ended = if args.refresh_prm > 0 {
        refresh::run(args, job.clone(), verifier.as_mut(), &mut |event| {
            display.show(event);
        })?
    } else {
        let rewards = RewardSources {
            scorer: scorer.as_deref_mut().map(|scorer| scorer as _),
            verifier: verifier.as_mut().map(|verifier| verifier as _),
        };
        run(&job, rewards, &mut |event| display.show(&event)).map_err(failure)?
    };
    let lost = verifier.iter().flat_map(Verifiers::lost);
    lost::tell(lost.map(|(name, lost)| (name.as_str(), lost.get())));
    if let Some(peak) = peak_memory::mib() {
        output::note(format_args!("  at most {peak:.0} MiB of memory"));
    }
    let out = job.out.display().to_string();
    let out = printable::line(&out);
    let mut o = std::io::stdout().lock();
    match ended {
        Ended::Done(update) => {
            writeln!(
                o,
                "Written: {out}, the policy after update {update}, which is the most accurate"
            )?;
        }
        Ended::Fallen(update) => {
            writeln!(
                o,
                "Stopped: the held-out accuracy fell while the reward rose. Written: {out}, the policy after update {update}, which is the most accurate"
            )?;
        }
        Ended::Paused => writeln!(o, "Stopped; resume with --resume")?,
    }
    Ok(o.flush()?)
}

/// Returns the problems to train on, and the held-out problems.
fn problems(args: &RlArgs) -> Result<(Vec<Problem>, Vec<Problem>), Failure> {
    let (problems, count) =
        settings::problems(Some(&args.problems), &args.data, false, args.limit)?;
    let verifier = args.refresh.verifier.config();
    settings::require_outcomes(&problems, count, &verifier)?;
    problems.refuse_steps()?;
    let part = share("--held-out", args.held_out)?;
    let problems = problems.problems[..count].to_vec();
    match &args.held_out_problems {
        None if part == 0.0 => {
            refuse("--held-out 0 leaves nothing to measure: add --held-out-problems FILE")
        }
        None => Ok(hold_out(problems, part, args.run.seed)),
        Some(path) => {
            let held_out = Problems::open(path)?;
            // All held-out problems are used, since --limit is for the training problems.
            settings::require_outcomes(&held_out, usize::MAX, &verifier)?;
            held_out.refuse_steps()?;
            Ok((problems, held_out.problems))
        }
    }
}

fn recipe(args: &RlArgs) -> Result<Recipe, Failure> {
    let reward: Reward = args.reward.parse().map_err(failure)?;
    let mut generator = GeneratorConfig {
        max_chain_tokens: args.max_chain_tokens,
        max_step_tokens: args.max_step_tokens,
        system_prompt: args.system_prompt.clone(),
        ..GeneratorConfig::default()
    };
    if let Some(boundary) = &args.boundary {
        generator.boundaries = vec![boundary.clone()];
    }
    Ok(Recipe {
        algorithm: args.algorithm.parse::<Algorithm>().map_err(failure)?,
        reward,
        credit: args.credit.parse::<Credit>().map_err(failure)?,
        prm: reward.scores().then(|| named(args)),
        verifier: args
            .refresh
            .verifier
            .run
            .as_ref()
            .filter(|run| *run != MATH)
            .map(|run| {
                let open = if args.refresh.verifier.open {
                    "open: "
                } else {
                    ""
                };
                format!("{open}{run}")
            }),
        prm_weight: not_negative("--prm-weight", args.prm_weight)?,
        refresh: args.refresh_prm,
        rollouts: args.rollouts,
        group: args.group,
        problems: args.groups,
        updates: args.updates,
        kl: not_negative("--kl", args.kl)?,
        training: tune::Recipe {
            epochs: args.epochs,
            batch: args.batch.unwrap_or(args.group * args.groups),
            ..recipe_of(&args.run)?
        },
        generator,
        max_steps: args.max_steps,
        guesses: args.guesses,
        mismatch: not_negative("--max-mismatch", args.max_mismatch)?,
        evaluate_every: args.evaluate_every,
        samples: args.samples,
        patience: args.patience,
    })
}

/// Returns the reward model's name for the run's log, with its format if one is given.
fn named(args: &RlArgs) -> String {
    let prm = args.prm.as_ref();
    let mut name = prm.map_or("bundled".to_owned(), |prm| prm.display().to_string());
    if let Some(format) = &args.prm_format {
        name += &format!(" as {format}");
    }
    if let Some(reference) = &args.prm_reference {
        name += &format!(" against {}", reference.display());
    }
    name
}

fn scorer(
    args: &RlArgs,
    reward: Reward,
    problems: &[Problem],
) -> Result<Option<Box<dyn Scorer + Send>>, Failure> {
    if !reward.scores() {
        let given = [
            ("--prm", args.prm.is_some()),
            ("--prm-format", args.prm_format.is_some()),
            ("--prm-reference", args.prm_reference.is_some()),
        ];
        return match given.into_iter().find(|(_, given)| *given) {
            None => Ok(None),
            Some((flag, _)) => refuse(format!(
                "{flag} needs --reward prm or both, not outcome: change one of them"
            )),
        };
    }
    let mut config = Config::default();
    config.models.prm.clone_from(&args.prm);
    config.models.prm_format.clone_from(&args.prm_format);
    config.models.prm_reference.clone_from(&args.prm_reference);
    config.models.scorer = ScorerKind::Prm;
    config.resolve_words();
    let texts = problems.iter().map(Problem::with_context);
    settings::reward_model(config, texts).map(Some)
}

/// Writes progress to stderr: at most one line about updates every [`LINE`], and a line for each
/// measurement.
#[derive(Default)]
struct Display {
    shown: Option<Instant>,
    lines: usize,
}

impl Display {
    fn show(&mut self, event: &Event) {
        match event {
            Event::Note(text) => output::note(text),
            Event::Update(update) => {
                let due = self.shown.is_none_or(|shown| shown.elapsed() > LINE);
                if !due {
                    return;
                }
                self.shown = Some(Instant::now());
                // The heading is repeated, because other lines push it off the screen.
                if self.lines.is_multiple_of(HEADING) {
                    output::note(
                        "update  reward   right  unsound  tokens     cut  repeat  entropy   KL ref   KL old    clip   engine off  sampled/s  trained/s",
                    );
                }
                self.lines += 1;
                output::note(format_args!(
                    "{:>6} {:>7.3} {:>6.1}% {:>8} {:>7.1} {:>6.1}% {:>6.1}% {:>8.3} {:>8.4} {:>8.5} {:>6.2}% {:>12.1e} {:>10} {:>10}",
                    update.update,
                    update.reward,
                    100.0 * update.right,
                    unsound(update.unsound),
                    update.length,
                    100.0 * update.truncated,
                    100.0 * update.repetition,
                    update.entropy,
                    update.kl_reference,
                    update.kl_old,
                    100.0 * update.clipped,
                    update.mismatch_max,
                    grouped(update.rollout_speed() as u64),
                    grouped(update.training_speed() as u64),
                ));
            }
            Event::HeldOut(held_out) => {
                let what = match (held_out.is_best, held_out.fallen) {
                    (true, _) => ", the best so far".to_owned(),
                    (false, 0) => String::new(),
                    (false, n) => format!(", fallen while the reward rose ({n} in a row)"),
                };
                let unsound = match held_out.unsound {
                    Some(_) => {
                        format!(" ({} of the right ones unsound)", unsound(held_out.unsound))
                    }
                    None => String::new(),
                };
                output::note(format_args!(
                    "  after update {}: {} of samples{unsound} and {} of greedy chains right on {}{what}",
                    held_out.update,
                    over_problems(held_out.sampled, held_out.problems),
                    over_problems(held_out.greedy, held_out.problems),
                    counted(held_out.problems, "held-out problem", "held-out problems"),
                ));
            }
        }
    }
}

/// Formats the share of unsound chains among right ones, in per cent; `-` if it is unknown.
fn unsound(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), |part| format!("{:.1}%", 100.0 * part))
}

/// Formats a share in per cent, with the 95 % interval for this number of problems.
fn over_problems(share: f64, problems: usize) -> String {
    let (low, high) = wilson(share, problems);
    let [share, low, high] = [share, low, high].map(|of| 100.0 * of);
    format!("{share:.1} % (95 %: {low:.1} to {high:.1})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn the_flags_name_every_row_of_the_tables() {
        let command = args::definition();
        let rl = command
            .find_subcommand("train")
            .and_then(|train| train.find_subcommand("rl"))
            .expect("train rl");
        let names = |flag: &str| -> Vec<String> {
            let found = rl.get_arguments().find(|arg| arg.get_id() == flag);
            let values = found.expect("a flag").get_possible_values();
            values
                .iter()
                .map(|value| value.get_name().to_owned())
                .collect()
        };
        assert_eq!(names("algorithm"), Algorithm::ALL.map(|row| row.name));
        assert_eq!(names("credit"), Credit::ALL.map(|(name, _)| name));
        assert_eq!(names("reward"), Reward::ALL.map(|(name, _)| name));
    }
}
