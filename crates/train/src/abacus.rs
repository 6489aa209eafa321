//! The pipeline of `beamgen train abacus`. The stages are: tokenizer, base model, generator, sampled chains,
//! detector, PRM, PRM with hard negatives, ORM, ORM with hard negatives, evaluation. The training stages save their
//! state in `work` in the output folder, so a resumed run skips finished stages.

pub mod config;
pub mod detect;
pub mod evaluation;
mod harden;
pub mod lm;
pub mod mining;
pub mod model;
pub mod reward;
pub mod sample;
pub mod stage;
pub mod tokenizer;

use self::config::TrainConfig;
use self::detect::{Classes, LineEnd};
use self::evaluation::{Detection, Greedy, KindDetection};
use self::model::Kind;
use self::reward::{Batches, SamplePool};
use self::stage::{Schedule, Stage};
use crate::Result;
use crate::optim::AdamW;
use crate::tune::labelled::Target;
use crate::tune::{self, Decoder, Example, Plan, Report, RewardHead, Save, state, work};
use crate::write::create_folder;
use beamgen_world::{self as world, Split, WorldProblem};
use candle_core::{DType, Device, Tensor};
use serde::Serialize;
use std::path::{Path, PathBuf};
use tokenizers::Tokenizer;

/// The figures of the evaluation, measured on held-out problems.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// Greedy decoding by the base model, before any training on noisy solutions. The reward models start from these
    /// weights.
    pub base_greedy: Greedy,
    /// Greedy decoding by the generator, after its training on noisy solutions.
    pub generator_greedy: Greedy,
    /// The fraction of chains with the right answer, sampled at temperature 1; chains without a line are left out.
    pub sample_accuracy: f64,
    /// The fraction of right lines among the lines of these chains, up to the first wrong line of each.
    pub sample_line_accuracy: f64,
    /// The PRM's detection of wrong lines in the sampled chains.
    pub prm: Detection,
    /// The detection in `prm`, for each kind of mistake.
    pub prm_by_kind: Vec<KindDetection>,
    /// The area under the ROC curve that separates right from wrong answers by the ORM's score at the last line.
    pub orm_auc: f64,
}

/// The names of the reward models' weight and bias.
const SCORE: (&str, &str) = ("score.weight", "score.bias");

struct Run<'a> {
    config: &'a TrainConfig,
    /// The output folder, which holds one folder for each model. The training states are in its subfolder `work`.
    out: &'a Path,
    tok: Tokenizer,
    device: Device,
    head: RewardHead,
    report: &'a mut dyn FnMut(Report),
}

/// Trains all models and writes their checkpoints to the folders of `out`. Returns the figures of the
/// evaluation.
///
/// # Errors
/// The configuration is invalid, `out` holds a run with another configuration, a file cannot be read or written, or a
/// tensor operation fails.
pub fn train(
    config: &TrainConfig,
    out: &Path,
    device: &Device,
    report: &mut dyn FnMut(Report),
) -> Result<Evaluation> {
    config.check()?;
    let work = out.join("work");
    create_folder(&work)?;
    work::claim(&work.join("config.json"), config, true, gives_same_weights)?;
    report(Report::Note("tokenizer".into()));
    let tok = tokenizer::train()?;
    let mut run = Run {
        config,
        out,
        tok,
        device: device.clone(),
        head: RewardHead::linear(SCORE.0, SCORE.1),
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

/// Returns whether a run with `earlier` may be resumed with `now`: all settings that influence the weights agree.
fn gives_same_weights(earlier: &TrainConfig, now: &TrainConfig) -> bool {
    let rest = TrainConfig {
        evaluation_problems: now.evaluation_problems,
        save_every: now.save_every,
        ..earlier.clone()
    };
    rest == *now
}

impl Run<'_> {
    fn state(&self, stage: &str) -> PathBuf {
        self.out.join("work").join(format!("{stage}.safetensors"))
    }

    /// Returns whether all these stages are fully trained.
    fn finished(&self, stages: &[(&str, &Schedule)]) -> Result<bool> {
        for (stage, schedule) in stages {
            // A state is saved in the middle of a stage too, so its number of updates decides.
            let path = self.state(stage);
            if !path.exists()
                || state::step(&path, &state::load(&path, &self.device)?)? < schedule.steps
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn steps(
        &mut self,
        stage: &str,
        decoder: &Decoder,
        schedule: Schedule,
        batch: impl Fn(&Tokenizer, usize) -> Result<Vec<Example>>,
    ) -> Result<()> {
        (self.report)(Report::Note(stage.into()));
        let plan = Plan {
            stage,
            steps: schedule.steps,
            head_steps: 0,
            optimizer: AdamW::default(),
            state: Some(&self.state(stage)),
            save: Save::Every(self.config.save_every),
            stop_after: None,
        };
        // `batch` depends on the step only, so a resumed stage gets the batches of an uninterrupted one.
        let mut updates = Stage {
            decoder,
            head: &self.head,
            schedule,
            batch: |step| batch(&self.tok, step),
        };
        tune::train(decoder, &plan, &mut updates, &mut |report| {
            (self.report)(report);
            Ok(())
        })?;
        Ok(())
    }

    fn base(&mut self) -> Result<Decoder> {
        let c = self.config;
        let config = c.shape.config(&self.tok)?;
        let model = Decoder::fresh(config, &mut world::rng(c.seed, 9, 0), &self.device)?;
        self.steps("body", &model, c.base, |tok, step| {
            lm::batch(tok, c, step, false)
        })?;
        Ok(model)
    }

    fn generator(&mut self, base: &Decoder) -> Result<Decoder> {
        let c = self.config;
        // Training changes a decoder in place, and the reward models start from the unchanged base model.
        let model = base.deeper(0, &mut world::rng(c.seed, 9, 1))?;
        self.steps("generator", &model, c.generator, |tok, step| {
            lm::batch(tok, c, step, true)
        })?;
        Ok(model)
    }

    /// Samples chains to train the reward models on. Many continue a right prefix of random length, so that late
    /// lines have as many mistakes as early ones.
    fn sample_pool(&mut self) -> Result<SamplePool> {
        let c = self.config;
        let hardened = [Target::Process, Target::Outcome].map(|target| {
            let rounds = harden::rounds(target, &c.mining);
            (rounds > 0).then(|| harden::stage(target, rounds))
        });
        let hardened = hardened.iter().flatten();
        let mut readers = vec![("prm", &c.prm), ("orm", &c.orm)];
        readers.extend(hardened.map(|name| (name.as_str(), &c.hard)));
        let mut pool = SamplePool::default();
        // A resumed run samples only if an unfinished stage trains on the chains.
        if self.finished(&readers)? {
            return Ok(pool);
        }
        (self.report)(Report::Note("chains".into()));
        let mut rng = world::rng(c.seed, 5, 0);
        let problems: Vec<(WorldProblem, usize)> = (0..c.chains)
            .map(|i| {
                use rand::Rng;
                let p = world::problem(&mut rng, c.difficulty, Split::Train);
                // One chain in three has no prefix, because the ORM needs chains that the generator wrote completely.
                let keep = if i % 3 == 0 {
                    0
                } else {
                    rng.random_range(0..=p.facts.len())
                };
                (p, keep)
            })
            .collect();
        let given: Vec<_> = problems.iter().map(|(p, keep)| (p, *keep)).collect();
        // The engine samples from the exported checkpoint, as a search does, so the chains include effects of bf16
        // weights.
        let lines = sample::chains(&self.out.join("generator"), &self.tok, &given, 1, c.seed)?;
        for ((p, _), lines) in problems.into_iter().zip(lines.into_iter().flatten()) {
            pool.add(p, lines);
        }
        Ok(pool)
    }

    /// Trains the common start of PRM and ORM: the base model with `extra_layers` more layers and a head that detects
    /// replaced tokens.
    fn detector(&mut self, base: &Decoder) -> Result<Decoder> {
        let c = self.config;
        let mut model = base.deeper(c.extra_layers, &mut world::rng(c.seed, 9, 2))?;
        let hidden = c.shape.hidden;
        // A head of zeros scores every token 0.5; a random head would start with arbitrary opinions.
        let zeros = Tensor::zeros((1, hidden), DType::F32, &self.device)?;
        model.put(SCORE.0.into(), &zeros)?;
        let zero = Tensor::zeros(1, DType::F32, &self.device)?;
        model.put(SCORE.1.into(), &zero)?;
        let classes = Classes::new(&self.tok)?;
        self.steps("detector", &model, c.detector, |tok, step| {
            detect::batch(tok, &classes, c, &c.detector, step, LineEnd::Token)
        })?;
        Ok(model)
    }

    /// Trains, exports and hardens the reward model of `target`.
    fn reward(&mut self, target: Target, start: &Decoder, pool: &SamplePool) -> Result<Decoder> {
        let c = self.config;
        let model = start.deeper(0, &mut world::rng(c.seed, 9, 3))?;
        let schedule = match target {
            Target::Process => &c.prm,
            Target::Outcome => &c.orm,
        };
        let classes = Classes::new(&self.tok)?;
        let name = harden::stage(target, 0);
        self.steps(&name, &model, *schedule, |tok, step| {
            // Sampled chains have few wrong tokens, so every other batch of the PRM continues the
            // detection of replaced tokens.
            if target == Target::Process && step % 2 == 1 {
                let fresh = c.detector.steps + step;
                return detect::batch(tok, &classes, c, schedule, fresh, LineEnd::Token);
            }
            let batches = Batches {
                tok,
                pool,
                mined: None,
                target,
                schedule: *schedule,
                config: c,
            };
            batches.batch(step)
        })?;
        self.export(&model, Kind::Reward, &name)?;
        self.harden(&model, target, pool)?;
        Ok(model)
    }

    fn export(&self, model: &Decoder, kind: Kind, name: &str) -> Result<()> {
        let dir = self.out.join(name);
        self.config.shape.save(model, &self.tok, kind, &dir)
    }

    fn evaluation(
        &mut self,
        base: &Decoder,
        generator: &Decoder,
        prm: &Decoder,
        orm: &Decoder,
    ) -> Result<Evaluation> {
        (self.report)(Report::Note("evaluation".into()));
        let c = self.config;
        // The changed seed keeps these problems independent of the training problems.
        let problems =
            evaluation::held_out(c.seed ^ 0x6761_7465, c.evaluation_problems, c.difficulty);
        let whole: Vec<(&WorldProblem, usize)> = problems.iter().map(|p| (p, 0)).collect();
        let lines = sample::chains(
            &self.out.join("generator"),
            &self.tok,
            &whole,
            1,
            c.seed.wrapping_add(1),
        )?;
        let chains: Vec<(WorldProblem, Vec<String>)> = problems
            .iter()
            .cloned()
            .zip(lines.into_iter().flatten())
            // A chain without a complete line has no score.
            .filter(|(_, l)| !l.is_empty())
            .collect();
        let (mut solved, mut right, mut judged) = (0usize, 0usize, 0usize);
        let mut outcome = Vec::new();
        let orm_scores = evaluation::line_scores((orm, &self.head), &self.tok, &chains)?;
        for ((p, lines), scores) in chains.iter().zip(orm_scores) {
            // The outcome depends on the last line only, like the answer that a user reads.
            let good = lines.last() == Some(&WorldProblem::answer_line(p.answer()));
            solved += usize::from(good);
            outcome.extend(scores.last().map(|&s| (s, good)));
            // Lines after the first wrong line are neither right nor wrong.
            for v in reward::judge(p, lines) {
                judged += 1;
                if v != world::Verdict::Right {
                    break;
                }
                right += 1;
            }
        }
        let (prm, prm_by_kind) =
            evaluation::detection((prm, &self.head), generator, &self.tok, &chains)?;
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
