//! Prefixes that several sequences share are read once, and every row is the one that a new engine
//! computes.

use std::sync::Arc;

use beamgen_engine::{Append, Engine, Error, Model, Output, SeqId, Want};

use crate::common::{append, assert_same_bits, engine, fresh, random_model, tiny_config, tokens};

const PAGE: usize = 4;

fn caching(model: &Arc<Model>, pages: usize) -> Engine {
    engine(model, |c| {
        (c.page_size, c.prefix_cache) = (PAGE, true);
        // A sixteenth of the budget may keep its memory.
        let page = engine(model, |c| c.page_size = PAGE).kv().page_bytes;
        c.kv_bytes = pages * page;
    })
}

fn read(engine: &mut Engine, tokens: &[u32]) -> (SeqId, Vec<f32>) {
    let seq = engine.create();
    let rows = append(engine, seq, tokens, Want::Last);
    (seq, rows.row(0).to_vec())
}

/// Returns the tokens of passes and the tokens that were found.
fn counts(engine: &Engine) -> (u64, u64) {
    let computed = engine.computed();
    (computed.tokens, computed.reused_tokens)
}

fn expect_last(model: &Arc<Model>, tokens: &[u32], row: &[f32]) {
    let rows = fresh(model, PAGE, tokens);
    assert_same_bits(rows.row(tokens.len() - 1), row);
}

#[test]
fn full_pages_of_a_prefix_are_read_once() {
    let model = random_model(tiny_config());
    let mut engine = caching(&model, 1000);
    let all = tokens(23, 50, 1);
    let (first, _) = read(&mut engine, &all[..18]);
    // Four full pages, while the first sequence is there.
    let (second, row) = read(&mut engine, &all);
    expect_last(&model, &all, &row);
    assert_eq!(counts(&engine), (18 + 7, 16));
    assert_eq!(engine.kv().pages_used, 5 + 2);
    // All but the wanted row, after both sequences were freed.
    engine.free(first);
    engine.free(second);
    assert_eq!(engine.kv().pages_used, 0);
    let (third, row) = read(&mut engine, &all[..20]);
    expect_last(&model, &all[..20], &row);
    assert_eq!(counts(&engine), (25 + 4, 16 + 16));
    // Tokens that continue a sequence are found, too; other tokens are not.
    let mut other = all.clone();
    other[21] += 1;
    let rows = append(&mut engine, third, &other[20..], Want::Last);
    expect_last(&model, &other, rows.row(0));
    let (_, row) = read(&mut engine, &other[4..]);
    expect_last(&model, &other[4..], &row);
    assert_eq!(counts(&engine), (29 + 3 + 19, 32));
}

#[test]
fn only_tokens_before_a_wanted_row_are_found() {
    let model = random_model(tiny_config());
    let mut engine = caching(&model, 1000);
    let all = tokens(20, 50, 2);
    read(&mut engine, &all);
    let whole = fresh(&model, PAGE, &all);
    for (want, found, rows) in [
        (Want::All, 0, (0..20).collect::<Vec<_>>()),
        (Want::At(&[7, 19]), 4, vec![7, 19]),
        (Want::At(&[8, 9]), 8, vec![8, 9]),
        (Want::Last, 16, vec![19]),
        (Want::None, 20, vec![]),
        (Want::At(&[]), 20, vec![]),
    ] {
        let before = counts(&engine);
        let seq = engine.create();
        let got = append(&mut engine, seq, &all, want);
        assert_eq!(got.len(), rows.len());
        for (row, at) in got.iter().zip(rows) {
            assert_same_bits(whole.row(at), row);
        }
        let (read, reused) = counts(&engine);
        assert_eq!(
            (read - before.0, reused - before.1),
            (20 - found, found),
            "{want:?}"
        );
        assert_eq!(engine.len(seq), 20);
    }
}

#[test]
fn a_shortened_sequence_that_writes_over_a_page_does_not_change_others() {
    let model = random_model(tiny_config());
    let mut engine = caching(&model, 1000);
    let a = tokens(12, 50, 3);
    let (seq, _) = read(&mut engine, &a);
    engine.truncate(seq, 6);
    let mut b = a.clone();
    b[7] += 1;
    // The sequence alone has its second page, so it writes over the end of it.
    let rows = append(&mut engine, seq, &b[6..], Want::Last);
    expect_last(&model, &b, rows.row(0));
    for tokens in [&a, &b] {
        let (_, row) = read(&mut engine, tokens);
        expect_last(&model, tokens, &row);
    }
    // A page that another sequence has found is copied first. The call finds it in time.
    let (seq, _) = read(&mut engine, &b);
    engine.truncate(seq, 7);
    let other = engine.create();
    let items = [
        Append {
            seq,
            tokens: &a[7..],
            want: Want::Last,
        },
        Append {
            seq: other,
            tokens: &b,
            want: Want::Last,
        },
    ];
    let rows = engine.forward(&items, Output::Logits).unwrap();
    let mixed: Vec<u32> = b[..7].iter().chain(&a[7..]).copied().collect();
    expect_last(&model, &mixed, rows.row(0));
    expect_last(&model, &b, rows.row(1));
}

#[test]
fn a_prefix_that_sequences_of_one_call_share_is_read_once() {
    let model = random_model(tiny_config());
    let mut engine = caching(&model, 1000);
    let system = tokens(10, 50, 4);
    let problem = |n: usize, seed| [&system[..], &tokens(n, 50, seed)].concat();
    let mut texts: Vec<Vec<u32>> = (0..5).map(|i| problem(3 + i, 10 + i as u64)).collect();
    // Two of them share three tokens more, which fill a page, and a third one is equal.
    let common = texts[3][..13].to_vec();
    texts[4][..13].copy_from_slice(&common);
    texts.push(texts[3].clone());
    let seqs: Vec<SeqId> = texts.iter().map(|_| engine.create()).collect();
    let items: Vec<Append<'_>> = texts
        .iter()
        .zip(&seqs)
        .map(|(tokens, &seq)| Append {
            seq,
            tokens,
            want: Want::Last,
        })
        .collect();
    let rows = engine.forward(&items, Output::Logits).unwrap();
    for (tokens, row) in texts.iter().zip(rows.iter()) {
        expect_last(&model, tokens, row);
    }
    let all: usize = texts.iter().map(Vec::len).sum();
    // The first 8 tokens are read once for six sequences, the next 4 once for three of them.
    let spared = 5 * 8 + 2 * 4;
    assert_eq!(counts(&engine), ((all - spared) as u64, spared as u64));
    assert_eq!(engine.sequences(), texts.len());
}

#[test]
fn pages_that_are_kept_count_as_free_and_are_given_up_first_to_last() {
    let model = random_model(tiny_config());
    // Of 64 pages, 4 may keep their content.
    let mut engine = caching(&model, 64);
    let texts: Vec<Vec<u32>> = (0..3)
        .map(|seed| tokens(2 * PAGE + 1, 50, 20 + seed))
        .collect();
    for text in &texts {
        let (seq, _) = read(&mut engine, text);
        engine.free(seq);
    }
    assert_eq!(engine.kv().pages_free, 64);
    for (text, reused) in texts.iter().zip([0, 8, 8]).rev() {
        let before = counts(&engine).1;
        let (seq, row) = read(&mut engine, text);
        expect_last(&model, text, &row);
        assert_eq!(counts(&engine).1 - before, reused);
        engine.free(seq);
    }
    // A sequence that needs all pages gets them.
    let long = tokens(64 * PAGE, 50, 30);
    let (seq, row) = read(&mut engine, &long);
    expect_last(&model, &long, &row);
    assert_eq!(engine.kv().pages_free, 0);
    let other = engine.create();
    // Pages in use are found even if no page is free. A call that fails anyway changes nothing.
    let item = |tokens| Append {
        seq: other,
        tokens,
        want: Want::Last,
    };
    let error = engine
        .forward(&[item(&long[..10])], Output::Logits)
        .unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { needed: 1, free: 0 }),
        "{error}"
    );
    assert_eq!((engine.len(other), engine.kv().pages_used), (0, 64));
    engine.truncate(seq, 63 * PAGE);
    let rows = engine
        .forward(&[item(&long[..10])], Output::Logits)
        .unwrap();
    expect_last(&model, &long[..10], rows.row(0));
}

#[test]
fn random_calls_give_the_rows_of_a_new_engine() {
    let model = random_model(tiny_config());
    let mut state = 7u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut engine = caching(&model, 160);
    let mut live: Vec<(SeqId, Vec<u32>)> = Vec::new();
    for _ in 0..400 {
        match random(6) {
            0 if !live.is_empty() => {
                let (seq, _) = live.swap_remove(random(live.len()));
                engine.free(seq);
            }
            1 if !live.is_empty() => {
                let at = random(live.len());
                let len = random(live[at].1.len() + 1);
                live[at].1.truncate(len);
                engine.truncate(live[at].0, len);
            }
            2 if !live.is_empty() => {
                let (seq, tokens) = live[random(live.len())].clone();
                live.push((engine.fork(seq), tokens));
            }
            _ => live.push((engine.create(), Vec::new())),
        }
        while live.len() > 6 {
            engine.free(live.remove(0).0);
        }
        // Few different tokens, so that many prefixes are equal by chance.
        let news: Vec<Vec<u32>> = live
            .iter()
            .map(|(_, tokens)| {
                let room = 24 - tokens.len().min(24);
                (0..random(12).min(room))
                    .map(|_| u32::from(random(12) == 0))
                    .collect()
            })
            .collect();
        let items: Vec<Append<'_>> = live
            .iter()
            .zip(&news)
            .map(|(&(seq, _), tokens)| Append {
                seq,
                tokens,
                want: Want::Last,
            })
            .collect();
        let rows = engine.forward(&items, Output::Logits).unwrap();
        let mut rows = rows.iter();
        for ((_, tokens), new) in live.iter_mut().zip(news) {
            tokens.extend(&new);
            if !new.is_empty() {
                expect_last(&model, tokens, rows.next().unwrap());
            }
        }
    }
    let (read, reused) = counts(&engine);
    assert!(reused > read / 10, "{reused} of {read} tokens were found");
    for (seq, _) in live {
        engine.free(seq);
    }
    assert_eq!(engine.kv().pages_used, 0);
}
