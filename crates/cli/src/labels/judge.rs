//! `beamgen labels judge`: second opinions of a reward model or of checkers.

use beamgen_labels::LabelledChain;
use beamgen_measure::{Watch, scores};

use super::inputs;
use super::write::Lines;
use crate::args::JudgeArgs;
use crate::failure::Failure;
use crate::lost;
use crate::output;
use crate::progress::Progress;
use crate::settings;
use crate::table::grouped;
use crate::verdicts::{self, AT_ONCE};
use crate::watch::Shown;

pub(super) fn main(args: &JudgeArgs) -> Result<(), Failure> {
    let out = Lines::open(&args.out)?;
    let mut config = settings::prm_config(&args.prm)?;
    // A file of settings may have checkers for a search.
    let flags = &args.checkers;
    let checks = flags.given.has("checker") || flags.given.has("checker_command");
    config.checkers.builtin.clear();
    config.checkers.commands.clear();
    let config = settings::with_flags(config, flags)?;
    let mut chains = inputs::chains(inputs::read(&args.input)?);
    let (judged, what) = if !checks {
        (ask_model(config, &mut chains)?, "second opinions")
    } else {
        (ask_checkers(&config, &mut chains)?, "a step that fails")
    };
    let judged = judged.ok_or_else(|| {
        let message = "the reward model could not read any of the chains, see above";
        Failure::Run(anyhow::anyhow!(message))
    })?;
    out.write(chains.iter())?;
    output::note(format_args!(
        "{} of {} chains have {what} in {}",
        grouped(judged as u64),
        grouped(chains.len() as u64),
        args.out.display()
    ));
    Ok(())
}

/// The probability of each step by the reward model; how many chains it could read, if any.
fn ask_model(
    config: beamgen::Config,
    chains: &mut [LabelledChain],
) -> Result<Option<usize>, Failure> {
    let scorer = scores::scorer(&config);
    let problems = chains.iter().map(|chain| chain.problem.as_str());
    let mut model = settings::reward_model(config, problems)?;
    let given = scores::given(chains);
    let mut shown = Shown::default();
    shown.begin(chains.len(), "chains", chains.len() as f64);
    let all = scores::judge(&mut *model, &given, &mut shown)?;
    let mut judged = 0;
    for (chain, scores) in chains.iter_mut().zip(all) {
        let Some(scores) = scores else { continue };
        for (step, score) in chain.steps.iter_mut().zip(scores) {
            step.second = Some(f64::from(score));
        }
        chain.second_scorer = Some(scorer.clone());
        judged += 1;
    }
    Ok((judged > 0).then_some(judged))
}

/// 0 for each step that a checker fails, and nothing for the others, pass or not, in place of earlier
/// opinions: what a checker verified can be beside the point. How many chains have a fail.
fn ask_checkers(
    config: &beamgen::Config,
    chains: &mut [LabelledChain],
) -> Result<Option<usize>, Failure> {
    let mut panel = verdicts::panel(config)?;
    let names: Vec<&str> = panel.names().collect();
    let scorer = names.join(", ");
    let mut progress = Progress::new(chains.len(), "chains");
    let mut failed = 0;
    for some in chains.chunks_mut(AT_ONCE) {
        let said = verdicts::of(&mut panel, some);
        for (chain, opinions) in some.iter_mut().zip(said) {
            for (step, opinions) in chain.steps.iter_mut().zip(opinions) {
                let fails = opinions.iter().any(|opinion| opinion.verdict.is_fail());
                step.second = fails.then_some(0.0);
            }
            failed += usize::from(chain.steps.iter().any(|step| step.second.is_some()));
            chain.second_scorer = Some(scorer.clone());
            progress.done(None);
        }
    }
    drop(progress);
    lost::tell(panel.lost());
    Ok(Some(failed))
}
