//! Consistency with the step before: a step may not give a calculation of that step another result.
//!
//! A second value proves nothing by itself, since names are used again and unknowns have cases. So
//! a step fails only where it gives a number for a calculation that the step before left open, and
//! the two differ. A step that supposes or defines something makes its names unknown again.

use std::collections::BTreeMap;

use crate::arithmetic::compare::{Match, compare, is_conversion};
use crate::arithmetic::context::Context;
use crate::arithmetic::equation::{Before, Found, Relation, segments};
use crate::arithmetic::expression::{Expression, Fuel, Known};
use crate::arithmetic::lex::{Kind, any_word};
use crate::arithmetic::{FUEL, MAX_TEXT, value, without_annotations, words};
use crate::{StepState, Verdict};

/// The maximum number of claims that are remembered for a chain.
const MAX_CLAIMS: usize = 256;

/// The state of the consistency checker after some steps: the claims that these steps made.
#[derive(Clone, Debug, Default)]
pub struct Consistency {
    claims: BTreeMap<String, Claim>,
    steps: usize,
    /// The number of the latest step with an equation, from 1.
    last: usize,
    /// Whether a power, a root or an unknown symbol occurred, so that an unknown may have several
    /// values.
    is_nonlinear: bool,
    context: Context,
}

#[derive(Clone, Debug)]
struct Claim {
    value: Expression,
    step: usize,
}

impl StepState for Consistency {
    fn new(problem: &str) -> Self {
        Self {
            context: Context::of(problem),
            ..Self::default()
        }
    }

    fn next(&mut self, step: &str) -> Verdict {
        self.steps += 1;
        if step.len() > MAX_TEXT {
            return Verdict::Abstain;
        }
        // Annotations have no names. The arithmetic checker verifies them.
        let (text, _) = without_annotations(step);
        let lexed = self.context.read(&text);
        let tokens = &lexed.tokens;
        // "Suppose x = 3" and "x is not equal to 3" give x no value.
        let is_claim = !any_word(tokens, words::supposes)
            && !any_word(tokens, words::is_no_claim)
            && !self.context.other_base;
        let is_about = any_word(tokens, words::is_approximate);
        let mut kinds = tokens.iter().map(|token| &token.kind);
        self.is_nonlinear |= kinds.any(|kind| matches!(kind, Kind::Power | Kind::Unknown));
        let mut fuel = Fuel(FUEL);
        let mut verdict = Verdict::Abstain;
        let before_this = self.last;
        for segment in segments(&lexed) {
            // No values are substituted: a subject has to stay a name and must not become a number.
            for chain in segment.read(&Known::default(), &mut fuel) {
                self.last = self.steps;
                let subject = chain.sides[0].ending.as_ref().and_then(subject);
                let Some(subject) = subject else { continue };
                // x^2 = 9 has two solutions, so "x = 3" and then "x = -3" is no contradiction. A
                // capital letter names a quantity, which has one value.
                let is_claim = is_claim && (!self.is_nonlinear || words::is_name(&subject));
                let claimed = |found: &Option<Found<'_>>| {
                    let found = found.as_ref().filter(|found| is_plain(found))?;
                    Some(found.expression.clone())
                };
                let (first, last) = (&chain.sides[1], &chain.sides[chain.sides.len() - 1]);
                let relation = if is_about {
                    Relation::About
                } else {
                    chain.relations[0]
                };
                let (now, claim) = (claimed(&first.beginning), claimed(&last.beginning));
                if let (true, Some(now), Some(before)) = (is_claim, now, self.claims.get(&subject))
                {
                    let found = against(&subject, &now, before, relation, before_this);
                    verdict = verdict.and(found);
                }
                match claim {
                    Some(value) if is_claim && self.claims.len() < MAX_CLAIMS => {
                        let step = self.steps;
                        self.claims.insert(subject, Claim { value, step });
                    }
                    // A doubtful value may give the name a new meaning, so the old claim is
                    // dropped.
                    _ => {
                        self.claims.remove(&subject);
                    }
                }
            }
        }
        verdict
    }
}

/// Returns the key of the left side: a variable's name, or the tokens of an expression with unknown
/// variables.
fn subject(found: &Found<'_>) -> Option<String> {
    let expression = &found.expression;
    let unknown = expression.has_variables && expression.value.is_none();
    let lone_or_whole = expression.variable.is_some() || found.whole;
    if !unknown || expression.doubtful || found.before != Before::Clear || !lone_or_whole {
        return None;
    }
    let lone = expression.variable.clone();
    Some(lone.unwrap_or_else(|| {
        // Tokens are compared, since "2x + 1" and "2x+1" are the same left side.
        let tokens = found.tokens.iter();
        tokens.map(|token| format!("{:?}", token.kind)).collect()
    }))
}

/// Whether there is something to calculate: a number or a plain fraction has no operation left.
fn is_calculation(expression: &Expression) -> bool {
    expression.operators > 0 && !expression.is_share
}

/// Whether a side is a number that nothing makes doubtful.
fn is_plain(found: &Found<'_>) -> bool {
    let expression = &found.expression;
    expression.value.is_some() && !expression.doubtful && !found.goes_on
}

fn against(
    subject: &str,
    now: &Expression,
    before: &Claim,
    relation: Relation,
    last: usize,
) -> Verdict {
    let (Some(earlier), Some(value)) = (&before.value.value, &now.value) else {
        return Verdict::Abstain;
    };
    match compare(&before.value, now, relation) {
        Match::Equal | Match::Rounded => Verdict::Pass,
        Match::Unclear => Verdict::Abstain,
        // Another object of that name, another case, or another unit.
        Match::Different
            if before.step != last
                || !is_calculation(&before.value)
                || is_calculation(now)
                || (now.measured || before.value.measured) && is_conversion(earlier, value) =>
        {
            Verdict::Abstain
        }
        Match::Different => {
            let what = if words::is_variable(subject) {
                subject
            } else {
                "the same left side"
            };
            Verdict::fail(format!(
                "{what} is {} in step {}, and {} here",
                value::show(&earlier.at),
                before.step,
                value::show(&value.at)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(steps: &[&str]) -> Vec<&'static str> {
        let mut state = Consistency::new("");
        steps.iter().map(|step| state.next(step).name()).collect()
    }

    #[test]
    fn another_result_of_a_calculation_fails() {
        let mut state = Consistency::new("");
        assert_eq!(state.next("So X = 669 - 223."), Verdict::Abstain);
        assert_eq!(state.next("Now to the end."), Verdict::Abstain);
        assert_eq!(
            state.next("Which means that X = 447 apples."),
            Verdict::fail("X is 446 in step 1, and 447 here")
        );
    }

    #[test]
    fn a_second_value_may_be_that_of_another_thing() {
        for (before, now) in [
            (
                "The area is A = 3 * 4 = 12.",
                "The square has A = 5 * 5 = 25.",
            ),
            ("The area is A = 3 * 4.", "The square has A = 5 * 5."),
            ("N = 5", "N = 10"),
            ("n = 4 and h = 6", "So n = 3"),
            ("x = \\frac{11}{2}", "x = -\\frac{11}{2}"),
            ("$K = \\frac{3}{20} ac$", "$K = \\frac{1}{5} bd$"),
            ("In base 6, B_6 = 1 + 2", "$B_6 = 4$"),
        ] {
            assert_eq!(verdicts(&[before, now])[1], "abstain", "{before} {now}");
        }
        assert_eq!(verdicts(&["A = 3 * 4", "B = 2", "A = 25"])[2], "abstain");
    }

    #[test]
    fn the_same_value_passes_however_it_is_written() {
        for again in ["A = 7.0", "A = 14 / 2", "then A = $7"] {
            assert_eq!(verdicts(&["A = 7", again]), ["abstain", "pass"], "{again}");
        }
        assert_eq!(verdicts(&["r = 10 / 3", "r = 3.33"]), ["abstain", "pass"]);
    }

    #[test]
    fn a_left_side_with_another_value_fails() {
        assert_eq!(
            verdicts(&["x + y = 5 * 2", "x + y = 12"]),
            ["abstain", "fail"]
        );
        assert_eq!(
            verdicts(&["x + y = 5 * 2", "x - y = 12"]),
            ["abstain", "abstain"]
        );
    }

    #[test]
    fn what_is_supposed_or_defined_anew_proves_nothing() {
        for again in [
            "Let A = 8",
            "If A = 8, then",
            "Now A = 8",
            "A = 8 or 9",
            "A is not = 8",
            "P(A) = 8",
            "P(A = 8)",
            "B = 7 and A' = 8",
            "Choose A = 8",
        ] {
            assert_eq!(verdicts(&["A = 7", again])[1], "abstain", "{again}");
        }
        assert_eq!(
            verdicts(&["A = 7", "Let A = 8", "A = 9"]),
            ["abstain", "abstain", "abstain"]
        );
    }

    #[test]
    fn two_equations_in_a_sentence_are_two() {
        assert_eq!(
            verdicts(&["where A = (3 + 4) and B = (5 + 6).", "A = 7 and B = 12"]),
            ["abstain", "fail"]
        );
    }

    #[test]
    fn an_unknown_may_have_several_values_where_there_are_powers() {
        assert_eq!(verdicts(&["x = 1 + 1", "x = 3"])[1], "fail");
        assert_eq!(
            verdicts(&["x^2 - 5x + 6 = 0", "x = 1 + 1", "x = 3"])[2],
            "abstain"
        );
        assert_eq!(verdicts(&["3^2 = 9", "A = 1 + 1", "A = 3"])[2], "fail");
    }

    #[test]
    fn chains_part_where_they_are_copied() {
        let mut one = Consistency::new("");
        one.next("A = 3 + 4");
        let mut other = one.clone();
        other.next("Let A = 1");
        assert!(one.next("A = 8").is_fail());
        assert_eq!(other.next("A = 8"), Verdict::Abstain);
    }
}
