//! Sums of rational multiples of products of powers, in canonical form.

use std::collections::BTreeMap;

use num_integer::Integer;
use num_rational::Ratio;
use num_traits::{CheckedAdd, One, Pow, Signed, Zero};

use super::budget::MAX_BITS;
use super::{Budget, Fault, Fraction, Rational};

/// Rational exponents: `x^{1/2}` and `x^{-3}` are powers like any other.
pub(super) type Exponent = Ratio<i64>;

/// A product of powers; no exponent is zero.
pub(super) type Monomial = BTreeMap<Atom, Exponent>;

const MAX_TERMS: usize = 400;
const MAX_EXPONENT: i64 = 100_000;

/// The base of a power in a term; a term is a coefficient times powers of atoms.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Atom {
    /// The imaginary unit. Its exponent is always 1, since i^2 is -1.
    Imaginary,
    /// A prime. Its exponent is always between 0 and 1, since whole powers are part of the coefficient.
    Prime(u64),
    /// e, the base of the natural logarithm.
    Euler,
    /// pi
    Pi,
    /// A letter with its subscript.
    Variable(String),
    /// A constant or variable to the power of a product of variables, as in `2^{nk}`.
    Power(Box<Atom>, Monomial),
    /// A sum under a root. Its exponent is always between 0 and 1.
    Sum(Box<Poly>),
    /// A function with its arguments, for which no simpler form is known.
    Function(String, Vec<Fraction>),
}

/// A sum of terms; no coefficient is zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Poly(pub(super) BTreeMap<Monomial, Rational>);

impl Poly {
    pub(crate) fn number(value: Rational) -> Self {
        Self::term(Monomial::new(), value)
    }

    pub(super) fn one() -> Self {
        Self::number(Rational::one())
    }

    pub(crate) fn atom(atom: Atom) -> Self {
        Self::term(Monomial::from([(atom, Exponent::one())]), Rational::one())
    }

    pub(super) fn term(monomial: Monomial, coefficient: Rational) -> Self {
        if coefficient.is_zero() {
            return Self::default();
        }
        Self(BTreeMap::from([(monomial, coefficient)]))
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value if the sum is a number, else `None`.
    pub(crate) fn as_number(&self) -> Option<Rational> {
        match self.as_term() {
            // A sum without terms is 0.
            None => self.is_zero().then(Rational::zero),
            Some((monomial, value)) => monomial.is_empty().then(|| value.clone()),
        }
    }

    /// Returns the coefficient of the greatest monomial in the order of the map; `None` if the sum is 0.
    pub(super) fn lead(&self) -> Option<&Rational> {
        self.0.values().next_back()
    }

    /// Returns the term of a sum that has exactly one, else `None`.
    pub(super) fn as_term(&self) -> Option<(&Monomial, &Rational)> {
        let mut terms = self.0.iter();
        terms.next().filter(|_| terms.next().is_none())
    }

    /// Returns the name if the sum is a single variable with coefficient and exponent 1.
    pub(crate) fn as_variable(&self) -> Option<&str> {
        match self.as_atom()? {
            Atom::Variable(name) => Some(name),
            _ => None,
        }
    }

    fn as_atom(&self) -> Option<&Atom> {
        let (monomial, coefficient) = self.as_term()?;
        let mut powers = monomial.iter();
        match (powers.next()?, powers.next()) {
            ((atom, exponent), None) if exponent.is_one() && coefficient.is_one() => Some(atom),
            _ => None,
        }
    }

    /// Returns the name if the sum is a single variable, `e` or `i`. Letters may name choices, so callers compare
    /// them without case. A call such as `f(0)` is excluded, because `F(0)` may be another function.
    pub(crate) fn as_letter(&self) -> Option<&str> {
        match self.as_atom()? {
            Atom::Variable(name) if !name.contains('(') => Some(name),
            Atom::Euler => Some("e"),
            Atom::Imaginary => Some("i"),
            _ => None,
        }
    }

    pub(super) fn atoms(&self) -> impl Iterator<Item = (&Atom, &Exponent)> {
        self.0.keys().flatten()
    }

    fn add_term(
        &mut self,
        monomial: &Monomial,
        value: Rational,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        if let Some(present) = self.0.get_mut(monomial) {
            *present = budget.number(&*present + value)?;
            // Zero terms are removed, so that equal sums have equal maps.
            if present.is_zero() {
                self.0.remove(monomial);
            }
        } else if !value.is_zero() {
            budget.charge(1)?;
            if self.0.len() >= MAX_TERMS {
                return Err(Fault::TooHard);
            }
            self.0.insert(monomial.clone(), value);
        }
        Ok(())
    }

    pub(super) fn plus(&self, other: &Self, budget: &mut Budget) -> Result<Self, Fault> {
        let mut sum = self.clone();
        for (monomial, value) in &other.0 {
            sum.add_term(monomial, value.clone(), budget)?;
        }
        Ok(sum)
    }

    pub(super) fn negated(&self) -> Self {
        Self(self.0.iter().map(|(m, c)| (m.clone(), -c)).collect())
    }

    pub(super) fn scaled(&self, factor: &Rational, budget: &mut Budget) -> Result<Self, Fault> {
        self.times(&Self::number(factor.clone()), budget)
    }

    /// Whether it is a polynomial in variables with rational coefficients.
    pub(crate) fn is_plain(&self) -> bool {
        self.atoms().all(|(atom, exponent)| {
            matches!(atom, Atom::Variable(_)) && exponent.is_integer() && *exponent.numer() > 0
        })
    }

    pub(super) fn times(&self, other: &Self, budget: &mut Budget) -> Result<Self, Fault> {
        let mut product = Self::default();
        for (left, a) in &self.0 {
            for (right, b) in &other.0 {
                let value = budget.number(a * b)?;
                for (monomial, value) in &join(left, right, value, budget)?.0 {
                    product.add_term(monomial, value.clone(), budget)?;
                }
            }
        }
        Ok(product)
    }

    pub(super) fn to_the(&self, exponent: u32, budget: &mut Budget) -> Result<Self, Fault> {
        if let Some(value) = self.as_number() {
            return integer_power(&value, exponent.into(), budget).map(Self::number);
        }
        let mut result = Self::one();
        let mut square = self.clone();
        let mut rest = exponent;
        while rest > 0 {
            if rest & 1 == 1 {
                result = result.times(&square, budget)?;
            }
            rest >>= 1;
            if rest > 0 {
                square = square.times(&square, budget)?;
            }
        }
        Ok(result)
    }
}

/// `value^exponent`, refused before it is computed if it would be too large.
pub(super) fn integer_power(
    value: &Rational,
    exponent: u64,
    budget: &mut Budget,
) -> Result<Rational, Fault> {
    if value.is_zero() || value.abs().is_one() {
        let odd = exponent % 2 == 1;
        return Ok(match exponent {
            0 => Rational::one(),
            _ if odd => value.clone(),
            _ => value.abs(),
        });
    }
    let bits = value.numer().bits().max(value.denom().bits());
    let exponent = u32::try_from(exponent).map_err(|_| Fault::TooHard)?;
    if bits.saturating_mul(exponent.into()) > MAX_BITS + bits {
        return Err(Fault::TooHard);
    }
    budget.number(Pow::pow(value, exponent))
}

/// The product of two monomials. It is a sum where a root of a sum meets itself.
fn join(
    left: &Monomial,
    right: &Monomial,
    coefficient: Rational,
    budget: &mut Budget,
) -> Result<Poly, Fault> {
    let mut monomial = left.clone();
    let mut coefficient = coefficient;
    let mut sums = Vec::new();
    for (atom, exponent) in right {
        budget.charge(1)?;
        let sum = match monomial.remove(atom) {
            Some(present) => present.checked_add(exponent).ok_or(Fault::TooHard)?,
            None => *exponent,
        };
        if sum.numer().abs() > MAX_EXPONENT || *sum.denom() > MAX_EXPONENT {
            return Err(Fault::TooHard);
        }
        let (whole, above) = parts(sum);
        let rest = match atom {
            Atom::Imaginary => {
                if whole.mod_floor(&4) >= 2 {
                    coefficient = -coefficient;
                }
                Exponent::from(whole.mod_floor(&2))
            }
            Atom::Prime(prime) => {
                let prime = Rational::from_integer((*prime).into());
                let factor = integer_power(&prime, whole.unsigned_abs(), budget)?;
                coefficient = if whole < 0 {
                    coefficient / factor
                } else {
                    coefficient * factor
                };
                coefficient = budget.number(coefficient)?;
                above
            }
            Atom::Sum(poly) if whole > 0 => {
                let whole = u32::try_from(whole).map_err(|_| Fault::TooHard)?;
                sums.push(poly.to_the(whole, budget)?);
                above
            }
            // Of the two squares only that of the cosine is kept.
            Atom::Function(name, arguments) if name == "sin" && whole > 1 => {
                let half = u32::try_from(whole / 2).map_err(|_| Fault::TooHard)?;
                let cosine = Atom::Function("cos".to_owned(), arguments.clone());
                let square = Poly::term([(cosine, Exponent::from(2))].into(), -Rational::one());
                sums.push(Poly::one().plus(&square, budget)?.to_the(half, budget)?);
                sum - Exponent::from(whole / 2 * 2)
            }
            _ => sum,
        };
        if !rest.is_zero() {
            monomial.insert(atom.clone(), rest);
        }
    }
    let mut product = Poly::term(monomial, coefficient);
    for sum in sums {
        product = product.times(&sum, budget)?;
    }
    Ok(product)
}

/// The largest whole number that an exponent is not below, and what is left above it.
pub(super) fn parts(exponent: Exponent) -> (i64, Exponent) {
    let whole = exponent.floor();
    (whole.to_integer(), exponent - whole)
}
