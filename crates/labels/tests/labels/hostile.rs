//! Tests that each unusable file is reported in one line.

use beamgen_labels::{Format, open, parse};

fn fault(text: &str, format: Option<&str>) -> String {
    let format = format.map(|name| Format::named(name).unwrap());
    let error = parse(text.as_bytes(), "f", format).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.len() < 600, "{} bytes: {error}", error.len());
    error
}

#[test]
fn files_that_are_not_what_they_should_be() {
    assert!(fault("", None).contains("no chains in it"));
    assert!(fault("\n \n", Some("ratings")).contains("no chains in it"));
    assert!(fault("[]", None).contains("no chains in it"));
    assert!(fault("{\"problem\": 1", None).contains("f:1: not JSON"));
    assert!(fault("\nnothing", None).contains("f:2: not JSON"));
    assert!(fault("[{\"problem\": \"p\"},", None).contains("not a JSON array"));
    assert!(fault("[] []", None).contains("not a JSON array"));
    assert!(fault("{\"a\": 1, \"b\": 2}", None).contains("unknown format (fields: a, b)"));
    assert!(fault("3", None).contains("f:1: "));
    let unlabelled = fault("{\"problem\": \"p\", \"steps\": [\"a\"]}\n", None);
    assert!(unlabelled.starts_with("f:1: field \"label\": missing"));
    let none = Format::named("nothing").unwrap_err().to_string();
    assert!(none.contains("one of beamgen, "), "{none}");
}

#[test]
fn deep_json_does_not_overflow_the_stack() {
    let deep = "[".repeat(1 << 20);
    assert!(fault(&deep, None).contains("recursion limit"));
    let deep = format!("{{\"problem\": {deep}");
    assert!(fault(&deep, None).contains("recursion limit"));
    let deep = format!("{}{}", "{\"steps\":".repeat(1 << 17), "}".repeat(1 << 17));
    assert!(fault(&deep, Some("beamgen")).contains("recursion limit"));
}

#[test]
fn labels_that_are_no_numbers_are_refused() {
    for number in ["NaN", "Infinity", "1e999"] {
        let line =
            format!("{{\"problem\": \"p\", \"steps\": [{{\"text\": \"a\", \"soft\": {number}}}]}}");
        assert!(fault(&line, None).contains("not JSON"), "{number}");
    }
    let line = "{\"problem\": \"p\", \"steps\": [{\"text\": \"a\", \"soft\": -0.5}]}";
    assert!(fault(line, None).contains("from 0 to 1"));
}

#[test]
fn what_cannot_be_read_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let error = open(dir.path().join("none"), None).unwrap_err().to_string();
    assert!(error.contains("No such file"), "{error}");
    assert!(
        open(dir.path(), None)
            .unwrap_err()
            .to_string()
            .contains("directory")
    );
    let path = dir.path().join("bytes");
    std::fs::write(&path, b"{\"a\": \"\xff\"}").unwrap();
    assert!(
        open(&path, None)
            .unwrap_err()
            .to_string()
            .contains(":1: invalid UTF-8 at byte 7")
    );
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(17 << 20));
    std::fs::write(&path, long).unwrap();
    assert!(
        open(&path, None)
            .unwrap_err()
            .to_string()
            .contains("longer than 16 MiB")
    );
}
