//! Chains that write a given text: the places at which they end, and their answers.

use std::ops::ControlFlow;
use std::sync::Arc;

use beamgen_engine::{Sampled, Tokenizer};
use beamgen_eval::MathAnswers;
use beamgen_generator::{ChainBook, GeneratorConfig, Plans};
use beamgen_search::*;
use serde_json::json;

pub(crate) const END: u32 = 0;

/// A token for each character of ASCII, the end of the text, and a tag that is special.
pub(crate) fn tokenizer(template: &str) -> Arc<Tokenizer> {
    let dir = tempfile::tempdir().unwrap();
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false,
               "rstrip": false, "normalized": false, "special": true})
    };
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false,
                            "trim_offsets": true, "use_regex": false});
    let mut vocab: serde_json::Map<_, _> = ('!'..='~')
        .chain(['Ġ', 'Ċ'])
        .zip(2..)
        .map(|(character, id): (char, u32)| (character.to_string(), id.into()))
        .collect();
    vocab.insert("<|end|>".into(), END.into());
    vocab.insert("[/THINK]".into(), 1.into());
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [special(END, "<|end|>"), special(1, "[/THINK]")],
        "normalizer": null, "pre_tokenizer": byte_level, "post_processor": null,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null,
                  "continuing_subword_prefix": null, "end_of_word_suffix": null,
                  "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": vocab, "merges": []},
    });
    let config = json!({"eos_token": "<|end|>", "chat_template": template});
    std::fs::write(dir.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    Arc::new(Tokenizer::load(dir.path()).unwrap())
}

/// A generator that writes the tokens of a text and, after a thought that was closed at its limit,
/// those of another text. It uses [`ChainBook`], so the usual rules end its steps.
pub(crate) struct Writer {
    tokens: Vec<u32>,
    after_thought: Vec<u32>,
    pub book: ChainBook<Place>,
}

impl Writer {
    pub(crate) fn new(
        text: &str,
        after_thought: &str,
        template: &str,
        config: &GeneratorConfig,
        context: usize,
    ) -> Self {
        let tokenizer = tokenizer(template);
        let tokens = |text| tokenizer.encode(text, false).unwrap();
        Self {
            tokens: tokens(text),
            after_thought: tokens(after_thought),
            book: ChainBook::new(Plans::new(config, tokenizer, context).unwrap()),
        }
    }

    /// Solves one problem under the settings that the writer was made with.
    pub(crate) fn solve<'a>(
        &'a mut self,
        problem: Problem,
        search: SearchConfig,
        scorer: Option<&'a mut dyn Scorer>,
    ) -> ProblemResult {
        let settings = Settings {
            search,
            generator: self.book.plans().defaults.given.clone(),
        };
        let models = Models {
            verifier: None,
            generator: self,
            scorer,
            answers: &MathAnswers,
            clock: &StoppedClock,
        };
        let mut found = None;
        run(models, settings, [problem], &mut |_| (), &mut |result| {
            found = Some(result);
            ControlFlow::Continue(())
        })
        .unwrap();
        let result = found.unwrap();
        assert_eq!(result.error, None);
        result
    }
}

pub(crate) fn greedy() -> SearchConfig {
    SearchConfig {
        strategy: StrategyKind::GREEDY,
        ..SearchConfig::default()
    }
}

/// The number of tokens that a chain has sampled, after the beginning or after its thought was
/// closed.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Place {
    sampled: usize,
    is_closed: bool,
}

impl Generator for Writer {
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        self.book
            .open(problem, key, settings, |_| Ok(Place::default()))
    }

    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let (Source::Itself(from) | Source::ForkOf(from)) = source;
        let state = self.book.next_state(from, plan);
        Some(self.book.start(source, state, |written| *written))
    }

    fn release(&mut self, chain: ChainId) -> usize {
        self.book.release(chain).unfinished()
    }

    fn pass(&mut self) -> Result<PassOutput, GenError> {
        let mut steps = self.book.close_leftovers();
        self.book.drop_idle();
        for id in self.book.active().to_vec() {
            let Place { sampled, is_closed } = self.book.chain(id).cache;
            let text = if is_closed {
                &self.after_thought
            } else {
                &self.tokens
            };
            let sampled = Sampled {
                token: text.get(sampled).copied().unwrap_or(END),
                logprob: -1.0,
            };
            if self.book.chain(id).plan.config.logprobs.is_some() {
                self.book.keep_logprobs(id, sampled, &[]);
            }
            let (place, added) = self.book.push(id, sampled);
            place.sampled += 1;
            if added.closes_thought() {
                *place = Place {
                    sampled: 0,
                    is_closed: true,
                };
            }
            steps.extend(added.step);
        }
        self.book.drop_idle();
        Ok(steps.into())
    }

    fn active(&self) -> usize {
        self.book.active().len()
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }

    fn close_thoughts(&mut self, chains: &[ChainId]) {
        self.book.close_thoughts(chains);
    }
}

pub(crate) const PLAIN: &str = "{{ messages[0].content }}";

/// Returns the chain's text, the reason that it ended, and its answer.
fn solved(
    text: &str,
    template: &str,
    generator: &GeneratorConfig,
) -> (String, Finish, Option<String>) {
    let search = SearchConfig {
        max_steps: 1000,
        ..greedy()
    };
    let result = Writer::new(text, "", template, generator, 4000).solve("?".into(), search, None);
    let chain = &result.finished[0];
    let answer = chain.answer.clone().filter(|_| !chain.is_guess);
    (result.tree.text(chain.node), chain.finish, answer)
}

/// Steps of every length, so that their borders fall everywhere.
#[test]
fn a_border_made_by_length_cuts_no_answer() {
    for (text, answer, end) in [
        ("Kim has half, so \\boxed{1200}. Done.", "1200", "}"),
        (
            "It goes in \\boxed{}.\nHalf: \\boxed{\n21\n}. Done.",
            "21",
            "}",
        ),
        ("The answer is 1200. Done.", "1200", ". D"),
        ("So.\nThe answer is\n\\[\\boxed{21}\\] Done.", "21", "}"),
        ("half is 21.\n#### 21\n\nDone.", "21", "\n"),
        ("x\n#### Step 2: Halve\n#### 2\n1", "2", "\n"),
    ] {
        for step_tokens in 1..text.len() {
            let settings = GeneratorConfig {
                step_tokens,
                boundaries: Vec::new(),
                ..GeneratorConfig::default()
            };
            let (written, finish, found) = solved(text, PLAIN, &settings);
            assert_eq!(found.as_deref(), Some(answer), "{step_tokens}: {written:?}");
            // The chain is done at the first border from the answer's end on.
            let whole = text.rfind("\\boxed{").filter(|_| end == "}");
            let from = whole.or(text.find(&(answer.to_owned() + end)));
            let from = from.expect("the answer is there");
            let whole = from + text[from..].find(end).unwrap() + end.len();
            let done = whole.div_ceil(step_tokens) * step_tokens;
            if done <= text.len() {
                assert_eq!((written.len(), finish), (done, Finish::Answer), "{text:?}");
            } else {
                assert_eq!((written.as_str(), finish), (text, Finish::EndOfText));
            }
        }
    }
}

#[test]
fn what_is_no_answer_ends_no_chain() {
    let defaults = GeneratorConfig::default();
    for (text, answer, finish) in [
        (
            "<think>\nHalf of 34: \\boxed{17}?\nThe answer is 17.\n</think>\nIt is \\boxed{21}.\nOr",
            Some("21"),
            Finish::Answer,
        ),
        (
            "Put it in \\boxed{}.\n42 / 2 = 21\nThe answer is 21.\nOr",
            Some("21"),
            Finish::Answer,
        ),
        (
            "#### 1. Add\n42\n#### 2. Halve\n21",
            None,
            Finish::EndOfText,
        ),
        ("<think>\n\\boxed{17}", None, Finish::EndOfText),
        ("\\boxed{1", None, Finish::EndOfText),
        (
            "half is 21.\n#### 21\n\nQuestion: 8?\n#### 9",
            Some("21"),
            Finish::Answer,
        ),
    ] {
        let (_, ended, found) = solved(text, PLAIN, &defaults);
        assert_eq!((found.as_deref(), ended), (answer, finish), "{text:?}");
    }
    let without = GeneratorConfig {
        answer_markers: Vec::new(),
        ..defaults
    };
    let (_, finish, answer) = solved("\\boxed{1}\n\\boxed{2}\n", PLAIN, &without);
    assert_eq!((answer.as_deref(), finish), (Some("2"), Finish::EndOfText));
}

/// Chat templates of models that think end the prompt within a thought.
#[test]
fn a_thought_may_begin_in_the_prompt() {
    let defaults = GeneratorConfig::default();
    for (open, close) in [("<think>\\n", "</think>"), ("[THINK]", "[/THINK]")] {
        let template = [PLAIN, "{{ '", open, "' }}"].concat();
        let text = format!("Is \\boxed{{17}} it?\nNo.\n{close}\nIt is \\boxed{{21}}.\nOr");
        let (written, finish, answer) = solved(&text, &template, &defaults);
        assert_eq!((answer.as_deref(), finish), (Some("21"), Finish::Answer));
        assert!(written.contains(close) && !written.contains("Or"));
        let (_, finish, answer) = solved("Is it 17?\n\\boxed{17}\n", &template, &defaults);
        assert_eq!((answer, finish), (None, Finish::EndOfText));
    }
}

/// In this configuration `#### Step 2` is a heading and not an answer.
#[test]
fn the_steps_of_headings_go_on() {
    let file = include_str!("../../../../configs/search/headings.toml");
    let mut file: toml::Table = file.parse().unwrap();
    let settings: GeneratorConfig = file.remove("generator").unwrap().try_into().unwrap();
    let text = "## Step 1: Add\n34 + 8 = 42\n\n#### Step 2: Halve\n42 / 2 = 21\n\n## Step 3: Say\n";
    let (written, finish, answer) = solved(text, PLAIN, &settings);
    assert_eq!(
        (written.as_str(), finish, answer),
        (text, Finish::EndOfText, None)
    );
    let boxed = [text, "So \\boxed{21}.\n\n## Step 4: Go on\n"].concat();
    let (written, finish, answer) = solved(&boxed, PLAIN, &settings);
    assert_eq!((answer.as_deref(), finish), (Some("21"), Finish::Answer));
    assert!(written.ends_with("\\boxed{21}.\n\n"));
}
