//! Checkpoints, files and names that cannot be used: one clear line each, exit code 2, before
//! anything is shown or loaded.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Value, json};

use crate::run::{Place, Ran, root};

pub(crate) const PROBLEM: &str =
    "{\"problem\": \"Mia has 34 pens. How many pens does Mia have?\", \"answer\": 34}\n";
pub(crate) const CHAIN: &str = "{\"problem\": \"Mia has 34 pens.\", \"steps\": [\"34 it is.\"]}\n";

/// A folder with problems, chains, and a tiny checkpoint `m`.
pub(crate) fn place(fixture: &str) -> Place {
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
    place.write("chains.jsonl", CHAIN);
    place.copy(&root().join("tests/fixtures").join(fixture), "m");
    place
}

fn refused_generator(place: &Place, name: &str, words: &[&str]) {
    let run = solved_by(place);
    run.assert_refused(&format!("generator: {name}"), words);
}

/// Solves with the generator `m` alone.
fn solved_by(place: &Place) -> Ran {
    let args = "solve p.jsonl --scorer none --strategy greedy --generator m";
    place.run(&args.split(' ').collect::<Vec<_>>())
}

pub(crate) fn refused_prm(place: &Place, name: &str, words: &[&str]) {
    for args in [
        ["solve", "p.jsonl"],
        ["score", "chains.jsonl"],
        ["models", "--json"],
    ] {
        let args = [&args[..], &["--prm", "m"]].concat();
        place
            .run(&args)
            .assert_refused(&format!("prm: {} {name}", args[0]), words);
    }
}

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// Writes the weights of `m` anew.
pub(crate) fn retensor(place: &Place, change: impl FnOnce(&mut Tensors)) {
    let path = place.path("m/model.safetensors");
    let bytes = std::fs::read(&path).expect("the weights");
    let read = SafeTensors::deserialize(&bytes).expect("safetensors");
    let mut tensors: Tensors = read
        .tensors()
        .into_iter()
        .map(|(name, view)| {
            (
                name,
                (view.dtype(), view.shape().to_vec(), view.data().to_vec()),
            )
        })
        .collect();
    change(&mut tensors);
    let views = tensors.iter().map(|(name, (dtype, shape, data))| {
        (
            name,
            TensorView::new(*dtype, shape.clone(), data).expect("a tensor"),
        )
    });
    let bytes = safetensors::serialize(views, None).expect("safetensors");
    place.write("m/model.safetensors", bytes);
}

fn config(place: &Place, field: &str, value: Value) {
    place.edit("m/config.json", |config| config[field] = value);
}

#[test]
fn folders_that_are_something_else_say_what() {
    const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    const ADAPTER: &str = "{\"base_model_name_or_path\": \"org/base\"}";
    type Change<'a> = &'a dyn Fn(&Place);
    let templates = json!([{"name": "chat", "template": "x"}]);
    let remove = |p: &Place, file: &str| std::fs::remove_file(p.path(file)).expect("removed");
    let cases: [(&str, Change<'_>, &[&str]); 6] = [
        (
            "an adapter alone",
            &|p| {
                for file in ["m/config.json", "m/model.safetensors", "m/tokenizer.json"] {
                    remove(p, file);
                }
                p.write("m/adapter_config.json", ADAPTER);
            },
            &["org/base", "hf download"],
        ),
        (
            "an adapter beside weights",
            &|p| drop(p.write("m/adapter_config.json", ADAPTER)),
            &["org/base", "hf download"],
        ),
        (
            "a pointer in place of weights",
            &|p| drop(p.write("m/model.safetensors", POINTER)),
            &["m/model.safetensors", "git lfs pull"],
        ),
        (
            "a pointer in place of a tokenizer",
            &|p| drop(p.write("m/tokenizer.json", POINTER)),
            &["m/tokenizer.json", "git lfs pull"],
        ),
        (
            "SentencePiece's model alone",
            &|p| {
                remove(p, "m/tokenizer.json");
                p.write("m/tokenizer.model", "");
            },
            &["m/tokenizer.json", "tokenizer.model", "save_pretrained"],
        ),
        (
            "templates without a default",
            &|p| {
                p.edit("m/tokenizer_config.json", |c| {
                    c["chat_template"] = templates.clone();
                });
            },
            &[
                "m/tokenizer_config.json",
                "chat_template",
                "chat",
                "default",
            ],
        ),
    ];
    for (name, change, words) in cases {
        let place = place("prm/reference");
        change(&place);
        refused_generator(&place, name, words);
    }
    let place = place("prm/reference");
    place.write("m/m.gguf", POINTER);
    let args = "solve p.jsonl --scorer none --strategy greedy --generator m/m.gguf";
    place
        .run(&args.split(' ').collect::<Vec<_>>())
        .assert_refused(
            "a pointer in place of a GGUF file",
            &["m/m.gguf", "git lfs pull"],
        );
}

#[test]
fn weights_that_do_not_fit() {
    type Damage = fn(&Place);
    let cases: [(&str, Damage, &[&str]); 10] = [
        (
            "a shard is missing",
            a_missing_shard,
            &["m/model-00002-of-00002.safetensors"],
        ),
        (
            "another width",
            |p| config(p, "intermediate_size", 64.into()),
            &["beamgen: m", "mlp", "[48, 32]", "[64, 32]"],
        ),
        (
            "a norm of another length",
            |p| retensor(p, |t| shorten(t, "model.norm.weight")),
            &["beamgen: m", "model.norm.weight", "[31]", "[32]"],
        ),
        (
            "no norm",
            |p| {
                retensor(p, |t| {
                    drop(t.remove("model.layers.1.input_layernorm.weight"));
                });
            },
            &["beamgen: m", "model.layers.1.input_layernorm.weight"],
        ),
        (
            "no bias",
            |p| {
                retensor(p, |t| {
                    drop(t.remove("model.layers.0.self_attn.k_proj.bias"));
                });
            },
            &["beamgen: m", "model.layers.0.self_attn.k_proj.bias"],
        ),
        (
            "no embedding",
            |p| retensor(p, |t| drop(t.remove("model.embed_tokens.weight"))),
            &["beamgen: m", "embed_tokens"],
        ),
        (
            "a layer more than the configuration has",
            |p| config(p, "num_hidden_layers", 1.into()),
            &["beamgen: m", "model.layers.1."],
        ),
        (
            "a layer less",
            |p| config(p, "num_hidden_layers", 3.into()),
            &["beamgen: m", "model.layers.2."],
        ),
        (
            "integers",
            |p| retensor(p, integers),
            &["beamgen: m", "model.layers.0.mlp.up_proj.weight", "I16"],
        ),
        (
            "an index without a file",
            |p| {
                std::fs::remove_file(p.path("m/model.safetensors")).expect("removed");
                p.write("m/model.safetensors.index.json", "{\"weight_map\": 7}");
            },
            &["model.safetensors.index.json", "expected a map"],
        ),
    ];
    for (name, damage, words) in cases {
        let place = place("prm/reference");
        damage(&place);
        refused_generator(&place, name, words);
        // Read by a format of its own: nobody would recognise it.
        place.write(
            "m/prm.toml",
            "normaliser = { softmax = 0 }\n[head]\ntokens = [\"+\", \"-\"]\n",
        );
        refused_prm(&place, name, words);
    }
}

fn a_missing_shard(place: &Place) {
    let mut names = Vec::new();
    retensor(place, |tensors| {
        names = tensors.keys().cloned().collect();
        tensors.remove(&names[0]);
    });
    let (from, to) = ("m/model.safetensors", "m/model-00001-of-00002.safetensors");
    std::fs::rename(place.path(from), place.path(to)).expect("renamed");
    let shard = |i| format!("model-0000{i}-of-00002.safetensors");
    let map: BTreeMap<&String, String> = names
        .iter()
        .enumerate()
        .map(|(i, name)| (name, shard(if i == 0 { 2 } else { 1 })))
        .collect();
    place.write(
        "m/model.safetensors.index.json",
        json!({"weight_map": map}).to_string(),
    );
}

fn shorten(tensors: &mut Tensors, name: &str) {
    let (_, shape, data) = tensors.get_mut(name).expect("it");
    shape[0] -= 1;
    data.truncate(2 * shape[0]);
}

fn integers(tensors: &mut Tensors) {
    let tensor = tensors
        .get_mut("model.layers.0.mlp.up_proj.weight")
        .expect("it");
    tensor.0 = Dtype::I16;
}

#[test]
fn configurations_that_are_not_supported() {
    type Damage = fn(&Place);
    let cases: [(&str, Damage, &[&str]); 8] = [
        (
            "another architecture",
            |p| config(p, "model_type", "gpt_neox".into()),
            &["config.json", "model_type", "gpt_neox", "llama"],
        ),
        (
            "no architecture",
            |p| config(p, "model_type", Value::Null),
            &["config.json", "model_type"],
        ),
        (
            "a rotation",
            |p| {
                config(
                    p,
                    "rope_scaling",
                    json!({"rope_type": "longrope", "factor": 4.0}),
                );
            },
            &["config.json", "rope_scaling", "longrope"],
        ),
        (
            "a rotation that is none",
            |p| {
                config(
                    p,
                    "rope_scaling",
                    json!({"rope_type": "linear", "factor": "much"}),
                );
            },
            &["config.json", "factor", "much"],
        ),
        (
            "an activation",
            |p| config(p, "hidden_act", "gelu".into()),
            &["config.json", "hidden_act", "gelu"],
        ),
        (
            "a size of nothing",
            |p| config(p, "num_attention_heads", 0.into()),
            &["config.json", "num_attention_heads", "0"],
        ),
        (
            "a size beyond all memory",
            |p| config(p, "max_position_embeddings", json!(u64::MAX)),
            &["beamgen: m", "max_position_embeddings"],
        ),
        (
            "a vocabulary of another tokenizer",
            |p| config(p, "vocab_size", 700.into()),
            &["tokenizer.json", "330 tokens", "700", "does not match"],
        ),
    ];
    for (name, damage, words) in cases {
        let place = place("prm/reference");
        damage(&place);
        refused_generator(&place, name, words);
        place.write(
            "m/prm.toml",
            "normaliser = { softmax = 0 }\n[head]\ntokens = [\"+\", \"-\"]\n",
        );
        refused_prm(&place, name, words);
    }
}

#[test]
fn tokenizers_and_templates() {
    fn tokenizer(place: &Place, edit: fn(&mut Value)) {
        place.edit("m/tokenizer.json", edit);
    }
    fn template(place: &Place, text: &str) {
        place.edit("m/tokenizer_config.json", |config| {
            config["chat_template"] = text.into();
        });
    }
    type Damage = fn(&Place);
    let cases: [(&str, Damage, &[&str]); 8] = [
        (
            "not JSON",
            |p| drop(p.write("m/tokenizer.json", "{")),
            &["tokenizer.json"],
        ),
        (
            "no tokenizer",
            |p| drop(p.write("m/tokenizer.json", "{}")),
            &["tokenizer.json"],
        ),
        (
            "an absurd id",
            |p| tokenizer(p, |t| t["model"]["vocab"]["!"] = 4_000_000_000_u32.into()),
            &["tokenizer.json", "4000000000"],
        ),
        (
            "a merge of what is no token",
            |p| tokenizer(p, |t| t["model"]["merges"][0] = json!(["!", "@@@@"])),
            &["tokenizer.json", "@@@@", "makes no token"],
        ),
        (
            "a merge longer than any token",
            |p| {
                tokenizer(p, |t| {
                    t["model"]["merges"][0] = json!(["a".repeat(300), "b"]);
                });
            },
            &["tokenizer.json", "merge 0", "makes no token"],
        ),
        (
            "a template that is no Jinja",
            |p| template(p, "{% if %}"),
            &["beamgen: m", "template"],
        ),
        (
            "a template that ends too early",
            |p| template(p, "{% for m in messages %}{{ m.content }}"),
            &["beamgen: m", "template"],
        ),
        (
            "no settings",
            |p| drop(p.write("m/tokenizer_config.json", "[")),
            &["tokenizer_config.json"],
        ),
    ];
    for (name, damage, words) in cases {
        let place = place("prm/qwen2.5-math-prm");
        damage(&place);
        refused_generator(&place, name, words);
        refused_prm(&place, name, words);
    }
    // Valid Jinja that refuses: of the generator it is the problem that cannot be written, of the
    // reward model the trial of its format.
    let place = place("prm/qwen2.5-math-prm");
    template(&place, "{{ raise_exception('alternate, please') }}");
    refused_generator(
        &place,
        "a template that raises",
        &["p.jsonl:1", "alternate, please"],
    );
    let said = solved_by(&place).stderr;
    assert!(!said.contains("shorten"), "{said}");
    refused_prm(
        &place,
        "a template that raises",
        &["does not fit m:", "alternate, please"],
    );
}

#[test]
fn generators_that_are_none() {
    let here = place("prm/trl-token-classification");
    refused_generator(
        &here,
        "no logits",
        &["beamgen: m", "lm_head", "reward model"],
    );
    let here = place("prm/reference");
    here.edit("m/tokenizer_config.json", |config| {
        config["eos_token"] = Value::Null;
    });
    refused_generator(
        &here,
        "no end of text",
        &["beamgen: m", "end-of-text", "eos_token"],
    );
    // The context is 512 tokens, as the problem's line says.
    let here = place("prm/reference");
    here.write(
        "p.jsonl",
        format!("{PROBLEM}{}", PROBLEM.replace("Mia", &"Mia ".repeat(400))),
    );
    refused_generator(&here, "a long problem", &["p.jsonl:2", "tokens", "512"]);
}

/// A pickle that would run a command in Python, in the archive that `torch.save` makes.
#[test]
fn a_pickle_that_calls_is_not_run() {
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive
        .start_file("archive/data.pkl", options)
        .expect("a file");
    let pickle = b"\x80\x02cos\nsystem\nX\x09\x00\x00\x00touch pwn\x85R.";
    archive.write_all(pickle).expect("written");
    let bytes = archive.finish().expect("an archive").into_inner();
    let place = place("prm/qwen2.5-math-prm");
    std::fs::remove_file(place.path("m/model.safetensors")).expect("removed");
    place.write("m/pytorch_model.bin", bytes);
    let words = ["pytorch_model.bin", "os.system", "refused"];
    refused_generator(&place, "pickle", &words);
    refused_prm(&place, "pickle", &words);
    assert!(!place.path("pwn").exists());
    place.write("m/pytorch_model.bin", "PK\x03\x04 and no more");
    refused_prm(&place, "no archive", &["pytorch_model.bin"]);
}

#[test]
fn gguf_files_that_lie() {
    let whole = std::fs::read(root().join("tests/fixtures/formats/llama.gguf")).expect("the file");
    let with = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let huge = u64::MAX.to_le_bytes();
    let cases: [(&str, Vec<u8>, &[&str]); 8] = [
        ("nothing", Vec::new(), &["GGUF"]),
        ("text", b"{\"problem\": 1}\n".to_vec(), &["GGUF"]),
        ("a header cut", whole[..20].to_vec(), &["header"]),
        ("metadata cut", whole[..700].to_vec(), &["header"]),
        (
            "tensors cut",
            whole[..whole.len() - 100].to_vec(),
            &["tensor"],
        ),
        ("a version", with(4, &[9]), &["version 9"]),
        ("tensors", with(8, &huge), &["18446744073709551615 tensors"]),
        ("metadata", with(16, &huge), &["18446744073709551615"]),
    ];
    for (name, bytes, words) in cases {
        let place = Place::new();
        place.write("p.jsonl", PROBLEM);
        place.write("m.gguf", bytes);
        let words = [&["m.gguf"], words].concat();
        let args = [
            "solve",
            "p.jsonl",
            "--scorer",
            "none",
            "--strategy",
            "greedy",
        ];
        let args = [&args[..], &["--generator", "m.gguf"]].concat();
        place.run(&args).assert_refused(name, &words);
        let args = ["score", "p.jsonl", "--prm", "m.gguf"];
        place.write("p.jsonl", CHAIN);
        place.run(&args).assert_refused(name, &words);
    }
    // A file that is no model at all.
    let place = place("prm/reference");
    let args = [
        "solve",
        "p.jsonl",
        "--scorer",
        "none",
        "--strategy",
        "greedy",
    ];
    let args = [&args[..], &["--generator", "p.jsonl"]].concat();
    place
        .run(&args)
        .assert_refused("no model", &["p.jsonl", "GGUF"]);
}

#[test]
fn names_and_numbers() {
    let here = place("prm/reference");
    let refused = |args: &[&str], words: &[&str]| {
        let args = [&["solve", "p.jsonl"], args].concat();
        here.run(&args).assert_refused(&args.join(" "), words);
    };
    refused(&["--dtype", "int4"], &["int4", "--dtype", "bf16"]);
    refused(&["--kv-dtype", "int4"], &["int4", "--kv-dtype", "bf16"]);
    refused(&["--set", "models.dtype=int4"], &["models.dtype", "int4"]);
    refused(&["--compute", "f16"], &["f16", "--compute", "bf16"]);
    refused(
        &["--compute", "bf16", "--dtype", "f32"],
        &["`compute`", "dtype f32", "use dtype bf16 or auto"],
    );
    refused(
        &["--compute", "bf16", "--dtype", "int8"],
        &["`compute`", "dtype int8", "leave compute out"],
    );
    for (name, words) in [
        ("nothing", &["nothing", "no such folder", "ORG/NAME"][..]),
        ("./org/none", &["./org/none", "no such folder"]),
        ("a/b/c", &["a/b/c", "no such folder", "ORG/NAME"]),
        ("org/na me", &["org/na me", "no such folder"]),
        (
            "org/none",
            &["org/none", "offline", "HF_HUB_OFFLINE", "not in the cache"],
        ),
        ("org/none:x.gguf", &["org/none", "x.gguf", "offline"]),
    ] {
        refused(&["--prm", name], words);
        refused(&["--generator", name, "--prm", "m"], words);
    }
    // A folder that is no checkpoint.
    std::fs::create_dir(here.path("empty")).expect("a folder");
    refused(&["--prm", "empty"], &["empty", "config.json"]);
    assert!(
        !Path::new(&here.path("hf")).exists(),
        "nobody wrote to the cache"
    );
}
