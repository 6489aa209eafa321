//! Tests the metrics about answers: profiles, drift, searches repeated without the reward model, and the files of
//! `examples/monitoring`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use beamgen::eval::Record;
use beamgen::eval::profile::Profile;
use beamgen::{Solver, bundled};
use beamgen_serve::ServeOptions;
use serde_json::{Value, json};

use crate::client::{Running, ask, problem};

const CHAT: &str = "/v1/chat/completions";

/// Returns the value of a metric, given by its whole name with labels.
fn value(metrics: &str, name: &str) -> Option<f64> {
    let mut lines = metrics.lines();
    lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Returns the profile of the sample's problems under the server's own settings and seed 0.
fn reference(problems: usize) -> Profile {
    let mut problems_of = bundled::sample().unwrap().problems;
    problems_of.truncate(problems);
    let mut solver = Solver::builder().build().unwrap();
    let mut profile = Profile::default();
    for problem in &problems_of {
        profile.add(&Record::new(&solver.solve(problem).unwrap(), false));
    }
    profile
}

#[test]
fn answers_are_counted_by_preset_and_compared_with_a_reference() {
    let before = reference(40);
    let options = ServeOptions {
        references: BTreeMap::from([("beamgen".to_owned(), before.clone())]),
        ..ServeOptions::default()
    };
    let server = Running::start(options);
    let drift = "beamgen_drift_alarm{model=\"beamgen\",quantity=\"score\"}";
    for at in 0..40 {
        server
            .post(CHAT, &ask(&problem(at), json!({"seed": 0})))
            .ok();
        if at < 20 {
            let metrics = server.get("/metrics").text();
            assert_eq!(value(&metrics, drift), None, "too few to compare");
        }
    }
    let metrics = server.get("/metrics").text();
    assert_eq!(
        value(&metrics, "beamgen_answers_total{model=\"beamgen\"}"),
        Some(40.0)
    );
    let score = &beamgen::eval::profile::QUANTITIES[0];
    let sum = value(&metrics, "beamgen_answer_score_sum{model=\"beamgen\"}").unwrap();
    assert!((sum - before.sum(score)).abs() < 1e-6, "{sum}");
    let below = value(
        &metrics,
        "beamgen_answer_score_bucket{model=\"beamgen\",le=\"+Inf\"}",
    );
    assert_eq!(below, Some(40.0));
    assert_eq!(value(&metrics, drift), Some(0.0));
    // Chains sampled at a high temperature score less.
    for at in 0..40 {
        let hot = json!({"seed": 1, "n": 1, "m": 1, "temperature": 2});
        server.post(CHAT, &ask(&problem(at), hot)).ok();
    }
    let metrics = server.get("/metrics").text();
    assert_eq!(value(&metrics, drift), Some(1.0), "{metrics}");
    let psi = value(
        &metrics,
        "beamgen_drift_psi{model=\"beamgen\",quantity=\"score\"}",
    )
    .unwrap();
    let bound = value(
        &metrics,
        "beamgen_drift_psi_bound{model=\"beamgen\",quantity=\"score\"}",
    );
    assert!(psi > bound.unwrap(), "{psi}");
}

#[test]
fn a_share_of_searches_is_repeated_without_the_reward_model() {
    let server = Running::start(ServeOptions {
        shadow_share: 0.5,
        ..ServeOptions::default()
    });
    let repeated = |model: &str| {
        let name = format!("beamgen_shadow_total{{model=\"{model}\"}}");
        value(&server.get("/metrics").text(), &name).unwrap_or(0.0)
    };
    for at in 0..6 {
        server
            .post(CHAT, &ask(&problem(at), json!({"seed": 0})))
            .ok();
        let vote = json!({"strategy": "best-of-n", "choose": "majority", "seed": 0});
        let mut vote = ask(&problem(at), vote);
        vote["model"] = json!("careful");
        server.post(CHAT, &vote).ok();
    }
    let started = Instant::now();
    while repeated("beamgen") < 3.0 {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{}",
            repeated("beamgen")
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    // A vote uses no scores, so there is nothing to compare.
    assert_eq!((repeated("beamgen"), repeated("careful")), (3.0, 0.0));
    let metrics = server.get("/metrics").text();
    let differ = value(&metrics, "beamgen_shadow_differs_total{model=\"beamgen\"}").unwrap();
    assert!(
        (1.0..=3.0).contains(&differ),
        "a vote of 16 is right on half of the problems: {differ}"
    );
}

/// Returns the names of metrics in a query.
fn names(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let own = words.filter(|word| word.starts_with("beamgen_"));
    own.map(str::to_owned).collect()
}

#[test]
fn the_queries_of_the_dashboard_and_the_alerts_name_metrics_of_a_server() {
    let server = Running::start(ServeOptions {
        references: BTreeMap::from([("beamgen".to_owned(), reference(40))]),
        ..ServeOptions::default()
    });
    server
        .post(CHAT, &ask(&problem(0), json!({"seed": 0})))
        .ok();
    let metrics = server.get("/metrics").text();
    let named = |name: &str| {
        let family = ["_bucket", "_sum", "_count"];
        let family = family
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        metrics.contains(&format!("# TYPE {family} "))
            || metrics.contains(&format!("# TYPE {name} "))
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/monitoring");
    let read = |file: &str| std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut queries: Vec<String> = queries
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect();
    queries.push(read("alerts.yml"));
    let all: BTreeSet<String> = queries.iter().flat_map(|query| names(query)).collect();
    assert!(all.len() > 20, "{all:?}");
    for name in &all {
        assert!(named(name), "no metric {name} in\n{metrics}");
    }
    // Every flag in a query is a flag of a profile.
    let flags: BTreeSet<&str> = beamgen::eval::profile::FLAGS
        .iter()
        .map(|flag| flag.name)
        .collect();
    for query in &queries {
        for part in query.split("flag=\"").skip(1) {
            let flag = part.split('"').next().unwrap();
            assert!(flags.contains(flag), "no flag {flag}");
        }
    }
}
