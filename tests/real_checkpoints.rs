//! Checkpoints of published families through the real binary: tiny ones with random weights.

use std::path::Path;

use safetensors::SafeTensors;
use serde_json::{Value, json};

use crate::run::{Place, root};

/// The tiny reward models, and the families that they are recognised as.
const FAMILIES: [(&str, &str); 8] = [
    ("EurusPRM-Stage2", "implicit-prm"),
    ("Llama3.1-8B-PRM-Deepseek-Data", "rlhflow-llama3.1"),
    (
        "Qwen2.5-Math-1.5B-Instruct-PRM-0.2",
        "trl-token-classification-blank-line",
    ),
    ("ReasonFlux-PRM-7B", "reasonflux-prm-7b"),
    ("math-shepherd-mistral-7b-prm", "math-shepherd"),
    ("qwen2.5-math-prm", "qwen2.5-math-prm"),
    ("skywork-o1-open-prm", "skywork-o1-open-prm"),
    ("trl-token-classification", "trl-token-classification"),
];
pub(crate) const SHEPHERD: &str = "math-shepherd-mistral-7b-prm";
/// Limits for chains of random letters, which many letters end a step of.
pub(crate) const BABBLE: [&str; 4] = [
    "--set",
    "generator.max_chain_tokens=24",
    "--set",
    "generator.boundaries=[\"a\",\"e\",\"i\",\"o\",\"n\",\"t\",\"s\",\" \",\"0\",\"4\"]",
];
pub(crate) const SHORT: &str =
    "{\"problem\": \"Mia has 34 pens. How many pens does Mia have?\", \"answer\": 34}\n";

/// A copy of a tiny reward model with room for whole solutions. Of some families the folder's name
/// is what they are recognised by.
pub(crate) fn prm(place: &Place, name: &str) -> String {
    place.copy(&root().join("tests/fixtures/prm").join(name), name);
    place.edit(&format!("{name}/config.json"), |config| {
        config["max_position_embeddings"] = 8192.into();
    });
    name.to_owned()
}

pub(crate) fn fixture(name: &str) -> String {
    let path = root().join("tests/fixtures").join(name);
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// Returns the problems in the output of `solve --json`, without times and other machine-dependent
/// figures.
pub(crate) fn problems(lines: &[Value]) -> Vec<Value> {
    let mut rows: Vec<Value> = lines
        .iter()
        .filter(|row| row.get("summary").is_none())
        .cloned()
        .collect();
    for row in &mut rows {
        let ledger = row["ledger"].as_object_mut().expect("a ledger");
        ledger.retain(|key, _| !key.ends_with("seconds"));
    }
    rows
}

fn scores(row: &Value) -> Vec<&Value> {
    let steps = row["steps"].as_array().expect("steps");
    steps.iter().map(|step| &step["score"]).collect()
}

/// Every whole step of every chosen chain has a probability, and the scorer read tokens for it. A
/// step that the chain's limit cut has none.
pub(crate) fn assert_scored(rows: &[Value], name: &str) {
    for row in rows {
        assert!(row.get("error").is_none(), "{name}: {row}");
        let mut scores = scores(row);
        if row["finish"] == "chain-cap" && scores.last().is_some_and(|score| score.is_null()) {
            scores.pop();
        }
        assert!(!scores.is_empty(), "{name}: {row}");
        for score in scores {
            let score = score.as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
            assert!((0.0..=1.0).contains(&score), "{name}: {score}");
        }
        assert!(row["ledger"]["scored_tokens"].as_u64() > Some(0), "{name}");
    }
}

/// The chosen chains as input of `beamgen score`.
fn write_chains(place: &Place, rows: &[Value]) {
    let sample = beamgen::bundled::sample().expect("the sample");
    let lines: String = rows
        .iter()
        .map(|row| {
            let id = row["id"].as_str().expect("an id");
            let problem = sample.problems.iter().find(|p| p.id == id).expect("it");
            let steps = row["steps"].as_array().expect("steps");
            let steps: Vec<&Value> = steps.iter().map(|step| &step["text"]).collect();
            format!(
                "{}\n",
                json!({"id": id, "problem": problem.text, "steps": steps})
            )
        })
        .collect();
    place.write("chains.jsonl", lines);
}

/// In a search a chain is read step by step on forks of a cache, by `score` in whole; the first
/// recognises the checkpoint, the second is told. The same bits, or the digits would differ.
#[test]
fn every_family_scores_a_search_as_it_scores_whole_chains() {
    for (name, family) in FAMILIES {
        let place = Place::new();
        prm(&place, name);
        let mut models = vec!["--prm", name];
        let reference = fixture("prm/reference");
        if family == "implicit-prm" {
            place.copy(Path::new(&reference), "reference");
            place.edit("reference/config.json", |config| {
                config["max_position_embeddings"] = 8192.into();
            });
            models.extend(["--prm-reference", "reference"]);
        }
        let search = ["solve", "--limit", "3", "--json", "-n", "4", "-m", "2"];
        let ran = place.run(&[&search[..], &models].concat()).ok();
        assert!(
            ran.stderr.contains(&format!("prm {name}")),
            "{}",
            ran.stderr
        );
        let rows = problems(&ran.json());
        assert_eq!(rows.len(), 3, "{name}");
        assert_scored(&rows, name);

        write_chains(&place, &rows);
        let told = ["score", "chains.jsonl", "--prm-format", family];
        let whole = place.run(&[&told[..], &models].concat()).ok().json();
        assert_eq!(whole.len(), 3, "{name}");
        let mut distinct = std::collections::BTreeSet::new();
        for (row, whole) in rows.iter().zip(&whole) {
            let read_whole = whole["scores"].as_array().expect("scores");
            assert_eq!(scores(row), read_whole.iter().collect::<Vec<_>>(), "{name}");
            assert_eq!(row["score"], whole["score"], "{name}");
            distinct.extend(read_whole.iter().map(Value::to_string));
        }
        assert!(distinct.len() > 1, "{name}: {distinct:?}");
    }
}

/// The file alone is the generator; the reward model has another vocabulary.
#[test]
fn a_gguf_file_alone_writes_chains() {
    for name in ["llama", "qwen2", "phi3"] {
        assert_writes_chains(&fixture(&format!("formats/{name}.gguf")));
    }
}

#[test]
fn folders_of_published_families_write_chains() {
    // qwen2, llama, mistral
    for name in ["reference", "Llama3.1-8B-PRM-Deepseek-Data", SHEPHERD] {
        assert_writes_chains(&fixture(&format!("prm/{name}")));
    }
}

fn assert_writes_chains(generator: &str) {
    let place = Place::new();
    prm(&place, SHEPHERD);
    place.write("p.jsonl", SHORT.repeat(2));
    let search = [
        "solve",
        "p.jsonl",
        "--json",
        "-n",
        "4",
        "-m",
        "2",
        "--generator",
        generator,
    ];
    let solve = |more: &[&str]| {
        let ran = place.run(&[&search[..], &BABBLE, more].concat()).ok();
        let rows = problems(&ran.json());
        assert_eq!(rows.len(), 2, "{generator}");
        for row in &rows {
            assert!(row.get("error").is_none(), "{generator}: {row}");
            let ledger = &row["ledger"];
            assert!(ledger["prompt_tokens"].as_u64() > Some(0), "{generator}");
            assert!(ledger["generated_tokens"].as_u64() > Some(3), "{generator}");
        }
        rows
    };
    let beam = solve(&["--prm", SHEPHERD]);
    assert_scored(&beam, generator);
    let votes = solve(&["--scorer", "none", "--strategy", "majority"]);
    for row in &votes {
        assert_eq!(row["ledger"]["scored_tokens"], 0, "{generator}");
        assert!(scores(row).iter().all(|score| score.is_null()), "{row}");
    }
}

/// A tensor's bytes as `torch.save` would write them: a pickle of calls that rebuild tensors over
/// stored files.
pub(crate) fn as_torch(safetensors: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let tensors = SafeTensors::deserialize(safetensors).expect("safetensors");
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let text = |pickle: &mut Vec<u8>, text: &str| {
        pickle.push(b'X');
        pickle.extend(u32::try_from(text.len()).expect("short").to_le_bytes());
        pickle.extend(text.as_bytes());
    };
    let number = |pickle: &mut Vec<u8>, n: usize| {
        pickle.push(b'J');
        pickle.extend(u32::try_from(n).expect("small").to_le_bytes());
    };
    let tuple = |pickle: &mut Vec<u8>, numbers: &[usize]| {
        pickle.push(b'(');
        for n in numbers.iter() {
            number(pickle, *n);
        }
        pickle.push(b't');
    };
    let mut pickle = b"\x80\x02}(".to_vec();
    for (key, (name, tensor)) in tensors.tensors().iter().enumerate() {
        assert_eq!(tensor.dtype(), safetensors::Dtype::BF16);
        archive
            .start_file(format!("archive/data/{key}"), options)
            .expect("a file");
        archive.write_all(tensor.data()).expect("written");
        let shape = tensor.shape();
        let strides: Vec<usize> = (0..shape.len())
            .map(|d| shape[d + 1..].iter().product())
            .collect();
        text(&mut pickle, name);
        pickle.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        text(&mut pickle, "storage");
        pickle.extend(b"ctorch\nBFloat16Storage\n");
        text(&mut pickle, &key.to_string());
        text(&mut pickle, "cpu");
        number(&mut pickle, shape.iter().product());
        pickle.extend(b"tQ");
        number(&mut pickle, 0);
        tuple(&mut pickle, shape);
        tuple(&mut pickle, &strides);
        pickle.extend(b"\x89ccollections\nOrderedDict\n)RtR");
    }
    pickle.extend(b"u.");
    archive
        .start_file("archive/data.pkl", options)
        .expect("a file");
    archive.write_all(&pickle).expect("written");
    archive.finish().expect("an archive").into_inner()
}

#[test]
fn the_same_weights_in_a_torch_file_score_the_same() {
    let name = "skywork-o1-open-prm";
    let place = Place::new();
    prm(&place, name);
    let solve = || {
        let args = [
            "solve", "--limit", "2", "--json", "-n", "4", "-m", "2", "--prm", name,
        ];
        problems(&place.run(&args).ok().json())
    };
    let expected = solve();
    let weights = place.path(&format!("{name}/model.safetensors"));
    let bytes = as_torch(&std::fs::read(&weights).expect("the weights"));
    std::fs::remove_file(&weights).expect("removed");
    place.write(&format!("{name}/pytorch_model.bin"), bytes);
    assert_eq!(solve(), expected);
}

/// A reward model that is the generator's decoder, read at the rows of two tokens. One that claims
/// a longer context is another model, with the same numbers.
#[test]
fn weights_that_two_models_have_are_in_memory_once() {
    let place = Place::new();
    let abacus = root().join("models/abacus/generator");
    for name in ["same", "longer"] {
        place.copy(&abacus, name);
        place.write(
            &format!("{name}/prm.toml"),
            "normaliser = { softmax = 0 }\n[step]\ntokenise = \"pieces\"\nseparator = \"\\n\"\n\
             [head]\ntokens = [\"1\", \"2\"]\n",
        );
    }
    place.edit("longer/config.json", |config| {
        config["max_position_embeddings"] = 513.into();
    });
    let solve = |name: &str| {
        let args = [
            "solve", "--limit", "3", "--json", "-n", "4", "-m", "2", "--prm", name,
        ];
        let ran = place.run(&args).ok();
        (problems(&ran.json()), ran.stderr)
    };
    let (shared, said) = solve("same");
    let note = "note: generator and prm have the same weights: they are in memory once";
    assert_eq!(said.matches(note).count(), 1, "{said}");
    let row = said.lines().find(|line| line.contains("prm same"));
    assert!(row.is_some_and(|row| row.contains("shared")), "{said}");
    assert_scored(&shared, "shared");

    let (own, said) = solve("longer");
    assert!(
        !said.contains("shared") && !said.contains("in memory once"),
        "{said}"
    );
    assert_eq!(shared, own);
}

/// Published tokenizers carry both fields; `transformers` ignores them for a chat.
#[test]
fn truncation_and_padding_of_a_tokenizer_change_no_result() {
    let place = Place::new();
    for name in ["generator", "prm"] {
        place.copy(&root().join("models/abacus").join(name), name);
    }
    let solve = || {
        let args = ["solve", "--limit", "6", "--json", "-n", "4", "-m", "2"];
        let models = ["--generator", "generator", "--prm", "prm"];
        problems(&place.run(&[&args[..], &models].concat()).ok().json())
    };
    let plain = solve();
    assert_eq!(plain.len(), 6);
    for name in ["generator", "prm"] {
        let file = format!("{name}/tokenizer.json");
        let unchanged = place.read(&file);
        place.edit(&file, |tokenizer| {
            tokenizer["truncation"] = json!({"direction": "Right", "max_length": 40,
                "strategy": "LongestFirst", "stride": 0});
        });
        assert_eq!(solve(), plain, "truncation of the {name}");
        place.write(&file, &unchanged);
        place.edit(&file, |tokenizer| {
            tokenizer["padding"] = json!({"strategy": {"Fixed": 200}, "direction": "Right",
                "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "<|end|>"});
        });
        assert_eq!(solve(), plain, "padding of the {name}");
        place.write(&file, &unchanged);
    }
}

#[test]
fn auto_is_float32_bit_by_bit() {
    let solve = |dtype: &str| {
        let args = ["solve", "--limit", "4", "--json", "--dtype", dtype];
        problems(&Place::new().run(&args).ok().json())
    };
    let auto = solve("auto");
    assert_eq!(auto, solve("f32"));
    assert_eq!(auto.len(), 4);
    // The checkpoint's own bfloat16, widened as it is read.
    let abacus = root().join("models/abacus/generator");
    let generator = abacus.to_str().expect("UTF-8");
    let bytes = |dtype: &str| {
        let args = [
            "models",
            "--json",
            "--generator",
            generator,
            "--dtype",
            dtype,
        ];
        Place::new().run(&args).ok().json()[0]["weights"].as_u64()
    };
    let (kept, wide) = (bytes("auto").expect("bytes"), bytes("f32").expect("bytes"));
    assert!(wide > kept * 3 / 2, "{kept} {wide}");
    assert_eq!(Some(kept), bytes("bf16"));
}

/// A family's file under another name, for a checkpoint that nobody recognises, and one that reads
/// the other of two classes.
#[test]
fn a_format_of_ones_own() {
    let place = Place::new();
    prm(&place, SHEPHERD);
    std::fs::rename(place.path(SHEPHERD), place.path("mine")).expect("renamed");
    let chain =
        json!({"problem": "What is 7 * (3 + 2)?", "steps": ["3 + 2 = 5", "The answer is 35"]});
    place.write("chains.jsonl", format!("{chain}\n"));
    let family = std::fs::read_to_string(root().join("configs/prm/math-shepherd.toml"));
    let family = family.expect("the family's file");
    place.write("right.toml", &family);
    place.write("wrong.toml", family.replace("softmax = 0", "softmax = 1"));
    let read = |format: &str| -> Vec<f64> {
        let args = [
            "score",
            "chains.jsonl",
            "--prm",
            "mine",
            "--prm-format",
            format,
        ];
        let row = place.run(&args).ok().json().remove(0);
        let scores = row["scores"].as_array().expect("scores").iter();
        scores
            .map(|score| score.as_f64().expect("a score"))
            .collect()
    };
    let (right, wrong) = (read("right.toml"), read("wrong.toml"));
    assert_eq!(right, read("math-shepherd"));
    assert_eq!(right.len(), 2);
    for (right, wrong) in right.iter().zip(&wrong) {
        assert!((right + wrong - 1.0).abs() < 1e-6, "{right} {wrong}");
    }
    let search = [
        "solve", "--limit", "1", "--json", "-n", "4", "-m", "2", "--prm", "mine",
    ];
    let ran = place
        .run(&[&search[..], &["--prm-format", "right.toml"]].concat())
        .ok();
    assert_scored(&problems(&ran.json()), "right.toml");
}
