//! Data sets by name: the conversion, other revisions, the cache, and what is refused.

use beamgen_hub::{DataSetPart, FetchedData, HubError};

use crate::server::{COMMIT, NEXT_COMMIT, Trick};
use crate::setup::{Setup, names, setup};

const SET: &str = "org/problems";
const REPO: &str = "datasets/org/problems";

fn part(subset: Option<&str>, split: Option<&str>) -> DataSetPart {
    DataSetPart {
        subset: subset.map(str::to_owned),
        split: split.map(str::to_owned),
    }
}

fn fetch(setup: &Setup, name: &str, part: &DataSetPart) -> Result<FetchedData, HubError> {
    let hub = setup.hub();
    hub.fetch_data(&hub.data_set(name)?, part, &mut |_| ())
}

fn relative(setup: &Setup, data: &FetchedData) -> Vec<String> {
    let files = data.files.iter();
    let inside = files.map(|file| {
        file.strip_prefix(&setup.config.cache)
            .expect("in the cache")
    });
    inside.map(|file| file.display().to_string()).collect()
}

#[test]
fn a_split_of_the_conversion_lies_where_python_puts_it() {
    let setup = setup();
    for name in [
        "main/test/0000.parquet",
        "main/test/0001.parquet",
        "main/train/0000.parquet",
    ] {
        setup.server.store(REPO, name, name.as_bytes(), true);
    }
    let data = fetch(&setup, SET, &part(None, None)).expect("a split");
    assert_eq!(
        (data.subset.as_str(), data.split.as_str()),
        ("main", "test")
    );
    assert!(!data.from_cache);
    let folder = format!("datasets--org--problems/snapshots/{COMMIT}/main/test");
    let wanted = ["0000", "0001"].map(|part| format!("{folder}/{part}.parquet"));
    assert_eq!(relative(&setup, &data), wanted);
    assert_eq!(
        std::fs::read(&data.files[1]).unwrap(),
        b"main/test/0001.parquet"
    );
    // As `hf_hub_download(..., revision="refs/convert/parquet")` records it.
    let root = setup.config.cache.join("datasets--org--problems");
    let recorded = std::fs::read_to_string(root.join("refs/refs/convert/parquet"));
    assert_eq!(recorded.unwrap(), COMMIT);
    // The other split was not downloaded.
    assert_eq!(names(&root.join("blobs")).len(), 2);
    assert!(
        fetch(&setup, SET, &part(None, None))
            .expect("a split")
            .from_cache
    );
}

#[test]
fn a_page_and_a_revision_name_a_data_set_too() {
    let setup = setup();
    setup
        .server
        .store(REPO, "default/test/0000.parquet", b"converted", false);
    setup
        .server
        .store(REPO, "data/test.jsonl", b"arranged", false);
    let page = format!("{}/datasets/{SET}", setup.config.endpoint);
    for (name, contents) in [
        (page.clone(), "converted"),
        (format!("{page}/tree/main"), "arranged"),
        (format!("{SET}@main"), "arranged"),
        (format!("{SET}@{COMMIT}"), "arranged"),
    ] {
        let data = fetch(&setup, &name, &part(None, None)).expect(&name);
        let read = std::fs::read_to_string(&data.files[0]).unwrap();
        assert_eq!(read, contents, "{name}");
    }
}

#[test]
fn without_a_conversion_the_files_are_taken_as_they_are() {
    let setup = setup();
    setup.server.store(REPO, "test.jsonl.gz", b"x", false);
    setup.server.store(REPO, "README.md", b"y", false);
    let data = fetch(&setup, SET, &part(None, Some("test"))).expect("a split");
    assert!(data.files[0].ends_with("test.jsonl.gz"), "{data:?}");
}

#[test]
fn offline_and_without_a_hub_the_cache_is_enough() {
    let mut setup = setup();
    setup
        .server
        .store(REPO, "default/test/0000.parquet", b"x", false);
    let cold = part(None, Some("train"));
    fetch(&setup, SET, &part(None, None)).expect("a split");
    setup
        .server
        .trick("api/datasets", 1, Trick::Status(503, ""));
    let kept = fetch(&setup, SET, &part(None, None)).expect("the cached split");
    assert!(kept.notes[0].contains("503"), "{kept:?}");
    setup.server.set_commit(NEXT_COMMIT);
    setup.config.offline = true;
    let offline = fetch(&setup, SET, &part(None, None)).expect("the cached split");
    assert_eq!(
        (offline.commit.as_str(), offline.from_cache),
        (COMMIT, true)
    );
    let message = fetch(&setup, SET, &cold).unwrap_err().to_string();
    assert!(
        message.contains("the split is not in the cache")
            && message.contains("hf download org/problems --repo-type dataset"),
        "{message}"
    );
}

#[test]
fn what_does_not_exist_is_named() {
    let setup = setup();
    setup.server.store(REPO, "a/test/0000.parquet", b"x", false);
    setup.server.store(REPO, "b/test/0000.parquet", b"x", false);
    for (name, wanted, message) in [
        (SET, part(None, None), "add --subset with one of a, b"),
        (
            SET,
            part(Some("a"), Some("dev")),
            "no split \"dev\": choose from test",
        ),
        ("org/none", part(None, None), "no such repository"),
        ("org/problems@v9", part(None, None), "no such revision"),
        ("org/../x", part(None, None), "invalid name of a data set"),
        (
            "org/problems:x.gguf",
            part(None, None),
            "invalid name of a data set",
        ),
    ] {
        let error = fetch(&setup, name, &wanted).unwrap_err().to_string();
        assert!(error.contains(message) && !error.contains('\n'), "{error}");
    }
}
