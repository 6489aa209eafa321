//! Compares logits and greedy tokens of tiny checkpoints of every family with `transformers`
//! (`tests/fixtures/make_fixtures.py`). `cargo test --test golden -- --nocapture` prints a table.

mod common;

use std::sync::Arc;

use beamgen_engine::{
    Append, Engine, EngineConfig, IsaChoice, Model, ModelConfig, Output, RopeScaling, Want,
    WeightType, Weights,
};
#[cfg(feature = "cuda")]
use beamgen_engine::{DeviceChoice, ThreadPool};
use common::{ADAPTERS, FAMILIES, append, fixture};
use safetensors::SafeTensors;

/// The largest allowed difference between two float32 implementations. Logits are around 10.
const TOLERANCE: f32 = 1e-4;

struct Expected(Vec<u8>);

impl Expected {
    fn load(name: &str) -> Self {
        Self(std::fs::read(fixture(name).join("expected.safetensors")).unwrap())
    }

    fn words<T>(&self, name: &str, value: impl Fn([u8; 4]) -> T) -> Vec<T> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        tensor
            .data()
            .as_chunks::<4>()
            .0
            .iter()
            .map(|w| value(*w))
            .collect()
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.words(name, f32::from_le_bytes)
    }

    fn tokens(&self, i: usize) -> Vec<u32> {
        self.words(&format!("tokens.{i}"), u32::from_le_bytes)
    }

    fn rows(&self, i: usize) -> Vec<usize> {
        self.words(&format!("rows.{i}"), |w| u32::from_le_bytes(w) as usize)
    }
}

/// The greedy continuation of a prompt, and the lead of each chosen logit over the next.
#[derive(serde::Deserialize)]
struct Greedy {
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    gaps: Vec<f32>,
}

impl Greedy {
    fn load(name: &str) -> Self {
        let text = std::fs::read_to_string(fixture(name).join("greedy.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

fn largest_difference(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    let differences = got.iter().zip(want).map(|(g, w)| (g - w).abs());
    // `f32::max` would ignore a NaN.
    differences.fold(0.0, |max, d| if d <= max { max } else { d })
}

/// The largest difference of a logit or a hidden value from the reference. All three sequences are
/// read in one ragged call, then again token by token.
fn difference(engine: &mut Engine, expected: &Expected) -> f32 {
    let tokens = [0, 1, 2].map(|i| expected.tokens(i));
    let rows = [0, 1, 2].map(|i| expected.rows(i));
    let seqs = [0, 1, 2].map(|_| engine.create());
    let items = [0, 1, 2].map(|i| Append {
        seq: seqs[i],
        tokens: &tokens[i],
        want: Want::At(&rows[i]),
    });
    let logits = engine.forward(&items, Output::Logits).unwrap();
    let want: Vec<f32> = (0..3)
        .flat_map(|i| expected.floats(&format!("logits.{i}")))
        .collect();
    let got: Vec<f32> = logits.iter().flatten().copied().collect();
    let mut largest = largest_difference(&got, &want);
    for (i, tokens) in tokens.iter().enumerate() {
        engine.truncate(seqs[i], 0);
        let mut last = Vec::new();
        for token in tokens {
            let item = Append {
                seq: seqs[i],
                tokens: &[*token],
                want: Want::Last,
            };
            let rows = engine.forward(&[item], Output::Hidden).unwrap();
            last = rows.row(0).to_vec();
        }
        let want = expected.floats(&format!("hidden.{i}"));
        largest = largest.max(largest_difference(&last, &want));
        engine.free(seqs[i]);
    }
    largest
}

fn continue_greedily(engine: &mut Engine, greedy: &Greedy) -> Vec<u32> {
    let seq = engine.create();
    let mut rows = append(engine, seq, &greedy.prompt, Want::Last);
    let mut tokens = Vec::new();
    while tokens.len() < greedy.tokens.len() {
        let row = rows.row(0);
        let best = (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b]));
        tokens.push(best.unwrap() as u32);
        rows = append(engine, seq, &tokens[tokens.len() - 1..], Want::Last);
    }
    engine.free(seq);
    tokens
}

/// Whether a sequence has the same bits in one call as in pieces, each appended to a fork of the
/// previous one.
fn incremental_is_whole(engine: &mut Engine, tokens: &[u32]) -> bool {
    let whole = engine.create();
    let rows = append(engine, whole, tokens, Want::All);
    let mut same = true;
    for piece in [1, 7, 16, 40] {
        let mut seq = engine.create();
        let mut row = 0;
        for piece in tokens.chunks(piece) {
            // The parent is extended with other tokens before it is freed, which must not change
            // the fork.
            let fork = engine.fork(seq);
            append(engine, seq, &[0, 1, 2], Want::None);
            engine.free(seq);
            seq = fork;
            for got in &append(engine, seq, piece, Want::All) {
                let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                same &= bits(got) == bits(rows.row(row));
                row += 1;
            }
        }
        engine.free(seq);
    }
    engine.free(whole);
    same
}

#[test]
fn every_family_equals_transformers() {
    println!("family | max abs logit diff | greedy equal | incremental = whole");
    println!("--- | --- | --- | ---");
    for name in FAMILIES.into_iter().chain(ADAPTERS) {
        let model = Arc::new(Model::load(&fixture(name)).unwrap());
        let (expected, greedy) = (Expected::load(name), Greedy::load(name));
        let logits = expected.floats("logits.2");
        assert!(logits.iter().any(|x| x.abs() > 1.0), "they say something");
        let clear = greedy.gaps.iter().all(|gap| *gap > 2.0 * TOLERANCE);
        assert!(clear && greedy.gaps.len() == 24);
        let (mut largest, mut equal, mut same) = (0.0f32, true, true);
        for isa in [IsaChoice::Auto, IsaChoice::Avx2, IsaChoice::Portable] {
            let config = EngineConfig {
                isa,
                threads: 1,
                ..EngineConfig::default()
            };
            // This machine may lack the instruction set. There is then nothing to compare.
            let Ok(mut engine) = Engine::new(Arc::clone(&model), config) else {
                continue;
            };
            largest = largest.max(difference(&mut engine, &expected));
            equal &= continue_greedily(&mut engine, &greedy) == greedy.tokens;
            same &= incremental_is_whole(&mut engine, &expected.tokens(2));
        }
        println!("{name} | {largest:.1e} | {equal} | {same}");
        assert!(largest <= TOLERANCE && equal && same, "{name}");
    }
}

/// Compares on a CUDA device: the emulated one, unless a real one was chosen.
#[cfg(feature = "cuda")]
#[test]
fn every_family_equals_transformers_on_a_cuda_device() {
    if !beamgen_emulated_cuda::load() {
        return;
    }
    let compute = DeviceChoice::Cuda(0).open().unwrap();
    for name in FAMILIES.into_iter().chain(ADAPTERS) {
        let config = ModelConfig::load(&fixture(name)).unwrap();
        let weights = Weights::load(&fixture(name)).unwrap();
        let pool = ThreadPool::new(1);
        let model = Model::on(&compute, config, &weights, WeightType::F32, &pool).unwrap();
        let (expected, greedy) = (Expected::load(name), Greedy::load(name));
        let mut engine = Engine::new(Arc::new(model), small()).unwrap();
        let largest = difference(&mut engine, &expected);
        let equal = continue_greedily(&mut engine, &greedy) == greedy.tokens;
        let same = incremental_is_whole(&mut engine, &expected.tokens(2));
        println!("{name} | {largest:.1e} | {equal} | {same}");
        assert!(largest <= TOLERANCE && equal && same, "{name}");
    }
}

/// Settings with a small cache, because a CUDA device allocates the whole cache at once.
#[cfg(feature = "cuda")]
fn small() -> EngineConfig {
    EngineConfig {
        kv_bytes: 4 << 20,
        threads: 1,
        ..EngineConfig::default()
    }
}

/// Checks that each feature matters for its fixture. Otherwise the comparison would pass without
/// the feature.
#[test]
fn what_a_family_adds_is_felt() {
    type Change = fn(&mut ModelConfig);
    let no_window: Change = |c| c.windows.clear();
    let no_scaling: Change = |c| c.rope.scaling = RopeScaling::None;
    let whole_heads: Change = |c| c.rope.partial_rotary_factor = 1.0;
    for (name, change) in [
        ("llama-linear", no_scaling),
        ("llama-llama3", no_scaling),
        ("mistral", no_window),
        ("qwen2-yarn", no_window),
        ("qwen2-yarn", no_scaling),
        ("phi3", no_window),
        ("phi3-partial", whole_heads),
    ] {
        let mut config = ModelConfig::load(&fixture(name)).unwrap();
        change(&mut config);
        config.max_position_embeddings = 96;
        let weights = Weights::load(&fixture(name)).unwrap();
        let model = Model::from_weights(config, &weights, WeightType::Auto).unwrap();
        let mut engine = Engine::new(model.into(), EngineConfig::default()).unwrap();
        let found = difference(&mut engine, &Expected::load(name));
        assert!(found > 100.0 * TOLERANCE, "{name}: {found}");
    }
}

/// Checks the defaults of parameters that a scaled rotation's configuration may omit.
#[test]
fn rotations_equal_those_of_transformers() {
    #[derive(serde::Deserialize)]
    struct Case {
        config: serde_json::Value,
        frequencies: Vec<f64>,
        attention_factor: f64,
    }
    let path = fixture("rope.json");
    let cases: Vec<Case> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(cases.len() > 10);
    for case in cases {
        let config = ModelConfig::from_json(&case.config.to_string(), &path).unwrap();
        let found = config.rope.frequencies(config.head_dim);
        assert_eq!(found.len(), case.frequencies.len());
        for (found, want) in found.iter().zip(&case.frequencies) {
            // The reference computes in float32.
            assert!(
                (found - want).abs() <= 1e-6 * want,
                "{found} instead of {want}: {:?}",
                config.rope
            );
        }
        assert!((config.rope.attention_factor() - case.attention_factor).abs() < 1e-12);
    }
}
