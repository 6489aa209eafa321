//! The comparison of two sides of an equation; printed numbers may be rounded.

use beamgen_eval::number::Rational;
use num_bigint::BigInt;
use num_traits::{One, Signed, Zero};

use super::equation::Relation;
use super::expression::Expression;
use super::value::{Value, unit};
use super::words::CONVERSIONS;

/// With at least this many decimals a number is taken for the output of a floating-point program.
const FLOAT_PLACES: usize = 12;

/// The result of comparing two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The sides are equal, or their intervals overlap.
    Equal,
    /// The printed side is the other side, rounded to the printed places.
    Rounded,
    /// The difference may come from rounding, or may be a mistake.
    Unclear,
    /// No reading of the numbers makes them equal.
    Different,
}

/// Compares the values of two expressions.
pub(crate) fn compare(left: &Expression, right: &Expression, relation: Relation) -> Match {
    let (Some(l), Some(r)) = (&left.value, &right.value) else {
        return Match::Unclear;
    };
    if l.at == r.at {
        return Match::Equal;
    }
    if relation == Relation::About {
        return about(left, right, l, r);
    }
    match (&left.literal, &right.literal) {
        (_, Some((printed, places))) => as_printed(l, printed, *places),
        (Some((printed, places)), None) => as_printed(r, printed, *places),
        (None, None) if l.low <= r.high && r.low <= l.high => Match::Equal,
        (None, None) if is_close(l, r) => Match::Unclear,
        (None, None) => Match::Different,
    }
}

/// Whether two numbers agree to 12 digits, as results of double precision do.
fn is_float_noise(value: &Rational, printed: &Rational) -> bool {
    let scale = Rational::from_integer(num_traits::pow(BigInt::from(10), 12));
    (value - printed).abs() * scale <= value.abs().max(Rational::one())
}

/// Compares a value with a number printed with `places` decimals. `None` means an exact number.
fn as_printed(value: &Value, printed: &Rational, places: Option<usize>) -> Match {
    let Some(places) = places else {
        let inside = value.low <= *printed && *printed <= value.high;
        return if inside {
            Match::Equal
        } else {
            Match::Different
        };
    };
    if places >= FLOAT_PLACES && is_float_noise(&value.at, printed) {
        return Match::Equal;
    }
    let unit = unit(places);
    if value.is_exact() && (&value.at / &unit).is_integer() {
        // "2.5 = 3": the value fits into the printed places, so nobody rounded.
        return Match::Different;
    }
    let two = Rational::from_integer(2.into());
    let (low, high) = (&value.low - printed, &value.high - printed);
    let half = &unit / &two;
    if low <= half && high >= -&half {
        if value.is_exact() {
            Match::Rounded
        } else {
            Match::Equal
        }
    } else if low < unit && high > -unit {
        // The digits may have been cut off instead of rounded.
        Match::Unclear
    } else {
        Match::Different
    }
}

/// Whether rounded intermediate results may explain the difference: at most 2 percent, and not
/// between two exact whole numbers.
fn is_close(one: &Value, other: &Value) -> bool {
    let difference = (&one.at - &other.at).abs();
    let scale = one.at.abs().max(other.at.abs());
    let whole = one.at.is_integer() && other.at.is_integer() && one.is_exact() && other.is_exact();
    !whole && difference * Rational::from_integer(50.into()) <= scale
}

/// Compares two sides under "about". Equal: within 5 percent or one unit of the last printed digit.
/// Different: more than 25 percent apart.
fn about(left: &Expression, right: &Expression, l: &Value, r: &Value) -> Match {
    let difference = (&l.at - &r.at).abs();
    let scale = l.at.abs().max(r.at.abs());
    let printed = |side: &Expression| {
        let (number, places) = side.literal.as_ref()?;
        Some(last_digit(number, (*places)?))
    };
    let digit = printed(left).into_iter().chain(printed(right)).max();
    let [twentieth, quarter] =
        [20, 4].map(|part: i64| &scale / Rational::from_integer(part.into()));
    match digit {
        Some(digit) if difference <= digit => Match::Equal,
        _ if difference <= twentieth => Match::Equal,
        _ if difference <= quarter => Match::Unclear,
        _ => Match::Different,
    }
}

/// Returns the place value of the last significant digit: 100 for 3400, 0.01 for 2.75.
fn last_digit(number: &Rational, places: usize) -> Rational {
    let ten = Rational::from_integer(10.into());
    let mut digit = unit(places);
    let whole = places == 0 && !number.is_zero();
    let mut left = 400;
    while whole && left > 0 && (number / (&digit * &ten)).is_integer() {
        digit *= &ten;
        left -= 1;
    }
    digit
}

/// Whether the ratio of the sides is one of [`CONVERSIONS`], within 1 percent.
pub(crate) fn is_conversion(left: &Value, right: &Value) -> bool {
    if left.at.is_zero() || right.at.is_zero() {
        return false;
    }
    let ratio = (&left.at / &right.at).abs();
    let ratio = ratio.clone().max(ratio.recip());
    // The tolerance is for results of conversions that were rounded.
    CONVERSIONS.iter().any(|&factor| {
        let factor = Rational::from_integer(factor.into());
        let off = (&ratio - &factor).abs() * Rational::from_integer(100.into());
        off <= factor
    })
}
