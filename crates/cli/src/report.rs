//! What reports are made of, of whichever command: the head, Markdown, figures, files.

pub mod about;
pub mod figure;
pub mod markdown;
pub mod page;
pub mod style;
pub mod write;
