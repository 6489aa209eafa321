//! Sums, products, powers, and what they are made of.

use num_traits::{One, Signed, Zero};

use super::super::lex::{Kind, SET_OPEN};
use super::super::units;
use super::super::value::Value;
use super::{Parser, scalar};
use crate::algebra::{
    Atom, Fault, Fraction, Rational, absolute, factorial, is_function, power, root,
};

pub(super) const FRACTIONS: &[&str] = &["frac", "dfrac", "tfrac", "cfrac"];

/// Constants and functions that people write without a backslash.
const PLAIN_NAMES: &[&str] = &["pi", "inf", "infinity", "sqrt", "abs"];

/// Words of up to three letters that are no products of variables.
const SMALL_WORDS: &[&str] = &[
    "and", "as", "at", "by", "for", "if", "is", "of", "or", "per", "the", "to",
];

/// Whether a run of letters on its own is an expression and no word: a letter, a name, or two
/// letters that cannot be pronounced.
pub(in crate::answer) fn is_mathematics(word: &str) -> bool {
    word.len() < 2
        || PLAIN_NAMES.contains(&word)
        || (word.len() == 2 && !word.contains(['a', 'e', 'i', 'o', 'u']) && word.is_ascii())
}

/// A letter on its own; `i` and `e` are constants.
fn letter(letter: String) -> Atom {
    match letter.as_str() {
        "i" => Atom::Imaginary,
        "e" => Atom::Euler,
        _ => Atom::Variable(letter),
    }
}

impl Parser<'_> {
    pub(super) fn sum(&mut self) -> Result<Value, Fault> {
        let negative = self.sign().unwrap_or(false);
        let mut value = self.product()?;
        if negative {
            value = Value::Scalar(scalar(value)?.negated());
        }
        while let Some(negative) = self.sign() {
            let term = scalar(self.product()?)?.signed(negative);
            value = Value::Scalar(scalar(value)?.plus(&term, self.budget)?);
        }
        Ok(value)
    }

    /// Parses a sequence of signs. Returns true if their product is a minus, and `None` if there is no sign.
    pub(super) fn sign(&mut self) -> Option<bool> {
        let mut negative = None;
        while let Some(sign @ ('+' | '-' | '±' | '∓')) = self.symbol() {
            let minus = match sign {
                '+' => false,
                '-' => true,
                _ => {
                    self.either = true;
                    // The item is parsed twice. In the first pass (`plus`) `±` is + and `∓` is -, in the second the
                    // reverse.
                    self.plus == (sign == '∓')
                }
            };
            negative = Some(negative.unwrap_or(false) != minus);
            self.at += 1;
        }
        negative
    }

    fn product(&mut self) -> Result<Value, Fault> {
        let mut value = self.power()?;
        loop {
            let operator = self.symbol().filter(|c| matches!(c, '*' | '/'));
            // `18/hour` is 18 with a unit, not a quotient.
            if operator == Some('/') && self.begins_unit(1) {
                return Ok(value);
            }
            if operator.is_some() {
                self.at += 1;
            } else if !self.begins_factor() {
                return Ok(value);
            }
            let negative = operator.is_some() && self.sign().unwrap_or(false);
            let factor = scalar(self.power()?)?.signed(negative);
            let left = scalar(value)?;
            value = Value::Scalar(match operator {
                Some('/') => left.over(&factor, self.budget)?,
                _ => left.times(&factor, self.budget)?,
            });
        }
    }

    /// Whether a factor follows without an operator.
    pub(super) fn begins_factor(&self) -> bool {
        match self.kind(0) {
            Some(Kind::Letters(word)) => !self.is_unit(word),
            // `2\text{i}`, but `2\text{ m}`, `2\text{ N}` and `2 \text{ a day}`
            Some(Kind::Text(letter)) => {
                let is_constant = matches!(letter.as_str(), "e" | "i");
                letter.len() == 1
                    && (is_constant || !self.tokens[self.at].spaced)
                    && letter.bytes().all(|b| b.is_ascii_lowercase())
                    && !units::is_letter(letter)
                    && !matches!(self.kind(1), Some(Kind::Text(_)))
            }
            Some(Kind::Command(name)) => name != "end",
            Some(Kind::Symbol('(' | '[' | '{')) => true,
            Some(Kind::Symbol('|')) => self.bars == 0,
            // Two numbers side by side are none.
            Some(Kind::Number(..)) => self.at > 0 && !self.follows_number(),
            _ => false,
        }
    }

    fn follows_number(&self) -> bool {
        matches!(
            self.tokens[self.at - 1].kind,
            Kind::Number(..) | Kind::Symbol('°')
        )
    }

    /// Returns whether the token `ahead` of here is a unit or a word, such as `hour` in `18/hour`.
    fn begins_unit(&self, ahead: usize) -> bool {
        match self.kind(ahead) {
            Some(Kind::Text(_)) => true,
            Some(Kind::Letters(word)) => self.is_unit(word),
            _ => false,
        }
    }

    /// Whether letters after a value are a unit or a word. Others are variables.
    pub(super) fn is_unit(&self, word: &str) -> bool {
        if is_function(word) || PLAIN_NAMES.contains(&word) {
            return false;
        }
        let spaced = self.tokens[self.at].spaced;
        let small = word.bytes().all(|b| !b.is_ascii_uppercase());
        if units::is_half_of_day(word) {
            let before = |back: usize| {
                let at = self.at.checked_sub(back);
                at.and_then(|at| self.tokens.get(at)).map(|t| &t.kind)
            };
            let is_time = spaced || before(2) == Some(&Kind::Symbol(':'));
            return is_time && matches!(before(1), Some(Kind::Number(..)));
        }
        let small_word = SMALL_WORDS.contains(&word) || units::is_abbreviation(word);
        small_word || word.len() >= 4 || (word.len() == 3 && spaced && small)
    }

    /// Parses a factor followed by any exponents, factorials, degree signs and calls.
    pub(super) fn power(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        let mut value = self.primary()?;
        let (mut is_name, mut is_power) = (true, false);
        loop {
            match self.symbol() {
                // `f(0)` is a value of a function that the problem names, but `x(x+1)` is a product.
                Some('(') if is_name && self.is_called(start, is_power) => {
                    is_name = false;
                    value = self.call(&value)?;
                }
                Some('^') => {
                    self.at += 1;
                    is_power = true;
                    let exponent = self.exponent()?;
                    value = Value::Scalar(power(&scalar(value)?, &exponent, self.budget)?);
                }
                // `**` is the power operator of Python. The lexer's caller has already trimmed Markdown's `**` at the
                // ends.
                Some('*') if self.kind(1) == Some(&Kind::Symbol('*')) => {
                    self.at += 2;
                    let exponent = self.exponent()?;
                    value = Value::Scalar(power(&scalar(value)?, &exponent, self.budget)?);
                }
                Some('!') => {
                    self.at += 1;
                    is_name = false;
                    value = Value::Scalar(factorial(&scalar(value)?, self.budget)?);
                }
                Some('°') => {
                    self.at += 1;
                    // A degree is a counted thing, not a factor of pi/180, because the reference answer for `90°` may
                    // be 90.
                    let scale = self.word(0).filter(|w| matches!(w.as_str(), "c" | "f"));
                    self.at += usize::from(scale.is_some());
                    self.things.push("degree".to_owned());
                }
                _ => return Ok(value),
            }
        }
    }

    pub(super) fn exponent(&mut self) -> Result<Fraction, Fault> {
        let negative = self.sign().unwrap_or(false);
        Ok(scalar(self.argument()?)?.signed(negative))
    }

    pub(super) fn primary(&mut self) -> Result<Value, Fault> {
        self.budget.charge(1)?;
        match self.kind(0).cloned().ok_or(Fault::Unread)? {
            Kind::Number(value, digits) => self.number(value, digits),
            Kind::Letters(word) => self.letters(&word),
            Kind::Command(name) => self.command(&name),
            Kind::Symbol(open @ ('(' | '[' | '{' | '⟨' | SET_OPEN)) => self.bracketed(open),
            Kind::Symbol('|') => self.nested(|parser| {
                parser.at += 1;
                parser.bars += 1;
                // While `bars` is above 0, the next `|` closes an absolute value and does not open another.
                let inside = scalar(parser.sum()?)?;
                parser.bars -= 1;
                parser.expect('|')?;
                Ok(Value::Scalar(absolute(&inside)))
            }),
            // The letter of a choice, or `e` and `i` set upright.
            Kind::Text(word) if word.len() == 1 => self.constant(letter(word)),
            Kind::Text(_) | Kind::Symbol(_) => Err(Fault::Unread),
        }
    }

    fn number(&mut self, value: Rational, digits: Option<String>) -> Result<Value, Fault> {
        self.at += 1;
        if self.eat('_') {
            let base = scalar(self.argument()?)?.as_number().ok_or(Fault::Unread)?;
            let base: u32 = base.to_string().parse().map_err(|_| Fault::Unread)?;
            let digits = digits.ok_or(Fault::Unread)?;
            let valid = (2..=36).contains(&base) && digits.chars().all(|c| c.is_digit(base));
            return valid
                .then_some(Value::Based { digits, base })
                .ok_or(Fault::Unread);
        }
        let mut value = value;
        if digits.is_some()
            && let Some(part) = self.mixed_part()?
        {
            value += part;
        }
        Ok(Value::Scalar(value.into()))
    }

    /// Parses the fraction of a mixed number, `1/2` or `\frac{1}{2}` directly after an integer. Returns `None` for an
    /// improper fraction, which is a factor.
    fn mixed_part(&mut self) -> Result<Option<Rational>, Fault> {
        let start = self.at;
        let is_proper = |x: &Rational| x.is_positive() && *x < Rational::one();
        match (self.kind(0), self.kind(1), self.kind(2)) {
            (
                Some(Kind::Number(top, Some(_))),
                Some(Kind::Symbol('/')),
                Some(Kind::Number(bottom, Some(_))),
            ) if !bottom.is_zero() => {
                let part = top / bottom;
                if is_proper(&part) {
                    self.at += 3;
                    return Ok(Some(part));
                }
            }
            (Some(Kind::Command(name)), ..) if FRACTIONS.contains(&name.as_str()) => {
                let part = scalar(self.primary()?)?.as_number();
                if let Some(part) = part.filter(is_proper) {
                    return Ok(Some(part));
                }
                // The command is not part of a mixed number, so it is parsed again as a factor.
                self.at = start;
            }
            _ => {}
        }
        Ok(None)
    }

    fn letters(&mut self, word: &str) -> Result<Value, Fault> {
        let lower = word.to_ascii_lowercase();
        if is_function(word) {
            self.at += 1;
            return self.function(word);
        }
        match lower.as_str() {
            "pi" => return self.constant(Atom::Pi),
            "inf" | "infinity" => return self.constant(Atom::Variable("∞".to_owned())),
            "sqrt" => {
                self.at += 1;
                let radicand = scalar(self.argument()?)?;
                return Ok(Value::Scalar(root(&radicand, 2, self.budget)?));
            }
            "abs" if self.kind(1) == Some(&Kind::Symbol('(')) => {
                self.at += 1;
                return Ok(Value::Scalar(absolute(&scalar(self.argument()?)?)));
            }
            _ => {}
        }
        // A run of letters is a product. Its first letter becomes a token, and the rest is parsed as the next factor.
        if word.len() > 1 && !word.ends_with('\'') {
            self.split(self.at);
        }
        let Some(Kind::Letters(letter)) = self.kind(0).cloned() else {
            return Err(Fault::Unread);
        };
        self.at += 1;
        if self.symbol() == Some('_') {
            let subscript = self.subscript()?;
            return Ok(Value::Scalar(Fraction::variable(&format!(
                "{letter}_{subscript}"
            ))));
        }
        Ok(Value::Scalar(Fraction::atom(self::letter(letter))))
    }

    pub(super) fn constant(&mut self, atom: Atom) -> Result<Value, Fault> {
        self.at += 1;
        Ok(Value::Scalar(Fraction::atom(atom)))
    }

    /// Splits the first character off the token at `at`: `xy` becomes `x` and `y`, `12` becomes `1` and `2`.
    fn split(&mut self, at: usize) {
        let Some(token) = self.tokens.get_mut(at) else {
            return;
        };
        let mut first = token.clone();
        let value = |digits: &str| {
            let number = digits.parse().unwrap_or_default();
            Kind::Number(Rational::from_integer(number), Some(digits.to_owned()))
        };
        match &mut token.kind {
            Kind::Letters(run) if run.len() > 1 => {
                let rest = run.split_off(1);
                first.kind = Kind::Letters(std::mem::replace(run, rest));
            }
            Kind::Number(_, Some(digits)) if digits.len() > 1 => {
                let (head, rest) = digits.split_at(1);
                first.kind = value(head);
                token.kind = value(rest);
            }
            _ => return,
        }
        token.spaced = false;
        self.tokens.insert(at, first);
    }

    /// Parses a subscript such as `_1`, `_n` or `_{n+1}`, and returns its canonical text.
    pub(super) fn subscript(&mut self) -> Result<String, Fault> {
        self.at += 1;
        let value = self.argument()?;
        Ok(value.to_string())
    }

    /// Parses the argument of a command: a group in braces or brackets, or a single token.
    pub(super) fn argument(&mut self) -> Result<Value, Fault> {
        self.nested(Self::primary)
    }

    /// Parses an argument of `\frac`. A single digit suffices: `\frac12` is one half.
    pub(super) fn short_argument(&mut self) -> Result<Fraction, Fault> {
        self.split(self.at);
        let negative = self.sign().unwrap_or(false);
        Ok(scalar(self.argument()?)?.signed(negative))
    }
}
