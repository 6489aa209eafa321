//! The text output of `solve` and `show`: solved problems, and the summary of a run.

use std::collections::BTreeMap;
use std::io::{self, Write};

use beamgen::eval::metrics::{Interval, share};
use beamgen::eval::{Record, Spent, twins};
use beamgen::result::Evidence;
use beamgen::{Problem, RunSummary};
use serde::Serialize;

use crate::palette::{DOUBTFUL, Ink, Palette, SURE};
use crate::printable::{line, lines};
use crate::table::{counted, grouped, megabytes, operations, percent};

/// Prints a problem, its chosen chain with a score for each step, and its answer.
pub(crate) fn problem(
    out: &mut dyn Write,
    palette: Palette,
    problem: &Problem,
    record: &Record,
) -> io::Result<()> {
    let id = palette.paint(Ink::Dim, format!("[{}]", line(&record.id)));
    let text = palette.paint(Ink::Bold, problem.text.trim());
    writeln!(out, "{}", palette.wrapped(&format!("{id} {text}"), 0, ""))?;
    for (at, step) in record.steps.iter().enumerate() {
        match step.score {
            Some(score) => {
                let mark = mark(score);
                let score = palette.paint(Ink::of_score(score), format!("{score:.3} {mark}"));
                write!(out, "  {score} ")?;
            }
            None => write!(out, "      - ")?,
        }
        let mut text = lines(&step.text).into_owned();
        if let Some(thought) = &step.thought {
            let words = counted(thought.split_whitespace().count() as u64, "word", "words");
            let folded = palette.paint(Ink::Dim, format!("(a thought of {words})"));
            text = format!("{folded} {text}");
        }
        let sure = step.quantiles.and_then(sureness).map(str::to_owned);
        let given = (at < record.given).then(|| "given".to_owned());
        let value = step.value.map(|value| format!("V {value:.2}"));
        let said = given.into_iter().chain(sure).chain(value);
        let said = said.chain(judges(&step.judges));
        let said: Vec<String> = said.collect();
        if !said.is_empty() {
            let said = palette.paint(Ink::Dim, format!("({})", said.join("; ")));
            text = format!("{text}  {said}");
        }
        // Further lines of a step are indented by the width of the score, so they align with its
        // first line.
        let hang = " ".repeat(10);
        writeln!(out, "{}", palette.wrapped(&text, hang.len(), &hang))?;
    }
    write!(out, "  = ")?;
    match (&record.answer, &record.withheld) {
        (Some(answer), _) => {
            write!(out, "{}", palette.paint(Ink::Bold, line(answer)))?;
            if record.guess {
                write!(out, " (a guess: the last number of the text)")?;
            }
        }
        (None, Some(_)) => match &record.unsound {
            Some(unsound) => write!(out, "withheld, unsound: {}", line(&unsound.to_string()))?,
            None => write!(out, "withheld, below the threshold")?,
        },
        (None, None) => write!(out, "no answer ({})", record.finish)?,
    }
    // A withheld answer counts as wrong, but it was not given, so it is not printed as wrong.
    let graded = record.correct.filter(|_| record.withheld.is_none());
    // A verifier gives its reason instead of the right answer.
    let outcome = record.outcome.as_ref().map(ToString::to_string);
    match (graded, outcome.as_deref().or(problem.answer.as_deref())) {
        (Some(true), _) => write!(out, "  {}", palette.paint(Ink::Good, "right"))?,
        (Some(false), Some(outcome)) if record.verifier.is_some() => {
            write!(out, "  {}", palette.paint(Ink::Bad, line(outcome)))?;
        }
        (Some(false), Some(expected)) if record.cannot_tell => {
            write!(out, "  cannot tell whether it is {}", line(expected))?;
        }
        (Some(false), Some(expected)) => {
            write!(
                out,
                "  {}, it is {}",
                palette.paint(Ink::Bad, "wrong"),
                line(expected)
            )?;
        }
        _ => {}
    }
    if let Some(unsound) = record
        .unsound
        .as_ref()
        .filter(|_| record.withheld.is_none())
    {
        let kind = match record.correct {
            Some(true) => "but unsound",
            _ => "unsound",
        };
        let why = unsound.to_string();
        write!(out, ", {}: {}", palette.paint(Ink::Bad, kind), line(&why))?;
    }
    let tokens = counted(record.ledger.generated_tokens, "token", "tokens");
    let cost = match record.score {
        Some(score) => format!("(score {score:.3}, {tokens} generated)"),
        None => format!("({tokens} generated)"),
    };
    writeln!(out, "  {}\n", palette.paint(Ink::Dim, cost))
}

/// Labels a step by the 10, 50 and 90 % quantiles of its probability of success: "sure" if the
/// lowest is at least one half, "unsure" if the highest is below one half, otherwise `None`.
pub(crate) fn sureness([low, _, high]: [f32; 3]) -> Option<&'static str> {
    if low >= 0.5 {
        return Some("sure");
    }
    (high < 0.5).then_some("unsure")
}

/// Formats each judge's score of a step; `None` if there are no judges.
pub(crate) fn judges(judges: &BTreeMap<String, Option<f32>>) -> Option<String> {
    let said = judges.iter().map(|(name, score)| match score {
        Some(score) => format!("{} {score:.3}", line(name)),
        None => format!("{} abstains", line(name)),
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// Returns the mark that is printed after a score.
fn mark(score: f32) -> char {
    if score >= SURE {
        ' '
    } else if score >= DOUBTFUL {
        '?'
    } else {
        '!'
    }
}

/// The kinds of marks printed so far, which the legend has to explain.
#[derive(Default)]
pub(crate) struct Marks {
    unsure: bool,
    doubtful: bool,
    words: bool,
}

impl Marks {
    /// Adds the marks that are printed for a record.
    pub(crate) fn see(&mut self, record: &Record) {
        for score in record.steps.iter().filter_map(|step| step.score) {
            self.unsure |= mark(score) == '?';
            self.doubtful |= mark(score) == '!';
        }
        let mut quantiles = record.steps.iter().filter_map(|step| step.quantiles);
        self.words |= quantiles.any(|quantiles| sureness(quantiles).is_some());
    }

    /// Explains the marks that were printed.
    pub(crate) fn legend(&self, out: &mut dyn Write, palette: Palette) -> io::Result<()> {
        if self.words {
            let line = "sure: the low quantile (10 %) of the probability of a right answer is at least one half; \
                        unsure: the high quantile (90 %) is below one half";
            writeln!(out, "{}", palette.paint(Ink::Dim, line))?;
        }
        let unsure = format!("? a score below {SURE}: look twice");
        let doubtful = format!("! below {DOUBTFUL}: the step is probably wrong");
        let shown = match (self.unsure, self.doubtful) {
            (false, false) => return Ok(()),
            (true, false) => unsure,
            (false, true) => doubtful,
            (true, true) => format!("{unsure}   {doubtful}"),
        };
        writeln!(out, "{}\n", palette.paint(Ink::Dim, shown))
    }
}

pub(crate) fn in_percent(of: Interval) -> String {
    format!(
        "95 % interval {:.1} to {:.1}",
        100.0 * of.low,
        100.0 * of.high
    )
}

/// The counts of a run's summary.
#[derive(Default)]
pub(crate) struct Graded {
    pub problems: usize,
    pub graded: usize,
    pub correct: usize,
    /// Right answers whose chain is unsound, by [`Evidence::ALL`].
    pub unsound: [usize; 3],
    /// Answers withheld because they score below the threshold, or because their chain is unsound.
    /// They count as wrong.
    pub withheld: usize,
    /// The part of `withheld` whose chain is unsound.
    pub withheld_unsound: usize,
    /// Answers that could not be compared with the reference. They count as wrong.
    pub cannot_tell: usize,
    /// Problems that do not fit into a model's context. They count as wrong.
    pub too_long: usize,
    /// Problems that lost chains because memory was short.
    pub memory_limited: usize,
    /// Problems that lost verdicts because a checker's program failed.
    pub checker_limited: usize,
    /// Problems whose search stopped at a chain that the verifier called right.
    pub verified_early: usize,
    /// The chains that were still growing at these stops.
    pub spared_chains: usize,
    /// Whether the answer is right, by problem id, by which the problems of a twin pair are found.
    by_id: BTreeMap<String, bool>,
}

impl Graded {
    /// Counts a problem that is done.
    pub(crate) fn count(&mut self, record: &Record) {
        self.problems += 1;
        let withheld = record.withheld.is_some();
        self.withheld += usize::from(withheld);
        self.withheld_unsound += usize::from(withheld && record.unsound.is_some());
        self.cannot_tell += usize::from(record.cannot_tell);
        self.too_long += usize::from(record.is_too_long());
        self.memory_limited += usize::from(record.lost_to_memory > 0);
        self.checker_limited += usize::from(record.lost_verdicts > 0);
        self.verified_early += usize::from(record.spared_chains.is_some());
        self.spared_chains += record.spared_chains.unwrap_or(0);
        self.graded += usize::from(record.correct.is_some());
        if let Some(correct) = record.correct {
            self.by_id.insert(record.id.clone(), correct);
        }
        self.correct += usize::from(record.correct == Some(true));
        if let Some(by) = record.right_but_unsound() {
            self.unsound[by as usize] += 1;
        }
    }

    /// Returns the number of twin pairs whose answers are both right, and the number of all pairs.
    pub(crate) fn twins(&self) -> [usize; 2] {
        let graded = self.by_id.iter().map(|(id, &right)| (id.as_str(), right));
        let pairs = twins::pairs(graded);
        [pairs.iter().filter(|(a, b)| *a && *b).count(), pairs.len()]
    }

    /// Returns the 95 % interval of the accuracy; `None` if no problem has a reference answer.
    pub(crate) fn interval(&self) -> Option<Interval> {
        share(self.correct, self.graded)
    }
}

/// The costs of problems that earlier calls finished: sums over their records. A forward pass
/// shared by several problems is counted for each of them.
#[derive(Default, Serialize)]
pub(crate) struct Before {
    pub problems: usize,
    pub ledger: Spent,
}

/// Prints accuracy and costs. The costs in `before` are printed separately, since they cannot be
/// added: a run counts a shared pass once, and has a peak of memory, unlike records.
pub(crate) fn summary(
    out: &mut dyn Write,
    palette: Palette,
    graded: &Graded,
    before: &Before,
    run: &RunSummary,
) -> io::Result<()> {
    accuracy(out, palette, graded)?;
    if before.problems > 0 {
        let of = &before.ledger;
        writeln!(
            out,
            "{} of {} problems were finished before; their records have {} generated and {} scored tokens in {:.2} s",
            grouped(before.problems as u64),
            grouped(graded.problems as u64),
            grouped(of.generated_tokens),
            grouped(of.scored_tokens),
            of.seconds
        )?;
        match run.problems {
            0 => return writeln!(out, "nothing was left to do"),
            more => writeln!(out, "this call, {}:", counted(more, "problem", "problems"))?,
        }
    }
    costs(out, palette, run)
}

fn accuracy(out: &mut dyn Write, palette: Palette, graded: &Graded) -> io::Result<()> {
    match graded.interval() {
        Some(interval) => writeln!(
            out,
            "{}  {} of {} right = {}  ({})",
            palette.paint(Ink::Bold, "accuracy"),
            graded.correct,
            graded.graded,
            palette.paint(Ink::Bold, percent(interval.mean)),
            in_percent(interval),
        )?,
        None => writeln!(
            out,
            "{}, none with a reference answer",
            counted(graded.problems, "problem", "problems"),
        )?,
    }
    if graded.unsound.iter().any(|&count| count > 0) {
        let kinds = Evidence::ALL.into_iter().zip(graded.unsound);
        let kinds = kinds.filter(|&(_, count)| count > 0);
        let said: Vec<String> = kinds
            .map(|(by, count)| format!("{} of them with {}", grouped(count as u64), by.words()))
            .collect();
        let sound = graded.correct - graded.unsound.iter().sum::<usize>();
        writeln!(
            out,
            "{}     {sound} of {} right and sound; {}",
            palette.paint(Ink::Bold, "sound"),
            graded.graded,
            said.join(", ")
        )?;
    }
    let [both, pairs] = graded.twins();
    if pairs > 0 {
        let twins = palette.paint(Ink::Bold, "twins");
        let share = percent(both as f64 / pairs as f64);
        writeln!(
            out,
            "{twins}     right on both twins: {both} of {pairs} = {share}"
        )?;
    }
    if graded.verified_early > 0 {
        writeln!(
            out,
            "{} of {} ended at a chain that the verifier called right; {} not finished",
            grouped(graded.verified_early as u64),
            counted(graded.problems, "search", "searches"),
            counted(graded.spared_chains, "chain was", "chains were"),
        )?;
    }
    if graded.withheld > 0 {
        let given = graded.problems - graded.withheld;
        write!(out, "{}", palette.paint(Ink::Bold, "withheld"))?;
        let answers = counted(graded.withheld, "answer", "answers");
        let why = match (graded.withheld_unsound, graded.withheld) {
            (0, _) => "below the threshold".to_owned(),
            (unsound, all) if unsound == all => "with unsound work".to_owned(),
            (unsound, _) => format!("below the threshold, or ({unsound}) with unsound work"),
        };
        write!(out, "  {answers} {why}")?;
        match graded.interval() {
            Some(_) if given > 0 => {
                let share = graded.correct as f64 / given as f64;
                writeln!(out, "; {} of the others are right", percent(share))?;
            }
            _ => writeln!(out)?,
        }
    }
    if graded.cannot_tell > 0 {
        let answers = counted(graded.cannot_tell, "answer", "answers");
        writeln!(out, "{answers} could not be judged: counted as wrong")?;
    }
    if graded.too_long > 0 {
        let problems = counted(graded.too_long, "problem", "problems");
        writeln!(
            out,
            "{problems} skipped, too long for a model's context: counted as wrong"
        )?;
    }
    Ok(())
}

fn costs(out: &mut dyn Write, palette: Palette, run: &RunSummary) -> io::Result<()> {
    let total = Spent::of_run(&run.ledger, run.elapsed);
    let seconds = run.ledger.seconds;
    let tokens = total.generated_tokens + total.scored_tokens;
    let rate = if run.elapsed > 0.0 {
        tokens as f64 / run.elapsed
    } else {
        0.0
    };
    let flops = total.total_flops().map(operations);
    let width = total.width.mean().map(|width| format!("{width:.2}"));
    let mut rows = vec![
        ("prompt tokens", grouped(total.prompt_tokens)),
        ("generated tokens", grouped(total.generated_tokens)),
        ("scored tokens", grouped(total.scored_tokens)),
        ("reused tokens", grouped(total.reused_tokens)),
        ("prefix tokens", grouped(total.prefix_tokens)),
        ("forward passes", grouped(total.forward_passes)),
        ("peak KV memory", megabytes(total.peak_kv_bytes)),
        ("seconds", format!("{:.2}", total.seconds)),
    ];
    // Unknown for servers; undefined if no chain continued after a step.
    rows.extend(flops.map(|flops| ("FLOPs", flops)));
    let excess = run.ledger.excess();
    rows.extend(excess.map(|excess| ("FLOPs / least", format!("{excess:.3}"))));
    rows.extend(width.map(|width| ("chains a round", width)));
    let width = rows.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
    for (name, value) in &rows {
        let name = palette.paint(Ink::Dim, format!("{name:<16}"));
        writeln!(out, "  {name}  {value:>width$}")?;
    }
    for (name, spent) in &total.judges {
        let some = |what: &str, steps: u64| match steps {
            0 => String::new(),
            steps => format!(", {what} {}", grouped(steps)),
        };
        let abstained = some("abstained on", spent.abstained);
        let failed = some("failed", spent.failed);
        let line = format!(
            "judge {}: {}{abstained}{failed}, {} read, {}",
            line(name),
            counted(spent.steps, "step", "steps"),
            counted(spent.scored_tokens, "token", "tokens"),
            counted(spent.calls, "call", "calls")
        );
        writeln!(out, "  {}", palette.paint(Ink::Dim, line))?;
    }
    let phases = format!(
        "generate {:.2} s, score {:.2} s, search {:.2} s; {} tokens/s",
        seconds.generate,
        seconds.score,
        seconds.search,
        grouped(rate as u64),
    );
    writeln!(out, "  {}", palette.paint(Ink::Dim, phases))
}
