//! What reports are made of, of whichever command: the head, Markdown, figures, files.

pub mod about;
pub mod figure;
pub mod markdown;
pub mod style;
pub mod write;
