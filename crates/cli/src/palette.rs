//! Colours and lines on a terminal.

use std::borrow::Cow;
use std::fmt;

pub(crate) use beamgen_view::{DOUBTFUL, SURE};

use crate::printable;
use crate::wrap::{columns, wrapped};

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless the variable `NO_COLOR` is set
    #[default]
    Auto,
    /// Also in pipes and files
    Always,
    /// Not at all
    Never,
}

/// Adds colours to text, if they are on, and ends its lines where the terminal does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    on: bool,
    /// The width of the terminal, if there is one.
    columns: Option<usize>,
}

/// What a colour stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ink {
    /// A sure step, a right answer.
    Good,
    /// An unsure step.
    Unsure,
    /// A doubtful step, a wrong answer.
    Bad,
    /// Details.
    Dim,
    /// The problem and its answer.
    Bold,
}

impl Ink {
    /// The colour of a score.
    pub(crate) fn of_score(score: f32) -> Self {
        if score >= SURE {
            Self::Good
        } else if score >= DOUBTFUL {
            Self::Unsure
        } else {
            Self::Bad
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Good => "\x1b[32m",
            Self::Unsure => "\x1b[33m",
            Self::Bad => "\x1b[31m",
            Self::Dim => "\x1b[2m",
            Self::Bold => "\x1b[1m",
        }
    }
}

impl Palette {
    /// `is_terminal`: whether the output is a terminal.
    pub(crate) fn new(choice: ColorChoice, is_terminal: bool) -> Self {
        let on = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // https://no-color.org: the variable is set and not empty.
            ColorChoice::Auto => {
                is_terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            }
        };
        Self {
            on,
            columns: is_terminal.then(columns).flatten(),
        }
    }

    /// Printable text, wrapped between words: its first line has `used` columns before it, each
    /// other one begins with `hang`.
    pub(crate) fn wrapped<'t>(self, text: &'t str, used: usize, hang: &str) -> Cow<'t, str> {
        wrapped(text, self.columns, used, hang)
    }

    /// The text in that colour. Pad the text before: colour codes count as characters but have no
    /// width.
    pub(crate) fn paint<T: fmt::Display>(self, ink: Ink, text: T) -> Painted<T> {
        Painted {
            code: self.on.then(|| ink.code()),
            text,
        }
    }
}

/// Text and its colour. It is displayed printable ([`printable::lines`]).
pub(crate) struct Painted<T> {
    code: Option<&'static str>,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.to_string();
        let text = printable::lines(&text);
        match self.code {
            Some(code) => write!(f, "{code}{text}\x1b[0m"),
            None => f.write_str(&text),
        }
    }
}
