//! `beamgen labels judge`: second opinions of a reward model.

use beamgen::eval::GivenChain;

use super::{inputs, write};
use crate::args::JudgeArgs;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::score;
use crate::settings;
use crate::table::grouped;

pub fn main(args: &JudgeArgs) -> Result<(), Failure> {
    inputs::keep(&args.input, &args.out)?;
    let config = settings::prm_config(&args.prm)?;
    let mut chains = inputs::chains(inputs::read(&args.input)?);
    let scorer = score::scorer(&config);
    let problems = chains.iter().map(|chain| chain.problem.as_str());
    let mut model = settings::reward_model(config, problems)?;
    let given: Vec<GivenChain> = (1..)
        .zip(&chains)
        .map(|(i, chain)| {
            let id = chain.id.clone();
            score::given(id.unwrap_or_else(|| i.to_string()), chain)
        })
        .collect();
    let mut progress = Progress::new(chains.len(), "chains");
    let (mut at, mut refused) = (0, 0);
    score::each(&mut *model, &given, |given, scores| {
        let chain = &mut chains[at];
        at += 1;
        match scores {
            Ok(scores) => {
                for (step, score) in chain.steps.iter_mut().zip(scores) {
                    step.second = Some(f64::from(score));
                }
                chain.second_scorer = Some(scorer.clone());
            }
            Err(error) => {
                refused += 1;
                progress
                    .aside(|| output::note(format_args!("beamgen: chain {}: {error}", given.id)));
            }
        }
        progress.done(None);
        Ok(())
    })?;
    drop(progress);
    write::lines(&args.out, chains.iter())?;
    let judged = chains.len() - refused;
    if judged == 0 {
        let message = "the reward model could not read any of the chains, see above";
        return Err(Failure::Run(anyhow::anyhow!(message)));
    }
    output::note(format_args!(
        "{} of {} chains have second opinions in {}",
        grouped(judged as u64),
        grouped(chains.len() as u64),
        args.out.display()
    ));
    Ok(())
}
