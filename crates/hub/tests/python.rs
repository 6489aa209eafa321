//! One cache for Python's `huggingface_hub` and us. Skipped where `$BEAMGEN_PYTHON` (or `python3`)
//! lacks it.

use std::io::Read;
use std::process::{Command, Stdio};

use beamgen_hub::Progress;

use crate::server::{COMMIT, REPO, etag_of};
use crate::setup::{Setup, WEIGHTS_FILE, setup, weights};

/// Returns a command that runs a Python script with the variables `cache` and `repo`. `None` if
/// Python has no `huggingface_hub`; the test is then reported as skipped.
fn command(setup: &Setup, script: &str) -> Option<Command> {
    let program = beamgen_test_support::python("import huggingface_hub")?;
    let cache = setup.config.cache.to_str().expect("UTF-8");
    let script = format!("cache, repo = {cache:?}, {REPO:?}\n{script}");
    let mut command = Command::new(program);
    command
        .args(["-c", &script])
        .env("HF_ENDPOINT", &setup.config.endpoint)
        .env("HF_HOME", setup.config.cache.parent().expect("a folder"))
        .env("NO_PROXY", "127.0.0.1")
        .env_remove("HF_HUB_CACHE")
        .env_remove("HF_HUB_OFFLINE")
        .env_remove("HF_TOKEN");
    Some(command)
}

/// Runs a script and returns its standard output.
fn python(setup: &Setup, script: &str) -> Option<String> {
    let output = command(setup, script)?.output().expect("Python runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn python_finds_what_we_fetched() {
    let setup = setup();
    let fetched = setup.fetch(REPO).expect("the model");
    setup.server.seen();
    let printed = python(
        &setup,
        r#"
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download, try_to_load_from_cache
print(snapshot_download(repo, local_files_only=True))
print(try_to_load_from_cache(repo, "model.safetensors"))
print(try_to_load_from_cache(repo, "onnx/model.onnx"))
print(hf_hub_download(repo, "config.json", local_files_only=True))
found = scan_cache_dir()
print([(r.repo_id, [(v.commit_hash, sorted(v.refs), len(v.files)) for v in r.revisions]) for r in found.repos], found.warnings)
"#,
    );
    let Some(printed) = printed else { return };
    // Python also makes requests that are not about the model.
    let seen = setup.server.seen().into_iter();
    let of_model: Vec<_> = seen.filter(|seen| seen.path.contains(REPO)).collect();
    assert!(of_model.is_empty(), "{of_model:?}");
    let dir = fetched.path.display();
    let expected = format!(
        "{dir}\n{dir}/{WEIGHTS_FILE}\nNone\n{dir}/config.json\n[('{REPO}', [('{COMMIT}', ['main'], 6)])] []\n"
    );
    assert_eq!(printed, expected);
}

#[test]
fn we_find_what_python_fetched() {
    let mut setup = setup();
    let printed = python(
        &setup,
        r#"
from huggingface_hub import snapshot_download
print(snapshot_download(repo, ignore_patterns=["onnx/*", "original/*"]))
"#,
    );
    let Some(printed) = printed else { return };
    assert!(setup.server.seen().iter().any(|seen| seen.on_cdn));
    let pinned = setup.fetch(&format!("{REPO}@{COMMIT}")).expect("the model");
    assert_eq!(pinned.path.to_str(), Some(printed.trim()));
    assert!(setup.server.seen().is_empty());
    let asked = setup.fetch(REPO).expect("the model");
    assert!(asked.from_cache);
    assert_eq!(setup.server.seen().len(), 1);
    let listed = setup.hub().cached();
    assert!(listed[0].revisions[0].is_complete);
    assert_eq!(listed[0].revisions[0].refs, ["main"]);
    setup.config.offline = true;
    setup.config.endpoint = "http://127.0.0.1:9".to_owned();
    assert!(setup.fetch(REPO).expect("the model").from_cache);
}

#[test]
fn we_wait_for_pythons_lock() {
    let setup = setup();
    let lock = format!(
        r#"
import os, time
from huggingface_hub.utils import WeakFileLock
path = os.path.join(cache, ".locks", "models--org--tiny", "{}.lock")
os.makedirs(os.path.dirname(path))
with WeakFileLock(path):
    print("held", flush=True)
    time.sleep(0.5)
"#,
        etag_of(&weights(), true)
    );
    let Some(mut command) = command(&setup, &lock) else {
        return;
    };
    let mut child = command.stdout(Stdio::piped()).spawn().expect("Python runs");
    let mut held = [0; 4];
    let mut output = child.stdout.take().expect("its output");
    output.read_exact(&mut held).expect("the lock is held");
    let mut waited = vec![];
    let id = REPO.parse().expect("a name");
    let record = &mut |progress: Progress| {
        if let Progress::Waiting { file } = progress {
            waited.push(file);
        }
    };
    setup.hub().fetch(&id, record).expect("the model");
    assert_eq!(waited, [WEIGHTS_FILE]);
    assert!(child.wait().expect("Python ends").success());
}
