//! Rendering of a Markdown report as a page.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pulldown_cmark::{Alignment, CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::assets::{DOCUMENT_STYLE, THEME};
use crate::page::{May, Page};

/// Renders a Markdown report as a page in one file. `picture` returns the SVG file of an address.
/// Without that file, the page shows the picture's description.
#[must_use]
pub fn document(title: &str, markdown: &str, picture: &dyn Fn(&str) -> Option<Vec<u8>>) -> String {
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES).flat_map(|event| match event {
        // A plot keeps a readable size on a narrow screen and scrolls, too.
        Event::Start(Tag::Image {
            link_type,
            dest_url,
            title,
            id,
        }) => vec![
            Event::InlineHtml(
                "<span class=\"wide picture\" role=\"group\" aria-label=\"Plot\" tabindex=\"0\">"
                    .into(),
            ),
            Event::Start(Tag::Image {
                link_type,
                dest_url: inlined(dest_url.into_static(), picture),
                title,
                id,
            }),
        ],
        Event::End(TagEnd::Image) => {
            vec![
                Event::End(TagEnd::Image),
                Event::InlineHtml("</span>".into()),
            ]
        }
        // A wide table scrolls within its own region; `tabindex` makes the region scroll by keys,
        // too.
        Event::Start(Tag::Table(columns)) => vec![
            Event::Html(
                "<div class=\"wide\" role=\"region\" aria-label=\"Table\" tabindex=\"0\">".into(),
            ),
            // The columns' alignment is dropped: it would be a `style` on each cell, which the
            // content security policy forbids. The style sheet aligns columns.
            Event::Start(Tag::Table(vec![Alignment::None; columns.len()])),
        ],
        Event::End(TagEnd::Table) => {
            vec![Event::End(TagEnd::Table), Event::Html("</div>\n".into())]
        }
        // A long line of code scrolls, too.
        Event::Start(Tag::CodeBlock(_)) => vec![Event::Html("<pre tabindex=\"0\"><code>".into())],
        Event::End(TagEnd::CodeBlock) => vec![Event::Html("</code></pre>\n".into())],
        // HTML in the report is kept; the content security policy prevents scripts from running.
        other => vec![other],
    });
    let mut body = String::from("<main>\n");
    html::push_html(&mut body, events);
    body.push_str("</main>\n");
    Page {
        title,
        styles: &[THEME, DOCUMENT_STYLE],
        scripts: &[],
        data: Vec::new(),
        body: &body,
        may: May::ShowPictures,
    }
    .html()
}

/// Returns a `data:` address with the picture's bytes, or `url` without a picture.
fn inlined(url: CowStr<'static>, picture: &dyn Fn(&str) -> Option<Vec<u8>>) -> CowStr<'static> {
    match picture(&url) {
        // A page has to work without network and without the files next to the report.
        Some(bytes) => format!(
            "data:image/svg+xml;base64,{}",
            BASE64_STANDARD.encode(bytes)
        )
        .into(),
        None => url,
    }
}
