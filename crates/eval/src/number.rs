//! Numbers as people write them: with thousands separators, repeating decimals and exponents.

use num_bigint::BigInt;
use num_traits::{One, Pow};

/// An exact rational number without a limit on its size.
pub use num_rational::BigRational as Rational;

/// The largest number of digits that is parsed. Nobody could check a longer answer, and arithmetic with it would be
/// slow.
const MAX_DIGITS: usize = 1500;

/// Writes `1234567` as `1 234 567`. A comma would be a decimal point in some countries.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats floating-point operations with a decimal prefix, for example as `84.4 G`.
#[must_use]
pub fn operations(flops: u64) -> String {
    let prefixes = ["", " k", " M", " G", " T", " P", " E"];
    let (mut value, mut at) = (flops as f64, 0);
    // 999.95 would be shown as 1000.0.
    while value >= 999.95 && at + 1 < prefixes.len() {
        value /= 1e3;
        at += 1;
    }
    let digits = usize::from(at > 0);
    format!("{value:.digits$}{}", prefixes[at])
}

/// Writes a number and the words that follow it: `one` after 1, `many` after any other.
#[must_use]
pub fn counted(number: impl TryInto<u64>, one: &str, many: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let words = if number == 1 { one } else { many };
    format!("{} {words}", grouped(number))
}

/// A number at the beginning of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Literal {
    /// The exact value, also of a repeating decimal.
    pub value: Rational,
    /// The number of bytes that the number takes in the text.
    pub length: usize,
    /// True if the number is written with digits only, without separators, decimal point or exponent.
    pub plain: bool,
}

/// Reads `42`, `3.50`, `.5`, `1,234,567`, `10,\!000`, `12\,000`, `0.1\overline{6}`, `1.5e-3` from
/// the beginning of a text, without a sign. `None` if there is no number, or one of too many
/// digits.
///
/// `commas` says whether `1,234` is one number, as it is outside of brackets, or two.
pub fn literal(text: &str, commas: bool) -> Option<Literal> {
    let whole = leading_digits(text);
    let (digits, mut at) = if whole.is_empty() {
        (String::new(), 0)
    } else {
        in_groups(text, whole, commas)
    };
    // A number that extends beyond its integer digits is not plain.
    let plain_length = at;
    let mut digits = digits;
    let mut places = 0;
    let mut repeating = "";
    if let Some(rest) = text[at..].strip_prefix('.') {
        let decimals = leading_digits(rest);
        let after = &rest[decimals.len()..];
        let repeated = after
            .strip_prefix("\\overline{")
            .map(|inside| (leading_digits(inside), inside));
        if let Some((period, inside)) = repeated
            && !period.is_empty()
            && inside[period.len()..].starts_with('}')
        {
            repeating = period;
        }
        if !decimals.is_empty() || !repeating.is_empty() {
            digits.push_str(decimals);
            places = decimals.len();
            at += 1 + decimals.len();
        }
        if !repeating.is_empty() {
            at += "\\overline{}".len() + repeating.len();
        }
    }
    // The length is checked before a big number is computed.
    if at == 0 || digits.len() + repeating.len() > MAX_DIGITS {
        return None;
    }
    let mut value = Rational::new(integer(&digits)?, power_of_ten(places));
    if !repeating.is_empty() {
        // A period p of n digits has the value p / (10^n - 1).
        let nines = power_of_ten(repeating.len()) - BigInt::one();
        value += Rational::new(integer(repeating)?, nines * power_of_ten(places));
    }
    if let Some((exponent, length)) = e_notation(&text[at..]) {
        let factor = Rational::from_integer(power_of_ten(exponent.unsigned_abs().into()));
        value = if exponent < 0 {
            value / factor
        } else {
            value * factor
        };
        at += length;
    }
    Some(Literal {
        value,
        length: at,
        plain: at == plain_length && digits.len() == at,
    })
}

fn integer(digits: &str) -> Option<BigInt> {
    match digits {
        "" => Some(BigInt::default()),
        _ => digits.parse().ok(),
    }
}

fn power_of_ten(exponent: usize) -> BigInt {
    Pow::pow(BigInt::from(10), exponent)
}

fn leading_digits(text: &str) -> &str {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    &text[..end]
}

/// Returns the digits of an integer without thousands separators, and the number of bytes read.
fn in_groups(text: &str, first: &str, commas: bool) -> (String, usize) {
    let mut digits = first.to_owned();
    let mut at = first.len();
    // In "1234,567" the comma does not separate thousands, since more than three digits precede it.
    if first.len() > 3 {
        return (digits, at);
    }
    while let Some(separator) = separator(&text[at..], commas) {
        let group = leading_digits(&text[at + separator..]);
        if group.len() != 3 {
            break;
        }
        digits.push_str(group);
        at += separator + 3;
    }
    (digits, at)
}

/// Returns the length in bytes of the thousands separator at the start of `text`.
fn separator(text: &str, commas: bool) -> Option<usize> {
    // A comma set tight is a separator wherever it stands.
    for tight in ["{,}", ",\\!", "\\,", "\\ ", "~", "\u{202f}", "\u{2009}"] {
        if let Some(rest) = text.strip_prefix(tight) {
            // In `11,\! 111` the blank after the separator belongs to the layout.
            let blanks = rest.len() - rest.trim_start().len();
            return Some(tight.len() + blanks);
        }
    }
    (commas && text.starts_with(',') || is_blank_separator(text)).then_some(1)
}

/// Returns whether the blank at the start of `text` separates thousands, as in `1 000`. In `1 500/600` a fraction
/// follows, so the number is mixed.
fn is_blank_separator(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(' ') else {
        return false;
    };
    let group = leading_digits(rest);
    group.len() == 3 && !rest[3..].trim_start().starts_with('/')
}

/// Parses an exponent such as `e-3`. Returns its value and the number of bytes.
fn e_notation(text: &str) -> Option<(i16, usize)> {
    let rest = text.strip_prefix(['e', 'E'])?;
    let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    let digits = leading_digits(unsigned);
    let sign = rest.len() - unsigned.len();
    // A larger exponent would make a number of thousands of digits.
    if digits.is_empty() || digits.len() > 3 {
        return None;
    }
    let end = sign + digits.len();
    let exponent = rest[..end].parse().ok()?;
    Some((exponent, 1 + end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, commas: bool) -> Option<String> {
        literal(text, commas)
            .filter(|found| found.length == text.len())
            .map(|found| found.value.to_string())
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 12, 123, 1234, 1_000_000].map(grouped),
            ["0", "12", "123", "1 234", "1 000 000"]
        );
    }

    #[test]
    fn operations_have_a_prefix() {
        let shown = [0, 999, 1000, 999_949, 999_951, 84_432_100_000, u64::MAX].map(operations);
        let wanted = ["0", "999", "1.0 k", "999.9 k", "1.0 M", "84.4 G", "18.4 E"];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn one_has_a_singular() {
        let problems = |count: u64| counted(count, "problem has", "problems have");
        assert_eq!(
            [0, 1, 2, 1000].map(problems),
            [
                "0 problems have",
                "1 problem has",
                "2 problems have",
                "1 000 problems have"
            ]
        );
    }

    #[test]
    fn numbers_are_read_exactly() {
        for (text, want) in [
            ("42", "42"),
            ("0042", "42"),
            ("3.50", "7/2"),
            (".5", "1/2"),
            ("0.1", "1/10"),
            ("0.000", "0"),
            ("1,234,567", "1234567"),
            ("1,234.5", "2469/2"),
            ("10{,}000", "10000"),
            ("11,\\! 111,\\! 111", "11111111"),
            ("12\\,000", "12000"),
            ("12 000", "12000"),
            ("0.\\overline{3}", "1/3"),
            ("0.1\\overline{6}", "1/6"),
            ("1.5e3", "1500"),
            ("2E-2", "1/50"),
        ] {
            assert_eq!(all(text, true).as_deref(), Some(want), "{text}");
        }
    }

    #[test]
    fn a_number_ends_where_it_does() {
        for (text, commas, length) in [
            ("5.", true, 1),
            ("1,2", true, 1),
            ("1,200", false, 1),
            ("1{,}200", false, 7),
            ("1 500/600", true, 1),
            ("12,34", true, 2),
            ("1,2345", true, 1),
            ("1,,234", true, 1),
            ("1234,567", true, 4),
            ("1.2.3", true, 3),
            ("3e", true, 1),
            ("0.\\overline{x}", true, 1),
        ] {
            let found = literal(text, commas).map(|found| found.length);
            assert_eq!(found, Some(length), "{text}");
        }
        for text in ["", ".", "-1", "x", "٣", "\\overline{3}"] {
            assert_eq!(literal(text, true), None, "{text}");
        }
        assert_eq!(literal(&"9".repeat(MAX_DIGITS + 1), true), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_handled(text in "(\\PC|[0-9]|[.,e]|\\\\overline\\{)*") {
            if let Some(found) = literal(&text, true) {
                proptest::prop_assert!(found.length > 0 && text.is_char_boundary(found.length));
            }
        }
    }
}
