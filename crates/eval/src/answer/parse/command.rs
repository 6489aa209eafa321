//! Commands and functions.

use num_traits::One;

use super::super::lex::Kind;
use super::super::value::Value;
use super::expression::FRACTIONS;
use super::{Parser, scalar};
use crate::algebra::{
    Atom, Fault, Fraction, Rational, apply, binomial, exp, is_function, ln, power, root,
};

pub(super) const GREEK: &[&str] = &[
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "varepsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "rho",
    "sigma",
    "tau",
    "phi",
    "varphi",
    "chi",
    "psi",
    "omega",
    "Gamma",
    "Delta",
    "Theta",
    "Lambda",
    "Sigma",
    "Phi",
    "Psi",
    "Omega",
    "ell",
];

impl Parser<'_> {
    pub(super) fn command(&mut self, name: &str) -> Result<Value, Fault> {
        self.at += 1;
        if FRACTIONS.contains(&name) {
            let top = self.short_argument()?;
            let bottom = self.short_argument()?;
            return Ok(Value::Scalar(top.over(&bottom, self.budget)?));
        }
        if is_function(name) {
            return self.function(name);
        }
        Ok(Value::Scalar(match name {
            "sqrt" => {
                let mut degree = 2;
                if self.eat('[') {
                    let Some(Kind::Number(_, Some(digits))) = self.kind(0) else {
                        return Err(Fault::Unread);
                    };
                    degree = digits.parse().map_err(|_| Fault::Unread)?;
                    self.at += 1;
                    self.expect(']')?;
                }
                let radicand = scalar(self.argument()?)?;
                root(&radicand, degree, self.budget)?
            }
            "binom" | "dbinom" | "tbinom" => {
                let n = self.short_argument()?;
                let k = self.short_argument()?;
                binomial(&n, &k, self.budget)?
            }
            "pi" => Fraction::atom(Atom::Pi),
            "infty" => Fraction::variable("∞"),
            "emptyset" | "varnothing" => return Ok(Value::Set(Vec::new())),
            "begin" => return self.matrix(),
            "mathbb R" => {
                let infinity = Fraction::variable("∞");
                let ends = [infinity.negated(), infinity].map(Value::Scalar);
                return Ok(Value::Brackets('(', ends.into(), ')'));
            }
            _ if GREEK.contains(&name) => {
                let subscript = match self.symbol() {
                    Some('_') => format!("_{}", self.subscript()?),
                    _ => String::new(),
                };
                Fraction::variable(&format!("{name}{subscript}"))
            }
            _ => return Err(Fault::Unread),
        }))
    }

    /// `\sin^2 x`, `\log_2 8`, `\cos(x+1)`: the name is read.
    pub(super) fn function(&mut self, name: &str) -> Result<Value, Fault> {
        let base = self
            .eat('_')
            .then(|| scalar(self.argument()?))
            .transpose()?;
        let mut exponent = self.eat('^').then(|| self.exponent()).transpose()?;
        let mut name = name.to_owned();
        if exponent.as_ref().and_then(Fraction::as_number) == Some(-Rational::one()) {
            name = format!("arc{name}");
            exponent = None;
        }
        let argument = self.nested(Self::function_argument)?;
        let ten = Fraction::integer(10);
        let value = match name.as_str() {
            "ln" => ln(&argument, self.budget)?,
            "log" | "lg" => {
                let below = ln(&base.unwrap_or(ten), self.budget)?;
                ln(&argument, self.budget)?.over(&below, self.budget)?
            }
            "exp" => exp(&argument, self.budget)?,
            _ if base.is_some() => return Err(Fault::Unread),
            _ => apply(&name, &argument, self.budget)?,
        };
        Ok(Value::Scalar(match exponent {
            Some(exponent) => power(&value, &exponent, self.budget)?,
            None => value,
        }))
    }

    /// Brackets, or all factors up to the next operator or function.
    fn function_argument(&mut self) -> Result<Fraction, Fault> {
        if matches!(self.symbol(), Some('(' | '{')) {
            return scalar(self.primary()?);
        }
        let negative = self.sign().unwrap_or(false);
        let mut product = scalar(self.power()?)?;
        loop {
            let is_name = match self.kind(0) {
                Some(Kind::Letters(name) | Kind::Command(name)) => is_function(name),
                _ => false,
            };
            let is_bracket = matches!(self.symbol(), Some('(' | '['));
            if is_name || is_bracket || !self.begins_factor() {
                break;
            }
            let factor = scalar(self.power()?)?;
            product = product.times(&factor, self.budget)?;
        }
        Ok(product.signed(negative))
    }
}
