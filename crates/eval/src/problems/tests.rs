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
        (
            r#"{"problem": "q", "level": "Level 1", "type": "t", "solution": "\\boxed{2}", "answer": "3"}"#,
            "q",
            Some("3"),
        ),
        (
            r#"{"problem": "q", "solution": 27.0, "url": "https://x"}"#,
            "q",
            Some("27.0"),
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

/// Files are joined without a line break between them.
#[test]
fn two_problems_on_a_line_have_two_ids() {
    let got =
        read("{\"problem\": \"a\"}{\"problem\": \"b\"} {\"problem\": \"c\"}\n{\"problem\": \"d\"}")
            .unwrap();
    let ids: Vec<&str> = got.iter().map(|problem| problem.id.as_str()).collect();
    assert_eq!(ids, ["1", "1-2", "1-3", "2"]);
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
fn tables_and_arrays_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let opened = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        Problems::open(&path).map_err(|error| error.to_string())
    };
    for (name, text) in [
        ("p.csv", "id,Question,answer\na,\"What, now?\",2\n"),
        ("p.TSV", "id\tquestion\tanswer\na\tWhat, now?\t2\n"),
        (
            "p.json",
            r#"[{"id": "a", "question": "What, now?", "answer": 2}]"#,
        ),
        // JSON lines under any name are what they are.
        (
            "lines.csv",
            r#"{"id": "a", "question": "What, now?", "answer": 2}"#,
        ),
    ] {
        let read = opened(name, text).unwrap();
        let problem = &read.problems[0];
        let found = (
            problem.id.as_str(),
            problem.text.as_str(),
            problem.answer.as_deref(),
        );
        assert_eq!(found, ("a", "What, now?", Some("2")), "{name}");
    }
    let refused = opened("p.csv", "What is 1 + 1?\nb\n").unwrap_err();
    assert!(
        refused.contains(":2: field \"problem\": missing"),
        "{refused}"
    );
}

/// A faithful record of each set in the table: its own keys, with shorter texts.
#[test]
fn known_sets() {
    let rows = [
        (
            "GSM8K",
            r#"{"question": "q", "answer": "so <<1+1=2>>\n#### 2"}"#,
            "q",
            Some("2"),
        ),
        (
            "MATH-500",
            r#"{"problem": "q", "solution": "\\boxed{3}", "answer": "3", "subject": "Algebra", "level": 2, "unique_id": "test/algebra/1.json"}"#,
            "q",
            Some("3"),
        ),
        (
            "MATH",
            r#"{"problem": "q", "level": "Level 5", "type": "Algebra", "solution": "so $\\boxed{\\frac{1}{2}}$."}"#,
            "q",
            Some("\\frac{1}{2}"),
        ),
        (
            "AIME or AMC",
            r#"{"id": 0, "problem": "q", "solution": "long", "answer": "204", "url": "https://x"}"#,
            "q",
            Some("204"),
        ),
        (
            "AIME or AMC",
            r#"{"id": 1, "problem": "q", "answer": 27.0, "url": "https://x"}"#,
            "q",
            Some("27.0"),
        ),
        (
            "OlympiadBench",
            r#"{"id": 1, "question": "q", "solution": ["s"], "final_answer": ["$2$"], "context": null, "is_multiple_answer": false, "answer_type": "Numerical"}"#,
            "q",
            Some("$2$"),
        ),
        (
            "SVAMP",
            r#"{"ID": "chal-1", "Body": "b.", "Question": "q?", "Equation": "( 8.0 - 3.0 )", "Answer": "5.0", "Type": "Subtraction"}"#,
            "b. q?",
            Some("5.0"),
        ),
        (
            "ASDiv",
            r#"{"body": "b.", "question": "q?", "solution_type": "Addition", "answer": "9 (apples)", "formula": "7+2=9"}"#,
            "b. q?",
            Some("9 (apples)"),
        ),
        (
            "MAWPS",
            r#"{"id": "mawps__1", "question": "q", "chain": "<gadget/>", "result": "4", "result_unit": "cm", "expression": "1 + 3"}"#,
            "q",
            Some("4"),
        ),
        (
            "MAWPS",
            r#"{"iIndex": 1, "sQuestion": "q", "lEquations": ["x=1+3"], "lSolutions": [4.0]}"#,
            "q",
            Some("4.0"),
        ),
        (
            "MMLU-Pro",
            r#"{"question_id": 70, "question": "q", "options": ["x", "y"], "answer": "B", "answer_index": 1, "category": "law"}"#,
            "q\n\nA. x\nB. y",
            Some("B"),
        ),
        (
            "HumanEval",
            r#"{"task_id": "HumanEval/0", "prompt": "def f():", "canonical_solution": "return 1", "test": "def check(f): assert f() == 1", "entry_point": "f"}"#,
            "def f():",
            None,
        ),
        (
            "MBPP",
            r#"{"task_id": 11, "text": "q", "code": "c", "test_list": ["assert f()"], "test_setup_code": ""}"#,
            "q",
            None,
        ),
        (
            "PRMBench",
            r#"{"original_question": "q", "modified_question": "r", "original_process": ["a"], "modified_process": ["b"], "modified_steps": [1], "error_steps": [1], "idx": "x"}"#,
            "q",
            None,
        ),
        (
            "PRM800K",
            r#"{"labeler": "l", "question": {"problem": "q", "ground_truth_answer": "7"}, "label": {"steps": []}}"#,
            "q",
            Some("7"),
        ),
        (
            "Math-Shepherd",
            r#"{"input": "q? Step 1: We add. \u043a\u0438", "label": "q? Step 1: We add. +", "task": "GSM8K"}"#,
            "q?",
            None,
        ),
        (
            "verl",
            r#"{"data_source": "openai/gsm8k", "prompt": [{"role": "user", "content": "q"}], "ability": "math", "reward_model": {"style": "rule", "ground_truth": "72"}}"#,
            "q",
            Some("72"),
        ),
        (
            "OpenRLHF",
            r#"{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}], "label": "5"}"#,
            "q",
            Some("5"),
        ),
        (
            "messages",
            r#"{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "\\boxed{6}"}]}"#,
            "q",
            Some("6"),
        ),
    ];
    for (set, line, text, answer) in rows {
        let got = Problems::read(line.as_bytes(), "f").unwrap();
        let problem = got.problems[0].clone();
        let found = (problem.text.as_str(), problem.answer.as_deref());
        assert_eq!(found, (text, answer), "{set}");
        assert_eq!(
            got.found.unwrap().sets.iter().collect::<Vec<_>>(),
            [&set],
            "{line}"
        );
        assert_eq!(
            problem.tests.is_some(),
            matches!(set, "HumanEval" | "MBPP"),
            "{set}"
        );
    }
    let code = Problems::read(rows[11].1.as_bytes(), "f").unwrap();
    assert_eq!(code.problems[0].id, "HumanEval/0");
    let tests = code.problems[0].tests.as_ref().unwrap();
    assert_eq!(tests["entry_point"], "f");
    assert_eq!(code.unread_note(), None);
}

/// Returns a record of GPQA: the right option, then three wrong ones.
fn gpqa(order: [&str; 4]) -> String {
    let [right, a, b, c] = order;
    format!(
        r#"{{"Question": "q", "Correct Answer": "{right}", "Incorrect Answer 1": "{a}", "Incorrect Answer 2": "{b}", "Incorrect Answer 3": "{c}", "Record ID": "rec1"}}"#
    )
}

#[test]
fn options_of_gpqa_have_an_order_of_their_own() {
    let first = read(gpqa(["w", "x", "y", "z"])).unwrap();
    let (text, answer) = (&first[0].text, first[0].answer.as_deref().unwrap());
    assert!(text.contains(&format!("\n{answer}. w")), "{text}: {answer}");
    // The order depends on the texts alone, not on which of them is right.
    let other = read(gpqa(["y", "z", "w", "x"])).unwrap();
    assert_eq!(&other[0].text, text);
    assert!(text.contains(&format!("\n{}. y", other[0].answer.as_deref().unwrap())));
    let letters: std::collections::BTreeSet<String> = (0..40)
        .map(|i| {
            read(gpqa([&format!("w{i}"), "x", "y", "z"])).unwrap()[0]
                .answer
                .clone()
                .unwrap()
        })
        .collect();
    assert_eq!(letters.len(), 4, "{letters:?}");
}

#[test]
fn named_keys_win() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.jsonl");
    let line =
        r#"{"question": "q", "answer": 1, "text": "other", "key": [2], "worked": "\\boxed{3}"}"#;
    std::fs::write(&path, line).unwrap();
    let opened = |problem: Option<&str>, answer: Option<&str>, solution: Option<&str>| {
        let keys = NamedKeys {
            problem: problem.map(str::to_owned),
            answer: answer.map(str::to_owned),
            solution: solution.map(str::to_owned),
        };
        let read = Problems::open_with(&path, &keys, Wanted::default())
            .map_err(|error| error.to_string())?;
        let problem = read.problems[0].clone();
        Ok::<_, String>((problem.text, problem.answer))
    };
    let found = |text: &str, answer: &str| Ok((text.to_owned(), Some(answer.to_owned())));
    assert_eq!(opened(None, None, None), found("q", "1"));
    assert_eq!(opened(Some("text"), Some("key"), None), found("other", "2"));
    assert_eq!(opened(None, None, Some("worked")), found("q", "3"));
    let refused = opened(None, Some("gold"), None).unwrap_err();
    assert!(
        refused.contains(":1: no \"gold\", which was named, but \"question\", \"answer\""),
        "{refused}"
    );
}

/// Returns a record of MATH.
fn math(level: usize) -> String {
    format!(
        r#"{{"problem": "{level}", "level": "Level {level}", "type": "t", "solution": "\\boxed{{3}}"}}"#
    )
}

#[test]
fn what_was_found_is_one_sentence() {
    let note = |text: &str| {
        Problems::read(text.as_bytes(), "f")
            .unwrap()
            .found_note()
            .unwrap()
    };
    assert_eq!(
        note(&format!("{}\n{}", math(1), math(5))),
        "f: 2 problems in the layout of MATH, 2 answers from \"solution\", levels 1 to 5"
    );
    assert_eq!(note("What?"), "f: 1 problem, no reference answers");
    assert_eq!(
        note("{\"problem\": \"p\", \"gold\": 3}\n{\"problem\": \"q\"}"),
        "f: 2 problems, 1 answer from \"gold\""
    );
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
        (
            "[\n{\"problem\": \"p\"}, 7]".to_owned(),
            "f: item 2: found a number",
        ),
        ("[".to_owned(), "f: not a JSON array (EOF"),
        ("[]".to_owned(), "f: no problems"),
        (
            "id,problem,answer\n1,What?".to_owned(),
            "f:2: 2 values where the head has 3 names",
        ),
        (
            format!("{{\"problem\": \"{}\"}}", "a".repeat(1_000_000)),
            "f:1: field \"problem\": 1000000 bytes, at most 262144",
        ),
        ("a".repeat(1_000_000), "f:1: field \"text\": 1000000 bytes"),
        (
            "a".repeat(beamgen_records::MAX_LINE_BYTES + 1),
            "f:1: the line is longer than 16 MiB",
        ),
    ] {
        let got = message(&bytes);
        assert!(got.starts_with(want), "{got}");
    }
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

/// Reads `text` as a file: the problems from `start` to `end`, of which `limit` are kept.
fn part(
    text: &str,
    start: usize,
    end: Option<usize>,
    limit: Option<usize>,
) -> Result<Problems, ProblemsError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.jsonl");
    std::fs::write(&path, text).unwrap();
    Problems::open_with(&path, &NamedKeys::default(), Wanted { start, end, limit })
}

fn ids(problems: &Problems) -> Vec<&str> {
    problems
        .problems
        .iter()
        .map(|problem| problem.id.as_str())
        .collect()
}

#[test]
fn a_part_of_a_file_is_kept_and_all_of_it_identifies_the_run() {
    let mut lines = String::new();
    for at in 0..9 {
        lines += &format!("{{\"problem\": \"P{at}\", \"answer\": \"{at}\", \"level\": {at}}}\n");
    }
    let all = part(&lines, 0, None, None).unwrap();
    let two = part(&lines, 0, None, Some(2)).unwrap();
    assert_eq!(
        (ids(&two), two.is_cut(), all.is_cut()),
        (vec!["1", "2"], true, false)
    );
    assert_eq!(two.fingerprint(), all.fingerprint());
    let slice = part(&lines, 3, Some(6), None).unwrap();
    let first = part(&lines, 3, Some(6), Some(1)).unwrap();
    assert_eq!((ids(&slice), ids(&first)), (vec!["4", "5", "6"], vec!["4"]));
    assert_eq!(slice.fingerprint(), first.fingerprint());
    assert_ne!(slice.fingerprint(), all.fingerprint());
    let note = slice.found_note().unwrap();
    assert!(
        note.ends_with("3 problems, 3 answers from \"answer\", levels 3 to 5"),
        "{note}"
    );
    // A record that is left out is still read, so a fault in it is found.
    let fault = part(&format!("{lines}{{\"answer\": 1}}\n"), 0, None, Some(1)).unwrap_err();
    assert!(fault.to_string().contains("p.jsonl:10: "), "{fault}");
    assert!(
        part(&lines, 9, None, None)
            .unwrap_err()
            .to_string()
            .contains("no problem")
    );
}
