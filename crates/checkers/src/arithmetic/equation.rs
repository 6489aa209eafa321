//! Chains of equations in a text, and the expressions at the ends of their sides.

use super::expression::{Expression, Fuel, Known, Reading, read};
use super::lex::{Kind, Lexed, Token};
use super::words;

/// The maximum number of tokens of a side that are read.
const MAX_SIDE: usize = 512;

/// The sign between two sides: equal, or approximately equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    About,
}

/// The kind of text before an expression on its side of the equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing, or words that do not change the expression's meaning.
    Clear,
    /// Text that may change the expression's meaning, so a difference proves nothing.
    Doubtful,
    /// An operator: the expression is only a part of a longer one.
    Part,
}

/// An expression in a side.
#[derive(Clone, Debug)]
pub(crate) struct Found<'a> {
    pub tokens: &'a [Token],
    pub expression: Expression,
    pub before: Before,
    /// Whether the expression covers all tokens of its side.
    pub whole: bool,
    /// Whether the side may continue the expression, because a number or an operator follows.
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

/// A chain of equations such as `a = b = c`, which has three sides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain<'a> {
    pub sides: Vec<Side<'a>>,
    /// The relations between neighbouring sides; one fewer than there are sides.
    pub relations: Vec<Relation>,
}

impl<'a> Chain<'a> {
    fn readings(&self) -> impl Iterator<Item = &Found<'a>> {
        let ends = self.sides.iter();
        ends.flat_map(|side| [&side.ending, &side.beginning])
            .flatten()
    }

    /// Whether some side is a calculation with numbers, so that the chain is more than a
    /// definition.
    pub(crate) fn is_calculation(&self) -> bool {
        self.readings()
            .any(|found| found.expression.operators > 0 && !found.expression.has_variables)
    }

    /// Returns the variables that make up an end of a side, as `x` does in `x = 3`.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.readings()
            .filter(|found| found.before != Before::Part && !found.goes_on)
            .filter_map(|found| found.expression.variable.as_deref())
    }
}

/// The tokens between two breaks of a text; at least one of them is a relation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    tokens: &'a [Token],
    /// Whether the line above has no relation: in a column of summands, that line may be the first
    /// one.
    below_open_line: bool,
    /// Whether the first side may continue a text from before the break.
    is_cut: bool,
    /// Whether the row below may continue the last side.
    continues: bool,
    /// Whether the segment ends with a question mark, so that its equations claim nothing.
    is_asked: bool,
}

/// Splits a text at breaks and returns the segments that have a relation.
pub(crate) fn segments(text: &Lexed) -> Vec<Segment<'_>> {
    let tokens = &text.tokens;
    let mut segments = Vec::new();
    // Each segment is given facts about its neighbours: half of a longer equation, read alone,
    // would give false verdicts.
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
            // A row below without a relation can only continue the right side of this equation.
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
        // The next segment continues this one if this one ends with an operator ("3 +"), or if the
        // next row begins with one.
        is_cut = part.last().is_some_and(|last| last.kind.is_operator()) || is_row && is_rest;
    }
    segments
}

fn is_break(token: &Token) -> bool {
    matches!(token.kind, Kind::Break | Kind::Row | Kind::Question)
}

/// Separates the break at the end, if there is one, from the tokens before it.
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
    /// Reads the equations of the segment. `known` gives the values of variables.
    pub(crate) fn read(&self, known: &Known, fuel: &mut Fuel) -> Vec<Chain<'a>> {
        let parts: Vec<&[Token]> = self.tokens.split(|t| relation(t).is_some()).collect();
        let last = parts.len() - 1;
        let mut relations = self.tokens.iter().filter_map(relation);
        let mut chains = Vec::new();
        let mut chain = Chain::default();
        for (i, part) in parts.into_iter().enumerate() {
            let mut side = Side::default();
            // A middle side of `a = b = c` is read at both ends: a is compared with the beginning
            // of b, and c with the end of b. In most cases both ends are the same expression.
            if i > 0 {
                side.beginning = beginning(part, known, fuel);
            }
            if i < last {
                side.ending = ending(part, known, fuel);
            }
            // The first side may be the end of a sum that began on the line above.
            if let (0, Some(first)) = (i, &mut side.ending)
                && first.whole
                && (self.is_cut || self.below_open_line && part[0].is(&Kind::Minus))
            {
                first.before = Before::Part;
            }
            // "Is 3 + 4 = 8?" asks and does not claim.
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
                // "A = 3 and B = 4" is two equations; 3 and B are not compared.
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
    // Only the first tokens are read, so that hostile texts cost a bounded amount of work.
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

/// Whether a number or an operator follows soon, so that the expression may continue: "2 hours and
/// 30 minutes", "7 - Tom".
fn goes_on(rest: &[Token]) -> bool {
    let words = rest.iter().take_while(|t| t.word().is_some()).count();
    let next = rest.get(words).map(|token| &token.kind);
    match next {
        None | Some(Kind::Close | Kind::Break) => false,
        // Up to two words may be between, as in "7 apples and 3 pears"; a number further away
        // belongs to another statement.
        Some(Kind::Number(..) | Kind::Money) => words <= 2,
        Some(_) => words == 0,
    }
}

/// Returns the longest expression that ends where the side ends.
fn ending<'a>(side: &'a [Token], known: &Known, fuel: &mut Fuel) -> Option<Found<'a>> {
    let side = &side[side.len().saturating_sub(MAX_SIDE)..];
    // Starts are tried from the left, so the first expression that reaches the end is the longest.
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
        // With the fuel used up, a longer expression may be missed, and a shorter one would be
        // wrong.
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

/// Whether one of the last three words before an expression makes it a condition or a multiple: "if
/// 3 + 4", "assume that 3 + 4", "twice the sum 3 + 4".
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
        // "# 3 + 4": the unknown symbol may be an operator.
        Kind::Unknown => Before::Part,
        kind if kind.is_operator() => Before::Part,
        // "P(X = 2)", "100 + (100 * 2 = 300"
        Kind::Open if expression.variable.is_some() => Before::Part,
        // "2 * (3 + 4 = 7": the open bracket belongs to a longer expression.
        Kind::Open => match earlier(2).map(|token| &token.kind) {
            Some(Kind::Number(..) | Kind::Close | Kind::Unknown | Kind::Fraction) => Before::Part,
            Some(kind) if kind.is_operator() => Before::Part,
            _ => Before::Clear,
        },
        Kind::Word(_) | Kind::Number(..) | Kind::Close | Kind::Percent | Kind::Fraction if dash => {
            Before::Part
        }
        // "5 (3 + 4) = 35": either a product without a sign or a remark in brackets.
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
        // "x 3 + 4": the letter may be a factor. "a 3 + 4": the letter may be an article.
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
