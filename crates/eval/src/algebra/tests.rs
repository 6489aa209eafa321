use proptest::prelude::*;

use super::*;

fn budget() -> Budget {
    Budget::new(1_000_000)
}

fn number(top: i64, bottom: i64) -> Fraction {
    Rational::new(top.into(), bottom.into()).into()
}

#[test]
fn nothing_outgrows_the_budget() {
    let x = Fraction::variable("x").plus(&Fraction::variable("y"), &mut budget());
    let x = x.unwrap();
    for (base, exponent, fault) in [
        (&number(10, 1), number(10_000, 1), Fault::TooHard),
        (&number(10, 1), number(i64::MAX, 1), Fault::TooHard),
        (&x, number(1_000, 1), Fault::TooHard),
        (&number(2, 1), number(100_000, 3), Fault::TooHard),
        (&number(0, 1), number(-1, 1), Fault::Unread),
        (&number(0, 1), number(0, 1), Fault::Unread),
        (&number(-2, 1), number(1, 4), Fault::Unread),
    ] {
        assert_eq!(
            power(base, &exponent, &mut budget()),
            Err(fault),
            "{exponent}"
        );
    }
    // 2^61 - 1 is prime, and too large to be found so.
    let prime = number((1 << 61) - 1, 1);
    assert_eq!(root(&prime, 2, &mut budget()), Err(Fault::TooHard));
    assert_eq!(root(&prime, 2, &mut Budget::new(10)), Err(Fault::TooHard));
    let square = number(65_537 * 65_537, 1);
    assert_eq!(root(&square, 2, &mut budget()), Ok(number(65_537, 1)));
}

#[test]
fn roots_have_one_form() {
    for (radicand, degree, want) in [
        (number(72, 1), 2, "6*2^(1/2)"),
        (number(1, 2), 2, "1/2*2^(1/2)"),
        (number(-8, 27), 3, "-2/3"),
        (number(-12, 1), 2, "2*i*3^(1/2)"),
        (number(64, 1), 6, "2"),
        (number(6, 1), 2, "2^(1/2)*3^(1/2)"),
        (number(0, 1), 2, "0"),
    ] {
        let root = root(&radicand, degree, &mut budget()).unwrap();
        assert_eq!(root.to_string(), want, "{radicand}");
    }
}

/// An expression and its value at x = 0.7, y = 1.3.
fn expression() -> impl Strategy<Value = (Fraction, f64)> {
    let leaf = prop_oneof![
        (-6i64..7, 1i64..5).prop_map(|(n, d)| (number(n, d), n as f64 / d as f64)),
        Just((Fraction::variable("x"), 0.7)),
        Just((Fraction::variable("y"), 1.3)),
        (2i64..20).prop_map(|n| (
            root(&number(n, 1), 2, &mut budget()).unwrap(),
            (n as f64).sqrt()
        )),
        Just((Fraction::atom(Atom::Pi), std::f64::consts::PI)),
        Just((
            apply("sin", &Fraction::variable("x"), &mut budget()).unwrap(),
            0.7f64.sin()
        )),
        Just((
            apply("tan", &Fraction::variable("x"), &mut budget()).unwrap(),
            0.7f64.tan()
        )),
    ];
    leaf.prop_recursive(4, 12, 2, |inner| {
        (inner.clone(), inner, 0..5).prop_map(|((a, x), (b, y), operation)| {
            let budget = &mut budget();
            let (worked, value) = match operation {
                0 => (a.plus(&b, budget), x + y),
                1 => (a.minus(&b, budget), x - y),
                2 => (a.times(&b, budget), x * y),
                3 => (a.over(&b, budget), x / y),
                _ => (a.times(&a, budget), x * x),
            };
            // What is refused is left out.
            worked.map_or((a, x), |worked| (worked, value))
        })
    })
}

proptest! {
    #[test]
    fn algebra_agrees_with_floating_point((a, x) in expression(), (b, y) in expression()) {
        if let Ok(Some(same)) = a.same(&b, &mut budget()) {
            let close = (x - y).abs() <= 1e-6 * (1.0 + x.abs() + y.abs());
            prop_assert!(!same || close, "{a} is {x}, {b} is {y}");
        }
    }

    #[test]
    fn the_laws_hold((a, _) in expression(), (b, _) in expression(), (c, _) in expression()) {
        let budget = &mut budget();
        let left = a.plus(&b, budget).and_then(|sum| sum.times(&c, budget));
        let right = a.times(&c, budget).and_then(|first| first.plus(&b.times(&c, budget)?, budget));
        if let (Ok(left), Ok(right)) = (left, right) {
            // No "different"; a root of a sum may leave it open.
            prop_assert_ne!(left.same(&right, budget), Ok(Some(false)), "{} {}", left, right);
        }
        if let Ok(quotient) = a.over(&b, budget)
            && let Ok(back) = quotient.times(&b, budget)
        {
            prop_assert_ne!(back.same(&a, budget), Ok(Some(false)), "{} {}", back, a);
        }
    }
}
