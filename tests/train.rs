//! `beamgen train`: what it refuses, with training built in and without.

use crate::run::Place;
#[cfg(feature = "train")]
use crate::run::Ran;

#[cfg(not(feature = "train"))]
#[test]
fn a_build_without_training_says_how_to_get_one() {
    for args in [
        &["train"][..],
        &[
            "adapt",
            "--generator",
            "bundled",
            "--prm",
            "x",
            "--problems",
            "x",
            "--out",
            "models",
        ],
        &["train", "abacus", "--quick", "--out", "models"],
    ] {
        let place = Place::new();
        let command = "cargo build --release --features train";
        place.run(args).assert_refused("train", &[command]);
        assert!(!place.path("models").exists());
    }
}

#[cfg(feature = "train")]
mod built_in {
    use serde_json::{Value, json};

    use super::*;
    use crate::verifiers::EVEN;

    const GENERATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/abacus/generator");

    #[test]
    fn a_wrong_configuration_is_refused_with_its_line() {
        let place = Place::new();
        place.write("train.toml", "seed = 1\nchians = 5\n");
        place
            .run(&["train", "abacus", "--config", "train.toml"])
            .assert_refused("train --config", &["train.toml:2:", "chians"]);
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_huge_files_are_refused_as_configuration() {
        let place = Place::new();
        for file in ["/dev/zero", "/dev/full"] {
            place
                .run_within_a_minute(&["train", "abacus", "--config", file])
                .assert_refused(file, &[file, "not a regular file"]);
        }
        let huge = std::fs::File::create(place.path("huge.toml")).expect("a file");
        // Sparse: it takes no room on the disk.
        huge.set_len(1 << 40).expect("a length");
        place
            .run_within_a_minute(&["train", "abacus", "--config", "huge.toml"])
            .assert_refused("a huge file", &["huge.toml", "larger than 1 MiB"]);
    }

    #[test]
    fn the_folder_of_an_earlier_run_is_not_taken_over() {
        let place = Place::new();
        place.write("models/work/config.json", "{}");
        place
            .run(&["train", "abacus", "--quick", "--out", "models"])
            .assert_refused("train", &["models/work", "--resume"]);
    }

    #[test]
    fn without_a_subcommand_they_are_named() {
        let place = Place::new();
        let named = [
            "beamgen train sft",
            "beamgen train rl",
            "beamgen train abacus",
        ];
        place.run(&["train"]).assert_refused("train", &named);
    }

    #[test]
    fn a_line_that_is_no_example_is_named() {
        let place = Place::new();
        for (line, what) in [
            (r#"{"problem": "1 + 1?"}"#, "`solution`"),
            (r#"{"problem": "1 + 1?", "solution": 2}"#, "`solution`"),
            (r#"{"problem": "1 + 1?", "solution"#, "EOF"),
            (
                r#"{"messages": [{"role": "user", "content": "a"}]}"#,
                "assistant",
            ),
        ] {
            let good = r#"{"problem": "1 + 1?", "solution": "1 + 1 = 2"}"#;
            place.write("data.jsonl", format!("{good}\n{line}\n"));
            place
                .run(&[
                    "train",
                    "sft",
                    "--from",
                    GENERATOR,
                    "--data",
                    "data.jsonl",
                    "--out",
                    "o",
                ])
                .assert_refused(line, &["data.jsonl:2:", what]);
        }
    }

    #[test]
    fn bare_results_are_no_solutions() {
        let place = Place::new();
        place.write(
            "data.jsonl",
            place.run(&["problems", "--count", "9"]).ok().stdout,
        );
        let args = [
            "train",
            "sft",
            "--from",
            "bundled",
            "--data",
            "data.jsonl",
            "--out",
            "o",
        ];
        let words = ["data.jsonl", "only bare results", "`solution`"];
        place.run(&args).assert_refused("answers alone", &words);
        assert!(!place.path("o").exists());
    }

    #[test]
    fn a_trained_generator_solves_and_a_stopped_run_goes_on() {
        let place = Place::new();
        let solutions = ["problems", "--count", "40", "--solutions"];
        place.write("data.jsonl", place.run(&solutions).ok().stdout);
        let run = |out: &str, from: &str, more: &[&str]| {
            let own = [
                "train",
                "sft",
                "--from",
                from,
                "--data",
                "data.jsonl",
                "--out",
                out,
            ];
            let rest = ["--train", "top=2", "--batch", "8", "--held-out", "0.2"];
            place.run(&[&own[..], &rest[..], more].concat())
        };
        run("whole", "bundled", &[]).ok();
        let run = |out: &str, more: &[&str]| run(out, GENERATOR, more);
        run("parts", &["--stop-after", "2"]).ok();
        assert!(!place.path("parts/model.safetensors").exists());
        run("parts", &[]).assert_refused("an earlier run", &["parts/work", "--resume"]);
        run("parts", &["--resume", "--seed", "3"]).assert_refused("another run", &["settings"]);
        run("parts", &["--resume"]).ok();
        let weights = |out: &str| {
            let file = place.path(out).join("model.safetensors");
            std::fs::read(file).expect("the weights")
        };
        assert!(weights("whole") == weights("parts"));
        // It writes what the bundled one writes, so the bundled reward model can score it.
        let solved = ["solve", "--limit", "4", "--json", "--generator", "whole"];
        let solved = place
            .run(&[&solved[..], &["--prm", "bundled"]].concat())
            .ok();
        let right = solved
            .json()
            .iter()
            .filter(|row| row["correct"] == true)
            .count();
        assert!(right >= 3, "{}", solved.stdout);
    }

    /// `train KIND` from the bundled generator, on data.jsonl, into `out`.
    fn reward(place: &Place, kind: &str, out: &str, more: &[&str]) -> Ran {
        let own = [
            "train",
            kind,
            "--from",
            GENERATOR,
            "--data",
            "data.jsonl",
            "--out",
            out,
        ];
        place.run(&[&own[..], more].concat())
    }

    #[test]
    fn a_trained_reward_model_judges_and_guides_a_search() {
        let place = Place::new();
        let chains = ["problems", "--count", "150", "--steps", "--seed", "5"];
        place.write("data.jsonl", place.run(&chains).ok().stdout);
        let some = ["--train", "top=1", "--batch", "4", "--held-out", "0.3"];
        let shown = reward(&place, "prm", "prm", &some).ok().stderr;
        assert!(shown.contains("balanced accuracy"), "{shown}");
        // A value head and adapters, on chains that say their outcome alone.
        let chain = |answer: u32| {
            let step = serde_json::json!({"text": format!("The answer is {answer}.")});
            let right = answer.is_multiple_of(2);
            serde_json::json!({"problem": "Even?", "steps": [step], "outcome": right}).to_string()
        };
        let outcomes: Vec<String> = (0..8).map(chain).collect();
        place.write("data.jsonl", outcomes.join("\n"));
        reward(
            &place,
            "orm",
            "orm",
            &["--prm-format", "skywork-o1-open-prm", "--train", "lora=4"],
        )
        .ok();
        for model in ["prm", "orm"] {
            let solve = ["solve", "--limit", "2", "-n", "4", "--json", "--prm", model];
            let solved = place.run(&solve).ok().stdout;
            let first: serde_json::Value =
                serde_json::from_str(solved.lines().next().expect("a line")).expect("JSON");
            let score = first["steps"][0]["score"].as_f64().expect("a score");
            assert!((0.0..=1.0).contains(&score), "{first}");
        }
    }

    #[test]
    fn a_reward_model_learns_from_a_checker_alone() {
        let place = Place::new();
        let step = |text: String| serde_json::json!({"text": text});
        let chain = |n: u32| {
            let slip = n % 2;
            let steps = [
                step(format!("{n} + 4 = {}.", n + 4 + slip)),
                step("So it is.".into()),
            ];
            serde_json::json!({"problem": format!("{n} and 4?"), "steps": steps}).to_string()
        };
        let chains: Vec<String> = (0..40).map(chain).collect();
        place.write("data.jsonl", chains.join("\n"));
        let some = ["--train", "top=1", "--batch", "4", "--held-out", "0.3"];
        reward(&place, "prm", "prm", &some).assert_refused("bare chains", &["no labelled chain"]);
        let judge = ["labels", "judge", "data.jsonl", "--checker", "arithmetic"];
        place
            .run(&[&judge[..], &["--out", "facts.jsonl"]].concat())
            .ok();
        std::fs::rename(place.path("facts.jsonl"), place.path("data.jsonl")).expect("a file");
        // Facts alone are no labels, and the message says which there are.
        reward(&place, "prm", "prm", &some).assert_refused(
            "facts",
            &["fail by arithmetic", "pass by arithmetic", "verdict"],
        );
        let by_rule = [&some[..], &["--rule", "verdict,pass"]].concat();
        let shown = reward(&place, "prm", "by-rule", &by_rule).ok().stderr;
        assert!(shown.contains("balanced accuracy"), "{shown}");
        let labels = [&judge[..], &["--as", "label", "--out", "labels.jsonl"]].concat();
        place.run(&labels).ok();
        std::fs::rename(place.path("labels.jsonl"), place.path("data.jsonl")).expect("a file");
        reward(&place, "prm", "prm", &some).ok();
        let weights = |of: &str| std::fs::read(place.path(of).join("model.safetensors"));
        assert_eq!(
            weights("prm").expect("a file"),
            weights("by-rule").expect("a file")
        );
        let solve = ["solve", "--limit", "2", "-n", "4", "--json", "--prm", "prm"];
        place.run(&solve).ok();
    }

    #[test]
    fn data_and_formats_that_cannot_train_a_reward_model_are_named() {
        let place = Place::new();
        let chain = r#"{"problem": "1 + 1?", "steps": [{"text": "2", "right": true}]}"#;
        place.write("data.jsonl", chain);
        let asks = "normaliser = \"sigmoid\"\nprompt.text = \"{{ problem }}\\n\"\nhead.tokens = [\"1\"]\n\
                    [step]\ntext = \"{{ step }}\\n\"\nquestion = \"1\"\n";
        place.write("asks.toml", asks);
        for (format, what) in [
            ("qwen2.5-math-prm", "<extra_0>"),
            ("mine", "invalid PRM format"),
            ("asks.toml", "removed after each step cannot be trained"),
        ] {
            reward(&place, "prm", "o", &["--prm-format", format]).assert_refused(format, &[what]);
        }
        let reference = ["--prm-reference", "bundled"];
        reward(&place, "prm", "o", &reference)
            .assert_refused("a reference", &["reads no reference"]);
        let wide = ["--train", "lora=99999999999"];
        reward(&place, "prm", "o", &wide).assert_refused("a wide adapter", &["smallest matrix"]);
        reward(&place, "orm", "o", &[])
            .assert_refused("no outcome", &["data.jsonl", "no labelled chain"]);
        for (flag, value) in [
            ("--wrong-weight", "NaN"),
            ("--head-warmup", "1"),
            ("--train", "lora=8,4"),
        ] {
            reward(&place, "prm", "o", &[flag, value]).assert_refused(flag, &[flag]);
        }
        place.write("data.jsonl", chain.replace("true", "NaN"));
        reward(&place, "prm", "o", &[]).assert_refused("NaN", &["data.jsonl", ":1:"]);
        assert!(!place.path("o").exists());
    }

    /// `train rl` from the bundled generator, on problems.jsonl, into `out`.
    fn rl(place: &Place, out: &str, more: &[&str]) -> Ran {
        let own = [
            "train",
            "rl",
            "--from",
            GENERATOR,
            "--problems",
            "problems.jsonl",
            "--out",
            out,
        ];
        place.run(&[&own[..], more].concat())
    }

    /// An update of 16 chains.
    const SMALL: [&str; 8] = [
        "--group",
        "4",
        "--groups",
        "4",
        "--updates",
        "3",
        "--samples",
        "1",
    ];

    #[test]
    fn a_policy_trained_by_rewards_solves_and_a_stopped_run_goes_on() {
        let place = Place::new();
        let drawn = ["problems", "--count", "60", "--split", "train"];
        place.write("problems.jsonl", place.run(&drawn).ok().stdout);
        let some = [
            "--reward",
            "both",
            "--algorithm",
            "dapo",
            "--train",
            "top=2",
            "--batch",
            "8",
        ];
        let some = [&SMALL[..], &some].concat();
        let shown = rl(&place, "whole", &some).ok().stderr;
        assert!(
            shown.contains("held-out problems, the best so far"),
            "{shown}"
        );
        assert!(shown.contains("KL ref"), "{shown}");
        let first = [&some[..], &["--stop-after", "1"]].concat();
        rl(&place, "parts", &first).ok();
        assert!(!place.path("parts/model.safetensors").exists());
        rl(&place, "parts", &some).assert_refused("an earlier run", &["parts/work", "--resume"]);
        let other = [&some[..], &["--resume", "--kl", "0.1"]].concat();
        rl(&place, "parts", &other).assert_refused("another run", &["settings"]);
        rl(&place, "parts", &[&some[..], &["--resume"]].concat()).ok();
        let weights = |out: &str| {
            let file = place.path(out).join("model.safetensors");
            std::fs::read(file).expect("the weights")
        };
        assert!(weights("whole") == weights("parts"));
        let solve = [
            "solve",
            "--limit",
            "2",
            "--generator",
            "whole",
            "--scorer",
            "none",
        ];
        let vote = ["--strategy", "majority", "-n", "2"];
        place.run(&[&solve[..], &vote].concat()).ok();
    }

    #[test]
    fn rewards_that_cannot_be_given_are_refused() {
        let place = Place::new();
        place.write("problems.jsonl", r#"{"problem": "1 + 1?", "answer": "2"}"#);
        for (flags, what) in [
            (&["--algorithm", "ppo"][..], &["ppo", "dr-grpo"][..]),
            (&["--reward", "orm"], &["orm", "both"]),
            (&["--credit", "mean"], &["mean", "differences"]),
            (&["--group", "1"], &["group of 1", "2 or more"]),
            (&["--prm", "bundled"], &["--prm", "--reward"]),
            (&["--reward", "prm", "--prm", "nowhere"], &["nowhere"]),
            (&["--kl", "NaN"], &["--kl"]),
            (&["--held-out", "0"], &["--held-out"]),
            (&["--held-out-problems", "none.jsonl"], &["none.jsonl"]),
        ] {
            rl(&place, "o", flags).assert_refused(&flags.join(" "), what);
        }
        place.write("problems.jsonl", r#"{"problem": "1 + 1?"}"#);
        rl(&place, "o", &[]).assert_refused("no answer", &["problems.jsonl", "answer"]);
        assert!(!place.path("o").exists());
    }

    const PRM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/abacus/prm");

    fn problems(place: &Place, name: &str, count: &str, seed: &str) {
        let args = ["problems", "--count", count, "--seed", seed];
        let problems = place.run(&args);
        place.write(name, problems.ok().stdout);
    }

    #[test]
    fn a_reward_model_is_adapted_only_if_it_needs_it() {
        let place = Place::new();
        problems(&place, "p.jsonl", "24", "5");
        let adapt = |out: &str, more: &[&str]| {
            let args = [
                "adapt",
                "--generator",
                GENERATOR,
                "--prm",
                PRM,
                "--prm-format",
                "step-token",
                "--problems",
                "p.jsonl",
                "--checker",
                "exact",
                "--chains",
                "2",
                "-n",
                "4",
                "--out",
                out,
            ];
            place.run(&[&args[..], more].concat())
        };
        // The bundled reward model knows the bundled generator.
        let fit = adapt("fit", &["--area", "0.5"]);
        let fit = fit.ok();
        assert!(
            fit.stdout.contains("No adaptation is needed"),
            "{}",
            fit.stdout
        );
        assert!(!place.path("fit/config.json").exists());

        // No model reaches an area of 1.1: 4 problems are learnt from, then 8, then all. At so high a rate
        // the reward model gets worse, so that the areas differ.
        let all = adapt(
            "all",
            &[
                "--area",
                "1.1",
                "--first",
                "4",
                "--prm-learning-rate",
                "0.02",
            ],
        );
        let all = all.ok();
        // The printed gain is the difference of the printed areas, and decides whether the model is written.
        let number = |begins: &str, at: usize| -> f64 {
            let mut lines = all.stdout.lines();
            let line = lines.find(|line| line.trim_start().starts_with(begins));
            let words: Vec<&str> = line.expect("the line").split_whitespace().collect();
            let number = words[at].trim_matches(['(', ')']);
            number.parse().expect("a number")
        };
        let (old, new) = (number("--prm", 1), number("adapted", 1));
        let (gain, low) = (number("Area, adapted", 4), number("Area, adapted", 5));
        assert!(
            old != new && (gain - (new - old)).abs() < 2e-4,
            "{}",
            all.stdout
        );
        let written = !all.stdout.contains("Not written");
        assert!(low > 0.0 || !written, "{}", all.stdout);
        assert_eq!(place.path("all/config.json").exists(), written);
        for file in [
            "labelled-4.jsonl",
            "labelled-8.jsonl",
            "search-before.jsonl",
            "search-after.jsonl",
        ] {
            assert!(place.path(&format!("all/work/{file}")).exists(), "{file}");
        }
        adapt("all", &[]).assert_refused("adapt", &["all", "--resume"]);
        // Finished stages are not run again.
        let again = adapt("all", &["--area", "1.1", "--first", "4", "--resume"]);
        let again = again.ok();
        assert!(!again.stderr.contains("$ beamgen"), "{}", again.stderr);
        assert!(all.stdout.ends_with(&again.stdout), "{}", again.stdout);
    }

    #[test]
    fn a_reward_model_follows_the_policy_that_it_rewards() {
        let place = Place::new();
        problems(&place, "p.jsonl", "24", "6");
        let args = [
            "train",
            "rl",
            "--from",
            GENERATOR,
            "--problems",
            "p.jsonl",
            "--reward",
            "prm",
            "--prm",
            PRM,
            "--prm-format",
            "step-token",
            "--updates",
            "3",
            "--groups",
            "4",
            "--group",
            "2",
            "--samples",
            "1",
            "--evaluate-every",
            "3",
            "--checker",
            "exact",
            "--refresh-problems",
            "4",
            "--chains",
            "2",
            "--out",
            "policy",
        ];
        let refresh =
            |more: &[&str]| place.run(&[&args[..], &["--refresh-prm", "2"], more].concat());
        refresh(&[]).ok();
        let refreshed = |update: &str| {
            place.path(&format!(
                "policy/work/refresh/prm-{update}/model.safetensors"
            ))
        };
        assert!(refreshed("2").exists() && !refreshed("3").exists());
        assert!(place.path("policy/model.safetensors").exists());
        let log = std::fs::read_to_string(place.path("policy/work/log.jsonl")).expect("the log");
        let updates = log
            .lines()
            .filter(|line| line.contains("\"kl_reference\""))
            .count();
        assert_eq!(updates, 3, "{log}");

        // A run that was interrupted between two refreshments goes the same way.
        let resumed = |more: &[&str]| {
            let mut args = args.to_vec();
            *args.last_mut().expect("a folder") = "resumed";
            place.run(&[&args[..], &["--refresh-prm", "2"], more].concat())
        };
        resumed(&["--stop-after", "1"]).ok();
        resumed(&["--resume"]).ok();
        let weights = |name: &str| std::fs::read(place.path(name)).expect("weights");
        assert!(
            place
                .path("resumed/work/refresh/prm-2/model.safetensors")
                .exists()
        );
        assert!(!place.path("resumed/work/refresh/prm-3").exists());
        assert_eq!(
            weights("policy/model.safetensors"),
            weights("resumed/model.safetensors")
        );

        let outcome = [
            "train",
            "rl",
            "--from",
            GENERATOR,
            "--problems",
            "p.jsonl",
            "--out",
            "o",
            "--refresh-prm",
            "2",
        ];
        place
            .run(&outcome)
            .assert_refused("train rl", &["--refresh-prm", "--reward"]);
        let bundled = [&outcome[..], &["--reward", "prm"]].concat();
        place
            .run(&bundled)
            .assert_refused("train rl", &["--refresh-prm", "--prm DIR"]);
    }

    #[test]
    fn a_verifier_rewards_chains_and_needs_no_references() {
        let place = Place::new();
        let asked = place
            .run(&["problems", "--count", "24", "--split", "train"])
            .ok();
        let texts = asked.stdout.lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("a problem");
            format!("{}\n", json!({"problem": line["problem"]}))
        });
        place.write("p.jsonl", texts.collect::<String>());
        let rl = |more: &[&str]| {
            let args = [
                "train",
                "rl",
                "--from",
                GENERATOR,
                "--problems",
                "p.jsonl",
                "--out",
                "o",
            ];
            place.run(&[&args, more].concat())
        };
        rl(&[]).assert_refused("without references", &["p.jsonl", "answer"]);
        let few = [
            "--groups",
            "4",
            "--group",
            "2",
            "--samples",
            "1",
            "--evaluate-every",
            "1",
        ];
        let one = [&few[..], &["--updates", "1", "--held-out", "0.3"]].concat();
        rl(&[&one[..], &["--verifier", EVEN]].concat()).ok();
        let log = std::fs::read_to_string(place.path("o/work/log.jsonl")).expect("a log");
        let rows = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("a line"));
        let rates: Vec<f64> = rows
            .flat_map(|row| {
                [
                    row["right"].as_f64(),
                    row["sampled"].as_f64(),
                    row["greedy"].as_f64(),
                ]
            })
            .flatten()
            .collect();
        assert!(
            rates.len() >= 3 && rates.iter().all(|&rate| rate > 0.0 && rate < 1.0),
            "{log}"
        );
        let other = rl(&[&one[..], &["--resume", "--verifier", "exit 3"]].concat());
        other.assert_refused("another verifier", &["run.json", "other settings"]);
    }

    #[test]
    fn an_implicit_reward_learns_from_the_outcomes_of_the_policy() {
        let place = Place::new();
        problems(&place, "p.jsonl", "24", "6");
        let format = "normaliser = \"sigmoid\"\n[step]\ntext = \"{{ step }}\\n\"\n[head.log-ratio]\nbeta = 0.05\n";
        place.write("implicit.toml", format);
        let label = [
            "label",
            "p.jsonl",
            "--chains",
            "2",
            "--rollouts",
            "0",
            "--temperature",
            "1",
        ];
        place
            .run(&[&label[..], &["--out", "data.jsonl"]].concat())
            .ok();
        let ratio = ["--prm-format", "implicit.toml", "--learning-rate", "1e-3"];
        reward(&place, "orm", "implicit", &ratio).ok();
        let args = [
            "train",
            "rl",
            "--from",
            GENERATOR,
            "--problems",
            "p.jsonl",
            "--reward",
            "both",
            "--prm",
            "implicit",
            "--prm-reference",
            GENERATOR,
            "--refresh-prm",
            "1",
            "--updates",
            "2",
            "--groups",
            "4",
            "--group",
            "2",
            "--samples",
            "1",
            "--evaluate-every",
            "2",
            "--refresh-problems",
            "8",
            "--chains",
            "2",
            "--out",
            "policy",
        ];
        let ran = place.run(&args).ok();
        assert!(ran.stderr.contains("$ beamgen train orm"), "{}", ran.stderr);
        let labelled = place.path("policy/work/refresh/labelled-1.jsonl");
        let labelled = std::fs::read_to_string(labelled).expect("chains");
        // Equal chains of a problem count once.
        assert!((8..=16).contains(&labelled.lines().count()), "{labelled}");
        for line in labelled.lines() {
            assert!(
                line.contains("\"outcome\":") && !line.contains("\"right\":"),
                "{line}"
            );
        }
        let prm = place.path("policy/work/refresh/prm-1");
        let weights = |folder: &std::path::Path| std::fs::read(folder.join("model.safetensors"));
        assert_ne!(
            weights(&prm).expect("weights"),
            weights(&place.path("implicit")).expect("weights")
        );
        let prm = prm.to_str().expect("a path");
        let solve = ["solve", "p.jsonl", "--limit", "2", "-n", "4", "--prm", prm];
        let solved = place.run(&[&solve[..], &["--prm-reference", GENERATOR]].concat());
        solved.ok();
        place
            .run(&[&args[..], &["--checker", "exact"]].concat())
            .assert_refused("train rl", &["--checker", "--prm-reference"]);
    }
}
