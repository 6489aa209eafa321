//! Chains of equations in a text, with the parts of their sides that are expressions.

use super::expression::{Expression, Fuel, Known, Reading, read};
use super::lex::{Kind, Lexed, Token};
use super::words;

/// The longest side that is read, in tokens.
const MAX_SIDE: usize = 512;

/// The relation of two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    About,
}

/// The kind of text before an expression in its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// No text, or words that do not change the expression's meaning.
    Clear,
    /// Text that may change the expression's meaning: a mismatch proves nothing.
    Doubtful,
    /// An operator with an unknown operand: the expression is a part of a larger one.
    Part,
}

/// An expression in a side.
#[derive(Clone, Debug)]
pub(crate) struct Found<'a> {
    pub tokens: &'a [Token],
    pub expression: Expression,
    pub before: Before,
    /// Whether the expression is the whole side.
    pub whole: bool,
    /// Whether a number or an operator follows: the expression may be longer than was read.
    pub goes_on: bool,
}

/// A side of an equation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side<'a> {
    /// The expression that ends where the side ends.
    pub ending: Option<Found<'a>>,
    /// The expression that begins where the side begins.
    pub beginning: Option<Found<'a>>,
}

/// A chain of equations such as `a = b = c`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain<'a> {
    pub sides: Vec<Side<'a>>,
    /// The relations between neighbouring sides, one fewer than sides.
    pub relations: Vec<Relation>,
}

impl<'a> Chain<'a> {
    fn readings(&self) -> impl Iterator<Item = &Found<'a>> {
        let ends = self.sides.iter();
        ends.flat_map(|side| [&side.ending, &side.beginning])
            .flatten()
    }

    /// Whether a side has an operator, so that the chain calculates and does not only define.
    pub(crate) fn is_calculation(&self) -> bool {
        self.readings()
            .any(|found| found.expression.operators > 0 && !found.expression.has_variables)
    }

    /// Returns the variables that are a whole side.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.readings()
            .filter(|found| found.before != Before::Part && !found.goes_on)
            .filter_map(|found| found.expression.variable.as_deref())
    }
}

/// The tokens between two breaks, with at least one relation among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    tokens: &'a [Token],
    /// Whether the line above has no relation and may be the first summand of a column.
    below_open_line: bool,
    /// Whether the beginning may continue the text before the break.
    is_cut: bool,
    /// Whether the row below may continue the end.
    continues: bool,
    /// Whether the segment is a question, which claims nothing.
    is_asked: bool,
}

/// Splits a text into the segments that have equations.
pub(crate) fn segments(text: &Lexed) -> Vec<Segment<'_>> {
    let tokens = &text.tokens;
    let mut segments = Vec::new();
    // The pieces between breaks, with the facts about their neighbours that a piece cannot show: a
    // false verdict would come from reading half of a longer equation.
    let mut below_open_line = false;
    let mut is_cut = text.begins_open;
    let mut parts = tokens.split_inclusive(is_break).map(without_end).peekable();
    while let Some((part, end)) = parts.next() {
        let has_relation = part.iter().any(|token| relation(token).is_some());
        let below = parts.peek().map_or(&[][..], |(below, _)| *below);
        let is_row = end.is_some_and(|end| end.is(&Kind::Row));
        let is_rest = below.first().is_some_and(|first| first.kind.is_operator());
        let is_last = parts.peek().is_none();
        if has_relation {
            // A row below without a relation can only be the rest of this equation's right side.
            let claims_nothing = !below.iter().any(|token| relation(token).is_some());
            segments.push(Segment {
                tokens: part,
                below_open_line,
                is_cut,
                continues: is_row && !below.is_empty() && (is_rest || claims_nothing)
                    || is_last && end.is_none() && text.ends_open,
                is_asked: end.is_some_and(|end| end.is(&Kind::Question)),
            });
        }
        below_open_line =
            !has_relation && !part.is_empty() && end.is_some_and(|end| is_newline(end, tokens));
        // The next segment continues this one after "3 +" at the end of a line, and if its row
        // begins with an operator.
        is_cut = part.last().is_some_and(|last| last.kind.is_operator()) || is_row && is_rest;
    }
    segments
}

fn is_break(token: &Token) -> bool {
    matches!(token.kind, Kind::Break | Kind::Row | Kind::Question)
}

/// Splits off the break at the end of the tokens, if one is there.
fn without_end(part: &[Token]) -> (&[Token], Option<&Token>) {
    match part.split_last() {
        Some((end, part)) if is_break(end) => (part, Some(end)),
        _ => (part, None),
    }
}

fn relation(token: &Token) -> Option<Relation> {
    match token.kind {
        Kind::Equals => Some(Relation::Equal),
        Kind::Approx => Some(Relation::About),
        _ => None,
    }
}

impl<'a> Segment<'a> {
    /// Reads the equations of the segment with the known values of variables.
    pub(crate) fn read(&self, known: &Known, fuel: &mut Fuel) -> Vec<Chain<'a>> {
        let parts: Vec<&[Token]> = self.tokens.split(|t| relation(t).is_some()).collect();
        let last = parts.len() - 1;
        let mut relations = self.tokens.iter().filter_map(relation);
        let mut chains = Vec::new();
        let mut chain = Chain::default();
        for (i, part) in parts.into_iter().enumerate() {
            let mut side = Side::default();
            // A middle side of `a = b = c` is read twice: its beginning is compared with a, and its
            // ending with c. For a plain side both are the same expression.
            if i > 0 {
                side.beginning = beginning(part, known, fuel);
            }
            if i < last {
                side.ending = ending(part, known, fuel);
            }
            // The first side may lack the summands of the line above.
            if let (0, Some(first)) = (i, &mut side.ending)
                && first.whole
                && (self.is_cut || self.below_open_line && part[0].is(&Kind::Minus))
            {
                first.before = Before::Part;
            }
            // "Is 3 + 4 = 8?" claims nothing.
            if let (true, Some(ending)) = (self.is_asked, &mut side.ending)
                && ending.before == Before::Clear
            {
                ending.before = Before::Doubtful;
            }
            if let (true, Some(end)) = (i == last && self.continues, &mut side.beginning) {
                end.goes_on |= end.whole;
            }
            let goes_on = side.beginning.as_ref().is_some_and(|found| found.whole);
            if i > 0 && i < last && !goes_on {
                // "A = 3 and B = 4" are two equations, and 3 is not equal to B.
                let end = Side {
                    beginning: side.beginning.take(),
                    ending: None,
                };
                chain.sides.push(end);
                chains.push(std::mem::take(&mut chain));
            }
            chain.sides.push(side);
            chain.relations.extend(relations.next());
        }
        chains.push(chain);
        chains
    }
}

/// Whether a break ends a line.
fn is_newline(end: &Token, tokens: &[Token]) -> bool {
    let behind = tokens.partition_point(|token| token.at.start < end.at.end);
    tokens.get(behind).is_some_and(|next| next.first)
}

fn beginning<'a>(side: &'a [Token], known: &Known, fuel: &mut Fuel) -> Option<Found<'a>> {
    // Cut, to bound the work on hostile texts.
    let side = &side[..side.len().min(MAX_SIDE)];
    let expression = read(side, known, Reading::default(), fuel).ok()?;
    let rest = &side[expression.length..];
    Some(Found {
        tokens: &side[..expression.length],
        before: Before::Clear,
        whole: rest.is_empty(),
        goes_on: goes_on(rest),
        expression,
    })
}

/// Whether the expression may continue, as a number or an operator follows soon: "2 hours and 30
/// minutes", "7 - Tom".
fn goes_on(rest: &[Token]) -> bool {
    let words = rest.iter().take_while(|t| t.word().is_some()).count();
    let next = rest.get(words).map(|token| &token.kind);
    match next {
        None | Some(Kind::Close | Kind::Break) => false,
        // "7 apples and 3 pears": at most two words, or the number belongs to another statement.
        Some(Kind::Number(..) | Kind::Money) => words <= 2,
        Some(_) => words == 0,
    }
}

/// Returns the longest expression at the end of the side.
fn ending<'a>(side: &'a [Token], known: &Known, fuel: &mut Fuel) -> Option<Found<'a>> {
    let side = &side[side.len().saturating_sub(MAX_SIDE)..];
    // From the left, so the first expression that reaches the end of the side is the longest.
    let starts = (0..side.len()).filter(|&i| begins(&side[i]));
    for start in starts {
        let tokens = &side[start..];
        if let Ok(expression) = read(tokens, known, Reading::default(), fuel)
            && expression.length == tokens.len()
        {
            let before = before(side, start, &expression);
            return Some(Found {
                tokens,
                before,
                whole: start == 0,
                goes_on: false,
                expression,
            });
        }
        // Without fuel a shorter expression could be found that is a part of the true one.
        if fuel.0 == 0 {
            return None;
        }
    }
    None
}

fn begins(token: &Token) -> bool {
    match &token.kind {
        Kind::Number(..) | Kind::Open | Kind::Fraction | Kind::Money | Kind::Minus => true,
        Kind::Word(word) => words::is_variable(word),
        _ => false,
    }
}

/// Whether the words before an expression suppose it or take a multiple of it: "if 3 + 4", "assume
/// that 3 + 4", "twice the sum 3 + 4".
fn is_conditional(before: &[Token]) -> bool {
    const NEAR: usize = 3;
    let mut words = before.iter().rev().map_while(Token::word).take(NEAR);
    words.any(|word| words::is_condition(word) || words::is_multiple(word))
}

fn before(side: &[Token], start: usize, expression: &Expression) -> Before {
    let Some(previous) = start.checked_sub(1).map(|at| &side[at]) else {
        return Before::Clear;
    };
    let dash = side[start].is(&Kind::Minus)
        && side[start].spaced
        && side.get(start + 1).is_some_and(|next| next.spaced);
    let earlier = |back: usize| start.checked_sub(back).map(|at| &side[at]);
    match &previous.kind {
        // "# 3 + 4": the symbol may be an operator.
        Kind::Unknown => Before::Part,
        kind if kind.is_operator() => Before::Part,
        // "P(X = 2)", "100 + (100 * 2 = 300"
        Kind::Open if expression.variable.is_some() => Before::Part,
        // "2 * (3 + 4 = 7": the bracket of a larger expression was not closed.
        Kind::Open => match earlier(2).map(|token| &token.kind) {
            Some(Kind::Number(..) | Kind::Close | Kind::Unknown | Kind::Fraction) => Before::Part,
            Some(kind) if kind.is_operator() => Before::Part,
            _ => Before::Clear,
        },
        Kind::Word(_) | Kind::Number(..) | Kind::Close | Kind::Percent | Kind::Fraction if dash => {
            Before::Part
        }
        // "5 (3 + 4) = 35": a product without a sign, or a remark.
        Kind::Number(..) | Kind::Close | Kind::Percent | Kind::Fraction => Before::Doubtful,
        // A function of what is in the brackets, or a product.
        Kind::Word(_) if side[start].is(&Kind::Open) && !side[start].spaced => Before::Part,
        Kind::Word(word)
            if previous.math
                || side[start].is(&Kind::Open) && words::is_product(word)
                || words::takes_what_follows(word)
                || words::is_label(word) =>
        {
            Before::Doubtful
        }
        // "1 and 1/4"
        Kind::Word(word) if word == "and" => {
            let behind_number = matches!(earlier(2).map(|t| &t.kind), Some(Kind::Number(..)));
            let is_fraction = matches!(
                &side[start..],
                [over, slash, ..] if matches!(over.kind, Kind::Number(..)) && slash.is(&Kind::Slash)
            );
            if behind_number && is_fraction {
                Before::Doubtful
            } else {
                Before::Clear
            }
        }
        // "20 + 10 to the 29 + 24 there = 83"
        Kind::Word(word)
            if words::is_article(word)
                && earlier(2)
                    .and_then(Token::word)
                    .is_some_and(words::takes_what_follows) =>
        {
            Before::Doubtful
        }
        // "x 3 + 4": an article, or a product.
        Kind::Word(word) if words::is_variable(word) && !expression.has_variables => {
            let is_article = matches!(word.as_str(), "a" | "I") && !previous.math;
            if is_article {
                Before::Clear
            } else {
                Before::Doubtful
            }
        }
        Kind::Word(_) if is_conditional(&side[..start]) => Before::Doubtful,
        _ => Before::Clear,
    }
}
