//! Generators and classifiers of families that only candle-transformers knows, through the real
//! binary.

use crate::run::{Place, root};

const PROBLEMS: &str = r#"{"id": "a", "problem": "Mia has 34 pens. How many pens does Mia have?", "answer": 34}
{"id": "b", "problem": "3 + 4", "answer": 7}
{"id": "c", "problem": "12 * 3 = ?", "answer": 36}
"#;

/// A tiny checkpoint of a family, with a tokenizer.
fn model(place: &Place, family: &str) {
    let fixtures = root().join("crates/candle-backend/tests/fixtures");
    place.copy(&fixtures.join(family), family);
    for file in [
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
    ] {
        let text = std::fs::read_to_string(root().join("tests/fixtures/tokenizer").join(file));
        place.write(&format!("{family}/{file}"), text.expect("a fixture"));
    }
}

/// A tiny sequence classifier.
fn classifier(place: &Place, name: &str) {
    let fixtures = root().join("crates/candle-backend/tests/classifiers");
    place.copy(&fixtures.join(name), name);
}

#[cfg(not(feature = "candle"))]
#[test]
fn a_classifier_as_a_reward_model_is_refused_with_the_feature_that_knows_it() {
    let place = Place::new();
    place.write("p.jsonl", PROBLEMS);
    for name in ["deberta-v2", "modernbert", "xlm-roberta"] {
        classifier(&place, name);
        let ran = place.run(&["solve", "p.jsonl", "--prm", name]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("--features candle"), "{}", ran.stderr);
    }
}

/// Every family that candle-transformers knows, by its fixture, and the engine does not.
#[cfg(not(feature = "candle"))]
#[test]
fn a_family_of_candle_is_refused_with_the_feature_that_knows_it() {
    let of_the_engine = ["llama", "mistral", "qwen2", "qwen3", "phi3"];
    let place = Place::new();
    place.write("p.jsonl", PROBLEMS);
    let fixtures = root().join("crates/candle-backend/tests/fixtures");
    for entry in std::fs::read_dir(fixtures).expect("fixtures") {
        let name = entry.expect("a folder").file_name();
        let family = name.to_str().expect("a path in UTF-8");
        if of_the_engine.contains(&family) {
            continue;
        }
        model(&place, family);
        let args = [
            "solve",
            "p.jsonl",
            "--generator",
            family,
            "--scorer",
            "none",
        ];
        let ran = place.run(&[&args[..], &["--strategy", "majority"]].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("--features candle"), "{}", ran.stderr);
    }
}

#[cfg(feature = "candle")]
mod with_candle {
    use safetensors::SafeTensors;
    use safetensors::tensor::TensorView;
    use serde_json::{Value, json};

    use super::{PROBLEMS, classifier, model};
    use crate::real_checkpoints::{BABBLE, SHEPHERD, prm};
    use crate::run::Place;

    fn trees(place: &Place, name: &str, args: &[&str]) -> Vec<(String, Value)> {
        let mut all = vec!["solve", "p.jsonl", "--out", name, "--tree", "-n", "4"];
        all.extend(["--set", "generator.max_step_tokens=12"]);
        all.extend(BABBLE);
        all.extend(args);
        let ran = place.run(&all);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("much slower"), "{}", ran.stderr);
        let text = place.read(name);
        let records = text.lines().skip(1).map(|line| {
            let record: Value = serde_json::from_str(line).expect("JSON");
            (record["id"].to_string(), record["tree"].clone())
        });
        let mut trees: Vec<_> = records.collect();
        // They are written as they are done.
        trees.sort_by(|a, b| a.0.cmp(&b.0));
        trees
    }

    #[test]
    fn families_are_searched_with_a_local_reward_model_the_same_whatever_is_in_flight() {
        let place = Place::new();
        place.write("p.jsonl", PROBLEMS);
        let prm = prm(&place, SHEPHERD);
        for (family, strategy) in [
            ("gemma2", "beam"),
            ("mixtral", "dvts"),
            ("qwen3_moe", "best-of-n"),
            ("phi", "mcts"),
            ("glm4", "beam"),
            ("deepseek_v2", "rebase"),
            ("starcoder2", "majority"),
        ] {
            model(&place, family);
            let args = ["--generator", family, "--prm", &prm, "--strategy", strategy];
            let run = |in_flight: &str| {
                let name = format!("{family}-{in_flight}.jsonl");
                trees(
                    &place,
                    &name,
                    &[&args[..], &["--in-flight", in_flight]].concat(),
                )
            };
            let (one, all) = (run("1"), run("3"));
            assert_eq!(one.len(), 3, "{family}");
            assert!(
                one.iter()
                    .all(|(_, tree)| tree.as_array().is_some_and(|nodes| nodes.len() > 4)),
                "{family}"
            );
            assert_eq!(one, all, "{family}");
        }
    }

    #[test]
    fn a_classifier_is_a_reward_model_of_the_engines_and_of_candles_generators() {
        let place = Place::new();
        place.write("p.jsonl", PROBLEMS);
        model(&place, "qwen2");
        model(&place, "gemma2");
        for (generator, prm, strategy) in [
            ("qwen2", "deberta-v2-logit", "beam"),
            ("gemma2", "modernbert", "dvts"),
            ("qwen2", "xlm-roberta", "mcts"),
        ] {
            classifier(&place, prm);
            let args = [
                "--generator",
                generator,
                "--prm",
                prm,
                "--strategy",
                strategy,
            ];
            let run = |in_flight: &str| {
                let name = format!("{prm}-{in_flight}.jsonl");
                trees(
                    &place,
                    &name,
                    &[&args[..], &["--in-flight", in_flight]].concat(),
                )
            };
            let (one, all) = (run("1"), run("3"));
            let scored = |tree: &Value| {
                tree.as_array()
                    .into_iter()
                    .flatten()
                    .any(|node| node["score"].is_number())
            };
            assert!(one.iter().all(|(_, tree)| scored(tree)), "{prm}: {one:?}");
            assert_eq!(one, all, "{prm}");
            // What is read of chains is counted.
            let text = place.read(&format!("{prm}-1.jsonl"));
            let record: Value =
                serde_json::from_str(text.lines().nth(1).expect("a record")).expect("JSON");
            assert!(
                record["ledger"]["scored_tokens"].as_u64() > Some(20),
                "{record}"
            );
        }
    }

    #[test]
    fn a_model_of_entailment_judges_problems_with_a_context() {
        let place = Place::new();
        let with = r#"{"id": "a", "problem": "How many?", "context": ["Mia has 34 pens."]}"#;
        let without = r#"{"id": "b", "problem": "How many?"}"#;
        place.write("p.jsonl", [with, without].join("\n"));
        model(&place, "qwen2");
        classifier(&place, "modernbert");
        classifier(&place, "deberta-v2");
        place.edit("deberta-v2/config.json", |config| {
            config["id2label"] = json!({"0": "entailment", "1": "not_entailment"});
        });
        let args = ["--generator", "qwen2", "--prm", "modernbert"];
        let args = [&args[..], &["--judge", "deberta-v2"]].concat();
        let trees = trees(&place, "r.jsonl", &args);
        let said = |tree: &Value| -> Vec<Value> {
            let nodes = tree.as_array().into_iter().flatten();
            let said = nodes.filter_map(|node| node["judges"].get("deberta-v2"));
            said.cloned().collect()
        };
        let (with, without) = (said(&trees[0].1), said(&trees[1].1));
        assert!(!with.is_empty() && with.iter().all(Value::is_number));
        assert!(!without.is_empty() && without.iter().all(Value::is_null));
        let text = place.read("r.jsonl");
        assert_eq!(text.matches(r#""context":["Mia has 34 pens."]"#).count(), 1);

        place.edit("deberta-v2/config.json", |config| {
            config["id2label"] = json!({"0": "no", "1": "maybe", "2": "yes"});
        });
        let ran = place.run(&[&["solve", "p.jsonl"], &args[..]].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        let wanted = "one of which is called \"entailment\"";
        assert!(ran.stderr.contains(wanted), "{}", ran.stderr);
    }

    #[test]
    fn a_classifier_takes_no_format() {
        let place = Place::new();
        place.write("p.jsonl", PROBLEMS);
        classifier(&place, "xlm-roberta");
        let args = ["solve", "p.jsonl", "--prm", "xlm-roberta"];
        let ran = place.run(&[&args[..], &["--prm-format", "math-shepherd"]].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("has no format"), "{}", ran.stderr);
    }

    #[test]
    fn a_reward_model_that_is_not_there_is_found_before_weights_are_read() {
        let place = Place::new();
        place.write("p.jsonl", PROBLEMS);
        model(&place, "olmo");
        place.edit("olmo/config.json", |config| {
            config["hidden_size"] = 64.into();
        });
        let ran = place.run(&["solve", "p.jsonl", "--generator", "olmo", "--prm", "./none"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("none: no such folder"),
            "{}",
            ran.stderr
        );
    }

    /// Gemma's head is its embeddings; a file with another one is another model.
    #[test]
    fn a_head_that_candle_would_not_read_is_refused() {
        let place = Place::new();
        place.write("p.jsonl", PROBLEMS);
        model(&place, "gemma2");
        let file = place.path("gemma2/model.safetensors");
        let bytes = std::fs::read(&file).expect("a fixture");
        let tensors = SafeTensors::deserialize(&bytes).expect("a fixture");
        let embeddings = tensors
            .tensor("model.embed_tokens.weight")
            .expect("it has one");
        let solve = || {
            let args = [
                "solve",
                "p.jsonl",
                "--generator",
                "gemma2",
                "--scorer",
                "none",
            ];
            place.run(
                &[
                    &args[..],
                    &["--strategy", "majority", "-n", "2"],
                    &BABBLE[..],
                ]
                .concat(),
            )
        };
        for (head, code) in [
            (embeddings.data().to_vec(), 0),
            (vec![0; embeddings.data().len()], 2),
        ] {
            let head = TensorView::new(embeddings.dtype(), embeddings.shape().to_vec(), &head);
            let mut all = tensors.tensors();
            all.push(("lm_head.weight".into(), head.expect("a tensor")));
            std::fs::write(&file, safetensors::serialize(all, None).expect("a file"))
                .expect("it is ours");
            let ran = solve();
            assert_eq!(ran.code, Some(code), "{}", ran.stderr);
            assert_eq!(
                ran.stderr.contains("no tensor lm_head.weight"),
                code == 2,
                "{}",
                ran.stderr
            );
        }
    }

    #[test]
    fn what_candle_would_leave_out_is_refused() {
        let refused = |family: &str, edit: &dyn Fn(&mut Value), word: &str| {
            let place = Place::new();
            place.write("p.jsonl", PROBLEMS);
            model(&place, family);
            place.edit(&format!("{family}/config.json"), |config| edit(config));
            let ran = place.run(&[
                "solve",
                "p.jsonl",
                "--generator",
                family,
                "--scorer",
                "none",
                "--strategy",
                "majority",
            ]);
            assert_eq!(ran.code, Some(2), "{}", ran.stderr);
            assert_eq!(ran.stderr.trim_end().lines().count(), 1, "{}", ran.stderr);
            assert!(ran.stderr.contains(word), "{}", ran.stderr);
        };
        let yarn = |config: &mut Value| config["rope_parameters"]["rope_type"] = "yarn".into();
        refused("gemma2", &yarn, "yarn");
        refused(
            "phi",
            &|config| config["num_hidden_layers"] = 1.into(),
            "has no tensor model.layers.1",
        );
        refused(
            "phi",
            &|config| config["num_hidden_layers"] = 3.into(),
            "model.layers.2",
        );
        refused(
            "mixtral",
            &|config| config["num_attention_heads"] = 0.into(),
            "num_attention_heads",
        );
        refused("olmo", &|config| config["hidden_size"] = 64.into(), "shape");
        refused(
            "helium",
            &|config| config["vocab_size"] = 100.into(),
            "vocab_size",
        );
        refused(
            "olmo2",
            &|config| config["rms_norm_eps"] = Value::Null,
            "rms_norm_eps",
        );
    }
}
