//! Checks that docs/reference/run-file.md lists exactly the fields of real run files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::calibrate::calibrated;
use crate::run::root;
use crate::verifiers::EVEN;

/// By section: the fields, and whether each is optional.
type Documented = BTreeMap<String, BTreeMap<String, bool>>;

/// The tables of the document by the heading above them.
fn documented() -> Documented {
    let text =
        std::fs::read_to_string(root().join("docs/reference/run-file.md")).expect("the document");
    let mut sections = Documented::new();
    let mut section = String::new();
    for line in text.lines() {
        if line.starts_with('#') {
            section = line.trim_start_matches('#').trim().to_lowercase();
        }
        let Some(row) = line.strip_prefix("| `") else {
            continue;
        };
        let (field, rest) = row.split_once('`').expect("a field");
        let optional = rest.contains("*optional*");
        let fields = sections.entry(section.clone()).or_default();
        assert!(
            fields.insert(field.to_owned(), optional).is_none(),
            "{section}: {field} stands there twice"
        );
    }
    sections
}

/// The objects seen, by section.
#[derive(Default)]
struct Seen(BTreeMap<&'static str, Vec<BTreeSet<String>>>);

impl Seen {
    fn object(&mut self, section: &'static str, value: &Value) {
        let object = value.as_object().expect(section);
        let keys = object.keys().cloned().collect();
        self.0.entry(section).or_default().push(keys);
    }

    fn objects(&mut self, section: &'static str, values: &Value) {
        for value in values.as_array().into_iter().flatten() {
            self.object(section, value);
        }
    }

    fn ledger(&mut self, ledger: &Value) {
        self.object("ledger", ledger);
        for judge in ledger["judges"].as_object().into_iter().flatten() {
            self.object("judge", judge.1);
        }
    }

    fn run_file(&mut self, text: &str) {
        for (at, line) in text.lines().enumerate() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            if at == 0 {
                self.object("header", &line);
                continue;
            }
            self.object("problem line", &line);
            self.objects("step", &line["steps"]);
            self.objects("answer", &line["answers"]);
            self.ledger(&line["ledger"]);
            if let Some(outcome) = line.get("outcome") {
                self.object("outcome", outcome);
            }
            if let Some(unsound) = line.get("unsound") {
                self.object("unsound", unsound);
            }
            self.objects("node", &line["tree"]);
            let nodes = line["tree"].as_array().into_iter().flatten();
            for thought in nodes.clone().filter_map(|node| node.get("thought")) {
                self.object("thought", thought);
            }
            for pruned in nodes.filter_map(|node| node.get("pruned")) {
                self.object("pruned", pruned);
            }
        }
    }
}

#[test]
fn every_field_of_a_run_file_is_documented_and_every_documented_field_is_there() {
    let (place, _) = calibrated();
    let problem = "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. \
                   How many pens does Kim have?";
    let doubtful = json!({"problem": problem, "answer": "\\int x"});
    place.write("doubtful.jsonl", doubtful.to_string());
    let long = json!({"problem": "Mia has 34 pens. ".repeat(1000), "context": ["It is cut."]});
    place.write("long.jsonl", format!("{long}\n{doubtful}\n"));
    let begun = json!({"problem": problem, "answer": "21", "steps": ["Mia has 34 pens: 34."]});
    place.write("begun.jsonl", begun.to_string());
    // The second prompt begins as the first one.
    let again = json!({"problem": problem, "id": "again"});
    place.write("same.jsonl", format!("{begun}\n{again}\n"));
    let twins = place.run(&["problems", "--count", "4", "--twins"]).ok();
    place.write("twins.jsonl", twins.stdout);
    let guess = "generator.answer_markers=[\":\"]";
    let early = "--stop-when-verified";
    let thinks = [
        "generator.thinking.open=.",
        "generator.thinking.close=\"\\n\"",
        "generator.thinking.message=\"\"",
        "generator.thinking.answer_reserve=30",
        "generator.thinking.budget=4",
    ];
    let thinks = thinks.map(|key| ["--set", key]).concat();
    // The prompt has to end with the opening tag.
    let told = problem.replace('?', ".");
    place.write("told.jsonl", json!({"problem": told}).to_string());
    let thinks = [
        &[
            "told.jsonl",
            "--tree",
            "--strategy",
            "single",
            "--scorer",
            "none",
        ],
        &thinks[..],
    ]
    .concat();
    // A thought that the chain opens itself.
    let opens = [&thinks[..], &["--set", "generator.thinking.open=Mia"]].concat();
    let runs: [&[&str]; 18] = [
        &thinks,
        &opens,
        &["--limit", "4", "--tree"],
        &["--limit", "4", "--tree", "--early-rejection", "8"],
        &["--limit", "4", "--tree", "--rollouts", "2", "-n", "4"],
        &["--limit", "1", "--set", guess],
        &["--limit", "4", "--threshold", "1"],
        &["doubtful.jsonl"],
        &["long.jsonl", "--skip-too-long"],
        &["--limit", "2", "-n", "16", "--kv-memory", "1500KiB"],
        &["--limit", "2", "--checker-command", "exit 3"],
        &["--limit", "2", "--tree", "--judge", "exact"],
        &["--limit", "2", "--tree", "--calibration", "cal.json"],
        &["begun.jsonl"],
        &["same.jsonl"],
        &["twins.jsonl", "--strategy", "single", "--scorer", "none"],
        &["--limit", "4", "--verifier", EVEN],
        &[
            "--limit",
            "8",
            "--temperature",
            "2",
            "--verifier",
            EVEN,
            "--verifier-open",
            early,
        ],
    ];
    let mut seen = Seen::default();
    for (at, args) in runs.into_iter().enumerate() {
        let file = format!("{at}.jsonl");
        let args = [&["solve", "--json", "--out", &file], args].concat();
        let lines = place.run(&args).ok().json();
        seen.run_file(&place.read(&file));
        let summary = &lines.last().expect("a summary")["summary"];
        seen.object("summary line", summary);
        seen.ledger(&summary["ledger"]);
    }

    let mut documented = documented();
    // tests/interrupt.rs has a run that is interrupted.
    let summary = documented.get_mut("summary line").expect("its section");
    assert_eq!(summary.remove("interrupted"), Some(true));
    // And tests/resume.rs one that is resumed.
    assert_eq!(summary.remove("before"), Some(true));
    // So have the tests of the crate remote with servers that fail.
    let ledger = documented.get_mut("ledger").expect("its section");
    assert_eq!(ledger.remove("retries"), Some(true));
    let sections: Vec<&str> = documented.keys().map(String::as_str).collect();
    assert_eq!(sections, seen.0.keys().copied().collect::<Vec<_>>());
    for (section, objects) in &seen.0 {
        let fields = &documented[*section];
        let names: BTreeSet<String> = fields.keys().cloned().collect();
        let all: BTreeSet<String> = objects.iter().flatten().cloned().collect();
        assert_eq!(
            all, names,
            "{section}: seen on the left, documented on the right"
        );
        for (name, optional) in fields {
            let always = objects.iter().all(|keys| keys.contains(name));
            assert!(always || *optional, "{section}: {name} is not always there");
        }
    }
}
