//! `beamgen train sft`, `prm` and `orm`: fine-tunes a checkpoint on examples from files.

use std::io::Write;

use beamgen::models::PrmSpec;
use beamgen_labels::{DataSource, Neutral};
use beamgen_train::tune::labelled::{Labels, Target};
use beamgen_train::tune::{Job, Recipe, Task, run};

use super::display::Display;
use super::numbers::{positive, recipe_of, share};
use super::{checkpoint, failure};
use crate::args::{RewardArgs, SftArgs, TuneFlags};
use crate::data;
use crate::failure::Failure;
use crate::output;
use crate::peak_memory;
use crate::printable;
use crate::write::read_text;

pub(super) fn sft(args: &SftArgs) -> Result<(), Failure> {
    let chat_template = args.chat_template.as_deref().map(read_text);
    let task = Task::Sft {
        system: args.system_prompt.clone(),
        chat_template: chat_template.transpose()?,
    };
    let mut job = job(
        &args.tune,
        data::source(&args.data, &args.part, false)?,
        task,
    )?;
    job.recipe.restrict_vocabulary = args.restrict_vocabulary;
    train(&job)
}

pub(super) fn reward(args: &RewardArgs, target: Target) -> Result<(), Failure> {
    let mut spec =
        PrmSpec::choose(&args.prm_format).map_err(|error| Failure::Input(error.to_string()))?;
    // The model's prm.toml tells searches what it was trained for.
    spec.partial = args.partial > 0;
    let task = Task::Reward {
        spec: Box::new(spec),
        labels: Labels {
            target,
            rule: args.rule.rule(Neutral::Positive),
            alternatives: args.alternatives,
            wrong_weight: positive("--wrong-weight", f64::from(args.wrong_weight))? as f32,
            partial: args.partial,
        },
        head_warmup: share("--head-warmup", args.head_warmup)?,
        reference: args.prm_reference.as_deref().map(checkpoint),
    };
    let mut job = job(
        &args.tune,
        data::source(&args.data, &args.part, false)?,
        task,
    )?;
    job.recipe.head_rate = positive("--head-learning-rate", args.head_learning_rate)?;
    train(&job)
}

fn train(job: &Job) -> Result<(), Failure> {
    let mut display = Display::default();
    let finished = run(job, &mut |report| display.show(&report)).map_err(failure)?;
    if let Some(peak) = peak_memory::mib() {
        output::note(format_args!("  at most {peak:.0} MiB of memory"));
    }
    let out = job.out.display().to_string();
    let mut o = std::io::stdout().lock();
    if finished {
        writeln!(o, "Written: {}", printable::line(&out))?;
    } else {
        writeln!(o, "Stopped; resume with --resume")?;
    }
    Ok(o.flush()?)
}

fn job(flags: &TuneFlags, data: DataSource, task: Task) -> Result<Job, Failure> {
    Ok(Job {
        task,
        from: checkpoint(&flags.run.from),
        data,
        out: flags.run.out.clone(),
        recipe: Recipe {
            epochs: flags.epochs,
            batch: flags.batch,
            ..recipe_of(&flags.run)?
        },
        held_out: share("--held-out", flags.held_out)?,
        limit: flags.limit,
        longest: flags.max_tokens,
        frozen_type: flags.frozen_dtype,
        float32: flags.run.float32,
        resume: flags.run.resume,
        stop_after: flags.run.stop_after,
        evaluate_every: flags.evaluate_every,
    })
}
