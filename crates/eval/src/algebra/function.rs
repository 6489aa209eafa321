//! Functions: worked out where that is exact, kept as they are elsewhere.

use num_bigint::BigInt;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::power::{factorised, power};
use super::{Atom, Budget, Fault, Fraction, Poly, Rational};

const NAMES: &[&str] = &[
    "sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan",
    "ln", "log", "lg", "exp",
];

/// Whether `name` is a function of one argument.
pub(crate) fn is_function(name: &str) -> bool {
    NAMES.contains(&name)
}

/// `name(argument)`. The trigonometric functions are written with sine and cosine.
pub(crate) fn apply(
    name: &str,
    argument: &Fraction,
    budget: &mut Budget,
) -> Result<Fraction, Fault> {
    let one = Fraction::integer(1);
    let mut call = |name: &str| apply(name, argument, budget);
    let (top, bottom) = match name {
        "tan" => (call("sin")?, call("cos")?),
        "cot" => (call("cos")?, call("sin")?),
        "sec" => (one, call("cos")?),
        "csc" => (one, call("sin")?),
        "sin" if argument.is_negative() => {
            let positive = vec![argument.negated()];
            return Ok(opaque("sin", positive).negated());
        }
        "cos" if argument.is_negative() => return Ok(opaque("cos", vec![argument.negated()])),
        _ => return Ok(opaque(name, vec![argument.clone()])),
    };
    top.over(&bottom, budget)
}

fn opaque(name: &str, arguments: Vec<Fraction>) -> Fraction {
    Fraction::atom(Atom::Function(name.to_owned(), arguments))
}

/// The natural logarithm. That of a number is the sum over its primes, so that `\log_2 8` is 3.
pub(crate) fn ln(argument: &Fraction, budget: &mut Budget) -> Result<Fraction, Fault> {
    let Some((monomial, value)) = argument.as_poly().and_then(Poly::as_term) else {
        return Ok(opaque("ln", vec![argument.clone()]));
    };
    if !value.is_positive() {
        return Ok(opaque("ln", vec![argument.clone()]));
    }
    let mut sum = Fraction::integer(0);
    for (number, sign) in [(value.numer(), 1), (value.denom(), -1)] {
        for (prime, times) in factorised(number, budget)? {
            let prime = Fraction::from(Rational::from_integer(prime.into()));
            let times = Fraction::integer(sign * i64::from(times));
            sum = sum.plus(&times.times(&opaque("ln", vec![prime]), budget)?, budget)?;
        }
    }
    for (atom, exponent) in monomial {
        let one = match atom {
            Atom::Euler => Fraction::integer(1),
            Atom::Prime(prime) => {
                let prime = Rational::from_integer((*prime).into());
                opaque("ln", vec![prime.into()])
            }
            _ => opaque("ln", vec![Fraction::atom(atom.clone())]),
        };
        let times = Rational::new((*exponent.numer()).into(), (*exponent.denom()).into());
        sum = sum.plus(&one.times(&times.into(), budget)?, budget)?;
    }
    Ok(sum)
}

/// e to the power of the argument.
pub(crate) fn exp(argument: &Fraction, budget: &mut Budget) -> Result<Fraction, Fault> {
    power(&Fraction::atom(Atom::Euler), argument, budget)
}

/// The absolute value.
pub(crate) fn absolute(argument: &Fraction) -> Fraction {
    match argument.as_number() {
        Some(number) => number.abs().into(),
        None => opaque("abs", vec![argument.clone()]),
    }
}

/// `n!`
pub(crate) fn factorial(argument: &Fraction, budget: &mut Budget) -> Result<Fraction, Fault> {
    let Some(n) = whole(argument) else {
        return Ok(opaque("factorial", vec![argument.clone()]));
    };
    let mut product = Rational::one();
    for k in 2..=n {
        product = budget.number(product * BigInt::from(k))?;
    }
    Ok(product.into())
}

/// `n` choose `k`
pub(crate) fn binomial(n: &Fraction, k: &Fraction, budget: &mut Budget) -> Result<Fraction, Fault> {
    let (Some(from), Some(choose)) = (whole(n), whole(k)) else {
        return Ok(opaque("binom", vec![n.clone(), k.clone()]));
    };
    if choose > from {
        return Ok(Fraction::integer(0));
    }
    let mut product = Rational::one();
    for step in 1..=choose.min(from - choose) {
        let factor = Rational::new((from + 1 - step).into(), step.into());
        product = budget.number(product * factor)?;
    }
    Ok(product.into())
}

fn whole(value: &Fraction) -> Option<u64> {
    let number = value.as_number()?;
    let fits = number.is_integer() && !number.numer().is_negative();
    (fits || number.is_zero())
        .then(|| number.numer().to_u64())
        .flatten()
}
