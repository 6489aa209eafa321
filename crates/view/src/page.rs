//! Rendering of a page as one file: policy, styles, body, data and script.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The parts of a page. Untrusted text may only be in `title` and `data`, or in `body` after
/// [`escaped`].
pub(crate) struct Page<'a> {
    /// The title as plain text, which is escaped when rendered.
    pub title: &'a str,
    /// The style sheets, joined to one.
    pub styles: &'a [&'a str],
    /// The scripts, joined to one at the end of the page, when all elements exist.
    pub scripts: &'a [&'a str],
    /// JSON blocks for the script; each has the id of its element and the text.
    pub data: Vec<(String, String)>,
    /// The HTML of the body, without scripts.
    pub body: &'a str,
    /// The resources, besides its own style and script, that the page may use.
    pub may: May,
}

/// The resources that the content security policy allows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    /// Nothing but the page's own style and script.
    ShowItself,
    /// Also pictures that are in the file as `data:` addresses.
    ShowPictures,
    /// Also requests to the page's own server, and pictures in `data:` addresses.
    AskItsServer,
}

impl Page<'_> {
    /// Renders the page.
    pub(crate) fn html(&self) -> String {
        let (style, script) = (self.style(), self.script());
        let data: usize = self.data.iter().map(|(_, json)| json.len() + 64).sum();
        let mut html =
            String::with_capacity(style.len() + script.len() + self.body.len() + data + 1024);
        html.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        let _ = writeln!(
            html,
            "<meta http-equiv=\"content-security-policy\" content=\"{}\">",
            // A policy in the file also protects a page that is opened from disk.
            self.policy()
        );
        html.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.push_str("<meta name=\"referrer\" content=\"no-referrer\">\n");
        if self.may == May::AskItsServer {
            // Without this line browsers would request an icon from the server.
            html.push_str("<link rel=\"icon\" href=\"data:,\">\n");
        }
        let _ = writeln!(html, "<title>{}</title>", escaped(self.title));
        let _ = writeln!(html, "<style>{style}</style>\n</head>\n<body>");
        html.push_str(self.body);
        for (id, json) in &self.data {
            let _ = writeln!(
                html,
                "<script type=\"application/json\" id=\"{}\">{}</script>",
                escaped(id),
                // In JSON, `<` occurs only inside strings, where the escape means the same. So no
                // tag or comment can begin in the block.
                json.replace('<', "\\u003c")
            );
        }
        if !script.is_empty() {
            let _ = writeln!(html, "<script>{script}</script>");
        }
        html.push_str("</body>\n</html>\n");
        html
    }

    /// Returns the content security policy. It allows the page's own style and script by their
    /// hashes.
    pub(crate) fn policy(&self) -> String {
        let mut policy = format!("default-src 'none'; style-src '{}'", hash(&self.style()));
        let script = self.script();
        if !script.is_empty() {
            let _ = write!(policy, "; script-src '{}'", hash(&script));
        }
        policy.push_str(match self.may {
            May::ShowItself => "",
            May::ShowPictures => "; img-src data:",
            May::AskItsServer => "; img-src data:; connect-src 'self'",
        });
        policy.push_str("; base-uri 'none'; form-action 'none'");
        policy
    }

    fn style(&self) -> String {
        self.styles.join("\n")
    }

    fn script(&self) -> String {
        self.scripts.join("\n")
    }
}

fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

/// Serializes a value to JSON.
///
/// # Panics
/// Panics if a map has keys that are not strings.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a value of strings, numbers and lists")
}

/// Escapes a text for use between tags and in quoted attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}
