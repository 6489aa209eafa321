//! `beamgen adapt`: trains a reward model further on chains of a new generator, if it needs it.

use std::fs;
use std::io::Write;
use std::path::Path;

use beamgen::Problem;
use beamgen::eval::metrics::{self, Interval, bootstrap_of};
use beamgen::eval::quality::{Figures, Measure, ScoredChain, auc, measure};
use beamgen::eval::{Record, RunFile};
use beamgen_labels::LabelRule;
use beamgen_measure::eval_prm;
use beamgen_train::rl::hold_out;

use super::numbers::share;
use super::stages::{Judge, Stages, format_of, reward_model};
use crate::args::AdaptArgs;
use crate::failure::{Failure, refuse};
use crate::printable;
use crate::settings;
use crate::table::{Table, counted, percent};
use crate::watch::Shown;
use crate::write::{create_folder, failed};

/// The files of a checkpoint's folder that belong to the training run.
const WORK: &str = "work";
/// The seed of the split of the problems, and of intervals.
const SEED: u64 = 0;

pub(crate) fn main(args: &AdaptArgs) -> Result<(), Failure> {
    let judge = Judge {
        folder: args.prm.clone(),
        format: format_of(&args.prm, args.prm_format.as_deref())?,
        reference: args.prm_reference.clone(),
    };
    if args.first == 0 {
        return refuse("--first 0 labels nothing: use at least 1");
    }
    let (problems, count) = settings::problems(Some(&args.problems), &args.data, false, None)?;
    settings::require_outcomes(&problems, count, &args.labels.verifier.config())?;
    problems.refuse_steps()?;
    let part = share("--held-out", args.held_out)?;
    let (train, held_out) = hold_out(problems.problems, part, SEED);
    if train.is_empty() || held_out.is_empty() {
        return refuse(format!(
            "{}: too few problems to learn from some and to measure on others: give more",
            args.problems.display()
        ));
    }
    let folder = args.out.join(WORK);
    if folder.exists() && !args.resume {
        return refuse(format!(
            "{}: has an earlier run: add --resume to continue it, or delete the folder",
            args.out.display()
        ));
    }
    let stages = Stages::new(folder)?;
    let measured = stages.problems("held-out.jsonl", &held_out)?;
    let (generator, flags) = (&args.generator, &args.labels);
    let labelled = stages.label("held-out", generator, &measured, flags.completions, flags)?;

    let old = Quality::of(&judge, &labelled)?;
    if old.area() >= args.area {
        let mut out = std::io::stdout().lock();
        old.table("--prm", None).write(&mut out)?;
        writeln!(
            out,
            "No adaptation is needed: the area is at least {}.",
            args.area
        )?;
        return Ok(());
    }
    // As many chains are labelled as are needed: the number of problems doubles.
    let (mut data, mut taken, mut take) = (Vec::new(), 0, args.first);
    let completions = judge.completions(flags);
    let (mut new, mut adapted);
    loop {
        // A rest of less than half is not worth a training run of its own.
        let until = if train.len() < take + take / 2 {
            train.len()
        } else {
            take
        };
        let next: Vec<Problem> = train[taken..until].to_vec();
        taken += next.len();
        let name = taken.to_string();
        let problems = stages.problems(&format!("problems-{name}.jsonl"), &next)?;
        data.push(stages.label(&name, generator, &problems, completions, flags)?);
        adapted = stages.learn(&name, &judge, &data, flags)?;
        new = Quality::of(&adapted, &labelled)?;
        if new.area() >= args.area || taken == train.len() {
            break;
        }
        take *= 2;
    }
    let searched = if args.n > 0 {
        Some([
            search(&stages, "before", args, &judge, &measured)?,
            search(&stages, "after", args, &adapted, &measured)?,
        ])
    } else {
        None
    };

    let gain = old.gain(&new);
    let mut out = std::io::stdout().lock();
    let [before, after] = match &searched {
        Some([before, after]) => [Some(before), Some(after)],
        None => [None, None],
    };
    let mut table = old.table("--prm", before);
    table.row(new.row("adapted", after));
    table.write(&mut out)?;
    writeln!(
        out,
        "  Learnt from {} ({}); measured on {}.",
        counted(taken, "problem", "problems"),
        counted(lines(&data)?, "chain", "chains"),
        counted(held_out.len(), "held-out problem", "held-out problems"),
    )?;
    if let Some(gain) = gain {
        writeln!(
            out,
            "  Area, adapted - --prm: {:+.4} ({:+.4} to {:+.4})",
            gain.mean, gain.low, gain.high
        )?;
    }
    // A larger area is no use if the search, which looks for the best steps, is right less often.
    let loses = match &searched {
        Some([before, after]) => after.right.mean < before.right.mean,
        None => false,
    };
    let why = if gain.is_none_or(|gain| gain.low <= 0.0) {
        Some("the adapted reward model is not proved better")
    } else if loses {
        Some("the search with the adapted reward model is right less often")
    } else {
        None
    };
    if let Some(why) = why {
        writeln!(
            out,
            "Not written: {why}. It is in {}.",
            printable::line(&adapted.folder.display().to_string())
        )?;
        return Ok(());
    }
    copy(&adapted.folder, &args.out)?;
    writeln!(
        out,
        "Written: {}",
        printable::line(&args.out.display().to_string())
    )?;
    Ok(())
}

/// The scores of a reward model on the held-out chains.
struct Quality {
    chains: Vec<ScoredChain>,
    figures: Figures,
}

impl Quality {
    fn of(judge: &Judge, labelled: &Path) -> Result<Self, Failure> {
        let sets = eval_prm::open(&[labelled], None, &LabelRule::default())?;
        let texts = sets.iter().flat_map(|set| &set.chains);
        let texts: Vec<String> = texts.map(|chain| chain.problem.clone()).collect();
        let mut model = reward_model(judge, texts.iter())?;
        let rows = eval_prm::score(&mut *model, sets, false, &mut Shown::default())?;
        let chains: Vec<ScoredChain> = rows.sets.into_iter().flatten().collect();
        let figures = measure(&chains, 0.5, SEED);
        Ok(Self { chains, figures })
    }

    fn area(&self) -> f64 {
        self.figures
            .get(Measure::Auc)
            .map_or(0.0, |figure| figure.value)
    }

    fn table(&self, name: &str, searched: Option<&Searched>) -> Table {
        let mut table = Table::new(&[
            "reward model",
            "area",
            "95 %",
            "first error F1",
            "ECE",
            "search right",
            "95 %",
            "tokens",
        ]);
        table.row(self.row(name, searched));
        table
    }

    fn row(&self, name: &str, searched: Option<&Searched>) -> Vec<String> {
        let figure = |of| self.figures.get(of);
        let value = |of| figure(of).map_or("-".to_owned(), |figure| format!("{:.4}", figure.value));
        let interval = figure(Measure::Auc).and_then(|figure| figure.interval);
        let mut row = vec![
            name.to_owned(),
            value(Measure::Auc),
            interval.map_or("-".to_owned(), |(low, high)| format!("{low:.4}-{high:.4}")),
            figure(Measure::FirstErrorF1).map_or("-".to_owned(), |figure| percent(figure.value)),
            value(Measure::EceMass),
        ];
        row.extend(match searched {
            Some(searched) => [
                percent(searched.right.mean),
                format!(
                    "{:.1}-{:.1}",
                    100.0 * searched.right.low,
                    100.0 * searched.right.high
                ),
                format!("{:.0}", searched.tokens),
            ],
            None => ["-"; 3].map(str::to_owned),
        });
        row
    }

    /// Returns the score of each labelled step, whether the step is right, and its problem, in rising
    /// order of scores.
    fn ranked(&self) -> Vec<(f32, bool, usize)> {
        let steps = self.chains.iter().flat_map(|chain| {
            let scores = chain.scores.as_deref().unwrap_or_default();
            let labels = chain.labels.iter().zip(scores);
            labels.filter_map(|(label, &score)| {
                let label = label.filter(|label| *label != 0.5)?;
                Some((score, label > 0.5, chain.problem as usize))
            })
        });
        let mut steps: Vec<(f32, bool, usize)> = steps.collect();
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        steps
    }

    /// Returns the other model's area less this one's, with a paired interval over problems.
    fn gain(&self, other: &Self) -> Option<Interval> {
        let problems = self.chains.iter().map(|chain| chain.problem).max()? as usize + 1;
        let [old, new] = [self, other].map(Self::ranked);
        let area = |steps: &[(f32, bool, usize)], drawn: &[usize]| {
            let mut times = vec![0_u32; problems];
            for &problem in drawn {
                times[problem] += 1;
            }
            let steps = steps.iter();
            auc(steps.map(|&(score, right, problem)| (score, right, f64::from(times[problem]))))
                .unwrap_or(0.5)
        };
        let difference = |drawn: &[usize]| area(&new, drawn) - area(&old, drawn);
        let all: Vec<usize> = (0..problems).collect();
        let (low, high) = bootstrap_of(problems, SEED, difference)?;
        let mean = difference(&all);
        Some(Interval { mean, low, high })
    }
}

/// The answers of a search on the held-out problems.
struct Searched {
    right: Interval,
    /// The mean number of tokens sampled for a problem.
    tokens: f64,
}

fn search(
    stages: &Stages,
    name: &str,
    args: &AdaptArgs,
    judge: &Judge,
    problems: &Path,
) -> Result<Searched, Failure> {
    let run = stages.path(&format!("search-{name}.jsonl"));
    let [problems, generator, prm, out] =
        [problems, &args.generator, &judge.folder, &run].map(|path| path.display().to_string());
    let reference = judge
        .reference
        .as_deref()
        .map(|path| path.display().to_string());
    let n = args.n.to_string();
    let mut command = vec![
        "solve",
        &problems,
        "--generator",
        &generator,
        "--prm",
        &prm,
        "--prm-format",
        &judge.format,
        "-n",
        &n,
        "--out",
        &out,
        "--quiet",
    ];
    if let Some(reference) = &reference {
        command.extend(["--prm-reference", reference]);
    }
    let verifier = args.labels.verifier.typed();
    command.extend(verifier.iter().map(String::as_str));
    if run.exists() {
        command.push("--resume");
    }
    stages.run(&format!("search-{name}"), &command)?;
    let (_, records) = RunFile::read::<Record>(&run)?;
    let right = records.iter().filter(|record| record.correct == Some(true));
    let tokens: u64 = records
        .iter()
        .map(|record| record.ledger.generated_tokens)
        .sum();
    Ok(Searched {
        right: metrics::share(right.count(), records.len())
            .ok_or_else(|| Failure::Input(format!("{out}: has no problem: delete it")))?,
        tokens: tokens as f64 / records.len().max(1) as f64,
    })
}

/// Counts the lines of files.
fn lines(files: &[impl AsRef<Path>]) -> Result<usize, Failure> {
    let mut count = 0;
    for file in files {
        let text = fs::read_to_string(file).map_err(|error| failed(file.as_ref(), error))?;
        count += text.lines().count();
    }
    Ok(count)
}

/// Copies the files of a checkpoint into the folder of --out.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    create_folder(to)?;
    let entries = fs::read_dir(from).map_err(|error| failed(from, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed(from, error))?;
        if entry.path().is_file() {
            let target = to.join(entry.file_name());
            fs::copy(entry.path(), &target).map_err(|error| failed(&target, error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(scores: [[f32; 2]; 3]) -> Quality {
        let chains = scores
            .into_iter()
            .zip(0..)
            .map(|(scores, problem)| ScoredChain {
                problem,
                labels: vec![Some(1.0), Some(0.0)],
                scores: Some(scores.to_vec()),
                lengths: vec![1, 1],
                ..ScoredChain::default()
            });
        let chains: Vec<ScoredChain> = chains.collect();
        let figures = measure(&chains, 0.5, SEED);
        Quality { chains, figures }
    }

    #[test]
    fn the_gain_is_the_difference_of_the_areas() {
        // In the first chain the wrong step scores higher, then the right one.
        let old = quality([[0.4, 0.5], [0.9, 0.1], [0.6, 0.2]]);
        let new = quality([[0.6, 0.5], [0.9, 0.1], [0.6, 0.2]]);
        let gain = old.gain(&new).unwrap();
        assert!(
            (gain.mean - (new.area() - old.area())).abs() < 1e-12,
            "{gain:?}"
        );
        assert!(gain.mean > 0.1 && gain.low <= gain.mean && gain.mean <= gain.high);
        assert_eq!(old.gain(&old).unwrap().mean, 0.0);
    }
}
