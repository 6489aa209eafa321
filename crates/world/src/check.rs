//! The exact check of a solution, line by line.

use super::WorldProblem;

/// The result of checking one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The line has the one right form, and all lines before were right.
    Right,
    /// The line departs from the right line. `from` is 0 if even the person is wrong.
    Wrong {
        /// The byte at which the line departs from the right one.
        from: usize,
    },
}

/// Checks a chain line by line. A person's line is right if it has the one right form, the person
/// had no line before, and no earlier line was wrong. The answer line is right if its number is,
/// and if the asked person had a line before.
#[derive(Clone, Debug)]
pub struct Checker {
    lines: Vec<String>,
    answer_line: String,
    done: Vec<bool>,
    failed: bool,
}

impl Checker {
    /// Starts a chain for `problem`; no person has been worked out yet.
    pub fn new(problem: &WorldProblem) -> Self {
        let n = problem.facts.len();
        Self {
            lines: (0..n).map(|i| problem.line(i)).collect(),
            answer_line: WorldProblem::answer_line(problem.answer()),
            done: vec![false; n],
            failed: false,
        }
    }

    /// Judges the next line of the chain (without its newline).
    pub fn next(&mut self, line: &str) -> Verdict {
        let verdict = if self.failed {
            Verdict::Wrong { from: 0 }
        } else {
            self.judge(line)
        };
        // After a wrong line the numbers of the chain are wrong, so every later line is wrong, too.
        self.failed |= verdict != Verdict::Right;
        verdict
    }

    fn judge(&mut self, line: &str) -> Verdict {
        let subject = line.split(' ').next().unwrap_or("");
        let right = if subject == "The" {
            // Answering before the asked person was worked out is a guess, right or not.
            if !self.done[self.done.len() - 1] {
                return Verdict::Wrong { from: 0 };
            }
            &self.answer_line
        } else {
            let found = self
                .lines
                .iter()
                .position(|l| l.split(' ').next() == Some(subject));
            match found {
                Some(i) if !self.done[i] => {
                    if line == self.lines[i] {
                        self.done[i] = true;
                        return Verdict::Right;
                    }
                    &self.lines[i]
                }
                _ => return Verdict::Wrong { from: 0 },
            }
        };
        if line == right {
            return Verdict::Right;
        }
        // If the line continues after the right line's end, it departs at that end.
        let from = line
            .bytes()
            .zip(right.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        Verdict::Wrong { from }
    }
}

/// Names the kind of mistake in a wrong line, from the byte at which it departs. `early`: at least
/// one person was not worked out before the line.
pub fn mistake(line: &str, verdict: Verdict, early: bool) -> &'static str {
    let Verdict::Wrong { from } = verdict else {
        return "none";
    };
    if line.starts_with("The answer") {
        return if early {
            "premature answer"
        } else {
            "wrong answer"
        };
    }
    if from == 0 {
        return "wrong person";
    }
    let (before, _) = line.split_at_checked(from).unwrap_or((line, ""));
    match before.split_once(": ") {
        None => "wrong fact",
        Some((_, sum)) if sum.contains('=') => "wrong result",
        // Only the first number comes before: the next word is the operation.
        Some((_, sum)) if sum.ends_with(' ') && sum.matches(' ').count() == 1 => "wrong operation",
        Some(_) => "wrong operand",
    }
}
