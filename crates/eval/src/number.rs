//! Exact rational numbers, just enough to compare answers.

use std::fmt;

/// A fraction in lowest terms with a positive denominator.
///
/// Arithmetic is checked: a value that does not fit 128 bits is no number at all, so a pathological
/// answer is compared as text and never wraps around into a right one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rational {
    numerator: i128,
    denominator: i128,
}

impl Rational {
    /// `numerator / denominator` in lowest terms; `None` for a zero denominator or an overflow.
    pub fn new(numerator: i128, denominator: i128) -> Option<Self> {
        if denominator == 0 {
            return None;
        }
        let divisor =
            i128::try_from(gcd(numerator.unsigned_abs(), denominator.unsigned_abs())).ok()?;
        let (n, d) = (numerator / divisor, denominator / divisor);
        if d < 0 {
            Some(Self {
                numerator: n.checked_neg()?,
                denominator: d.checked_neg()?,
            })
        } else {
            Some(Self {
                numerator: n,
                denominator: d,
            })
        }
    }

    fn add(self, other: Self) -> Option<Self> {
        let left = self.numerator.checked_mul(other.denominator)?;
        let right = other.numerator.checked_mul(self.denominator)?;
        Self::new(
            left.checked_add(right)?,
            self.denominator.checked_mul(other.denominator)?,
        )
    }

    fn negated(self) -> Option<Self> {
        Some(Self {
            numerator: self.numerator.checked_neg()?,
            denominator: self.denominator,
        })
    }

    /// The quotient of two rationals; `None` on division by zero or overflow.
    pub fn over(self, other: Self) -> Option<Self> {
        Self::new(
            self.numerator.checked_mul(other.denominator)?,
            self.denominator.checked_mul(other.numerator)?,
        )
    }

    /// Reads a number as people write answers: `42`, `-3.50`, `1,234,567`, `.5`, `3/4`,
    /// `\frac{3}{4}`, `\frac34`, `1 3/4`, `2\frac{1}{2}`. The whole text has to be the number.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix('-') {
            return Self::unsigned(rest.trim_start())?.negated();
        }
        Self::unsigned(text.strip_prefix('+').unwrap_or(text).trim_start())
    }

    fn unsigned(text: &str) -> Option<Self> {
        if let Some(at) = text.find("\\frac") {
            let fraction = latex_fraction(&text[at..])?;
            return with_whole(text[..at].trim(), fraction);
        }
        let Some((top, bottom)) = text.split_once('/') else {
            return decimal(text);
        };
        let (whole, top) = match top.trim().rsplit_once(' ') {
            Some((whole, top)) => (whole.trim(), top),
            None => ("", top.trim()),
        };
        with_whole(whole, decimal(top)?.over(decimal(bottom.trim())?)?)
    }
}

impl fmt::Display for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            d => write!(f, "{}/{d}", self.numerator),
        }
    }
}

/// A mixed number: the whole part has to be plain digits, or absent.
fn with_whole(whole: &str, fraction: Rational) -> Option<Rational> {
    if whole.is_empty() {
        return Some(fraction);
    }
    if !whole.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Rational::new(whole.parse().ok()?, 1)?.add(fraction)
}

/// `\frac{a}{b}` or `\frac12`, to the end of the text.
fn latex_fraction(text: &str) -> Option<Rational> {
    let (top, rest) = latex_argument(text.strip_prefix("\\frac")?)?;
    let (bottom, rest) = latex_argument(rest)?;
    if !rest.trim().is_empty() {
        return None;
    }
    Rational::parse(top)?.over(Rational::parse(bottom)?)
}

/// The next argument of a LaTeX command, `{...}` without nesting or one digit, and what follows it.
fn latex_argument(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    if let Some(inside) = text.strip_prefix('{') {
        return inside.split_once('}');
    }
    text.starts_with(|c: char| c.is_ascii_digit())
        .then(|| text.split_at(1))
}

/// Digits with optional thousands separators and decimals, no sign.
fn decimal(text: &str) -> Option<Rational> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && decimals.is_empty() {
        return None;
    }
    let whole = without_separators(whole)?;
    if !decimals.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = format!("{whole}{}", decimals.trim_end_matches('0'));
    let places = u32::try_from(decimals.trim_end_matches('0').len()).ok()?;
    let numerator = if digits.is_empty() {
        0
    } else {
        digits.parse().ok()?
    };
    Rational::new(numerator, 10i128.checked_pow(places)?)
}

/// `1,234,567` as `1234567`; `None` for anything but digits, or where commas stand in other places
/// (`1,2` is a pair).
fn without_separators(whole: &str) -> Option<String> {
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let mut digits = first.to_owned();
    let mut separated = false;
    for group in groups {
        separated = true;
        if group.len() != 3 {
            return None;
        }
        digits.push_str(group);
    }
    let leading_fits = !separated || (1..=3).contains(&first.len());
    (leading_fits && digits.bytes().all(|b| b.is_ascii_digit())).then_some(digits)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Option<String> {
        Rational::parse(text).map(|r| r.to_string())
    }

    #[test]
    fn numbers_are_read_exactly() {
        for (text, want) in [
            ("42", "42"),
            ("-7", "-7"),
            ("+7", "7"),
            ("- 7", "-7"),
            ("0042", "42"),
            ("3.50", "7/2"),
            (".5", "1/2"),
            ("5.", "5"),
            ("0.1", "1/10"),
            ("1,234,567", "1234567"),
            ("1,234.5", "2469/2"),
            ("6/8", "3/4"),
            ("-6/8", "-3/4"),
            ("6 / 8", "3/4"),
            ("1 3/4", "7/4"),
            ("-1 3/4", "-7/4"),
            ("\\frac{6}{8}", "3/4"),
            ("\\frac{-6}{8}", "-3/4"),
            ("\\frac68", "3/4"),
            ("2\\frac{1}{2}", "5/2"),
            ("-0", "0"),
            ("0.000", "0"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_stays_text() {
        for text in [
            "",
            ".",
            "-",
            "1,2",
            "12,34",
            "1,2345",
            "1,,234",
            "1/0",
            "0/0",
            "x",
            "3x",
            "1.2.3",
            "1..2",
            "--1",
            "1/2/3",
            "\\frac{1}",
            "\\frac{1}{2}x",
            "x\\frac{1}{2}",
            "\\frac{1}{0}",
            "٣",
            "1e5",
            "/",
            "1/",
            "/2",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn overflow_is_no_number() {
        assert_eq!(
            canonical(&i128::MAX.to_string()).as_deref(),
            Some("170141183460469231731687303715884105727")
        );
        assert_eq!(canonical("170141183460469231731687303715884105728"), None);
        assert_eq!(canonical(&format!("0.{}1", "0".repeat(60))), None);
        assert_eq!(canonical(&format!("1/2 {}", i128::MAX)), None);
        assert_eq!(Rational::new(i128::MIN, -1), None);
        assert_eq!(
            Rational::new(i128::MIN, 2).map(|r| r.to_string()),
            Some((i128::MIN / 2).to_string())
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_handled(text in "\\PC*") {
            Rational::parse(&text);
        }

        #[test]
        fn fractions_reduce(a in -10_000i64..10_000, b in 1i64..10_000, k in 1i64..1000) {
            let plain = canonical(&format!("{a}/{b}"));
            proptest::prop_assert!(plain.is_some());
            let scaled = format!("{}/{}", a * k, b * k);
            proptest::prop_assert_eq!(plain, canonical(&scaled));
        }
    }
}
