//! Tests of the live page and of Markdown reports as pages.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use beamgen_view::{annotate_page, document, live_page};
use sha2::{Digest, Sha256};

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).expect("a beginning");
    rest.split(to).next().expect("an end")
}

#[track_caller]
fn assert_allowed(page: &str, policy: &str) {
    for (tag, directive) in [("style", "style-src"), ("script", "script-src")] {
        let text = between(page, &format!("<{tag}>"), &format!("</{tag}>"));
        let hash = BASE64_STANDARD.encode(Sha256::digest(text));
        assert!(
            policy.contains(&format!("{directive} 'sha256-{hash}'")),
            "{policy}"
        );
    }
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[test]
fn pages_of_servers_ask_these_alone_and_may_not_be_framed() {
    for page in [live_page(), annotate_page()] {
        assert_allowed(&page.html, &page.policy);
        assert!(page.policy.contains("connect-src 'self'"));
        assert!(page.policy.contains("frame-ancestors 'none'"));
        let inside = between(&page.html, "content-security-policy\" content=\"", "\"");
        assert_allowed(&page.html, inside);
        for outside in ["http://", "https://", "url("] {
            assert!(!page.html.contains(outside), "{outside}");
        }
    }
}

#[test]
fn a_report_holds_its_figures_and_no_others() {
    let figure = |name: &str| (name == "a.svg").then(|| b"<svg/>".to_vec());
    let text = "# T\n\n| a | b |\n|---|---:|\n| 1 | 2 |\n\n![A](a.svg)\n\n![B](other.svg)\n";
    let page = document("<T>", text, &figure);
    let data = BASE64_STANDARD.encode("<svg/>");
    assert!(page.contains(&format!("src=\"data:image/svg+xml;base64,{data}\"")));
    assert!(page.contains("<title>&lt;T&gt;</title>"));
    assert!(
        page.contains("<td>2</td>") && !page.contains("style=\""),
        "{page}"
    );
    let policy = between(&page, "content-security-policy\" content=\"", "\"");
    assert!(
        policy.contains("img-src data:") && !policy.contains("script-src"),
        "{policy}"
    );
}
