//! Tests that the ledger counts the work that was done: a search generates and scores every token
//! once, and reads no prefix again.

use beamgen::StrategyKind;
use serde_json::Value;

use crate::run::Place;

fn tokens(node: &Value) -> u64 {
    node["tokens"].as_array().expect("tokens").len() as u64
}

/// The records of a beam search over some bundled problems, with their trees.
fn records(place: &Place) -> Vec<Value> {
    place
        .run(&[
            "solve",
            "-q",
            "--limit",
            "12",
            "--out",
            "run.jsonl",
            "--tree",
        ])
        .ok();
    let text = place.read("run.jsonl");
    text.lines()
        .skip(1)
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn every_token_is_generated_once_and_scored_once() {
    let place = Place::new();
    let records = records(&place);
    assert_eq!(records.len(), 12);
    for record in records {
        let nodes = record["tree"].as_array().expect("a tree");
        let count = |wanted: &dyn Fn(&Value) -> bool| -> u64 {
            nodes.iter().filter(|node| wanted(node)).map(tokens).sum()
        };
        let ledger = |key: &str| record["ledger"][key].as_u64().expect("a count");
        assert_eq!(ledger("generated_tokens"), count(&|_| true), "generated");
        // The scorer reads the prompt once (generator and PRM have the same template and
        // tokenizer) and each step that it scores once, however long the chain before it is.
        let scored = count(&|node| node["score"].is_number());
        assert_eq!(
            ledger("scored_tokens"),
            ledger("prompt_tokens") + scored,
            "scored"
        );
        assert!(scored < ledger("generated_tokens"), "twins are scored once");
    }
}

/// Without prefixes that problems share, the models run exactly the operations that the chains and
/// scores need, with any strategy.
#[test]
fn no_strategy_computes_what_it_need_not() {
    let place = Place::new();
    for kind in StrategyKind::ALL {
        let out = place.run(&[
            "solve",
            "--json",
            "--limit",
            "3",
            "-n",
            "4",
            "-m",
            "2",
            "--set",
            "engine.prefix_cache=false",
            "--strategy",
            kind.name(),
        ]);
        let records = out.ok().json();
        let ledger = &records.last().expect("a summary")["summary"]["ledger"];
        let [executed, least] = ["executed_flops", "least_flops"].map(|key| ledger[key].as_u64());
        assert_eq!(
            executed.expect("operations"),
            least.expect("operations"),
            "{kind}"
        );
    }
}

#[test]
fn the_prompt_is_read_once_for_a_problem() {
    let place = Place::new();
    let prompt_tokens = |n: &str, strategy: &str| -> Vec<u64> {
        let args = [
            "solve",
            "--json",
            "--limit",
            "5",
            "-n",
            n,
            "--strategy",
            strategy,
        ];
        let lines = place.run(&args).ok().json();
        let (_, problems) = lines.split_last().expect("lines");
        problems
            .iter()
            .map(|p| p["ledger"]["prompt_tokens"].as_u64().expect("a count"))
            .collect()
    };
    let once = prompt_tokens("1", "single");
    assert_eq!(prompt_tokens("16", "beam"), once);
    assert_eq!(prompt_tokens("16", "best-of-n"), once);
}
