//! Tests of the requests of a download, and of the cache after it.

use std::fs;

use beamgen_hub::Progress;

use crate::server::{COMMIT, NEXT_COMMIT, REPO, Trick, etag_of};
use crate::setup::{WEIGHTS, WEIGHTS_FILE, names, noise, setup, weights};

const FILES: [&str; 6] = [
    "config.json",
    "generation_config.json",
    WEIGHTS_FILE,
    "prm.toml",
    "tokenizer.json",
    "tokenizer_config.json",
];

#[test]
fn only_the_files_needed_in_pythons_layout() {
    let setup = setup();
    let fetched = setup.fetch(REPO).expect("the model");
    assert_eq!(
        fetched.path,
        setup.repo_dir().join("snapshots").join(COMMIT)
    );
    assert_eq!(fetched.commit, COMMIT);
    assert!(!fetched.from_cache);
    assert_eq!(fetched.note, None);
    assert_eq!(names(&fetched.path), FILES);
    assert_eq!(
        fs::read(fetched.path.join(WEIGHTS_FILE)).expect("weights"),
        weights()
    );
    let text = fs::read_to_string(fetched.path.join("config.json")).expect("a text");
    assert_eq!(text, "the text of config.json");
    assert_eq!(
        fs::read_to_string(setup.repo_dir().join("refs/main")).expect("a ref"),
        COMMIT
    );
    assert_eq!(setup.blobs().len(), FILES.len());
    assert!(setup.blobs().contains(&etag_of(&weights(), true)));
    #[cfg(unix)]
    assert_eq!(
        fs::read_link(fetched.path.join(WEIGHTS_FILE)).expect("a link"),
        std::path::Path::new("../../blobs").join(etag_of(&weights(), true))
    );
    let asked_for_others = setup.server.seen().into_iter().any(|seen| {
        ["README", "onnx", "original", "pytorch", "gitattributes"]
            .iter()
            .any(|name| seen.path.contains(name))
    });
    assert!(!asked_for_others);
}

#[test]
fn a_second_call_asks_for_the_listing_alone_and_a_commit_for_nothing() {
    let setup = setup();
    setup.fetch(REPO).expect("the model");
    setup.server.seen();
    let again = setup.fetch(REPO).expect("the model");
    assert!(again.from_cache);
    let seen = setup.server.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0].path, format!("/api/models/{REPO}/revision/main"));
    let pinned = setup.fetch(&format!("{REPO}@{COMMIT}")).expect("the model");
    assert_eq!(pinned.path, again.path);
    assert!(setup.server.seen().is_empty());
}

#[test]
fn a_commit_is_fetched_without_a_ref() {
    let setup = setup();
    setup.fetch(&format!("{REPO}@{COMMIT}")).expect("the model");
    assert_eq!(names(&setup.repo_dir().join("refs")), [""; 0]);
    setup
        .fetch(&format!("{REPO}@refs/pr/1"))
        .expect("the model");
    let path = setup.repo_dir().join("refs/refs/pr/1");
    assert_eq!(fs::read_to_string(path).expect("a ref"), COMMIT);
}

#[test]
fn a_moved_branch_brings_only_what_changed() {
    let setup = setup();
    let before = setup.fetch(REPO).expect("the model");
    setup.server.set_commit(NEXT_COMMIT);
    setup.server.put("config.json", b"another text");
    setup.server.seen();
    let after = setup.fetch(REPO).expect("the model");
    assert_eq!(after.commit, NEXT_COMMIT);
    let got = setup
        .server
        .seen()
        .into_iter()
        .filter(|seen| seen.method == "GET" && seen.path.contains("resolve"));
    let got: Vec<_> = got.map(|seen| seen.path).collect();
    assert_eq!(got, [format!("/{REPO}/resolve/{NEXT_COMMIT}/config.json")]);
    let text = |dir: &std::path::Path| fs::read_to_string(dir.join("config.json")).expect("a text");
    assert_eq!(text(&before.path), "the text of config.json");
    assert_eq!(text(&after.path), "another text");
    assert_eq!(
        fs::read_to_string(setup.repo_dir().join("refs/main")).expect("a ref"),
        NEXT_COMMIT
    );
}

#[test]
fn shards_of_an_index() {
    for (whole, index) in [
        ("model.safetensors", "model.safetensors.index.json"),
        ("pytorch_model.bin", "pytorch_model.bin.index.json"),
    ] {
        let setup = setup();
        setup.server.remove("model.safetensors");
        setup.server.remove("pytorch_model.bin");
        let (stem, end) = whole.rsplit_once('.').expect("a dot");
        let shard = |i: u32| format!("{stem}-0000{i}-of-00002.{end}");
        for i in [1, 2] {
            setup.server.put_large(&shard(i), &noise(2000, i));
        }
        setup
            .server
            .put_large(&format!("{stem}-extra.{end}"), b"unused");
        let map = format!(
            r#"{{"weight_map": {{"a": "{0}", "b": "{1}", "c": "{0}"}}}}"#,
            shard(1),
            shard(2)
        );
        setup.server.put(index, map.as_bytes());
        let fetched = setup.fetch(REPO).expect("the model");
        let got = names(&fetched.path);
        let weights: Vec<&String> = got.iter().filter(|name| name.starts_with(stem)).collect();
        assert_eq!(weights, [&shard(1), &shard(2), index]);
        assert_eq!(
            fs::read(fetched.path.join(shard(2))).expect("bytes"),
            noise(2000, 2)
        );

        setup.server.remove(&shard(2));
        setup.server.put_large(&shard(1), b"changed");
        setup.server.set_commit(NEXT_COMMIT);
        let error = setup.fetch(REPO).expect_err("no shard").to_string();
        assert!(
            error.contains(&shard(2)) && error.contains("no such file"),
            "{error}"
        );
        // The missing shard was noticed before the other shards were downloaded.
        assert!(!setup.blobs().contains(&etag_of(b"changed", true)));
    }
}

#[test]
fn one_gguf_file_and_nothing_else() {
    let setup = setup();
    setup
        .server
        .put_large("sub/tiny.Q8_0.gguf", &noise(3000, 5));
    let id = format!("{REPO}@branch:sub/tiny.Q8_0.gguf");
    let fetched = setup.fetch(&id).expect("the file");
    assert!(fetched.path.ends_with("sub/tiny.Q8_0.gguf"));
    assert_eq!(fs::read(&fetched.path).expect("bytes"), noise(3000, 5));
    assert_eq!(setup.blobs().len(), 1);
    let again = setup.fetch(&id).expect("the file");
    assert!(again.from_cache);
}

#[test]
fn progress_ends_at_the_size_of_each_file() {
    let setup = setup();
    let mut last = std::collections::BTreeMap::new();
    let id = REPO.parse().expect("a name");
    let record = &mut |progress: Progress| {
        if let Progress::Bytes { file, done, total } = progress {
            let before = last.insert(file, (done, total));
            assert!(before.is_none_or(|(before, _)| before <= done));
        }
    };
    setup.hub().fetch(&id, record).expect("the model");
    assert_eq!(last.len(), FILES.len());
    assert_eq!(last[WEIGHTS_FILE], (WEIGHTS as u64, Some(WEIGHTS as u64)));
    for (file, (done, total)) in last {
        assert_eq!(Some(done), total, "{file}");
    }
}

#[test]
fn the_token_goes_to_the_hub_alone() {
    let mut setup = setup();
    setup.config.token = Some("hf_secret".to_owned());
    setup.fetch(REPO).expect("the model");
    let seen = setup.server.seen();
    assert!(seen.iter().any(|seen| seen.on_cdn));
    for seen in seen {
        let expected = (!seen.on_cdn).then_some("Bearer hf_secret");
        assert_eq!(seen.token.as_deref(), expected, "{seen:?}");
    }
}

#[test]
fn redirects_within_the_hub_and_to_a_mirror() {
    let setup = setup();
    // For a renamed repository the hub sends a relative redirect without an `ETag`.
    let to = format!("/{REPO}/resolve/{COMMIT}/config.json");
    setup.server.trick("/resolve/", 1, Trick::Redirect(to));
    setup.fetch(REPO).expect("the model");
}

#[test]
fn a_mirror_that_sends_on_to_the_hub() {
    let setup = setup();
    let mut mirror = crate::setup::setup();
    mirror.config.token = Some("hf_of_the_mirror".to_owned());
    let listing = format!("/api/models/{REPO}/revision/main");
    let files = FILES.map(|file| format!("/{REPO}/resolve/{COMMIT}/{file}"));
    for path in files.iter().chain([&listing]) {
        let to = format!("{}{path}", setup.server.endpoint);
        mirror.server.trick(path, 2, Trick::Redirect(to));
    }
    let fetched = mirror.fetch(REPO).expect("the model");
    assert_eq!(
        fs::read(fetched.path.join(WEIGHTS_FILE)).expect("bytes"),
        weights()
    );
    let seen = setup.server.seen();
    assert!(seen.len() > FILES.len());
    assert!(seen.iter().all(|seen| seen.token.is_none()), "{seen:?}");
}

#[test]
fn a_redirect_in_a_circle_ends() {
    let setup = setup();
    let path = format!("/{REPO}/resolve/{COMMIT}/config.json");
    setup
        .server
        .trick(&path, 100, Trick::Redirect(path.clone()));
    assert!(setup.refusal(REPO).contains("more than 10 redirects"));
}

#[test]
fn a_model_by_the_address_of_its_page() {
    let setup = setup();
    let expected = setup.fetch(&format!("{REPO}@branch")).expect("the model");
    let page = format!("{}/{REPO}/tree/branch", setup.config.endpoint);
    let fetched = setup.fetch(&page).expect("the model");
    assert_eq!(fetched.path, expected.path);
    setup.server.put_large("x/a.Q8_0.gguf", &noise(500, 3));
    let page = format!("{}/{REPO}/blob/main/x/a.Q8_0.gguf", setup.config.endpoint);
    let fetched = setup.fetch(&page).expect("the file");
    assert!(fetched.path.ends_with("x/a.Q8_0.gguf"));
}

#[test]
fn a_gguf_file_by_its_quantisation() {
    let mut setup = setup();
    for name in ["x/tiny-Q8_0.gguf", "tiny-Q4_K_M.gguf", "tiny-Q4_K_S.gguf"] {
        setup.server.put_large(name, name.as_bytes());
    }
    let fetched = setup.fetch(&format!("{REPO}:q8_0")).expect("the file");
    assert!(fetched.path.ends_with("x/tiny-Q8_0.gguf"));
    assert_eq!(setup.blobs().len(), 1);
    let text = setup.fetch(&format!("{REPO}:Q5_0")).expect_err("none");
    let text = text.to_string();
    for word in [REPO, "Q5_0", ", x/tiny-Q8_0.gguf"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    setup.server.put_large("other-q8_0.gguf", b"another");
    let text = setup.fetch(&format!("{REPO}:Q8_0")).expect_err("two");
    let text = text.to_string();
    assert!(
        text.contains("other-q8_0.gguf, x/tiny-Q8_0.gguf; name one"),
        "{text}"
    );
    // The cache has one of them.
    setup.config.offline = true;
    let cached = setup.fetch(&format!("{REPO}:Q8_0")).expect("the file");
    assert_eq!(cached.path, fetched.path);
    let text = setup
        .fetch(&format!("{REPO}:Q4_K_M"))
        .expect_err("not there");
    let text = text.to_string();
    for word in [
        "one GGUF file of Q4_K_M is not in",
        "--include '*Q4_K_M*.gguf'",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn two_files_are_downloaded_at_once() {
    let setup = setup();
    setup.server.remove(WEIGHTS_FILE);
    let shard = |i: u32| format!("model-0000{i}-of-00004.safetensors");
    let map: Vec<String> = (1..=4)
        .map(|i| format!("\"{i}\": \"{}\"", shard(i)))
        .collect();
    let index = format!("{{\"weight_map\": {{{}}}}}", map.join(", "));
    setup
        .server
        .put("model.safetensors.index.json", index.as_bytes());
    for i in 1..=4 {
        setup.server.put_large(&shard(i), &noise(2000, i));
    }
    let late = Trick::Late(std::time::Duration::from_millis(200));
    setup.server.trick("GET /store", 4, late);
    let fetched = setup.fetch(REPO).expect("the model");
    assert_eq!(setup.server.most_at_work(), 2);
    for i in 1..=4 {
        let bytes = fs::read(fetched.path.join(shard(i))).expect("bytes");
        assert_eq!(bytes, noise(2000, i));
    }
}

#[test]
fn files_of_equal_content_are_fetched_once() {
    let setup = setup();
    setup.server.put("tokenizer_config.json", b"{}");
    setup.server.put("generation_config.json", b"{}");
    let fetched = setup.fetch(REPO).expect("the model");
    assert_eq!(names(&fetched.path), FILES);
    assert_eq!(setup.blobs().len(), FILES.len() - 1);
    let seen = setup.server.seen().into_iter();
    let got = seen.filter(|seen| seen.method == "GET" && seen.path.contains("n_config.json"));
    assert_eq!(got.count(), 1);
}

fn listings(setup: &crate::setup::Setup) -> usize {
    let seen = setup.server.seen().into_iter();
    seen.filter(|seen| seen.path.contains("/revision/")).count()
}

#[test]
fn a_branch_that_moves_is_listed_again() {
    let setup = setup();
    setup.server.trick("HEAD", 1, Trick::Move(NEXT_COMMIT));
    let fetched = setup.fetch(REPO).expect("the model");
    assert_eq!(fetched.commit, NEXT_COMMIT);
    assert_eq!(setup.snapshots(), [NEXT_COMMIT]);
    assert_eq!(listings(&setup), 2);
}

#[test]
fn files_of_another_commit_are_refused() {
    let setup = setup();
    let other = Trick::Header("X-Repo-Commit", NEXT_COMMIT.to_owned());
    setup.server.trick("HEAD", 99, other);
    let text = setup.refusal(REPO);
    assert!(
        text.contains(COMMIT) && text.contains(NEXT_COMMIT),
        "{text}"
    );
    assert_eq!(setup.blobs(), [""; 0]);
    assert_eq!(listings(&setup), 2);
    // A mirror may not send `X-Repo-Commit`.
    let mirror = crate::setup::setup();
    let silent = Trick::Without("X-Repo-Commit");
    mirror.server.trick("HEAD", 99, silent);
    mirror.fetch(REPO).expect("the model");
}
