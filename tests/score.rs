//! `beamgen score` and `beamgen eval-prm`.

use serde_json::{Value, json};

use crate::run::Place;

/// A search scores step by step and forks caches; `score` reads a whole chain. All bits must be
/// equal.
#[test]
fn whole_chains_score_as_the_search_scored_them() {
    let place = Place::new();
    let solved = place.run(&["solve", "--limit", "6", "--json"]).ok().json();
    let solved: Vec<&Value> = solved
        .iter()
        .filter(|row| row.get("id").is_some())
        .collect();
    assert_eq!(solved.len(), 6);
    let texts = beamgen::bundled::sample().expect("the sample");
    let lines: String = solved
        .iter()
        .map(|row| {
            let id = row["id"].as_str().expect("an id");
            let problem = texts.problems.iter().find(|p| p.id == id).expect("it");
            let steps: Vec<&Value> = row["steps"]
                .as_array()
                .expect("steps")
                .iter()
                .map(|step| &step["text"])
                .collect();
            format!(
                "{}\n",
                json!({"id": id, "problem": problem.text, "steps": steps})
            )
        })
        .collect();
    place.write("chains.jsonl", lines);
    let scored = place.run(&["score", "chains.jsonl"]).ok().json();
    for (row, scored) in solved.iter().zip(&scored) {
        assert_eq!(row["id"], scored["id"]);
        let steps = row["steps"].as_array().expect("steps");
        let by_search: Vec<&Value> = steps.iter().map(|step| &step["score"]).collect();
        let whole: Vec<&Value> = scored["scores"]
            .as_array()
            .expect("scores")
            .iter()
            .collect();
        assert_eq!(by_search, whole, "{}", row["id"]);
        assert_eq!(row["score"], scored["score"]);
    }
}

/// The settings of a search that scores with something else, or not at all, can be given to a
/// command that only reads.
#[test]
fn the_scorer_of_a_search_is_no_matter() {
    let place = Place::new();
    let chain = json!({"problem": "p", "steps": ["Mia has 34 pens: 34."]});
    place.write("chains.jsonl", format!("{chain}\n"));
    let plain = place.run(&["score", "chains.jsonl"]).ok().stdout;
    for scorer in ["none", "exact"] {
        let set = format!("models.scorer={scorer}");
        let args = ["score", "chains.jsonl", "--set", &set];
        assert_eq!(place.run(&args).ok().stdout, plain, "{scorer}");
    }
}

#[test]
fn what_was_recognised_is_said() {
    let place = Place::new();
    let chain = json!({"problem": "p", "steps": ["Mia has 34 pens: 34."]});
    place.write("chains.jsonl", format!("{chain}\n"));
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/prm/");
    let prm = format!("{fixtures}qwen2.5-math-prm");
    let said = "is read as qwen2.5-math-prm";
    let args = ["score", "chains.jsonl", "--prm", &prm];
    assert!(place.run(&args).ok().stderr.contains(said));
    let args = [&args[..], &["--prm-format", "qwen2.5-math-prm"]].concat();
    assert!(!place.run(&args).ok().stderr.contains(said));
}

#[test]
fn a_chain_too_long_is_reported_and_stops_nothing() {
    let place = Place::new();
    let long =
        json!({"id": "long", "problem": "p", "steps": ["Mia has 34 pens: 34. ".repeat(300)]});
    let short = json!({"id": "short", "problem": "p", "steps": ["Mia has 34 pens: 34."]});
    place.write("chains.jsonl", format!("{long}\n{short}\n"));
    let ran = place.run(&["score", "chains.jsonl"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let rows = ran.json();
    assert!(rows[0]["error"].as_str().is_some_and(|e| e.contains("512")));
    assert_eq!(rows[1]["scores"].as_array().map(Vec::len), Some(1));
    assert!(ran.stderr.contains("chain long"), "{}", ran.stderr);
}

#[test]
fn the_bundled_model_finds_first_errors_of_its_world() {
    let place = Place::new();
    let chains = place
        .run(&["problems", "--count", "120", "--seed", "31", "--steps"])
        .ok()
        .stdout;
    place.write("world.jsonl", &chains);
    let array: Vec<Value> = chains
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    place.write("world.json", Value::from(array).to_string());
    let args = ["eval-prm", "--json", "--data", "world.jsonl", "world.json"];
    let rows = place.run(&args).ok().json();
    assert_eq!(rows.len(), 2);
    for field in ["chains", "f1", "accuracy_on_wrong", "accuracy_on_right"] {
        assert_eq!(rows[0][field], rows[1][field], "{field}");
    }
    assert_eq!(rows[0]["chains"], 120);
    assert!(
        rows[0]["f1"].as_f64().is_some_and(|f1| f1 > 0.9),
        "{rows:?}"
    );
    // Nothing is flagged below a threshold of 0: all that was wrong is missed.
    let args = [
        "eval-prm",
        "--json",
        "--wrong-below",
        "0",
        "--data",
        "world.jsonl",
    ];
    let row = place.run(&args).ok().json().remove(0);
    assert_eq!(
        (&row["f1"], &row["accuracy_on_right"]),
        (&json!(0.0), &json!(1.0))
    );
}

/// Files of `label` are scored and measured, with a report and without one, to the same figures.
#[test]
fn labelled_chains_are_read_by_every_command() {
    let place = Place::new();
    let label = ["label", "--limit", "6", "--chains", "4", "--rollouts", "4"];
    place
        .run(&[&label[..], &["--out", "l.jsonl"]].concat())
        .ok();
    let measure = ["eval-prm", "--json", "--data", "l.jsonl"];
    let plain = place.run(&measure).ok().json();
    let report = place.run(&[&measure[..], &["--report", "r"]].concat()).ok();
    assert_eq!(plain, report.json());
    assert!(
        plain[0]["accuracy_on_right"].as_f64().is_some(),
        "{plain:?}"
    );
    let lines = place.read("l.jsonl").lines().count();
    assert_eq!(place.run(&["score", "l.jsonl"]).ok().json().len(), lines);
}

/// Other formats than the project's own are measured without a report as with one, and scored.
#[test]
fn every_format_is_read_with_a_report_and_without() {
    let place = Place::new();
    let ratings = |steps: &[(&str, i64)]| {
        let step = |(text, rating): &(&str, i64)| {
            let completion = json!({"text": text, "rating": rating});
            json!({"completions": [completion], "chosen_completion": 0, "human_completion": null})
        };
        let steps: Vec<Value> = steps.iter().map(step).collect();
        json!({"question": {"problem": "p"}, "label": {"steps": steps, "finish_reason": "solution"}})
    };
    let lines = [
        ratings(&[("Mia has 34 pens: 34.", 1), ("Leo has 8: 8.", -1)]),
        ratings(&[("Mia has 34 pens: 34.", 1)]),
    ];
    place.write("prm800k.jsonl", format!("{}\n{}\n", lines[0], lines[1]));
    let measure = ["eval-prm", "--json", "--data", "prm800k.jsonl"];
    let plain = place.run(&measure).ok().json();
    let report = place.run(&[&measure[..], &["--report", "r"]].concat()).ok();
    assert_eq!(plain, report.json());
    assert_eq!(plain[0]["chains"], 2);
    let scored = place.run(&["score", "prm800k.jsonl"]).ok().json();
    let steps = |row: &Value| row["scores"].as_array().map(Vec::len);
    assert_eq!((steps(&scored[0]), steps(&scored[1])), (Some(2), Some(1)));
    // Steps without labels are scored, and cannot be measured.
    let bare = json!({"id": 7, "problem": "p", "steps": [{"text": "a"}, "b"], "label": null});
    place.write("bare.jsonl", format!("{bare}\n"));
    let row = place.run(&["score", "bare.jsonl"]).ok().json().remove(0);
    assert_eq!((&row["id"], steps(&row)), (&json!("7"), Some(2)));
    let refused = place.run(&["eval-prm", "--data", "bare.jsonl"]);
    refused.assert_refused("chains without labels", &["bare.jsonl"]);
}

/// Where one problem has most of the chains, the figures are its own, and this is said.
#[test]
fn one_problem_with_most_chains_is_told() {
    let place = Place::new();
    let chain = |problem: &str, label: i64| json!({"problem": problem, "steps": ["a", "b"], "label": label});
    let chains = |many: usize| {
        let mut lines = vec![chain("p", -1), chain("q", 0)];
        lines.extend((0..many).map(|_| chain("p", 1)));
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        place.write("c.jsonl", lines.join("\n"));
        place.run(&["eval-prm", "--data", "c.jsonl"]).ok().stdout
    };
    assert!(!chains(0).contains("are of one problem"));
    let told = chains(4);
    assert!(told.contains("5 of 6 chains are of one problem"), "{told}");
    assert!(told.contains("means over the 2 problems"), "{told}");
}

#[test]
fn bad_chains() {
    let place = Place::new();
    place.write("steps.jsonl", "{\"problem\": \"p\"}\n");
    place.write("label.jsonl", "{\"problem\": \"p\", \"steps\": [\"a\"]}\n");
    let cases: [(&[&str], &[&str]); 4] = [
        (&["score", "steps.jsonl"], &["steps.jsonl:1", "\"steps\""]),
        (&["score", "none.jsonl"], &["none.jsonl", "No such file"]),
        (
            &["eval-prm", "--data", "label.jsonl"],
            &["label.jsonl:1", "\"label\""],
        ),
        (
            &["eval-prm", "--wrong-below", "2", "--data", "label.jsonl"],
            &["--wrong-below 2"],
        ),
    ];
    for (args, words) in cases {
        place.run(args).assert_refused(&args.join(" "), words);
    }
}

/// A line for each chain: the problem, steps that lead to the right answer, and the same with a
/// wrong third step.
fn right_and_wrong() -> (Value, Value) {
    let problem = "Gina has 37 apples. Tom has 5 more apples than Gina. Jack has half as many apples as Tom. \
                   How many apples does Jack have?";
    let mut steps = vec![
        "Gina has 37 apples: 37.",
        "Tom has 5 more apples than Gina: 37 + 5 = 42.",
        "Jack has half as many apples as Tom: 42 / 2 = 21.",
        "The answer is 21.",
    ];
    let right = json!({"id": "right", "problem": problem, "steps": steps});
    steps[2] = "Jack has half as many apples as Tom: 42 * 2 = 84.";
    steps[3] = "The answer is 84.";
    (
        right,
        json!({"id": "wrong", "problem": problem, "steps": steps}),
    )
}

fn scores(row: &Value) -> Vec<f64> {
    let scores = row["scores"].as_array().expect("scores").iter();
    scores.map(|score| score.as_f64().expect("one")).collect()
}

#[test]
fn completions_score_the_steps_of_given_chains() {
    let place = Place::new();
    let (right, wrong) = right_and_wrong();
    place.write("chains.jsonl", format!("{right}\n{wrong}\n"));
    let score = |more: &[&str]| {
        let args = [&["score", "chains.jsonl"], more].concat();
        place.run(&args).ok().json()
    };
    let cooler = "generator.sampling.temperature=0.5";
    let by_vote = score(&["--rollouts", "16", "--set", cooler]);
    let [right, wrong] = [scores(&by_vote[0]), scores(&by_vote[1])];
    // Both chains begin alike, and so do their completions.
    assert_eq!(right[..2], wrong[..2]);
    assert!(
        right[1] >= 0.75 && right[2] == 1.0 && right[3] == 1.0,
        "{right:?}"
    );
    assert!(wrong[2] <= 0.25 && wrong[3] == 0.0, "{wrong:?}");
    assert_eq!(by_vote[1]["score"], 0.0);

    // A whole chain is its own completion, so its last step has the chain score of the model.
    let by_model = score(&[]);
    let of_ends = score(&["--rollouts", "4", "--set", "search.rollouts.value=prm"]);
    for (ends, model) in of_ends.iter().zip(&by_model) {
        assert_eq!(ends["score"], model["score"]);
    }

    // The mixture has both parts.
    let weight = "search.rollouts.weight=0.25";
    let both = score(&["--rollouts", "16", "--set", cooler, "--set", weight]);
    for (mixed, (vote, model)) in both.iter().zip(by_vote.iter().zip(&by_model)) {
        let mut lowest = f64::INFINITY;
        let parts = scores(vote).into_iter().zip(scores(model));
        for (mixed, (vote, model)) in scores(mixed).into_iter().zip(parts) {
            lowest = lowest.min(model);
            let expected = 0.25 * vote + 0.75 * lowest;
            assert!((mixed - expected).abs() < 1e-6, "{mixed} for {expected}");
        }
    }

    // A verifier that looks at the answer, without the reference.
    let verifier = r#"while IFS= read -r line; do
        id=$(printf '%s' "$line" | sed 's/^{"id":\([0-9]*\).*/\1/')
        case "$line" in *'"answer":"21"'*) v=right ;; *) v=wrong ;; esac
        printf '{"id":%s,"verdict":"%s"}\n' "$id" $v
    done"#;
    let open = format!("verifier.run={}", json!(verifier));
    let outcomes = score(&[
        "--rollouts",
        "8",
        "--set",
        cooler,
        "--set",
        "search.rollouts.value=verifier",
        "--set",
        &open,
        "--set",
        "verifier.open=true",
    ]);
    assert_eq!(scores(&outcomes[0])[3], 1.0);
    assert_eq!(scores(&outcomes[1])[3], 0.0);
    assert!(scores(&outcomes[0])[1] >= 0.75, "{outcomes:?}");
}

#[test]
fn flags_that_only_completions_use_are_refused_without_them() {
    let place = Place::new();
    let (chain, _) = right_and_wrong();
    place.write("chains.jsonl", format!("{chain}\n"));
    let refused: [(&[&str], &[&str]); 3] = [
        (&["--generator", "bundled"], &["--generator", "--rollouts"]),
        (&["--temperature", "0.5"], &["--temperature", "--rollouts"]),
        (
            &["--rollouts", "2", "--set", "search.rollouts.value=verifier"],
            &["of an open verifier only", "\"math\" is not"],
        ),
    ];
    for (args, words) in refused {
        let ran = place.run(&[&["score", "chains.jsonl"], args].concat());
        ran.assert_refused(args[0], words);
    }
}
