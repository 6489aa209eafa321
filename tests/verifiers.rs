//! `--verifier`: programs that judge whole chains.

use serde_json::{Value, json};

use crate::calibrate::calibrated;
use crate::run::Place;

/// A verifier in `sh` that finds a chain right if its answer is an even number. It gives reasons and
/// parts for the others, and cannot tell for the answer 1.
pub(crate) const EVEN: &str = r#"while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed 's/^{"id":\([0-9]*\).*/\1/')
    case $(printf '%s' "$line" | sed 's/.*"answer":"\([^"]*\)".*/\1/') in
      1) printf '{"id":%s,"verdict":"unknown"}\n' "$id" ;;
      *[02468]) printf '{"id":%s,"verdict":"right"}\n' "$id" ;;
      *) printf '{"id":%s,"verdict":"wrong","reason":"it is odd","passed":0,"total":1}\n' "$id" ;;
    esac
done"#;

fn is_even(answer: &Value) -> bool {
    // A search may end without an answer, which is wrong.
    let answer = answer.as_str().unwrap_or_default();
    answer.ends_with(['0', '2', '4', '6', '8'])
}

#[test]
fn a_program_decides_what_is_right_and_changes_no_chain() {
    let place = Place::new();
    let solve = |more: &[&str]| {
        let args = [
            "solve",
            "--limit",
            "12",
            "--strategy",
            "best-of-n",
            "-n",
            "4",
            "--json",
        ];
        place.run(&[&args, more].concat()).ok().json()
    };
    let (plain, judged) = (solve(&[]), solve(&["--verifier", EVEN]));
    let mut kinds = [0; 2];
    for (plain, judged) in plain.iter().zip(&judged).take(12) {
        for field in ["id", "answer", "steps", "score", "finish"] {
            assert_eq!(plain[field], judged[field], "{field}");
        }
        assert!(plain.get("verifier").is_none() && plain.get("outcome").is_none());
        let even = is_even(&judged["answer"]);
        let outcome = if even {
            json!({"kind": "right"})
        } else {
            json!({"kind": "wrong", "reason": "it is odd", "parts": [0, 1]})
        };
        assert_eq!(
            (&judged["outcome"], &judged["correct"]),
            (&outcome, &json!(even))
        );
        assert_eq!(judged["verifier"], EVEN);
        for answer in judged["answers"].as_array().expect("answers") {
            let kind = if is_even(&answer["answer"]) {
                "right"
            } else {
                "wrong"
            };
            assert_eq!(answer["outcome"], kind);
        }
        kinds[usize::from(even)] += 1;
    }
    assert!(kinds.iter().all(|&count| count > 0), "{kinds:?}");
    assert_eq!(judged[12]["summary"]["correct"], kinds[1]);
}

#[test]
fn problems_choose_a_verifier_of_the_settings_and_need_no_reference() {
    let place = Place::new();
    let text = "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. \
                How many pens does Kim have?";
    let lines = [
        json!({"id": "even", "problem": text, "verifier": "even"}),
        json!({"id": "math", "problem": text, "answer": "21"}),
    ];
    place.write("p.jsonl", lines.map(|line| line.to_string()).join("\n"));
    let typo = json!({"id": "typo", "problem": text, "answer": "21", "verifier": "evne"});
    place.write("typo.jsonl", format!("\n{typo}"));
    let settings = json!({"even": EVEN});
    place.write(
        "s.toml",
        format!("[verifier.others]\neven = {}\n", settings["even"]),
    );
    let ran = place
        .run(&["solve", "p.jsonl", "--config", "s.toml", "--json"])
        .ok();
    let lines = ran.json();
    let of = |id: &str| lines.iter().find(|line| line["id"] == id).expect("a line");
    assert_eq!(
        (&of("even")["answer"], &of("even")["correct"]),
        (&json!("21"), &json!(false))
    );
    assert_eq!(of("even")["outcome"]["reason"], "it is odd");
    assert_eq!(
        (&of("math")["correct"], of("math").get("verifier")),
        (&json!(true), None)
    );
    for command in [
        &["solve"][..],
        &["bench", "--out", "o"],
        &["label", "--out", "l.jsonl"],
    ] {
        let ran = place.run(&[command, &["typo.jsonl", "--config", "s.toml"]].concat());
        let words = ["typo.jsonl:2", "evne", "choose from math, even"];
        ran.assert_refused(command[0], &words);
    }
    // For people, the reason stands next to the answer.
    let ran = place.run(&["solve", "p.jsonl", "--config", "s.toml"]).ok();
    assert!(
        ran.stdout.contains("wrong, 0 of 1: it is odd"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_bench_counts_the_chains_that_a_program_finds_right() {
    let place = Place::new();
    let bench = ["bench", "--limit", "8", "--strategies", "best-of-n"];
    let more = ["--n", "4,8", "--verifier", EVEN, "--out", "out"];
    place.run(&[&bench[..], &more].concat()).ok();
    let rows = place.read("out/rows.jsonl");
    let mut rights = 0;
    for line in rows.lines() {
        let line: Value = serde_json::from_str(line).expect("a line");
        let Some(row) = line.get("row") else {
            continue;
        };
        let right = row["chains"]["right"].as_str().unwrap_or_default();
        rights += right.matches('1').count();
        assert_eq!(row["correct"], is_even(&row["answer"]));
    }
    assert!(rights > 0 && rights < 64, "{rights}");
}

#[test]
fn a_program_that_fails_costs_outcomes_and_a_resumed_run_asks_again() {
    let place = Place::new();
    let solve = |more: &[&str]| {
        place.run(&[&["solve", "--limit", "2", "--out", "run.jsonl"], more].concat())
    };
    let failed = solve(&["--verifier", "exit 3"]).ok();
    assert!(
        failed.stderr.contains("2 verdicts missing"),
        "{}",
        failed.stderr
    );
    for line in place.read("run.jsonl").lines().skip(1) {
        let line: Value = serde_json::from_str(line).expect("a line");
        assert_eq!(
            (&line["outcome"]["kind"], &line["correct"]),
            (&json!("lost"), &json!(false))
        );
        assert!(line["lost_verdicts"].as_u64() > Some(0));
    }
    // Another verifier is another run.
    let other = solve(&["--resume", "--verifier", EVEN]);
    other.assert_refused("another verifier", &["run.jsonl", "verifier"]);
    // So is another command under the same name.
    let named = |command: &str| format!("verifier.others.rules={}", json!(command));
    let solve = |more: &[&str]| {
        let args = ["solve", "--limit", "2", "--out", "named.jsonl"];
        place.run(&[&args, more].concat())
    };
    solve(&["--set", &named("exit 3")]).ok();
    let other = solve(&["--resume", "--set", &named("exit 4")]);
    other.assert_refused("another command", &["named.jsonl", "exit 3", "exit 4"]);
}

#[test]
fn bad_settings_are_refused_in_one_line() {
    let place = Place::new();
    for (args, words) in [
        (
            &["--verifier", " "][..],
            &["verifier.run", "a command is empty"][..],
        ),
        (&["--verifier-open"], &["verifier-open", "verifier"]),
        (
            &["--verifier-timeout", "5"],
            &["verifier-timeout", "verifier"],
        ),
        (
            &["--stop-when-verified", "--verifier", "true"],
            &["stop-when-verified", "verifier-open"],
        ),
        (
            &[
                "--set",
                "search.rollouts.count=2",
                "--set",
                "search.rollouts.value=verifier",
            ],
            &["of an open verifier only", "--verifier-open"],
        ),
        (
            &["--set", "verifier.others.math='x'"],
            &["verifier.others", "choose another name"],
        ),
    ] {
        let ran = place.run(&[&["solve"], args].concat());
        ran.assert_refused(args[0], words);
    }
}

#[test]
fn commands_that_compare_answers_with_references_say_so() {
    let place = Place::new();
    let answers = json!({"problem": "How many?", "answer": "2", "solution": "The answer is 2."});
    place.write("a.jsonl", answers.to_string());
    for command in [&["refine", "a.jsonl"][..], &["guard", "a.jsonl"]] {
        let ran = place.run(&[command, &["--verifier", EVEN]].concat());
        ran.assert_refused(command[0], &[command[0], "leave the verifier out"]);
    }
}

#[test]
fn an_open_verifier_scores_chains_and_ends_searches() {
    let place = Place::new();
    let solve = |more: &[&str]| {
        let args = [
            "solve",
            "--temperature",
            "2",
            "--limit",
            "12",
            "-n",
            "8",
            "--verifier",
            EVEN,
            "--verifier-open",
        ];
        place.run(&[&args[..], more].concat()).ok()
    };
    let best = ["--strategy", "best-of-n"];
    let plain = solve(&[&best[..], &["--json"]].concat()).json();
    let scored = solve(&[&best[..], &["--json", "--outcome-scores"]].concat()).json();
    let stopped = solve(&[&best[..], &["--json", "--stop-when-verified"]].concat()).json();
    let tokens = |line: &Value| line["ledger"]["generated_tokens"].as_u64().expect("tokens");
    let (mut gained, mut spared) = (0, 0);
    for ((plain, scored), stopped) in plain.iter().zip(&scored).zip(&stopped).take(12) {
        let answers = plain["answers"].as_array().expect("answers");
        let any = answers.iter().any(|answer| answer["outcome"] == "right");
        for line in [scored, stopped] {
            assert_eq!(line["correct"], any);
            let score = line["score"].as_f64();
            match line["outcome"]["kind"].as_str() {
                Some("right") => assert_eq!(score, Some(1.0)),
                Some("wrong") => assert_eq!(score, Some(0.0)),
                _ => (),
            }
        }
        gained += usize::from(any && plain["correct"] == false);
        assert!(tokens(stopped) <= tokens(plain));
        spared += stopped["spared_chains"].as_u64().unwrap_or_default();
    }
    assert!(gained > 0 && spared > 0, "{gained} {spared}");
    let summary = &stopped.last().expect("a line")["summary"];
    assert_eq!(summary["spared_chains"], spared);
    let said = solve(&[&best[..], &["--stop-when-verified"]].concat());
    let line = format!("that the verifier called right; {spared} chains were not finished");
    assert!(said.stdout.contains(&line), "{}", said.stdout);
    // Completions of steps can be valued by it, without a reward model.
    let value = ["--rollouts", "2", "--set", "search.rollouts.value=verifier"];
    let more = ["--prm", "none", "--json"];
    solve(&[&value[..], &more].concat());
}

#[test]
fn label_takes_outcomes_for_chains_and_completions() {
    let place = Place::new();
    place.write("p.jsonl", "{\"problem\": \"What is 3 + 4 * 5?\"}\n");
    let label = |more: &[&str]| {
        let args = ["label", "--temperature", "1", "--out", "l.jsonl"];
        place.run(&[&args, more].concat())
    };
    label(&["p.jsonl"]).assert_refused("without a reference", &["p.jsonl", "answer"]);
    let some = ["--limit", "8", "--chains", "4", "--rollouts", "4"];
    label(&[&some[..], &["--verifier", EVEN]].concat()).ok();
    let (mut right, mut wrong, mut rollouts) = (0, 0, 0);
    for line in place.read("l.jsonl").lines() {
        let line: Value = serde_json::from_str(line).expect("a line");
        let steps = line["steps"].as_array().expect("steps");
        let last = steps.last().expect("a step")["text"]
            .as_str()
            .expect("text");
        let answer = last.trim().trim_end_matches('.').rsplit(' ').next();
        match line["outcome"].as_bool() {
            Some(outcome) => {
                assert_eq!(outcome, is_even(&json!(answer)), "{last}");
                right += usize::from(outcome);
                wrong += usize::from(!outcome);
            }
            None => assert_eq!(answer, Some("1"), "{last}"),
        }
        for step in steps {
            rollouts += step["rollouts"]["n"].as_u64().unwrap_or_default();
        }
    }
    assert!(right > 0 && wrong > 0 && rollouts > 0);
    let other = label(&[&some[..], &["--resume", "--verifier", "exit 3"]].concat());
    other.assert_refused("another verifier", &["l.jsonl.run", "verifier"]);
}

#[test]
fn calibrate_learns_from_the_outcomes_of_runs() {
    let (place, _) = calibrated();
    let solve = ["solve", "--limit", "120", "-n", "1", "--temperature", "1"];
    let run = [
        "--strategy",
        "best-of-n",
        "--prm",
        "bundled",
        "--out",
        "run.jsonl",
    ];
    place
        .run(&[&solve[..], &run, &["--verifier", EVEN]].concat())
        .ok();
    let lines = place.read("run.jsonl");
    let records = lines.lines().skip(1);
    let records: Vec<Value> = records
        .map(|line| serde_json::from_str(line).expect("a line"))
        .collect();
    let right = records
        .iter()
        .filter(|record| record["correct"] == true)
        .count();
    assert!(right > 10 && right < 110, "{right}");
    let calibrate = ["calibrate", "--runs", "run.jsonl", "--out", "cal.json"];
    let said = place.run(&calibrate).ok();
    let wrong = 100.0 * (1.0 - right as f64 / records.len() as f64);
    let share = format!("{wrong:.1} % of all answers are wrong");
    assert!(
        said.stdout.contains(&share),
        "{} lacks {share}",
        said.stdout
    );
}
