//! The exact checker of the bundled world: each line of its chains has one right form.
//!
//! Problems of other worlds and lines of another form than the world's are abstained from, with
//! all that follows them: prose may be right in its own way.

use beamgen_world::{self as world, NAMES, WorldProblem, mistake};

use crate::{StepState, Verdict};

/// The state of the exact checker; `None` once the chain or its problem has another form.
#[derive(Clone, Debug, Default)]
pub struct Exact(Option<Known>);

#[derive(Clone, Debug)]
struct Known {
    problem: WorldProblem,
    checker: world::Checker,
    right: usize,
    failed: bool,
}

impl StepState for Exact {
    fn new(problem: &str) -> Self {
        Self(world::parse(problem.trim()).map(|problem| Known {
            checker: world::Checker::new(&problem),
            problem,
            right: 0,
            failed: false,
        }))
    }

    fn next(&mut self, step: &str) -> Verdict {
        let mut verdict = Verdict::Abstain;
        for line in step.lines().filter(|line| !line.is_empty()) {
            // A line of another form may define or correct something, so no later line can be
            // proved right or wrong.
            self.0.take_if(|_| !is_of_world(line));
            if let Some(known) = &mut self.0 {
                verdict = verdict.and(known.next(line));
            }
        }
        verdict
    }
}

impl Known {
    fn next(&mut self, line: &str) -> Verdict {
        let verdict = self.checker.next(line);
        if verdict == world::Verdict::Right {
            self.right += 1;
            return Verdict::Pass;
        }
        // A later mistake may follow from the first one, so only the first one gets its own reason.
        if std::mem::replace(&mut self.failed, true) {
            return Verdict::fail("a step before it is wrong");
        }
        let what = mistake(line, verdict, self.right < self.problem.facts.len());
        let subject = line.split(' ').next();
        let mut facts = 0..self.problem.facts.len();
        let fact = facts.find(|&i| Some(self.problem.name(i)) == subject);
        Verdict::fail(match (what, fact) {
            ("wrong person", Some(_)) => "wrong person: worked out before".to_owned(),
            ("wrong person", None) => "wrong person: not in the problem".to_owned(),
            (_, Some(fact)) => format!("{what}, it is: {}", self.problem.line(fact)),
            ("wrong answer", None) => format!("{what}, it is {}", self.problem.answer()),
            (_, None) => what.to_owned(),
        })
    }
}

/// Whether a line has the form of the bundled world's lines; its numbers may be wrong.
fn is_of_world(line: &str) -> bool {
    let Some(body) = line.strip_suffix('.') else {
        return false;
    };
    if let Some(answer) = body.strip_prefix("The answer is ") {
        return answer.parse::<i64>().is_ok();
    }
    let Some((fact, sum)) = body.split_once(": ") else {
        return false;
    };
    let mut words = fact.split(' ');
    let is_named = words.next().is_some_and(|name| NAMES.contains(&name));
    let is_sum = |c: char| c.is_ascii_digit() || " +-*/=".contains(c);
    is_named && words.next() == Some("has") && sum.chars().all(is_sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBLEM: &str =
        "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?";
    const MIA: &str = "Mia has 34 pens: 34.\n";
    const LEO: &str = "Leo has 8 more pens than Mia: 34 + 8 = 42.\n";

    fn verdicts(problem: &str, steps: &[&str]) -> Vec<Verdict> {
        let mut state = Exact::new(problem);
        steps.iter().map(|step| state.next(step)).collect()
    }

    #[test]
    fn a_right_chain_passes_and_the_first_wrong_step_says_what_is_right() {
        let pass = Verdict::Pass;
        let right = [MIA, LEO, "The answer is 42.\n"];
        assert_eq!(verdicts(PROBLEM, &right), vec![pass.clone(); 3]);
        let whole = right.concat();
        assert_eq!(verdicts(PROBLEM, &[&whole]), std::slice::from_ref(&pass));
        let wrong = [MIA, "Leo has 8 more pens than Mia: 34 + 8 = 43.", right[2]];
        let reason = "wrong result, it is: Leo has 8 more pens than Mia: 34 + 8 = 42.";
        let after = Verdict::fail("a step before it is wrong");
        assert_eq!(
            verdicts(PROBLEM, &wrong),
            [pass, Verdict::fail(reason), after]
        );
    }

    #[test]
    fn each_mistake_has_its_reason() {
        for (steps, reason) in [
            (&["The answer is 42."][..], "premature answer"),
            (&[MIA, LEO, "The answer is 41."], "wrong answer, it is 42"),
            (&[MIA, MIA], "wrong person: worked out before"),
            (&["Ana has 3 pens: 3."], "wrong person: not in the problem"),
            (
                &[MIA, "Leo has 8 fewer pens than Mia: 34 - 8 = 26."],
                "wrong fact, it is: Leo has 8 more pens than Mia: 34 + 8 = 42.",
            ),
        ] {
            let last = verdicts(PROBLEM, steps).pop();
            assert_eq!(last, Some(Verdict::fail(reason)), "{steps:?}");
        }
    }

    #[test]
    fn other_problems_and_lines_of_another_form_are_abstained_from() {
        assert_eq!(
            verdicts("What is 1 + 1?", &["1 + 1 = 3."]),
            [Verdict::Abstain]
        );
        for prose in [
            "Leo has 34 + 8 = 42 pens.",
            "So 34 + 8 = 43.",
            "The answer is \\boxed{42}.",
            "Leo: 42.",
            "",
        ] {
            let said = verdicts(PROBLEM, &[prose]);
            assert_eq!(said, [Verdict::Abstain], "{prose}");
        }
        // A chain that leaves the form is not judged again.
        let said = verdicts(PROBLEM, &["Leo has more.", "The answer is 42."]);
        assert_eq!(said, [Verdict::Abstain, Verdict::Abstain]);
    }
}
