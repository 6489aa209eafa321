use super::*;

fn read(bytes: impl AsRef<[u8]>) -> Result<Vec<Problem>, String> {
    Problems::read(bytes.as_ref(), "f")
        .map(|p| p.problems)
        .map_err(|e| e.to_string())
}

fn message(bytes: impl AsRef<[u8]>) -> String {
    let message = read(bytes).unwrap_err();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn json_lines_with_every_key() {
    let got = read(
        "\u{feff}{\"problem\": \"p\", \"answer\": 42}\r\n\n{\"question\": \"q\", \"id\": \"x\", \"answer\": \"so\\n#### 7\"}\n\
         {\"prompt\": \"r\", \"id\": 9, \"answer\": null, \"level\": 3}",
    )
    .unwrap();
    let rows: Vec<_> = got
        .iter()
        .map(|p| (p.id.as_str(), p.text.as_str(), p.answer.as_deref()))
        .collect();
    assert_eq!(
        rows,
        [
            ("1", "p", Some("42")),
            ("x", "q", Some("7")),
            ("9", "r", None)
        ]
    );
}

/// In the layouts of published data sets, every field must be read or be in the note on unread keys.
#[test]
fn layouts_of_published_files() {
    for (line, text, answer) in [
        (
            r#"{"body": "It holds 5 pears. ", "question": "How many?", "answer": "5 (pears)"}"#,
            "It holds 5 pears. How many?",
            Some("5 (pears)"),
        ),
        (
            r#"{"ID": "chal-1", "Body": "A. ", "Question": "B?", "Answer": 4.0}"#,
            "A. B?",
            Some("4.0"),
        ),
        (
            r#"{"problem": "p", "body": "other", "level": 1, "solution": "so $x = \\boxed{2}$."}"#,
            "p",
            Some("2"),
        ),
        (
            r#"{"question": "q", "final_answer": ["3"], "solution": ["long"]}"#,
            "q",
            Some("3"),
        ),
        (
            r#"{"question": "q", "solution": "The answer is 3."}"#,
            "q",
            None,
        ),
        (r#"{"input": "q", "target": "so\n#### 3"}"#, "q", Some("3")),
        (r#"{"prompt": "q", "gold": 3, "target": 4}"#, "q", Some("3")),
        (
            r#"{"Problem": "q", "Expected_Answer": "3", "input": "other"}"#,
            "q",
            Some("3"),
        ),
    ] {
        let got = &read(line).unwrap()[0];
        assert_eq!((got.text.as_str(), got.answer.as_deref()), (text, answer));
    }
}

#[test]
fn keys_that_may_hold_the_answer_are_named() {
    let note = |text: &str| Problems::read(text.as_bytes(), "f").unwrap().unread_note();
    let lines = "{\"problem\": \"p\", \"key\": 3, \"id\": 1}\n{\"problem\": \"q\", \"final_answer\": [1, 2]}\n\
                 {\"problem\": \"r\", \"answer\": 1, \"level\": 2}\n{\"problem\": \"s\"}";
    let told = note(lines).unwrap();
    let wanted = "f: 2 problems have no reference answer; not read: \"final_answer\", \"key\"";
    assert!(told.starts_with(wanted), "{told}");
    assert_eq!(
        note("{\"problem\": \"s\"}\n{\"problem\": \"r\", \"answer\": 1}"),
        None
    );
    assert_eq!(note("What?"), None);
}

#[test]
fn text_has_a_problem_a_line() {
    let got = read("\nWhat is 1 + 1?\n\n  And { 2 }? ").unwrap();
    let rows: Vec<_> = got
        .iter()
        .map(|p| (p.id.as_str(), p.text.as_str()))
        .collect();
    assert_eq!(rows, [("2", "What is 1 + 1?"), ("4", "And { 2 }?")]);
    assert_eq!(read("[0, 1] is an interval?").unwrap().len(), 1);
    let prose = "Problem, then answer\nThe question: 1, 2 or 3?";
    assert_eq!(read(prose).unwrap().len(), 2);
}

#[test]
fn tables_are_told_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let opened = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        Problems::open(&path).map_err(|error| error.to_string())
    };
    for (name, separator) in [("p.csv", "commas"), ("p.TSV", "tabs")] {
        let refused = opened(name, "What is 1 + 1?\n").unwrap_err();
        assert!(refused.contains(separator), "{refused}");
    }
    // JSON lines under any name are what they are.
    assert!(opened("lines.csv", "{\"problem\": \"p\"}").is_ok());
}

#[test]
fn a_question_is_one_problem() {
    let asked = Problems::question(" Solve:\nx = 1, 2\n").unwrap();
    assert_eq!(asked.problems[0].text, "Solve:\nx = 1, 2");
    assert_eq!(
        (asked.problems.len(), asked.problems[0].id.as_str()),
        (1, "1")
    );
    assert!(Problems::question(" ").is_err());
}

#[test]
fn faults_name_file_line_and_field() {
    let ok = "{\"problem\": \"p\"}\n";
    for (bytes, want) in [
        ("".to_owned(), "f: no problems"),
        (" \n\n".to_owned(), "f: no problems"),
        (format!("{ok}What?"), "f:2: not JSON"),
        (
            format!("{ok}{{\"problem\": \"p\""),
            "f:2: not JSON (EOF while parsing an object at column 15)",
        ),
        (format!("{ok}[1]"), "f:2: found a list"),
        (
            format!("{ok}{{\"text\": \"p\"}}"),
            "f:2: field \"problem\": missing (\"question\", \"prompt\" and \"input\" do as well), found \"text\"",
        ),
        (
            "{\"question\": [1]}".to_owned(),
            "f:1: field \"question\": found a list: write a string",
        ),
        (
            "{\"problem\": \" \"}".to_owned(),
            "f:1: field \"problem\": empty",
        ),
        (
            "{\"problem\": \"p\", \"answer\": [1]}".to_owned(),
            "f:1: field \"answer\": found a list",
        ),
        (
            "{\"problem\": \"p\", \"id\": true}".to_owned(),
            "f:1: field \"id\": found a boolean",
        ),
        (
            "{\"problem\": \"p\", \"id\": 2}\n{\"problem\": \"p\"}".to_owned(),
            "f:2: field \"id\": \"2\" is also on line 1",
        ),
        ("[\n{\"problem\": \"p\"}]".to_owned(), "f:1: a JSON array"),
        (
            "id,problem,answer\n1,What?,2".to_owned(),
            "f:1: a table with commas between its values: write JSON lines",
        ),
        (
            "\"Question\"\t\"Final answer\"\n".to_owned(),
            "f:1: a table with tabs between its values",
        ),
        (
            format!("{{\"problem\": \"{}\"}}", "a".repeat(1_000_000)),
            "f:1: field \"problem\": 1000000 bytes, at most 262144",
        ),
        ("a".repeat(1_000_000), "f:1: field \"text\": 1000000 bytes"),
        (
            "a".repeat(MAX_LINE_BYTES + 1),
            "f:1: the line is longer than 8 MiB",
        ),
    ] {
        let got = message(&bytes);
        assert!(got.starts_with(want), "{got}");
    }
    let got = message(b"\x1f\x8b\x08\x00\n");
    assert!(
        got.starts_with("f:1: compressed by gzip: unpack it"),
        "{got}"
    );
    let got = message(b"PAR1\x15\x04");
    assert!(got.contains("read_parquet"), "{got}");
    let got = message(b"What is 1?\nWhat \xff is 2?\n");
    assert!(got.starts_with("f:2: invalid UTF-8 at byte 5"), "{got}");
}

#[test]
fn files_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    for (path, want) in [
        (dir.path().join("none.jsonl"), "No such file"),
        (dir.path().to_owned(), "directory"),
    ] {
        let got = Problems::open(&path).unwrap_err().to_string();
        assert!(
            got.contains(want) && got.contains(&*path.display().to_string()),
            "{got}"
        );
        assert!(!got.contains("os error"), "{got}");
    }
}

#[test]
fn the_fingerprint_sees_every_field() {
    let print = |text: &str| Problems::read(text.as_bytes(), "f").unwrap().fingerprint();
    let base = print("{\"problem\": \"ab\", \"answer\": 1}");
    assert_eq!(base, print("{\"question\": \"ab\", \"answer\": \"1\"}\n\n"));
    for other in [
        "{\"problem\": \"ab\"}",
        "{\"problem\": \"a\", \"answer\": \"b1\"}",
        "{\"problem\": \"ab\", \"answer\": 2}",
        "{\"problem\": \"ab\", \"answer\": 1, \"id\": 2}",
        "{\"problem\": \"ab\", \"answer\": 1, \"steps\": [\"c\"]}",
    ] {
        assert_ne!(base, print(other), "{other}");
    }
}

#[test]
fn given_steps_are_read_and_change_the_fingerprint_only_where_they_are() {
    let read = |text: &str| Problems::read(text.as_bytes(), "f");
    let given = r#"{"problem": "p", "answer": 1, "steps": ["a", {"text": "b\n", "right": true}]}"#;
    let given = read(given).unwrap();
    assert_eq!(given.problems[0].steps, ["a", "b\n"]);
    let refused = given.refuse_steps().unwrap_err().to_string();
    assert!(refused.starts_with("f:1: field \"steps\": "), "{refused}");
    let note = given.given_note().unwrap();
    assert!(note.starts_with("f: 1 problem gives \"steps\""), "{note}");
    let none = [
        r#"{"problem": "p", "answer": 1, "steps": []}"#,
        r#"{"problem": "p", "answer": 1, "steps": null}"#,
        r#"{"problem": "p", "answer": 1}"#,
    ]
    .map(|text| read(text).unwrap());
    assert!(none.iter().all(|none| none.given_note().is_none()));
    // As builds that knew no steps wrote it.
    assert_eq!(
        none[2].fingerprint(),
        "sha256:02ec7b96825b6b0da45c0ed93533e4f1"
    );
    assert!(
        none.iter()
            .all(|other| other.fingerprint() == none[2].fingerprint())
    );
    assert_ne!(given.fingerprint(), none[2].fingerprint());
    for (steps, fault) in [
        (
            "3",
            "f:1: field \"steps\": found a number: write a list of at least one string",
        ),
        ("[\"a\", 2]", "f:1: field \"steps[1]\": write a string"),
        ("[\"a\", \" \"]", "f:1: field \"steps[1]\": empty"),
    ] {
        let error = read(&format!("{{\"problem\": \"p\", \"steps\": {steps}}}")).unwrap_err();
        assert!(error.to_string().starts_with(fault), "{error}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_handled(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = Problems::read(bytes.as_slice(), "f");
    }
}

#[test]
fn a_context_is_read_and_changes_the_fingerprint_only_where_it_is() {
    let read = |text: &str| Problems::read(text.as_bytes(), "f");
    let with = |context: &str| read(&format!(r#"{{"problem": "p", "answer": 1{context}}}"#));
    let none = with("").unwrap();
    for (context, documents) in [
        (r#", "context": "a""#, &["a"][..]),
        (
            r#", "documents": ["a", {"title": "t", "text": "b"}]"#,
            &["a", "b"],
        ),
        (r#", "Passage": "a", "context": null"#, &["a"]),
    ] {
        let given = with(context).unwrap();
        assert_eq!(given.problems[0].context, documents, "{context}");
        assert_ne!(given.fingerprint(), none.fingerprint());
    }
    for context in [r#", "context": """#, r#", "context": []"#] {
        assert_eq!(with(context).unwrap().fingerprint(), none.fingerprint());
    }
    let steps = with(r#", "steps": ["a"]"#).unwrap();
    let context = with(r#", "context": ["a"]"#).unwrap();
    assert_ne!(steps.fingerprint(), context.fingerprint());
    let long = format!(r#", "context": "{}""#, "x".repeat(MAX_PROBLEM_BYTES));
    for (context, wanted) in [
        (
            r#", "context": {"title": "t"}"#,
            "field \"context\": found an object",
        ),
        (
            r#", "documents": ["a", 3]"#,
            "field \"documents[1]\": write a string",
        ),
        (r#", "passage": [" "]"#, "field \"passage[0]\": empty"),
        (&*long, "field \"context\": 262147 bytes"),
    ] {
        let fault = with(context).unwrap_err().to_string();
        assert!(fault.contains(wanted) && !fault.contains('\n'), "{fault}");
    }
    // It is no key that was not read.
    let read_all = read(r#"{"problem": "p", "context": "c"}"#).unwrap();
    assert_eq!(read_all.unread_note(), None);
}
