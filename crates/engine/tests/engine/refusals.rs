//! Checks that a refused call changes nothing.

use std::sync::Arc;

use crate::common::{append, assert_same_bits, engine, fresh, random_model, tiny_config, tokens};
use beamgen_engine::{Append, Engine, EngineConfig, Error, IsaChoice, KvType, Output, Want};

#[test]
fn a_refused_call_changes_nothing() {
    type Case<'a> = (Vec<Append<'a>>, fn(&Error) -> bool);
    let model = random_model(tiny_config());
    let page_bytes = engine(&model, |c| c.page_size = 4).kv().page_bytes;
    let mut engine = engine(&model, |c| {
        c.page_size = 4;
        c.kv_bytes = 10 * page_bytes + 1;
    });
    assert_eq!(engine.kv().pages_total, 10);
    let prompt = tokens(10, 67, 1);
    let a = engine.create();
    append(&mut engine, a, &prompt, Want::None);
    let b = engine.fork(a);
    let stale = engine.create();
    engine.free(stale);

    let before = engine.kv();
    let one = |seq, tokens, want| Append { seq, tokens, want };
    let long = tokens_of(400);
    let cases: Vec<Case<'_>> = vec![
        (
            vec![one(a, &[1], Want::Last), one(stale, &[1], Want::Last)],
            |e| matches!(e, Error::UnknownSequence(_)),
        ),
        (
            vec![one(a, &[1], Want::Last), one(a, &[2], Want::Last)],
            |e| matches!(e, Error::DuplicateSequence(_)),
        ),
        (
            vec![one(a, &[1], Want::Last), one(b, &[67], Want::Last)],
            |e| {
                matches!(
                    e,
                    Error::UnknownToken {
                        token: 67,
                        vocab: 67
                    }
                )
            },
        ),
        (
            vec![one(a, &[1], Want::None), one(b, &long, Want::None)],
            |e| {
                matches!(
                    e,
                    Error::ContextOverflow {
                        len: 10,
                        extra: 400,
                        max: 400
                    }
                )
            },
        ),
        (
            vec![one(a, &[1], Want::None), one(b, &[1], Want::At(&[1]))],
            |e| {
                matches!(
                    e,
                    Error::BadWant {
                        index: 1,
                        tokens: 1
                    }
                )
            },
        ),
        // Both sequences append to their shared last page: the first copies the page, and the
        // second keeps it.
        (
            vec![
                one(a, &long[..14], Want::None),
                one(b, &long[..19], Want::None),
            ],
            |e| matches!(e, Error::OutOfMemory { needed: 9, free: 7 }),
        ),
    ];
    for (items, expected) in cases {
        let error = engine.forward(&items, Output::Logits).unwrap_err();
        assert!(expected(&error), "{error}");
        assert_eq!(engine.kv(), before);
        assert_eq!((engine.len(a), engine.len(b)), (10, 10));
    }

    // After the refusals the engine can still use all its pages.
    assert_eq!(
        (engine.pages_needed(a, 12), engine.pages_needed(a, 0)),
        (4, 0)
    );
    let items = [
        one(a, &long[..14], Want::Last),
        one(b, &long[14..26], Want::Last),
    ];
    let rows = engine.forward(&items, Output::Logits).unwrap();
    assert_eq!(engine.kv().pages_free, 0);
    for (i, piece) in [&long[..14], &long[14..26]].into_iter().enumerate() {
        let whole = fresh(&model, 4, &[&prompt, piece].concat());
        assert_same_bits(rows.row(i), whole.row(prompt.len() + piece.len() - 1));
    }
    let error = engine
        .forward(&[one(a, &[1], Want::Last)], Output::Logits)
        .unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { needed: 1, free: 0 }),
        "{error}"
    );
    engine.free(a);
    engine.free(b);
    assert_eq!(engine.kv().pages_used, 0);
    assert_eq!(engine.kv().peak_pages, 10);
}

fn tokens_of(n: usize) -> Vec<u32> {
    tokens(n, 67, 99)
}

#[test]
fn the_context_is_used_to_its_end() {
    let mut config = tiny_config();
    config.max_position_embeddings = 37;
    let model = random_model(config);
    let mut engine = engine(&model, |_| ());
    let seq = engine.create();
    append(&mut engine, seq, &tokens_of(37), Want::None);
    let item = Append {
        seq,
        tokens: &[0],
        want: Want::Last,
    };
    let error = engine.forward(&[item], Output::Logits).unwrap_err();
    assert!(matches!(
        error,
        Error::ContextOverflow {
            len: 37,
            extra: 1,
            max: 37
        }
    ));
}

#[test]
fn nothing_to_do_is_fine() {
    let model = random_model(tiny_config());
    let mut engine = engine(&model, |_| ());
    assert!(engine.forward(&[], Output::Logits).unwrap().is_empty());
    let seq = engine.create();
    for want in [Want::None, Want::Last, Want::All, Want::At(&[])] {
        assert!(append(&mut engine, seq, &[], want).is_empty());
    }
    assert_eq!((engine.len(seq), engine.kv().pages_used), (0, 0));
    assert!(append(&mut engine, seq, &[1, 2], Want::At(&[])).is_empty());
    assert_eq!(engine.len(seq), 2);
}

#[test]
fn settings_that_cannot_be() {
    let model = random_model(tiny_config());
    let cases = [
        (
            "page_size",
            EngineConfig {
                page_size: 0,
                ..EngineConfig::default()
            },
        ),
        (
            "page_size",
            EngineConfig {
                page_size: 257,
                ..EngineConfig::default()
            },
        ),
        (
            "max_rows",
            EngineConfig {
                max_rows: 0,
                ..EngineConfig::default()
            },
        ),
        (
            "kv_bytes",
            // A page of bfloat16 takes half the bytes of a float32 page; the budget is one byte
            // less than that.
            EngineConfig {
                kv_bytes: 16 * 2 * 3 * 2 * 12 * 2 - 1,
                kv_dtype: KvType::Bf16,
                ..EngineConfig::default()
            },
        ),
        (
            "kv_bytes",
            EngineConfig {
                kv_bytes: 1000,
                ..EngineConfig::default()
            },
        ),
    ];
    for (field, config) in cases {
        let error = Engine::new(Arc::clone(&model), config)
            .unwrap_err()
            .to_string();
        assert!(error.contains(field), "{error}");
    }
}

#[test]
fn settings_are_read_strictly() {
    let config: EngineConfig =
        serde_json::from_str(r#"{"page_size": 32, "isa": "portable"}"#).unwrap();
    assert_eq!(config.isa, IsaChoice::Portable);
    assert_eq!(
        config,
        EngineConfig {
            page_size: 32,
            isa: IsaChoice::Portable,
            ..Default::default()
        }
    );
    assert!(serde_json::from_str::<EngineConfig>(r#"{"pagesize": 32}"#).is_err());
}
