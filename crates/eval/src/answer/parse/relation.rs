//! Equations and inequalities.

use num_traits::Signed;

use super::super::value::Value;
use super::{Parser, joined, scalar};
use crate::algebra::{Fault, Fraction};

impl Parser<'_> {
    pub(super) fn relation(&mut self) -> Result<Value, Fault> {
        let name = self.name();
        if let Some((end, _)) = name {
            self.at = end + 1;
        }
        let mut sides = vec![self.union()?];
        // The name before the first sign, as in `x =`, is not among `sides`, because it only introduces the answer.
        let mut signs = Vec::new();
        while let Some(sign @ ('=' | '<' | '>' | '≤' | '≥' | '≠' | '∈' | '≈')) = self.symbol()
        {
            self.at += 1;
            let side = self.union()?;
            // In `\frac{1}{3} \approx 0.33` the approximation is skipped, because the exact value is known.
            let is_known = name.is_some() || !signs.is_empty() || !is_variable(&sides[0]);
            if sign == '≈' && is_known {
                continue;
            }
            signs.push(if sign == '≈' { '=' } else { sign });
            sides.push(side);
        }
        let is_chain = signs.iter().all(|sign| *sign == '=');
        match (name, signs.as_slice()) {
            (Some((_, name)), _) if is_chain => {
                let value = sides.pop().ok_or(Fault::Unread)?;
                Ok(match name {
                    Some(name) => Value::Named(name, Box::new(value)),
                    None => value,
                })
            }
            (Some(_), _) => Err(Fault::Unread),
            (None, ['=']) => equation(sides),
            // `a + b = 3 + 4 = 7`
            (None, _) if is_chain => sides.pop().ok_or(Fault::Unread),
            (None, ['∈']) if is_variable(&sides[0]) => sides.pop().ok_or(Fault::Unread),
            (None, signs) => self.inequality(sides, signs),
        }
    }

    /// Converts an inequality to the interval of its variable. If the difference of the sides is not linear in one
    /// variable, the result says that this difference is positive.
    fn inequality(&mut self, sides: Vec<Value>, signs: &[char]) -> Result<Value, Fault> {
        let mut sides: Vec<Fraction> = sides.into_iter().map(scalar).collect::<Result<_, _>>()?;
        let mut strict: Vec<bool> = signs.iter().map(|s| !matches!(s, '≤' | '≥')).collect();
        // The sides are reversed, so that `5 > x > 2` and `2 < x < 5` have one form.
        if signs.iter().all(|sign| matches!(sign, '>' | '≥')) {
            sides.reverse();
            strict.reverse();
        } else if !(signs == ['≠'] || signs.iter().all(|sign| matches!(sign, '<' | '≤'))) {
            return Err(Fault::Unread);
        }
        match (sides.as_slice(), strict.as_slice()) {
            ([low, high], [strict]) => {
                let difference = high.minus(low, self.budget)?;
                match self.solved(&difference)? {
                    // All numbers except one are the union of two open intervals.
                    Some((name, at, _)) if signs == ['≠'] => {
                        let sides = vec![below(at.clone(), true), above(at, true)];
                        Ok(named(name, joined(sides, Value::Union)))
                    }
                    _ if signs == ['≠'] => Err(Fault::Unread),
                    Some((name, at, true)) => Ok(named(name, above(at, *strict))),
                    Some((name, at, false)) => Ok(named(name, below(at, *strict))),
                    None => Ok(Value::Positive {
                        value: difference.positively_scaled(self.budget)?,
                        strict: *strict,
                    }),
                }
            }
            ([low, middle, high], [a, b]) if low.is_constant() && high.is_constant() => {
                // Both differences are linear in the same variable. If the middle falls with the variable, as in `0 <
                // 3 - x < 2`, the ends are swapped.
                let over_low = middle.minus(low, self.budget)?;
                let over_high = middle.minus(high, self.budget)?;
                match (self.solved(&over_low)?, self.solved(&over_high)?) {
                    (Some((name, low, true)), Some((_, high, _))) => {
                        Ok(named(name, interval(low, *a, high, *b)))
                    }
                    (Some((name, low, false)), Some((_, high, _))) => {
                        Ok(named(name, interval(high, *b, low, *a)))
                    }
                    _ => Err(Fault::Unread),
                }
            }
            _ => Err(Fault::Unread),
        }
    }

    /// Solves `expression = 0` for an expression that is linear in one variable. Returns the variable, the solution,
    /// and whether the expression rises with the variable.
    fn solved(&mut self, expression: &Fraction) -> Result<Option<(String, Fraction, bool)>, Fault> {
        let Some((name, slope, rest)) = expression.linear() else {
            return Ok(None);
        };
        let rises = slope.is_positive();
        let at = rest.negated().over(&slope.into(), self.budget)?;
        Ok(Some((name, at, rises)))
    }
}

fn is_variable(value: &Value) -> bool {
    matches!(value, Value::Scalar(x) if x.as_variable().is_some())
}

/// Adds a name to a value. The name of a call is dropped: `f(x)` in `0 < f(x) < 2` is not a variable to solve for.
fn named(name: String, value: Value) -> Value {
    if name.contains('(') {
        return value;
    }
    Value::Named(name, Box::new(value))
}

fn interval(low: Fraction, open: bool, high: Fraction, also: bool) -> Value {
    let ends = vec![Value::Scalar(low), Value::Scalar(high)];
    let (open, close) = (if open { '(' } else { '[' }, if also { ')' } else { ']' });
    Value::Brackets(open, ends, close)
}

fn above(low: Fraction, strict: bool) -> Value {
    interval(low, strict, Fraction::variable("∞"), true)
}

fn below(high: Fraction, strict: bool) -> Value {
    interval(Fraction::variable("∞").negated(), true, high, strict)
}

fn equation(mut sides: Vec<Value>) -> Result<Value, Fault> {
    let (Some(right), Some(left)) = (sides.pop(), sides.pop()) else {
        return Err(Fault::Unread);
    };
    let name = |side: &Value| match side {
        Value::Scalar(value) => value.as_variable().map(str::to_owned),
        _ => None,
    };
    if let Some(name) = name(&left) {
        return Ok(Value::Named(name, Box::new(right)));
    }
    if let Some(name) = name(&right) {
        return Ok(Value::Named(name, Box::new(left)));
    }
    // `a:b = 2:3`
    if matches!((&left, &right), (Value::Ratio(_), Value::Ratio(_))) {
        return Ok(right);
    }
    let (left, right) = (scalar(left)?, scalar(right)?);
    if left.is_constant() && right.is_constant() {
        return Ok(Value::Scalar(right));
    }
    Ok(Value::Equation(left, right))
}
