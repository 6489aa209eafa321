//! Parsing of response headers: byte ranges, and the wait demanded with status 429.

use std::time::{Duration, SystemTime};

use ureq::http::HeaderMap;

pub(crate) fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the offset of the first byte in a partial answer: 5 for `Content-Range: bytes 5-9/10`.
pub(crate) fn range_start(headers: &HeaderMap) -> Option<u64> {
    let range = text_of(headers, "content-range")?.strip_prefix("bytes ")?;
    range.split_once('-')?.0.parse().ok()
}

/// Returns the time to wait before the next request: the value of `RateLimit` or else of
/// `Retry-After`, plus one second. `None` if neither header can be parsed.
pub(crate) fn wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let limit = text_of(headers, "ratelimit").and_then(window);
    let wait = limit.or_else(|| retry_after(headers, now))?;
    // Both headers have whole seconds, rounded down. Without the added second the request may be
    // too early.
    Some(wait.saturating_add(Duration::from_secs(1)))
}

/// Returns the time until the used-up window ends: 55 s for `"api";r=0;t=55`. If several windows
/// are used up (RFC draft `ratelimit-headers`), the longest time counts.
fn window(text: &str) -> Option<Duration> {
    let items = text.split(',');
    // An item without `r` counts as used up, since the status 429 means that some window is.
    let used_up = items.filter(|item| parameter(item, "r").is_none_or(|left| left == 0));
    let seconds = used_up.filter_map(|item| parameter(item, "t")).max()?;
    Some(Duration::from_secs(seconds))
}

/// Returns a numeric parameter of an item: 55 for `t` in `"api";r=0;t=55`.
fn parameter(item: &str, name: &str) -> Option<u64> {
    let parameters = item.split(';').filter_map(|part| part.split_once('='));
    let mut named = parameters.filter(|(key, _)| key.trim() == name);
    named.next()?.1.trim().parse().ok()
}

/// Returns the wait in `Retry-After`, which is a number of seconds or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = text_of(headers, "retry-after")?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    // The date is compared with the answer's own date, since the local clock may be wrong.
    let sent = text_of(headers, "date").and_then(|text| httpdate::parse_http_date(text).ok());
    Some(
        until
            .duration_since(sent.unwrap_or(now))
            .unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use ureq::http::{HeaderName, HeaderValue};

    use super::*;

    fn seconds(headers: &[(&'static str, &'static str)]) -> Option<u64> {
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        let now = httpdate::parse_http_date("Thu, 26 Nov 2026 12:00:00 GMT").expect("a date");
        Some(wait(&headers.collect(), now)?.as_secs())
    }

    #[test]
    fn the_end_of_the_window_and_a_second() {
        assert_eq!(seconds(&[("ratelimit", "\"api\";r=0;t=55")]), Some(56));
        assert_eq!(
            seconds(&[("ratelimit", "\"api\" ; r = 0 ; t = 7")]),
            Some(8)
        );
        let two = "\"api\";r=3;t=200, \"resolvers\";r=0;t=20";
        assert_eq!(seconds(&[("ratelimit", two)]), Some(21));
        let both = [("ratelimit", "\"api\";r=0;t=5"), ("retry-after", "90")];
        assert_eq!(seconds(&both), Some(6));
        let other = [("ratelimit", "100"), ("retry-after", "90")];
        assert_eq!(seconds(&other), Some(91));
    }

    #[test]
    fn seconds_or_a_date() {
        assert_eq!(seconds(&[("retry-after", " 8 ")]), Some(9));
        let date = ("retry-after", "Thu, 26 Nov 2026 12:01:30 GMT");
        assert_eq!(seconds(&[date]), Some(91));
        // The hub's clock and ours may differ.
        let sent = ("date", "Thu, 26 Nov 2026 12:01:00 GMT");
        assert_eq!(seconds(&[date, sent]), Some(31));
        let past = ("retry-after", "Thu, 26 Nov 2026 11:00:00 GMT");
        assert_eq!(seconds(&[past]), Some(1));
        assert_eq!(seconds(&[("retry-after", "soon")]), None);
        assert_eq!(seconds(&[]), None);
        let huge = ("retry-after", "18446744073709551615");
        assert_eq!(seconds(&[huge]), Some(u64::MAX));
    }
}
