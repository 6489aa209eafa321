//! Quotients of polynomials.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use num_rational::Ratio;
use num_traits::{One, Signed, Zero};

use super::numeric;
use super::poly::{Exponent, Monomial};
use super::{Atom, Budget, Fault, Poly, Rational};

/// A quotient of two sums. The denominator is 1 wherever this file knows how to get rid of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Fraction {
    pub(super) top: Poly,
    pub(super) bottom: Poly,
}

impl From<Poly> for Fraction {
    fn from(top: Poly) -> Self {
        Self {
            top,
            bottom: Poly::one(),
        }
    }
}

impl From<Rational> for Fraction {
    fn from(value: Rational) -> Self {
        Poly::number(value).into()
    }
}

impl Fraction {
    pub(crate) fn integer(value: i64) -> Self {
        Rational::from_integer(value.into()).into()
    }

    pub(crate) fn atom(atom: Atom) -> Self {
        Poly::atom(atom).into()
    }

    pub(crate) fn variable(name: &str) -> Self {
        Self::atom(Atom::Variable(name.to_owned()))
    }

    /// Returns the polynomial with the same zeros as the quotient, without denominators and negative exponents, and
    /// with leading coefficient 1.
    pub(crate) fn zeros(&self, budget: &mut Budget) -> Result<Poly, Fault> {
        let Some(last) = self.top.lead() else {
            return Ok(Poly::default());
        };
        let mut below = common_monomial(&self.top, &Poly::default()).0;
        for mut monomial in std::mem::take(&mut below).into_keys() {
            // Only negative powers are removed, since division by a common `x` would lose the zero at 0.
            monomial.retain(|_, exponent| *exponent > Exponent::zero());
            below.insert(monomial, last.recip());
        }
        self.top.times(&Poly(below), budget)
    }

    /// Returns the sum, or `None` if the expression has a denominator other than 1.
    pub(crate) fn as_poly(&self) -> Option<&Poly> {
        (self.bottom == Poly::one()).then_some(&self.top)
    }

    pub(crate) fn as_number(&self) -> Option<Rational> {
        self.as_poly()?.as_number()
    }

    pub(crate) fn as_variable(&self) -> Option<&str> {
        self.as_poly()?.as_variable()
    }

    pub(crate) fn as_letter(&self) -> Option<&str> {
        self.as_poly()?.as_letter()
    }

    /// Returns whether the expression has no variable. Infinity counts as a constant.
    pub(crate) fn is_constant(&self) -> bool {
        self.top
            .atoms()
            .chain(self.bottom.atoms())
            .all(|(atom, _)| is_constant(atom))
    }

    /// Returns variable, slope and constant if the expression is linear in exactly one variable.
    pub(crate) fn linear(&self) -> Option<(String, Rational, Self)> {
        let mut rest = self.as_poly()?.clone();
        let is_variable = |m: &&Monomial| !m.keys().all(is_constant);
        let monomial = rest.0.keys().find(is_variable)?.clone();
        let slope = rest.0.remove(&monomial)?;
        let lone = Poly::term(monomial, Rational::one());
        let name = lone.as_variable()?.to_owned();
        let is_only = !rest.0.keys().any(|m| is_variable(&m));
        is_only.then(|| (name, slope, rest.into()))
    }

    /// Divides by the absolute value of the leading coefficient, so that the sign does not change.
    pub(crate) fn positively_scaled(&self, budget: &mut Budget) -> Result<Self, Fault> {
        let lead = self.top.lead().map(|last| last.abs().recip());
        let lead = lead.unwrap_or_else(Rational::one);
        self.times(&lead.into(), budget)
    }

    pub(crate) fn plus(&self, other: &Self, budget: &mut Budget) -> Result<Self, Fault> {
        // Equal denominators are kept. Multiplying them would give a square, whose reduction costs budget.
        if self.bottom == other.bottom {
            let top = self.top.plus(&other.top, budget)?;
            return Self::quotient(top, self.bottom.clone(), budget);
        }
        let left = self.top.times(&other.bottom, budget)?;
        let right = other.top.times(&self.bottom, budget)?;
        let bottom = self.bottom.times(&other.bottom, budget)?;
        Self::quotient(left.plus(&right, budget)?, bottom, budget)
    }

    /// Returns whether the leading coefficient is negative, which holds for exactly one of `x` and `-x`.
    pub(super) fn is_negative(&self) -> bool {
        self.top.lead().is_some_and(Signed::is_negative)
    }

    pub(crate) fn signed(self, negative: bool) -> Self {
        if negative { self.negated() } else { self }
    }

    pub(crate) fn negated(&self) -> Self {
        Self {
            top: self.top.negated(),
            bottom: self.bottom.clone(),
        }
    }

    pub(crate) fn minus(&self, other: &Self, budget: &mut Budget) -> Result<Self, Fault> {
        self.plus(&other.negated(), budget)
    }

    pub(crate) fn times(&self, other: &Self, budget: &mut Budget) -> Result<Self, Fault> {
        let top = self.top.times(&other.top, budget)?;
        let bottom = self.bottom.times(&other.bottom, budget)?;
        Self::quotient(top, bottom, budget)
    }

    /// Returns the quotient, or [`Fault::Unread`] if `other` is zero.
    pub(crate) fn over(&self, other: &Self, budget: &mut Budget) -> Result<Self, Fault> {
        let top = self.top.times(&other.bottom, budget)?;
        let bottom = self.bottom.times(&other.top, budget)?;
        Self::quotient(top, bottom, budget)
    }

    pub(super) fn quotient(top: Poly, bottom: Poly, budget: &mut Budget) -> Result<Self, Fault> {
        let (mut top, mut bottom) = (top, bottom);
        if bottom.is_zero() {
            return Err(Fault::Unread);
        }
        if top.is_zero() || bottom == Poly::one() {
            return Ok(top.into());
        }
        // Roots are removed from the denominator first, since more divisions are then exact.
        if bottom.as_term().is_none() {
            (top, bottom) = rationalised(top, bottom, budget)?;
        }
        if let Some((monomial, coefficient)) = bottom.as_term() {
            let (factor, rest) = reciprocal(monomial, coefficient, budget)?;
            top = top.times(&factor, budget)?;
            bottom = rest;
            if bottom == Poly::one() {
                return Ok(top.into());
            }
        }
        if let Some(whole) = exact_quotient(&top, &bottom, budget)? {
            return Ok(whole.into());
        }
        // (x - 1) / (x^2 - 1) becomes 1 / (x + 1). If one side divides the other, the quotient thus has a single
        // form.
        if let Some(whole) = exact_quotient(&bottom, &top, budget)? {
            (top, bottom) = (Poly::one(), whole);
        }
        let common = common_monomial(&top, &bottom);
        let (top, bottom) = (top.times(&common, budget)?, bottom.times(&common, budget)?);
        // The same quotient must not be written with two leading coefficients.
        let lead = bottom.lead().map(Rational::recip);
        let lead = lead.unwrap_or_else(Rational::one);
        Ok(Self {
            top: top.scaled(&lead, budget)?,
            bottom: bottom.scaled(&lead, budget)?,
        })
    }

    /// Returns whether both expressions have the same value; `None` if this cannot be decided.
    pub(crate) fn same(&self, other: &Self, budget: &mut Budget) -> Result<Option<bool>, Fault> {
        if self == other {
            return Ok(Some(true));
        }
        // Equal quotients may have several forms, since common divisors of sums are not searched for. The numerators
        // are therefore compared after multiplication with the other denominator.
        let left = self.top.times(&other.bottom, budget)?;
        let right = other.top.times(&self.bottom, budget)?;
        let difference = left.plus(&right.negated(), budget)?;
        // `\\sin^2 x` has another form, but `\\sin^{-2} x` has none until it is above the line.
        let difference = difference.times(&common_monomial(&difference, &Poly::one()), budget)?;
        if difference.is_zero() {
            return Ok(Some(true));
        }
        // If all atoms are independent, a nonzero coefficient proves a difference. Opaque atoms such as
        // `\sqrt{x^2+2x+1}` and `x` may be related, so a nonzero value at some point has to prove it.
        let mut atoms = difference.atoms().map(|(atom, _)| atom);
        let is_opaque =
            atoms.any(|atom| matches!(atom, Atom::Sum(_) | Atom::Function(..) | Atom::Power(..)));
        if !is_opaque || numeric::is_nonzero(&difference) {
            return Ok(Some(false));
        }
        Ok(None)
    }
}

fn is_constant(atom: &Atom) -> bool {
    match atom {
        Atom::Imaginary | Atom::Prime(_) | Atom::Euler | Atom::Pi => true,
        Atom::Variable(name) => name == "∞",
        Atom::Power(base, exponents) => is_constant(base) && exponents.keys().all(is_constant),
        Atom::Sum(sum) => sum.atoms().all(|(atom, _)| is_constant(atom)),
        Atom::Function(_, arguments) => arguments.iter().all(Fraction::is_constant),
    }
}

/// Returns 1 / term as two parts: a factor, and a sum that remains as the denominator. `1 / \sqrt{x+1}` is
/// `\sqrt{x+1} / (x+1)`.
fn reciprocal(
    monomial: &Monomial,
    coefficient: &Rational,
    budget: &mut Budget,
) -> Result<(Poly, Poly), Fault> {
    let mut factor = Poly::number(budget.number(coefficient.recip())?);
    let mut bottom = Poly::one();
    for (atom, exponent) in monomial {
        let power = |exponent| Poly::term([(atom.clone(), exponent)].into(), Rational::one());
        let inverse = match atom {
            // 1 / i = -i
            Atom::Imaginary => power(Exponent::one()).negated(),
            Atom::Prime(prime) => {
                let below = Rational::new(1.into(), (*prime).into());
                power(Exponent::one() - exponent).scaled(&below, budget)?
            }
            Atom::Sum(sum) => {
                bottom = bottom.times(sum, budget)?;
                power(Exponent::one() - exponent)
            }
            _ => power(-exponent),
        };
        factor = factor.times(&inverse, budget)?;
    }
    Ok((factor, bottom))
}

/// Removes square roots of primes and the imaginary unit from the denominator, by multiplication with conjugates.
fn rationalised(top: Poly, bottom: Poly, budget: &mut Budget) -> Result<(Poly, Poly), Fault> {
    let half = Ratio::new(1, 2);
    let is_known = bottom.atoms().all(|(atom, exponent)| match atom {
        Atom::Imaginary => true,
        Atom::Prime(_) => *exponent == half,
        _ => false,
    });
    let (mut top, mut bottom) = (top, bottom);
    if !is_known {
        return Ok((top, bottom));
    }
    let atoms: BTreeSet<Atom> = bottom.atoms().map(|(atom, _)| atom.clone()).collect();
    // Multiplication with a conjugate removes one root from all terms, and later conjugates do not contain this root.
    for atom in atoms {
        let mut conjugate = bottom.clone();
        for (monomial, coefficient) in &mut conjugate.0 {
            if monomial.contains_key(&atom) {
                *coefficient = -&*coefficient;
            }
        }
        top = top.times(&conjugate, budget)?;
        bottom = bottom.times(&conjugate, budget)?;
    }
    Ok((top, bottom))
}

/// Returns the monomial that makes the smallest exponent of each atom 0 if both sums are multiplied by it.
fn common_monomial(top: &Poly, bottom: &Poly) -> Poly {
    let mut least: Monomial = Monomial::new();
    let terms = || top.0.keys().chain(bottom.0.keys());
    for atom in terms().flatten().map(|(atom, _)| atom) {
        if matches!(atom, Atom::Imaginary | Atom::Prime(_) | Atom::Sum(_))
            || least.contains_key(atom)
        {
            continue;
        }
        let exponents = terms().map(|m| m.get(atom).copied().unwrap_or_else(Exponent::zero));
        let smallest = exponents.min();
        least.insert(atom.clone(), -smallest.unwrap_or_else(Exponent::zero));
    }
    least.retain(|_, exponent| !exponent.is_zero());
    Poly::term(least, Rational::one())
}

/// Returns the quotient of polynomials in independent atoms; `None` if there is a remainder or another kind of atom.
fn exact_quotient(top: &Poly, bottom: &Poly, budget: &mut Budget) -> Result<Option<Poly>, Fault> {
    let mut atoms = top.atoms().chain(bottom.atoms());
    let is_whole = atoms.all(|(atom, exponent)| {
        exponent.is_integer()
            && *exponent.numer() > 0
            && !matches!(atom, Atom::Imaginary | Atom::Prime(_) | Atom::Sum(_))
    });
    if !is_whole {
        return Ok(None);
    }
    let Some((lead, lead_coefficient)) = leading(bottom) else {
        return Ok(None);
    };
    let mut rest = top.clone();
    let mut quotient = Poly::default();
    while let Some((monomial, coefficient)) = leading(&rest) {
        // Each round cancels the leading term of `rest`, so the loop ends.
        budget.charge(rest.0.len() as u64)?;
        let mut step = monomial.clone();
        for (atom, exponent) in lead {
            let left = step.remove(atom).unwrap_or_else(Exponent::zero) - exponent;
            match left.cmp(&Exponent::zero()) {
                Ordering::Less => return Ok(None),
                Ordering::Equal => {}
                Ordering::Greater => {
                    step.insert(atom.clone(), left);
                }
            }
        }
        let step = Poly::term(step, budget.number(coefficient / lead_coefficient)?);
        rest = rest.plus(&bottom.times(&step, budget)?.negated(), budget)?;
        quotient = quotient.plus(&step, budget)?;
    }
    Ok(Some(quotient))
}

/// Returns the greatest term in lexicographic order. Long division needs an order that multiplication preserves; the
/// order of `BTreeMap` is not of that kind.
fn leading(poly: &Poly) -> Option<(&Monomial, &Rational)> {
    poly.0.iter().max_by(|(a, _), (b, _)| lexicographic(a, b))
}

fn lexicographic(a: &Monomial, b: &Monomial) -> Ordering {
    let (mut left, mut right) = (a.iter(), b.iter());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (Some(_), None) => return Ordering::Greater,
            (None, Some(_)) => return Ordering::Less,
            (Some((x, m)), Some((y, n))) => match x.cmp(y) {
                // The side that has the earlier atom has the higher power of it.
                Ordering::Less => return Ordering::Greater,
                Ordering::Greater => return Ordering::Less,
                Ordering::Equal if m != n => return m.cmp(n),
                Ordering::Equal => {}
            },
        }
    }
}
