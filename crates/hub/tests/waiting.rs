//! Tests of waits while the hub limits requests, with a virtual clock.

use std::time::Duration;

use beamgen_hub::{HubError, Progress, RequestError};

use crate::server::{REPO, Trick};
use crate::setup::{Setup, setup};

fn limited(seconds: u32) -> Trick {
    Trick::Limited("RateLimit", format!("\"api\";r=0;t={seconds}"))
}

/// Fetches the model. Returns the result, and the reported waits in seconds.
fn fetch(setup: &Setup) -> (Result<(), HubError>, Vec<u64>) {
    let mut waits = vec![];
    let id = REPO.parse().expect("a name");
    let record = &mut |progress: Progress| {
        if let Progress::Limited { wait } = progress {
            waits.push(wait.as_secs());
        }
    };
    let fetched = setup.hub().fetch(&id, record);
    (fetched.map(drop), waits)
}

#[test]
fn the_next_window_is_waited_for() {
    for on in ["revision", "HEAD", "GET /store"] {
        let setup = setup();
        setup.server.trick(on, 1, limited(55));
        let (fetched, waits) = fetch(&setup);
        fetched.expect("the model");
        assert_eq!(waits, [56], "{on}");
        assert_eq!(setup.clock.waited(), Duration::from_secs(56));
    }
    let setup = setup();
    let date = "Thu, 01 Jan 1970 00:00:20 GMT".to_owned();
    let later = Trick::Limited("Retry-After", date);
    setup.server.trick("revision", 1, later);
    setup
        .server
        .trick("revision", 1, Trick::Limited("Retry-After", "8".to_owned()));
    let (fetched, waits) = fetch(&setup);
    fetched.expect("the model");
    assert_eq!(waits, [21, 9]);
}

#[test]
fn it_is_waited_for_five_minutes_in_all() {
    for (token, advises) in [(None, true), (Some("hf_x".to_owned()), false)] {
        let mut setup = setup();
        setup.config.token = token;
        for seconds in [250, 40, 100] {
            setup.server.trick("revision", 1, limited(seconds));
        }
        let (fetched, waits) = fetch(&setup);
        let error = fetched.expect_err("too long");
        assert_eq!(waits, [251, 41]);
        assert_eq!(setup.clock.waited(), Duration::from_secs(292));
        let text = error.to_string();
        assert!(text.contains("(429, which asks to wait 101 s)"), "{text}");
        assert_eq!(text.contains("HF_TOKEN"), advises, "{text}");
        let Some(RequestError::TooMany { wait, .. }) = error.request_error() else {
            panic!("{text}");
        };
        assert_eq!(*wait, Some(Duration::from_secs(101)));
    }
}

#[test]
fn a_longer_wait_is_refused_at_once() {
    let setup = setup();
    setup.server.trick("revision", 1, limited(3600));
    let (fetched, waits) = fetch(&setup);
    fetched.expect_err("an hour");
    assert_eq!(waits, [0; 0]);
    assert_eq!(setup.clock.waited(), Duration::ZERO);
}

#[test]
fn without_a_time_it_is_a_fault_like_others() {
    let mut setup = setup();
    setup.config.retries = 2;
    setup.server.trick("revision", 3, Trick::Status(429, ""));
    let (fetched, waits) = fetch(&setup);
    let text = fetched.expect_err("still busy").to_string();
    assert!(
        text.contains("(429)") && text.contains("HF_TOKEN"),
        "{text}"
    );
    assert_eq!(waits, [0; 0]);
    assert_eq!(setup.clock.waited(), Duration::from_millis(600));
}

#[test]
fn the_cache_stands_in_without_a_wait() {
    let setup = setup();
    setup.fetch(REPO).expect("the model");
    setup.server.trick("revision", 1, limited(5));
    let cached = setup.fetch(REPO).expect("the cached model");
    assert!(cached.from_cache);
    let note = cached.note.expect("a note");
    assert!(note.contains("429") && note.contains("wait 6 s"), "{note}");
    assert_eq!(setup.clock.waited(), Duration::ZERO);
}
