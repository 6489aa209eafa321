//! `beamgen bench --pool`: chooses among existing solutions, without sampling.

use std::io::{self, Write};

use beamgen::scorer::ScorerKind;
use beamgen::settings::{Part, Setting};
use beamgen_measure::pool::{self, COLUMNS, Pools, Report};
use beamgen_measure::scores;

use super::file::BenchFile;
use super::given_file;
use crate::about;
use crate::args::{BenchArgs, flagged};
use crate::failure::{Failure, refuse};
use crate::lost;
use crate::output;
use crate::printable;
use crate::settings;
use crate::table::{Table, counted, grouped};
use crate::verdicts;
use crate::watch::Shown;

pub(super) fn main(args: &BenchArgs) -> Result<(), Failure> {
    refuse_sampling(args)?;
    let base = settings::config(&args.settings)?;
    let scorers = pool::scorers(&base, &args.scorers);
    let searches = scorers.iter().map(|(_, config, _)| config.clone());
    // Each judge is a scorer of its own here, and checkers need no scorer. A copy of the settings
    // without a scorer makes sure that flags about both do not count as useless.
    let mut rest = base.clone();
    rest.models.scorer = ScorerKind::None;
    let searches: Vec<_> = searches.chain([rest]).collect();
    settings::refuse_idle(&searches, &args.settings.given, "--scorers prm or orm")?;
    if args.limit == Some(0) {
        return refuse("--limit 0 leaves no problem: use at least 1");
    }
    let mut pools = Pools::open(&args.pool, args.limit, &base)?;
    // A folder that cannot be created should fail now, not after hours of scoring.
    if let Some(folder) = &args.out {
        pool::create(folder)?;
    }
    let mut shown = Shown::default();
    shown.is_quiet = args.quiet;
    for (name, config, at_end) in scorers {
        let model_name = scores::scorer(&config);
        let mut model = settings::reward_model(config, pools.problems())?;
        pools.score(&name, (&mut *model, &model_name), at_end, &mut shown)?;
    }
    if !base.checkers.is_empty() {
        let mut panel = verdicts::panel(&base)?;
        pools.check(&mut panel, &mut shown)?;
        lost::tell(panel.lost());
    }
    drop(shown);
    let report = match &args.out {
        Some(folder) => pools.write(folder, &about::this())?,
        None => pools.report(),
    };
    if args.json {
        for row in &report.table {
            output::json_line(&mut io::stdout(), row)?;
        }
        Ok(())
    } else {
        Ok(print(&report)?)
    }
}

/// Refuses flags that matter only for sampling.
fn refuse_sampling(args: &BenchArgs) -> Result<(), Failure> {
    let file = match &args.settings.config {
        Some(path) => BenchFile::open(path)?,
        None => None,
    };
    if let Some(file) = file {
        return Err(file.whole(
            "is a bench file, which samples: leave --pool out, or give a file of settings",
        ));
    }
    let given = |(name, _): &(&str, _)| {
        let setting = Setting::named(name);
        let part = setting.map(|setting| setting.part);
        let scores = matches!(part, Some(Part::Reward | Part::Engine | Part::Checkers));
        (!scores && !["aggregation", "judge"].contains(name)).then(|| flagged(&format!("`{name}`")))
    };
    let own = [
        ("a problem file", given_file(args).is_some()),
        ("--strategies", !args.strategies.is_empty()),
        ("--n", !args.chains.is_empty()),
        ("--seeds", args.seeds.is_some()),
        ("--resume", args.resume),
        ("--plan", args.plan),
    ];
    let own = own.into_iter().find(|(_, is_given)| *is_given);
    let own = own.map(|(name, _)| name.to_owned());
    match own.or_else(|| args.settings.given.0.iter().find_map(given)) {
        Some(name) => refuse(format!(
            "{name} changes nothing with --pool, which samples nothing: leave {name} out"
        )),
        None => Ok(()),
    }
}

/// Writes a table for each set.
pub(super) fn print(report: &Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (set, count) in report.outline.sets.iter().zip(&report.counts) {
        let answers = if set.gives_answers {
            "answers from the file"
        } else {
            "answers read from the texts"
        };
        writeln!(
            out,
            "{}: {}, {}; right by {}, {answers}",
            printable::line(&set.name),
            counted(count.problems, "problem", "problems"),
            counted(count.solutions, "solution", "solutions"),
            set.rightness.name(),
        )?;
        let rows = || report.table.iter().filter(|row| row.set == set.name);
        // Without labels and checkers nothing is known about steps, and the columns would be empty.
        let columns = if rows().any(|row| row.sound.is_some()) {
            &COLUMNS[..]
        } else {
            &COLUMNS[..3]
        };
        let head: Vec<&str> = columns.iter().map(|column| column.0).collect();
        let mut table = Table::new(&head);
        for row in rows() {
            table.row(columns.iter().map(|column| column.1(row)).collect());
        }
        table.write(&mut out)?;
        if count.tied > 0 {
            writeln!(
                out,
                "  {} have as many votes for a right as for a wrong answer: the order in the file decides",
                counted(count.tied, "problem", "problems")
            )?;
        }
        if let Some(all) = report.disagreements.iter().find(|all| all.set == set.name) {
            writeln!(
                out,
                "  beamgen's grader disagrees with the file: {} right only in the file ({} of them it cannot tell), {} right only for the grader",
                counted(all.file_right, "solution", "solutions"),
                grouped(all.cannot_tell as u64),
                grouped(all.grader_right as u64)
            )?;
        }
    }
    let all: usize = report.counts.iter().map(|count| count.solutions).sum();
    for scorer in report.outline.scorers.iter().filter(|of| of.refused > 0) {
        writeln!(
            out,
            "{} could not score {} of {}",
            printable::line(&scorer.name),
            grouped(scorer.refused as u64),
            counted(all, "solution", "solutions")
        )?;
    }
    out.flush()
}
