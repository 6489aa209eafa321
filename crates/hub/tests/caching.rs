//! Tests of the cache: without a reachable hub, offline, and damaged.

use std::fs;

use crate::server::{COMMIT, NEXT_COMMIT, REPO, Trick};
use crate::setup::{Setup, WEIGHTS, WEIGHTS_FILE, main_model, noise, setup};

fn fetched() -> Setup {
    let setup = setup();
    setup.fetch(REPO).expect("the model");
    setup.server.seen();
    setup
}

#[test]
fn a_hub_that_is_away_lets_the_cache_stand_in() {
    let mut setup = fetched();
    for trick in [
        Trick::Status(503, ""),
        Trick::Status(401, "GatedRepo"),
        Trick::Cut(3),
    ] {
        setup.server.trick("revision", 1, trick);
        let cached = setup.fetch(REPO).expect("the cached model");
        assert!(cached.from_cache);
        let note = cached.note.expect("a note");
        assert!(
            note.contains(&main_model()) && note.contains(COMMIT),
            "{note}"
        );
        assert!(note.contains(&setup.config.endpoint), "{note}");
    }
    // If the hub answers that the revision does not exist, the cached model is not used.
    setup
        .server
        .trick("revision", 1, Trick::Status(404, "RevisionNotFound"));
    setup.fetch(REPO).expect_err("gone");
    // With a cached model there are no retries.
    setup.config.endpoint = "http://127.0.0.1:9".to_owned();
    setup.config.retries = 5;
    setup.fetch(REPO).expect("the cached model");
    assert_eq!(setup.clock.waited(), std::time::Duration::ZERO);
}

#[test]
fn offline_asks_nobody() {
    let mut setup = fetched();
    setup.config.offline = true;
    for id in [REPO.to_owned(), main_model(), format!("{REPO}@{COMMIT}")] {
        let cached = setup.fetch(&id).expect("the cached model");
        assert!(cached.from_cache);
        assert_eq!(cached.note, None);
    }
    for (id, reported) in [
        ("org/other".to_owned(), "the model is not in the cache"),
        (format!("{REPO}@v1"), "`hf download org/tiny --revision v1`"),
        (format!("{REPO}:a.gguf"), "`hf download org/tiny a.gguf`"),
        (
            format!("{REPO}@{NEXT_COMMIT}"),
            "the model is not in the cache",
        ),
    ] {
        let text = setup.fetch(&id).expect_err("not there").to_string();
        assert!(text.contains(reported) && !text.contains('\n'), "{text}");
        assert!(
            text.contains(setup.config.cache.to_str().expect("UTF-8")),
            "{text}"
        );
    }
    fs::remove_file(
        setup
            .repo_dir()
            .join("snapshots")
            .join(COMMIT)
            .join(WEIGHTS_FILE),
    )
    .expect("removed");
    let text = setup.fetch(REPO).expect_err("not whole").to_string();
    assert!(
        text.contains("model.safetensors is not in the cache"),
        "{text}"
    );
    assert!(setup.server.seen().is_empty());
}

#[test]
fn a_link_without_its_blob_is_mended() {
    let setup = fetched();
    let weights = setup
        .repo_dir()
        .join("snapshots")
        .join(COMMIT)
        .join(WEIGHTS_FILE);
    let blob = fs::canonicalize(&weights).expect("a blob");
    fs::remove_file(&blob).expect("removed");
    let mended = || {
        setup.fetch(REPO).expect("the model");
        assert_eq!(
            fs::metadata(&weights).expect("weights").len(),
            WEIGHTS as u64
        );
    };
    mended();
    #[cfg(unix)]
    {
        fs::remove_file(&weights).expect("removed");
        std::os::unix::fs::symlink("../../blobs/none", &weights).expect("a link");
        mended();
    }
}

#[test]
fn a_damaged_ref_is_asked_for_again() {
    let setup = fetched();
    let path = setup.repo_dir().join("refs/main");
    for text in ["", "../../../etc", "0123"] {
        fs::write(&path, text).expect("written");
        assert!(setup.fetch(REPO).expect("the model").from_cache);
        assert_eq!(fs::read_to_string(&path).expect("a ref"), COMMIT);
    }
}

#[test]
fn the_list_of_models() {
    let setup = setup();
    assert_eq!(setup.hub().cached(), []);
    setup.fetch(REPO).expect("the model");
    setup.fetch(&format!("{REPO}@branch")).expect("the model");
    setup.server.set_commit(NEXT_COMMIT);
    setup.server.put_large("x/a.gguf", &noise(500, 3));
    setup.fetch(&format!("{REPO}:x/a.gguf")).expect("the file");

    let models = setup.hub().cached();
    assert_eq!(models.len(), 1);
    let model = &models[0];
    assert_eq!(model.repo, REPO);
    let [first, second] = &model.revisions[..] else {
        panic!("{model:?}");
    };
    assert_eq!(first.commit, COMMIT);
    assert_eq!(first.refs, ["branch"]);
    assert!(first.is_complete);
    assert!(first.bytes > WEIGHTS as u64);
    assert!(first.modified.is_some());
    assert_eq!(second.commit, NEXT_COMMIT);
    assert_eq!(second.refs, ["main"]);
    assert!(!second.is_complete);
    assert_eq!(second.gguf, ["x/a.gguf"]);
    assert_eq!(second.bytes, 500);
    // The two refs are files of 40 bytes each.
    assert_eq!(model.bytes, first.bytes + 500 + 2 * COMMIT.len() as u64);
}

#[test]
fn a_damaged_cache_is_listed_as_far_as_it_goes() {
    let setup = fetched();
    let repo = setup.repo_dir();
    fs::remove_dir_all(repo.join("blobs")).expect("removed");
    fs::write(repo.join("refs/strange"), [0xff, 0xfe]).expect("written");
    fs::write(repo.join("snapshots/not-a-folder"), b"x").expect("written");
    #[cfg(unix)]
    std::os::unix::fs::symlink("..", repo.join("snapshots").join(COMMIT).join("circle"))
        .expect("a link");
    for name in ["models--", "models--a", "models--b--c", "datasets--a--b"] {
        fs::create_dir_all(setup.config.cache.join(name)).expect("made");
    }
    fs::write(setup.config.cache.join("models--f--g"), b"a file").expect("written");
    fs::write(setup.config.cache.join("version.txt"), b"1").expect("written");
    let models = setup.hub().cached();
    assert_eq!(models.len(), 1, "{models:?}");
    let revision = &models[0].revisions[0];
    assert!(!revision.is_complete);
    assert_eq!((revision.bytes, revision.modified), (0, None));
}
