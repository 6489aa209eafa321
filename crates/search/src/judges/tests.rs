use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::*;
use crate::scorer::{Scored, StepRef};

/// The steps that scripted judges were asked to read, a line for each call.
type Log = Arc<Mutex<Vec<String>>>;

/// A judge that reads its opinion from the step's text, after its name: `a=0.9`, or `a=-` to
/// abstain.
struct Scripted {
    name: &'static str,
    log: Log,
    /// Whether the judge answers at the next collection instead of at once.
    later: bool,
    chains: HashMap<ScoreId, usize>,
    next: u64,
    pending: Vec<(BatchId, ScoreResult)>,
}

impl Scripted {
    fn judge(name: &'static str, log: &Log) -> Judge {
        Judge::new(name, Self::new(name, log))
    }

    fn new(name: &'static str, log: &Log) -> Self {
        Self {
            name,
            log: Arc::clone(log),
            later: false,
            chains: HashMap::new(),
            next: 0,
            pending: Vec::new(),
        }
    }

    fn slow(name: &'static str, log: &Log) -> Judge {
        let mut judge = Self::new(name, log);
        judge.later = true;
        Judge::new(name, judge)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let held = !self.chains.is_empty() && !std::thread::panicking();
        assert!(!held, "{} keeps chains", self.name);
    }
}

impl Scorer for Scripted {
    fn open(&mut self, problem: &Problem, _: u64) -> Result<ScoreId, ScoreError> {
        if problem.text.contains(self.name) {
            return Err(ScoreError::Prompt("not this one".into()));
        }
        self.next += 1;
        self.chains.insert(ScoreId(self.next), 0);
        Ok(ScoreId(self.next))
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        self.next += 1;
        self.chains.insert(ScoreId(self.next), self.chains[&id]);
        ScoreId(self.next)
    }

    fn release(&mut self, id: ScoreId) {
        self.chains.remove(&id).expect("released once");
    }

    fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
        let mut line = format!("{}:", self.name);
        let scored = items.iter().map(|item| {
            let mut scored = Scored {
                reused_tokens: self.chains[&item.id],
                ..Scored::default()
            };
            for step in &item.steps {
                line += &format!(" {}", step.text.split(' ').next().unwrap_or(""));
                let said = step.text.split(' ');
                let said = said.filter_map(|word| word.split_once('='));
                let said = said.filter(|(name, _)| *name == self.name);
                let said = said.map(|(_, score)| score).next().unwrap_or("0.5");
                if said == "fails" {
                    return Err(ScoreError::Failed("it broke".into()));
                }
                scored.probabilities.push(said.parse().ok());
                scored.read_tokens += 1;
            }
            *self.chains.get_mut(&item.id).expect("a chain") += scored.read_tokens;
            Ok(scored)
        });
        let scored = scored.collect();
        self.log.lock().expect("no panic").push(line);
        Ok(scored)
    }

    fn submit(&mut self, batch: BatchId, items: &[ScoreItem<'_>]) -> Submitted {
        let scored = self.score(items);
        if !self.later {
            return Submitted::Done(scored);
        }
        self.pending.push((batch, scored));
        Submitted::Pending
    }

    fn collect(&mut self, _: bool) -> Vec<(BatchId, ScoreResult)> {
        std::mem::take(&mut self.pending)
    }

    fn memory(&self) -> Memory {
        Memory {
            used_bytes: 1,
            bytes_per_token: 2,
            capacity_tokens: 3,
        }
    }
}

fn problem(text: &str) -> Problem {
    Problem {
        id: "p".into(),
        text: text.into(),
        answer: None,
        ..Problem::default()
    }
}

fn item<'a>(id: ScoreId, texts: &[&'a str]) -> ScoreItem<'a> {
    let steps = texts.iter().map(|text| StepRef {
        text,
        tokens: &[],
        finish: text.ends_with("end").then_some(Finish::Answer),
    });
    ScoreItem {
        id,
        steps: steps.collect(),
    }
}

fn rule(text: &str) -> Combine {
    text.parse().expect("a rule")
}

fn lines(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().expect("no panic"))
}

/// Returns the scores of one chain of these steps.
fn scored(judges: &mut Judges, texts: &[&str]) -> Result<Scored, ScoreError> {
    let root = judges.open(&problem("?"), 0).expect("opens");
    let mut scored = judges.score(&[item(root, texts)]).expect("scores");
    judges.release(root);
    scored.remove(0)
}

#[test]
fn what_judges_say_is_combined_and_kept() {
    use Opinion::{Abstains, Score};
    let log = Log::default();
    let both = [Scripted::judge("a", &log), Scripted::judge("b", &log)];
    let mut judges = Judges::new(both, Combine::Min);
    let found = scored(&mut judges, &["1 a=0.9 b=0.4", "2 a=0.8 b=-", "3 a=- b=-"]).unwrap();
    assert_eq!(found.probabilities, [Some(0.4), Some(0.8), None]);
    assert_eq!(found.read_tokens, 6);
    let said: Vec<(&str, &[Opinion])> = found
        .judges
        .iter()
        .map(|judge| (&*judge.name, &judge.opinions[..]))
        .collect();
    assert_eq!(
        said,
        [
            ("a", &[Score(0.9), Score(0.8), Abstains][..]),
            ("b", &[Score(0.4), Abstains, Abstains][..])
        ]
    );
    assert_eq!(judges.memory().used_bytes, 2);
    assert_eq!(judges.memory().capacity_tokens, 3);
}

#[test]
fn a_veto_sets_a_step_to_zero_and_a_pass_leaves_the_score() {
    let log = Log::default();
    let both = || [Scripted::judge("a", &log), Scripted::judge("b", &log)];
    let mut judges = Judges::new(both(), rule("veto"));
    let steps = ["1 a=0.3 b=1", "2 a=0.9 b=-", "3 a=0.9 b=0"];
    let found = scored(&mut judges, &steps).unwrap();
    assert_eq!(found.probabilities, [Some(0.3), Some(0.9), Some(0.0)]);
    // Under another rule the judge itself is marked as vetoing.
    let [a, b] = both();
    let mut judges = Judges::new([a, b.vetoing()], Combine::MeanLogits);
    let found = scored(&mut judges, &steps).unwrap();
    assert_eq!(found.probabilities, [Some(0.3), Some(0.9), Some(0.0)]);
    // If all judges veto, a step that none of them fails scores 1.
    let mut judges = Judges::new(both().map(Judge::vetoing), Combine::Min);
    let found = scored(&mut judges, &["1 a=- b=-", "2 a=1 b=0.1"]).unwrap();
    assert_eq!(found.probabilities, [Some(1.0), Some(0.0)]);
}

/// Returns the scores of one chain in a batch that is submitted.
fn submitted(judges: &mut Judges, id: ScoreId, texts: &[&str]) -> Vec<Option<f32>> {
    let mut result = match judges.submit(BatchId(0), &[item(id, texts)]) {
        Submitted::Done(result) => Some(result),
        Submitted::Pending => None,
    };
    while result.is_none() {
        result = judges.collect(true).pop().map(|(_, result)| result);
    }
    let scored = result.unwrap().unwrap().remove(0).unwrap();
    scored.probabilities
}

#[test]
fn a_failed_chain_stays_failed_and_nobody_is_asked_about_it() {
    let log = Log::default();
    for b in [Scripted::judge("b", &log), Scripted::slow("b", &log)] {
        let mut judges = Judges::new([Scripted::judge("a", &log), b.vetoing()], Combine::Min);
        let root = judges.open(&problem("?"), 0).unwrap();
        let sibling = judges.fork(root);
        // In one call: the fail counts for the step after it, but not for the step before.
        let steps = ["1 a=0.9", "2 a=0.8 b=0", "3 a=0.7 b=1"];
        let first = submitted(&mut judges, root, &steps);
        assert_eq!(first, [Some(0.9), Some(0.0), Some(0.0)]);
        lines(&log);
        // The chain stays failed in later calls, and so does a fork of it.
        let fork = judges.fork(root);
        for id in [root, fork] {
            let later = submitted(&mut judges, id, &["4 a=0.9 b=1 end"]);
            assert_eq!((later, lines(&log)), (vec![Some(0.0)], vec![]));
        }
        let other = submitted(&mut judges, sibling, &["5 a=0.6 b=1"]);
        assert_eq!(other, [Some(0.6)]);
        for id in [root, fork, sibling] {
            judges.release(id);
        }
    }
}

#[test]
fn the_costly_judge_does_not_read_what_follows_a_failed_step() {
    let log = Log::default();
    let [a, b, c] = ["a", "b", "c"].map(|name| Scripted::judge(name, &log));
    let mut judges = Judges::new([a, b, c.vetoing()], rule("cascade"));
    let steps = ["1 a=0.5 b=0.7", "2 a=0.5 c=0", "3 a=0.5 b=0.9"];
    let found = scored(&mut judges, &steps).unwrap();
    assert_eq!(found.probabilities, [Some(0.7), Some(0.0), Some(0.0)]);
    assert_eq!(lines(&log), ["c: 1 2 3", "a: 1 2 3", "b: 1"]);
}

#[test]
fn a_cascade_asks_the_costly_judge_only_where_the_cheap_one_is_undecided() {
    let log = Log::default();
    let both = [Scripted::judge("a", &log), Scripted::judge("b", &log)];
    let mut judges = Judges::new(both, rule("cascade:0.2..0.8"));
    let root = judges.open(&problem("?"), 0).unwrap();
    let read = |judges: &mut Judges, id, texts: &[&str]| {
        let mut found = judges.score(&[item(id, texts)]).unwrap();
        let found: Scored = found.remove(0).unwrap();
        (found.probabilities, lines(&log))
    };
    // The cheap judge is decided, so the costly judge reads nothing.
    let sure = read(&mut judges, root, &["1 a=0.9"]);
    assert_eq!(sure, (vec![Some(0.9)], vec!["a: 1".to_owned()]));
    // Undecided: the costly judge reads all steps so far, in the fork just as in the original.
    let fork = judges.fork(root);
    let unsure = read(&mut judges, fork, &["2 a=0.5 b=0.1", "3 a=0.95"]);
    assert_eq!(unsure.0, [Some(0.1), Some(0.95)]);
    assert_eq!(unsure.1, ["a: 2 3", "b: 1 2"]);
    let unsure = read(&mut judges, root, &["4 a=- b=0.7"]);
    assert_eq!(unsure.0, [Some(0.7)]);
    assert_eq!(unsure.1, ["a: 4", "b: 1 4"]);
    // If the costly judge abstains, the undecided score counts.
    let unsure = read(&mut judges, fork, &["5 a=0.6 b=-"]);
    assert_eq!(unsure.0, [Some(0.6)]);
    assert_eq!(unsure.1, ["a: 5", "b: 3 5"]);
    judges.release(root);
    judges.release(fork);
}

#[test]
fn a_judge_of_whole_chains_reads_them_when_they_end() {
    let log = Log::default();
    let (a, b) = (Scripted::judge("a", &log), Scripted::judge("b", &log));
    let mut judges = Judges::new([a, b.at_end()], Combine::Min);
    let root = judges.open(&problem("?"), 0).unwrap();
    let first = judges.score(&[item(root, &["1 a=0.9 b=0"])]).unwrap();
    let first = first[0].as_ref().unwrap();
    assert_eq!(first.probabilities, [Some(0.9)]);
    assert_eq!(first.judges[1].opinions, [Opinion::NotAsked]);
    assert_eq!(lines(&log), ["a: 1"]);
    let last = judges.score(&[item(root, &["2 a=0.9 b=0.2 end"])]).unwrap();
    assert_eq!(last[0].as_ref().unwrap().probabilities, [Some(0.2)]);
    assert_eq!(lines(&log), ["a: 2", "b: 1 2"]);
    judges.release(root);
}

#[test]
fn judges_that_answer_later_are_waited_for_and_a_released_chain_is_left_out() {
    let log = Log::default();
    let both = [Scripted::slow("a", &log), Scripted::slow("b", &log)];
    let mut judges = Judges::new(both, rule("cascade"));
    let root = judges.open(&problem("?"), 0).unwrap();
    let (x, y) = (judges.fork(root), judges.fork(root));
    let items = [item(x, &["1 a=0.5 b=0.3"]), item(y, &["2 a=0.5 b=0.4"])];
    assert!(matches!(
        judges.submit(BatchId(7), &items),
        Submitted::Pending
    ));
    judges.release(y);
    // The second judge is asked when the first one has answered.
    let mut done = Vec::new();
    while done.is_empty() {
        done = judges.collect(true);
    }
    let (id, results) = done.pop().unwrap();
    assert_eq!(id, BatchId(7));
    let results = results.unwrap();
    assert_eq!(results[0].as_ref().unwrap().probabilities, [Some(0.3)]);
    assert_eq!(lines(&log), ["a: 1 2", "b: 1"]);
    judges.release(x);
    judges.release(root);
}

#[test]
fn a_judges_error_is_that_of_one_chain_and_has_its_name() {
    let log = Log::default();
    let both = [Scripted::judge("a", &log), Scripted::judge("b", &log)];
    let mut judges = Judges::new(both, Combine::Min);
    let root = judges.open(&problem("?"), 0).unwrap();
    let (x, y) = (judges.fork(root), judges.fork(root));
    let items = [item(x, &["1 b=fails"]), item(y, &["2 a=0.9 b=0.8"])];
    let results = judges.score(&items).unwrap();
    let error = results[0].as_ref().unwrap_err().to_string();
    assert_eq!(error, "the scorer failed: judge b: it broke");
    assert_eq!(results[1].as_ref().unwrap().probabilities, [Some(0.8)]);
    for id in [root, x, y] {
        judges.release(id);
    }
    // A problem that one judge refuses is refused, and the other judges release it.
    let refused = judges.open(&problem("b"), 0).unwrap_err();
    assert!(refused.to_string().contains("judge b"), "{refused}");
}

#[test]
fn closures_are_judges() {
    let short = crate::PerStep::new(|_: &Problem, steps: &[&str]| 1.0 / steps.len() as f32);
    let mut judges = Judges::new([Judge::new("short", short)], Combine::Product);
    let found = scored(&mut judges, &["1", "2"]).unwrap();
    assert_eq!(found.probabilities, [Some(1.0), Some(0.5)]);
}
