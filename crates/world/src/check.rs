//! The exact truth of a solution's lines.

use super::WorldProblem;

/// The truth of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The line is right.
    Right,
    /// The line is wrong from a byte on; from 0 if its subject is wrong already.
    Wrong {
        /// The first wrong byte of the line.
        from: usize,
    },
}

/// Follows a chain line by line. A line is right if it is the right line of its person, that person
/// was not worked out before in this chain, and no earlier line was wrong. The answer line is right
/// if the answer is, and the asked person was worked out.
#[derive(Clone, Debug)]
pub struct Checker {
    lines: Vec<String>,
    answer_line: String,
    done: Vec<bool>,
    failed: bool,
}

impl Checker {
    /// Starts a chain for this problem.
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
        // After a wrong line the chain works with wrong numbers.
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
        // A line that is longer than the right one departs where the right one ends.
        let from = line
            .bytes()
            .zip(right.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        Verdict::Wrong { from }
    }
}

/// Returns the kind of a wrong line, from the place where it departs from the right one. `early` is
/// whether somebody was not worked out before the line.
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
        // The operation comes after the first number and its space.
        Some((_, sum)) if sum.ends_with(' ') && sum.matches(' ').count() == 1 => "wrong operation",
        Some(_) => "wrong operand",
    }
}
