//! Searches as web pages: the page of a run file, the live page of a server, the page on which a
//! person rates steps, and a report in Markdown as a page.
//!
//! Every page is one file that works without network. The content security policy allows only the
//! page's own scripts and styles, by their hashes. Texts from models and problems are in JSON
//! blocks, where no markup can begin, and scripts put these texts into text nodes only.
//!
//! The scripts and styles are the files in `assets/`; no build step is needed. One view of a
//! search (`assets/view.js`) serves all pages.

#![forbid(unsafe_code)]

mod annotate;
mod assets;
mod calibration;
mod document;
mod failures;
mod findings;
mod live;
mod page;
mod problem;
mod report;
mod search;

pub use annotate::annotate_page;
pub use document::document;
pub use failures::{Cause, Failures, failures};
pub use findings::{DOUBTFUL, Finding, SURE, findings};
pub use live::{LivePage, live_page};
pub use report::{Run, report};
pub use search::{Check, Search, Step, aggregation, unchecked};
