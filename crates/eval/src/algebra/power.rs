//! Powers and roots.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::poly::{Exponent, Monomial, integer_power, parts};
use super::{Atom, Budget, Fault, Fraction, Poly, Rational};

/// Trial division goes up to here, so numbers below its square are factorised for certain.
const MAX_DIVISOR: u64 = 1 << 16;

/// `base^(1/degree)`, the real root where there is one.
pub(crate) fn root(base: &Fraction, degree: i64, budget: &mut Budget) -> Result<Fraction, Fault> {
    if !(1..=1000).contains(&degree) {
        return Err(Fault::Unread);
    }
    rational_power(base, Exponent::new(1, degree), budget)
}

/// `base^exponent`
pub(crate) fn power(
    base: &Fraction,
    exponent: &Fraction,
    budget: &mut Budget,
) -> Result<Fraction, Fault> {
    if let Some(number) = exponent.as_number() {
        return rational_power(base, small(&number)?, budget);
    }
    let exponent = exponent.as_poly().ok_or(Fault::Unread)?;
    let base = base.as_poly().ok_or(Fault::Unread)?;
    let mut product = Fraction::integer(1);
    for (monomial, coefficient) in &exponent.0 {
        let factor = symbolic_power(base, monomial, coefficient, budget)?;
        product = product.times(&factor, budget)?;
    }
    Ok(product)
}

/// Converts a rational number to an exponent; returns [`Fault::TooHard`] if a part exceeds 64 bits.
fn small(number: &Rational) -> Result<Exponent, Fault> {
    let parts = number.numer().to_i64().zip(number.denom().to_i64());
    parts.map(Exponent::from).ok_or(Fault::TooHard)
}

/// Returns whether (atom^a)^b = atom^(ab), so that exponents may be multiplied.
fn is_plain(atom: &Atom) -> bool {
    matches!(
        atom,
        Atom::Prime(_) | Atom::Euler | Atom::Pi | Atom::Variable(_)
    )
}

fn rational_power(
    base: &Fraction,
    exponent: Exponent,
    budget: &mut Budget,
) -> Result<Fraction, Fault> {
    if exponent.is_integer() {
        let whole = exponent.to_integer();
        let size = u32::try_from(whole.unsigned_abs()).map_err(|_| Fault::TooHard)?;
        // 0^0 is undefined.
        if size == 0 && base.top.is_zero() {
            return Err(Fault::Unread);
        }
        let top = base.top.to_the(size, budget)?;
        let bottom = base.bottom.to_the(size, budget)?;
        return if whole < 0 {
            Fraction::quotient(bottom, top, budget)
        } else {
            Fraction::quotient(top, bottom, budget)
        };
    }
    let top = poly_power(&base.top, exponent, budget)?;
    let bottom = poly_power(&base.bottom, exponent, budget)?;
    top.over(&bottom, budget)
}

fn poly_power(base: &Poly, exponent: Exponent, budget: &mut Budget) -> Result<Fraction, Fault> {
    if base.is_zero() {
        let positive = exponent > Exponent::zero();
        return positive.then(|| Fraction::integer(0)).ok_or(Fault::Unread);
    }
    let Some((monomial, coefficient)) = base.as_term() else {
        return match denested(base, budget)? {
            Some(root) if *exponent.denom() == 2 => rational_power(&root, exponent * 2, budget),
            _ => root_of_sum(base, exponent, budget),
        };
    };
    // Here the base is a single term: sums were handled above.
    let even_root = exponent.denom().is_even();
    // An even power under a root hides a sign: `\sqrt{x^2}` is not `x`.
    let hides_sign = |(atom, power): (&Atom, &Exponent)| {
        matches!(atom, Atom::Variable(_)) && power.numer().is_even() && even_root
    };
    let real_number = monomial.is_empty();
    if !real_number
        && (coefficient.is_negative()
            || monomial.iter().any(hides_sign)
            || !monomial.keys().all(is_plain))
    {
        return root_of_sum(base, exponent, budget);
    }
    let mut result = number_power(coefficient, exponent, budget)?;
    for (atom, power) in monomial {
        let raised = power * exponent;
        let factor = match atom {
            Atom::Prime(prime) => prime_power(*prime, raised, budget)?,
            _ => Poly::term([(atom.clone(), raised)].into(), Rational::one()),
        };
        result = result.times(&factor, budget)?;
    }
    Ok(result.into())
}

/// The square root of `a + b \sqrt{c}` as a sum of two square roots, if there is one:
/// `\sqrt{3 + 2\sqrt 2}` is `1 + \sqrt 2`.
fn denested(sum: &Poly, budget: &mut Budget) -> Result<Option<Fraction>, Fault> {
    let half = Exponent::new(1, 2);
    let is_root =
        |(atom, power): (&Atom, &Exponent)| matches!(atom, Atom::Prime(_)) && *power == half;
    let mut terms = sum.0.iter();
    let (Some((none, a)), Some((roots, b)), None) = (terms.next(), terms.next(), terms.next())
    else {
        return Ok(None);
    };
    if !none.is_empty() || !roots.iter().all(is_root) || !a.is_positive() {
        return Ok(None);
    }
    let surd = Poly::term(roots.clone(), b.clone());
    let Some(square) = surd.times(&surd, budget)?.as_number() else {
        return Ok(None);
    };
    let rest = budget.number(a * a - square)?;
    let (top, bottom) = (rest.numer(), rest.denom());
    if top.is_negative() {
        return Ok(None);
    }
    let root = Rational::new(top.sqrt(), bottom.sqrt());
    if &root * &root != rest {
        return Ok(None);
    }
    let two = Rational::from_integer(2.into());
    let mut result = Poly::default();
    for (part, sign) in [
        ((a + &root) / &two, false),
        ((a - &root) / &two, b.is_negative()),
    ] {
        let part = number_power(&part, half, budget)?;
        result = result.plus(&if sign { part.negated() } else { part }, budget)?;
    }
    Ok(Some(result.into()))
}

/// The power of a sum that has no simpler form; only its content is taken out.
fn root_of_sum(sum: &Poly, exponent: Exponent, budget: &mut Budget) -> Result<Fraction, Fault> {
    let content = content(sum, budget)?;
    let primitive = sum.scaled(&content.recip(), budget)?;
    let outside = number_power(&content, exponent, budget)?;
    let (whole, rest) = parts(exponent);
    let size = u32::try_from(whole.unsigned_abs()).map_err(|_| Fault::TooHard)?;
    let times = primitive.to_the(size, budget)?;
    let atom = Atom::Sum(Box::new(primitive));
    let root = Poly::term([(atom, rest)].into(), Rational::one());
    let root = Fraction::from(root.times(&outside, budget)?);
    if whole < 0 {
        root.over(&times.into(), budget)
    } else {
        root.times(&times.into(), budget)
    }
}

/// The positive rational that leaves coprime integers when it is divided out.
fn content(sum: &Poly, budget: &mut Budget) -> Result<Rational, Fault> {
    let mut tops = BigInt::zero();
    let mut bottoms = BigInt::one();
    for value in sum.0.values() {
        tops = tops.gcd(value.numer());
        bottoms = bottoms.lcm(value.denom());
        budget.number(Rational::new(tops.clone(), bottoms.clone()))?;
    }
    Ok(Rational::new(tops, bottoms))
}

/// Returns `value^exponent` for an exponent that is not an integer.
fn number_power(value: &Rational, exponent: Exponent, budget: &mut Budget) -> Result<Poly, Fault> {
    let mut result = Poly::one();
    if value.is_negative() {
        // The real root if the degree is odd, `i` for square roots, and no other complex roots.
        let odd = exponent.numer().is_odd();
        result = match *exponent.denom() {
            degree if degree.is_odd() && odd => result.negated(),
            degree if degree.is_odd() => result,
            2 => {
                let imaginary = Poly::atom(Atom::Imaginary);
                let turns = exponent.numer().mod_floor(&4);
                imaginary.to_the(u32::try_from(turns).map_err(|_| Fault::TooHard)?, budget)?
            }
            _ => return Err(Fault::Unread),
        };
    }
    for (number, sign) in [(value.numer(), 1), (value.denom(), -1)] {
        for (prime, times) in factorised(&number.abs(), budget)? {
            let raised = exponent * Exponent::from(sign * i64::from(times));
            result = result.times(&prime_power(prime, raised, budget)?, budget)?;
        }
    }
    Ok(result)
}

/// A prime to any rational power: a whole power of it times a power between 0 and 1.
fn prime_power(prime: u64, exponent: Exponent, budget: &mut Budget) -> Result<Poly, Fault> {
    let (whole, rest) = parts(exponent);
    let base = Rational::from_integer(prime.into());
    let factor = integer_power(&base, whole.unsigned_abs(), budget)?;
    let mut monomial = Monomial::new();
    if !rest.is_zero() {
        monomial.insert(Atom::Prime(prime), rest);
    }
    let factor = if whole < 0 { factor.recip() } else { factor };
    Ok(Poly::term(monomial, factor))
}

/// `base^(coefficient * monomial)` with variables in the exponent.
fn symbolic_power(
    base: &Poly,
    monomial: &Monomial,
    coefficient: &Rational,
    budget: &mut Budget,
) -> Result<Fraction, Fault> {
    if monomial.is_empty() {
        let exponent = Fraction::from(coefficient.clone());
        return power(&base.clone().into(), &exponent, budget);
    }
    let coefficient = small(coefficient)?;
    let (powers, value) = base.as_term().ok_or(Fault::Unread)?;
    if !value.is_positive() {
        return Err(Fault::Unread);
    }
    let mut factors: Vec<(Atom, Exponent)> = Vec::new();
    for (number, sign) in [(value.numer(), 1), (value.denom(), -1)] {
        for (prime, times) in factorised(number, budget)? {
            factors.push((Atom::Prime(prime), Exponent::from(sign * i64::from(times))));
        }
    }
    factors.extend(powers.iter().map(|(atom, power)| (atom.clone(), *power)));
    let mut product = Fraction::integer(1);
    for (atom, power) in factors {
        if !is_plain(&atom) {
            return Err(Fault::Unread);
        }
        let raised = power * coefficient;
        let atom = Atom::Power(Box::new(atom), monomial.clone());
        let factor = Poly::term([(atom, raised)].into(), Rational::one());
        product = product.times(&factor.into(), budget)?;
    }
    Ok(product)
}

/// The primes of a positive number and how often each divides it.
pub(super) fn factorised(number: &BigInt, budget: &mut Budget) -> Result<Vec<(u64, u32)>, Fault> {
    let mut factors = Vec::new();
    let mut rest = number.clone();
    let mut divisor = 2u64;
    while divisor < MAX_DIVISOR && BigInt::from(divisor * divisor) <= rest {
        budget.charge(1)?;
        let mut times = 0;
        while (&rest % divisor).is_zero() {
            rest /= divisor;
            times += 1;
        }
        if times > 0 {
            factors.push((divisor, times));
        }
        divisor += if divisor == 2 { 1 } else { 2 };
    }
    if rest.is_one() {
        return Ok(factors);
    }
    if rest < BigInt::from(MAX_DIVISOR * MAX_DIVISOR) {
        factors.push((rest.to_u64().ok_or(Fault::TooHard)?, 1));
        return Ok(factors);
    }
    // Large primes are not looked for, but a square of one comes up in `\sqrt{n^2}`.
    let half = rest.sqrt();
    if &half * &half == rest && half < BigInt::from(MAX_DIVISOR * MAX_DIVISOR) {
        factors.push((half.to_u64().ok_or(Fault::TooHard)?, 2));
        return Ok(factors);
    }
    Err(Fault::TooHard)
}
