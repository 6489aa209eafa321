//! `beamgen labels judge`: adds a reward model's scores or checkers' verdicts to labelled chains.

use beamgen::checkers::{Opinion, Verdict};
use beamgen_labels::{Bound, Checked, LabelRule, LabelledChain, Quantity, Source};
use beamgen_measure::{Watch, check, scores};

use super::inputs;
use super::write::Lines;
use crate::args::{JudgeArgs, JudgeAs};
use crate::failure::Failure;
use crate::lost;
use crate::output;
use crate::progress::Progress;
use crate::settings;
use crate::table::grouped;
use crate::verdicts;
use crate::watch::Shown;

pub(super) fn main(args: &JudgeArgs) -> Result<(), Failure> {
    // The output is opened before the model is loaded, so that one that cannot be written fails
    // now.
    let out = Lines::open(&args.out)?;
    let mut config = settings::prm_config(&args.prm)?;
    // Only flags choose checkers here, since a file of settings may name checkers for a search.
    let flags = &args.checkers;
    let checks = flags.given.has("checker") || flags.given.has("checker_command");
    config.checkers.builtin.clear();
    config.checkers.commands.clear();
    let config = settings::with_flags(config, flags)?;
    let mut chains = inputs::chains(inputs::read(&args.input)?);
    let (judged, what, names) = if !checks {
        let name = scores::scorer(&config);
        let judged = ask_model(config, &name, &mut chains)?;
        (judged, "opinions", vec![name])
    } else {
        let (failed, names) = ask_checkers(&config, &mut chains)?;
        (Some(failed), "a step that fails", names)
    };
    let judged = judged.ok_or_else(|| {
        let message = "the reward model could not read any of the chains: see the messages above";
        Failure::Run(anyhow::anyhow!(message))
    })?;
    if let Some(way) = args.way {
        let rule = rule(way, checks, &names);
        for chain in &mut chains {
            chain.rule.clone_from(&rule);
        }
    }
    out.write(chains.iter())?;
    output::note(format_args!(
        "{} of {} chains have {what} in {}",
        grouped(judged as u64),
        grouped(chains.len() as u64),
        args.out.display()
    ));
    Ok(())
}

/// Returns the rules that derive labels from the new facts. A single judge is named in the rules,
/// because the file may also have facts of other judges.
fn rule(way: JudgeAs, checks: bool, names: &[String]) -> Vec<Source> {
    if checks {
        let name = match names {
            [only] => Some(only.clone()),
            _ => None,
        };
        let verdict = Source::Verdict(name.clone());
        return match way {
            JudgeAs::Veto => [&[verdict], &LabelRule::USUAL[..]].concat(),
            JudgeAs::Label | JudgeAs::Soft => vec![verdict, Source::Outcome, Source::Pass(name)],
        };
    }
    let name = names.first().cloned();
    let judge = |hard| Source::Judge {
        name: name.clone(),
        cut: None,
        hard,
    };
    match way {
        JudgeAs::Label => vec![judge(true)],
        JudgeAs::Soft => vec![judge(false)],
        JudgeAs::Veto => {
            let bound = Bound {
                of: Quantity::Judge(name),
                bound: 0.5,
            };
            let veto = Source::When {
                bounds: vec![bound],
                above: false,
            };
            [&[veto], &LabelRule::USUAL[..]].concat()
        }
    }
}

/// Adds the reward model's score to each step, under `name`. Returns the number of chains that the
/// model could score, or `None` if there were none.
fn ask_model(
    config: beamgen::Config,
    name: &str,
    chains: &mut [LabelledChain],
) -> Result<Option<usize>, Failure> {
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
            step.opinions.insert(name.to_owned(), f64::from(score));
        }
        judged += 1;
    }
    Ok((judged > 0).then_some(judged))
}

/// Adds each checker's verdict to each step, in place of the checker's earlier verdict. Returns the
/// number of chains with a fail, and the names of the checkers.
fn ask_checkers(
    config: &beamgen::Config,
    chains: &mut [LabelledChain],
) -> Result<(usize, Vec<String>), Failure> {
    let mut panel = verdicts::panel(config)?;
    let names: Vec<String> = panel.names().map(str::to_owned).collect();
    let mut progress = Progress::new(chains.len(), "chains");
    let mut failed = 0;
    for some in chains.chunks_mut(check::AT_ONCE) {
        let said = check::opinions(&mut panel, some);
        for (chain, opinions) in some.iter_mut().zip(said) {
            let mut fails = false;
            for (step, opinions) in chain.steps.iter_mut().zip(opinions) {
                for Opinion { checker, verdict } in opinions {
                    fails |= verdict.is_fail();
                    let checked = match verdict {
                        Verdict::Pass => Some(Checked::Pass),
                        Verdict::Fail { reason } => Some(Checked::Fail(reason)),
                        Verdict::Abstain | Verdict::Lost => None,
                    };
                    // The earlier verdict is removed first: a checker that now abstains must not
                    // keep it.
                    step.verdicts.remove(&checker);
                    step.verdicts
                        .extend(checked.map(|checked| (checker, checked)));
                }
            }
            failed += usize::from(fails);
            progress.done(None);
        }
    }
    drop(progress);
    lost::tell(panel.lost());
    Ok((failed, names))
}
