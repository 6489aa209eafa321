//! Tests of broken connections, wrong lengths and damaged contents, and of the files that remain.

use std::fs;
use std::time::Duration;

use beamgen_hub::{Progress, RequestError};

use crate::server::{NEXT_COMMIT, REPO, Trick, etag_of};
use crate::setup::{Setup, WEIGHTS, WEIGHTS_FILE, noise, setup, weights};

const STORE: &str = "GET /store/";

fn incomplete() -> String {
    format!("{}.incomplete", etag_of(&weights(), true))
}

/// Returns the incomplete bytes of the weights, and checks that no snapshot or blob of them exists.
fn left(setup: &Setup) -> Option<Vec<u8>> {
    assert!(setup.snapshots().is_empty(), "{:?}", setup.snapshots());
    assert!(!setup.blobs().contains(&etag_of(&weights(), true)));
    fs::read(setup.repo_dir().join("blobs").join(incomplete())).ok()
}

fn whole(setup: &Setup) {
    let fetched = setup.fetch(REPO).expect("the model");
    assert_eq!(
        fs::read(fetched.path.join(WEIGHTS_FILE)).expect("bytes"),
        weights()
    );
    assert!(!setup.blobs().contains(&incomplete()));
}

/// Returns the `Range` header of each request to the storage server.
fn ranges(setup: &Setup) -> Vec<Option<String>> {
    let seen = setup.server.seen().into_iter();
    seen.filter(|seen| seen.on_cdn)
        .map(|seen| seen.range)
        .collect()
}

#[test]
fn a_broken_download_goes_on_where_it_stopped() {
    let setup = setup();
    setup.server.trick(STORE, 1, Trick::Cut(250_000));
    let error = setup.fetch(REPO).expect_err("cut");
    let Some(RequestError::Interrupted { done, total, .. }) = error.request_error() else {
        panic!("{error}");
    };
    assert_eq!((*done, *total), (250_000, Some(WEIGHTS as u64)));
    let text = error.to_string();
    assert!(
        text.contains(WEIGHTS_FILE) && text.contains("run again"),
        "{text}"
    );
    assert_eq!(left(&setup).expect("a part"), weights()[..250_000]);
    setup.server.seen();
    whole(&setup);
    assert_eq!(ranges(&setup), [Some("bytes=250000-".to_owned())]);
}

#[test]
fn retries_continue_by_themselves() {
    let mut setup = setup();
    setup.config.retries = 1;
    for end in [100_000, 50_000] {
        setup.server.trick(STORE, 1, Trick::Cut(end));
    }
    setup
        .server
        .trick("revision/main", 1, Trick::Status(503, ""));
    let mut steps = vec![];
    let id = REPO.parse().expect("a name");
    let record = &mut |progress: Progress| {
        if let Progress::Bytes { file, done, .. } = progress
            && file == WEIGHTS_FILE
        {
            steps.push(done);
        }
    };
    setup.hub().fetch(&id, record).expect("the model");
    assert!(steps.is_sorted(), "{steps:?}");
    assert_eq!(
        ranges(&setup),
        [
            None,
            Some("bytes=100000-".to_owned()),
            Some("bytes=150000-".to_owned())
        ]
    );
    whole(&setup);
}

#[test]
fn a_silent_server_is_left_after_the_timeout_and_its_bytes_are_kept() {
    let mut setup = setup();
    setup.config.download_timeout = Duration::from_secs(2);
    setup
        .server
        .trick(STORE, 1, Trick::Stall(1234, Duration::from_secs(30)));
    let text = setup.refusal(REPO);
    assert!(
        text.contains("1234 of 600000 bytes (no bytes for 2s)"),
        "{text}"
    );
    assert_eq!(left(&setup).expect("a part").len(), 1234);
    whole(&setup);
}

#[test]
fn a_server_bad_at_ranges_sends_it_from_the_beginning() {
    for trick in [
        Trick::NoRanges,
        Trick::OtherRange,
        Trick::Status(416, ""),
        // The size is unknown here, so only the hash can verify the file.
        Trick::Cut(WEIGHTS),
    ] {
        let setup = setup();
        if matches!(trick, Trick::Cut(_)) {
            setup
                .server
                .trick("HEAD", 99, Trick::Without("X-Linked-Size"));
        }
        setup.server.trick(STORE, 1, Trick::Cut(1000));
        setup.fetch(REPO).expect_err("cut");
        setup.server.trick(STORE, 1, trick);
        whole(&setup);
    }
}

#[test]
fn another_content_has_another_name_and_begins_anew() {
    let setup = setup();
    setup.server.trick(STORE, 1, Trick::Cut(1000));
    setup.fetch(REPO).expect_err("cut");
    setup.server.put_large(WEIGHTS_FILE, &noise(WEIGHTS, 9));
    setup.server.set_commit(NEXT_COMMIT);
    setup.server.seen();
    let fetched = setup.fetch(REPO).expect("the model");
    assert_eq!(ranges(&setup), [None]);
    let got = fs::read(fetched.path.join(WEIGHTS_FILE)).expect("bytes");
    assert_eq!(got, noise(WEIGHTS, 9));
}

#[test]
fn a_spoilt_beginning_is_thrown_away() {
    let setup = setup();
    setup.server.trick(STORE, 1, Trick::Cut(1000));
    setup.fetch(REPO).expect_err("cut");
    let path = setup.repo_dir().join("blobs").join(incomplete());
    for spoilt in [vec![0; 1000], vec![0; WEIGHTS], vec![0; WEIGHTS + 1]] {
        fs::write(&path, &spoilt).expect("written");
        whole(&setup);
        fs::remove_dir_all(setup.repo_dir().join("snapshots")).expect("removed");
        fs::remove_file(
            setup
                .repo_dir()
                .join("blobs")
                .join(etag_of(&weights(), true)),
        )
        .expect("removed");
    }
}

#[test]
fn a_beginning_that_cannot_be_checked_is_not_continued() {
    let setup = setup();
    setup
        .server
        .trick("HEAD", 99, Trick::Without("Content-Length"));
    let text = b"the text of config.json";
    let part = format!("{}.incomplete", etag_of(text, false));
    let path = setup.repo_dir().join("blobs").join(part);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(&path, b"nonsense").expect("written");
    let fetched = setup.fetch(REPO).expect("the model");
    assert_eq!(
        fs::read(fetched.path.join("config.json")).expect("bytes"),
        text
    );
}

#[test]
fn a_whole_part_needs_no_bytes() {
    let setup = setup();
    let path = setup.repo_dir().join("blobs").join(incomplete());
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(&path, weights()).expect("written");
    whole(&setup);
    assert_eq!(ranges(&setup), []);
}

#[test]
fn damaged_files_leave_nothing() {
    for (trick, reported) in [
        (Trick::Damaged, "arrived damaged"),
        (Trick::Longer(5), "promised 600000 bytes but sends 600005"),
        (Trick::Longer(-5), "promised 600000 bytes but sends 599995"),
    ] {
        let setup = setup();
        setup.server.trick(STORE, 1, trick);
        let text = setup.refusal(REPO);
        assert!(
            text.contains(reported) && text.contains(WEIGHTS_FILE),
            "{text}"
        );
        assert_eq!(left(&setup), None);
        whole(&setup);
    }
}

#[test]
fn a_blob_of_a_wrong_length_is_replaced() {
    let setup = setup();
    let path = setup
        .repo_dir()
        .join("blobs")
        .join(etag_of(&weights(), true));
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(&path, b"short").expect("written");
    whole(&setup);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said() {
    let setup = setup();
    let blobs = setup.repo_dir().join("blobs");
    fs::create_dir_all(&blobs).expect("made");
    std::os::unix::fs::symlink("/dev/full", blobs.join(incomplete())).expect("a link");
    let error = setup.fetch(REPO).expect_err("full").to_string();
    assert!(error.contains("the disk is full; make room"), "{error}");
    assert!(error.contains(&incomplete()), "{error}");
    assert_eq!(left(&setup), None);
    whole(&setup);
}

#[test]
fn two_at_once_download_once() {
    let setup = setup();
    setup
        .server
        .trick(STORE, 1, Trick::Late(Duration::from_millis(300)));
    let mut waited = 0;
    std::thread::scope(|scope| {
        let both: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut waits = 0;
                    let id = REPO.parse().expect("a name");
                    let count = &mut |progress: Progress| {
                        waits += usize::from(
                            progress
                                == (Progress::Waiting {
                                    file: WEIGHTS_FILE.to_owned(),
                                }),
                        );
                    };
                    setup.hub().fetch(&id, count).expect("the model");
                    waits
                })
            })
            .collect();
        waited = both
            .into_iter()
            .map(|one| one.join().expect("no panic"))
            .sum();
    });
    assert_eq!(waited, 1);
    assert_eq!(ranges(&setup), [None]);
    whole(&setup);
}

/// The first failure stops the other download at once, and the caller gets that failure.
#[test]
fn a_failure_ends_the_other_download() {
    let setup = setup();
    setup.server.remove(WEIGHTS_FILE);
    let names = ["model-1.safetensors", "model-2.safetensors"];
    let index = format!(
        r#"{{"weight_map": {{"a": "{}", "b": "{}"}}}}"#,
        names[0], names[1]
    );
    let index_name = "model.safetensors.index.json";
    setup.server.put(index_name, index.as_bytes());
    let large = noise(8 << 20, 7);
    setup.server.put_large(names[0], &large);
    setup.server.put_large(names[1], &weights());
    let store = |bytes: &[u8]| format!("{STORE}{}", etag_of(bytes, true));
    // Its bytes come slowly until the other file has failed.
    let slow = Trick::Slow(Duration::from_millis(5));
    setup.server.trick(&store(&large), 1, slow);
    let broken = Trick::Stall(0, Duration::from_millis(200));
    setup.server.trick(&store(&weights()), 1, broken);
    let text = setup.refusal(REPO);
    assert!(
        text.contains(names[1]) && text.contains("broke off"),
        "{text}"
    );
    let part = format!("{}.incomplete", etag_of(&large, true));
    let part = fs::metadata(setup.repo_dir().join("blobs").join(part)).expect("a part");
    assert!(part.len() < large.len() as u64 / 2, "{}", part.len());
    setup.fetch(REPO).expect("the model");
}
