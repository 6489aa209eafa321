//! Checks that malicious files of `torch.save` are refused, in particular pickles that call code.

mod common;
#[path = "common/hostile.rs"]
mod hostile;

use std::alloc::System;
use std::fs;
use std::io::{Cursor, Write};

use beamgen_engine::{Model, Weights};
use cap::Cap;
use hostile::{LIMIT, assert_refused, damage, damaged, folder_with, formats};
use proptest::prelude::*;
use zip::write::SimpleFileOptions;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, LIMIT);

/// Creates an archive like `torch.save`, with the given pickle and a storage `0` of 16 bytes.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in [("m/data.pkl", pickle), ("m/data/0", &[0; 16])] {
        let options =
            SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        zip.start_file(name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[track_caller]
fn pickle_refused(pickle: &[u8], words: &[&str]) {
    let (dir, _) = folder_with("pytorch_model.bin", &archive(pickle));
    assert_refused(dir.path(), &[&["pytorch_model.bin"], words].concat());
}

#[test]
fn pickles_that_call_are_refused_by_name() {
    for (pickle, name) in [
        (
            &b"cposix\nsystem\n(X\x04\x00\x00\x00echotR."[..],
            "posix.system",
        ),
        (
            b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00echo\x85R.",
            "os.system",
        ),
        (
            b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x8c\x04echo\x85R.",
            "posix.system",
        ),
        (b"(X\x04\x00\x00\x00echoiposix\nsystem\n.", "posix.system"),
        (b"(cposix\nsystem\nX\x04\x00\x00\x00echoo.", "posix.system"),
        (b"c__builtin__\neval\n)R.", "__builtin__.eval"),
        (
            b"ctorch.storage\n_load_from_bytes\n)R.",
            "torch.storage._load_from_bytes",
        ),
        (b"ctorch\nload\n)R.", "torch.load"),
        (b"(ccollections\nOrderedDict\no.", "OBJ"),
        (b"(icollections\nOrderedDict\n.", "INST"),
        (b"\x82\x01)R.", "EXT1"),
        (b"\x83\x01\x00)R.", "EXT2"),
        (b"\x84\x01\x00\x00\x00)R.", "EXT4"),
        (b"ccollections\nOrderedDict\n)\x81.", "NEWOBJ"),
        (b"Pid\n.", "PERSID"),
        (b"\xfe.", "0xfe"),
    ] {
        pickle_refused(pickle, &[name, "refused"]);
    }
}

/// Returns the pickle of a dict with one float32 tensor named `w`.
fn tensor_pickle(storage: &str, offset: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let text = |s: &str| [&b"X"[..], &(s.len() as u32).to_le_bytes(), s.as_bytes()].concat();
    let int = |n: i64| [&b"\x8a\x08"[..], &n.to_le_bytes()].concat();
    let tuple = |items: &[i64]| {
        let items: Vec<u8> = items.iter().flat_map(|n| int(*n)).collect();
        [&b"("[..], &items, b"t"].concat()
    };
    [
        b"\x80\x02}",
        &text("w")[..],
        b"ctorch._utils\n_rebuild_tensor_v2\n((",
        &text("storage"),
        b"ctorch\nFloatStorage\n",
        &text(storage),
        &text("cpu"),
        &int(4),
        b"tQ",
        &int(offset),
        &tuple(shape),
        &tuple(strides),
        b"\x89NtRs.",
    ]
    .concat()
}

#[test]
fn pickles_whose_tensors_cannot_be() {
    let (dir, _) = folder_with(
        "pytorch_model.bin",
        &archive(&tensor_pickle("0", 1, &[3], &[1])),
    );
    assert_eq!(
        Weights::load(dir.path()).unwrap().tensor("w").unwrap().data,
        [0.0; 3]
    );

    let most = i64::MAX;
    for (pickle, words) in [
        (
            tensor_pickle("0", 2, &[3], &[1]),
            &["`w`", "does not fit into its storage of 16 bytes"][..],
        ),
        (
            tensor_pickle("0", most, &[1], &[1]),
            &["`w`", "does not fit"],
        ),
        (
            tensor_pickle("0", 0, &[most, most], &[1, 1]),
            &["`w`", "beyond all sizes"],
        ),
        (tensor_pickle("0", -1, &[1], &[1]), &["negative size"]),
        (tensor_pickle("0", 0, &[-1], &[1]), &["negative size"]),
        (
            tensor_pickle("0", 0, &[2, 2], &[1, 2]),
            &["`w`", "strides [1, 2]", "contiguous"],
        ),
        (
            tensor_pickle("0", 0, &[2, 2], &[1]),
            &["`w`", "strides", "contiguous"],
        ),
        (tensor_pickle("7", 0, &[1], &[1]), &["m/data/7"]),
        (
            tensor_pickle("../data.pkl", 0, &[1], &[1]),
            &["m/data/../data.pkl"],
        ),
        (
            tensor_pickle("0", 0, &[1; 65], &[1; 65]),
            &["too many dimensions"],
        ),
        (b"N.".to_vec(), &["not a state dict"]),
        (
            b"}X\x01\x00\x00\x00wNs.".to_vec(),
            &["not a state dict", "`w` is not a tensor"],
        ),
        (b"}NNs.".to_vec(), &["not a state dict"]),
        (b"}X\xff\xff\xff\xffw".to_vec(), &["ends too early"]),
        (b"".to_vec(), &["ends too early"]),
        (b")".to_vec(), &["ends too early"]),
        (b"0.".to_vec(), &["opcode"]),
        (b"h\x01.".to_vec(), &["memo is missing"]),
        (b"u.".to_vec(), &["mark is missing"]),
        (b"s.".to_vec(), &["value is missing"]),
        (b"(.".to_vec(), &["value is missing"]),
        (b")R.".to_vec(), &["value is missing"]),
        (b"))R.".to_vec(), &["not a function"]),
        (b"}Q.".to_vec(), &["not a storage"]),
        (b"))b.".to_vec(), &["a state"]),
    ] {
        pickle_refused(&pickle, words);
    }
    // Small files that would become large in memory.
    for piece in [&b")"[..], b"(", b"}q\x00h\x00"] {
        pickle_refused(&piece.repeat(3 << 20), &["too many marks"][..0]);
    }
}

#[test]
fn torch_files_that_are_not_whole() {
    let whole = fs::read(formats("torch/pytorch_model.bin")).unwrap();
    for len in [0, 1, 100, whole.len() / 2, whole.len() - 1] {
        let (dir, _) = folder_with("pytorch_model.bin", &whole[..len]);
        assert_refused(dir.path(), &["pytorch_model.bin", "truncated or corrupt"]);
    }
    let legacy = fs::read(formats("torch/legacy.bin")).unwrap();
    let (dir, _) = folder_with("pytorch_model.bin", &legacy);
    assert_refused(dir.path(), &["pytorch_model.bin", "before 1.6"]);
    let turned = fs::read(formats("torch/turned.bin")).unwrap();
    let (dir, _) = folder_with("pytorch_model.bin", &turned);
    assert_refused(dir.path(), &["pytorch_model.bin", "`turned`", "contiguous"]);
    let big = archive(b"}.");
    let mut zip = zip::ZipWriter::new_append(Cursor::new(big)).unwrap();
    zip.start_file(
        "m/byteorder",
        SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored),
    )
    .unwrap();
    zip.write_all(b"big").unwrap();
    let (dir, _) = folder_with("pytorch_model.bin", &zip.finish().unwrap().into_inner());
    assert_refused(dir.path(), &["pytorch_model.bin", "not little endian"]);
}

#[test]
fn torch_shards_that_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(formats("torch/sharded")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let index = dir.path().join("pytorch_model.bin.index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(
        &index,
        text.replace("model.norm.weight", "model.enorm.weight"),
    )
    .unwrap();
    assert_refused(
        dir.path(),
        &[
            "pytorch_model.bin.index.json",
            "model.enorm.weight",
            "in no shard",
        ],
    );
    fs::write(&index, text).unwrap();
    let shard = "pytorch_model-00002-of-00002.bin";
    fs::remove_file(dir.path().join(shard)).unwrap();
    assert_refused(dir.path(), &[shard]);
    let nothing = tempfile::tempdir().unwrap();
    assert_refused(
        nothing.path(),
        &[
            "model.safetensors.index.json",
            "pytorch_model.bin",
            "pytorch_model.bin.index.json",
            "gguf",
        ],
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_torch_files_never_panic(damage in damage(), config in any::<bool>()) {
        let file = damaged("torch/pytorch_model.bin", damage);
        let (dir, _) = folder_with("pytorch_model.bin", &file);
        if config {
            fs::copy(formats("torch/config.json"), dir.path().join("config.json")).unwrap();
        }
        if let Ok(weights) = Weights::load(dir.path()) {
            for name in weights.names() {
                let _ = weights.tensor(name);
            }
        }
        let _ = Model::load(dir.path());
    }

    #[test]
    fn random_pickles_never_panic(
        code in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 1..4),
                prop::sample::select(vec![
                    b"}".to_vec(), b"(".to_vec(), b")".to_vec(), b"t".to_vec(), b"u".to_vec(), b"s".to_vec(),
                    b"R".to_vec(), b"Q".to_vec(), b"b".to_vec(), b"q\x00".to_vec(), b"h\x00".to_vec(), b"\x86".to_vec(),
                    b"K\x01".to_vec(), b"X\x01\x00\x00\x000".to_vec(), b"ccollections\nOrderedDict\n".to_vec(),
                    b"ctorch._utils\n_rebuild_tensor_v2\n".to_vec(), b"ctorch\nFloatStorage\n".to_vec(),
                ]),
            ],
            0..40,
        ),
    ) {
        let mut code = code.concat();
        code.push(b'.');
        let (dir, _) = folder_with("pytorch_model.bin", &archive(&code));
        if let Err(error) = Weights::load(dir.path()) {
            prop_assert!(error.to_string().contains("pytorch_model.bin"));
        }
    }
}
