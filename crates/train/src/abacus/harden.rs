//! Training on hard negatives, in rounds. A round searches mistakes that the exported reward model rates as right,
//! trains the model on them and exports the model again.

use super::Run;
use super::detect::{self, Classes, LineEnd};
use super::mining::{Miner, Mining};
use super::model::Kind;
use super::reward::{Batches, SamplePool};
use crate::Result;
use crate::tune::labelled::Target;
use crate::tune::{Decoder, Report};
use beamgen_world::{self as world, Split, WorldProblem};

/// Returns the name of the training state after `round` rounds of mining.
pub(super) fn stage(target: Target, round: usize) -> String {
    let name = target.name();
    match round {
        0 => name.to_owned(),
        _ => format!("{name}-hard-{round}"),
    }
}

pub(super) fn rounds(target: Target, mining: &Mining) -> usize {
    match target {
        Target::Process => mining.rounds,
        Target::Outcome => mining.orm_rounds,
    }
}

impl Run<'_> {
    pub(super) fn harden(
        &mut self,
        model: &Decoder,
        target: Target,
        pool: &SamplePool,
    ) -> Result<()> {
        let c = self.config;
        let classes = Classes::new(&self.tok)?;
        let trained = match target {
            Target::Process => c.prm.steps,
            Target::Outcome => c.orm.steps,
        };
        for round in 0..rounds(target, &c.mining) {
            let stage_name = stage(target, round + 1);
            // A finished round trains no more, so a resumed run skips the mining.
            let mined = if self.finished(&[(&stage_name, &c.hard)])? {
                SamplePool::default()
            } else {
                self.mine(target, round)?
            };
            // The batch number continues after the earlier rounds, so that no batch repeats.
            let before = trained + round * c.hard.steps;
            self.steps(&stage_name, model, c.hard, |tok, step| {
                let fresh = before + step;
                if target == Target::Process {
                    // After the first round, most missed mistakes are slightly wrong results, and batches of sums
                    // have many results.
                    if round > 0 && step % 4 == 1 {
                        return detect::sums(tok, &classes, c.seed, fresh, &c.hard);
                    }
                    if step % 4 == 3 {
                        let at = c.detector.steps + fresh;
                        return detect::batch(tok, &classes, c, &c.hard, at, LineEnd::Line);
                    }
                }
                let batches = Batches {
                    tok,
                    pool,
                    mined: Some(&mined),
                    target,
                    schedule: c.hard,
                    config: c,
                };
                batches.batch(fresh)
            })?;
            // The next round and the search read the model from its exported checkpoint.
            self.export(model, Kind::Reward, &stage(target, 0))?;
        }
        Ok(())
    }

    /// Samples chains with mistakes that the exported model rates highest, and adds right solutions of the same
    /// problems.
    fn mine(&mut self, target: Target, round: usize) -> Result<SamplePool> {
        (self.report)(Report::Note("hard negatives".into()));
        let c = self.config;
        let (stream, what) = match target {
            Target::Process => (7, "lines"),
            Target::Outcome => (10, "chains"),
        };
        let mut rng = world::rng(c.seed, stream, round);
        let problems: Vec<WorldProblem> = (0..c.mining.problems)
            .map(|_| world::problem(&mut rng, c.difficulty, Split::Train))
            .collect();
        let miner = Miner {
            mining: &c.mining,
            generator: &self.out.join("generator"),
            judge: &self.out.join(stage(target, 0)),
            tok: &self.tok,
            seed: c.seed.wrapping_add(2 + round as u64),
        };
        let found = match target {
            Target::Process => miner.lines(&problems)?,
            Target::Outcome => miner.chains(&problems)?,
        };
        (self.report)(Report::Note(format!(
            "  {} wrong {what}, {} scored above 0.5",
            found.wrong, found.missed
        )));
        // An ORM's chain has only one label, so right chains must be as many as wrong ones. A PRM's chain has a label
        // for each line.
        let solutions = match target {
            Target::Process => 1,
            Target::Outcome => found.chains.len().div_ceil(problems.len()),
        };
        let mut mined = SamplePool::default();
        for (p, lines) in found.chains {
            mined.add(p, lines);
        }
        for p in problems {
            let lines = p.solution();
            for _ in 1..solutions {
                mined.add(p.clone(), lines.clone());
            }
            mined.add(p, lines);
        }
        Ok(mined)
    }
}
