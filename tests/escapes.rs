//! Tests that texts of models and files cannot control a terminal, a browser or a spreadsheet.

use serde_json::json;

use crate::run::{Place, Ran};

/// Sets a terminal's title, clears the screen, goes back, sets colours by a C1 code, turns the
/// direction round, hides blanks of no width.
const HOSTILE: &str = "\x1b]0;title\x07\x1b[2J\x08\x08\r\u{9b}31m\u{202e}\u{2066}\u{2028}\x7f\u{200b}\u{feff}\u{e0041}";

/// The characters of `text` that act on a terminal.
fn acting(text: &str) -> String {
    let acts = |c: &char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || "\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{feff}\u{e0041}".contains(*c)
            || ('\u{202a}'..='\u{202e}').contains(c)
            || ('\u{2066}'..='\u{2069}').contains(c)
    };
    text.chars().filter(acts).collect()
}

#[track_caller]
fn assert_harmless(name: &str, ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        assert_eq!(acting(text), "", "{name}: {text:?}");
    }
}

fn problems() -> String {
    let text = format!("Mia has 34 pens. {HOSTILE} How many pens\r\n{HOSTILE}does Mia have?");
    let problem = json!({"id": format!("id {HOSTILE}"), "problem": text, "answer": HOSTILE});
    format!("{problem}\n")
}

#[test]
fn problems_ids_and_answers_cannot_act_on_the_terminal() {
    let place = Place::new();
    place.write("p.jsonl", problems());
    let solve = ["solve", "p.jsonl", "-n", "2", "-m", "2", "--color"];
    for color in ["never", "auto"] {
        let ran = place.run(&[&solve[..], &[color]].concat()).ok();
        assert_harmless(color, &ran);
        assert!(
            ran.stdout.contains("[id \\x1b]0;title\\x07"),
            "{}",
            ran.stdout
        );
        assert!(ran.stdout.contains("\\u{202e}"), "{}", ran.stdout);
    }
    let mut ran = place.run(&[&solve[..], &["always"]].concat()).ok();
    assert!(ran.stdout.contains("\x1b[1m"), "colours are there");
    for own in ["0", "1", "2", "31", "32", "33"] {
        ran.stdout = ran.stdout.replace(&format!("\x1b[{own}m"), "");
    }
    assert_harmless("always", &ran);

    place
        .run(&[&solve[..], &["never", "--out", "run.jsonl", "--tree"]].concat())
        .ok();
    let id = format!("id {HOSTILE}");
    for args in [
        &["show", "run.jsonl"][..],
        &["show", "run.jsonl", "--id", &id],
    ] {
        assert_harmless("show", &place.run(args).ok());
    }

    // Programs get the text as it is.
    let ran = place
        .run(&["solve", "p.jsonl", "-n", "2", "-m", "2", "--json"])
        .ok();
    assert_eq!(ran.json()[0]["id"], format!("id {HOSTILE}"));
}

#[test]
fn names_in_errors_cannot_act_on_the_terminal() {
    let place = Place::new();
    place.write("p.jsonl", "What is 1 + 1?\n");
    place.write("twice.jsonl", problems().repeat(2));
    place.write(
        "name.toml",
        format!("[search]\n{HOSTILE:?} = 1\n").replace("\\u{", "\\U{"),
    );
    let bench = "[[set]]\nname = \"a\\u001b[2J\"\ncount = 1\n[[run]]\nname = \"b\"\n";
    place.write("set.toml", bench);
    place.write("run.toml", "[[run]]\nname = \"<script>\"\n");
    let set = format!("search.n={HOSTILE}");
    let key = format!("{HOSTILE}=1");
    let flag = format!("--{HOSTILE}");
    let out = format!("{HOSTILE}/run.jsonl");
    let cases: &[&[&str]] = &[
        &["solve", HOSTILE],
        &["solve", "--set", &set],
        &["solve", "--set", &key],
        &["solve", "--set", HOSTILE],
        &["solve", "--strategy", HOSTILE],
        &["solve", "--color", HOSTILE],
        &["solve", "-n", HOSTILE],
        &["solve", &flag],
        &["solve", "--config", HOSTILE],
        &["solve", "--config", "name.toml"],
        &["solve", "--generator", HOSTILE],
        &["solve", "--prm", HOSTILE],
        &["solve", "--prm-format", HOSTILE],
        &["solve", "--kv-memory", HOSTILE],
        &["solve", "--out", &out],
        &["solve", "twice.jsonl"],
        &["bench", HOSTILE],
        &["bench", "--redraw", HOSTILE],
        &["bench", "--strategies", HOSTILE],
        &["bench", "--config", "set.toml"],
        &["bench", "--config", "run.toml"],
        &["bench-engine", "--model", HOSTILE],
        &["show", HOSTILE],
        &["score", HOSTILE],
        &["eval-prm", "--data", HOSTILE],
        &["models", "--generator", HOSTILE],
        &["train", "abacus", "--config", HOSTILE],
        &[HOSTILE],
    ];
    for args in cases {
        let name = format!("{args:?}");
        let ran = place.run(args);
        ran.assert_refused(&name, &[]);
        assert_harmless(&name, &ran);
    }
    // A chain that is refused while others are scored.
    let steps = vec!["Mia has 34 pens.\n"; 1000];
    let chain = json!({"id": HOSTILE, "problem": "p", "steps": steps});
    place.write("chains.jsonl", format!("{chain}\n"));
    let ran = place.run(&["score", "chains.jsonl"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("chain \\x1b]0;"), "{}", ran.stderr);
    assert_eq!(acting(&ran.stderr), "", "{}", ran.stderr);
}

#[test]
fn long_messages_are_cut_in_the_middle() {
    let place = Place::new();
    let long = "x".repeat(100_000);
    let assignment = format!("search.n={long}");
    for args in [
        ["solve", &long],
        ["solve", &format!("--{long}")],
        ["bench", &long],
    ] {
        let ran = place.run(&args);
        ran.assert_refused("a long argument", &["[...]"]);
        assert!(ran.stderr.len() < 600, "{}", ran.stderr);
    }
    let ran = place.run(&["solve", "--set", &assignment]);
    ran.assert_refused(
        "a long value",
        &["--set search.n=xxx", "[...]", "whole number"],
    );
    assert!(ran.stderr.len() < 600, "{}", ran.stderr);
}

#[test]
fn a_results_folder_holds_no_markup_formula_or_escape_of_its_input() {
    let place = Place::new();
    let ids = ["=1+1", "-3.5", "@SUM(A1)", "a\x1b[2J|b"];
    let line = |id: &str| {
        let problem = "Mia has 34 pens. How many pens does Mia have?";
        format!(
            "{}\n",
            json!({"id": id, "problem": problem, "answer": "34"})
        )
    };
    let file = "a\x1b[31m<script>|`b\n.jsonl";
    place.write(file, ids.map(line).concat());
    let args = [
        "bench",
        file,
        "--strategies",
        "single,best-of-n",
        "--n",
        "2",
        "--out",
        "out",
    ];
    assert_harmless("bench", &place.run(&args).ok());
    assert_harmless("redraw", &place.run(&["bench", "--redraw", "out"]).ok());
    assert_harmless("plan", &place.run(&["bench", file, "--plan"]).ok());

    let report = place.read("out/README.md");
    assert_eq!(acting(&report), "", "{report}");
    assert!(!report.contains("<script>"), "{report}");
    let mut columns = 0;
    for line in report.lines() {
        let bars = line.replace("\\|", "").matches('|').count();
        match line.starts_with('|') {
            true if columns > 0 => assert_eq!(bars, columns, "{line}"),
            true => columns = bars,
            false => columns = 0,
        }
    }
    let mut figures = 0;
    for entry in std::fs::read_dir(place.path("out")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            assert_eq!(acting(&text), "", "{}", path.display());
            assert!(!text.contains("<script>"), "{}", path.display());
            figures += 1;
        }
    }
    assert!(figures > 0);

    let table = place.read("out/results.csv");
    assert_eq!(acting(&table), "", "{table}");
    let found: Vec<&str> = table
        .lines()
        .filter_map(|row| row.split(',').nth(6))
        .collect();
    for id in ["'=1+1", "-3.5", "'@SUM(A1)"] {
        assert!(found.contains(&id), "{id}: {found:?}");
    }
    assert!(
        !found.iter().any(|id| id.starts_with(['=', '@'])),
        "{found:?}"
    );

    // A name that only results.json has is refused before anything is drawn.
    place.edit("out/results.json", |results| {
        results["bench"]["sets"][0]["name"] = json!("a\x1b[2J<script>");
    });
    let ran = place.run(&["bench", "--redraw", "out"]);
    ran.assert_refused("redraw", &["results.json", "a\\x1b[2J<script>"]);
}
