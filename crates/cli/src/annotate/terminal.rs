//! Rating in a terminal, where each key is an action. If stdin is not a terminal, each line is an
//! action.

use std::io::{self, BufRead, Write};

use beamgen_labels::annotate::{Act, Annotation, View};
use console::{Key, Term};

use super::progress;
use crate::failure::Failure;
use crate::output;
use crate::printable;

const KEYS: &str = "1 right, 0 neutral, - wrong, u undo, c comment, s toggle stopping at first errors, arrows move, q quit";

/// Ctrl-D, as a terminal without line editing gives it.
const END_OF_INPUT: char = '\u{4}';

/// Rates until the person quits. Returns the number of finished chains and the number of all
/// chains.
pub(super) fn run(mut annotation: Annotation) -> Result<(usize, usize), Failure> {
    let term = Term::stdout();
    let is_terminal = io::IsTerminal::is_terminal(&io::stdin()) && term.is_term();
    // `Term::read_key` locks stdin itself, so the lock is held here only if lines are read.
    let mut lines = (!is_terminal).then(|| io::stdin().lock().lines());
    output::note(KEYS);
    show(&annotation.view())?;
    loop {
        let typed = if let Some(lines) = &mut lines {
            match lines.next() {
                Some(line) => line?,
                None => break,
            }
        } else {
            match term.read_key()? {
                Key::Char('c') => {
                    write!(io::stdout(), "comment: ")?;
                    io::stdout().flush()?;
                    format!("c {}", term.read_line()?)
                }
                Key::Char(END_OF_INPUT) => "q".to_owned(),
                Key::Char(key) => key.to_string(),
                Key::ArrowUp => "up".to_owned(),
                Key::ArrowDown => "down".to_owned(),
                Key::ArrowLeft => "left".to_owned(),
                Key::ArrowRight => "right".to_owned(),
                Key::Escape | Key::CtrlC => "q".to_owned(),
                _ => continue,
            }
        };
        if typed.trim() == "q" {
            break;
        }
        match act(typed.trim(), &annotation.view()) {
            Some(Act::Undo {}) if !annotation.view().can_undo => {
                output::note("nothing to undo: this call has no action left");
            }
            Some(act) => show(&annotation.act(act)?)?,
            None => output::note(format_args!("unknown key: use {KEYS}")),
        }
    }
    Ok(progress(&annotation))
}

/// Parses a key or a line as an action; `None` if it is unknown.
fn act(typed: &str, view: &View<'_>) -> Option<Act> {
    let (chain, step) = (view.chain, view.step);
    let rate = |rating| Some(Act::Rate { rating });
    match typed {
        "1" => rate(1),
        "0" => rate(0),
        "-" | "-1" => rate(-1),
        "u" => Some(Act::Undo {}),
        "s" => Some(Act::Stop {
            at_first_error: !view.stops,
        }),
        "up" => Some(Act::Go {
            chain,
            step: step.saturating_sub(1),
        }),
        "down" => Some(Act::Go {
            chain,
            step: (step + 1).min(view.steps.len() - 1),
        }),
        "left" | "right" => Some(Act::Go {
            chain: match typed {
                "left" => chain.saturating_sub(1),
                _ => (chain + 1).min(view.chains - 1),
            },
            step: 0,
        }),
        _ => {
            let text = typed.strip_prefix('c')?;
            // A comment is `c` alone or `c` and a blank; other words that begin with c are unknown.
            let is_word = text.is_empty() || text.starts_with(' ');
            is_word.then(|| Act::Comment {
                text: text.trim().to_owned(),
            })
        }
    }
}

/// Prints the problem and its steps, each step with its rating and comment.
fn show(view: &View<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "\n{}: chain {} of {}{}, {}\n\n{}",
        printable::line(view.rater),
        view.chain + 1,
        view.chains,
        if view.is_done { " (done)" } else { "" },
        if view.done == view.chains {
            "all chains are done: q quits".to_owned()
        } else {
            format!("{} done", view.done)
        },
        printable::lines(view.problem)
    )?;
    if let Some(answer) = view.answer {
        writeln!(out, "(answer: {})", printable::line(answer))?;
    }
    for (at, step) in view.steps.iter().enumerate() {
        let rating = match step.rating {
            Some(1) => "+",
            Some(0) => "0",
            Some(_) => "-",
            None => " ",
        };
        let here = if at == view.step { ">" } else { " " };
        let number = at + 1;
        writeln!(
            out,
            "{here} [{rating}] {number}. {}",
            printable::lines(step.text)
        )?;
        if let Some(comment) = step.comment {
            writeln!(out, "        {}", printable::line(comment))?;
        }
    }
    out.flush()
}
