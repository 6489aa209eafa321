//! The id of a request, by which a client finds the request in the server's log.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::app::App;

/// The header with the id, which is read from the request and sent with the answer.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The maximum length of a client's id, in bytes.
const LONGEST: usize = 128;

/// Returns the client's id if it is valid for a log: short, visible ASCII, and given once.
/// Otherwise returns a new id.
pub(crate) fn of(headers: &HeaderMap, app: &App) -> String {
    given(headers).unwrap_or_else(|| app.next_id("req"))
}

fn given(headers: &HeaderMap) -> Option<String> {
    let mut ids = headers.get_all(X_REQUEST_ID).iter();
    let (Some(id), None) = (ids.next(), ids.next()) else {
        return None;
    };
    let is_fit = |id: &&HeaderValue| {
        let bytes = id.as_bytes();
        (1..=LONGEST).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
    };
    let id = Some(id).filter(is_fit)?;
    id.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_visible_and_short() {
        let of = |ids: &[&str]| {
            let mut headers = HeaderMap::new();
            for id in ids {
                let id = HeaderValue::from_bytes(id.as_bytes()).unwrap();
                headers.append(X_REQUEST_ID, id);
            }
            given(&headers)
        };
        for id in ["a", "7f3c-\"{}\\", &"x".repeat(128)] {
            assert_eq!(of(&[id]).as_deref(), Some(id));
        }
        for ids in [
            &[][..],
            &[""],
            &["a b"],
            &["é"],
            &["a\tb"],
            &[&"x".repeat(129)],
            &["a", "a"],
        ] {
            assert_eq!(of(ids), None, "{ids:?}");
        }
    }
}
