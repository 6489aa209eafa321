//! Tests of the formats of training sets on texts that were written for these tests.

use beamgen_labels::{LabelRule, LabelledChain};
use serde_json::{Value, json};

use crate::formats::{one, read, refused};

fn labels(chain: &LabelledChain) -> Vec<Option<f64>> {
    LabelRule::default().labels(chain)
}

fn texts(chain: &LabelledChain) -> Vec<&str> {
    chain.steps.iter().map(|step| step.text.as_str()).collect()
}

fn rated(text: &str, rating: Value) -> Value {
    json!({"text": text, "rating": rating, "flagged": false})
}

fn prm800k(steps: Value, finish: &str) -> Value {
    json!({
        "labeler": "l", "timestamp": "t", "generation": 3,
        "is_quality_control_question": false, "is_initial_screening_question": false,
        "question": {"problem": "p", "ground_truth_answer": "9"},
        "label": {"steps": steps, "total_time": 1, "finish_reason": finish},
    })
}

#[test]
fn prm800k_follows_what_was_chosen_or_written_by_the_person() {
    let steps = json!([
        {"completions": [rated("a", json!(1)), rated("b", json!(-1)), rated("c", json!(null))],
         "human_completion": null, "chosen_completion": 0},
        {"completions": [rated("d", json!(-1))],
         "human_completion": {"text": "e", "rating": null}, "chosen_completion": null},
        {"completions": [rated("f", json!(0)), rated("g", json!(1))],
         "human_completion": null, "chosen_completion": null},
        {"completions": [rated("h", json!(1))], "human_completion": null, "chosen_completion": 0},
    ]);
    let chain = one("prm800k", prm800k(steps, "found_error"));
    assert_eq!(texts(&chain), ["a", "e", "f"]);
    assert_eq!(labels(&chain), [Some(1.0), None, Some(1.0)]);
    assert_eq!(chain.answer.as_deref(), Some("9"));
    assert_eq!(chain.source.as_deref(), Some("prm800k/phase2"));
    // First the chosen path, then the alternatives b, d and g. Step c has no rating, so it is
    // dropped.
    let all: Vec<LabelledChain> = chain.with_alternatives();
    let chain_at = |i: usize| (texts(&all[i]), labels(&all[i]));
    assert_eq!(all.len(), 4);
    assert_eq!(chain_at(0), (vec!["a", "e", "f"], labels(&chain)));
    assert_eq!(chain_at(1), (vec!["b"], vec![Some(0.0)]));
    assert_eq!(chain_at(2), (vec!["a", "d"], vec![None, Some(0.0)]));
    assert_eq!(
        chain_at(3),
        (vec!["a", "e", "g"], vec![None, None, Some(1.0)])
    );
    assert!(all.iter().all(|chain| chain.check().is_ok()));
}

#[test]
fn a_truth_may_be_written_as_a_number() {
    let record = |truth: Value| json!({"problem": "p", "steps": ["a"], "label": 0, "final_answer_correct": truth});
    for (truth, outcome) in [
        (json!(0), Some(false)),
        (json!(1.0), Some(true)),
        (json!(true), Some(true)),
        (json!(null), None),
    ] {
        assert_eq!(one("processbench", record(truth)).outcome, outcome);
    }
    for odd in [json!(2), json!("no"), json!([])] {
        let why = refused("processbench", record(odd));
        assert!(
            why.contains("\"final_answer_correct\": write true or false"),
            "{why}"
        );
    }
}

#[test]
fn prm800k_questions_that_are_no_data_are_dropped() {
    let steps = json!([{"completions": [rated("a", json!(1))], "chosen_completion": 0}]);
    let flagged = |field: &str| {
        let mut record = prm800k(steps.clone(), "solution");
        record[field] = json!(true);
        refused("prm800k", record)
    };
    assert_eq!(
        flagged("is_quality_control_question"),
        "a quality control question"
    );
    assert_eq!(
        flagged("is_initial_screening_question"),
        "an initial screening question"
    );
    for finish in ["bad_problem", "give_up"] {
        let why = refused("prm800k", prm800k(steps.clone(), finish));
        assert_eq!(why, format!("finish_reason {finish}"));
    }
    let refusal = |step: Value| refused("prm800k", prm800k(json!([step]), "solution"));
    assert!(refusal(json!({"completions": null})).contains("at least one step"));
    let wild = json!({"completions": [rated("a", json!(1))], "chosen_completion": 1});
    assert!(refusal(wild).contains("the index of a completion (step 1)"));
    let wild = json!({"completions": [rated("a", json!(2))], "chosen_completion": 0});
    assert!(refusal(wild).contains("1, 0, -1 or null"));
}

#[test]
fn math_shepherd_joins_two_texts() {
    let record =
        |input: &str, label: &str| json!({"input": input, "label": label, "task": "GSM8K"});
    let input = "Two and two? Step 1: 2+2 = <<2+2=4>>4. ки\nStep 2: The answer is: 5 ки";
    let label = "Two and two? Step 1: 2+2 = <<2+2=4>>4. +\nStep 2: The answer is: 5 -";
    let chain = one("math-shepherd", record(input, label));
    assert_eq!(chain.problem, "Two and two?");
    let steps = ["2+2 = <<2+2=4>>4.", "The answer is: 5"];
    assert_eq!(texts(&chain), steps);
    assert_eq!(labels(&chain), [Some(1.0), Some(0.0)]);
    assert_eq!(chain.source.as_deref(), Some("GSM8K"));

    let apart = "not the input with + or -";
    let once = "must occur exactly once";
    for (input, label, why) in [
        (
            input,
            "Two and two? Step 1: 2+2 = 4. +\nStep 2: The answer is: 5 -",
            apart,
        ),
        (input, "Two and two? Step 1: 2+2 = <<2+2=4>>4. +", apart),
        (
            input,
            "Three? Step 1: 2+2 = <<2+2=4>>4. +\nStep 2: The answer is: 5 -",
            apart,
        ),
        ("Q Step 1: a ки", "Q Step 1: a ?", apart),
        ("Q Step 1: a ки", "Q Step 1: a + b", apart),
        ("Q Step 1: a ки b", "Q Step 1: a + b", "after the last tag"),
        ("Q a ки", "Q a +", once),
        (
            "Q Step 1: a ки Step 1: b ки",
            "Q Step 1: a + Step 1: b +",
            once,
        ),
        ("Q Step 1: a", "Q Step 1: a", "after the last tag"),
        ("Step 1: a ки", "Step 1: a +", "\"problem\": empty"),
        ("Q Step 1: a ки  ки", "Q Step 1: a +  +", "a step is empty"),
    ] {
        let found = refused("math-shepherd", record(input, label));
        assert!(found.contains(why), "{input}: {found}");
    }
}

#[test]
fn rlhflow_is_a_conversation() {
    let turn = |role: &str, content: &str| json!({"role": role, "content": content});
    let record = json!({"conversations": [
        turn("user", "How many? Step 1: Count."), turn("assistant", "+"),
        turn("user", "Step 2: Seven."), turn("assistant", "-"),
    ]});
    let chain = one("rlhflow", record);
    assert_eq!(chain.problem, "How many?");
    assert_eq!(texts(&chain), ["Step 1: Count.", "Step 2: Seven."]);
    assert_eq!(labels(&chain), [Some(1.0), Some(0.0)]);
    let refusal = |turns: Value| refused("rlhflow", json!({"conversations": turns}));
    assert!(refusal(json!([turn("user", "Q Step 1: a")])).contains("pairs"));
    assert!(refusal(json!([turn("assistant", "+"), turn("user", "a")])).contains("pairs"));
    let vague = json!([turn("user", "Q Step 1: a"), turn("assistant", "maybe")]);
    assert!(refusal(vague).contains("+ or -"));
    let joined = json!([turn("user", "Q a"), turn("assistant", "+")]);
    assert!(refusal(joined).contains("exactly once"));
}

#[test]
fn trl_has_hard_labels_soft_ones_and_none() {
    let record = json!({"prompt": "p", "completions": ["a", "b", "c", "d", "e"],
        "labels": [true, 0, 0.25, null, -100]});
    let chain = one("trl", record);
    assert_eq!(
        labels(&chain),
        [Some(1.0), Some(0.0), Some(0.25), None, None]
    );
    assert_eq!(chain.steps[1].right, Some(false));
    assert_eq!(chain.steps[2].soft, Some(0.25));
    let refusal = |labels: Value| {
        refused(
            "trl",
            json!({"prompt": "p", "completions": ["a"], "labels": labels}),
        )
    };
    assert!(refusal(json!([2])).contains("from 0 to 1"));
    assert!(refusal(json!(["+"])).contains("from 0 to 1"));
    assert!(refusal(json!([true, true])).contains("2 for 1 steps"));
}

/// Both forms of MATH-APS have the same tree: q is the root, a has the children b and c, and d is
/// next to a.
#[test]
fn math_aps_is_a_tree_written_in_two_ways() {
    let prefix =
        |text: &str, mc: f64| json!({"solution_prefix": format!("q{text}"), "mc_value": mc});
    let flat = json!({"question": "q", "final_answer": "4", "reasoning_steps": [
        prefix("", 0.5), prefix("\n\na one\n\nb", 1.0), prefix("\n\na one", 0.75), prefix("\n\nd", 0.0),
        prefix("\n\na one\n\nc", 0.25), prefix("\n\nd", 1.0),
    ]});
    let node = |text: &str, mc: f64, children: Value| json!({"text": text, "mc_value": mc, "children": children});
    let under = json!([node("b", 1.0, json!([])), node("c", 0.25, json!([]))]);
    let top = json!([node("a one", 0.75, under), node("d", 0.0, json!([]))]);
    let tree =
        json!({"question": "q", "final_answer": "4", "reasoning_steps": node("q", 0.5, top)});
    let (flat, tree) = (read(&[flat]), read(&[tree]));
    assert_eq!(
        (flat.format.name, tree.format.name),
        ("math-aps", "math-aps-tree")
    );
    assert_eq!(flat.chains, tree.chains);
    let found: Vec<_> = tree.chains.iter().map(|c| (texts(c), labels(c))).collect();
    // A step that two chains share is labelled in only one of them.
    assert_eq!(
        found,
        [
            (vec!["a one", "b"], vec![Some(0.75), Some(1.0)]),
            (vec!["a one", "c"], vec![None, Some(0.25)]),
            (vec!["d"], vec![Some(0.0)]),
        ]
    );
    assert_eq!(tree.chains[0].answer.as_deref(), Some("4"));
    let refusal = |steps: Value| {
        refused(
            "math-aps",
            json!({"question": "q", "reasoning_steps": steps}),
        )
    };
    assert!(
        refusal(json!([{"solution_prefix": "else", "mc_value": 1}]))
            .contains("must begin with the question")
    );
    assert!(refusal(json!([{"solution_prefix": "q a", "mc_value": 1.5}])).contains("from 0 to 1"));
    assert!(refusal(json!([prefix("", 0.5)])).contains("no steps in it"));
    let root = json!({"question": "q", "reasoning_steps": node("else", 1.0, json!([]))});
    assert!(refused("math-aps-tree", root).contains("root is not the question"));
}

/// A long step above many leaves is copied into the chain of each leaf.
#[test]
fn a_tree_does_not_grow_without_bound() {
    let leaves = vec![json!({"text": "a", "mc_value": 1, "children": []}); 2000];
    let long = json!({"text": "x".repeat(1 << 16), "mc_value": 1, "children": leaves});
    let record = json!({"question": "q", "reasoning_steps": {"text": "q", "children": [long]}});
    assert!(refused("math-aps-tree", record).contains("longer than 64 MiB"));
}

#[test]
fn big_bench_marks_the_first_mistake_or_none() {
    let record = |at: Value| json!({"input": "i", "steps": ["a", "b"], "target": "1", "answer": "2", "mistake_index": at});
    let chain = one("bigbench-mistake", record(json!(1)));
    assert_eq!(labels(&chain), [Some(1.0), Some(0.0)]);
    assert_eq!(
        (chain.outcome, chain.answer.as_deref()),
        (Some(false), Some("1"))
    );
    let chain = one("bigbench-mistake", record(json!(null)));
    assert_eq!(labels(&chain), [Some(1.0), Some(1.0)]);
    assert!(refused("bigbench-mistake", record(json!(2))).contains("mistake_index"));
}
