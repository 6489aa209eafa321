//! Compares the tokens and scores of every family with those of its published code
//! (tests/fixtures/prm).

use std::path::PathBuf;
use std::sync::Arc;

use beamgen_engine::{
    Checkpoint, DeviceChoice, EngineConfig, Model, ModelConfig, ThreadPool, WeightType, Weights,
};
use beamgen_prm::{Body, Error, HeadSpec, LogRatio, PrmSpec, RewardModel};
use beamgen_search::{ScoreError, ScoreId, ScoreItem, Scorer};
use serde::Deserialize;

use crate::models::{Step, on_cpu, problem};

/// Families and the folders of their fixtures.
const FIXTURES: [(&str, &str); 9] = [
    ("step-token", "step-token"),
    ("qwen2.5-math-prm", "qwen2.5-math-prm"),
    ("reasonflux-prm-7b", "ReasonFlux-PRM-7B"),
    ("skywork-o1-open-prm", "skywork-o1-open-prm"),
    ("math-shepherd", "math-shepherd-mistral-7b-prm"),
    ("rlhflow-llama3.1", "Llama3.1-8B-PRM-Deepseek-Data"),
    ("trl-token-classification", "trl-token-classification"),
    (
        "trl-token-classification-blank-line",
        "Qwen2.5-Math-1.5B-Instruct-PRM-0.2",
    ),
    ("implicit-prm", "EurusPRM-Stage2"),
];

#[derive(Deserialize)]
struct Expected {
    beta: Option<f64>,
    chains: Vec<Chain>,
}

#[derive(Deserialize)]
struct Chain {
    problem: String,
    steps: Vec<String>,
    tokens: Vec<u32>,
    read_at: Vec<usize>,
    scores: Vec<f32>,
}

impl Chain {
    fn steps(&self) -> Vec<&str> {
        self.steps.iter().map(String::as_str).collect()
    }
}

fn folder(name: &str) -> PathBuf {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/prm");
    PathBuf::from(fixtures).join(name)
}

fn expected(name: &str) -> Expected {
    let text = std::fs::read_to_string(folder(name).join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the spec by which the checkpoint is recognised. A log-ratio gets the fixture's beta: its
/// untrained models differ less than trained ones.
fn recognised(name: &str, expected: &Expected) -> PrmSpec {
    let checkpoint = Checkpoint::from(&folder(name));
    let weights = Weights::load(checkpoint.clone()).unwrap();
    let mut spec = PrmSpec::of(&checkpoint, &weights).unwrap();
    if let Some(beta) = expected.beta {
        spec.head = HeadSpec::LogRatio(LogRatio { beta });
    }
    spec
}

fn load(name: &str, spec: PrmSpec, pages: Option<usize>) -> RewardModel {
    load_on(DeviceChoice::Cpu, name, spec, pages)
}

fn load_on(device: DeviceChoice, name: &str, spec: PrmSpec, pages: Option<usize>) -> RewardModel {
    // All fixtures have two layers of two heads of 8 values.
    let page = 4 * 2 * 2 * 2 * 8 * size_of::<f32>();
    // In float32: with smaller weights a device would round inputs, and the CPU would not.
    let body = |name: &str| {
        let checkpoint = Checkpoint::from(&folder(name));
        let config = ModelConfig::load(checkpoint.clone()).unwrap();
        let weights = Weights::load(checkpoint.clone()).unwrap();
        let (compute, pool) = (device.open().unwrap(), ThreadPool::new(1));
        let model = Model::on(&compute, config, &weights, WeightType::F32, &pool);
        Body {
            checkpoint,
            model: Some(Arc::new(model.unwrap())),
        }
    };
    let reference = matches!(spec.head, HeadSpec::LogRatio(_)).then(|| match device {
        DeviceChoice::Cpu => Body::from(&folder("reference")),
        _ => body("reference"),
    });
    let engines = 1 + usize::from(reference.is_some());
    let config = EngineConfig {
        // Devices have larger pages.
        page_size: if device == DeviceChoice::Cpu { 4 } else { 16 },
        device,
        kv_bytes: pages.map_or(1 << 22, |pages| pages * page * engines),
        max_rows: 32,
        // A test that reads the same tokens twice compares two computations.
        prefix_cache: false,
        ..EngineConfig::default()
    };
    let own = match device {
        DeviceChoice::Cpu => Body::from(&folder(name)),
        _ => body(name),
    };
    RewardModel::load(own, Some(spec), reference, config, ThreadPool::new(2))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Steps as a search has them: with boundary, and numbered by their generator.
fn as_generated(family: &str, index: usize, step: &str) -> String {
    match family {
        "math-shepherd" | "implicit-prm" => format!("## Step {index}: {step}\n\n"),
        _ => format!("{step}\n"),
    }
}

/// Grows all chains together. Each step is scored on a fork, next to a sibling that is released
/// again.
fn grow(family: &str, prm: &mut RewardModel, chains: &[Chain]) -> Vec<Vec<f32>> {
    let mut ids: Vec<ScoreId> = chains
        .iter()
        .map(|chain| prm.open(&problem(&chain.problem), 0).unwrap())
        .collect();
    let mut scores = vec![Vec::new(); chains.len()];
    for depth in 0..chains.iter().map(|chain| chain.steps.len()).max().unwrap() {
        let alive: Vec<usize> = (0..chains.len())
            .filter(|&c| depth < chains[c].steps.len())
            .collect();
        let (mut steps, mut targets) = (Vec::new(), Vec::new());
        for &c in &alive {
            let text = as_generated(family, depth + 1, &chains[c].steps[depth]);
            let sibling = as_generated(family, depth + 1, &format!("no, {depth}!"));
            for (text, own) in [(sibling, false), (text, true)] {
                let step = Step {
                    text,
                    tokens: vec![9999],
                    finish: None,
                };
                targets.push((c, prm.fork(ids[c]), own));
                steps.push(step);
            }
        }
        let items: Vec<ScoreItem<'_>> = targets
            .iter()
            .zip(&steps)
            .map(|(&(_, id, _), step)| ScoreItem {
                id,
                steps: vec![step.as_ref()],
            })
            .collect();
        let scored = prm.score(&items).unwrap();
        for ((c, id, own), scored) in targets.into_iter().zip(scored) {
            let scored = scored.unwrap();
            if own {
                scores[c].extend(scored.probabilities.into_iter().flatten());
                prm.release(std::mem::replace(&mut ids[c], id));
            } else {
                prm.release(id);
            }
        }
    }
    for id in ids.into_iter() {
        prm.release(id);
    }
    assert!(prm.engine().is_empty());
    assert!(prm.reference().is_none_or(beamgen_engine::Engine::is_empty));
    scores
}

#[test]
fn every_family_reads_what_its_authors_read() {
    println!("family | max abs score diff | tokens equal | incremental = whole");
    let mut names = Vec::new();
    for (family, name) in FIXTURES {
        let expected = expected(name);
        let spec = recognised(name, &expected);
        match family {
            "step-token" => assert!(spec.name.ends_with("prm.json"), "{}", spec.name),
            _ => assert_eq!(spec.name, family),
        }
        let mut prm = load(name, spec.clone(), None);
        let mut most = 0.0f32;
        let mut whole = Vec::new();
        for chain in &expected.chains {
            let written = prm.written(&chain.problem, &chain.steps()).unwrap();
            // The published code also closes the assistant's turn; only these tokens may be
            // missing.
            let closing = chain.tokens.len() - written.tokens.len();
            assert!(closing <= 2, "{family}: {closing}");
            assert_eq!(
                written.tokens,
                chain.tokens[..written.tokens.len()],
                "{family}"
            );
            assert_eq!(written.read_at, chain.read_at, "{family}");
            let scores = prm.whole_chain(&chain.problem, &chain.steps()).unwrap();
            assert_eq!(scores.len(), chain.scores.len());
            for (score, expected) in scores.iter().zip(&chain.scores) {
                most = most.max((score - expected).abs());
            }
            whole.push(scores);
        }
        assert!(most < 1e-4, "{family}: {most}");
        assert_eq!(grow(family, &mut prm, &expected.chains), whole, "{family}");
        // With memory for little more than the longest chain, caches are forgotten all the time.
        let longest = expected.chains.iter().map(|chain| chain.tokens.len()).max();
        let mut tight = load(name, spec, Some(longest.unwrap() / 4 + 10));
        assert_eq!(
            grow(family, &mut tight, &expected.chains),
            whole,
            "{family}"
        );
        println!("{family} | {most:.1e} | yes | yes");
        names.push(family);
    }
    names.sort_unstable();
    // Judges are formats of any chat model; `judges.rs` tests them.
    let judges = ["chat-judge", "genprm-direct", "specreason"];
    let mut all: Vec<&str> = PrmSpec::names()
        .filter(|name| !judges.contains(name))
        .collect();
    all.sort_unstable();
    assert_eq!(names, all);
}

/// Heads, log-ratios and caches on a CUDA device: the emulated one, unless there is a real one to
/// be used.
#[test]
fn every_family_on_a_cuda_device() {
    if !beamgen_emulated_cuda::load() {
        return;
    }
    for (family, name) in FIXTURES {
        let expected = expected(name);
        let spec = recognised(name, &expected);
        let mut prm = load_on(DeviceChoice::Cuda(0), name, spec, None);
        assert!(!prm.engine().model().compute().is_cpu());
        let grown = grow(family, &mut prm, &expected.chains);
        for (chain, scores) in expected.chains.iter().zip(&grown) {
            assert_eq!(scores.len(), chain.scores.len());
            for (score, expected) in scores.iter().zip(&chain.scores) {
                let near = (score - expected).abs() < 1e-4;
                assert!(near, "{family}: {score} instead of {expected}");
            }
        }
    }
}

#[test]
fn models_that_are_loaded_already_are_shared() {
    let name = "EurusPRM-Stage2";
    let expected = expected(name);
    let spec = recognised(name, &expected);
    let chain = &expected.chains[0];
    let alone = load(name, spec.clone(), None)
        .whole_chain(&chain.problem, &chain.steps())
        .unwrap();
    let model = |name| Arc::new(Model::load(&folder(name)).unwrap());
    let body = |name| Body {
        checkpoint: Checkpoint::from(&folder(name)),
        model: Some(model(name)),
    };
    let (own, reference) = (body(name), body("reference"));
    let kept = Arc::clone(own.model.as_ref().unwrap());
    let config = on_cpu();
    let pool = ThreadPool::new(1);
    let mut prm =
        RewardModel::load(own, Some(spec.clone()), Some(reference), config, pool).unwrap();
    assert!(Arc::ptr_eq(&kept, prm.engine().model()));
    let shared = prm.whole_chain(&chain.problem, &chain.steps()).unwrap();
    assert_eq!(shared, alone);
}

#[test]
fn memory_is_that_of_both_models() {
    let memory = |name: &str| load(name, recognised(name, &expected(name)), Some(50)).memory();
    let (one, two) = (memory("step-token"), memory("EurusPRM-Stage2"));
    assert_eq!(two.bytes_per_token, 2 * one.bytes_per_token);
    assert_eq!(two.capacity_tokens, one.capacity_tokens);
    assert_eq!(one.capacity_tokens, 200);
}

#[test]
fn a_chain_longer_than_the_context_is_refused_alone() {
    for (_, name) in FIXTURES {
        let expected = expected(name);
        let mut prm = load(name, recognised(name, &expected), None);
        let long = "12 + 34 = 46, ".repeat(60);
        let chain = &expected.chains[0];
        let results = prm
            .whole_chains(&[("1 + 1?", &[&long]), (&chain.problem, &chain.steps())])
            .unwrap();
        let error = results[0].as_ref().unwrap_err();
        assert!(matches!(error, ScoreError::TooLong { context: 512, .. }));
        assert_eq!(results[1].as_ref().unwrap().len(), chain.steps.len());
    }
}

fn refused(name: &str, format: &str, reference: Option<&str>) -> String {
    let spec = PrmSpec::named(format).unwrap();
    let reference = reference.map(|name| Body::from(&folder(name)));
    let config = on_cpu();
    let error = RewardModel::load(
        &folder(name),
        Some(spec),
        reference,
        config,
        ThreadPool::new(1),
    )
    .unwrap_err();
    assert!(matches!(error, Error::Unfit { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(format) && text.contains(name), "{text}");
    assert!(!text.contains('\n'), "{text}");
    text
}

#[test]
fn a_format_that_is_not_the_checkpoints_is_refused_in_one_line() {
    for (name, format, reference, parts) in [
        (
            "skywork-o1-open-prm",
            "qwen2.5-math-prm",
            None,
            ["head.linear", "score.0.weight"],
        ),
        (
            "trl-token-classification",
            "step-token",
            None,
            ["normaliser", "2 outputs"],
        ),
        (
            "EurusPRM-Stage2",
            "math-shepherd",
            None,
            ["step.tag", "tokens of the model"],
        ),
        (
            "trl-token-classification",
            "rlhflow-llama3.1",
            None,
            ["head.tokens", "no language-model head"],
        ),
        (
            "EurusPRM-Stage2",
            "implicit-prm",
            None,
            ["head.log-ratio", "none was given"],
        ),
        (
            "EurusPRM-Stage2",
            "implicit-prm",
            Some("Llama3.1-8B-PRM-Deepseek-Data"),
            ["head.log-ratio", "another tokenizer"],
        ),
        (
            "EurusPRM-Stage2",
            "implicit-prm",
            Some("EurusPRM-Stage2"),
            ["head.log-ratio", "the reward model itself"],
        ),
        (
            "skywork-o1-open-prm",
            "skywork-o1-open-prm",
            Some("reference"),
            ["`head`", "no reference"],
        ),
    ] {
        let text = refused(name, format, reference);
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

/// Without its begin token the scores of such a model are others, and nothing would show it.
#[test]
fn a_prompt_with_a_begin_token_needs_a_tokenizer_that_names_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("Skywork");
    std::fs::create_dir(&path).unwrap();
    for file in std::fs::read_dir(folder("skywork-o1-open-prm")).unwrap() {
        let file = file.unwrap();
        let mut bytes = std::fs::read(file.path()).unwrap();
        if file.file_name() == "tokenizer_config.json" {
            let mut config: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            config.as_object_mut().unwrap().remove("bos_token").unwrap();
            bytes = config.to_string().into();
        }
        std::fs::write(path.join(file.file_name()), bytes).unwrap();
    }
    let load = |spec: PrmSpec| {
        let (config, pool) = (on_cpu(), ThreadPool::new(1));
        RewardModel::load(&path, Some(spec), None, config, pool)
    };
    let mut spec = PrmSpec::named("skywork-o1-open-prm").unwrap();
    let error = load(spec.clone()).unwrap_err().to_string();
    for part in ["skywork-o1-open-prm", "prompt.text", "Skywork", "bos_token"] {
        assert!(error.contains(part), "{error}");
    }
    spec.prompt.text = Some("{{ bos | default('') }}{{ problem }}\n".into());
    load(spec).unwrap();
}

#[test]
fn a_checkpoint_may_say_itself_how_it_is_read_or_must_be_told() {
    let dir = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder("reference")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    let spec_of_folder = || {
        let checkpoint = Checkpoint::from(dir.path());
        let weights = Weights::load(checkpoint.clone()).unwrap();
        PrmSpec::of(&checkpoint, &weights)
    };
    let error = spec_of_folder().unwrap_err();
    assert!(matches!(error, Error::NotRecognised { .. }));
    assert!(error.to_string().contains("skywork-o1-open-prm"), "{error}");

    let own = "normaliser = { softmax = 0 }\n[step]\ntext = \"{{ step }} Right?\"\n\
        verdict = \" +\\n\"\n[head]\ntokens = [\"+\", \"-\"]\n";
    std::fs::write(dir.path().join("prm.toml"), own).unwrap();
    let spec = spec_of_folder().unwrap();
    assert!(spec.name.ends_with("prm.toml"));
    let config = on_cpu();
    let mut prm = RewardModel::load(dir.path(), None, None, config, ThreadPool::new(1)).unwrap();
    let written = prm.written("1 + 1?", &["2", "Yes"]).unwrap();
    let at = written.read_at[0];
    let encode = |text: &str| {
        let tokenizer = beamgen_engine::Tokenizer::load(dir.path()).unwrap();
        tokenizer.encode(text, false).unwrap()
    };
    let (question, verdict) = (encode("2 Right?"), encode(" +\n"));
    assert_eq!(written.tokens[at + 1 - question.len()..=at], question);
    assert_eq!(written.tokens[at + 1..][..verdict.len()], verdict);
    assert_eq!(prm.whole_chain("1 + 1?", &["2", "Yes"]).unwrap().len(), 2);
}

/// Published data have the tag at the end of their steps already.
#[test]
fn a_step_that_brings_its_tag_along_has_it_once() {
    for (name, tag) in [
        ("math-shepherd-mistral-7b-prm", "ки"),
        ("qwen2.5-math-prm", "<extra_0>"),
    ] {
        let mut prm = load(name, recognised(name, &expected(name)), None);
        let plain = prm
            .whole_chain("1 + 1?", &["One and one.", "Two."])
            .unwrap();
        let steps = [format!("One and one. {tag}\n"), format!("Two.{tag}")];
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        assert_eq!(prm.whole_chain("1 + 1?", &steps).unwrap(), plain, "{name}");
    }
}
