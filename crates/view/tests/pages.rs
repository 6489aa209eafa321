//! Pages that the program does not write into files: the live page, a search in a notebook.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use beamgen_eval::Record;
use beamgen_search::Aggregation;
use beamgen_view::{document, live_page, notebook};
use serde_json::json;
use sha2::{Digest, Sha256};

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'";

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
fn the_live_page_asks_its_own_server_alone_and_may_not_be_framed() {
    let page = live_page();
    assert_allowed(&page.html, &page.policy);
    assert!(page.policy.contains("connect-src 'self'"));
    assert!(page.policy.contains("frame-ancestors 'none'"));
    let inside = between(&page.html, "content-security-policy\" content=\"", "\"");
    assert_allowed(&page.html, inside);
    for outside in ["http://", "https://", "url("] {
        assert!(!page.html.contains(outside), "{outside}");
    }
}

#[test]
fn a_search_in_a_notebook_stays_in_its_frame() {
    let record = json!({
        "id": HOSTILE, "problem": HOSTILE, "reference": "8", "answer": HOSTILE, "correct": false,
        "steps": [{"text": HOSTILE, "score": 0.5}], "score": 0.5, "finish": "answer",
        "ledger": {"prompt_tokens": 0, "generated_tokens": 0, "scored_tokens": 0, "reused_tokens": 0,
            "forward_passes": 0, "peak_kv_bytes": 0, "seconds": 0.0},
    });
    let record: Record = serde_json::from_value(record).expect("a record");
    let html = notebook(&record, Aggregation::Min);
    assert_eq!(html.matches('<').count(), 2, "the frame and its end");
    assert!(html.contains("sandbox=\"allow-scripts allow-downloads\""));
    let page = between(&html, "srcdoc=\"", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&");
    assert_allowed(
        &page,
        between(&page, "content-security-policy\" content=\"", "\""),
    );
    assert!(!page.contains("<img"), "model text is data");
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
