//! Training of reward models, compared with `transformers` and torch
//! (`tests/fixtures/train/make_reward_losses.py`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use beamgen_engine::{
    Checkpoint, EngineConfig, ModelConfig, ThreadPool, Tokenizer, WeightType, Weights,
};
use beamgen_labels::LabelRule;
use beamgen_prm::{Body, ChainWriter, HeadSpec, LogRatio, PrmSpec, RewardModel};
use beamgen_train::candle_core::Var;
use beamgen_train::tune::labelled::{Labels, Target};
use beamgen_train::tune::{
    Data, Decay, Decoder, Fit, Input, Job, Read, Recipe, Report, RewardHead, Task, Trained,
    cross_entropy, fit, run,
};
use serde_json::{Value, json};

const STEPS: usize = 20;

/// Formats with the folders of their fixtures; together they have every kind of trainable head.
const FAMILIES: [(&str, &str); 5] = [
    ("trl-token-classification", "trl-token-classification"),
    ("qwen2.5-math-prm", "qwen2.5-math-prm"),
    ("skywork-o1-open-prm", "skywork-o1-open-prm"),
    ("math-shepherd", "math-shepherd-mistral-7b-prm"),
    ("rlhflow-llama3.1", "Llama3.1-8B-PRM-Deepseek-Data"),
];

fn fixtures(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures")).join(name)
}

fn folder(name: &str) -> PathBuf {
    fixtures("prm").join(name)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Writes the three chains of a fixture as a labelled file, with the labels of `make_reward_losses.py`.
fn labelled_file(name: &str, dir: &Path) -> PathBuf {
    let mut labels = [1.0, 0.0, 0.25].into_iter().cycle();
    let expected = read_json(&folder(name).join("expected.json"));
    let mut text = String::new();
    for chain in expected["chains"].as_array().unwrap() {
        let steps = chain["steps"].as_array().unwrap().iter();
        let steps: Vec<Value> = steps
            .map(|step| json!({"text": step, "soft": labels.next()}))
            .collect();
        let right = text.is_empty();
        let line = json!({"problem": chain["problem"], "steps": steps, "outcome": right});
        text += &format!("{line}\n");
    }
    let path = dir.join("labels.jsonl");
    std::fs::write(&path, text).unwrap();
    path
}

fn labels(target: Target) -> Labels {
    Labels {
        target,
        rule: LabelRule::default(),
        alternatives: false,
        wrong_weight: 2.0,
        partial: 0,
    }
}

/// The recipe of `make_reward_losses.py`.
fn recipe() -> Recipe {
    Recipe {
        learning_rate: 5e-3,
        warmup: 0.2,
        decay: Decay::Cosine,
        weight_decay: 0.1,
        betas: (0.9, 0.95),
        head_rate: 5e-3,
        // Small micro-batches, so that every batch is split.
        micro_tokens: 100,
        ..Recipe::default()
    }
}

struct Fixture {
    decoder: Decoder,
    head: RewardHead,
    read: Read,
}

fn open(family: &str, name: &str, target: Target) -> Fixture {
    let folder = folder(name);
    let spec = PrmSpec::named(family).unwrap();
    let config = ModelConfig::load(folder.as_path()).unwrap();
    let weights = Weights::load(folder.as_path()).unwrap();
    let tokenizer = Arc::new(Tokenizer::load(folder.as_path()).unwrap());
    let writer = ChainWriter::new(&spec, Arc::clone(&tokenizer), &folder).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = labelled_file(name, dir.path());
    let read = labels(target).read(&file, &writer, 1000).unwrap();
    let lm_head = matches!(spec.head, HeadSpec::Tokens(_));
    let mut decoder = Decoder::load(config, &weights, Trained::ALL, lm_head, 1000).unwrap();
    let head = RewardHead::new(&mut decoder, &spec, &tokenizer, &weights, 0).unwrap();
    assert!(!head.is_fresh(), "{family}");
    Fixture {
        decoder,
        head,
        read,
    }
}

fn losses(fixture: &Fixture, recipe: &Recipe) -> Vec<f64> {
    let all: Vec<usize> = (0..fixture.read.examples.len()).collect();
    let mut losses = Vec::new();
    let what = Fit {
        recipe,
        head: Some(&fixture.head),
        ratio: None,
        data: Data {
            examples: &fixture.read.examples,
            train: all.clone(),
            held_out: Vec::new(),
        },
        features: None,
        state: None,
        order: Some(vec![all; STEPS]),
        stop_after: None,
        evaluate_every: STEPS,
    };
    fit(&fixture.decoder, what, &mut |report| {
        if let Report::Step { loss, .. } = report {
            losses.push(loss);
        }
        Ok(())
    })
    .unwrap();
    losses
}

fn close(ours: &[f64], theirs: &[f64], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (step, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() < 1e-3, "{what}, step {step}: {a} against {b}");
    }
}

fn golden() -> BTreeMap<String, Vec<f64>> {
    serde_json::from_value(read_json(&fixtures("train/reward_losses.json"))).unwrap()
}

#[test]
fn the_first_losses_are_those_of_torch_for_every_kind_of_head() {
    let golden = golden();
    for (family, name) in FAMILIES {
        let ours = losses(&open(family, name, Target::Process), &recipe());
        close(&ours, &golden[name], family);
    }
}

#[test]
fn a_head_is_trained_alone_at_first() {
    let fixture = open(
        "trl-token-classification",
        "trl-token-classification",
        Target::Process,
    );
    let recipe = Recipe {
        head_warmup: 0.2,
        ..recipe()
    };
    close(
        &losses(&fixture, &recipe),
        &golden()["head first"],
        "head first",
    );
}

/// The labels' gradients must reach exactly those hidden states from which the published code reads scores.
#[test]
fn labels_stand_where_scores_are_read_and_nowhere_else() {
    for (family, name) in FAMILIES {
        let Fixture {
            decoder,
            head,
            read,
        } = open(family, name, Target::Process);
        let expected = read_json(&folder(name).join("expected.json"));
        let chains = expected["chains"].as_array().unwrap();
        assert_eq!(chains.len(), read.examples.len());
        for (chain, example) in chains.iter().zip(&read.examples) {
            let tokens: Vec<u32> = serde_json::from_value(chain["tokens"].clone()).unwrap();
            // The published code may write more text after the last score.
            assert!(tokens.starts_with(&example.ids), "{family}");
            let time = example.ids.len();
            let all: Vec<u32> = (0..time as u32).collect();
            let hidden = decoder.forward(Input::Tokens(&example.ids), time, Some(&all));
            let hidden = Var::from_tensor(&hidden.unwrap().detach()).unwrap();
            let rows: Vec<u32> = example.labels.iter().map(|label| label.row).collect();
            let rows = beamgen_train::candle_core::Tensor::new(rows, hidden.device()).unwrap();
            let read_rows = hidden.index_select(&rows, 0).unwrap();
            let log_odds = head.log_odds(&decoder, &read_rows).unwrap();
            let loss = cross_entropy(&log_odds, &example.labels).unwrap();
            let gradient = loss.backward().unwrap().remove(&hidden).unwrap();
            let reached: Vec<usize> = gradient
                .to_vec2::<f32>()
                .unwrap()
                .iter()
                .enumerate()
                .filter(|(_, row)| row.iter().any(|&x| x != 0.0))
                .map(|(row, _)| row)
                .collect();
            assert_eq!(json!(reached), chain["read_at"], "{family}");
        }
    }
}

#[test]
fn an_outcome_model_learns_what_rules_say_of_chains() {
    let name = "trl-token-classification";
    let dir = tempfile::tempdir().unwrap();
    let file = labelled_file(name, dir.path());
    let tokenizer = Arc::new(Tokenizer::load(folder(name).as_path()).unwrap());
    let writer =
        ChainWriter::new(&PrmSpec::named(name).unwrap(), tokenizer, &folder(name)).unwrap();
    let learned = |rule: &str| {
        let mut labels = labels(Target::Outcome);
        labels
            .rule
            .sources
            .extend((!rule.is_empty()).then(|| rule.parse().unwrap()));
        let read = labels.read(&file, &writer, 1000);
        let examples = read.map_err(|error| error.to_string())?.examples;
        let only = examples.iter().map(|example| {
            assert_eq!(example.labels.len(), 1);
            example.labels[0].right
        });
        Ok::<_, String>(only.collect::<Vec<f32>>())
    };
    // The soft labels of the steps are 1, 0, 0.25 in turn, and only the first chain has a right answer.
    assert_eq!(learned("").unwrap(), [1.0, 0.0, 0.0]);
    let chains = read_json(&folder(name).join("expected.json"))["chains"].take();
    let mut soft = [1.0, 0.0, 0.25].into_iter().cycle();
    let lowest = chains.as_array().unwrap().iter().map(|chain| {
        let steps = chain["steps"].as_array().unwrap().iter();
        steps.map(|_| soft.next().unwrap()).fold(1.0, f32::min)
    });
    assert_eq!(learned("given").unwrap(), lowest.collect::<Vec<f32>>());
    let none = learned("judge").unwrap_err();
    assert!(
        none.contains("soft label") && none.contains("gives no label by the rule"),
        "{none}"
    );
}

#[test]
fn an_outcome_model_is_read_behind_the_last_step() {
    let read = open(
        "trl-token-classification",
        "trl-token-classification",
        Target::Outcome,
    )
    .read;
    let trl = "trl-token-classification";
    let steps = open(trl, trl, Target::Process).read.examples;
    let expected = read_json(&folder("trl-token-classification").join("expected.json"));
    for (i, example) in read.examples.iter().enumerate() {
        let rows = expected["chains"][i]["read_at"].as_array().unwrap();
        let [label] = example.labels[..] else {
            panic!("{example:?}")
        };
        assert_eq!(Some(&json!(label.row)), rows.last());
        // The judged text is all steps; those of the steps adjoin.
        let texts: Vec<[u32; 2]> = steps[i].labels.iter().map(|label| label.text).collect();
        assert!(
            texts.windows(2).all(|pair| pair[0][1] == pair[1][0]),
            "{texts:?}"
        );
        assert_eq!(label.text, [texts[0][0], example.ids.len() as u32]);
        assert_eq!(label.text[1], texts[texts.len() - 1][1]);
        assert!(
            texts[0][0] > 1 && texts.iter().all(|text| text[0] < text[1]),
            "{texts:?}"
        );
        assert_eq!(
            (label.right, label.weight),
            if i == 0 { (1.0, 1.0) } else { (0.0, 2.0) }
        );
    }
}

/// Makes a job that trains `from` on the labels of the fixture `name`.
fn job(family: &str, from: &str, name: &str, train: Trained, dir: &Path) -> Job {
    Job {
        task: Task::Reward {
            spec: Box::new(PrmSpec::named(family).unwrap()),
            labels: labels(Target::Process),
            head_warmup: 0.3,
            reference: None,
        },
        from: Checkpoint::from(&folder(from)),
        data: labelled_file(name, dir).into(),
        out: dir.join("out"),
        recipe: Recipe {
            train,
            epochs: 10,
            batch: 2,
            ..recipe()
        },
        held_out: 0.0,
        limit: None,
        longest: 1000,
        frozen_type: WeightType::Auto,
        float32: true,
        resume: false,
        stop_after: None,
        evaluate_every: None,
    }
}

/// Copies a checkpoint and gives its tokenizer a begin token, which some formats write.
fn with_begin_token(from: &Path, dir: &Path) -> PathBuf {
    let copy = dir.join("with-begin-token");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    let file = copy.join("tokenizer_config.json");
    let mut config = read_json(&file);
    config["bos_token"] = "<|endoftext|>".into();
    std::fs::write(file, config.to_string()).unwrap();
    copy
}

/// Returns the mean loss over the labels of [`labelled_file`], computed from the scores of the model in `folder`.
fn loss_of_scores(
    folder: &Path,
    (spec, reference): (Option<PrmSpec>, Option<&Path>),
    name: &str,
) -> f64 {
    let (checkpoint, reference) = (Checkpoint::from(folder), reference.map(Body::from));
    let config = EngineConfig::default();
    let pool = ThreadPool::new(1);
    let mut model = RewardModel::load(checkpoint, spec, reference, config, pool).unwrap();
    let mut labels = [1.0, 0.0, 0.25].into_iter().cycle();
    let (mut sum, mut weights) = (0.0, 0.0);
    let expected = read_json(&self::folder(name).join("expected.json"));
    for chain in expected["chains"].as_array().unwrap() {
        let steps = chain["steps"].as_array().unwrap().iter();
        let steps: Vec<&str> = steps.map(|step| step.as_str().unwrap()).collect();
        let scores = model.whole_chain(chain["problem"].as_str().unwrap(), &steps);
        for score in scores.unwrap() {
            let (right, score) = (labels.next().unwrap(), f64::from(score));
            let weight = right + (1.0 - right) * 2.0;
            sum -= weight * (right * score.ln() + (1.0 - right) * (1.0 - score).ln());
            weights += weight;
        }
    }
    sum / weights
}

#[test]
fn what_is_written_scores_as_it_was_trained() {
    let with_heads = FAMILIES.map(|(family, name)| (family, name, name, Trained::ALL));
    let trl = "trl-token-classification";
    let others = [
        // These checkpoints have no reward head, so the head is new.
        (trl, "reference", trl, Trained::ALL),
        (trl, "reference", trl, Trained::top(1)),
        ("skywork-o1-open-prm", "reference", trl, Trained::top(1)),
    ];
    for (family, from, name, train) in with_heads.into_iter().chain(others) {
        let dir = tempfile::tempdir().unwrap();
        let mut job = job(family, from, name, train, dir.path());
        if from == "reference" {
            job.from = Checkpoint::from(&with_begin_token(job.from.path(), dir.path()));
        }
        assert!(run(&job, &mut |_| ()).unwrap());
        // A second run from the written checkpoint reports the loss of that checkpoint as its first loss, here over
        // all chains.
        job.recipe.batch = 8;
        job.recipe.epochs = 1;
        job.from = Checkpoint::from(&job.out);
        job.out = dir.path().join("again");
        let mut first = f64::NAN;
        let finished = run(&job, &mut |report| {
            if let Report::Step { loss, .. } = report {
                first = loss;
            }
        });
        assert!(finished.unwrap());
        let scored = loss_of_scores(job.from.path(), (None, None), name);
        // The outputs of frozen layers are stored in bf16, so the tolerance is larger.
        let tolerance = if train == Trained::ALL { 1e-4 } else { 1e-2 };
        let difference = (scored - first).abs();
        assert!(
            difference < tolerance,
            "{family} from {from}, {train:?}: {scored} against {first}"
        );
    }
}

/// Runs a job to its end and returns the loss of each update.
fn all_losses(job: &Job) -> Vec<f64> {
    let mut losses = Vec::new();
    let finished = run(job, &mut |report| {
        if let Report::Step { loss, .. } = report {
            losses.push(loss);
        }
    });
    assert!(finished.unwrap());
    losses
}

#[test]
fn a_log_ratio_is_trained_as_it_is_scored() {
    let (family, name) = ("implicit-prm", "EurusPRM-Stage2");
    let reference = folder("reference");
    for train in [Trained::ALL, Trained::top(1)] {
        let dir = tempfile::tempdir().unwrap();
        let mut job = job(family, name, name, train, dir.path());
        job.recipe.batch = 8;
        let mut spec = PrmSpec::named(family).unwrap();
        spec.head = HeadSpec::LogRatio(LogRatio { beta: 0.05 });
        let Task::Reward {
            spec: format,
            reference: other,
            ..
        } = &mut job.task
        else {
            panic!("a reward model")
        };
        (**format, *other) = (spec.clone(), Some(Checkpoint::from(&reference)));
        let losses = all_losses(&job);
        let tolerance = if train == Trained::ALL { 1e-4 } else { 1e-2 };
        let before = loss_of_scores(&folder(name), (Some(spec), Some(&reference)), name);
        assert!(
            (before - losses[0]).abs() < tolerance,
            "{before} against {losses:?}"
        );
        let after = loss_of_scores(&job.out, (None, Some(&reference)), name);
        assert!(
            after < 0.9 * before && after < losses[5],
            "{after} after {losses:?}"
        );
    }
}

#[test]
fn a_log_ratio_starts_at_zero_and_learns_outcomes() {
    let (family, name) = ("implicit-prm", "EurusPRM-Stage2");
    let dir = tempfile::tempdir().unwrap();
    let mut job = job(family, name, name, Trained::ALL, dir.path());
    job.recipe.batch = 8;
    let Task::Reward { labels, .. } = &mut job.task else {
        panic!("a reward model")
    };
    labels.target = Target::Outcome;
    // The checkpoint is its own reference, so the first log-odds are 0.
    let losses = all_losses(&job);
    assert!((losses[0] - 2f64.ln()).abs() < 1e-6, "{losses:?}");
    assert!(losses[9] < 0.9 * losses[0], "{losses:?}");
    let trl = "trl-token-classification";
    let second = tempfile::tempdir().unwrap();
    let mut other = self::job(trl, trl, trl, Trained::ALL, second.path());
    let Task::Reward { reference, .. } = &mut other.task else {
        panic!("a reward model")
    };
    *reference = Some(Checkpoint::from(&folder("reference")));
    let error = run(&other, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("reads no reference model"), "{error}");
}

#[test]
fn a_resumed_job_writes_the_same_bytes() {
    let trl = "trl-token-classification";
    let written = |stops: &[Option<usize>]| {
        let dir = tempfile::tempdir().unwrap();
        for (i, &stop_after) in stops.iter().enumerate() {
            let job = Job {
                stop_after,
                resume: i > 0,
                ..job(trl, "reference", trl, Trained::top(1), dir.path())
            };
            assert_eq!(run(&job, &mut |_| ()).unwrap(), stop_after.is_none());
        }
        std::fs::read(dir.path().join("out/model.safetensors")).unwrap()
    };
    // The first 6 of the 20 updates train only the head; interruptions are tested before, at and after that point.
    let whole = written(&[None]);
    assert!(whole == written(&[Some(3), Some(3), Some(5), None]));
    assert!(whole == written(&[Some(10), None]));
}

#[test]
fn beginnings_of_steps_are_further_examples_with_the_labels_of_their_steps() {
    let folder = folder("trl-token-classification");
    let spec = PrmSpec::named("trl-token-classification").unwrap();
    let tokenizer = Arc::new(Tokenizer::load(folder.as_path()).unwrap());
    let writer = ChainWriter::new(&spec, tokenizer, &folder).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("labels.jsonl");
    let chain = |id: usize| json!({"id": id.to_string(), "problem": "p", "steps": ["a b c d", "e f g h"], "label": 1});
    let lines: String = (0..20).map(|id| format!("{}\n", chain(id))).collect();
    std::fs::write(&path, lines).unwrap();
    let mut partial = labels(Target::Process);
    let whole = partial.read(&path, &writer, 1000).unwrap();
    partial.partial = 2;
    let read = partial.read(&path, &writer, 1000).unwrap();
    assert_eq!(
        (
            whole.examples.len(),
            read.examples.len(),
            read.problems.len()
        ),
        (20, 60, 60)
    );
    assert_eq!(read.examples[0], whole.examples[0]);
    let beginnings: Vec<_> = read
        .examples
        .iter()
        .filter(|example| example.labels.len() == 1)
        .collect();
    assert_eq!(beginnings.len(), 40);
    for example in &beginnings {
        let [label] = example.labels[..] else {
            panic!("one label")
        };
        assert_eq!(label.row as usize, example.ids.len() - 1);
        assert_eq!(label.weight, if label.right == 1.0 { 1.0 } else { 2.0 });
    }
    let right = beginnings
        .iter()
        .filter(|example| example.labels[0].right == 1.0)
        .count();
    assert!(
        (8..33).contains(&right),
        "{right} of 40 are beginnings of right steps"
    );
    let lengths: std::collections::BTreeSet<usize> =
        beginnings.iter().map(|example| example.ids.len()).collect();
    assert!(
        lengths.len() >= 5,
        "beginnings of one, two and three words of two steps: {lengths:?}"
    );
    assert_eq!(
        partial.read(&path, &writer, 1000).unwrap().examples,
        read.examples
    );
}
