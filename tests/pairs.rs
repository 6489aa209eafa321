//! `--pair`: published models by name, from a hub on this machine that has tiny checkpoints under
//! their names.

use beamgen::Pair;
use beamgen::program::{KNOWN_MODELS, ModelKind};
use serde_json::{Value, json};

use crate::real_checkpoints::{BABBLE, SHORT, as_torch, assert_scored, fixture, problems};
use crate::run::Place;
use crate::server::Server;

const WEIGHTS: &str = "model.safetensors";

/// The tiny checkpoint that stands in for a published model.
fn stand_in(name: &str) -> String {
    let known = KNOWN_MODELS.iter().find(|model| model.name == name);
    let known = known.unwrap_or_else(|| panic!("{name} is not among KNOWN_MODELS"));
    fixture(match (known.kind, known.read_as) {
        (ModelKind::Generator, "qwen2") if name.ends_with(".gguf") => "formats/qwen2.gguf",
        (ModelKind::Generator, "qwen2") => "prm/reference",
        (ModelKind::Generator, "llama") => "prm/Llama3.1-8B-PRM-Deepseek-Data",
        (ModelKind::Prm, "rlhflow-llama3.1") => "prm/Llama3.1-8B-PRM-Deepseek-Data",
        (ModelKind::Prm, "math-shepherd") => "prm/math-shepherd-mistral-7b-prm",
        (ModelKind::Prm, "skywork-o1-open-prm") => "prm/skywork-o1-open-prm",
        (ModelKind::Prm, "qwen2.5-math-prm") => "prm/qwen2.5-math-prm",
        (_, family) => panic!("{name}: a tiny checkpoint of {family}"),
    })
}

/// Puts the stand-in under the published name, in the format that is published.
fn publish(server: &Server, name: &str) {
    let from = stand_in(name);
    if let Some((repo, file)) = name.split_once(':') {
        let bytes = std::fs::read(from).expect("a fixture");
        server.store(repo, file, &bytes, true);
        server.store(repo, "README.md", b"a file that nobody needs", false);
        return;
    }
    for file in [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        WEIGHTS,
    ] {
        let bytes = std::fs::read(format!("{from}/{file}")).expect("a fixture");
        match file {
            // With room for a prompt.
            "config.json" => {
                let mut config: Value = serde_json::from_slice(&bytes).expect("JSON");
                config["max_position_embeddings"] = 8192.into();
                server.store(name, file, config.to_string().as_bytes(), false);
            }
            WEIGHTS if name.starts_with("Skywork/") || name.starts_with("peiyi9979/") => {
                server.store(name, "pytorch_model.bin", &as_torch(&bytes), true);
            }
            WEIGHTS => server.store(name, file, &bytes, true),
            _ => server.store(name, file, &bytes, false),
        }
    }
}

fn published(pair: &Pair) -> Server {
    let server = Server::start();
    for model in [&pair.generator, &pair.prm] {
        publish(&server, model.to_str().expect("a name in UTF-8"));
    }
    server
}

#[test]
fn every_pair_goes_from_nothing_to_scored_steps_with_one_command() {
    for pair in Pair::all() {
        let server = published(&pair);
        let place = Place::new();
        place.write("p.jsonl", SHORT);
        let online = [
            ("HF_ENDPOINT", server.endpoint.as_str()),
            ("HF_HUB_OFFLINE", "0"),
        ];
        let search = [
            "solve", "p.jsonl", "--json", "-n", "4", "-m", "2", "--pair", &pair.name,
        ];
        let args = [&search[..], &BABBLE].concat();
        let ran = place.run_with(&online, &args).ok();
        let rows = problems(&ran.json());
        assert_eq!(rows.len(), 1);
        assert_scored(&rows, &pair.name);
        for model in [&pair.generator, &pair.prm] {
            let repo = model.to_str().and_then(|name| name.split(':').next());
            let repo = repo.expect("a name").replace('/', "--");
            assert!(
                place
                    .path(&format!("hf/hub/models--{repo}/refs/main"))
                    .is_file()
            );
        }
        // Now they are here: the hub is not needed, and the plan is theirs.
        assert_eq!(problems(&place.run(&args).ok().json()), rows);
        let plan = place
            .run(&["models", "--json", "--pair", &pair.name])
            .ok()
            .json();
        let roles: Vec<_> = plan.iter().filter_map(|row| row["role"].as_str()).collect();
        assert_eq!(roles, ["generator", "prm"], "{plan:?}");
    }
}

/// Runs a search and returns the settings in its run file.
fn settings(place: &Place, args: &[&str]) -> Value {
    let _ = std::fs::remove_file(place.path("run.jsonl"));
    let args = [&["solve", "p.jsonl", "--out", "run.jsonl", "-q"], args].concat();
    place.run(&args).ok();
    let text = place.read("run.jsonl");
    let header: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    header["settings"].clone()
}

#[test]
fn a_pair_gives_way_to_the_configuration_and_that_to_flags() {
    let place = Place::new();
    place.write("p.jsonl", SHORT);
    let (generator, prm) = (fixture("prm/reference"), fixture("prm/step-token"));
    place.write(
        "pairs/mine.toml",
        format!(
            "[pair]\nname = \"mine\"\nsummary = \"tiny\"\n[models]\ngenerator = {generator:?}\nprm = {prm:?}\n\
             [search]\nn = 8\nm = 4\nmax_steps = 3\n[generator]\nboundaries = [\"a\", \"e\", \" \", \"1\"]\n\
             max_chain_tokens = 24\n[generator.sampling]\ntemperature = 0.5\n"
        ),
    );
    place.write(
        "c.toml",
        "[search]\nm = 2\nmax_steps = 4\n[generator.sampling]\ntemperature = 0.75\n",
    );
    let pair = ["--pair", "./pairs/mine.toml"];
    let alone = settings(&place, &pair);
    let search = |settings: &Value| {
        let search = &settings["search"];
        json!([search["n"], search["m"], search["max_steps"]])
    };
    assert_eq!(search(&alone), json!([8, 4, 3]));
    assert_eq!(alone["generator"]["sampling"]["temperature"], 0.5);
    assert_eq!(
        alone["generator"]["boundaries"],
        json!(["a", "e", " ", "1"])
    );
    let config = settings(&place, &[&pair[..], &["--config", "c.toml"]].concat());
    assert_eq!(search(&config), json!([8, 2, 4]));
    assert_eq!(config["generator"]["sampling"]["temperature"], 0.75);
    let flags = [
        "--config",
        "c.toml",
        "--max-steps",
        "5",
        "--temperature",
        "1",
    ];
    let flags = settings(&place, &[&pair[..], &flags].concat());
    assert_eq!(search(&flags), json!([8, 2, 5]));
    assert_eq!(flags["generator"]["sampling"]["temperature"], 1.0);
    assert_eq!(flags["models"]["prm"], alone["models"]["prm"]);
    // One half is another's: the settings stay, the other half too.
    let other = fixture("prm/qwen2.5-math-prm");
    let half = settings(&place, &[&pair[..], &["--prm", &other]].concat());
    assert_eq!(search(&half), search(&alone));
    assert_ne!(half["models"]["prm"], alone["models"]["prm"]);
    assert_eq!(half["models"]["generator"], alone["models"]["generator"]);
}

#[test]
fn a_bench_takes_a_pair_under_its_file() {
    let place = Place::new();
    place.write("p.jsonl", SHORT);
    let (generator, prm) = (fixture("prm/reference"), fixture("prm/step-token"));
    place.write(
        "mine.toml",
        format!(
            "[pair]\nname = \"mine\"\nsummary = \"tiny\"\n[models]\ngenerator = {generator:?}\nprm = {prm:?}\n\
             [generator]\nboundaries = [\"a\", \"e\", \" \", \"1\"]\nmax_chain_tokens = 24\n"
        ),
    );
    place.write(
        "bench.toml",
        "[settings.search]\nm = 2\n[[set]]\nname = \"s\"\nfile = \"p.jsonl\"\n[[run]]\nname = \"beam\"\nn = [4]\n",
    );
    let args = [
        "bench",
        "--config",
        "bench.toml",
        "--out",
        "o",
        "--pair",
        "mine.toml",
    ];
    place.run(&args).ok();
    let results: Value = serde_json::from_str(&place.read("o/results.json")).expect("JSON");
    assert!(results.to_string().contains("prm/reference"), "{results}");
}

#[test]
fn a_reward_model_of_a_pair_scores_given_chains() {
    let place = Place::new();
    let (generator, prm) = (fixture("prm/reference"), fixture("prm/step-token"));
    place.write(
        "mine.toml",
        format!(
            "[pair]\nname = \"mine\"\nsummary = \"tiny\"\n[models]\ngenerator = {generator:?}\nprm = {prm:?}\n"
        ),
    );
    let chain = json!({"id": "a", "problem": "1 + 1", "steps": ["It is 2.\n"]});
    place.write("chains.jsonl", format!("{chain}\n"));
    let score = |model: &[&str]| {
        let args = [&["score", "chains.jsonl"], model].concat();
        place.run(&args).ok().json()
    };
    assert_eq!(score(&["--pair", "mine.toml"]), score(&["--prm", &prm]));
}

#[test]
fn pairs_are_listed_and_shown_without_a_download() {
    let place = Place::new();
    let table = place.run(&["models"]).ok().stdout;
    let rows = place.run(&["models", "--json"]).ok().json();
    for pair in Pair::all() {
        let line = table
            .lines()
            .find(|line| line.trim_start().starts_with(&format!("{} ", pair.name)));
        let line = line.unwrap_or_else(|| panic!("{} in {table}", pair.name));
        let fits = pair.fits.expect("it says").name();
        assert!(line.contains(fits), "{line}");
        let row = rows
            .iter()
            .find(|row| row["pair"]["name"] == pair.name.as_str());
        let row = &row.expect("a row")["pair"];
        assert_eq!(row["memory"]["bf16"], pair.memory.expect("it says").bf16);
        assert_eq!(row["prm"], json!(pair.prm));

        let shown = place.run(&["models", "--pair", &pair.name]).ok().stdout;
        let memory = pair.memory.expect("it says");
        for word in [
            pair.summary.clone(),
            beamgen::program::human_size(memory.bf16),
            beamgen::program::human_size(memory.int8),
            format!(
                "{} is not complete on this machine",
                beamgen::program::human_size(pair.download.expect("it says"))
            ),
        ] {
            assert!(shown.contains(&word), "{word} in {shown}");
        }
    }
}

#[test]
fn pairs_that_cannot_be_taken_are_one_line() {
    let place = Place::new();
    place.write("p.jsonl", SHORT);
    place.write("empty.toml", "[search]\nn = 3\n");
    for (pair, words) in [
        (
            "qwen2.5-math-1.5",
            &[
                "qwen2.5-math-1.5",
                "nearest",
                "qwen2.5-math-1.5b",
                "beamgen models",
            ][..],
        ),
        ("no.toml", &["no.toml"]),
        ("empty.toml", &["empty.toml:1", "[pair]"]),
        // Nobody to ask, and nothing in the cache.
        (
            "qwen2.5-math-1.5b",
            &["Qwen/Qwen2.5-Math-1.5B-Instruct", "offline"],
        ),
    ] {
        for command in [
            &["solve", "p.jsonl"][..],
            &["bench", "p.jsonl"],
            &["score", "p.jsonl"],
        ] {
            let ran = place.run(&[command, &["--pair", pair]].concat());
            if pair == "qwen2.5-math-1.5b" && command[0] != "solve" {
                continue;
            }
            ran.assert_refused(pair, words);
        }
        if pair != "qwen2.5-math-1.5b" {
            place
                .run(&["models", "--pair", pair])
                .assert_refused(pair, words);
        }
    }
}
