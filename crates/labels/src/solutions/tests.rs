use std::io::Write;

use serde_json::json;

use super::*;

fn opened(text: &str, limit: Option<usize>) -> Result<Pool, String> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let name = file.path().display().to_string();
    open(file.path(), limit).map_err(|error| error.to_string().replace(&name, "FILE"))
}

fn one(record: Value) -> Solved {
    let pool = opened(&record.to_string(), None).expect("a pool");
    pool.problems.into_iter().next().expect("a problem")
}

fn whole(text: &str) -> Text {
    Text::Whole(text.to_owned())
}

#[test]
fn every_layout_is_recognised_and_read() {
    let own = one(json!({
        "problem": "1 + 1?", "answer": "so\n#### 2", "solutions": [
            "It is 2.",
            {"text": "3", "answer": 3, "score": 0.25},
            {"steps": ["1 + 1 = 2", "2"], "scores": [0.5, 1], "first_error": -1},
        ],
    }));
    assert_eq!(
        (own.id.as_deref(), own.reference.as_deref()),
        (Some("1"), Some("2"))
    );
    assert_eq!(own.solutions[0].text, whole("It is 2."));
    assert_eq!(own.solutions[1].answer.as_deref(), Some("3"));
    assert_eq!(own.solutions[1].scores, Some(vec![0.25]));
    assert_eq!(
        own.solutions[2].text,
        Text::Steps(vec!["1 + 1 = 2".into(), "2".into()])
    );
    assert_eq!(own.solutions[2].first_error, Some(-1));

    let qwen = one(json!({
        "idx": 7, "question": "1 + 1?", "gt": "2", "code": ["two", "three"], "pred": ["2", ""],
        "score": [true, false], "pred_score": [[3.5], [-1.25]],
    }));
    assert_eq!(qwen.id.as_deref(), Some("7"));
    assert_eq!(qwen.reference.as_deref(), Some("2"));
    assert_eq!(qwen.solutions[1].answer.as_deref(), Some(""));
    assert_eq!(qwen.solutions[1].right, Some(false));
    assert_eq!(qwen.solutions[1].scores, Some(vec![-1.25]));

    let search_and_learn = one(json!({
        "problem": "1 + 1?", "answer": "2", "unique_id": "a/b", "completions": ["x\n\ny", "z"],
        "pred": "x\n\ny", "scores": [[0.5, 0.75], [0.25]],
    }));
    assert_eq!(search_and_learn.id.as_deref(), Some("a/b"));
    assert_eq!(search_and_learn.solutions[0].scores, Some(vec![0.5, 0.75]));
    assert_eq!(search_and_learn.solutions[0].answer, None);

    let models = one(json!({
        "question": "1 + 1?", "ground_truth": "1+1=2\nA: 2",
        "small": {"is_correct": true, "solution": "1+1=<<1+1=2>>2\nA: 2"},
        "large": {"is_correct": false, "solution": "who knows"},
    }));
    assert_eq!(models.reference.as_deref(), Some("2"));
    assert_eq!(models.solutions[0].answer.as_deref(), Some("2"));
    assert_eq!(models.solutions[1].answer, None);

    let process = json!([
        {"id": "gsm8k-0", "problem": "p", "steps": ["a", "b"], "final_answer_correct": true, "label": 1},
        {"id": "gsm8k-1", "problem": "q", "steps": ["c"], "final_answer_correct": false, "label": 0},
        {"id": "gsm8k-2", "problem": "p", "steps": ["d"], "final_answer_correct": true, "label": -1},
    ]);
    let pool = opened(&process.to_string(), None).expect("a pool");
    let counts: Vec<usize> = pool.problems.iter().map(|of| of.solutions.len()).collect();
    assert_eq!((pool.layout.name, counts), ("processbench", vec![2, 1]));
    assert_eq!(pool.problems[0].solutions[1].first_error, Some(-1));
    let limited = opened(&process.to_string(), Some(1)).expect("a pool");
    assert_eq!(limited.problems, pool.problems[..1]);
}

#[test]
fn what_cannot_be_used_names_file_line_and_field() {
    let good = r#"{"problem": "p", "answer": "1", "solutions": ["1"]}"#;
    for (line, words) in [
        ("{", "FILE:2: not JSON"),
        ("3", "FILE:2: unknown layout of solutions"),
        (
            r#"{"problem": "p", "solutions": 3}"#,
            "FILE:2: field \"solutions\": write a list",
        ),
        (
            r#"{"problem": "q", "answer": "1", "solutions": []}"#,
            "no solution in it",
        ),
        (
            r#"{"problem": " ", "answer": "1", "solutions": ["1"]}"#,
            "field \"problem\"",
        ),
        (
            r#"{"problem": "q", "solutions": ["1"]}"#,
            "field \"answer\": missing",
        ),
        (
            r#"{"problem": "p", "answer": "2", "solutions": ["1"]}"#,
            "another reference answer",
        ),
        (
            r#"{"problem": "q", "answer": "1", "solutions": ["1", 3]}"#,
            "solution 2",
        ),
        (
            r#"{"problem": "q", "answer": "1", "solutions": [{"correct": true, "text": "1"}]}"#,
            "only some solutions of the file",
        ),
        (
            r#"{"problem": "q", "answer": "1", "solutions": [{"text": "1", "score": "x"}]}"#,
            "field \"score\": write a number",
        ),
        (
            r#"{"problem": "q", "answer": "1", "solutions": [{"steps": ["1"], "first_error": 4}]}"#,
            "field \"first_error\"",
        ),
    ] {
        let fault = opened(&format!("{good}\n{line}\n"), None).expect_err(line);
        assert!(
            fault.starts_with("FILE:") && fault.contains(words),
            "{line}: {fault}"
        );
        assert!(!fault.contains('\n'), "{fault}");
    }
    let uneven = r#"{"question": "p", "gt": "1", "code": ["a", "b"], "pred": ["1"]}"#;
    let fault = opened(uneven, None).expect_err("uneven");
    assert!(
        fault.contains("field \"pred\": write one item for each solution (1 for 2 solutions)"),
        "{fault}"
    );
    let fault = opened(r#"{"text": "p"}"#, None).expect_err("no layout");
    assert!(
        fault.contains("search-and-learn (problem") && fault.contains("(text)"),
        "{fault}"
    );
    let fault = opened("", None).expect_err("empty");
    assert!(fault.contains("no solutions in it"), "{fault}");
}
