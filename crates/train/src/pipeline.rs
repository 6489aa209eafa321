//! `beamgen train`: world, tokenizer, base model, generator, sampled chains, PRM, its hard
//! negatives, ORM, evaluation; each stage is kept in the work folder, and a run that finds one goes
//! on after it.

mod harden;

use crate::config::TrainConfig;
use crate::detect::{self, Classes, LineEnd};
use crate::evaluation::{self, Detection, Greedy, KindDetection};
use crate::export::{self, Kind};
use crate::model::Model;
use crate::reward::{self, Batches, SamplePool, Target};
use crate::trainer::{self, Checkpoints, Progress};
use crate::write::{create_folder, write_json};
use crate::{Error, Result, lm, sample, tokenizer};
use beamgen_world::{self as world, Difficulty, Split, WorldProblem};
use candle_core::Device;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tokenizers::Tokenizer;

/// What a run tells while it goes.
pub enum Report<'a> {
    /// A stage begins.
    Stage(&'a str),
    /// Some updates were done.
    Step(Progress<'a>),
}

/// The figures of the evaluation, measured on held-out problems.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// The base model before it read noisy solutions: what the reward models know.
    pub base_greedy: Greedy,
    /// The generator.
    pub generator_greedy: Greedy,
    /// Chains sampled from the generator at temperature 1: the share that is right.
    pub sample_accuracy: f64,
    /// Of those chains, lines right after a right prefix.
    pub sample_line_accuracy: f64,
    /// On those chains; `auc_log_probability` is the generator's own.
    pub prm: Detection,
    /// The same for each kind of mistake.
    pub prm_by_kind: Vec<KindDetection>,
    /// ORM: area under the ROC curve of the outcome on those chains.
    pub orm_auc: f64,
}

/// Folders of a run: `out/{generator,prm,orm}` and the state to resume from in `work`.
pub struct Folders {
    /// For the models.
    pub out: PathBuf,
    /// For the state.
    pub work: PathBuf,
}

struct Run<'a> {
    config: &'a TrainConfig,
    folders: &'a Folders,
    tok: Tokenizer,
    device: Device,
    report: &'a mut dyn FnMut(Report),
}

/// Trains everything; writes the three checkpoints and returns the figures of the evaluation.
pub fn train(
    config: &TrainConfig,
    folders: &Folders,
    device: &Device,
    report: &mut dyn FnMut(Report),
) -> Result<Evaluation> {
    config.check()?;
    for dir in [&folders.out, &folders.work] {
        create_folder(dir)?;
    }
    same_config(config, &folders.work)?;
    report(Report::Stage("tokenizer"));
    let tok = tokenizer::train()?;
    let mut run = Run {
        config,
        folders,
        tok,
        device: device.clone(),
        report,
    };
    let base = run.base()?;
    let generator = run.generator(&base)?;
    run.export(&generator, Kind::Generator, "generator")?;
    let pool = run.sample_pool()?;
    let detector = run.detector(&base)?;
    let prm = run.reward(Target::Process, &detector, &pool)?;
    let orm = run.reward(Target::Outcome, &detector, &pool)?;
    run.evaluation(&base, &generator, &prm, &orm)
}

/// A work folder belongs to one configuration, but for what does not touch the weights.
fn same_config(config: &TrainConfig, work: &Path) -> Result<()> {
    let path = work.join("config.json");
    let now = serde_json::to_value(config).map_err(|e| Error::Empty(e.to_string()))?;
    let weights_of = |text: &str| {
        let mut other: TrainConfig = serde_json::from_str(text).ok()?;
        other.evaluation_problems = config.evaluation_problems;
        other.save_every = config.save_every;
        Some(other)
    };
    match std::fs::read_to_string(&path) {
        Ok(text) if weights_of(&text).as_ref() != Some(config) => Err(Error::Checkpoint(
            path,
            "is from a run with other settings; choose another work folder or delete this one"
                .into(),
        )),
        Ok(_) => Ok(()),
        Err(_) => write_json(&path, &now),
    }
}

impl Run<'_> {
    fn state(&self, stage: &str) -> PathBuf {
        self.folders.work.join(format!("{stage}.safetensors"))
    }

    /// Whether nothing is left to train in these stages, so that their data is not needed.
    fn finished(&self, stages: &[(&str, &trainer::Schedule)]) -> Result<bool> {
        for (stage, schedule) in stages {
            if !trainer::finished(&self.state(stage), schedule, &self.device)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn steps(
        &mut self,
        stage: &str,
        model: &mut Model,
        schedule: &trainer::Schedule,
        batch: impl Fn(&Tokenizer, usize) -> Result<trainer::Batch>,
    ) -> Result<()> {
        (self.report)(Report::Stage(stage));
        let state = self.state(stage);
        let tok = &self.tok;
        let report = &mut self.report;
        trainer::run(
            stage,
            model,
            schedule,
            Checkpoints {
                path: &state,
                every: self.config.save_every,
            },
            |step| batch(tok, step),
            &mut |p| report(Report::Step(p)),
        )
    }

    fn base(&mut self) -> Result<Model> {
        let c = self.config;
        let vocab = self.tok.get_vocab_size(true);
        let mut model = Model::new(c.shape, vocab, &mut world::rng(c.seed, 9, 0), &self.device)?;
        // short problems too, which teach the copying
        let d = Difficulty {
            min_people: 2,
            ..c.difficulty
        };
        self.steps("body", &mut model, &c.base, |tok, step| {
            lm::batch(tok, c.seed, 0, step, &c.base, d, None)
        })?;
        Ok(model)
    }

    fn generator(&mut self, base: &Model) -> Result<Model> {
        let c = self.config;
        let mut model = base.deeper(0, &mut world::rng(c.seed, 9, 1))?;
        self.steps("generator", &mut model, &c.generator, |tok, step| {
            lm::batch(
                tok,
                c.seed,
                2,
                step,
                &c.generator,
                c.difficulty,
                Some(&c.error_rates),
            )
        })?;
        Ok(model)
    }

    /// Chains for the reward models, from right prefixes of random length, so that mistakes are
    /// as common in late lines as in early ones.
    fn sample_pool(&mut self) -> Result<SamplePool> {
        let c = self.config;
        let hardened = |target| {
            let rounds = harden::rounds(target, &c.mining);
            (rounds > 0).then(|| harden::stage(target, rounds))
        };
        let hardened = [Target::Process, Target::Outcome].map(hardened);
        let mut readers = vec![("prm", &c.prm), ("orm", &c.orm)];
        readers.extend(
            hardened
                .iter()
                .flatten()
                .map(|name| (name.as_str(), &c.hard)),
        );
        let mut pool = SamplePool::default();
        if self.finished(&readers)? {
            return Ok(pool);
        }
        (self.report)(Report::Stage("chains"));
        let mut rng = world::rng(c.seed, 5, 0);
        let problems: Vec<(WorldProblem, usize)> = (0..c.chains)
            .map(|i| {
                use rand::Rng;
                let p = world::problem(&mut rng, c.difficulty, Split::Train);
                // a third from the start, as the ORM needs whole chains of the generator's own
                let keep = if i % 3 == 0 {
                    0
                } else {
                    rng.random_range(0..=p.facts.len())
                };
                (p, keep)
            })
            .collect();
        let lines = sample::chains(
            &self.folders.out.join("generator"),
            &self.tok,
            &problems,
            1,
            c.seed,
        )?;
        for ((p, _), lines) in problems.into_iter().zip(lines.into_iter().flatten()) {
            pool.add(p, lines);
        }
        Ok(pool)
    }

    /// The base model with more layers and a score head that tells replaced tokens: where PRM and
    /// ORM both start.
    fn detector(&mut self, base: &Model) -> Result<Model> {
        let c = self.config;
        let mut model = base.deeper(c.extra_layers, &mut world::rng(c.seed, 9, 2))?;
        model.add_score_head()?;
        let classes = Classes::new(&self.tok)?;
        self.steps("detector", &mut model, &c.detector, |tok, step| {
            detect::batch(
                tok,
                &classes,
                c.seed,
                step,
                &c.detector,
                c.difficulty,
                LineEnd::Token,
            )
        })?;
        Ok(model)
    }

    /// PRM or ORM: trained, hardened, exported.
    fn reward(&mut self, target: Target, start: &Model, pool: &SamplePool) -> Result<Model> {
        let c = self.config;
        let mut model = start.deeper(0, &mut world::rng(c.seed, 9, 3))?;
        let schedule = match target {
            Target::Process => &c.prm,
            Target::Outcome => &c.orm,
        };
        let classes = Classes::new(&self.tok)?;
        let name = harden::stage(target, 0);
        self.steps(&name, &mut model, schedule, |tok, step| {
            // Chains have few wrong tokens: every other batch of the PRM goes on with detection.
            if target == Target::Process && step % 2 == 1 {
                let fresh = c.detector.steps + step;
                return detect::batch(
                    tok,
                    &classes,
                    c.seed,
                    fresh,
                    schedule,
                    c.difficulty,
                    LineEnd::Token,
                );
            }
            let batches = Batches {
                tok,
                pool,
                mined: None,
                target,
                seed: c.seed,
                schedule: *schedule,
                difficulty: c.difficulty,
                error_rates: &c.error_rates,
            };
            batches.batch(step)
        })?;
        self.export(&model, Kind::Reward, &name)?;
        self.harden(&mut model, target, pool)?;
        Ok(model)
    }

    fn export(&self, model: &Model, kind: Kind, name: &str) -> Result<()> {
        export::save(model, &self.tok, kind, &self.folders.out.join(name))
    }

    fn evaluation(
        &mut self,
        base: &Model,
        generator: &Model,
        prm: &Model,
        orm: &Model,
    ) -> Result<Evaluation> {
        (self.report)(Report::Stage("evaluation"));
        let c = self.config;
        let problems =
            evaluation::held_out(c.seed ^ 0x6761_7465, c.evaluation_problems, c.difficulty);
        let whole: Vec<(WorldProblem, usize)> = problems.iter().map(|p| (p.clone(), 0)).collect();
        let lines = sample::chains(
            &self.folders.out.join("generator"),
            &self.tok,
            &whole,
            1,
            c.seed.wrapping_add(1),
        )?;
        let chains: Vec<(WorldProblem, Vec<String>)> = problems
            .iter()
            .cloned()
            .zip(lines.into_iter().flatten())
            .filter(|(_, l)| !l.is_empty())
            .collect();
        let (mut solved, mut right, mut judged) = (0usize, 0usize, 0usize);
        let mut outcome = Vec::new();
        let orm_scores = evaluation::line_scores(orm, &self.tok, &chains)?;
        for ((p, lines), scores) in chains.iter().zip(orm_scores) {
            let good = lines.last() == Some(&WorldProblem::answer_line(p.answer()));
            solved += usize::from(good);
            outcome.extend(scores.last().map(|&s| (s, good)));
            for v in reward::judge(p, lines) {
                judged += 1;
                if v != world::Verdict::Right {
                    break;
                }
                right += 1;
            }
        }
        let (prm, prm_by_kind) = evaluation::detection(prm, generator, &self.tok, &chains)?;
        Ok(Evaluation {
            base_greedy: evaluation::greedy(base, &self.tok, &problems)?,
            generator_greedy: evaluation::greedy(generator, &self.tok, &problems)?,
            sample_accuracy: solved as f64 / problems.len() as f64,
            sample_line_accuracy: right as f64 / judged.max(1) as f64,
            prm,
            prm_by_kind,
            orm_auc: evaluation::auc(outcome),
        })
    }
}
