//! Exact arithmetic of the equations in a step: in prose, Markdown, LaTeX, and in the calculator
//! annotations `<<3*4=12>>` of GSM8K.
//!
//! A step fails only if no sensible reading of an equation makes it true. If the sides differ, the
//! checker first looks for an explanation: rounding to the printed digits, converted units, words
//! that make the numbers a part of something larger, running totals (`3+4=7+2=9`), letters that may
//! be variables, and moduli, bases and operators that the problem or a step names. Only an
//! unexplained difference is wrong. Time and memory are bounded for any text.

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

/// The maximum length in bytes of a step that is checked; longer steps abstain.
pub(crate) const MAX_TEXT: usize = 1 << 16;

/// The work allowed for one step, in operands that are parsed.
pub(crate) const FUEL: u32 = 400_000;

/// The maximum number of rounded numbers that are remembered for a chain.
const MAX_ROUNDED: usize = 256;

/// The maximum number of variables that are remembered for a chain.
const MAX_VARIABLES: usize = 64;

/// The state of the arithmetic checker after some steps of a chain: the values of variables, the
/// rounded numbers, and the moduli, bases and operators that were named.
#[derive(Clone, Debug, Default)]
pub struct Arithmetic {
    known: Known,
    /// Variables with several values, or with a value that was stated and not calculated.
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

enum Finding {
    Right,
    Wrong(String),
    /// The sides differ, but an explanation may make the equation true.
    Doubtful,
    /// The text has no equation to check, or a value is unknown.
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

/// How strictly the equations of a step are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Claims,
    /// The step says that its numbers are approximate, so equality is approximate, too.
    Rounds,
    /// An equation may be denied ("is not equal to"), so a wrong equation proves nothing.
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

/// Returns a text without its annotations `<<...>>`, and the contents of each annotation.
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
        // Segments are checked in order, since an equation may use a variable that an earlier one
        // set.
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

    fn link(&mut self, link: &Link<'_>, fuel: &mut Fuel) -> Finding {
        let (left, right) = (&link.left.expression, &link.right.expression);
        let defines = left.variable.is_some() || right.variable.is_some();
        // "x = 3" defines x. In "... + 3 + 4 = 9" the left side is only the end of a longer sum.
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
            // The cheapest test comes first: trying all bases reads both sides up to 105 times.
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

    /// Whether the sides may be equal in these readings; the left side is read from `left`. True if
    /// no fuel is left: a wrong "may be equal" only abstains, a wrong "cannot be" would fail a
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

    /// Whether the sides are equal in another reading of an ambiguous notation such as `6/2(3)`.
    fn reads_otherwise(&self, link: &Link<'_>, fuel: &mut Fuel) -> bool {
        let (left, right) = (&link.left.expression, &link.right.expression);
        let others = Reading::others(left.features.and(right.features));
        let tokens = link.left.tokens;
        // A dash at the beginning of a line may be a minus sign or the bullet of a list item.
        let is_item = tokens[0].is(&Kind::Minus) && tokens[0].first;
        std::iter::once(Reading::default())
            .chain(others)
            .any(|reading| {
                self.may_agree(link, tokens, [reading; 2], fuel)
                    || is_item && self.may_agree(link, &tokens[1..], [reading; 2], fuel)
            })
    }

    /// Whether the sides are equal if one or both are read in a base other than ten.
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

    /// Remembers a printed number whose exact value has more digits, so that a later calculation
    /// with the rounded number does not fail.
    fn remember(&mut self, side: &Expression) {
        if let Some((number, Some(_))) = &side.literal
            && self.known.rounded.len() < MAX_ROUNDED
        {
            self.known.rounded.insert(number.clone());
        }
    }

    /// Gives each name that is a side of the calculation the value of the last side. If the step
    /// only supposes a value, or if the name has another value already, the name becomes unknown,
    /// since each case of a proof may have its own value. A wrong result is kept as the value, so
    /// that later steps are not blamed for the same mistake.
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

/// Two neighbouring sides of a chain of equations, with what the step says about them.
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

    /// Returns the text of an expression without its unit, cut after 100 characters.
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
