//! The canonical text of an expression.

use std::fmt;

use num_traits::{One, Signed};

use super::poly::Monomial;
use super::{Atom, Fraction, Poly};

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_poly() {
            Some(poly) => write!(f, "{poly}"),
            None => write!(f, "({})/({})", self.top, self.bottom),
        }
    }
}

impl fmt::Display for Poly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return write!(f, "0");
        }
        for (place, (monomial, coefficient)) in self.0.iter().enumerate() {
            if place > 0 && !coefficient.is_negative() {
                write!(f, "+")?;
            }
            if monomial.is_empty() {
                write!(f, "{coefficient}")?;
                continue;
            }
            if coefficient.is_one() {
            } else if (-coefficient).is_one() {
                write!(f, "-")?;
            } else {
                write!(f, "{coefficient}*")?;
            }
            write_monomial(monomial, f)?;
        }
        Ok(())
    }
}

fn write_monomial(monomial: &Monomial, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (place, (atom, exponent)) in monomial.iter().enumerate() {
        let times = if place > 0 { "*" } else { "" };
        if exponent.is_one() {
            write!(f, "{times}{atom}")?;
        } else {
            write!(f, "{times}{atom}^({exponent})")?;
        }
    }
    Ok(())
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Imaginary => write!(f, "i"),
            Self::Prime(prime) => write!(f, "{prime}"),
            Self::Euler => write!(f, "e"),
            Self::Pi => write!(f, "pi"),
            Self::Variable(name) => write!(f, "{name}"),
            Self::Power(base, exponents) => {
                write!(f, "{base}^(")?;
                write_monomial(exponents, f)?;
                write!(f, ")")
            }
            Self::Sum(sum) => write!(f, "({sum})"),
            Self::Function(name, arguments) => {
                write!(f, "{name}(")?;
                for (place, argument) in arguments.iter().enumerate() {
                    let comma = if place > 0 { "," } else { "" };
                    write!(f, "{comma}{argument}")?;
                }
                write!(f, ")")
            }
        }
    }
}
