//! The meaning that the problem and the steps give to numbers: modulo a number, in another base,
//! with operators of their own.

use std::collections::BTreeSet;

use beamgen_eval::number::Rational;
use num_bigint::BigInt;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::lex::{Kind, Lexed, Token, any_word, lex, tokens};
use super::{MAX_TEXT, words};

/// The maximum number of moduli, of bases, and of operators that are remembered for a chain.
const MAX_MODULI: usize = 64;

/// Facts from the problem and the steps that may make an apparently false equation true.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    moduli: BTreeSet<BigInt>,
    /// The bases that were named. Digit sums may be meant modulo one of them.
    bases: BTreeSet<BigInt>,
    /// Whether the latest text names a modulus whose value is unknown.
    any_modulus: bool,
    /// Whether numbers may be written in another base than ten.
    pub other_base: bool,
    /// Spellings of operators that the problem or a step defines.
    operators: BTreeSet<String>,
    /// Whether the last step ended in the middle of mathematics.
    is_open: bool,
}

impl Context {
    /// Reads the context of a problem.
    pub(crate) fn of(problem: &str) -> Self {
        let mut context = Self::default();
        if problem.len() <= MAX_TEXT {
            context.read_text(problem, &tokens(problem), true);
        }
        context
    }

    /// Reads the next step. An operator that the problem or a step defines becomes
    /// [`Kind::Unknown`].
    pub(crate) fn read(&mut self, step: &str) -> Lexed {
        let mut lexed = lex(step, self.is_open);
        self.is_open = lexed.ends_open;
        self.read_text(step, &lexed.tokens, false);
        for token in &mut lexed.tokens {
            if token.kind.is_operator() && self.operators.contains(&step[token.at.clone()]) {
                token.kind = Kind::Unknown;
            }
        }
        lexed
    }

    fn read_text(&mut self, text: &str, tokens: &[Token], is_problem: bool) {
        self.read_moduli(text, tokens);
        self.other_base |= has_base(text, tokens);
        let says_so = any_word(tokens, words::defines_operator);
        for (at, window) in tokens.windows(4).enumerate() {
            // "a * b = a + 2b" defines a star. In a step the word "define" or "operation" is also
            // required.
            let before = at.checked_sub(1).map(|before| &tokens[before]);
            if self.operators.len() < MAX_MODULI
                && let Some(operator) = defined(text, before, window)
                && (says_so || is_problem && is_star(operator))
            {
                self.operators.insert(operator.to_owned());
            }
        }
    }

    /// Whether two different numbers may be meant as equal: modulo a named number, or as a digit
    /// and the sum before its carry.
    pub(crate) fn may_equal(&self, one: &Rational, other: &Rational) -> bool {
        let difference = one - other;
        // For a fraction only the numerator is tested. The test may then hold by accident, which
        // makes a step abstain but never fails a right one.
        let divides = |modulus: &&BigInt| (difference.numer() % *modulus).is_zero();
        let is_digit = |number: &Rational, base: &BigInt| {
            number.is_integer() && !number.is_negative() && number.numer() < base
        };
        let mut bases = self.bases.iter().filter(divides);
        self.any_modulus
            || self.moduli.iter().any(|modulus| divides(&modulus))
            || bases.any(|base| is_digit(one, base) || is_digit(other, base))
    }

    fn read_moduli(&mut self, text: &str, tokens: &[Token]) {
        // An unknown modulus excuses only the step that names it; known moduli stay for the whole
        // chain.
        self.any_modulus = false;
        let has_remainder = any_word(tokens, words::is_remainder);
        for (at, token) in tokens.iter().enumerate() {
            let word = token.word().unwrap_or_default();
            let spelled = &text[token.at.clone()];
            let is_mark =
                words::is_modulo(word) || ["\\pmod", "\\bmod", "\\mod", "\\pod"].contains(&spelled);
            let is_base = spelled == "_" || words::names_base(word);
            if is_mark || is_base || has_remainder && word == "by" {
                let modulus = modulus(&tokens[at + 1..]);
                self.any_modulus |= is_mark && modulus.is_none();
                let among = if is_base {
                    &mut self.bases
                } else {
                    &mut self.moduli
                };
                if among.len() < MAX_MODULI {
                    among.extend(modulus);
                }
            }
            let last = at.checked_sub(1).and_then(|at| tokens[at].word());
            let implied: &[i64] = match word.to_lowercase().as_str() {
                // "9 + 5 = 2 on a clock"; "7 * 8 has the last digit 6".
                "clock" | "o'clock" => &[12, 24],
                "parity" => &[2],
                "digit" | "digits" if last.is_some_and(words::is_place) => &[10, 100, 1000],
                _ => &[],
            };
            self.moduli
                .extend(implied.iter().copied().map(BigInt::from));
        }
    }
}

/// Returns the number after a word like "modulo" or "base"; `None` if it is not above 1.
fn modulus(behind: &[Token]) -> Option<BigInt> {
    let mut behind = behind
        .iter()
        .filter(|t| !matches!(t.kind, Kind::Open | Kind::Money));
    match behind.next().map(|token| &token.kind) {
        Some(Kind::Number(modulus, _)) => Some(modulus.to_integer()).filter(|m| *m > BigInt::one()),
        _ => None,
    }
}

/// Whether the sign is a star, to which problems often give a meaning of their own.
fn is_star(operator: &str) -> bool {
    matches!(operator, "*" | "\\ast" | "∗")
}

/// Returns the operator if the four tokens are `a * b =`, or `a * b` and a word or a border.
fn defined<'a>(text: &'a str, before: Option<&Token>, window: &[Token]) -> Option<&'a str> {
    let [left, operator, right, behind] = window else {
        return None;
    };
    let is_variable = |token: &Token| token.word().is_some_and(words::is_variable);
    let is_alone = before.is_none_or(|token| !token.kind.is_operator() && !token.is(&Kind::Equals));
    if !is_variable(left) || !operator.kind.is_operator() || !is_variable(right) || !is_alone {
        return None;
    }
    let spelled = &text[operator.at.clone()];
    let is_whole = behind.is(&Kind::Equals) || behind.is(&Kind::Money) || behind.word().is_some();
    // In "a * b + c" an operator follows, so nothing is defined.
    is_whole.then_some(spelled)
}

/// Whether a text has numbers in a base other than ten: `12_5`, "base 7", "binary".
fn has_base(text: &str, tokens: &[Token]) -> bool {
    let subscript = tokens.windows(2).any(|pair| {
        let is_number = matches!(pair[0].kind, Kind::Number(..) | Kind::Close);
        is_number && !pair[1].spaced && &text[pair[1].at.clone()] == "_"
    });
    let named = tokens.iter().enumerate().any(|(at, token)| {
        let mut behind = tokens[at + 1..].iter();
        let next = behind.find(|t| !matches!(t.kind, Kind::Minus | Kind::Money | Kind::Open));
        token.word().is_some_and(words::names_base)
            && next.is_some_and(|next| match &next.kind {
                Kind::Number(base, _) => base.to_integer().to_u32().is_some_and(|base| base <= 36),
                Kind::Word(word) => words::is_variable(word) || words::is_number(word),
                _ => false,
            })
    });
    subscript || named || any_word(tokens, words::is_base)
}
