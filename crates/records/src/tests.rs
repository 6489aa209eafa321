use std::io::Write;
use std::path::PathBuf;

use serde_json::json;

use super::*;

const TEXT: Accepted = Accepted {
    text: true,
    special_files: true,
    columns: &["question"],
};

fn all(path: &Path, accepted: Accepted) -> Result<Vec<(Place, Record)>, String> {
    let mut records = Vec::new();
    read_file(path, accepted, &mut |place, record| {
        records.push((place, record));
        Ok::<(), RecordsError>(())
    })
    .map_err(|error| error.to_string())?;
    Ok(records)
}

fn written(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

fn message(name: &str, bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let path = written(&dir, name, bytes);
    let message = all(&path, TEXT).expect_err(name);
    assert!(!message.contains('\n'), "{message}");
    let begin = path.display().to_string();
    message
        .strip_prefix(&begin)
        .expect("the file's name")
        .to_owned()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

fn rows() -> Vec<Row> {
    let rows = [
        json!({"question": "What, \"exactly\"?\nIs 1 + 1?", "answer": "2", "level": "1"}),
        json!({"question": "\u{e4}?", "answer": null, "level": "3"}),
    ];
    rows.iter()
        .map(|row| row.as_object().expect("an object").clone())
        .collect()
}

#[test]
fn every_format_has_the_same_records() {
    let dir = tempfile::tempdir().expect("a folder");
    let rows = rows();
    let lines: String = rows.iter().map(|row| format!("{}\n", json!(row))).collect();
    let array = json!(rows).to_string();
    let mut files = vec![
        (
            written(&dir, "a.jsonl", lines.as_bytes()),
            [Place::Line(1), Place::Line(2)],
        ),
        (
            written(&dir, "a.json", array.as_bytes()),
            [Place::Item(1), Place::Item(2)],
        ),
        (
            written(&dir, "pretty.json", format!("{:#}", json!(rows)).as_bytes()),
            [Place::Item(1), Place::Item(2)],
        ),
        (
            written(&dir, "a.jsonl.gz", &gzipped(lines.as_bytes())),
            [Place::Line(1), Place::Line(2)],
        ),
        (
            written(&dir, "any", &gzipped(array.as_bytes())),
            [Place::Item(1), Place::Item(2)],
        ),
    ];
    for name in ["a.csv", "a.tsv"] {
        let path = dir.path().join(name);
        write_table(&path, &rows).expect("a table");
        // The first row has two lines.
        let places = [Place::Line(2), Place::Line(4)];
        let bytes = std::fs::read(&path).expect("the table");
        files.push((
            written(&dir, &format!("{name}.GZ"), &gzipped(&bytes)),
            places,
        ));
        // A table from a pipe is recognised by its head.
        let renamed = written(&dir, &format!("{name}-head"), &bytes);
        files.extend([(path, places), (renamed, places)]);
    }
    #[cfg(feature = "data")]
    {
        let path = dir.path().join("a.parquet");
        write_table(&path, &rows).expect("a table");
        let places = [Place::Row(1), Place::Row(2)];
        let bytes = std::fs::read(&path).expect("the table");
        files.push((written(&dir, "a.parquet.gz", &gzipped(&bytes)), places));
        files.push((path, places));
        let zstd = zstd::encode_all(lines.as_bytes(), 3).expect("memory");
        files.push((
            written(&dir, "a.jsonl.zst", &zstd),
            [Place::Line(1), Place::Line(2)],
        ));
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
        xz.write_all(lines.as_bytes()).expect("memory");
        let xz = xz.finish().expect("memory");
        files.push((
            written(&dir, "a.jsonl.xz", &xz),
            [Place::Line(1), Place::Line(2)],
        ));
    }
    for (path, places) in files {
        let read = all(&path, TEXT).expect("records");
        let wanted = rows
            .iter()
            .map(|row| Record::Json(Value::Object(row.clone())));
        let wanted: Vec<_> = places.into_iter().zip(wanted).collect();
        assert_eq!(read, wanted, "{}", path.display());
    }
}

#[test]
fn faults_have_their_place() {
    for (name, bytes, wanted) in [
        (
            "a.csv",
            &b"id,question\n1,a\n2,b,c\n"[..],
            ":3: 3 values where the head has 2 names",
        ),
        ("a.csv", b"id,question\n1\n", ":2: 1 value where"),
        ("a.csv", b"id,id\n", ":1: column \"id\" is there twice"),
        (
            "a.csv",
            b"question\na\n\xff\n",
            ":3: column \"question\": invalid UTF-8",
        ),
        (
            "a.jsonl",
            b"{}\n{\"a\": }\n",
            ":2: not JSON (expected value at column 7)",
        ),
        ("a.jsonl", b"{}\n\xff\n", ":2: invalid UTF-8 at byte 0"),
        ("a.json", b"[{}, 7", ": not a JSON array (EOF"),
        ("a.zip", b"PK\x03\x04", ":1: a ZIP archive: unpack it"),
        ("a.gz", b"\x1f\x8b\x08\x00cut", ": "),
    ] {
        let message = message(name, bytes);
        assert!(message.starts_with(wanted), "{message}");
    }
    // A quote that is never closed holds no more than a row in memory.
    let mut open = b"question\n\"".to_vec();
    open.resize(open.len() + MAX_LINE_BYTES + (1 << 20), b'a');
    let message = message("a.csv", &open);
    assert!(
        message.contains("the line is longer than 16 MiB"),
        "{message}"
    );
}

/// Other programs write an array on one line, however long.
#[test]
fn an_array_may_be_longer_than_a_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let item = json!({"question": "\u{e4}".repeat(1 << 20)});
    let array = json!(vec![item; 9]).to_string();
    assert!(array.len() > MAX_LINE_BYTES);
    for accepted in [TEXT, Accepted::JSON] {
        let path = written(&dir, "a.json", array.as_bytes());
        assert_eq!(all(&path, accepted).expect("records").len(), 9);
    }
}

#[test]
fn bombs_are_refused() {
    let bomb = gzipped(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 100_000);
    let refused = message("bomb.gz", &bomb);
    assert!(
        refused.starts_with(": it unpacks to more than 100 times its size"),
        "{refused}"
    );
    // A small file of repeated text is no bomb.
    let dir = tempfile::tempdir().expect("a folder");
    let repeated = "{\"question\": \"the same\"}\n".repeat(20_000);
    let path = written(&dir, "same.gz", &gzipped(repeated.as_bytes()));
    assert_eq!(all(&path, TEXT).expect("records").len(), 20_000);
}

#[cfg(not(feature = "data"))]
#[test]
fn other_builds_say_how_to_read_a_file() {
    for (name, bytes) in [
        ("a.xz", &b"\xfd7zXZ\0\0"[..]),
        ("a.zst", b"\x28\xb5\x2f\xfd"),
        ("a.parquet", b"PAR1"),
    ] {
        let message = message(name, bytes);
        assert!(
            message.contains("or build with `--features data`"),
            "{message}"
        );
    }
}

#[cfg(feature = "data")]
mod with_data {
    use super::*;

    #[test]
    fn a_deep_schema_and_unknown_packing_are_refused() {
        let deep = crate::depth::tests::nested(500_000);
        let length = (deep.len() as u32).to_le_bytes();
        let deep = [b"PAR1", &deep[..], &length, b"PAR1"].concat();
        let said = message("deep.parquet", &deep);
        assert!(said.contains("nested more than 256 levels deep"), "{said}");
        let gzip = include_bytes!("../../../tests/fixtures/data/p-gzip.parquet");
        let said = message("gzip.parquet", gzip);
        assert!(said.contains("compressed by gzip, use snappy"), "{said}");
    }

    #[test]
    fn columns_have_the_types_of_their_values() {
        let dir = tempfile::tempdir().expect("a folder");
        let rows = [
            json!({"n": 1, "x": 1, "right": true, "any": 1, "steps": ["a", "b"]}),
            json!({"n": -2, "x": 0.5, "any": "text", "late": null}),
        ];
        let rows = rows.map(|row| row.as_object().expect("an object").clone());
        let path = dir.path().join("t.parquet");
        write_table(&path, &rows).expect("a table");
        let read: Vec<Record> = all(&path, Accepted::JSON)
            .expect("records")
            .into_iter()
            .map(|(_, record)| record)
            .collect();
        let wanted = [
            json!({"n": 1, "x": 1.0, "right": true, "any": "1", "steps": "[\"a\",\"b\"]", "late": null}),
            json!({"n": -2, "x": 0.5, "right": null, "any": "text", "steps": null, "late": null}),
        ];
        assert_eq!(read, wanted.map(Record::Json));
    }

    #[test]
    fn damaged_tables_are_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("t.parquet");
        write_table(&path, &rows()).expect("a table");
        let whole = std::fs::read(&path).expect("the table");
        let mut refused = 0;
        for at in 4..whole.len() {
            for flip in [1, 0x80] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let damaged = written(&dir, "damaged.parquet", &bytes);
                if let Err(message) = all(&damaged, TEXT) {
                    refused += 1;
                    assert!(!message.contains('\n'), "{message}");
                }
            }
        }
        assert!(refused > whole.len() / 4, "{refused} of {}", whole.len());
        for cut in [4, 12, whole.len() / 2, whole.len() - 1] {
            let damaged = written(&dir, "cut.parquet", &whole[..cut]);
            let message = all(&damaged, TEXT).expect_err("a cut table");
            assert!(
                message.contains("not a readable Parquet table"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_table_of_one_text_repeated_is_a_bomb() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("t.parquet");
        let row = json!({"question": "a".repeat(10_000)});
        let rows = vec![row.as_object().expect("an object").clone(); 1_000];
        write_table(&path, &rows).expect("a table");
        let message = all(&path, TEXT).expect_err("a bomb");
        assert!(message.contains("100 times its size"), "{message}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_handled(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let mut take = |_, _| Ok::<(), RecordsError>(());
        let _ = read(bytes.as_slice(), "f", TEXT, &mut take);
        for magic in [&b"\x1f\x8b\x08"[..], b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"PAR1"] {
            let bytes = [magic, &bytes].concat();
            let _ = read(bytes.as_slice(), "f", TEXT, &mut take);
        }
    }
}
