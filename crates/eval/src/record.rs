//! The outcome of one problem as a line of JSON, printed or in a run file.
//! The file docs/reference/run-file.md describes every field for users.

use std::collections::BTreeMap;

use beamgen_search::{
    AnswerVotes, ChainTree, Evidence, FinishedChain, Flops, JudgeSpent, Ledger, Node, Outcome,
    OutcomeKind, ProblemResult, Unsound, Width, number_or_nan, numbers_or_nan,
};
use serde::{Deserialize, Serialize};

use crate::answer::{self, Verdict};

/// The outcome of one problem: the answer, the chosen chain, the verdict on the answer, and the costs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The problem's id.
    pub id: String,
    /// The text of the problem, without the documents. Older run files lack this field.
    #[serde(default)]
    pub problem: String,
    /// The documents that the problem gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
    /// The problem's reference answer, if it has one.
    #[serde(default)]
    pub reference: Option<String>,
    /// The answer that is given; `None` if the answer is withheld or no chain has one.
    pub answer: Option<String>,
    /// True if the answer, given or withheld, is a guess: the last number of a chain that marks no answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guess: bool,
    /// The answer withheld because its chain scored below the threshold, or is unsound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// Whether the answer certainly equals the reference, or the verifier finds its chain right; `None` without a
    /// reference or verifier.
    pub correct: Option<bool>,
    /// The name of the verifier that judged the chains; `None` if answers are compared with the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<String>,
    /// The verifier's finding about the chosen chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Whether the answer could not be compared with the reference, or the verifier could not tell. It then counts as
    /// wrong.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cannot_tell: bool,
    /// The step that makes the chosen chain unsound; `None` if the chain is sound or was not audited. If the answer
    /// is withheld for this reason, `withheld` is set too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsound: Option<Unsound>,
    /// The chosen chain.
    pub steps: Vec<StepRecord>,
    /// The number of steps at the start of the chain that were given with the problem.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub given: usize,
    /// The aggregated score of the chosen chain; `None` without a chain or a scorer.
    pub score: Option<f32>,
    /// The reason for the end of the chosen chain: `answer`, `end-of-text`, `stop`, `step-cap` and others. Without a
    /// chain it is `stopped`; `too-long` if the problem exceeds a model's context; `refused` for any other error.
    pub finish: String,
    /// The message of the error if the problem failed or could not be tried, else `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The number of chains lost for lack of memory. With more memory the result may differ.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_to_memory: usize,
    /// The number of verdicts lost because a checker's program failed. With these verdicts the result may differ.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_verdicts: usize,
    /// The number of chains that were still growing when the search stopped at a chain that the verifier called right;
    /// `None` if it did not stop there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spared_chains: Option<usize>,
    /// The answers that took part in the choice with their votes, the chosen one first.
    #[serde(default)]
    pub answers: Vec<AnswerVotes>,
    /// The tokens, passes, memory and seconds that the problem took.
    pub ledger: Spent,
    /// All nodes of the search, with parents before children; `None` unless trees are recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<ChainTree>,
}

fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

/// A step of the chosen chain.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    /// The text after the step's thought, without the step boundary and leading blank lines.
    pub text: String,
    /// The text of the step's thought without its tags; `None` if the step has no part of a thought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
    /// The scorer's probability that the step is right; `None` for an unscored step.
    pub score: Option<f32>,
    /// The score of each judge that was asked, by the judge's name; `None` for an abstention. The map is empty with a
    /// single scorer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judges: BTreeMap<String, Option<f32>>,
    /// The 0.1, 0.5 and 0.9 quantiles of the probability of success after this step. `None` unless the reward model
    /// has a calibration with a quantile head.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "numbers_or_nan"
    )]
    pub quantiles: Option<[f32; 3]>,
    /// V: the mean worth of the step's rollouts, 0 to 1, in a search with values by rollouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f32>,
}

impl StepRecord {
    fn new(node: &Node) -> Self {
        Self {
            text: node.spoken().trim_start_matches('\n').trim_end().to_owned(),
            thought: node.thinking().map(|thought| thought.trim().to_owned()),
            score: node.score,
            judges: node.judges.clone(),
            quantiles: node.quantiles,
            value: node.value,
        }
    }
}

/// The costs of a problem or a run, in the fields of the JSON output.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    /// Prompt tokens that the generator read; a problem's prompt counts once.
    pub prompt_tokens: u64,
    /// Tokens sampled, those of pruned chains included.
    pub generated_tokens: u64,
    /// The sampled tokens that belong to thoughts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thought_tokens: u64,
    /// Tokens that the scorer read, prompts included.
    pub scored_tokens: u64,
    /// Tokens found in a cache instead of being read again.
    pub reused_tokens: u64,
    /// Forward passes of the generator, one for each batch.
    pub forward_passes: u64,
    /// Largest memory of the caches of both models together, in bytes.
    pub peak_kv_bytes: u64,
    /// Requests to servers that were repeated after a failure.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u64,
    /// Floating-point operations of the generator; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generate_flops: u64,
    /// Floating-point operations of the scorer; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub score_flops: u64,
    /// Tokens of a whole run that were not read because a cache held them for another chain or from an earlier prompt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prefix_tokens: u64,
    /// Floating-point operations that the models ran in a whole run; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub executed_flops: u64,
    /// The fewest operations that give the same chains and scores, each problem solved by itself; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub least_flops: u64,
    /// The different chains that continued.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub width: Width,
    /// Wall-clock seconds: the problem's share of the work, or the time of a whole run.
    #[serde(deserialize_with = "number_or_nan")]
    pub seconds: f64,
    /// The part of `seconds` in the generator.
    #[serde(default, deserialize_with = "number_or_nan")]
    pub generate_seconds: f64,
    /// The part of `seconds` in the scorer.
    #[serde(default, deserialize_with = "number_or_nan")]
    pub score_seconds: f64,
    /// The costs of each judge, by name. They are part of the scorer's costs; the map is empty with a single scorer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judges: BTreeMap<String, JudgeSpent>,
}

impl Spent {
    /// Copies the counts of `ledger`; `seconds` becomes the time.
    pub fn new(ledger: &Ledger, seconds: f64) -> Self {
        Self {
            prompt_tokens: ledger.prompt_tokens,
            generated_tokens: ledger.generated_tokens,
            thought_tokens: ledger.thought_tokens,
            scored_tokens: ledger.scored_tokens,
            reused_tokens: ledger.reused_tokens,
            forward_passes: ledger.forward_passes,
            peak_kv_bytes: ledger.peak_kv_bytes,
            retries: ledger.retries,
            generate_flops: ledger.flops.generate,
            score_flops: ledger.flops.score,
            prefix_tokens: 0,
            executed_flops: 0,
            least_flops: 0,
            width: ledger.width,
            seconds,
            generate_seconds: ledger.seconds.generate,
            score_seconds: ledger.seconds.score,
            judges: ledger.judges.clone(),
        }
    }

    /// Copies the counts of a whole run's ledger, also those that single problems do not have.
    pub fn of_run(ledger: &Ledger, seconds: f64) -> Self {
        Self {
            prefix_tokens: ledger.prefix_tokens,
            executed_flops: ledger.known(ledger.executed).unwrap_or(0),
            least_flops: ledger.known(ledger.least).unwrap_or(0),
            ..Self::new(ledger, seconds)
        }
    }

    /// Returns the floating-point operations of both models; `None` if those of a model that read or sampled tokens
    /// are unknown.
    pub fn total_flops(&self) -> Option<u64> {
        let flops = Flops {
            generate: self.generate_flops,
            score: self.score_flops,
        };
        flops.total(
            self.prompt_tokens + self.generated_tokens,
            self.scored_tokens,
        )
    }

    /// Adds the costs of another problem. The caches are in one memory, so the peak is the larger one of the two.
    pub fn add(&mut self, other: &Self) {
        self.prompt_tokens += other.prompt_tokens;
        self.generated_tokens += other.generated_tokens;
        self.thought_tokens += other.thought_tokens;
        self.scored_tokens += other.scored_tokens;
        self.reused_tokens += other.reused_tokens;
        self.forward_passes += other.forward_passes;
        self.peak_kv_bytes = self.peak_kv_bytes.max(other.peak_kv_bytes);
        self.retries += other.retries;
        self.generate_flops = self.generate_flops.saturating_add(other.generate_flops);
        self.score_flops = self.score_flops.saturating_add(other.score_flops);
        self.prefix_tokens += other.prefix_tokens;
        self.executed_flops = self.executed_flops.saturating_add(other.executed_flops);
        self.least_flops = self.least_flops.saturating_add(other.least_flops);
        self.width += other.width;
        self.seconds += other.seconds;
        self.generate_seconds += other.generate_seconds;
        self.score_seconds += other.score_seconds;
        for (name, spent) in &other.judges {
            *self.judges.entry(name.clone()).or_default() += *spent;
        }
    }
}

/// [`Record::finish`] of a problem that does not fit into a model's context.
const TOO_LONG: &str = "too-long";

impl Record {
    /// Whether the problem was left out because it does not fit into a model's context.
    pub fn is_too_long(&self) -> bool {
        self.finish == TOO_LONG
    }

    /// Returns whether another try may give another result, because the problem failed or lost chains or verdicts.
    pub fn is_worth_retrying(&self) -> bool {
        let lost = self.lost_to_memory + self.lost_verdicts;
        // A problem that is too long would fail again in every resumed run.
        lost > 0 || (self.error.is_some() && !self.is_too_long())
    }

    /// Returns the verdict on one of the answers: the verifier's finding about its best chain, or else the comparison
    /// with the reference. Returns `None` without a verifier and a reference.
    pub fn verdict_on(&self, answer: &AnswerVotes) -> Option<Verdict> {
        if self.verifier.is_some() {
            return Some(verdict_of(answer.outcome));
        }
        let reference = self.reference.as_deref()?;
        Some(answer::compare(&answer.answer, reference))
    }

    /// Returns the evidence against the chosen chain if its answer is right nevertheless, else `None`.
    pub fn right_but_unsound(&self) -> Option<Evidence> {
        let unsound = self.unsound.as_ref()?;
        (self.correct == Some(true)).then_some(unsound.by)
    }

    /// Makes the record of a result and grades the answer. The tree is included if `with_tree` is true.
    pub fn new(result: &ProblemResult, with_tree: bool) -> Self {
        // The error decides, since a problem that failed during the search may still have a chosen chain.
        let finish = match (&result.error, result.chosen_chain()) {
            (Some(_), _) if result.too_long => TOO_LONG,
            (Some(_), _) => "refused",
            (None, Some(chain)) => chain.finish.name(),
            (None, None) => "stopped",
        };
        Self {
            id: result.problem.id.clone(),
            problem: result.problem.text.clone(),
            context: result.problem.context.clone(),
            reference: result.problem.answer.clone(),
            answer: result.answer.clone(),
            guess: result.is_guess,
            withheld: result.withheld.clone(),
            correct: is_correct(result),
            verifier: result.verifier.clone(),
            outcome: result
                .chosen_chain()
                .and_then(|chain| chain.outcome.clone()),
            cannot_tell: verdict(result) == Some(Verdict::CannotTell),
            unsound: result.unsound.clone(),
            steps: result.steps().into_iter().map(StepRecord::new).collect(),
            // The chain of a stopped search may be shorter than the given steps.
            given: result.problem.steps.len().min(result.steps().len()),
            score: result.score,
            finish: finish.to_owned(),
            error: result.error.clone(),
            lost_to_memory: result.lost_to_memory,
            lost_verdicts: result.lost_verdicts,
            spared_chains: result.spared_chains,
            answers: result.answers.clone(),
            ledger: Spent::new(&result.ledger, result.ledger.seconds.total()),
            tree: with_tree.then(|| result.tree.clone()),
        }
    }
}

/// Returns the verdict on the answer of a result: the verifier's finding about its chain, or else the comparison with
/// the reference answer. Returns `None` without a verifier and a reference.
pub fn verdict(result: &ProblemResult) -> Option<Verdict> {
    if result.verifier.is_some() {
        // A missing answer is wrong here, too.
        let chain = result.chosen_chain().filter(|_| result.answer.is_some());
        return Some(chain.map_or(Verdict::Different, chain_verdict));
    }
    let expected = result.problem.answer.as_deref()?;
    Some(match result.answer.as_deref() {
        Some(given) => answer::compare(given, expected),
        // A missing answer is wrong, so that abstaining cannot raise the accuracy.
        None => Verdict::Different,
    })
}

/// Returns the verdict on a chain of a problem that a verifier judges. A chain that was not judged, because it did not
/// end with an answer, is wrong.
pub fn chain_verdict(chain: &FinishedChain) -> Verdict {
    verdict_of(chain.outcome.as_ref().map(|outcome| outcome.kind))
}

fn verdict_of(outcome: Option<OutcomeKind>) -> Verdict {
    match outcome {
        Some(OutcomeKind::Right) => Verdict::Same,
        Some(OutcomeKind::Unknown | OutcomeKind::Lost) => Verdict::CannotTell,
        Some(OutcomeKind::Wrong) | None => Verdict::Different,
    }
}

/// Returns whether the answer is proved right, so false if the verifier cannot tell or the reference cannot be
/// compared. Returns `None` without a verifier and a reference.
pub fn is_correct(result: &ProblemResult) -> Option<bool> {
    verdict(result).map(|verdict| verdict == Verdict::Same)
}

#[cfg(test)]
mod tests {
    use beamgen_search::{Finish, NodeId, Problem};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn node(parent: Option<u32>, text: &str, score: Option<f32>, state: &str) -> serde_json::Value {
        json!({
            "parent": parent, "children": [], "depth": parent.map_or(0, |p| p + 1), "stream": 0, "tokens": [1],
            "text": text, "logprob": -1.0, "score": score, "state": state,
        })
    }

    fn result(expected: Option<&str>) -> ProblemResult {
        let mut last = node(Some(1), "The answer is 42.\n", Some(0.75), "finished");
        last["finish"] = json!("answer");
        let first = node(Some(0), "34 + 8 = 42.\n", Some(0.5), "expanded");
        let tree = json!([node(None, "", None, "expanded"), first, last]);
        let chain = FinishedChain {
            node: NodeId(2),
            finish: Finish::Answer,
            score: Some(0.5),
            logprob: -2.0,
            answer: Some("42".to_owned()),
            is_guess: false,
            class: Some("42".to_owned()),
            copies: 1,
            outcome: None,
        };
        ProblemResult {
            index: 0,
            problem: Problem {
                id: "7".to_owned(),
                text: "p".to_owned(),
                answer: expected.map(str::to_owned),
                ..Problem::default()
            },
            tree: serde_json::from_value(tree).unwrap(),
            finished: vec![chain],
            chosen: Some(NodeId(2)),
            answer: Some("42".to_owned()),
            is_guess: false,
            withheld: None,
            unsound: None,
            verifier: None,
            answers: vec![AnswerVotes {
                answer: "42".to_owned(),
                votes: 1,
                weight: 0.5,
                score: Some(0.5),
                node: NodeId(2),
                outcome: None,
            }],
            score: Some(0.5),
            error: None,
            too_long: false,
            stopped: None,
            lost_to_memory: 0,
            lost_verdicts: 0,
            spared_chains: None,
            ledger: Ledger {
                generated_tokens: 12,
                ..Ledger::default()
            },
            elapsed: 0.0,
        }
    }

    #[test]
    fn a_record_has_the_keys_that_programs_read() {
        let record = Record::new(&result(Some("42.0")), false);
        let ledger = json!({
            "prompt_tokens": 0, "generated_tokens": 12, "scored_tokens": 0, "reused_tokens": 0,
            "forward_passes": 0, "peak_kv_bytes": 0, "seconds": 0.0,
            "generate_seconds": 0.0, "score_seconds": 0.0,
        });
        let want = json!({
            "id": "7", "problem": "p", "reference": "42.0", "answer": "42", "correct": true,
            "steps": [{"text": "34 + 8 = 42.", "score": 0.5}, {"text": "The answer is 42.", "score": 0.75}],
            "score": 0.5, "finish": "answer",
            "answers": [{"answer": "42", "votes": 1, "weight": 0.5, "score": 0.5, "node": 2}],
            "ledger": ledger,
        });
        assert_eq!(serde_json::to_value(&record).unwrap(), want);
        assert_eq!(serde_json::from_value::<Record>(want).unwrap(), record);
    }

    #[test]
    fn losses_are_recorded_and_worth_a_retry() {
        let mut result = result(Some("42"));
        assert!(!Record::new(&result, false).is_worth_retrying());
        for (memory, verdicts) in [(1, 0), (0, 2)] {
            (result.lost_to_memory, result.lost_verdicts) = (memory, verdicts);
            let record = Record::new(&result, false);
            assert!(record.is_worth_retrying());
            let line = serde_json::to_value(&record).unwrap();
            for (key, lost) in [("lost_to_memory", memory), ("lost_verdicts", verdicts)] {
                // A count of 0 is left out of the line.
                let written = line.get(key).map_or(Some(0), serde_json::Value::as_u64);
                assert_eq!(written, Some(lost as u64), "{key}");
            }
            assert_eq!(serde_json::from_value::<Record>(line).unwrap(), record);
        }
    }

    #[test]
    fn a_right_answer_by_a_wrong_step_is_told_apart() {
        let mut result = result(Some("42"));
        assert_eq!(Record::new(&result, false).right_but_unsound(), None);
        result.unsound = Some(Unsound {
            step: 0,
            by: Evidence::Checker,
            source: "arithmetic".to_owned(),
            reason: "34 + 8 is 42, not 43".to_owned(),
        });
        let record = Record::new(&result, false);
        assert_eq!(record.right_but_unsound(), Some(Evidence::Checker));
        let line = serde_json::to_value(&record).unwrap();
        assert_eq!(line["unsound"]["by"], json!("checker"));
        assert_eq!(serde_json::from_value::<Record>(line).unwrap(), record);
        let said = record.unsound.map(|unsound| unsound.to_string());
        let said = said.expect("unsound");
        assert_eq!(said, "step 1, arithmetic: 34 + 8 is 42, not 43");
        result.problem.answer = Some("41".to_owned());
        assert_eq!(Record::new(&result, false).right_but_unsound(), None);
    }

    #[test]
    fn a_record_of_an_older_run_file_is_read() {
        let old = r#"{"id":"7","answer":"42","correct":true,"steps":[{"text":"34 + 8 = 42.","score":0.5}],"score":0.5,
            "finish":"answer","ledger":{"prompt_tokens":0,"generated_tokens":12,"scored_tokens":0,"reused_tokens":0,
            "forward_passes":0,"peak_kv_bytes":0,"seconds":0.0},"tree":[{"parent":null,"children":[],"depth":0,
            "stream":0,"tokens":[],"text":"","logprob":0.0,"score":null,"copies":1,"state":"pruned"}]}"#;
        let record: Record = serde_json::from_str(old).unwrap();
        assert_eq!((record.problem.as_str(), record.answers.len()), ("", 0));
        assert_eq!(record.tree.map(|tree| tree.len()), Some(1));
    }

    #[test]
    fn the_tree_survives_the_run_file() {
        let record = Record::new(&result(None), true);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        assert_eq!(record.tree.map(|tree| tree.len()), Some(3));
    }

    #[test]
    fn grading_needs_a_reference_and_an_answer() {
        assert_eq!(is_correct(&result(None)), None);
        assert_eq!(is_correct(&result(Some("41"))), Some(false));
        let doubtful = result(Some("\\int x"));
        assert_eq!(verdict(&doubtful), Some(Verdict::CannotTell));
        assert_eq!(is_correct(&doubtful), Some(false));
        let mut silent = result(Some("42"));
        (silent.answer, silent.error) = (None, Some("too long".to_owned()));
        let failed = Record::new(&silent, false);
        assert_eq!((failed.finish.as_str(), failed.steps.len()), ("refused", 2));
        silent.chosen = None;
        assert_eq!(is_correct(&silent), Some(false));
        assert_eq!(Record::new(&silent, false).finish, "refused");
        silent.too_long = true;
        let record = Record::new(&silent, false);
        assert!(record.is_too_long() && record.error.as_deref() == Some("too long"));
        silent.error = None;
        assert_eq!(Record::new(&silent, false).finish, "stopped");
    }

    /// Generates any f32, often NaN, an infinity or another extreme value.
    fn odd() -> impl Strategy<Value = f32> {
        let special = [
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            -0.0,
            f32::MIN,
            1e-45,
        ];
        prop_oneof![prop::sample::select(special.to_vec()), any::<f32>()]
    }

    proptest! {
        /// A number that is not finite is written as null and read as not a number.
        #[test]
        fn any_record_can_be_read_again(numbers in prop::collection::vec(odd(), 16), some: bool) {
            let mut next = numbers.into_iter().cycle();
            let mut number = || next.next().unwrap();
            let (logprob, weight) = (number(), number());
            let mut last = node(Some(0), "42", Some(number()), "pruned");
            last["logprob"] = json!(logprob);
            last["judges"] = json!({"judge": number()});
            last["quantiles"] = json!([number(), number(), number()]);
            last["pruned"] = json!({"reason": "not-chosen", "cutoff": number()});
            if some {
                last["partial_score"] = json!(number());
            }
            let tree = json!([node(None, "", None, "expanded"), last]);
            let mut result = result(Some("42"));
            (result.finished, result.chosen) = (Vec::new(), None);
            result.tree = serde_json::from_value(tree).unwrap();
            result.score = Some(number());
            result.answers[0].weight = weight.into();
            result.answers[0].score = Some(number());
            result.ledger.seconds.generate = number().into();
            result.ledger.seconds.score = number().into();
            let text = serde_json::to_string(&Record::new(&result, true)).unwrap();
            let read: Record = serde_json::from_str(&text).map_err(|error| {
                TestCaseError::fail(format!("{error}: {text}"))
            })?;
            let same = |written: f32, read: f32| if written.is_finite() { written == read } else { read.is_nan() };
            let tree = read.tree.unwrap();
            prop_assert!(same(logprob, tree.node(NodeId(1)).logprob), "{}", text);
            prop_assert!(same(weight, read.answers[0].weight as f32), "{}", text);
        }
    }
}
