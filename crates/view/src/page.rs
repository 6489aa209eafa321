//! Assembles a page in one file: policy, styles, data, body and script.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The parts of a page. Text from elsewhere may be only in `data`, or in `body` after [`escaped`].
pub(crate) struct Page<'a> {
    /// The title as plain text.
    pub title: &'a str,
    /// Style sheets, which are joined to one.
    pub styles: &'a [&'a str],
    /// Scripts, which are joined to one. It is at the end, so that all elements exist when it runs.
    pub scripts: &'a [&'a str],
    /// JSON blocks, each with the id by which the script finds it.
    pub data: Vec<(String, String)>,
    /// The markup of the body, without scripts.
    pub body: &'a str,
    /// The resources that the page may use in addition to its own style and script.
    pub may: May,
}

/// Resources that a page may use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    /// Only the page's own style and script.
    ShowItself,
    /// Pictures that are part of the file.
    ShowPictures,
    /// The server that the page came from.
    AskItsServer,
}

impl Page<'_> {
    /// Renders the whole file.
    pub(crate) fn html(&self) -> String {
        let (style, script) = (self.style(), self.script());
        let data: usize = self.data.iter().map(|(_, json)| json.len() + 64).sum();
        let mut html =
            String::with_capacity(style.len() + script.len() + self.body.len() + data + 1024);
        html.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        let _ = writeln!(
            html,
            "<meta http-equiv=\"content-security-policy\" content=\"{}\">",
            // The policy is in the file, so that a page opened from disk has it, too.
            self.policy()
        );
        html.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.push_str("<meta name=\"referrer\" content=\"no-referrer\">\n");
        if self.may == May::AskItsServer {
            // Without this, browsers would ask the server for an icon.
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
                // JSON has `<` only inside strings, where the escape has the same value. Without it
                // no tag and no comment can begin in the block.
                json.replace('<', "\\u003c")
            );
        }
        if !script.is_empty() {
            let _ = writeln!(html, "<script>{script}</script>");
        }
        html.push_str("</body>\n</html>\n");
        html
    }

    /// The content security policy, which allows only this style and this script by their hashes.
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

/// Serializes a value to JSON. All keys of maps must be strings.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a value of strings, numbers and lists")
}

/// Escapes text for markup and for attributes.
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
