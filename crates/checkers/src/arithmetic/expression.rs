//! The parser of expressions: finds how long an expression is, its value if known, and everything
//! that makes the value doubtful.

use std::collections::{BTreeMap, BTreeSet};

use beamgen_eval::number::Rational;
use num_bigint::BigInt;
use num_traits::Signed;

use super::lex::{Kind, Token};
use super::value::{Value, unit};
use super::words;

/// The maximum nesting of brackets, signs and powers.
const MAX_DEPTH: usize = 64;

/// The maximum number of words in the unit after a number.
const MAX_UNIT_WORDS: usize = 6;

/// Facts from earlier steps that the parser uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Values of variables.
    pub variables: BTreeMap<String, Value>,
    /// Printed numbers that stand for numbers with more digits.
    pub rounded: BTreeSet<Rational>,
}

/// One choice for each ambiguous notation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// `20%` is 20, not 20/100.
    pub percent_is_plain: bool,
    /// `6/2(3)` is `6/(2(3))`.
    pub products_first: bool,
    /// `-2^2` is `(-2)^2`.
    pub signs_first: bool,
    /// `25 / 1/3` is `25 / (1/3)`.
    pub fractions_first: bool,
    /// The base of whole numbers, where it is not ten.
    pub base: Option<u32>,
}

impl Reading {
    /// Returns the readings, other than the usual one, that can change an expression with these
    /// features.
    pub(crate) fn others(features: Features) -> impl Iterator<Item = Self> {
        (1..16u8).filter_map(move |bits| {
            let reading = Self {
                percent_is_plain: bits & 1 != 0,
                products_first: bits & 2 != 0,
                signs_first: bits & 4 != 0,
                fractions_first: bits & 8 != 0,
                base: None,
            };
            let used = (!reading.percent_is_plain || features.percent)
                && (!reading.products_first || features.implicit)
                && (!reading.signs_first || features.signed_power)
                && (!reading.fractions_first || features.fraction);
            used.then_some(reading)
        })
    }
}

/// The ambiguous notations that occur in an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    pub percent: bool,
    pub implicit: bool,
    pub signed_power: bool,
    pub fraction: bool,
}

impl Features {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            percent: self.percent || other.percent,
            implicit: self.implicit || other.implicit,
            signed_power: self.signed_power || other.signed_power,
            fraction: self.fraction || other.fraction,
        }
    }
}

/// A parsed expression, with facts that decide what a difference proves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expression {
    /// The value; `None` if a variable is unknown or an operation has no result (division by 0).
    pub value: Option<Value>,
    /// The value of the first operand, for comparison with a running total; `None` if unknown.
    pub first: Option<Value>,
    /// The number and its decimal places, if the expression is only a number with an optional sign.
    pub literal: Option<(Rational, Option<usize>)>,
    /// The name, if the expression is only a variable.
    pub variable: Option<String>,
    /// Whether the expression is a percentage or a quotient of two numbers.
    pub is_share: bool,
    /// The number of tokens in the expression.
    pub length: usize,
    /// The number of tokens without the unit at the end.
    pub core: usize,
    /// The number of operators, products without a sign included.
    pub operators: usize,
    /// The units: words after numbers, in lower case and singular.
    pub units: BTreeSet<String>,
    /// Whether a currency sign, a percentage or a unit occurs.
    pub measured: bool,
    /// Whether a variable occurs, known or not.
    pub has_variables: bool,
    /// Whether some part has a second meaning, so that a difference proves nothing.
    pub doubtful: bool,
    /// The ambiguous notations that occur.
    pub features: Features,
}

/// The error for tokens that do not begin with an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nothing;

/// The remaining work: each nested part that is parsed takes one unit.
#[derive(Debug)]
pub(crate) struct Fuel(pub u32);

/// Parses the longest expression at the beginning of `tokens`.
pub(crate) fn read(
    tokens: &[Token],
    known: &Known,
    reading: Reading,
    fuel: &mut Fuel,
) -> Result<Expression, Nothing> {
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        known,
        reading,
        fuel,
        read: Expression::default(),
    };
    let whole = parser.sum()?;
    Ok(Expression {
        value: whole.value,
        literal: whole.literal,
        variable: whole.variable,
        is_share: whole.is_share,
        length: parser.at,
        measured: parser.read.measured || !whole.units.is_empty(),
        units: whole.units,
        ..parser.read
    })
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    known: &'a Known,
    reading: Reading,
    fuel: &'a mut Fuel,
    /// The expression of all parts that were read so far.
    read: Expression,
}

/// A part of an expression.
#[derive(Clone, Debug, Default)]
struct Operand {
    value: Option<Value>,
    literal: Option<(Rational, Option<usize>)>,
    variable: Option<String>,
    units: BTreeSet<String>,
    /// A percentage or a quotient of numbers, of which "of" takes a part.
    is_share: bool,
}

type Parsed = Result<Operand, Nothing>;

impl<'a> Parser<'a> {
    fn kind(&self, ahead: usize) -> Option<&'a Kind> {
        let tokens: &'a [Token] = self.tokens;
        tokens.get(self.at + ahead).map(|token| &token.kind)
    }

    fn word(&self, ahead: usize) -> Option<&'a str> {
        let tokens: &'a [Token] = self.tokens;
        tokens.get(self.at + ahead)?.word()
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Nothing>,
    ) -> Result<T, Nothing> {
        self.fuel.0 = self.fuel.0.checked_sub(1).ok_or(Nothing)?;
        if self.depth >= MAX_DEPTH {
            return Err(Nothing);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn sum(&mut self) -> Parsed {
        let mut total = self.term()?;
        // Recorded for the outermost sum only, since a running total repeats the first operand of a
        // line.
        if self.depth == 0 && self.read.operators == 0 {
            self.read.first.clone_from(&total.value);
        }
        loop {
            let plus = match self.kind(0) {
                Some(Kind::Plus) => true,
                Some(Kind::Minus) => false,
                _ => return Ok(total),
            };
            let start = self.at;
            // In "12 and -6" the minus is the sign of a second number, not a subtraction.
            if !plus && self.begins_number() {
                return Ok(total);
            }
            self.at += 1;
            let Ok(other) = self.deeper(Self::term) else {
                // "7 apples - Tom ...": a dash.
                self.at = start;
                self.read.doubtful = true;
                return Ok(total);
            };
            self.read.operators += 1;
            self.read.doubtful |= are_mixed(&total.units, &other.units);
            total = Operand {
                value: both(
                    total.value,
                    other.value,
                    if plus { Value::plus } else { Value::minus },
                ),
                units: total.units.into_iter().chain(other.units).collect(),
                ..Operand::default()
            };
        }
    }

    /// Whether the minus here is the sign of a number after a word, as in "12 and -6".
    fn begins_number(&self) -> bool {
        let behind_word = self.at > 0 && self.tokens[self.at - 1].word().is_some();
        let tight = self
            .tokens
            .get(self.at + 1)
            .is_some_and(|next| !next.spaced);
        behind_word && self.read.core < self.at && self.tokens[self.at].spaced && tight
    }

    fn term(&mut self) -> Parsed {
        let mut product = self.factor(false)?;
        loop {
            let start = self.at;
            let divides = match self.kind(0) {
                Some(Kind::Times) => false,
                Some(Kind::Slash) => true,
                Some(Kind::Word(word)) if self.is_times(word) => {
                    // A variable as often as a sign.
                    self.read.doubtful |= self.tokens[self.at].math;
                    false
                }
                // "20% of 50" is a product; "3 of 50" is not.
                Some(Kind::Word(word)) if word == "of" && product.is_share && self.opens(1) => {
                    false
                }
                Some(Kind::Open | Kind::Fraction) if self.follows_directly() => {
                    self.read.features.implicit = true;
                    // "4 (15 minutes)" is a remark as often as a product.
                    self.read.doubtful |= self.tokens[self.at].spaced;
                    // "2\frac{3}{4}" is 2 3/4.
                    self.read.doubtful |= self.tokens[self.at].is(&Kind::Fraction);
                    // "A(3)" is a function's value as often as a product.
                    self.read.doubtful |= self.at > 0 && self.tokens[self.at - 1].word().is_some();
                    let other = self.deeper(Self::power)?;
                    product = self.times(product, other, Value::times);
                    continue;
                }
                _ => return Ok(product),
            };
            self.at += 1;
            if self.depth == 0 && self.read.operators == 0 {
                self.read.first.clone_from(&product.value);
            }
            // "7 x Tom": the sign is left unread, and the unread operand makes the value doubtful.
            let Ok(other) = self.deeper(|this| this.factor(divides)) else {
                self.at = start;
                self.read.doubtful = true;
                return Ok(product);
            };
            // "3/4 of 12" is a product; "x/4 of 12" is not, since x may be a word.
            let share = divides && product.literal.is_some() && other.literal.is_some();
            let work = if divides { Value::over } else { Value::times };
            product = self.times(product, other, work);
            product.is_share = share;
        }
    }

    fn times(
        &mut self,
        one: Operand,
        other: Operand,
        work: fn(&Value, &Value) -> Result<Value, super::value::NoValue>,
    ) -> Operand {
        self.read.operators += 1;
        Operand {
            value: both(one.value, other.value, work),
            units: one.units.into_iter().chain(other.units).collect(),
            ..Operand::default()
        }
    }

    /// Parses one operand of a product. In the reading `products_first`, the operand includes all
    /// factors written directly after it, so `6/2(3)` is `6/(2(3))`.
    fn factor(&mut self, divides: bool) -> Parsed {
        let mut factor = self.signed()?;
        // `25 / 1/3`: recorded in every reading, so that the caller knows that `fractions_first`
        // matters.
        if divides && self.kind(0) == Some(&Kind::Slash) {
            self.read.features.fraction = true;
            if self.reading.fractions_first {
                self.at += 1;
                let under = self.deeper(Self::signed)?;
                factor = self.times(factor, under, Value::over);
            }
        }
        while self.reading.products_first
            && matches!(self.kind(0), Some(Kind::Open | Kind::Fraction))
            && self.follows_directly()
        {
            self.read.features.implicit = true;
            let other = self.deeper(Self::power)?;
            factor = self.times(factor, other, Value::times);
        }
        Ok(factor)
    }

    /// Whether a bracket directly after a number, a bracket or a known variable means a product.
    fn follows_directly(&self) -> bool {
        let before = self.at.checked_sub(1).map(|at| &self.tokens[at].kind);
        let is_factor = |kind: &Kind| match kind {
            Kind::Number(..) | Kind::Close => true,
            Kind::Word(word) => self.known.variables.contains_key(word),
            _ => false,
        };
        // `core == at` means that no unit is between: in "3 m (4 pieces)" the bracket is a remark.
        self.read.core == self.at && before.is_some_and(is_factor)
    }

    /// Whether a word is a sign of multiplication.
    fn is_times(&self, word: &str) -> bool {
        let letter = matches!(word, "x" | "X") && !self.known.variables.contains_key(word);
        (letter && self.tokens[self.at].spaced || word.eq_ignore_ascii_case("times"))
            && self.opens(1)
    }

    /// Whether a number or an opening bracket comes after `ahead` tokens; signs are skipped.
    fn opens(&self, ahead: usize) -> bool {
        let mut ahead = ahead;
        while matches!(self.kind(ahead), Some(Kind::Money | Kind::Minus)) {
            ahead += 1;
        }
        matches!(
            self.kind(ahead),
            Some(Kind::Number(..) | Kind::Open | Kind::Fraction)
        )
    }

    fn signed(&mut self) -> Parsed {
        match self.kind(0) {
            Some(Kind::Minus) => {
                self.at += 1;
                let start = self.at;
                let operand = self.deeper(Self::signed)?;
                let power = self.tokens[start..self.at]
                    .iter()
                    .any(|t| t.is(&Kind::Power));
                // `-2^2` is -4 in mathematics and 4 on many calculators.
                self.read.features.signed_power |= power;
                if power && self.reading.signs_first {
                    self.at = start;
                    return self.power_of(true);
                }
                Ok(negated(operand))
            }
            Some(Kind::Plus) => {
                self.at += 1;
                self.deeper(Self::signed)
            }
            _ => self.power(),
        }
    }

    fn power(&mut self) -> Parsed {
        self.power_of(false)
    }

    fn power_of(&mut self, minus: bool) -> Parsed {
        let mut base = self.atom()?;
        if minus {
            base = negated(base);
        }
        if self.kind(0) == Some(&Kind::Power) {
            self.at += 1;
            self.read.doubtful |= self.is_vague_exponent();
            let exponent = self.deeper(Self::signed)?;
            base = self.times(base, exponent, Value::power);
        }
        self.units(&mut base);
        Ok(base)
    }

    /// Whether the exponent has two readings: LaTeX raises only the first digit of `2^34`, and
    /// `3^15^2` may be a tower or a product of powers.
    fn is_vague_exponent(&self) -> bool {
        let Some(token) = self.tokens.get(self.at) else {
            return false;
        };
        let is_long = matches!(token.kind, Kind::Number(..)) && token.at.len() > 1;
        is_long && token.math || self.kind(1) == Some(&Kind::Power)
    }

    fn atom(&mut self) -> Parsed {
        while self.kind(0) == Some(&Kind::Money) {
            self.read.measured |= !self.tokens[self.at].is_border();
            self.at += 1;
        }
        let Some(token) = self.tokens.get(self.at) else {
            return Err(Nothing);
        };
        match &token.kind {
            Kind::Number(value, places) => {
                let places = *places;
                // Only whole numbers change with the base: nobody writes decimals in another base.
                let based = self.reading.base.filter(|_| places == Some(0));
                let value = based.map_or_else(|| value.clone(), |base| in_base(value, base));
                self.at += 1;
                self.read.core = self.at;
                let mut operand = Operand {
                    value: Some(self.printed(&value, places)),
                    literal: Some((value.clone(), places)),
                    ..Operand::default()
                };
                if places == Some(0)
                    && let Some(part) = self.mixed_part()
                {
                    let mixed = value + part;
                    operand.value = Some(Value::exact(mixed.clone()));
                    operand.literal = Some((mixed, None));
                }
                Ok(operand)
            }
            Kind::Open => self.deeper(Self::bracket),
            Kind::Fraction => {
                self.at += 1;
                let over = self.deeper(Self::bracket)?;
                let under = self.deeper(Self::bracket)?;
                let share = over.literal.is_some() && under.literal.is_some();
                let mut quotient = self.times(over, under, Value::over);
                quotient.is_share = share;
                Ok(quotient)
            }
            Kind::Word(word) if words::is_variable(word) => {
                let word = word.clone();
                self.at += 1;
                self.read.core = self.at;
                self.read.has_variables = true;
                Ok(Operand {
                    value: self.known.variables.get(&word).cloned(),
                    variable: Some(word),
                    ..Operand::default()
                })
            }
            // A quantity that is only named, as after the operator in "3 - the total": its value is
            // unknown.
            Kind::Word(_) if self.at > 0 => {
                let words = self.tokens[self.at..].iter();
                self.at += words
                    .take_while(|t| t.word().is_some())
                    .take(MAX_UNIT_WORDS)
                    .count();
                if matches!(self.kind(0), Some(Kind::Number(..))) {
                    self.at += 1;
                }
                self.read.core = self.at;
                Ok(Operand::default())
            }
            _ => Err(Nothing),
        }
    }

    fn bracket(&mut self) -> Parsed {
        if self.kind(0) != Some(&Kind::Open) {
            return Err(Nothing);
        }
        self.at += 1;
        let inside = self.sum()?;
        if self.kind(0) != Some(&Kind::Close) {
            return Err(Nothing);
        }
        self.at += 1;
        self.read.core = self.at;
        Ok(inside)
    }

    /// Parses the fraction of a mixed number, as in `2 3/4`.
    fn mixed_part(&mut self) -> Option<Rational> {
        let [over, slash, under, ..] = self.tokens.get(self.at..)? else {
            return None;
        };
        let (Kind::Number(top, Some(0)), Kind::Slash, Kind::Number(bottom, Some(0))) =
            (&over.kind, &slash.kind, &under.kind)
        else {
            return None;
        };
        // "2 3/4" is a mixed number; "2 3 / 4", with spaces around the slash, is not.
        let tight = over.spaced && !slash.spaced && !under.spaced;
        let part = (tight && top < bottom && bottom.is_positive()).then(|| top / bottom)?;
        self.at += 3;
        self.read.core = self.at;
        Some(part)
    }

    /// Returns the number with the interval of values that were printed as this number.
    fn printed(&self, value: &Rational, places: Option<usize>) -> Value {
        let Some(places) = places else {
            return Value::exact(value.clone());
        };
        // An earlier step rounded this number, so the interval is a whole unit of the last digit on
        // each side.
        if self.known.rounded.contains(value) {
            return Value::about(value.clone(), &unit(places));
        }
        match places {
            // Numbers with at most one decimal are mostly exact. Intervals for them would hide the
            // mistakes that this checker looks for.
            0 | 1 => Value::exact(value.clone()),
            _ => Value::about(
                value.clone(),
                &(unit(places) / Rational::from_integer(2.into())),
            ),
        }
    }

    /// Parses what may follow an operand: percent signs, units, and remarks in brackets.
    fn units(&mut self, operand: &mut Operand) {
        let is_percent = self.kind(0) == Some(&Kind::Percent)
            || matches!(self.word(0), Some("percent" | "percentage"));
        if is_percent {
            self.at += 1;
            self.read.core = self.at;
            self.read.features.percent = true;
            self.read.measured = true;
            operand.is_share = true;
            if !self.reading.percent_is_plain {
                operand.value = operand.value.take().map(|value| value.hundredth());
                let hundred = Rational::from_integer(100.into());
                operand.literal = operand
                    .literal
                    .take()
                    .map(|(value, places)| (value / hundred, places.map(|p| p + 2)));
            }
        }
        let mut count = 0;
        while count < MAX_UNIT_WORDS {
            match self.kind(0) {
                Some(Kind::Word(word)) => {
                    if words::ends_unit(word) || operand.variable.is_some() {
                        return;
                    }
                    if self.is_times(word) || word == "of" && operand.is_share && self.opens(1) {
                        return;
                    }
                    let token = &self.tokens[self.at];
                    let tight = !token.spaced;
                    let is_product = words::is_product(word);
                    // "3rst" is a product as often as "3km" is a length, "3 h" as often as a time;
                    // "1/4 of the tank" is not 1/4.
                    self.read.doubtful |= tight || token.math || is_product || word == "of";
                    let is_unit = words::is_unit_letter(word) && !tight && !token.math;
                    if is_product && !is_unit || words::is_multiplier(word) {
                        // A product with a variable, a dozen, or nobody knows.
                        self.read.doubtful = true;
                        operand.value = None;
                        operand.literal = None;
                    }
                    let word = words::singular(word).to_lowercase();
                    operand.units.insert(word);
                    self.at += 1;
                    if self.kind(0) == Some(&Kind::Power)
                        && matches!(self.kind(1), Some(Kind::Number(..)))
                    {
                        self.at += 2;
                    }
                }
                Some(Kind::Slash) if self.word(1).is_some_and(|word| !words::is_variable(word)) => {
                    self.at += 1;
                }
                Some(Kind::Open) if self.remark(operand) => {}
                Some(Kind::Money) if !self.opens(0) => self.at += 1,
                _ => return,
            }
            count += 1;
        }
    }

    /// Skips a bracket that contains only words, as in "3 (apples)"; returns whether there was one.
    fn remark(&mut self, operand: &mut Operand) -> bool {
        let inside = self.tokens[self.at + 1..].iter();
        let words = inside.take_while(|t| t.word().is_some() || t.is(&Kind::Slash));
        // Nothing is consumed before all tests are done: a bracket with other contents is a factor.
        let words = words.count();
        let is_remark =
            self.tokens[self.at].spaced && words > 0 && self.kind(words + 1) == Some(&Kind::Close);
        let inside = &self.tokens[self.at + 1..][..words];
        let is_text = |token: &Token| !token.math && !token.word().is_some_and(words::ends_unit);
        if !inside.iter().all(is_text) {
            return false;
        }
        let lone = words == 1 && self.word(1).is_some_and(words::is_variable);
        if !is_remark || lone {
            return false;
        }
        let units = inside.iter().filter_map(Token::word);
        let units = units.map(|word| words::singular(word).to_lowercase());
        operand.units.extend(units);
        self.at += words + 2;
        true
    }
}

/// Reads the digits of a whole number in base `base`. Returns the number unchanged if a digit is
/// not below the base.
fn in_base(number: &Rational, base: u32) -> Rational {
    let digits = number.to_integer().to_string();
    let read = BigInt::parse_bytes(digits.as_bytes(), base);
    read.map_or_else(|| number.clone(), Rational::from_integer)
}

/// Whether the unit of a sum of quantities with these units is uncertain.
fn are_mixed(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    if one.is_empty() || other.is_empty() {
        return one.union(other).any(|unit| words::is_exchanged(unit));
    }
    one.is_disjoint(other)
}

fn negated(operand: Operand) -> Operand {
    Operand {
        value: operand.value.map(Value::negated),
        literal: operand.literal.map(|(value, places)| (-value, places)),
        variable: None,
        ..operand
    }
}

fn both(
    one: Option<Value>,
    other: Option<Value>,
    work: fn(&Value, &Value) -> Result<Value, super::value::NoValue>,
) -> Option<Value> {
    work(&one?, &other?).ok()
}
