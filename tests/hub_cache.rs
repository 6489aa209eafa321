//! Models in the hub's cache, through the real binary.

use std::path::PathBuf;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Value, json};

use crate::real_checkpoints::{BABBLE, SHEPHERD, SHORT, assert_scored, fixture, problems};
use crate::run::Place;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A repository in the hub's cache as Python's `huggingface_hub` lays it out.
fn cache(place: &Place, repo: &str, from: &str) -> PathBuf {
    let folder = format!("hf/hub/models--{}", repo.replace('/', "--"));
    let snapshot = place.path(&format!("{folder}/snapshots/{COMMIT}"));
    std::fs::create_dir_all(&snapshot).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a checkpoint") {
        let path = entry.expect("an entry").path();
        let file = path.file_name().and_then(|f| f.to_str()).expect("a name");
        let bytes = std::fs::read(&path).expect("a file");
        #[cfg(unix)]
        {
            place.write(&format!("{folder}/blobs/etag-of-{file}"), bytes);
            let blob = format!("../../blobs/etag-of-{file}");
            std::os::unix::fs::symlink(blob, snapshot.join(file)).expect("a link");
        }
        #[cfg(not(unix))]
        place.write(&format!("{folder}/snapshots/{COMMIT}/{file}"), bytes);
    }
    place.write(&format!("{folder}/refs/main"), COMMIT);
    snapshot
}

#[test]
fn models_of_the_hubs_cache() {
    let place = Place::new();
    let (generator, judge) = ("org/tiny", "org/math-shepherd-mistral-7b-prm");
    let snapshot = cache(&place, generator, &fixture("prm/reference"));
    cache(&place, judge, &fixture(&format!("prm/{SHEPHERD}")));
    cache(&place, "org/part", &fixture("prm/reference"));
    let part = place.path(&format!("hf/hub/models--org--part/snapshots/{COMMIT}"));
    std::fs::remove_file(part.join("tokenizer.json")).expect("removed");

    let rows = place.run(&["models", "--json"]).ok().json();
    let row = |repo: &str| {
        let row = rows.iter().find(|row| row["repo"] == repo);
        row.unwrap_or_else(|| panic!("{repo} in {rows:?}"))
    };
    assert_eq!(row(generator)["use"], "generator, qwen2");
    assert_eq!(row(generator)["complete"], true);
    assert_eq!(row(generator)["commit"], COMMIT);
    assert_eq!(row(generator)["refs"], json!(["main"]));
    assert_eq!(row(generator)["path"], json!(snapshot));
    assert!(row(generator)["bytes"].as_u64() > Some(10_000));
    assert_eq!(row(judge)["use"], "prm, math-shepherd");
    assert_eq!(row("org/part")["use"], "incomplete");
    assert!(
        rows.iter()
            .any(|row| row["known"]["name"] == "Qwen/Qwen2.5-Math-PRM-7B")
    );

    let table = place.run(&["models"]).ok().stdout;
    for (model, note) in [
        ("meta-llama/Llama-3.2-1B-Instruct", "licence to accept"),
        ("Qwen/Qwen3-0.6B", "thinks first: long chains"),
        ("Qwen/Qwen2.5-0.5B-Instruct ", ""),
    ] {
        let row = table.lines().find(|line| line.contains(model));
        let row = row.expect("a known model").trim_end();
        assert_eq!(
            row.ends_with(note) && !row.ends_with('B'),
            !note.is_empty(),
            "{row}"
        );
        let known = rows.iter().find(|row| row["known"]["name"] == model.trim());
        let known = &known.expect("a known model")["known"];
        assert_eq!(known["gated"], model.starts_with("meta-llama"));
        assert_eq!(known["thinks"], model.contains("Qwen3"));
    }
    for (model, used) in [
        (generator, "generator, qwen2"),
        (judge, "prm, math-shepherd"),
    ] {
        let row = table.lines().find(|line| line.contains(model));
        assert!(
            row.is_some_and(|row| row.contains(used) && row.contains("main")),
            "{table}"
        );
    }

    place.write("p.jsonl", SHORT);
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
        "--prm",
        judge,
    ];
    let search = [&search[..], &BABBLE].concat();
    let by_variable = place.run(&search).ok();
    let online = [("HF_HUB_OFFLINE", "0")];
    let flag = [&search[..], &["--offline"]].concat();
    let by_flag = place.run_with(&online, &flag).ok();
    // A branch may have moved; a commit may not, so nobody is asked.
    let (at, judge_at) = (format!("{generator}@{COMMIT}"), format!("{judge}@{COMMIT}"));
    let mut pinned = search.clone();
    for (name, at) in [(generator, &at), (judge, &judge_at)] {
        let place = search.iter().position(|arg| *arg == name).expect("named");
        pinned[place] = at;
    }
    let nobody = [
        ("HF_HUB_OFFLINE", "0"),
        ("HF_ENDPOINT", "http://127.0.0.1:9"),
    ];
    let pinned = place.run_with(&nobody, &pinned).ok();
    let rows = problems(&by_variable.json());
    assert_scored(&rows, "from the cache");
    assert_eq!(rows, problems(&by_flag.json()));
    assert_eq!(rows, problems(&pinned.json()));

    let pair = [
        "models",
        "--json",
        "--generator",
        generator,
        "--prm",
        judge,
        "--offline",
    ];
    let plan = place.run(&pair).ok().json();
    assert_eq!(plan.len(), 2);
    for (row, (role, name)) in plan
        .iter()
        .zip([("generator", "tiny"), ("prm", "math-shepherd")])
    {
        assert_eq!(row["role"], role);
        assert!(
            row["name"].as_str().is_some_and(|path| path.contains(name)),
            "{row}"
        );
        for field in ["weights", "buffers", "kv", "kv_per_token"] {
            assert!(row[field].as_u64() > Some(0), "{field}: {row}");
        }
        assert_eq!(row["context"], 512);
    }
    // 2 layers of 2 heads of 8 keys and as many values, in float32
    assert_eq!(plan[0]["kv_per_token"], 2 * 2 * 2 * 8 * 4);
    let table = place
        .run(&["models", "--generator", generator, "--prm", judge])
        .ok()
        .stdout;
    assert!(
        table.contains("KV per token") && table.contains("256 B"),
        "{table}"
    );
}

/// Writes an adapter of rank 1 for one matrix of `org/tiny`. All values of its thin matrices are
/// `value`.
fn adapter(place: &Place, name: &str, value: f32) {
    let module = "model.layers.1.mlp.down_proj";
    let base = std::fs::read(format!("{}/model.safetensors", fixture("prm/reference")));
    let base = base.expect("weights");
    let base = SafeTensors::deserialize(&base).expect("safetensors");
    let matrix = base.tensor(&format!("{module}.weight"));
    let shape = matrix.expect("a matrix").shape().to_vec();
    let thin = [("A", vec![1, shape[1]]), ("B", vec![shape[0], 1])];
    let bytes = thin
        .each_ref()
        .map(|(_, shape)| value.to_le_bytes().repeat(shape.iter().product()));
    let views = thin.iter().zip(&bytes).map(|((which, shape), bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a tensor");
        (
            format!("base_model.model.{module}.lora_{which}.weight"),
            view,
        )
    });
    let bytes = safetensors::serialize(views, None).expect("safetensors");
    place.write(&format!("{name}/adapter_model.safetensors"), bytes);
    let config = json!({
        "peft_type": "LORA", "base_model_name_or_path": "org/tiny", "revision": null,
        "r": 1, "lora_alpha": 1, "bias": "none", "target_modules": ["down_proj"],
    });
    place.write(&format!("{name}/adapter_config.json"), config.to_string());
}

#[test]
fn an_adapter_takes_its_base_from_the_hubs_cache() {
    let place = Place::new();
    cache(&place, "org/tiny", &fixture("prm/reference"));
    for (name, value) in [("nothing", 0.0), ("much", 1.0)] {
        adapter(&place, name, value);
    }
    let folder = place.path("much").display().to_string();
    cache(&place, "org/much", &folder);

    let rows = place.run(&["models", "--json"]).ok().json();
    let row = rows.iter().find(|row| row["repo"] == "org/much");
    let row = row.expect("the adapter");
    assert_eq!(
        (&row["use"], &row["complete"]),
        (&json!("adapter of org/tiny"), &json!(true))
    );

    place.write("p.jsonl", SHORT);
    let solved = |generator: &str| {
        let args = [
            "solve",
            "p.jsonl",
            "--json",
            "--strategy",
            "majority",
            "--generator",
            generator,
        ];
        let out = format!("{}.run", generator.replace('/', "-"));
        let args = [&args[..], &BABBLE, &["--out", &out]].concat();
        let rows = problems(&place.run(&args).ok().json());
        let run = place.read(&out);
        let header = run.lines().next().expect("a header").to_owned();
        (rows, header)
    };
    let (base, base_header) = solved("org/tiny");
    let (nothing, nothing_header) = solved("nothing");
    // The same chains by another model.
    assert_eq!(base, nothing);
    assert_ne!(base_header, nothing_header);
    let (much, _) = solved("org/much");
    assert_ne!(base, much);
    assert_eq!(solved("much").0, much);

    let refusals: [(&str, Value, &[&str]); 2] = [
        (
            "use_dora",
            json!(true),
            &["much/adapter_config.json", "use_dora", "merge_and_unload"],
        ),
        (
            "base_model_name_or_path",
            json!("org/other"),
            &["org/other", "hf download"],
        ),
    ];
    for (field, value, words) in refusals {
        place.edit("much/adapter_config.json", |config| {
            config[field] = value.clone();
        });
        let args = [
            "solve",
            "p.jsonl",
            "--strategy",
            "majority",
            "--generator",
            "much",
        ];
        place.run(&args).assert_refused(field, words);
    }
}

#[test]
fn a_model_takes_the_tokenizer_of_another() {
    let place = Place::new();
    let judge = fixture(&format!("prm/{SHEPHERD}"));
    for (name, from) in [("org/tiny", &fixture("prm/reference")), ("org/prm", &judge)] {
        cache(&place, name, from);
        let without = format!("{name}-without");
        let snapshot = cache(&place, &without, from);
        for entry in std::fs::read_dir(&snapshot).expect("a snapshot") {
            let path = entry.expect("an entry").path();
            let file = path.file_name().and_then(|file| file.to_str());
            if file.is_some_and(|file| file.contains("token") || file.contains("chat_template")) {
                std::fs::remove_file(path).expect("removed");
            }
        }
    }
    place.write("p.jsonl", SHORT);
    let search = ["solve", "p.jsonl", "--json", "-n", "4", "-m", "2"];
    let format = ["--prm-format", "math-shepherd"];
    let solve = |more: &[&str]| place.run(&[&search[..], &format, &BABBLE, more].concat());
    let both = |generator, prm| ["--generator", generator, "--prm", prm];
    let own = solve(&[&both("org/tiny", "org/prm")[..], &["--out", "own.run"]].concat());
    let others = [
        &both("org/tiny-without", "org/prm-without")[..],
        &[
            "--tokenizer",
            "org/tiny",
            "--prm-tokenizer",
            "org/prm",
            "--out",
            "others.run",
        ],
    ];
    let others = solve(&others.concat());
    assert_eq!(problems(&own.ok().json()), problems(&others.ok().json()));
    // Another tokenizer is another model.
    let header = |run: &str| place.read(run).lines().next().map(str::to_owned);
    assert_ne!(header("own.run"), header("others.run"));

    for (more, words) in [
        (
            &both("org/tiny-without", "org/prm")[..],
            &["org/tiny-without", "tokenizer.json"][..],
        ),
        (
            &["--tokenizer", "org/tiny"],
            &["org", "bundled model has its own tokenizer"],
        ),
        (
            &[
                "--generator",
                "org/tiny",
                "--tokenizer",
                "nowhere",
                "--prm",
                "org/prm",
            ],
            &["nowhere", "no such folder"],
        ),
    ] {
        solve(more).assert_refused("another tokenizer", words);
    }
}
