//! From flags to a plan.

use beamgen::scorer::ScorerKind;
use beamgen::strategy::StrategyName;
use beamgen_measure::bench::{Cells, Outline, Plan, is_fit_name};

use super::{add, given_file, sets, unscored_unless_needed};
use crate::args::BenchArgs;
use crate::failure::{Failure, refuse};
use crate::settings;

/// What is compared if nothing is named.
const DEFAULT_STRATEGIES: [&str; 4] = ["single", "majority", "best-of-n", "beam"];

/// The plan that flags describe: every strategy with every scorer at every number of chains.
pub fn from_flags(args: &BenchArgs) -> Result<Plan, Failure> {
    let seeds = args.seeds.unwrap_or(1);
    if seeds == 0 {
        return refuse("--seeds 0 leaves nothing to measure: give at least 1");
    }
    let base = settings::config(&args.settings)?;
    let strategies = match args.strategies.as_slice() {
        [] => DEFAULT_STRATEGIES
            .iter()
            .map(|name| name.parse())
            .collect::<Result<Vec<StrategyName>, _>>()
            .map_err(beamgen::Error::from)?,
        given => given.to_vec(),
    };
    let scorers = match args.scorers.as_slice() {
        [] => &[ScorerKind::Prm],
        given => given,
    };
    let mut scored = base.clone();
    let is_model = |scorer: &&ScorerKind| matches!(scorer, ScorerKind::Prm | ScorerKind::Orm);
    scored.models.scorer = *scorers.iter().find(is_model).unwrap_or(&ScorerKind::None);
    settings::refuse_idle(&scored, &args.settings.given, "--scorers prm or orm")?;
    let chains = match args.chains.as_slice() {
        [] => &[16],
        given => given,
    };
    let mut cells = Cells::default();
    for &strategy in &strategies {
        for &scorer in scorers {
            for &n in chains {
                let mut config = base.clone();
                config.search.n = n;
                strategy.apply(&mut config.search);
                config.models.scorer = scorer;
                unscored_unless_needed(&mut config);
                let scored = config.models.scorer != ScorerKind::None;
                let run = match scorers.len() > 1 && scored {
                    true => format!("{scorer} {}", strategy.name()),
                    false => strategy.name().to_owned(),
                };
                add(&mut cells, &run, config)?;
            }
        }
    }
    let (problems, count) = settings::problems(given_file(args), args.limit)?;
    let name = match given_file(args) {
        Some(path) => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            stem.replace(|c: char| !is_fit_name(c.encode_utf8(&mut [0; 4])), "_")
        }
        None => "sample".to_owned(),
    };
    let mut outline = Outline {
        seeds,
        sets: vec![sets::outline(&name, &problems.source, &problems, count)],
        cells: cells.0,
        baseline: None,
        compare: Vec::new(),
        plots: Vec::new(),
    };
    outline.baseline = outline.first_best_of_n();
    Ok(Plan {
        outline,
        problems: vec![problems],
    })
}
