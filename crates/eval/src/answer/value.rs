//! The values of answers, and the comparison of two values.

use std::fmt;

use num_traits::Zero;

use super::{Verdict, units};
use crate::algebra::{Budget, Fault, Fraction, Poly, Rational};

/// The largest number of members that are matched between two lists, since matching is quadratic.
const MAX_MEMBERS: usize = 64;

/// The meaning of an answer. Members of sets are in the order of their canonical texts.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    /// A number or an expression.
    Scalar(Fraction),
    /// `(1,2)` or `[1,2)`: a point, a vector, an interval.
    Brackets(char, Vec<Value>, char),
    /// `\{1,2\}`, or the list `1, 2` of solutions.
    Set(Vec<Value>),
    /// A union of intervals or sets.
    Union(Vec<Value>),
    /// `(1,2) or (3,4)`: two points, or a union of two intervals.
    Either(Vec<Value>),
    /// The rows of a matrix of more than one column.
    Matrix(Vec<Vec<Value>>),
    /// `11_8`
    Based { digits: String, base: u32 },
    /// `3:2`, a ratio or a time
    Ratio(Vec<Value>),
    /// `x = 5`
    Named(String, Box<Value>),
    /// Two sides of which neither is a name.
    Equation(Fraction, Fraction),
    /// `0 < e`, or `0 <= e` if not strict.
    Positive { value: Fraction, strict: bool },
    /// The letter of a choice and the value after the letter.
    Choice(String, Box<Value>),
    /// Words, in small letters.
    Words(String),
}

impl Value {
    pub(super) fn is_interval(&self) -> bool {
        match self {
            Self::Brackets(..) => true,
            Self::Named(_, value) => value.is_interval(),
            _ => false,
        }
    }

    /// Returns whether the value may be a point, although it may also be an open interval.
    pub(super) fn is_tuple(&self) -> bool {
        match self {
            Self::Brackets('(', items, ')') => {
                !items.iter().any(|item| item.to_string().contains('∞'))
            }
            Self::Named(_, value) => value.is_tuple(),
            _ => false,
        }
    }

    /// Returns the canonical text, which equal values share if their equality is transitive.
    pub(super) fn class(&self) -> String {
        match self {
            // Letters of a choice are written small or large.
            Self::Scalar(value) => match value.as_letter() {
                Some(name) => name.to_ascii_lowercase(),
                None => value.to_string(),
            },
            Self::Choice(letter, _) => letter.to_ascii_lowercase(),
            Self::Named(_, value) => value.class(),
            Self::Based { digits, .. } => match digits.trim_start_matches('0') {
                "" => "0".to_owned(),
                digits => digits.to_owned(),
            },
            _ => self.to_string(),
        }
    }

    /// Multiplies every number in the value by `factor`, for a percentage compared with a plain number.
    pub(super) fn scaled(&self, factor: &Rational, budget: &mut Budget) -> Result<Self, Fault> {
        let mut each = |items: &[Self]| -> Result<Vec<Self>, Fault> {
            items.iter().map(|v| v.scaled(factor, budget)).collect()
        };
        Ok(match self {
            Self::Scalar(value) => Self::Scalar(value.times(&factor.clone().into(), budget)?),
            Self::Brackets(open, items, close) => Self::Brackets(*open, each(items)?, *close),
            Self::Set(items) => Self::Set(each(items)?),
            Self::Named(name, value) => {
                Self::Named(name.clone(), Box::new(value.scaled(factor, budget)?))
            }
            other => other.clone(),
        })
    }

    /// `name = value` as an equation.
    fn equation(name: &str, value: &Self) -> Option<(Fraction, Fraction)> {
        match value {
            Self::Scalar(value) => Some((Fraction::variable(name), value.clone())),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |items: &[Self], by: &str| {
            let items: Vec<String> = items.iter().map(Self::to_string).collect();
            items.join(by)
        };
        match self {
            Self::Scalar(value) => write!(f, "{value}"),
            Self::Brackets(open, items, close) => write!(f, "{open}{}{close}", join(items, ",")),
            Self::Set(items) | Self::Either(items) => write!(f, "{{{}}}", join(items, ",")),
            Self::Union(items) => write!(f, "{}", join(items, "∪")),
            Self::Matrix(rows) => {
                let rows: Vec<String> = rows.iter().map(|row| join(row, ",")).collect();
                write!(f, "[{}]", rows.join(";"))
            }
            Self::Based { digits, base } => write!(f, "{digits}_{base}"),
            Self::Ratio(items) => write!(f, "{}", join(items, ":")),
            Self::Named(name, value) => write!(f, "{name}={value}"),
            Self::Equation(left, right) => match standard(left, right) {
                Ok(sum) => write!(f, "{sum}=0"),
                Err(_) => write!(f, "{left}={right}"),
            },
            Self::Positive { value, strict } => {
                write!(f, "0<{}{value}", if *strict { "" } else { "=" })
            }
            Self::Choice(letter, value) => write!(f, "{letter}. {value}"),
            Self::Words(words) => write!(f, "{words}"),
        }
    }
}

/// An equation as a sum that is zero, with leading coefficient 1.
fn standard(left: &Fraction, right: &Fraction) -> Result<Poly, Fault> {
    let mut budget = Budget::new(super::BUDGET);
    left.minus(right, &mut budget)?.zeros(&mut budget)
}

/// Whether two values are the same.
pub(super) fn compare(a: &Value, b: &Value, budget: &mut Budget) -> Verdict {
    use Value::*;
    match (a, b) {
        (Scalar(x), Scalar(y)) => scalars(x, y, budget),
        // `y = 2x` and `2x - y = 0` are the same line, but `x = 5` and `y = 5` are different answers.
        (Named(n, x), Named(m, y)) => {
            if n.eq_ignore_ascii_case(m) {
                return compare(x, y, budget);
            }
            match (Value::equation(n, x), Value::equation(m, y)) {
                (Some(x), Some(y)) => equations(&x, &y),
                _ => match compare(x, y, budget) {
                    Verdict::Same => Verdict::Different,
                    verdict => verdict,
                },
            }
        }
        (Choice(letter, x), Choice(other, y)) => {
            if letter != other {
                Verdict::Different
            } else if compare(x, y, budget) == Verdict::Same {
                Verdict::Same
            } else {
                // Equal letters with different values: one of the answers was copied wrongly.
                Verdict::CannotTell
            }
        }
        (Choice(letter, x), y) | (y, Choice(letter, x)) => {
            // `(B) 23` equals both `B` and `23`.
            let name = Scalar(Fraction::variable(letter));
            match compare(&name, y, budget) {
                Verdict::Same => Verdict::Same,
                _ => compare(x, y, budget),
            }
        }
        (Named(n, x), Equation(l, r)) | (Equation(l, r), Named(n, x)) => {
            match Value::equation(n, x) {
                Some(named) => equations(&named, &(l.clone(), r.clone())),
                None => Verdict::Different,
            }
        }
        (Named(_, x), y) | (y, Named(_, x)) => compare(x, y, budget),
        (Equation(l, r), Equation(s, t)) => {
            equations(&(l.clone(), r.clone()), &(s.clone(), t.clone()))
        }
        // `a + b = 7` may be meant to say 7, or may be the equation of a line.
        (Equation(l, r), Scalar(x)) | (Scalar(x), Equation(l, r)) => {
            let sides = [scalars(l, x, budget), scalars(r, x, budget)];
            let is_zero = x.as_number().is_some_and(|number| number.is_zero());
            doubtful(Verdict::of(!is_zero && sides.contains(&Verdict::Same)))
        }
        (Brackets(o, x, c), Brackets(p, y, d)) if (o, c) == (p, d) => in_order(x, y, budget),
        // Solutions may be listed in any order.
        (Set(x) | Either(x), Set(y) | Either(y)) => matched(x, y, budget),
        (Union(x) | Either(x), Union(y) | Either(y)) => matched(x, y, budget),
        // `(1,2), (3,4)` may be two points.
        (Set(x), Union(y)) | (Union(y), Set(x)) => doubtful(matched(x, y, budget)),
        // Brackets around a list of solutions: whether order was meant is not known.
        (Set(x), Brackets(_, y, _)) | (Brackets(_, y, _), Set(x)) => {
            // Two conditions for one interval, as in `x > 1 \text{ and } x < 2`.
            if x.iter().any(Value::is_interval) && !y.iter().any(Value::is_interval) {
                return Verdict::CannotTell;
            }
            doubtful(matched(x, y, budget))
        }
        (Matrix(x), Matrix(y)) if x.len() == y.len() => {
            all(x.iter().zip(y).map(|(x, y)| in_order(x, y, budget)))
        }
        (Ratio(x), Ratio(y)) => match in_order(x, y, budget) {
            Verdict::Different => proportional(x, y, budget),
            verdict => verdict,
        },
        // `3:2` may mean the quotient 3/2.
        (Ratio(x), Scalar(_)) | (Scalar(_), Ratio(x)) => {
            let one = Scalar(Fraction::integer(1));
            let other = if matches!(a, Scalar(_)) { a } else { b };
            proportional(x, &[other.clone(), one], budget)
        }
        (
            Based { digits, base },
            Based {
                digits: others,
                base: radix,
            },
        ) => {
            if base == radix {
                Verdict::of(digits.trim_start_matches('0') == others.trim_start_matches('0'))
            } else {
                // The question asks for one base; the same number in another may only repeat it.
                doubtful(Verdict::of(
                    digits_value(digits, *base) == digits_value(others, *radix),
                ))
            }
        }
        (Based { digits, base }, Scalar(x)) | (Scalar(x), Based { digits, base }) => {
            // Where the question asks for a base, many leave it out; but the value in base ten may
            // be what the question began with.
            let number = x.as_number();
            match number {
                None => Verdict::Different,
                _ if number == digits_value(digits, 10) => Verdict::Same,
                _ => doubtful(Verdict::of(number == digits_value(digits, *base))),
            }
        }
        (Words(x), Words(y)) => Verdict::of(x == y),
        // "all real numbers", "twenty five"
        (Words(words), _) | (_, Words(words)) if words.contains(' ') => Verdict::CannotTell,
        (Words(word), Scalar(x)) | (Scalar(x), Words(word)) => match product(word, budget) {
            Some(product) => scalars(&product, x, budget),
            None => Verdict::Different,
        },
        // "none" and "no solution" may mean the empty set.
        (Words(_), Set(x)) | (Set(x), Words(_)) if x.is_empty() => Verdict::CannotTell,
        (
            Positive { value, strict },
            Positive {
                value: other,
                strict: also,
            },
        ) if strict == also => scalars(value, other, budget),
        _ => Verdict::Different,
    }
}

fn doubtful(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Same => Verdict::CannotTell,
        other => other,
    }
}

fn scalars(x: &Fraction, y: &Fraction, budget: &mut Budget) -> Verdict {
    // Letters of choices are equal in upper and lower case.
    if let (Some(x), Some(y)) = (x.as_letter(), y.as_letter()) {
        return Verdict::of(x.eq_ignore_ascii_case(y));
    }
    match x.same(y, budget) {
        Ok(Some(false)) if differ_by_unit(x, y, budget) => Verdict::CannotTell,
        Ok(Some(same)) => Verdict::of(same),
        Ok(None) | Err(_) => Verdict::CannotTell,
    }
}

/// `12 m` may be twelve times m or twelve metres.
fn differ_by_unit(x: &Fraction, y: &Fraction, budget: &mut Budget) -> bool {
    let mut is_unit = |x: &Fraction, y: &Fraction| {
        let factor = x.over(y, budget).ok();
        let name = factor.as_ref().and_then(Fraction::as_variable);
        y.is_constant() && name.is_some_and(units::is_letter)
    };
    is_unit(x, y) || is_unit(y, x)
}

fn equations(a: &(Fraction, Fraction), b: &(Fraction, Fraction)) -> Verdict {
    match (standard(&a.0, &a.1), standard(&b.0, &b.1)) {
        (Ok(x), Ok(y)) if x == y => Verdict::Same,
        // With roots and functions in it, the common factor may be more than a rational number.
        (Ok(x), Ok(y)) if x.is_plain() && y.is_plain() => Verdict::Different,
        _ => Verdict::CannotTell,
    }
}

fn all(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let mut total = Verdict::Same;
    for verdict in verdicts {
        match verdict {
            Verdict::Different => return Verdict::Different,
            Verdict::CannotTell => total = Verdict::CannotTell,
            Verdict::Same => {}
        }
    }
    total
}

fn in_order(a: &[Value], b: &[Value], budget: &mut Budget) -> Verdict {
    if a.len() != b.len() {
        return Verdict::Different;
    }
    all(a.iter().zip(b).map(|(x, y)| compare(x, y, budget)))
}

/// Whether each of `a` is one of `b`, and the other way round.
fn matched(a: &[Value], b: &[Value], budget: &mut Budget) -> Verdict {
    if a.len() != b.len() {
        return Verdict::Different;
    }
    // Sets are sorted, so equal long sets are recognised without matching.
    if a.len() > MAX_MEMBERS {
        return if a == b {
            Verdict::Same
        } else {
            Verdict::CannotTell
        };
    }
    let mut free: Vec<&Value> = b.iter().collect();
    let mut unmatched = Vec::new();
    for x in a {
        // Only proved equality is a match. Pairs that cannot be compared stay unmatched and are handled below.
        let partner = free
            .iter()
            .position(|y| compare(x, y, budget) == Verdict::Same);
        match partner {
            Some(at) => {
                free.swap_remove(at);
            }
            None => unmatched.push(x),
        }
    }
    if unmatched.is_empty() {
        return Verdict::Same;
    }
    let hopeless = |x: &Value, others: &[&Value], budget: &mut Budget| {
        others
            .iter()
            .all(|y| compare(x, y, budget) == Verdict::Different)
    };
    // A member that differs from all remaining members of the other list proves a difference. Otherwise a pair could
    // not be compared, and the lists may be equal.
    let lost = unmatched.iter().any(|x| hopeless(x, &free, budget))
        || free.iter().any(|y| hopeless(y, &unmatched, budget));
    if lost {
        Verdict::Different
    } else {
        Verdict::CannotTell
    }
}

/// `2:4` and `1:2` are one ratio but two times of day.
fn proportional(a: &[Value], b: &[Value], budget: &mut Budget) -> Verdict {
    let ([Value::Scalar(p), Value::Scalar(q)], [Value::Scalar(r), Value::Scalar(s)]) = (a, b)
    else {
        return Verdict::Different;
    };
    let is_zero = |x: &Fraction| x.as_number().is_some_and(|number| number.is_zero());
    if is_zero(q) || is_zero(s) {
        return Verdict::Different;
    }
    let same = p
        .times(s, budget)
        .and_then(|left| left.same(&q.times(r, budget)?, budget));
    match same {
        Ok(Some(false)) => Verdict::Different,
        // Proportional values are equal as ratios and different as times.
        _ => Verdict::CannotTell,
    }
}

fn digits_value(digits: &str, base: u32) -> Option<Rational> {
    let mut value = Rational::default();
    for digit in digits.chars() {
        let digit = digit.to_digit(base)?;
        value = value * Rational::from_integer(base.into()) + Rational::from_integer(digit.into());
    }
    Some(value)
}

/// A short word read as a product of variables: `xy`.
fn product(word: &str, budget: &mut Budget) -> Option<Fraction> {
    if word.len() > 3 || !word.bytes().all(|b| b.is_ascii_alphabetic()) {
        return None;
    }
    let mut product = Fraction::integer(1);
    for letter in word.chars() {
        let factor = Fraction::variable(&letter.to_string());
        product = product.times(&factor, budget).ok()?;
    }
    Some(product)
}
