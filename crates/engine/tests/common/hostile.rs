//! Helpers for malicious files. Each must be refused with a clear message of one line, without a
//! panic, and without much more memory than the file has. A program with these tests uses an
//! allocator that ends the process beyond [`LIMIT`].

use std::fs;
use std::path::{Path, PathBuf};

use beamgen_engine::{Model, ModelConfig, Tokenizer, Weights};
use proptest::prelude::*;

use crate::common::fixture;

/// The most bytes of memory. The files have at most 100 kB; the test program itself needs the rest.
pub(crate) const LIMIT: usize = 512 << 20;

pub(crate) fn formats(name: &str) -> PathBuf {
    fixture("formats").join(name)
}

/// Creates a folder with one file. Returns the folder and the file's path.
pub(crate) fn folder_with(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

/// Reads everything that the engine reads of a checkpoint. Returns the first error.
pub(crate) fn read_all(path: &Path) -> Result<(), String> {
    let error = |e: beamgen_engine::Error| e.to_string();
    let weights = Weights::load(path).map_err(error)?;
    for name in weights.names() {
        weights.tensor(name).map_err(error)?;
    }
    let config = ModelConfig::load(path).map_err(error)?;
    Tokenizer::load(path)
        .map_err(error)?
        .check(&config)
        .map_err(error)?;
    Model::load(path).map_err(error)?;
    Ok(())
}

#[track_caller]
pub(crate) fn assert_refused(path: &Path, words: &[&str]) {
    let message = read_all(path).unwrap_err();
    assert!(!message.contains('\n'), "{message:?} is not one line");
    for word in words {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
}

/// Bytes to overwrite (each as a place from 0 to 1 and a value), and a length to cut the file to.
/// Most places are near the beginning, in the header.
pub(crate) fn damage() -> impl Strategy<Value = (Vec<(f64, u8)>, Option<f64>)> {
    let place = prop_oneof![0.0..0.02f64, 0.0..0.2f64, 0.0..1.0f64];
    let byte = prop_oneof![any::<u8>(), Just(0), Just(0xFF), Just(0x80)];
    let bytes = prop::collection::vec((place, byte), 1..5);
    (bytes, prop::option::weighted(0.2, 0.0..1.0f64))
}

pub(crate) fn damaged(name: &str, (bytes, end): (Vec<(f64, u8)>, Option<f64>)) -> Vec<u8> {
    let mut file = fs::read(formats(name)).unwrap();
    let len = file.len() as f64;
    for (place, byte) in bytes {
        file[(place * len) as usize] = byte;
    }
    file.truncate((end.unwrap_or(1.0) * len) as usize);
    file
}
