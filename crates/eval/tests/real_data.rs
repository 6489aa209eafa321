//! Compares the grader with the labels of other graders and of people. The data are not in the repository; without
//! them the tests are skipped.

use std::fs;

use beamgen_eval::MathAnswers;
use beamgen_eval::answer::{Verdict, compare, equal, extract, reference};
use beamgen_eval::pass_at_k::pass_at_k;
use beamgen_eval::pool::{Sample, chosen_at_k};
use beamgen_search::{Answers, Choose, Finish, FinishedChain, NodeId, choose};
use beamgen_test_support::shared;
use serde_json::Value;

/// The lines of a file of `shared/data`; `None` after a skip.
#[track_caller]
fn lines(name: &str) -> Option<Vec<Value>> {
    let path = shared(&format!("data/{name}"))?;
    let text = fs::read_to_string(path).unwrap();
    Some(
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

/// Grades a solution against the reference solution `truth`. A missing answer counts as different.
fn graded(solution: &str, truth: &str) -> Verdict {
    let (Some(answer), Some(expected)) = (extract(solution), extract(truth)) else {
        return Verdict::Different;
    };
    compare(&answer.text, &expected.text)
}

/// Each pair is an answer of a model and a reference that were once hard to compare, with the right verdict.
#[test]
fn no_hard_pair_is_judged_wrongly() {
    let pairs = include_str!("hard_pairs.jsonl");
    let mut doubtful = Vec::new();
    for line in pairs.lines() {
        let pair: Value = serde_json::from_str(line).unwrap();
        let (answer, expected) = (
            pair["answer"].as_str().unwrap(),
            pair["expected"].as_str().unwrap(),
        );
        let verdict = compare(answer, expected);
        assert_eq!(verdict, compare(expected, answer), "{line}");
        if verdict == Verdict::CannotTell {
            doubtful.push(line);
            continue;
        }
        let same = pair["same"].as_bool().unwrap();
        assert_eq!(verdict == Verdict::Same, same, "{line}");
    }
    let count = pairs.lines().count();
    assert!(doubtful.len() * 20 <= count, "{}", doubtful.join("\n"));
}

#[test]
fn labels_of_gsm8k_solutions_are_reproduced() {
    let Some(problems) = lines("gsm8k_model_solutions.jsonl") else {
        return;
    };
    let (mut agree, mut total, mut doubtful) = (0, 0, 0);
    for problem in &problems {
        let truth = problem["ground_truth"].as_str().unwrap();
        for model in problem.as_object().unwrap().values() {
            let Some(label) = model.get("is_correct") else {
                continue;
            };
            let verdict = graded(model["solution"].as_str().unwrap(), truth);
            total += 1;
            doubtful += usize::from(verdict == Verdict::CannotTell);
            agree += usize::from(label.as_bool() == Some(verdict == Verdict::Same));
        }
    }
    assert_eq!(total, 4 * 1319);
    assert!(agree * 1000 >= total * 995, "{agree} of {total}");
    assert!(
        doubtful * 1000 <= total,
        "{doubtful} of {total} cannot be told"
    );
}

#[test]
fn math_references_are_found_and_understood() {
    let Some(problems) = lines("math500_first250.jsonl") else {
        return;
    };
    let text = |problem: &Value, field: &str| problem[field].as_str().unwrap().to_owned();
    let answers: Vec<String> = problems.iter().map(|p| text(p, "answer")).collect();
    for (problem, answer) in problems.iter().zip(&answers) {
        let solution = text(problem, "solution");
        let found = extract(&solution).unwrap();
        assert!(equal(&found.text, answer), "{} is {answer}", found.text);
        assert_eq!(reference(&solution), found.text);
    }
    // No two of them may be beyond telling apart because they are not understood.
    for pair in answers.windows(2) {
        let verdict = compare(&pair[0], &pair[1]);
        assert_ne!(verdict, Verdict::CannotTell, "{} and {}", pair[0], pair[1]);
    }
}

/// Qwen2.5-Math's own evaluation of 8 responses to each of 100 MATH problems, with the scores of
/// its 72B reward model: mean 91.0, maj@8 93, rm@8 94, pass@8 96. What is right is theirs, the
/// voting, choosing and counting ours. The two graders differ in one answer of 800, where ours
/// knows that `10{,}000` is 10000.
#[test]
fn voting_and_choosing_give_the_published_figures() {
    let Some(problems) = lines("qwen_rm_maj_100.jsonl") else {
        return;
    };
    assert_eq!(problems.len(), 100);
    let (mut single, mut pass) = (0.0, 0.0);
    let mut differ = Vec::new();
    let mut chosen = [0.0; 2];
    let mut pooled = [0.0; 2];
    for problem in &problems {
        let list = |field: &str| problem[field].as_array().unwrap();
        let truth = problem["answer"].as_str().unwrap();
        let answers: Vec<&str> = list("pred").iter().map(|a| a.as_str().unwrap()).collect();
        let right: Vec<bool> = list("score").iter().map(|s| s.as_bool().unwrap()).collect();
        for (answer, &right) in answers.iter().zip(&right) {
            if equal(answer, truth) != right {
                differ.push(format!("{answer} for {truth}"));
            }
        }
        let correct = right.iter().filter(|&&right| right).count();
        single += pass_at_k(8, correct, 1).unwrap();
        pass += pass_at_k(8, correct, 8).unwrap();
        let chains: Vec<FinishedChain> = answers
            .iter()
            .zip(list("pred_score"))
            .map(|(answer, score)| FinishedChain {
                node: NodeId(1),
                finish: Finish::Answer,
                score: score[0].as_f64().map(|score| score as f32),
                logprob: 0.0,
                answer: Some((*answer).to_owned()),
                is_guess: false,
                class: Some(MathAnswers.class(answer)),
                copies: 1,
                outcome: None,
            })
            .collect();
        // A plain vote knows no scores: ties go to what came first.
        let unscored: Vec<FinishedChain> = chains
            .iter()
            .map(|chain| FinishedChain {
                score: None,
                ..chain.clone()
            })
            .collect();
        for (at, (how, chains)) in [(Choose::Majority, &unscored), (Choose::Best, &chains)]
            .into_iter()
            .enumerate()
        {
            let winner = choose(chains, how).unwrap();
            chosen[at] += f64::from(u8::from(right[winner]));
            let class = |chain: &FinishedChain| {
                let same = |other: &FinishedChain| other.class == chain.class;
                chains.iter().position(same).map(|first| first as u32)
            };
            let pool: Vec<Sample> = chains
                .iter()
                .zip(&right)
                .map(|(chain, &correct)| Sample {
                    correct,
                    is_guess: chain.is_guess,
                    class: class(chain),
                    score: chain.score,
                    tokens: 1,
                })
                .collect();
            pooled[at] += chosen_at_k(&pool, 8, how, 0).unwrap();
        }
    }
    assert_eq!(differ, ["10000 for 10{,}000"]);
    let published = [93.0, 94.0];
    assert!((single - 91.0).abs() < 1e-9, "mean {single}");
    assert_eq!(chosen, published, "maj@8, rm@8");
    assert_eq!(pooled, published, "the same from the pool");
    assert_eq!(pass, 96.0);
}
