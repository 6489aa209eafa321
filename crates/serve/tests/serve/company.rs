//! An answer does not depend on who else is served.

use std::collections::BTreeMap;

use beamgen_serve::ServeOptions;
use serde_json::{Value, json};

use crate::client::{Running, ask, essence, problem};

fn requests() -> Vec<Value> {
    let ways = [
        json!({"n": 8, "seed": 1}),
        json!({"n": 4, "m": 2, "seed": 2, "generator": {"sampling": {"temperature": 0.8}}}),
        json!({"strategy": "majority", "n": 6}),
        json!({"strategy": "rebase", "n": 8, "id": "x"}),
        json!({"strategy": "greedy"}),
    ];
    let requests = (0..65).map(|i| {
        let mut own = ways[i % ways.len()].clone();
        own["tree"] = json!(true);
        ask(&problem(i % 13), own)
    });
    requests.collect()
}

#[test]
fn an_answer_is_the_same_alone_and_among_64_others() {
    let server = Running::start(ServeOptions::default());
    let requests = requests();
    let mut alone = BTreeMap::new();
    for body in &requests {
        let answer = || essence(&server.chat(body).ok());
        alone.entry(body.to_string()).or_insert_with(answer);
    }
    std::thread::scope(|scope| {
        for body in &requests {
            let (server, alone) = (&server, &alone);
            scope.spawn(move || {
                let answer = essence(&server.chat(body).ok());
                assert_eq!(answer, alone[&body.to_string()]);
            });
        }
    });
    assert!(server.metric("beamgen_forward_passes_total ") > 0.0);
    server.wait_until_idle();
}
