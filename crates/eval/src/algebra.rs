//! Exact algebra on the expressions that answers are made of.
//!
//! A [`Fraction`] is a quotient of two [`Poly`]s: sums of rational multiples of products of powers.
//! Variables, pi, e, the imaginary unit and roots of primes are such powers; whatever else has no
//! simpler form (`\cos x`, nested roots) is an opaque one. Without the opaque ones, equality of
//! fractions is decided exactly.
//!
//! Nothing here is unbounded: every operation draws on a [`Budget`] and gives up when it is spent.

mod budget;
mod fraction;
mod function;
mod numeric;
mod poly;
mod power;
mod show;

pub(crate) use budget::{Budget, Fault};
pub(crate) use fraction::Fraction;
pub(crate) use function::{absolute, apply, binomial, exp, factorial, is_function, ln};
pub(crate) use num_rational::BigRational as Rational;
pub(crate) use poly::{Atom, Poly};
pub(crate) use power::{power, root};

#[cfg(test)]
mod tests;
