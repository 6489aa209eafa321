//! Sound or merely right: audits of answers, and twins.

use serde_json::{Value, json};

use crate::run::Place;

/// The records of a search with one chain a problem, which makes many mistakes, and its summary.
fn solved(place: &Place, flags: &[&str]) -> (Vec<Value>, Value) {
    let args = ["solve", "--strategy", "single", "--json", "--quiet"];
    let mut lines = place.run(&[&args[..], flags].concat()).ok().json();
    let summary = lines.pop().expect("a summary")["summary"].take();
    (lines, summary)
}

/// A record without the fields that an audit may change, and without times.
fn bare(record: &Value) -> Value {
    let mut record = record.clone();
    let fields = record.as_object_mut().expect("an object");
    for name in ["unsound", "ledger"] {
        fields.remove(name);
    }
    record
}

#[test]
fn an_audit_tells_right_from_right_and_sound_and_changes_nothing_else() {
    let place = Place::new();
    let flags = ["--scorer", "none", "--seed", "4"];
    let (records, summary) = solved(&place, &flags);
    let (plain, without) = solved(&place, &[&flags[..], &["--audit", "none"]].concat());
    assert!(plain.iter().all(|record| record.get("unsound").is_none()));
    let same = records.iter().zip(&plain);
    assert!(same.clone().count() == 40 && same.clone().all(|(a, b)| bare(a) == bare(b)));
    assert_eq!(
        without["unsound"],
        json!({"checker": 0, "label": 0, "scorer": 0})
    );
    let mut right_but_unsound = 0;
    for record in &records {
        // A wrong answer always has a wrong step.
        let is_right = record["correct"] == true;
        let is_unsound = record.get("unsound").is_some();
        assert!(
            is_right || is_unsound || record["answer"].is_null(),
            "{record}"
        );
        if is_unsound {
            let unsound = &record["unsound"];
            assert_eq!(
                (&unsound["by"], &unsound["source"]),
                (&json!("checker"), &json!("exact"))
            );
            let step = unsound["step"].as_u64().expect("a step") as usize;
            assert!(step < record["steps"].as_array().expect("steps").len());
        }
        right_but_unsound += usize::from(is_right && is_unsound);
    }
    assert!(right_but_unsound > 0, "choose another seed");
    assert_eq!(summary["unsound"]["checker"], right_but_unsound);
    // The best scores of a reward model are a bound, too, told apart.
    let bound = ["--audit", "none", "--sound-above", "0.99"];
    let (scored, _) = solved(&place, &bound);
    let low = |record: &Value| {
        let steps = record["steps"].as_array().expect("steps").iter();
        let low = |step: &Value| step["score"].as_f64().is_some_and(|score| score < 0.99);
        steps.clone().position(low)
    };
    assert!(scored.iter().any(|record| record.get("unsound").is_some()));
    for record in scored.iter().filter(|record| !record["answer"].is_null()) {
        let found = record
            .get("unsound")
            .map(|of| of["step"].as_u64().expect("a step") as usize);
        assert_eq!(found, low(record), "{record}");
        let by = record.get("unsound").map(|of| [&of["by"], &of["source"]]);
        assert!(
            by.is_none_or(|by| by == [&json!("scorer"), &json!("prm")]),
            "{record}"
        );
    }
}

#[test]
fn unsound_answers_are_withheld_on_request_and_such_runs_are_others() {
    let place = Place::new();
    let flags = ["--scorer", "none", "--seed", "4"];
    let (records, _) = solved(
        &place,
        &[&flags[..], &["--out", "a.jsonl", "--audit", "none"]].concat(),
    );
    let (audited, _) = solved(&place, &flags);
    let strict = [&flags[..], &["--require-sound", "--out", "b.jsonl"]].concat();
    let (withheld, summary) = solved(&place, &strict);
    let mut count = 0;
    for (record, before) in withheld.iter().zip(&audited) {
        if before.get("unsound").is_some() {
            count += 1;
            assert_eq!(
                (&record["answer"], &record["withheld"]),
                (&Value::Null, &before["answer"])
            );
            assert_eq!(record["unsound"], before["unsound"]);
        } else {
            assert_eq!(bare(record), bare(before));
        }
    }
    assert!(count > 0 && count < records.len());
    assert_eq!(summary["withheld"], count);
    let said = place.run(&[
        "solve",
        "--strategy",
        "single",
        "--scorer",
        "none",
        "--seed",
        "4",
        "--require-sound",
    ]);
    let said = said.ok().stdout;
    assert!(
        said.contains("withheld, unsound: step ") && said.contains("with unsound work"),
        "{said}"
    );
    // A run file of an audit that withholds nothing goes on with another audit, and with none.
    let resumed = [&flags[..], &["--out", "a.jsonl", "--resume"]].concat();
    assert_eq!(solved(&place, &resumed).1["before"]["problems"], 40);
    let args = [
        "solve",
        "--strategy",
        "single",
        "--quiet",
        "--resume",
        "--require-sound",
        "--out",
        "a.jsonl",
    ];
    let args = [&args[..], &flags].concat();
    place
        .run(&args)
        .assert_refused("another run", &["a.jsonl", "audit"]);
}

#[test]
fn audits_that_cannot_be_are_refused() {
    let place = Place::new();
    for (flags, words) in [
        (
            &["--audit", "magic"][..],
            &["audit", "magic", "none alone"][..],
        ),
        (&["--audit", "exact,none"], &["audit", "none"]),
        (
            &["--audit", "none", "--require-sound"],
            &["require_sound", "audit", "sound_above"],
        ),
        (&["--sound-above", "1.5"], &["sound_above", "0 to 1"]),
    ] {
        let args = [&["solve"][..], flags].concat();
        place.run(&args).assert_refused(&flags.join(" "), words);
    }
}

#[test]
fn show_and_its_page_tell_right_answers_with_a_wrong_step() {
    let place = Place::new();
    solved(
        &place,
        &[
            "--scorer",
            "none",
            "--seed",
            "4",
            "--out",
            "run.jsonl",
            "--tree",
        ],
    );
    let listed = place.run(&["show", "run.jsonl"]).ok().stdout;
    let line = listed.lines().find(|line| line.contains("right, unsound"));
    let id = line
        .and_then(|line| line.split_whitespace().next())
        .expect("such a problem");
    let one = place.run(&["show", "run.jsonl", "--id", id]).ok().stdout;
    assert!(
        one.contains("right, but unsound: step ") && one.contains("Is the work sound? No: step "),
        "{one}"
    );
    place.run(&["show", "run.jsonl", "--html", "run.html"]).ok();
    let page = place.read("run.html");
    assert!(page.contains("\"outcome\":\"unsound\"") && page.contains("right, but unsound"));
}

#[test]
fn a_bench_says_what_each_choice_passes_and_rows_without_an_audit_say_nothing() {
    let place = Place::new();
    let args = [
        "bench",
        "--limit",
        "12",
        "--strategies",
        "majority,best-of-n",
        "-n",
        "8",
        "--quiet",
    ];
    let ran = place.run(&[&args[..], &["--out", "a"]].concat()).ok();
    assert!(ran.stdout.contains("right and sound"), "{}", ran.stdout);
    let results: Value = serde_json::from_str(&place.read("a/results.json")).expect("JSON");
    let text = place.read("a/README.md");
    assert!(
        text.contains("Right, and right by a sound chain") && text.contains("sound.svg"),
        "{text}"
    );
    let summary = results["summary"].as_array().expect("rows");
    for cell in summary {
        let sound = &cell["sound"];
        let unsound: u64 = sound["unsound"]
            .as_array()
            .expect("counts")
            .iter()
            .filter_map(Value::as_u64)
            .sum();
        let right = sound["right"].as_u64().expect("a count");
        assert!(unsound <= right);
        let share = sound["share"].as_f64().expect("a share");
        assert!(
            (share * 12.0 - (right - unsound) as f64).abs() < 1e-9,
            "{cell}"
        );
    }
    // Of all chains of the pool, the right ones are audited.
    let rows: Vec<Value> = place
        .read("a/rows.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let pools = rows
        .iter()
        .filter_map(|line| line["row"]["chains"].as_object());
    let mut letters = String::new();
    for pool in pools {
        let [right, audit] = ["right", "audit"].map(|of| pool[of].as_str().expect("letters"));
        assert!(
            right
                .chars()
                .zip(audit.chars())
                .all(|(right, audit)| (right == '0') == (audit == '-'))
        );
        letters += audit;
    }
    assert!(
        letters.contains('c') && letters.contains('.') && letters.len() == 12 * 8,
        "{letters}"
    );
    // Rows of before are drawn as they were.
    let old = place.read("a/rows.jsonl");
    let without = old.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        if let Some(row) = line.get_mut("row").and_then(Value::as_object_mut) {
            row.remove("audit");
            if let Some(chains) = row.get_mut("chains").and_then(Value::as_object_mut) {
                chains.remove("audit");
            }
        }
        line.to_string() + "\n"
    });
    place.write("a/rows.jsonl", without.collect::<String>());
    let ran = place.run(&["bench", "--redraw", "a"]).ok();
    let [text, results] = ["a/README.md", "a/results.json"].map(|file| place.read(file));
    for (of, what) in [
        (&ran.stdout, "stdout"),
        (&text, "README.md"),
        (&results, "results.json"),
    ] {
        assert!(!of.contains("sound"), "{what}: {of}");
    }
}

#[test]
fn twins_are_counted_where_both_are_there() {
    let place = Place::new();
    let made = place
        .run(&["problems", "--count", "6", "--seed", "9", "--twins"])
        .ok();
    let plain = place
        .run(&["problems", "--count", "6", "--seed", "9"])
        .ok()
        .json();
    let made_again = place
        .run(&["problems", "--count", "6", "--seed", "9", "--twins"])
        .ok();
    assert_eq!(made.stdout, made_again.stdout);
    let lines = made.json();
    assert_eq!(
        lines.iter().step_by(2).collect::<Vec<_>>(),
        plain.iter().collect::<Vec<_>>()
    );
    for pair in lines.chunks(2) {
        let id = |at: usize| pair[at]["id"].as_str().expect("an id").to_owned();
        assert_eq!(id(1), format!("{}-twin", id(0)));
        assert_ne!(pair[0]["answer"], pair[1]["answer"]);
    }
    place.write("twins.jsonl", &made.stdout);
    let (records, summary) = solved(&place, &["twins.jsonl", "--scorer", "none"]);
    let right = |at: usize| records[at]["correct"] == true;
    let both = (0..6)
        .filter(|pair| right(2 * pair) && right(2 * pair + 1))
        .count();
    assert_eq!(summary["twins"], json!({"pairs": 6, "right_on_both": both}));
    let told = place.run(&["solve", "twins.jsonl"]).ok().stdout;
    assert!(
        told.contains("right on both twins: ") && told.contains(" of 6 = "),
        "{told}"
    );
    let bench = place
        .run(&[
            "bench",
            "twins.jsonl",
            "--strategies",
            "beam",
            "-n",
            "4",
            "--quiet",
        ])
        .ok()
        .stdout;
    assert!(bench.contains("6 pairs"), "{bench}");
    let unaudited = "bench twins.jsonl --strategies majority -n 2 --audit none --json --quiet";
    let row = place
        .run(&unaudited.split(' ').collect::<Vec<_>>())
        .ok()
        .json()
        .remove(0);
    assert_eq!(
        (&row["twins"]["pairs"], row.get("sound")),
        (&json!(6), None)
    );
    let (_, summary) = solved(&place, &[]);
    assert!(summary.get("twins").is_none());
}
