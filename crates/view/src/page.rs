//! A page in one file: its policy, styles, data, body and script.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// What a page consists of. Only `data` may hold text from elsewhere, besides what went through
/// [`escaped`].
pub(crate) struct Page<'a> {
    /// Plain text.
    pub title: &'a str,
    /// Joined to one style sheet.
    pub styles: &'a [&'a str],
    /// Joined to one script, which runs when all else is there.
    pub scripts: &'a [&'a str],
    /// Blocks of JSON by the ids under which the script finds them.
    pub data: Vec<(String, String)>,
    /// Markup.
    pub body: &'a str,
    /// What the page may do besides showing itself.
    pub may: May,
}

/// What a page may reach.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    /// Nothing at all.
    ShowItself,
    /// Pictures that are in the page.
    ShowPictures,
    /// The server that it came from.
    AskItsServer,
}

impl Page<'_> {
    /// The whole file.
    pub(crate) fn html(&self) -> String {
        let (style, script) = (self.style(), self.script());
        let data: usize = self.data.iter().map(|(_, json)| json.len() + 64).sum();
        let mut html =
            String::with_capacity(style.len() + script.len() + self.body.len() + data + 1024);
        html.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        let _ = writeln!(
            html,
            "<meta http-equiv=\"content-security-policy\" content=\"{}\">",
            self.policy()
        );
        html.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.push_str("<meta name=\"referrer\" content=\"no-referrer\">\n");
        if self.may == May::AskItsServer {
            // Browsers ask a server for an icon, unless there is one.
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
                // No tag and no comment can begin in it; the value is equal.
                json.replace('<', "\\u003c")
            );
        }
        if !script.is_empty() {
            let _ = writeln!(html, "<script>{script}</script>");
        }
        html.push_str("</body>\n</html>\n");
        html
    }

    /// The content security policy: nothing but this style and this script.
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

/// The JSON of a value whose keys are strings.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a value of strings, numbers and lists")
}

/// Text as it stands in markup and in attributes.
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
