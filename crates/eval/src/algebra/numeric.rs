//! Telling expressions apart by their values, where algebra cannot.
//!
//! Two values that differ prove a difference. Values that agree prove nothing, and the caller says
//! so: no answer is called right by floating point.

use num_traits::ToPrimitive;

use super::{Atom, Fraction, Poly};

/// Whether the sum is certainly not zero for some values of its variables.
pub(super) fn is_nonzero(sum: &Poly) -> bool {
    // One part not being zero is enough.
    let (real, imaginary) = parts(sum);
    [0x9e37_79b9, 0x85eb_ca6b].into_iter().any(|seed| {
        [&real, &imaginary].into_iter().any(|part| {
            poly(part, seed).is_some_and(|(value, size)| {
                value.is_finite() && size.is_finite() && value.abs() > 1e-6 * size
            })
        })
    })
}

/// The real and the imaginary part, both without the imaginary unit.
fn parts(sum: &Poly) -> (Poly, Poly) {
    let (mut real, mut imaginary) = (Poly::default(), Poly::default());
    for (monomial, coefficient) in &sum.0 {
        let mut monomial = monomial.clone();
        let part = match monomial.remove(&Atom::Imaginary) {
            Some(_) => &mut imaginary,
            None => &mut real,
        };
        part.0.insert(monomial, coefficient.clone());
    }
    (real, imaginary)
}

/// The value and the sum of the sizes of the terms, which bounds what rounding can have done.
fn poly(sum: &Poly, seed: u64) -> Option<(f64, f64)> {
    let mut total = (0.0, 0.0);
    for (monomial, coefficient) in &sum.0 {
        let mut term = coefficient.to_f64()?;
        for (base, exponent) in monomial {
            term *= atom(base, seed)?.powf(exponent.to_f64()?);
        }
        total = (total.0 + term, total.1 + term.abs());
    }
    Some(total)
}

fn fraction(value: &Fraction, seed: u64) -> Option<f64> {
    Some(poly(&value.top, seed)?.0 / poly(&value.bottom, seed)?.0)
}

fn atom(atom: &Atom, seed: u64) -> Option<f64> {
    match atom {
        Atom::Imaginary => None,
        Atom::Prime(prime) => prime.to_f64(),
        Atom::Euler => Some(std::f64::consts::E),
        Atom::Pi => Some(std::f64::consts::PI),
        Atom::Variable(name) if name == "∞" => None,
        Atom::Variable(name) => Some(variable(name, seed)),
        Atom::Power(base, exponents) => {
            let mut exponent = 1.0;
            for (factor, power) in exponents {
                exponent *= self::atom(factor, seed)?.powf(power.to_f64()?);
            }
            Some(self::atom(base, seed)?.powf(exponent))
        }
        Atom::Sum(sum) => Some(poly(sum, seed)?.0),
        Atom::Function(name, arguments) => match arguments.as_slice() {
            [argument] => function(name, fraction(argument, seed)?),
            _ => None,
        },
    }
}

/// A value between 0.2 and 2.2 that depends on the name alone.
fn variable(name: &str, seed: u64) -> f64 {
    // An odd factor of 64 bits carries every byte of the name up to the bits that are used.
    let hash = name.bytes().fold(seed, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    0.2 + 2.0 * f64::from((hash >> 48) as u16) / f64::from(u16::MAX)
}

fn function(name: &str, x: f64) -> Option<f64> {
    Some(match name {
        "sin" => x.sin(),
        "cos" => x.cos(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "tanh" => x.tanh(),
        "arcsin" => x.asin(),
        "arccos" => x.acos(),
        "arctan" => x.atan(),
        "ln" => x.ln(),
        "abs" => x.abs(),
        _ => return None,
    })
}
