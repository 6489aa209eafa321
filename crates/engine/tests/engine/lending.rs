//! Tests engines that share a budget. A borrower may use pages that the lender does not need, and
//! must return them when the lender does.

use std::sync::Arc;

use crate::common::{append, assert_same_bits, engine, fresh, random_model, tiny_config, tokens};
use beamgen_engine::{Append, Engine, Error, IdleKv, Output, SeqId, Want};

const PAGE: usize = 4;

/// Creates a lender of 10 pages and borrowers of 3 pages each. Every borrower may use the fraction
/// `share` of the idle pages.
fn family<const N: usize>(share: (usize, usize)) -> (Engine, [Engine; N]) {
    let model = random_model(tiny_config());
    let page = engine(&model, |c| c.page_size = PAGE).kv().page_bytes;
    let of = |pages: usize| {
        engine(&model, |c| {
            c.page_size = PAGE;
            c.kv_bytes = pages * page;
        })
    };
    let idle = Arc::new(IdleKv::default());
    let mut lender = of(10);
    lender.lend(Arc::clone(&idle));
    assert_eq!(idle.bytes(), 10 * page);
    let borrower = |_| {
        let mut borrower = of(3);
        borrower.borrow(Arc::clone(&idle), share);
        borrower
    };
    (lender, std::array::from_fn(borrower))
}

fn free(engine: &Engine) -> usize {
    engine.kv().pages_free
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
    let (mut lender, [mut borrower]) = family((1, 1));
    assert_eq!((free(&lender), free(&borrower)), (10, 13));
    let (a, b) = (lender.create(), borrower.create());
    grow(&mut lender, a, 4).unwrap();
    lender.reserve(2);
    // Reserved pages cannot be borrowed.
    assert_eq!((free(&lender), free(&borrower)), (6, 7));
    assert!(matches!(
        grow(&mut borrower, b, 8),
        Err(Error::OutOfMemory { needed: 8, free: 7 })
    ));
    grow(&mut borrower, b, 7).unwrap();
    assert_eq!(borrower.kv().pages_over, 0);
    // A loan does not reduce the lender's free pages.
    assert_eq!(free(&lender), 6);
    grow(&mut lender, a, 6).unwrap();
    lender.reserve(0);
    let kv = borrower.kv();
    assert_eq!((kv.pages_over, kv.pages_free, kv.pages_own), (4, 0, 3));
    borrower.truncate(b, PAGE * 3);
    assert_eq!((borrower.kv().pages_over, free(&borrower)), (0, 0));
    lender.free(a);
    assert_eq!((free(&lender), free(&borrower)), (10, 10));
}

#[test]
fn two_borrowers_have_half_each() {
    let (mut lender, [mut first, mut second]) = family((1, 2));
    let over = |engine: &Engine| engine.kv().pages_over;
    assert_eq!((free(&first), free(&second)), (8, 8));
    let (a, b, c) = (lender.create(), first.create(), second.create());
    // The halves are separate: pages that one borrower takes do not reduce the other's.
    grow(&mut first, b, 8).unwrap();
    assert_eq!((free(&lender), free(&first), free(&second)), (10, 0, 8));
    assert!(matches!(
        grow(&mut second, c, 9),
        Err(Error::OutOfMemory { needed: 9, free: 8 })
    ));
    grow(&mut second, c, 8).unwrap();
    // Half of the seven idle pages, rounded down, is three.
    grow(&mut lender, a, 3).unwrap();
    assert_eq!((over(&first), over(&second)), (2, 2));
    first.truncate(b, PAGE * 6);
    assert_eq!((over(&first), over(&second)), (0, 2));
    second.truncate(c, PAGE * 6);
    // The lender uses its whole budget, so each borrower may keep only its own pages.
    grow(&mut lender, a, 7).unwrap();
    assert_eq!((over(&first), over(&second)), (3, 3));
    first.free(b);
    second.truncate(c, PAGE * 3);
    assert_eq!((over(&second), free(&first), free(&second)), (0, 3, 0));
    lender.free(a);
    assert_eq!((free(&first), free(&second)), (8, 5));
}

#[test]
fn borrowed_pages_hold_the_same_values() {
    let (mut lender, [mut borrower]) = family((1, 1));
    let long = tokens(PAGE * 12, 67, 1);
    for (engine, len) in [(&mut borrower, PAGE * 12), (&mut lender, PAGE * 10)] {
        let seq = engine.create();
        let rows = append(engine, seq, &long[..len], Want::All);
        let want = fresh(&Arc::clone(engine.model()), PAGE, &long[..len]);
        assert_same_bits(rows.row(len - 1), want.row(len - 1));
    }
}
