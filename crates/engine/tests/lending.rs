//! Two engines with one budget: what one has no use for, the other may take, and gives back.

mod common;

use std::sync::Arc;

use beamgen_engine::{Append, Engine, Error, IdleKv, Output, SeqId, Want};
use common::{append, assert_same_bits, engine, fresh, random_model, tiny_config, tokens};

const PAGE: usize = 4;

/// A lender of 10 pages and a borrower of 3.
fn pair() -> (Engine, Engine) {
    let model = random_model(tiny_config());
    let page = engine(&model, |c| c.page_size = PAGE).kv().page_bytes;
    let of = |pages: usize| {
        engine(&model, |c| {
            c.page_size = PAGE;
            c.kv_bytes = pages * page;
        })
    };
    let (mut lender, mut borrower) = (of(10), of(3));
    let idle = Arc::new(IdleKv::default());
    lender.lend(Arc::clone(&idle));
    borrower.borrow(Arc::clone(&idle), (1, 1));
    assert_eq!(idle.bytes(), 10 * page);
    (lender, borrower)
}

fn grow(engine: &mut Engine, seq: SeqId, pages: usize) -> Result<(), Error> {
    let tokens = tokens(PAGE * pages, 67, 3);
    let item = Append {
        seq,
        tokens: &tokens,
        want: Want::None,
    };
    engine.forward(&[item], Output::Hidden).map(|_| ())
}

#[test]
fn what_is_idle_moves_and_comes_back() {
    let (mut lender, mut borrower) = pair();
    let free = |engine: &Engine| engine.kv().pages_free;
    assert_eq!((free(&lender), free(&borrower)), (10, 13));
    let (a, b) = (lender.create(), borrower.create());
    grow(&mut lender, a, 4).unwrap();
    lender.promise(2);
    // Promised pages are the lender's own to take, and nobody else's.
    assert_eq!((free(&lender), free(&borrower)), (6, 7));
    assert!(matches!(
        grow(&mut borrower, b, 8),
        Err(Error::OutOfMemory { needed: 8, free: 7 })
    ));
    grow(&mut borrower, b, 7).unwrap();
    assert_eq!(borrower.kv().pages_over, 0);
    // The lender never has less for it.
    assert_eq!(free(&lender), 6);
    grow(&mut lender, a, 6).unwrap();
    lender.promise(0);
    let kv = borrower.kv();
    assert_eq!((kv.pages_over, kv.pages_free, kv.pages_own), (4, 0, 3));
    borrower.truncate(b, PAGE * 3);
    assert_eq!((borrower.kv().pages_over, free(&borrower)), (0, 0));
    lender.free(a);
    assert_eq!((free(&lender), free(&borrower)), (10, 10));
}

#[test]
fn borrowed_pages_hold_the_same_values() {
    let (mut lender, mut borrower) = pair();
    let long = tokens(PAGE * 12, 67, 1);
    for (engine, len) in [(&mut borrower, PAGE * 12), (&mut lender, PAGE * 10)] {
        let seq = engine.create();
        let rows = append(engine, seq, &long[..len], Want::All);
        let want = fresh(&Arc::clone(engine.model()), PAGE, &long[..len]);
        assert_same_bits(rows.row(len - 1), want.row(len - 1));
    }
}
