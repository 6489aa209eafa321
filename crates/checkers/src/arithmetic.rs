//! Exact arithmetic of the equations in a step: in prose, Markdown, LaTeX, and in the calculator
//! annotations `<<3*4=12>>` of GSM8K.
//!
//! A step fails only if no sensible reading of an equation makes it true. A mismatch is therefore
//! compared with everything that may explain it: rounding to the printed digits, converted units,
//! words that make the numbers a part of something else, running totals (`3+4=7+2=9`), letters that
//! may be variables, and moduli, bases and operators that the problem or a step names. A mismatch
//! without an explanation is wrong. Work and memory are bounded for any text.

mod borders;
pub(crate) mod compare;
pub(crate) mod context;
pub(crate) mod equation;
pub(crate) mod expression;
pub(crate) mod lex;
pub(crate) mod value;
pub(crate) mod words;

use std::collections::BTreeSet;

use compare::{Match, compare, is_conversion};
use context::Context;
use equation::{Before, Chain, Found, Relation, segments};
use expression::{Expression, Fuel, Known, Reading, read};
use lex::{Kind, Lexed, Token, any_word, lex};

use num_traits::One;

use crate::{StepState, Verdict};

/// The longest step that is read, in bytes.
pub(crate) const MAX_TEXT: usize = 1 << 16;

/// The most work for one step, in tokens read.
pub(crate) const FUEL: u32 = 400_000;

/// The most printed numbers that are remembered as rounded.
const MAX_ROUNDED: usize = 256;

/// The most variables that are remembered.
const MAX_VARIABLES: usize = 64;

/// The state of the arithmetic checker for one chain: the values of names, the numbers that were
/// rounded, and the moduli, bases and operators of the text.
#[derive(Clone, Debug, Default)]
pub struct Arithmetic {
    known: Known,
    /// Names with more than one value, or with a value that was stated and not calculated.
    vague: BTreeSet<String>,
    context: Context,
}

impl StepState for Arithmetic {
    fn new(problem: &str) -> Self {
        Self {
            context: Context::of(problem),
            ..Self::default()
        }
    }

    fn next(&mut self, step: &str) -> Verdict {
        if step.len() > MAX_TEXT {
            return Verdict::Abstain;
        }
        let (text, annotations) = without_annotations(step);
        let mut fuel = Fuel(FUEL);
        let mut findings = Vec::new();
        for annotation in annotations {
            let lexed = lex(annotation, false);
            self.text(annotation, lexed, Mood::Claims, &mut fuel, &mut findings);
        }
        let lexed = self.context.read(&text);
        let mood = Mood::of(&text, &lexed.tokens);
        self.text(&text, lexed, mood, &mut fuel, &mut findings);
        verdict(findings)
    }
}

/// The result of checking one equation.
enum Finding {
    Right,
    Wrong(String),
    /// The sides differ, but for a reason that may make the equation true.
    Doubtful,
    /// The text is not an equation of numbers, or its values are unknown.
    Nothing,
}

fn verdict(findings: Vec<Finding>) -> Verdict {
    let is_doubtful = findings.iter().any(|f| matches!(f, Finding::Doubtful));
    let is_right = findings.iter().any(|f| matches!(f, Finding::Right));
    let wrong = findings.into_iter().find_map(|finding| match finding {
        Finding::Wrong(reason) => Some(reason),
        _ => None,
    });
    match wrong {
        Some(reason) => Verdict::Fail { reason },
        None if is_right && !is_doubtful => Verdict::Pass,
        None => Verdict::Abstain,
    }
}

/// The way in which a step means its equations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Claims,
    /// The step says that numbers are approximate.
    Rounds,
    /// Some equations need not be claims ("is not equal to"), so a wrong one proves nothing.
    Discusses,
}

impl Mood {
    fn of(text: &str, tokens: &[Token]) -> Self {
        let mut tokens_text = tokens.iter().map(|token| &text[token.at.clone()]);
        if any_word(tokens, words::is_no_claim) || tokens_text.any(words::denies) {
            Self::Discusses
        } else if any_word(tokens, words::is_approximate) {
            Self::Rounds
        } else {
            Self::Claims
        }
    }
}

/// Splits a text into the text without calculator annotations and the annotations' contents.
pub(crate) fn without_annotations(text: &str) -> (String, Vec<&str>) {
    let mut plain = String::with_capacity(text.len());
    let mut annotations = Vec::new();
    let mut rest = text;
    while let Some((before, opened)) = rest.split_once("<<") {
        let Some((inside, after)) = opened.split_once(">>") else {
            break;
        };
        plain.push_str(before);
        annotations.push(inside);
        rest = after;
    }
    plain.push_str(rest);
    (plain, annotations)
}

impl Arithmetic {
    fn text(
        &mut self,
        text: &str,
        lexed: Lexed,
        mood: Mood,
        fuel: &mut Fuel,
        findings: &mut Vec<Finding>,
    ) {
        let supposes = any_word(&lexed.tokens, words::supposes);
        // In the order of the text: an equation may use a name that an earlier one gave a value.
        for segment in segments(&lexed) {
            for chain in segment.read(&self.known, fuel) {
                let before = findings.len();
                for (at, relation) in chain.relations.iter().enumerate() {
                    let (left, right) = (&chain.sides[at].ending, &chain.sides[at + 1].beginning);
                    if let (Some(left), Some(right)) = (left, right) {
                        let link = Link {
                            text,
                            left,
                            right,
                            relation: match mood {
                                Mood::Rounds => Relation::About,
                                _ => *relation,
                            },
                            is_first: at == 0,
                            mood,
                            supposes,
                        };
                        findings.push(self.link(&link, fuel));
                    }
                }
                let mut found = findings[before..].iter();
                let is_wrong = found.any(|finding| matches!(finding, Finding::Wrong(_)));
                self.bind(&chain, supposes, is_wrong);
            }
        }
    }

    /// Checks one equation.
    fn link(&mut self, link: &Link<'_>, fuel: &mut Fuel) -> Finding {
        let (left, right) = (&link.left.expression, &link.right.expression);
        let defines = left.variable.is_some() || right.variable.is_some();
        // "x = 3" defines x, and in "... + 3 + 4 = 9" the left side is only a part of a sum.
        if link.left.before == Before::Part || defines {
            return Finding::Nothing;
        }
        match compare(left, right, link.relation) {
            Match::Equal => Finding::Right,
            Match::Rounded => {
                self.remember(left);
                self.remember(right);
                Finding::Right
            }
            Match::Unclear => Finding::Nothing,
            // From cheap to expensive: trying bases reads both sides up to a hundred times.
            Match::Different
                if link.is_doubtful(&self.context)
                    || self.reads_otherwise(link, fuel)
                    || self.context.other_base && self.is_in_base(link, fuel) =>
            {
                Finding::Doubtful
            }
            Match::Different => Finding::Wrong(link.reason(&self.known)),
        }
    }

    /// Whether the sides may be equal with these readings, the left side read from `left`. True if
    /// the fuel is spent, since a false "equal" only abstains and a false "different" would fail a
    /// right step.
    fn may_agree(
        &self,
        link: &Link<'_>,
        left: &[Token],
        [of_left, of_right]: [Reading; 2],
        fuel: &mut Fuel,
    ) -> bool {
        let left = read(left, &self.known, of_left, fuel);
        let right = read(link.right.tokens, &self.known, of_right, fuel);
        let (Ok(left), Ok(right)) = (left, right) else {
            return true;
        };
        compare(&left, &right, link.relation) != Match::Different
    }

    /// Whether another reading of the same signs, such as `6/2(3)`, makes the sides equal.
    fn reads_otherwise(&self, link: &Link<'_>, fuel: &mut Fuel) -> bool {
        let (left, right) = (&link.left.expression, &link.right.expression);
        let others = Reading::others(left.features.and(right.features));
        let tokens = link.left.tokens;
        // A dash that begins a line may be a minus sign or an item's mark.
        let is_item = tokens[0].is(&Kind::Minus) && tokens[0].first;
        std::iter::once(Reading::default())
            .chain(others)
            .any(|reading| {
                self.may_agree(link, tokens, [reading; 2], fuel)
                    || is_item && self.may_agree(link, &tokens[1..], [reading; 2], fuel)
            })
    }

    /// Whether the sides are equal if one side or both are written in another base than ten.
    fn is_in_base(&self, link: &Link<'_>, fuel: &mut Fuel) -> bool {
        const LARGEST: u32 = 36;
        let decimal = Reading::default();
        (2..=LARGEST).any(|base| {
            let based = Reading {
                base: Some(base),
                ..decimal
            };
            let both = [[based, decimal], [decimal, based], [based; 2]];
            both.into_iter()
                .any(|readings| self.may_agree(link, link.left.tokens, readings, fuel))
        })
    }

    /// Remembers a printed number that stands for a number with more digits: a later calculation
    /// with the rounded number must not fail.
    fn remember(&mut self, side: &Expression) {
        if let Some((number, Some(_))) = &side.literal
            && self.known.rounded.len() < MAX_ROUNDED
        {
            self.known.rounded.insert(number.clone());
        }
    }

    /// Gives the names that are sides of a calculation the value of its last side. A name that is
    /// supposed or already has another value becomes unknown: it may have one value in each case.
    /// A name keeps the value that a wrong calculation gave it, so that later steps are not blamed
    /// for the same mistake.
    fn bind(&mut self, chain: &Chain<'_>, supposes: bool, is_wrong: bool) {
        let value = chain.sides.last().and_then(|side| side.beginning.as_ref());
        let value = value
            .filter(|found| !supposes && !found.goes_on && !found.expression.doubtful)
            .and_then(|found| found.expression.value.clone());
        let is_calculated = chain.is_calculation();
        for name in chain.variables().filter(|name| words::is_name(name)) {
            match (&value, self.known.variables.get(name)) {
                (Some(value), Some(before)) if value.at == before.at => {}
                (Some(value), known)
                    if is_calculated
                        && (known.is_none() || is_wrong)
                        && !self.vague.contains(name)
                        && self.known.variables.len() + self.vague.len() < MAX_VARIABLES =>
                {
                    self.known.variables.insert(name.to_owned(), value.clone());
                }
                _ => {
                    self.known.variables.remove(name);
                    if self.vague.len() < MAX_VARIABLES {
                        self.vague.insert(name.to_owned());
                    }
                }
            }
        }
    }
}

/// Two neighbouring sides of a chain of equations.
struct Link<'a> {
    text: &'a str,
    left: &'a Found<'a>,
    right: &'a Found<'a>,
    relation: Relation,
    /// Whether the left side is the first of its chain.
    is_first: bool,
    mood: Mood,
    supposes: bool,
}

impl Link<'_> {
    /// Whether a mismatch may have another reason than wrong arithmetic.
    fn is_doubtful(&self, context: &Context) -> bool {
        let (left, right) = (&self.left.expression, &self.right.expression);
        let (Some(l), Some(r)) = (&left.value, &right.value) else {
            return true;
        };
        let has_variables = left.has_variables || right.has_variables;
        let measured = left.measured || right.measured;
        // "3 + 4 = 7 + 2 = 9"
        let running = right.operators > 0 && right.first.as_ref().is_some_and(|f| f.at == l.at);
        // "Day 1 = 5", "1 hour = 60 minutes", "12 = 1 dozen"
        let bare = left.operators == 0 && (self.is_first || !self.left.whole || measured);
        let other_units = !left.units.is_empty()
            && !right.units.is_empty()
            && left.units.is_disjoint(&right.units);
        self.mood == Mood::Discusses
            || self.left.before == Before::Doubtful
            || left.doubtful
            || right.doubtful
            || self.right.goes_on
            || running
            || bare
            || other_units
            || measured && is_conversion(l, r)
            // "$1800 - $2000 = $200": how far apart they are.
            || measured && l.at == -&r.at
            // "2.54 cm / 1 inch = 1"
            || left.units.union(&right.units).count() > 1 && (l.at.is_one() || r.at.is_one())
            || context.may_equal(&l.at, &r.at)
            || has_variables && self.supposes
    }

    fn reason(&self, known: &Known) -> String {
        let (left, right) = (&self.left.expression, &self.right.expression);
        let show = |side: &Expression| {
            side.value
                .as_ref()
                .map_or(String::new(), |v| value::show(&v.at))
        };
        let (l, r) = (self.source(self.left), self.source(self.right));
        let about = match self.relation {
            Relation::Equal => "",
            Relation::About => "about ",
        };
        let reason = match (&left.literal, &right.literal) {
            (_, Some(_)) => format!("{l} is {}, not {about}{r}", show(left)),
            (Some(_), None) => format!("{r} is {}, not {about}{l}", show(right)),
            (None, None) => format!("{l} is {}, but {r} is {}", show(left), show(right)),
        };
        let names = [self.left, self.right]
            .into_iter()
            .flat_map(|found| found.tokens);
        let mut with: Vec<String> = names
            .filter_map(Token::word)
            .filter_map(|name| {
                let value = known.variables.get(name)?;
                Some(format!("{name} = {}", value::show(&value.at)))
            })
            .collect();
        with.dedup();
        if with.is_empty() {
            reason
        } else {
            format!("{reason} (with {})", with.join(", "))
        }
    }

    /// Returns the text of an expression without the unit after it, at most 100 characters.
    fn source(&self, found: &Found<'_>) -> String {
        const MOST: usize = 100;
        let tokens = &found.tokens[..found.expression.core.max(1)];
        let (first, last) = (&tokens[0], &tokens[tokens.len() - 1]);
        let text = &self.text[first.at.start..last.at.end];
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.chars().count() > MOST {
            text.chars().take(MOST).chain("...".chars()).collect()
        } else {
            text
        }
    }
}

#[cfg(test)]
mod tests;
