//! Tests of reinforcement learning with the bundled generator. Its loss is compared with a plain float64
//! implementation.

use std::path::{Path, PathBuf};

use beamgen_engine::{Checkpoint, EngineConfig, ThreadPool};
use beamgen_prm::RewardModel;
use beamgen_search::{Problem, Scorer};
use beamgen_train::Error;
use beamgen_train::candle_core::{Device, Var};
use beamgen_train::ops::{self, Cost};
use beamgen_train::rl::objective::{Objective, Token};
use beamgen_train::rl::{
    Algorithm, Credit, Ended, Event, HeldOut, Job, Recipe, Reward, RewardSources, Update, hold_out,
    run,
};
use beamgen_train::tune;
use beamgen_world::{Difficulty, Split};

fn model(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/abacus")).join(name)
}

fn prm() -> RewardModel {
    let config = EngineConfig::default();
    RewardModel::load(
        model("prm").as_path(),
        None,
        None,
        config,
        ThreadPool::new(0),
    )
    .unwrap()
}

fn problems(seed: u64, count: usize, split: Split) -> Vec<Problem> {
    beamgen_world::problems(seed, Difficulty::BUNDLED, split)
        .take(count)
        .enumerate()
        .map(|(i, problem)| Problem {
            id: i.to_string(),
            text: problem.text(),
            answer: Some(problem.answer().to_string()),
            ..Problem::default()
        })
        .collect()
}

/// Returns a job with few problems, so that tests are fast.
fn job(out: &Path, recipe: Recipe) -> Job {
    Job {
        from: Checkpoint::from(&model("generator")),
        problems: problems(5, 64, Split::Train),
        held_out: problems(6, 10, Split::Test),
        out: out.to_owned(),
        recipe,
        float32: true,
        resume: false,
        stop_after: None,
        pause_at: None,
    }
}

fn small() -> Recipe {
    Recipe {
        group: 4,
        problems: 4,
        updates: 2,
        samples: 1,
        evaluate_every: 2,
        training: tune::Recipe {
            learning_rate: 1e-3,
            batch: 16,
            ..Recipe::default().training
        },
        ..Recipe::default()
    }
}

/// Runs a job. Returns its result, and its events by kind.
fn told(job: &Job) -> (Result<Ended, Error>, Vec<Update>, Vec<HeldOut>) {
    let (mut updates, mut held_out) = (Vec::new(), Vec::new());
    let mut reward_model = job.recipe.reward.scores().then(prm);
    let rewards = RewardSources {
        scorer: reward_model.as_mut().map(|prm| prm as &mut dyn Scorer),
        verifier: None,
    };
    let ended = run(job, rewards, &mut |event| match event {
        Event::Note(_) => (),
        Event::Update(update) => updates.push(*update),
        Event::HeldOut(measured) => held_out.push(measured),
    });
    (ended, updates, held_out)
}

#[test]
fn right_answers_alone_make_the_bundled_generator_more_accurate() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = Recipe {
        algorithm: "rloo".parse().unwrap(),
        group: 8,
        problems: 16,
        updates: 10,
        evaluate_every: 10,
        samples: 4,
        training: tune::Recipe {
            learning_rate: 5e-4,
            batch: 128,
            ..small().training
        },
        ..small()
    };
    let job = Job {
        problems: problems(5, 2000, Split::Train),
        held_out: problems(6, 40, Split::Test),
        ..job(dir.path(), recipe)
    };
    let (ended, updates, held_out) = told(&job);
    assert_eq!(ended.unwrap(), Ended::Done(10));
    let [before, after] = &held_out[..] else {
        panic!("{held_out:?}");
    };
    assert!(
        after.sampled > before.sampled + 0.08,
        "from {} to {}",
        before.sampled,
        after.sampled
    );
    // Some right answers come from chains with wrong steps, so `unsound` is above 0.
    let parts = held_out.iter().map(|of| of.unsound);
    assert!(
        parts
            .clone()
            .all(|part| part.is_some_and(|part| (0.0..1.0).contains(&part)))
    );
    assert!(
        updates.iter().any(|update| update.unsound > Some(0.0)),
        "{updates:?}"
    );
    // The engine and the trainer round differently, and differences add up over the about 20 tokens of a step.
    assert!(updates.iter().all(|u| u.mismatch_max < 1e-3), "{updates:?}");
    assert!(updates[0].kl_reference.abs() < 1e-5, "{:?}", updates[0]);
    assert!(updates[9].kl_reference > 1e-4, "{:?}", updates[9]);
}

#[test]
fn every_algorithm_and_credit_trains() {
    let mut runs: Vec<Recipe> = Algorithm::ALL
        .into_iter()
        .map(|algorithm| Recipe {
            algorithm,
            ..small()
        })
        .collect();
    for (_, credit) in Credit::ALL {
        for reward in [Reward::Prm, Reward::Both] {
            runs.push(Recipe {
                reward,
                credit,
                algorithm: "dr-grpo".parse().unwrap(),
                ..small()
            });
        }
    }
    runs.push(Recipe {
        reward: Reward::Rollouts,
        rollouts: 2,
        ..small()
    });
    for recipe in runs {
        let dir = tempfile::tempdir().unwrap();
        let (ended, updates, _) = told(&job(dir.path(), recipe.clone()));
        assert!(matches!(ended.unwrap(), Ended::Done(_)), "{recipe:?}");
        assert_eq!(updates.len(), 2);
        for update in updates {
            assert!(
                update.learnt > 0 && update.gradient_norm > 0.0,
                "{update:?}"
            );
            assert_eq!(update.worst_score.is_some(), recipe.reward.scores());
        }
        assert!(dir.path().join("model.safetensors").exists());
    }
}

#[test]
fn several_steps_an_update_have_ratios_that_leave_one() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = Recipe {
        kl: 0.01,
        training: tune::Recipe {
            epochs: 3,
            batch: 8,
            learning_rate: 3e-3,
            ..small().training
        },
        ..small()
    };
    let (ended, updates, _) = told(&job(dir.path(), recipe));
    assert!(matches!(ended.unwrap(), Ended::Done(_)));
    assert_eq!(updates[1].optimizer_steps, 12);
    assert!(updates.iter().all(|u| u.kl_old > 0.0), "{updates:?}");
    assert!(updates.iter().any(|u| u.clipped > 0.0), "{updates:?}");
}

#[test]
fn adapters_and_last_layers_are_what_the_engine_samples_with() {
    for train in ["lora=4", "top=2", "top=2,lora=4"] {
        let dir = tempfile::tempdir().unwrap();
        let recipe = Recipe {
            updates: 3,
            evaluate_every: 3,
            training: tune::Recipe {
                train: train.parse().unwrap(),
                learning_rate: 5e-3,
                ..small().training
            },
            ..small()
        };
        let (ended, updates, _) = told(&job(dir.path(), recipe));
        assert!(matches!(ended.unwrap(), Ended::Done(_)), "{train}");
        // A small mismatch after weight updates shows that the engine has the trainer's new weights.
        assert!(
            updates.iter().all(|u| u.mismatch_max < 1e-3),
            "{train}: {updates:?}"
        );
        assert!(updates[2].kl_reference.abs() > 1e-5, "{train}: {updates:?}");
    }
}

#[test]
fn a_resumed_run_ends_with_the_same_bytes() {
    for (name, algorithm) in [("dapo", "dapo"), ("grpo", "grpo")] {
        let dir = tempfile::tempdir().unwrap();
        let recipe = Recipe {
            algorithm: algorithm.parse().unwrap(),
            updates: 5,
            evaluate_every: 2,
            training: tune::Recipe {
                epochs: 2,
                batch: 8,
                ..small().training
            },
            ..small()
        };
        let whole = job(&dir.path().join("whole"), recipe.clone());
        assert!(matches!(told(&whole).0.unwrap(), Ended::Done(_)));
        let mut parts = job(&dir.path().join("parts"), recipe.clone());
        for stop_after in [1, 2] {
            parts.stop_after = Some(stop_after);
            assert_eq!(told(&parts).0.unwrap(), Ended::Paused);
            assert!(!parts.out.join("model.safetensors").exists());
            parts.resume = true;
        }
        parts.stop_after = None;
        assert!(matches!(told(&parts).0.unwrap(), Ended::Done(_)));
        for file in ["model.safetensors", "work/state.safetensors"] {
            let read = |job: &Job| std::fs::read(job.out.join(file)).unwrap();
            assert!(read(&whole) == read(&parts), "{name}: {file}");
        }
        let log = |job: &Job| -> Vec<serde_json::Value> {
            let text = std::fs::read_to_string(job.out.join("work/log.jsonl")).unwrap();
            let lines = text.lines().map(|line| {
                let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
                let fields = line.as_object_mut().unwrap();
                fields.retain(|name, _| !name.ends_with("seconds"));
                line
            });
            lines.collect()
        };
        assert_eq!(log(&whole), log(&parts), "{name}");
    }
}

#[test]
fn engine_and_trainer_have_to_agree() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = Recipe {
        mismatch: 0.0,
        ..small()
    };
    let error = told(&job(dir.path(), recipe)).0.unwrap_err();
    assert!(
        matches!(error, Error::Mismatch { update: 1, .. }),
        "{error}"
    );
    assert!(!error.is_input());
}

#[test]
fn what_cannot_be_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut Job), expected: &str| {
        let mut job = job(&dir.path().join("out"), small());
        change(&mut job);
        let error = run(&job, RewardSources::default(), &mut |_| ()).unwrap_err();
        assert!(error.is_input(), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!dir.path().join("out").exists(), "{expected}");
    };
    refused(&|job| job.recipe.group = 1, "group of 1");
    refused(&|job| job.recipe.reward = Reward::Prm, "reward model");
    refused(&|job| job.problems[3].answer = None, "problem 3");
    refused(&|job| job.held_out.clear(), "no held-out problems");
    let measured = "no problems left";
    refused(&|job| job.held_out.clone_from(&job.problems), measured);
    refused(
        &|job| job.from = Checkpoint::from(Path::new("nowhere")),
        "nowhere",
    );
    refused(
        &|job| job.recipe.training.train = "lora=1000".parse().unwrap(),
        "lora=1000",
    );
}

#[test]
fn a_finished_run_is_not_taken_over_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let first = job(dir.path(), small());
    told(&first).0.unwrap();
    let again = told(&first).0.unwrap_err();
    assert!(matches!(again, Error::EarlierRun(_)), "{again}");
    let mut other = job(dir.path(), Recipe { kl: 0.5, ..small() });
    other.resume = true;
    let error = told(&other).0.unwrap_err().to_string();
    assert!(error.contains("other settings"), "{error}");
}

#[test]
fn problems_of_one_text_are_on_one_side() {
    let mut all = problems(5, 100, Split::Train);
    for i in 0..100 {
        let mut twin = all[i].clone();
        twin.id = format!("{i} again");
        all.push(twin);
    }
    let (train, held_out) = hold_out(all, 0.2, 3);
    assert_eq!(train.len() + held_out.len(), 200);
    assert!((20..=60).contains(&held_out.len()), "{}", held_out.len());
    let is_held = |text: &str| held_out.iter().any(|p| p.text == text);
    assert!(!train.iter().any(|p| is_held(&p.text)));
}

/// Returns the loss of a batch in float64: softmax of `x w^T`, importance ratio, clipping, and k3.
fn plain(
    x: &[f64],
    w: &[f64],
    width: usize,
    targets: &[u32],
    tokens: &[Token],
    o: &Objective,
) -> f64 {
    let mut loss = 0.0;
    for (row, (&target, token)) in targets.iter().zip(tokens).enumerate() {
        let h = &x[row * width..(row + 1) * width];
        let logits: Vec<f64> = w
            .chunks(width)
            .map(|w| w.iter().zip(h).map(|(a, b)| a * b).sum())
            .collect();
        let sum: f64 = logits.iter().map(|z| z.exp()).sum();
        let log_prob = logits[target as usize] - sum.ln();
        let ratio = (log_prob - token.old.unwrap()).exp();
        let low = 1.0 - o.clip.0;
        let high = 1.0 + o.clip.1;
        let clipped = if ratio < low {
            low
        } else if ratio > high {
            high
        } else {
            ratio
        };
        let gain = (ratio * token.advantage).min(clipped * token.advantage);
        let d = token.reference.unwrap() - log_prob;
        loss += token.weight * (o.kl * (d.exp() - d - 1.0) - gain);
    }
    loss
}

#[test]
fn the_loss_and_its_gradients_are_those_of_plain_float64() {
    let (rows, width, vocab) = (6, 4, 9);
    let wave = |n: usize, a: f64| (0..n).map(move |i| (a * (i as f64 + 1.0)).sin() * 0.8);
    let x: Vec<f64> = wave(rows * width, 1.7).collect();
    let w: Vec<f64> = wave(vocab * width, 2.3).collect();
    let targets: Vec<u32> = (0..rows as u32).map(|i| i * 5 % vocab as u32).collect();
    let tokens: Vec<Token> = (0..rows)
        .map(|i| Token {
            weight: 0.1 * (i as f64 + 1.0),
            advantage: [1.0, -0.5, 2.0, -1.5, 0.3, -0.2][i],
            // The ratios are on both sides of both clipping bounds.
            old: Some(-2.2 + [0.0, 0.1, -0.9, 0.9, -0.1, -0.8][i]),
            reference: Some(-2.4 + 0.1 * i as f64),
        })
        .collect();
    let objective = Objective {
        clip: (0.2, 0.28),
        kl: 0.15,
    };
    let loss_of = |x: &[f64], w: &[f64]| plain(x, w, width, &targets, &tokens, &objective);

    let var = |values: &[f64], n: usize| {
        let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
        Var::from_vec(values, (n, width), &Device::Cpu).unwrap()
    };
    let (vx, vw) = (var(&x, rows), var(&w, vocab));
    let (loss, found) = ops::linear_objective(&vx, &vw, &targets, true, |row, log_prob| {
        let token = objective.loss(&tokens[row], f64::from(log_prob));
        Cost {
            loss: token.loss as f32,
            slope: token.slope as f32,
        }
    })
    .unwrap();
    let alone = ops::linear_log_probs(&vx, &vw, &targets).unwrap();
    assert_eq!(found, alone);
    let value = f64::from(loss.to_scalar::<f32>().unwrap());
    assert!((value - loss_of(&x, &w)).abs() < 1e-5, "{value}");
    let grads = loss.backward().unwrap();
    let h = 1e-6;
    for (name, var, plain) in [("x", &vx, &x), ("w", &vw, &w)] {
        let ours: Vec<f32> = grads
            .get(var)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1()
            .unwrap();
        for (i, ours) in ours.into_iter().enumerate() {
            let at = |step: f64| {
                let mut moved = plain.clone();
                moved[i] += step;
                match name {
                    "x" => loss_of(&moved, &w),
                    _ => loss_of(&x, &moved),
                }
            };
            let expected = (at(h) - at(-h)) / (2.0 * h);
            assert!(
                (f64::from(ours) - expected).abs() < 1e-4,
                "{name}[{i}]: {ours} against {expected}"
            );
        }
    }
}
