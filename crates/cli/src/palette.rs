//! Colours, or their absence.

use std::fmt;

use crate::printable;

/// Below this a step is worth a second look: it is marked `?`.
pub const SURE: f32 = 0.9;
/// Below this the reward model thinks that the step is wrong: it is marked `!`.
pub const DOUBTFUL: f32 = 0.5;

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless the variable NO_COLOR is set
    #[default]
    Auto,
    /// Into pipes and files too
    Always,
    /// Nowhere
    Never,
}

/// Paints text if colours are on.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    on: bool,
}

/// What a colour says.
#[derive(Clone, Copy, Debug)]
pub enum Ink {
    /// A sure step, a right answer.
    Good,
    /// An unsure step.
    Unsure,
    /// A doubtful step, a wrong answer.
    Bad,
    /// What can be skipped.
    Dim,
    /// What is looked for.
    Bold,
}

impl Ink {
    /// The ink of a score.
    pub fn of_score(score: f32) -> Self {
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
    /// `is_terminal`: whether what is painted goes to one.
    pub fn new(choice: ColorChoice, is_terminal: bool) -> Self {
        let on = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // no-color.org: present and not empty.
            ColorChoice::Auto => {
                is_terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            }
        };
        Self { on }
    }

    /// The text in that ink. Pad before painting: the codes have no width on the screen but count
    /// as characters.
    pub fn paint<T: fmt::Display>(self, ink: Ink, text: T) -> Painted<T> {
        Painted {
            code: self.on.then(|| ink.code()),
            text,
        }
    }
}

/// Printable text that knows its ink.
pub struct Painted<T> {
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
