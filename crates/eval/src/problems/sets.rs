//! The table of published data sets: the keys by which a record is recognised, and which of them
//! hold the problem and the reference answer.
//!
//! Records of no row are read by the usual keys. The keys are those of the sets' files on the Hugging Face
//! hub, which each row names.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{LineFault, find, marked, object_at, referred, text_of};
use crate::chains::kind;

/// A published data set, or a family with the same keys.
pub(super) struct Set {
    pub name: &'static str,
    /// The keys that a record has all of, in any case. The first row that fits is used.
    keys: &'static [&'static str],
    text: Text,
    answer: Answer,
    pub id: &'static str,
    /// The keys that become the data of a verifier.
    tests: &'static [&'static str],
}

/// The place of the problem's text.
enum Text {
    Key(&'static str),
    /// Both texts, separated by a blank.
    Joined(&'static str, &'static str),
    /// A text inside an object.
    Within(&'static str, &'static str),
    /// The content of the last turn of the user in a list of messages.
    Turns(&'static str),
    /// The text of a record with its solution after it, which begins with `Step 1:`.
    Before(&'static str),
    /// A question and a list of options, which get letters.
    Options(&'static str, &'static str),
    /// A question, its right option and its wrong ones. They are ordered by a hash, so that the right one has
    /// no fixed letter.
    Mixed(&'static str, [&'static str; 4]),
}

/// The place of the reference answer.
enum Answer {
    None,
    Key(&'static str),
    Within(&'static str, &'static str),
    /// The answer after `####` at the end of a worked solution. Records without it are read by the usual keys.
    Hashes(&'static str),
    /// The marked answer of a worked solution.
    Solution(&'static str),
    /// The marked answer of the last turn of the assistant, if there is one.
    Turns(&'static str),
    /// The index of the right option from 0; its letter is the answer.
    Index(&'static str),
    /// The letter that [`Text::Mixed`] gave to the right option.
    Mixed,
}

/// The letters of options.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Makes a row of the table.
const fn set(name: &'static str, keys: &'static [&'static str], text: Text, answer: Answer) -> Set {
    Set {
        name,
        keys,
        text,
        answer,
        id: "id",
        tests: &[],
    }
}

/// Makes a row of a set whose answers are programs, judged by `tests`.
const fn programs(
    name: &'static str,
    keys: &'static [&'static str],
    text: Text,
    tests: &'static [&'static str],
) -> Set {
    Set {
        name,
        keys,
        text,
        answer: Answer::None,
        id: "task_id",
        tests,
    }
}

#[rustfmt::skip]
static SETS: [Set; 18] = [
    // openai/gsm8k
    set("GSM8K", &["question", "answer"], Text::Key("question"), Answer::Hashes("answer")),
    // HuggingFaceH4/MATH-500
    set("MATH-500", &["problem", "solution", "answer", "unique_id"], Text::Key("problem"), Answer::Key("answer")),
    // hendrycks/competition_math, EleutherAI/hendrycks_math
    set("MATH", &["problem", "solution", "level", "type"], Text::Key("problem"), Answer::Solution("solution")),
    // AI-MO/aimo-validation-aime and -amc, HuggingFaceH4/aime_2024
    set("AIME or AMC", &["id", "problem", "answer", "url"], Text::Key("problem"), Answer::Key("answer")),
    // Hothan/OlympiadBench
    set("OlympiadBench", &["question", "final_answer", "answer_type"], Text::Key("question"), Answer::Key("final_answer")),
    // ChilleD/SVAMP
    set("SVAMP", &["body", "question", "equation", "answer"], Text::Joined("body", "question"), Answer::Key("answer")),
    // EleutherAI/asdiv
    set("ASDiv", &["body", "question", "formula", "answer"], Text::Joined("body", "question"), Answer::Key("answer")),
    // MU-NLPC/Calc-mawps
    set("MAWPS", &["question", "chain", "result"], Text::Key("question"), Answer::Key("result")),
    // the first release of MAWPS
    set("MAWPS", &["squestion", "lsolutions"], Text::Key("squestion"), Answer::Key("lsolutions")),
    // Idavidrein/gpqa
    set("GPQA", &["question", "correct answer", "incorrect answer 1"],
        Text::Mixed("question", ["correct answer", "incorrect answer 1", "incorrect answer 2", "incorrect answer 3"]),
        Answer::Mixed),
    // TIGER-Lab/MMLU-Pro
    set("MMLU-Pro", &["question", "options", "answer_index"], Text::Options("question", "options"), Answer::Index("answer_index")),
    // openai/openai_humaneval
    programs("HumanEval", &["task_id", "prompt", "test", "entry_point"], Text::Key("prompt"), &["test", "entry_point"]),
    // google-research-datasets/mbpp, its two configurations
    programs("MBPP", &["task_id", "text", "test_list"], Text::Key("text"), &["test_list", "test_setup_code"]),
    programs("MBPP", &["task_id", "prompt", "test_list"], Text::Key("prompt"), &["test_list", "test_imports"]),
    // hitsmy/PRMBench_Preview
    set("PRMBench", &["original_question", "modified_process", "error_steps"], Text::Key("original_question"), Answer::None),
    // openai/prm800k
    set("PRM800K", &["question", "label", "labeler"], Text::Within("question", "problem"), Answer::Within("question", "ground_truth_answer")),
    // peiyi9979/Math-Shepherd
    set("Math-Shepherd", &["input", "label", "task"], Text::Before("input"), Answer::None),
    // volcengine/verl's data, as its examples/data_preprocess write them
    set("verl", &["data_source", "prompt", "reward_model"], Text::Turns("prompt"), Answer::Within("reward_model", "ground_truth")),
];

/// Sets that are recognised by the type of a value.
#[rustfmt::skip]
static BY_TYPE: [Set; 3] = [
    // chats, as TRL and the hub write them
    set("messages", &["messages"], Text::Turns("messages"), Answer::Turns("messages")),
    // OpenRLHF: --input_key prompt or input, --label_key label
    set("OpenRLHF", &["prompt"], Text::Turns("prompt"), Answer::Key("label")),
    set("OpenRLHF", &["input"], Text::Turns("input"), Answer::Key("label")),
];

/// Returns the set to which a record belongs.
pub(super) fn of(object: &Map<String, Value>) -> Option<&'static Set> {
    let has = |key: &&str| find(object, key).is_some();
    let fits = |set: &&Set| set.keys.iter().all(has);
    let found = SETS.iter().find(|set| {
        let is_right_kind = match set.answer {
            Answer::Hashes(key) => {
                let solution = find(object, key).and_then(Value::as_str);
                solution.is_some_and(|solution| solution.contains("####"))
            }
            // Somebody who added the answers to a set has read its solutions.
            Answer::Solution(_) => find(object, "answer").is_none_or(Value::is_null),
            _ => true,
        };
        fits(set) && is_right_kind
    });
    found.or_else(|| {
        let is_chat = |set: &&Set| {
            let turns = find(object, set.keys[0]).and_then(Value::as_array);
            turns.is_some_and(|turns| turns.iter().all(Value::is_object))
        };
        BY_TYPE.iter().find(|set| fits(set) && is_chat(set))
    })
}

impl Set {
    /// Returns the text of a record's problem and the key where it was found.
    pub(super) fn text(
        &self,
        object: &Map<String, Value>,
    ) -> Result<(String, &'static str), LineFault> {
        let at = |key| string(object, key);
        Ok(match &self.text {
            Text::Key(key) => (at(key)?, key),
            Text::Joined(body, key) => (format!("{} {}", at(body)?.trim_end(), at(key)?), key),
            Text::Within(outer, key) => (string(object_at(object, outer)?, key)?, key),
            Text::Turns(key) => (turn(object, key, "user")?.unwrap_or_default(), key),
            Text::Before(key) => {
                let text = at(key)?;
                let problem = text.split("Step 1:").next().unwrap_or_default();
                (problem.trim().to_owned(), key)
            }
            Text::Options(key, list) => {
                let options = find(object, list).and_then(Value::as_array);
                let options: Option<Vec<String>> =
                    options.and_then(|options| options.iter().map(text_of).collect());
                let options = options.ok_or(LineFault::Type {
                    field: (*list).to_owned(),
                    found: kind(find(object, list).unwrap_or(&Value::Null)),
                    wanted: "a list of strings",
                })?;
                (lettered(&at(key)?, &options)?, key)
            }
            Text::Mixed(key, options) => {
                let question = at(key)?;
                let mixed = mixed(object, &question, options)?;
                let texts: Vec<String> = mixed.into_iter().map(|(text, _)| text).collect();
                (lettered(&question, &texts)?, key)
            }
        })
    }

    /// Returns a record's reference answer and the key where it was found.
    pub(super) fn answer(
        &self,
        object: &Map<String, Value>,
    ) -> Result<Option<(String, String)>, LineFault> {
        let found = match &self.answer {
            Answer::None => None,
            Answer::Key(key) | Answer::Hashes(key) => {
                referred(object, key).map(|answer| (answer, *key))
            }
            Answer::Within(outer, key) => {
                referred(object_at(object, outer)?, key).map(|answer| (answer, *key))
            }
            Answer::Solution(key) => marked(object, key).map(|answer| (answer, *key)),
            Answer::Turns(key) => {
                let last = turn(object, key, "assistant")?;
                let found = last.as_deref().and_then(super::marked_in);
                found.map(|answer| (answer, *key))
            }
            Answer::Index(key) => {
                let index = find(object, key).and_then(|index| text_of(index)?.parse().ok());
                let letter = index.and_then(|index: usize| LETTERS.chars().nth(index));
                letter.map(|letter| (letter.to_string(), *key))
            }
            Answer::Mixed => {
                let Text::Mixed(key, options) = &self.text else {
                    return Ok(None);
                };
                let mixed = mixed(object, &string(object, key)?, options)?;
                let right = mixed.iter().position(|&(_, index)| index == 0);
                let letter = right.and_then(|right| LETTERS.chars().nth(right));
                letter.map(|letter| (letter.to_string(), options[0]))
            }
        };
        Ok(found.map(|(answer, key)| (answer, key.to_owned())))
    }

    /// Returns the data by which a verifier judges: an object with the row's keys.
    pub(super) fn tests(&self, object: &Map<String, Value>) -> Option<Value> {
        let tests = self.tests.iter().filter_map(|&key| {
            let value = find(object, key).filter(|value| !value.is_null())?;
            Some((key.to_owned(), value.clone()))
        });
        let tests: Map<String, Value> = tests.collect();
        (!tests.is_empty()).then_some(Value::Object(tests))
    }
}

fn string(object: &Map<String, Value>, key: &'static str) -> Result<String, LineFault> {
    match find(object, key) {
        Some(Value::String(text)) => Ok(text.clone()),
        other => Err(LineFault::Type {
            field: key.to_owned(),
            found: kind(other.unwrap_or(&Value::Null)),
            wanted: "a string",
        }),
    }
}

/// Returns the content of the last turn of `role` in the messages under `key`.
fn turn(
    object: &Map<String, Value>,
    key: &'static str,
    role: &str,
) -> Result<Option<String>, LineFault> {
    let turns = find(object, key).and_then(Value::as_array);
    let wrong = |found: &Value| LineFault::Type {
        field: key.to_owned(),
        found: kind(found),
        wanted: "a list of messages with \"role\" and \"content\"",
    };
    let turns = turns.ok_or_else(|| wrong(find(object, key).unwrap_or(&Value::Null)))?;
    let of_role = |turn: &&Value| turn.get("role").and_then(Value::as_str) == Some(role);
    match turns.iter().rev().find(of_role) {
        None => Ok(None),
        Some(turn) => match turn.get("content") {
            Some(Value::String(text)) => Ok(Some(text.clone())),
            other => Err(wrong(other.unwrap_or(&Value::Null))),
        },
    }
}

/// Returns the question with a line for each option, `A. first`.
fn lettered(question: &str, options: &[String]) -> Result<String, LineFault> {
    if options.len() > LETTERS.len() {
        return Err(LineFault::Type {
            field: "options".to_owned(),
            found: "a longer list",
            wanted: "at most 26 options",
        });
    }
    let options = LETTERS.chars().zip(options);
    let lines = options.map(|(letter, option)| format!("\n{letter}. {}", option.trim()));
    Ok(format!(
        "{}\n{}",
        question.trim_end(),
        lines.collect::<String>()
    ))
}

/// Returns the options with their indices in `keys`, ordered by the hash of question and option.
fn mixed(
    object: &Map<String, Value>,
    question: &str,
    keys: &[&'static str],
) -> Result<Vec<(String, usize)>, LineFault> {
    let mut options = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let option = string(object, key)?;
        let hash = Sha256::new()
            .chain_update(question.as_bytes())
            .chain_update([0])
            .chain_update(option.as_bytes());
        options.push((hash.finalize().to_vec(), option, index));
    }
    options.sort();
    let options = options.into_iter();
    Ok(options.map(|(_, option, index)| (option, index)).collect())
}

/// The keys that a caller names instead of those of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedKeys {
    /// The key of the problem's text.
    pub problem: Option<String>,
    /// The key of the reference answer.
    pub answer: Option<String>,
    /// The key of a worked solution, whose marked answer is the reference.
    pub solution: Option<String>,
}
