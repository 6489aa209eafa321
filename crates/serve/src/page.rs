//! The page at `/`: one file inside the binary, which loads nothing else.

use std::sync::LazyLock;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use beamgen_view::{LivePage, live_page};

static PAGE: LazyLock<LivePage> = LazyLock::new(live_page);

pub(crate) async fn page() -> Response {
    served(&PAGE)
}

/// Returns a page with headers that forbid it to load other content.
pub(crate) fn served(page: &LivePage) -> Response {
    let head = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, page.policy.as_str()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (head, page.html.clone()).into_response()
}
