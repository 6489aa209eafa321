//! Colours and line breaks for terminals.

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
    /// Never
    Never,
}

/// Adds colours to text, and breaks lines at the terminal's width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    on: bool,
    /// The terminal's width in columns; `None` if stdout is not a terminal.
    columns: Option<usize>,
}

/// The meanings that have a colour.
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
    /// Decides whether to use colours. `is_terminal` says whether the text's output is a terminal.
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

    /// Wraps text between words. The first line starts after `used` columns, and each later line
    /// starts with `hang`.
    pub(crate) fn wrapped<'t>(self, text: &'t str, used: usize, hang: &str) -> Cow<'t, str> {
        wrapped(text, self.columns, used, hang)
    }

    /// Returns the text in a colour. Padding must be added before, because the codes count as
    /// characters but take no columns.
    pub(crate) fn paint<T: fmt::Display>(self, ink: Ink, text: T) -> Painted<T> {
        Painted {
            code: self.on.then(|| ink.code()),
            text,
        }
    }
}

/// A text in a colour. Its `Display` replaces control characters in the text
/// ([`printable::lines`]).
pub(crate) struct Painted<T> {
    code: Option<&'static str>,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.to_string();
        // Control characters are replaced first, since the colour's own codes contain some.
        let text = printable::lines(&text);
        match self.code {
            Some(code) => write!(f, "{code}{text}\x1b[0m"),
            None => f.write_str(&text),
        }
    }
}
