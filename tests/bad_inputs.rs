//! Bad input gets one clear line and exit code 2, never a panic.

use std::path::{Path, PathBuf};

use crate::run::{Place, root};

const PROBLEM: &str =
    "{\"problem\": \"Mia has 34 pens. How many pens does Mia have?\", \"answer\": 34}\n";

#[test]
fn problem_files() {
    let place = Place::new();
    place.write("empty.jsonl", "");
    place.write("blank.jsonl", "\n \n");
    place.write("broken.jsonl", format!("{PROBLEM}{{\"problem\": \"half\n"));
    place.write(
        "field.jsonl",
        format!("{PROBLEM}{PROBLEM}{{\"text\": \"no\"}}\n"),
    );
    place.write("type.jsonl", "{\"problem\": 7}\n");
    place.write("answer.jsonl", "{\"problem\": \"p\", \"answer\": [1]}\n");
    place.write(
        "twice.jsonl",
        "{\"problem\": \"p\", \"id\": 1}\n{\"problem\": \"q\", \"id\": 1}\n",
    );
    place.write(
        "lines.jsonl",
        "{\"problem\": \"p\", \"id\": \"a\\nb\"}\n{\"problem\": \"q\", \"id\": \"a\\nb\"}\n",
    );
    place.write(
        "long.jsonl",
        format!("{PROBLEM}{{\"problem\": \"{}\"}}\n", "a".repeat(1_000_000)),
    );
    place.write(
        "context.jsonl",
        format!(
            "{{\"problem\": \"{}\", \"answer\": 34}}\n",
            "Mia has 34 pens. ".repeat(1_000)
        ),
    );
    place.write("long.txt", format!("What?\n{}\n", "a".repeat(1_000_000)));
    place.write(
        "utf8.jsonl",
        [PROBLEM.as_bytes(), b"{\"problem\": \"\xff\"}\n"].concat(),
    );
    place.write("array.json", "[{\"problem\": \"p\"}, 7]");
    place.write("open.json", "[{\"problem\": \"p\"}");
    place.write("mixed.jsonl", format!("# a comment\n\n{PROBLEM}"));
    place.write("table.csv", "id,text\n1,What is 1 + 1?\n");
    place.write("head.txt", "question,answer\nWhat, now?,2\n");
    place.write("packed.jsonl", b"\x1f\x8b\x08\x00\x00");
    let cases: &[(&str, &[&str])] = &[
        ("none.jsonl", &["none.jsonl", "No such file"]),
        (".", &["directory"]),
        ("empty.jsonl", &["empty.jsonl", "no problems"]),
        ("blank.jsonl", &["blank.jsonl", "no problems"]),
        ("broken.jsonl", &["broken.jsonl:2:", "not JSON"]),
        (
            "field.jsonl",
            &["field.jsonl:3:", "field \"problem\"", "missing"],
        ),
        (
            "type.jsonl",
            &["type.jsonl:1:", "field \"problem\"", "a number"],
        ),
        (
            "answer.jsonl",
            &["answer.jsonl:1:", "field \"answer\"", "a list"],
        ),
        ("twice.jsonl", &["twice.jsonl:2:", "field \"id\"", "line 1"]),
        ("lines.jsonl", &["lines.jsonl:2:", "field \"id\"", "a b"]),
        (
            "long.jsonl",
            &["long.jsonl:2:", "field \"problem\"", "1000000 bytes"],
        ),
        (
            "context.jsonl",
            &["context.jsonl:1:", "field \"problem\"", "tokens"],
        ),
        ("long.txt", &["long.txt:2:", "1000000 bytes"]),
        ("utf8.jsonl", &["utf8.jsonl:2:", "invalid UTF-8"]),
        ("array.json", &["array.json: item 2:", "found a number"]),
        ("open.json", &["open.json: not a JSON array", "EOF"]),
        ("mixed.jsonl", &["mixed.jsonl:3:", "line 1 is plain text"]),
        ("table.csv", &["table.csv:2:", "\"problem\": missing"]),
        (
            "head.txt",
            &["head.txt:2:", "3 values where the head has 2 names"],
        ),
        ("packed.jsonl", &["packed.jsonl: ", "give a readable file"]),
    ];
    for (file, words) in cases {
        for command in ["solve", "bench"] {
            place
                .run(&[command, file])
                .assert_refused(&format!("{command} {file}"), words);
        }
    }
    place
        .run_with_input(&["solve", "-"], "")
        .assert_refused("stdin", &["<stdin>", "no problems"]);
}

#[test]
fn a_question_is_solved_and_a_missing_file_is_told() {
    let place = Place::new();
    let question = "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?";
    let solved = place.run(&["solve", question, "--json"]).ok();
    assert_eq!(solved.stderr, "");
    assert_eq!(solved.json()[0]["answer"], "21");
    assert_eq!(solved.json()[0]["problem"], question);
    for name in ["none.jsonl", "my problems.jsonl", "no such/folder"] {
        let words = [name, "No such file", "a question in quotes"];
        place.run(&["solve", name]).assert_refused(name, &words);
    }
    // A file of that name is a file.
    place.write("How many?", "What is 1 + 1?\n");
    let solved = place.run(&["solve", "How many?", "-n", "1", "-m", "1", "--json"]);
    assert_eq!(solved.ok().json()[0]["problem"], "What is 1 + 1?");
}

#[test]
fn a_wrong_flag_points_to_the_help_of_its_command() {
    let place = Place::new();
    for (args, help) in [
        (&["solve", "--nope"][..], "`beamgen solve --help`"),
        (&["labels", "stat"], "`beamgen labels stat --help`"),
        (&["slove"], "`beamgen --help`"),
    ] {
        place.run(args).assert_refused(help, &[help]);
    }
}

/// A flag that is taken says that it acts.
#[test]
fn flags_that_change_nothing_are_refused() {
    let place = Place::new();
    for (args, words) in [
        (
            &["solve", "--combine", "min"][..],
            ["--combine", "--judge or --checker"],
        ),
        (&["bench", "--combine", "min"], ["--combine", "--judge"]),
        (
            &["solve", "--checker-timeout", "1"],
            ["--checker-timeout", "--checker-command"],
        ),
        (
            &["solve", "--scorer", "exact", "--max-error", "0.1"],
            ["--max-error", "--scorer prm or orm"],
        ),
        (
            &["solve", "--scorer", "exact", "--prm", "models"],
            ["--prm ", "--scorer prm or orm"],
        ),
        (
            &["label", "--out", "l.jsonl", "--prm", "models"],
            ["--prm ", "--mine"],
        ),
    ] {
        place.run(args).assert_refused(&args.join(" "), &words);
    }
}

/// The bundled models as folders are what the program carries.
#[test]
fn the_bundled_models_can_be_written() {
    let place = Place::new();
    place.run(&["models", "--write", "bundled", "out"]).ok();
    for model in ["generator", "prm", "orm"] {
        let written = std::fs::read_dir(place.path("out").join(model)).expect("a folder");
        let mut count = 0;
        for entry in written {
            let name = entry.expect("an entry").file_name();
            let bytes = |folder: PathBuf| std::fs::read(folder.join(model).join(&name));
            let carried = bytes(root().join("models/abacus")).expect("a file");
            assert!(
                bytes(place.path("out")).expect("a file") == carried,
                "{model} {name:?}"
            );
            count += 1;
        }
        let carried = std::fs::read_dir(root().join("models/abacus").join(model));
        assert_eq!(count, carried.expect("a folder").count(), "{model}");
    }
    place
        .run(&["models", "--write", "bundled", "out"])
        .assert_refused("twice", &["out/generator", "exists already"]);
    place
        .run(&["models", "--write", "other", "new"])
        .assert_refused("another model", &["--write other", "--write bundled DIR"]);
}

#[test]
fn byte_order_marks_do_not_hide_json() {
    let place = Place::new();
    place.write("marks.jsonl", format!("\u{feff}\u{feff}{PROBLEM}"));
    let ran = place
        .run(&["solve", "marks.jsonl", "-n", "1", "-m", "1"])
        .ok();
    assert!(
        ran.stdout.contains("[1] Mia has 34 pens."),
        "{}",
        ran.stdout
    );
}

/// The words for "the one that comes with the program" and "no one" where a model is named.
#[test]
fn bundled_and_none_are_names_of_models() {
    let place = Place::new();
    let solve = |more: &[&str]| {
        let args = ["solve", "--limit", "3", "--quiet", "-n", "4", "--json"];
        let ran = place.run(&[&args[..], more].concat()).ok();
        ran.stdout.lines().map(timeless).collect::<Vec<_>>()
    };
    let bundled = solve(&["--generator", "bundled", "--prm", "bundled"]);
    assert_eq!(bundled, solve(&[]));
    assert_eq!(bundled, solve(&["--set", "models.prm=bundled"]));
    let vote = ["--strategy", "majority"];
    let unscored = solve(&[&vote[..], &["--scorer", "none"]].concat());
    assert_eq!(unscored, solve(&[&vote[..], &["--prm", "none"]].concat()));
    place
        .run(&["models", "--generator", "bundled", "--prm", "bundled"])
        .ok();
    for args in [
        &["score", "chains.jsonl", "--prm", "none"][..],
        &["eval-prm", "--data", "chains.jsonl", "--prm", "none"],
        &["bench", "--prm", "none"],
        &["models", "--prm", "none"],
    ] {
        place
            .run(args)
            .assert_refused(&args.join(" "), &["--prm none"]);
    }
    // What lies there goes before the word.
    std::fs::create_dir(place.path("bundled")).expect("a folder");
    place
        .run(&["solve", "--generator", "bundled", "--prm", "bundled"])
        .assert_refused("a folder of that name", &["bundled", "config.json"]);
}

/// A line of output without what a clock says.
fn timeless(line: &str) -> serde_json::Value {
    let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    for ledger in ["/ledger", "/summary/ledger"] {
        if let Some(serde_json::Value::Object(ledger)) = line.pointer_mut(ledger) {
            ledger.retain(|key, _| !key.contains("seconds"));
        }
    }
    line
}

#[test]
fn settings() {
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
    place.write("unknown.toml", "[search]\nn = 8\nwidth = 3\n");
    place.write("type.toml", "[search]\nn = \"eight\"\n");
    place.write("value.toml", "[search]\nn = 2\nm = 4\n");
    place.write("broken.toml", "[search\n");
    let cases: &[(&[&str], &[&str])] = &[
        (&["-n", "0"], &["n"]),
        (&["-n", "2", "-m", "4"], &["n", "m"]),
        (&["-n", "9000000000"], &["n", "at most"]),
        (&["-m", "0"], &["m"]),
        (&["-n", "x"], &["'x'", "-n"]),
        (&["--in-flight", "0"], &["in_flight"]),
        (&["--temperature", "-1"], &["temperature"]),
        (&["--temperature", "NaN"], &["temperature"]),
        (&["--top-p", "0"], &["top_p"]),
        (&["--strategy", "magic"], &["'magic'", "--strategy", "beam"]),
        (&["--aggregation", "sum"], &["'sum'", "--aggregation"]),
        (&["--aggregation", "soft-min:0"], &["soft-min", "positive"]),
        (
            &["--strategy", "refine", "--early-rejection", "8"],
            &["early_rejection", "beam", "dvts"],
        ),
        (&["--consensus"], &["consensus", "majority"]),
        (
            &["--strategy", "majority", "--speculate"],
            &["speculate", "rounds"],
        ),
        (&["--threshold", "1.5"], &["threshold", "1.5"]),
        (
            &["--kv-memory", "much"],
            &["--kv-memory", "\"much\"", "2GiB"],
        ),
        (&["--kv-memory", "1kB"], &["kv_bytes", "use at least"]),
        (
            &["--set", "engine.kv_bytes=2 gibs"],
            &["kv_bytes", "2 gibs"],
        ),
        (
            &["--strategy", "mcts", "--scorer", "none"],
            &["mcts", "scorer"],
        ),
        (
            &["--set", "search.mcts.explore=2"],
            &["search.mcts.explore=2", "exploration"],
        ),
        (
            &["--set", "search.stategy=dvts"],
            &["no key `search.stategy`", "`search.strategy`"],
        ),
        (&["--set", "search.n"], &["search.n", "="]),
        (
            &["--set", "search.rebase.temperature=0"],
            &["rebase.temperature", "positive"],
        ),
        (&["--frobnicate"], &["--frobnicate"]),
        (&["--config", "none.toml"], &["none.toml", "No such file"]),
        (&["--config", "unknown.toml"], &["unknown.toml:3:", "width"]),
        (&["--config", "type.toml"], &["type.toml:2:", "n"]),
        (&["--config", "value.toml"], &["n", "m"]),
        (&["--config", "broken.toml"], &["broken.toml:1:"]),
        (&["--resume"], &["--resume", "--out"]),
        (&["--out", "none/run.jsonl"], &["none/run.jsonl"]),
        (&["--generator", "none"], &["--generator none", "--prm"]),
        (
            &["--generator-url", "http://localhost:1"],
            &["--generator-url http://localhost:1", "--prm"],
        ),
        (&["--prm", "none"], &["needs a scorer", "--scorer"]),
        (
            &["--prm", "none", "--scorer", "orm"],
            &["--prm none", "--scorer orm"],
        ),
        (&["--prm", "bundeld"], &["bundeld", "did you mean bundled?"]),
        (
            &["--prm", "Qwen/Qwen2.5-Math-PRM-8B"],
            &["did you mean Qwen/Qwen2.5-Math-PRM-7B?"],
        ),
        (&["--seeed", "1"], &["--seeed", "similar", "--seed"]),
        (&["--generator", "none", "--scorer", "prm"], &["--prm"]),
    ];
    for (args, words) in cases {
        let args = [&["solve", "p.jsonl"], *args].concat();
        place.run(&args).assert_refused(&args.join(" "), words);
    }
    place
        .run(&["sovle"])
        .assert_refused("a command misspelt", &["sovle", "solve"]);
}

/// A copy of a bundled model that a test may damage.
fn copied(place: &Place, name: &str) -> PathBuf {
    place.copy(&root().join("models/abacus").join(name), name)
}

fn truncate(path: &Path, bytes: u64) {
    std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|f| f.set_len(bytes))
        .expect("truncated");
}

#[test]
fn checkpoints() {
    type Damage = fn(&Path);
    let cases: &[(&str, Damage, &[&str])] = &[
        (
            "no config",
            |dir| std::fs::remove_file(dir.join("config.json")).unwrap(),
            &["config.json"],
        ),
        (
            "no weights",
            |dir| std::fs::remove_file(dir.join("model.safetensors")).unwrap(),
            &["safetensors"],
        ),
        (
            "no tokenizer",
            |dir| std::fs::remove_file(dir.join("tokenizer.json")).unwrap(),
            &["tokenizer.json"],
        ),
        (
            "config not JSON",
            |dir| std::fs::write(dir.join("config.json"), "{").unwrap(),
            &["config.json"],
        ),
        (
            "weights cut in the data",
            |dir| truncate(&dir.join("model.safetensors"), 100_000),
            &["model.safetensors"],
        ),
        (
            "weights cut in the header",
            |dir| truncate(&dir.join("model.safetensors"), 20),
            &["model.safetensors"],
        ),
        (
            "weights empty",
            |dir| truncate(&dir.join("model.safetensors"), 0),
            &["model.safetensors"],
        ),
        (
            "a tokenizer of another model",
            larger_vocabulary,
            &["does not match", "vocabulary"],
        ),
    ];
    for (name, damage, words) in cases {
        let place = Place::new();
        place.write("p.jsonl", PROBLEM);
        let dir = copied(&place, "generator");
        damage(&dir);
        let args = [
            "solve",
            "p.jsonl",
            "--generator",
            "generator",
            "--scorer",
            "none",
            "--strategy",
            "greedy",
        ];
        place
            .run(&args)
            .assert_refused(&format!("generator: {name}"), words);

        let place = Place::new();
        place.write("p.jsonl", PROBLEM);
        copied(&place, "generator");
        damage(&copied(&place, "prm"));
        let args = [
            "solve",
            "p.jsonl",
            "--generator",
            "generator",
            "--prm",
            "prm",
        ];
        place
            .run(&args)
            .assert_refused(&format!("prm: {name}"), words);
    }
}

/// Gives the tokenizer thousands of tokens that the model does not have.
fn larger_vocabulary(dir: &Path) {
    let path = dir.join("tokenizer.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut tokenizer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let vocabulary = tokenizer["model"]["vocab"].as_object_mut().unwrap();
    let known = vocabulary.len();
    for id in known..known + 5000 {
        vocabulary.insert(format!("token{id}"), id.into());
    }
    std::fs::write(path, tokenizer.to_string()).unwrap();
}
