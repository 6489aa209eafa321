//! `beamgen bench`: the same problems under several strategies.

use std::io::{self, Write};
use std::ops::ControlFlow;

use beamgen::eval::metrics::{Interval, bootstrap};
use beamgen::eval::{Problems, Spent, is_correct};
use beamgen::{Config, ScorerKind, StrategyKind};
use serde::Serialize;

use crate::args::{BenchArgs, StrategyFlag};
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::settings;
use crate::table::{Table, grouped, megabytes};

pub fn main(args: &BenchArgs) -> Result<(), Failure> {
    let runs = plan(args)?;
    let (problems, count) = settings::problems(args.file.as_deref(), args.limit)?;
    problems.require_answers(count)?;
    let mut rows = Vec::new();
    for run in runs {
        let row = measure(run, &problems, count, args.seeds)?;
        if args.json {
            output::json_line(&mut io::stdout(), &row)?;
        }
        rows.push(row);
    }
    match args.json {
        true => Ok(()),
        false => Ok(print(&rows, count, args.seeds)?),
    }
}

/// One row of the comparison, to be measured.
struct Run {
    name: String,
    config: Config,
}

/// Every strategy at every number of chains, with every scorer if it uses one. Configurations are
/// checked before any of them runs.
fn plan(args: &BenchArgs) -> Result<Vec<Run>, Failure> {
    if args.seeds == 0 {
        return Err(Failure::Input(
            "--seeds 0 leaves nothing to measure: give at least 1".to_owned(),
        ));
    }
    let base = settings::config(&args.settings)?;
    let mut runs: Vec<Run> = Vec::new();
    for &strategy in &args.strategies {
        for &n in &args.chains {
            for &scorer in &args.scorers {
                let mut config = base.clone();
                config.search.n = n;
                settings::set_strategy(&mut config, strategy, None);
                // What only samples or votes is not charged for scores that nobody asks for.
                config.models.scorer = if config.search.needs_scorer().is_some() {
                    scorer
                } else {
                    ScorerKind::None
                };
                config.check()?;
                let name = name(strategy, &config);
                if !runs.iter().any(|run| run.name == name) {
                    runs.push(Run { name, config });
                }
            }
        }
    }
    Ok(runs)
}

fn name(strategy: StrategyFlag, config: &Config) -> String {
    let (n, m) = (config.search.n, config.search.m);
    let scorer = match config.models.scorer {
        ScorerKind::None => String::new(),
        scorer => format!("{scorer} "),
    };
    match strategy {
        StrategyFlag::Beam => format!("{scorer}beam {n}/{m}"),
        StrategyFlag::BestOfN => format!("{scorer}best-of-{n}"),
        StrategyFlag::Majority => format!("majority of {n}"),
        StrategyFlag::Weighted => format!("{scorer}weighted vote of {n}"),
        StrategyFlag::Greedy => "greedy".to_owned(),
        StrategyFlag::Single => "single sample".to_owned(),
        _ => format!("{scorer}{} {n}", config.search.strategy),
    }
}

/// A measured row.
#[derive(Serialize)]
struct Row {
    name: String,
    strategy: StrategyKind,
    scorer: ScorerKind,
    n: usize,
    m: usize,
    seeds: u64,
    problems: usize,
    /// Mean over problems and seeds, with the 95 % bootstrap interval over problems.
    accuracy: f64,
    accuracy_low: f64,
    accuracy_high: f64,
    /// All seeds together.
    ledger: Spent,
}

fn measure(run: Run, problems: &Problems, count: usize, seeds: u64) -> Result<Row, Failure> {
    let Run { name, config } = run;
    let mut right = vec![0.0; count];
    let mut ledger = Spent::default();
    for offset in 0..seeds {
        let mut config = config.clone();
        config.generator.seed = config.generator.seed.wrapping_add(offset);
        let mut solver = settings::solver(config)?;
        if offset == 0 {
            settings::check_lengths(&solver, problems, count)?;
        }
        let progress = std::cell::RefCell::new(Progress::new(count).named(&name));
        let mut refused = None;
        let summary = solver.run(
            problems.problems[..count].to_vec(),
            &mut |event| progress.borrow_mut().observe(&event),
            &mut |result| {
                let correct = is_correct(&result);
                right[result.index] += f64::from(u8::from(correct == Some(true)));
                progress.borrow_mut().done(correct);
                match result.error {
                    None => ControlFlow::Continue(()),
                    Some(error) => {
                        refused = Some(anyhow::anyhow!(
                            "{name}: problem {}: {error}",
                            result.problem.id
                        ));
                        ControlFlow::Break(())
                    }
                }
            },
        )?;
        if let Some(error) = refused {
            return Err(Failure::Run(error));
        }
        ledger.add(&Spent::new(&summary.ledger, summary.elapsed));
    }
    let means: Vec<f64> = right.iter().map(|right| right / seeds as f64).collect();
    let interval = bootstrap(&means, 0).unwrap_or(Interval {
        mean: 0.0,
        low: 0.0,
        high: 0.0,
    });
    Ok(Row {
        name,
        strategy: config.search.strategy,
        scorer: config.models.scorer,
        n: config.search.chains(),
        m: config.search.m,
        seeds,
        problems: count,
        accuracy: interval.mean,
        accuracy_low: interval.low,
        accuracy_high: interval.high,
        ledger,
    })
}

fn print(rows: &[Row], count: usize, seeds: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let plural = if seeds == 1 { "" } else { "s" };
    writeln!(
        out,
        "{count} problems, {seeds} seed{plural}; tokens and seconds per problem"
    )?;
    let head = [
        "strategy",
        "accuracy",
        "95 % interval",
        "generated",
        "scored",
        "reused",
        "peak KV",
        "seconds",
    ];
    let mut table = Table::new(&head);
    for row in rows {
        let solved = row.problems as f64 * row.seeds as f64;
        let each = |total: u64| grouped((total as f64 / solved).round() as u64);
        table.row(vec![
            row.name.clone(),
            format!("{:.1} %", row.accuracy * 100.0),
            format!(
                "{:.1} to {:.1}",
                row.accuracy_low * 100.0,
                row.accuracy_high * 100.0
            ),
            each(row.ledger.generated_tokens),
            each(row.ledger.scored_tokens),
            each(row.ledger.reused_tokens),
            megabytes(row.ledger.peak_kv_bytes),
            format!("{:.3}", row.ledger.seconds / solved),
        ]);
    }
    table.write(&mut out)?;
    out.flush()
}
