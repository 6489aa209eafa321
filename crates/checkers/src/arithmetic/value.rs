//! Interval arithmetic with exact rationals. A printed decimal may be rounded, so it stands for an
//! interval.

use beamgen_eval::number::Rational;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};

/// The maximum size of a numerator or denominator, in bits; larger results have no value.
const MAX_BITS: u64 = 4096;

/// The largest exponent of a power.
const MAX_EXPONENT: u32 = 1024;

/// A number as written, and the interval of numbers that may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// The lower end of the interval, at most `at`.
    pub low: Rational,
    /// The number as written, between the ends.
    pub at: Rational,
    /// The upper end of the interval, at least `at`.
    pub high: Rational,
}

/// The error of a calculation that has no result, or one that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoValue;

type Worked = Result<Value, NoValue>;

impl Value {
    /// Makes an interval that contains only `at`.
    pub(crate) fn exact(at: Rational) -> Self {
        Self {
            low: at.clone(),
            high: at.clone(),
            at,
        }
    }

    /// Makes the interval from `at - slack` to `at + slack`.
    pub(crate) fn about(at: Rational, slack: &Rational) -> Self {
        Self {
            low: &at - slack,
            high: &at + slack,
            at,
        }
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.low == self.high
    }

    pub(crate) fn negated(self) -> Self {
        Self {
            low: -self.high,
            at: -self.at,
            high: -self.low,
        }
    }

    pub(crate) fn plus(&self, other: &Self) -> Worked {
        bounded(Self {
            low: &self.low + &other.low,
            at: &self.at + &other.at,
            high: &self.high + &other.high,
        })
    }

    pub(crate) fn minus(&self, other: &Self) -> Worked {
        self.plus(&other.clone().negated())
    }

    pub(crate) fn times(&self, other: &Self) -> Worked {
        let at = &self.at * &other.at;
        if self.is_exact() && other.is_exact() {
            return bounded(Self::exact(at));
        }
        let mut ends = [
            &self.low * &other.low,
            &self.low * &other.high,
            &self.high * &other.low,
            &self.high * &other.high,
        ];
        ends.sort();
        let [low, _, _, high] = ends;
        bounded(Self { low, at, high })
    }

    pub(crate) fn over(&self, other: &Self) -> Worked {
        if !other.low.is_positive() && !other.high.is_negative() || other.at.is_zero() {
            return Err(NoValue);
        }
        self.times(&Self {
            low: other.high.recip(),
            at: other.at.recip(),
            high: other.low.recip(),
        })
    }

    /// Raises to a power. The exponent must be exact, whole, and at most [`MAX_EXPONENT`] in size.
    pub(crate) fn power(&self, exponent: &Self) -> Worked {
        if !exponent.is_exact() || !exponent.at.is_integer() {
            return Err(NoValue);
        }
        let exponent = exponent.at.to_i64().ok_or(NoValue)?;
        let times = u32::try_from(exponent.unsigned_abs()).map_err(|_| NoValue)?;
        let bits = self.at.numer().bits().max(self.at.denom().bits());
        if times > MAX_EXPONENT || bits * u64::from(times) > MAX_BITS {
            return Err(NoValue);
        }
        if times == 0 && self.at.is_zero() {
            return Err(NoValue);
        }
        let mut power = Self::exact(Rational::from_integer(1.into()));
        for _ in 0..times {
            power = power.times(self)?;
        }
        if exponent < 0 {
            Self::exact(Rational::from_integer(1.into())).over(&power)
        } else {
            Ok(power)
        }
    }

    pub(crate) fn hundredth(&self) -> Self {
        let hundred = Rational::from_integer(100.into());
        Self {
            low: &self.low / &hundred,
            at: &self.at / &hundred,
            high: &self.high / &hundred,
        }
    }
}

fn bounded(value: Value) -> Worked {
    let small = |number: &Rational| number.numer().bits().max(number.denom().bits()) <= MAX_BITS;
    if small(&value.low) && small(&value.at) && small(&value.high) {
        Ok(value)
    } else {
        Err(NoValue)
    }
}

/// Returns the place value of the last of `places` decimals: 0.01 for 2.
pub(crate) fn unit(places: usize) -> Rational {
    Rational::new(1.into(), ten_to(places))
}

fn ten_to(places: usize) -> BigInt {
    num_traits::pow(BigInt::from(10), places)
}

/// Writes a number as a whole number or as a decimal of at most 6 places; long texts are cut.
pub(crate) fn show(number: &Rational) -> String {
    let text = if number.is_integer() {
        number.to_integer().to_string()
    } else {
        decimal(number)
    };
    if text.len() <= 40 {
        text
    } else {
        format!("{}... ({} digits)", &text[..12], text.len())
    }
}

fn decimal(number: &Rational) -> String {
    const PLACES: usize = 6;
    let scaled = number * Rational::from_integer(ten_to(PLACES));
    let digits = scaled.trunc().to_integer();
    let sign = if number.is_negative() { "-" } else { "" };
    let text = format!("{:0>width$}", digits.abs().to_string(), width = PLACES + 1);
    let (whole, places) = text.split_at(text.len() - PLACES);
    if scaled.is_integer() {
        format!("{sign}{whole}.{}", places.trim_end_matches('0'))
    } else {
        format!("{sign}{whole}.{places}...")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(n: i64) -> Value {
        Value::exact(Rational::from_integer(n.into()))
    }

    #[test]
    fn numbers_are_shown_as_people_write_them() {
        let ratio = |a: i64, b: i64| Rational::new(a.into(), b.into());
        for (number, text) in [
            (ratio(12, 1), "12"),
            (ratio(-1, 2), "-0.5"),
            (ratio(10, 3), "3.333333..."),
            (ratio(-1, 8), "-0.125"),
            (ratio(1, 100), "0.01"),
        ] {
            assert_eq!(show(&number), text);
        }
        let long = num_traits::pow(BigInt::from(10), 90);
        assert_eq!(
            show(&Rational::from_integer(long)),
            "100000000000... (91 digits)"
        );
    }

    #[test]
    fn powers_have_a_bound() {
        assert_eq!(whole(2).power(&whole(10)), Ok(whole(1024)));
        assert_eq!(whole(9).power(&whole(2000)), Err(NoValue));
        assert_eq!(whole(1).power(&whole(1_000_000)), Err(NoValue));
        let large = whole(2).power(&whole(1000)).expect("small enough");
        assert_eq!(large.power(&whole(1000)), Err(NoValue));
        assert_eq!(
            whole(2).power(&whole(-2)),
            Ok(Value::exact(Rational::new(1.into(), 4.into())))
        );
        assert_eq!(whole(0).power(&whole(-1)), Err(NoValue));
    }

    #[test]
    fn rounded_numbers_carry_their_interval_along() {
        let half = Rational::new(1.into(), 2.into());
        let about_ten = Value::about(Rational::from_integer(10.into()), &half);
        let double = about_ten.times(&whole(-2)).expect("a value");
        assert_eq!(
            (double.low, double.high),
            (
                Rational::from_integer((-21).into()),
                Rational::from_integer((-19).into())
            )
        );
        assert_eq!(
            whole(1).over(&Value::about(Rational::from_integer(0.into()), &half)),
            Err(NoValue)
        );
    }
}
