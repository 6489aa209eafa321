//! Thoughts: their limits, the text that closes them, their steps, and what a scorer reads of them.

use std::ops::ControlFlow;

use beamgen_eval::MathAnswers;
use beamgen_generator::{GeneratorConfig, LmGenerator, Plans};
use beamgen_search::*;

use crate::answers::{PLAIN, Writer, greedy, tokenizer};
use crate::runs::{beam, best_of, problems, solve};
use crate::tiny;

const THINKS: &str = "{{ messages[0].content }}{# <think> #}";
const ANSWER: &str = "It is \\boxed{21}.\nOr";
const MESSAGE: &str = "Stop.\n";

fn thinking(budget: Option<usize>) -> GeneratorConfig {
    GeneratorConfig {
        thinking: ThinkingConfig {
            budget,
            message: MESSAGE.into(),
            answer_reserve: 40,
            ..ThinkingConfig::default()
        },
        ..GeneratorConfig::default()
    }
}

/// Solves a problem with a model that writes `text` and, after a thought that was closed, `ANSWER`.
fn written(text: &str, template: &str, config: &GeneratorConfig) -> ProblemResult {
    searched(text, template, config, |_| ())
}

fn searched(
    text: &str,
    template: &str,
    config: &GeneratorConfig,
    set: impl Fn(&mut SearchConfig),
) -> ProblemResult {
    let mut search = greedy();
    set(&mut search);
    Writer::new(text, ANSWER, template, config, 4000).solve("?".into(), search, None)
}

fn text(result: &ProblemResult) -> String {
    result.tree.text(result.finished[0].node)
}

fn thought(result: &ProblemResult) -> Thought {
    result.tree.node(NodeId(1)).thought.unwrap()
}

#[test]
fn a_thought_ends_at_its_budget_and_an_answer_follows() {
    let endless = format!("<think>\n{}", "Hm, or 17? \\boxed{17}\n".repeat(200));
    let closing = format!("{MESSAGE}</think>\n\n");
    for budget in [10, 64, 512] {
        let result = written(&endless, THINKS, &thinking(Some(budget)));
        // All of a thought is a part of the first step of the answer.
        let sampled = &endless[..budget];
        let answer = ANSWER.strip_suffix("Or").unwrap();
        assert_eq!(text(&result), format!("{sampled}{closing}{answer}"));
        assert_eq!(result.answer.as_deref(), Some("21"));
        assert_eq!(result.finished[0].finish, Finish::Answer);
        let bytes = budget + closing.len() - 2;
        let expected = Thought {
            bytes,
            open: 7,
            close: 8,
            tokens: budget + closing.len(),
            forced: closing.len(),
        };
        assert_eq!(thought(&result), expected);
        let node = result.tree.node(NodeId(1));
        assert_eq!(
            node.thinking().unwrap(),
            format!("{}{MESSAGE}", &sampled[7..])
        );
        assert_eq!(node.spoken(), format!("\n\n{answer}"));
        // Forced tokens are read, not sampled.
        let ledger = &result.ledger;
        assert_eq!(ledger.generated_tokens as usize, budget + answer.len());
        assert_eq!(ledger.thought_tokens as usize, budget);
        assert_eq!(ledger.prompt_tokens as usize, 1 + closing.len());
        assert_eq!(node.logprob, -((budget + answer.len()) as f32));
    }
}

#[test]
fn no_limit_leaves_a_chain_without_an_answer() {
    let endless = format!("<think>\n{}", "Hm. ".repeat(5000));
    let unlimited = thinking(Some(1_000_000));
    // The context of 4,000 tokens.
    let result = written(&endless, THINKS, &unlimited);
    assert_eq!(result.answer.as_deref(), Some("21"));
    let tokens = thought(&result).tokens;
    assert_eq!(tokens, 4000 - 1 - 40);
    // The budget of a problem.
    for budget in [60, 100, 700] {
        let result = searched(&endless, THINKS, &unlimited, |search| {
            search.budget_tokens = budget;
        });
        assert_eq!(result.answer.as_deref(), Some("21"), "{budget}");
        assert!(result.ledger.generated_tokens as usize <= budget);
    }
    // A model that is not known to think keeps to the limit of the chain.
    let mut config = thinking(None);
    config.max_chain_tokens = 300;
    let result = written(&endless, PLAIN, &config);
    assert_eq!(result.answer.as_deref(), Some("21"));
    assert!(result.tree.token_count(result.finished[0].node) <= 300);
    // One that is known to think has the usual budget, and the limit for its answer.
    let mut config = thinking(None);
    config.max_chain_tokens = 30;
    let result = written(
        &format!("<think>{}</think>{ANSWER}", "a".repeat(1000)),
        THINKS,
        &config,
    );
    assert_eq!(result.answer.as_deref(), Some("21"));
    // A budget that has no room for an answer ends the chain as ever.
    let result = searched(&endless, THINKS, &unlimited, |search| {
        search.budget_tokens = 5;
    });
    assert_eq!(result.answer, None);
    assert!(result.ledger.generated_tokens <= 5);
}

#[test]
fn tags_are_found_wherever_tokens_end() {
    for (text, thought, answer) in [
        ("<think>a</think>\\boxed{1}", Some("a"), Some("1")),
        (
            "\n <think>\na\n</think>\n\n\\boxed{1}",
            Some("\na\n"),
            Some("1"),
        ),
        ("<think></think>\\boxed{1}", Some(""), Some("1")),
        (
            "<think>a <think> b</think> c</think>\n\\boxed{1}",
            Some("a <think> b"),
            Some("1"),
        ),
        ("<think>\\boxed{17}</think>Hm.", Some("\\boxed{17}"), None),
        ("<thin\\boxed{1}", None, Some("1")),
        ("a <think>b</think>\\boxed{1}", None, Some("1")),
        ("[THINK]a[/THINK]\\boxed{1}", Some("a"), Some("1")),
    ] {
        for step_tokens in [0, 1, 3, 100] {
            let config = GeneratorConfig {
                step_tokens,
                ..thinking(Some(200))
            };
            let result = written(text, THINKS, &config);
            let path = result.tree.path(result.finished[0].node);
            let found: Vec<_> = path
                .iter()
                .filter_map(|&id| result.tree.node(id).thinking())
                .collect();
            assert_eq!(found.first().copied(), thought, "{text:?}");
            let answered = result.answer.filter(|_| !result.is_guess);
            assert_eq!(answered.as_deref(), answer, "{text:?}");
        }
    }
}

#[test]
fn an_end_of_text_in_a_thought_closes_it() {
    for config in [
        thinking(Some(100)),
        GeneratorConfig {
            logprobs: Some(0),
            ..thinking(Some(100))
        },
    ] {
        let result = written("<think>\nHm.", THINKS, &config);
        assert_eq!(result.answer.as_deref(), Some("21"));
        assert!(text(&result).starts_with("<think>\nHm.Stop.\n</think>\n\nIt is"));
        // The token was sampled, although it is not in the text.
        let node = result.tree.node(NodeId(1));
        assert_eq!(
            result.ledger.generated_tokens as usize,
            node.sampled_tokens()
        );
        assert_eq!(
            node.sampled_tokens(),
            "<think>\nHm.".len() + 1 + "It is \\boxed{21}.\n".len()
        );
        if config.logprobs.is_some() {
            assert_eq!(node.token_logprobs.len(), node.tokens.len());
            let forced = node
                .token_logprobs
                .iter()
                .filter(|token| token.forced)
                .count();
            assert_eq!(forced, "Stop.\n</think>\n\n".len());
        }
    }
}

#[test]
fn thoughts_are_divided_by_paragraphs_and_by_length() {
    let text = "<think>\nOne.\n\nTwo.\n\nThree.</think>\n\nA.\nIt is \\boxed{21}.\n";
    let steps = |steps, text: &str, budget, max_steps| {
        let mut config = thinking(Some(budget));
        (config.thinking.steps, config.thinking.score) = (steps, ScoredText::Both);
        let result = searched(text, THINKS, &config, |search| search.max_steps = max_steps);
        let path = result.tree.path(result.finished[0].node);
        let texts = path.iter().map(|&id| {
            let node = result.tree.node(id);
            (node.text.clone(), node.read_text().to_owned())
        });
        (texts.collect::<Vec<_>>(), result.finished[0].finish)
    };
    let (found, finish) = steps(ThoughtSteps::Paragraphs, text, 100, 2);
    let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
    // Two steps are allowed, of the answer.
    assert_eq!(
        texts,
        [
            "<think>\nOne.\n\n",
            "Two.\n\n",
            "Three.</think>",
            "\n\nA.\n",
            "It is \\boxed{21}.\n"
        ]
    );
    assert_eq!(finish, Finish::Answer);
    let read: Vec<&str> = found.iter().map(|(_, read)| read.as_str()).collect();
    assert_eq!(
        read,
        [
            "\nOne.\n\n",
            "Two.\n\n",
            "Three.",
            "\n\nA.\n",
            "It is \\boxed{21}.\n"
        ]
    );
    let (found, _) = steps(ThoughtSteps::Tokens(9), text, 100, 2);
    let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(&texts[..3], ["<think>\nO", "ne.\n\nTwo.", "\n\nThree."]);
    assert!(texts.concat().starts_with(&text[..text.len() - 1]));
    // A step that the limit closes.
    let (found, _) = steps(
        ThoughtSteps::Paragraphs,
        "<think>\nOne.\n\nTwo, and so on.",
        16,
        2,
    );
    let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "<think>\nOne.\n\n",
            "TwStop.\n</think>",
            "\n\nIt is \\boxed{21}.\n"
        ]
    );
}

#[test]
fn a_search_reads_the_answer_alone() {
    let spoken = |_: &Problem, steps: &[&str]| {
        assert!(
            steps
                .iter()
                .all(|step| !step.contains("Hm") && !step.contains("think"))
        );
        0.5
    };
    let text = "<think>Hm.</think>\nA.\nIt is \\boxed{21}.\n";
    let mut writer = Writer::new(text, "", THINKS, &thinking(Some(100)), 4000);
    let mut scorer = PerStep::new(spoken);
    let result = writer.solve("?".into(), beam(4, 2, 1), Some(&mut scorer));
    assert_eq!(result.answer.as_deref(), Some("21"));
}

#[test]
fn thinking_is_turned_off_by_the_template_or_by_an_empty_thought() {
    let prompt = |template: &str, config: &GeneratorConfig| {
        let plans = Plans::new(config, tokenizer(template), 4000).unwrap();
        let prompt = plans.defaults.prompts.prompt(&Problem::from("Q")).unwrap();
        let tokenizer = &plans.tokenizer;
        let bytes = prompt
            .tokens
            .iter()
            .flat_map(|&id| tokenizer.token_bytes(id).to_vec());
        (String::from_utf8(bytes.collect()).unwrap(), prompt.thought)
    };
    // Qwen3's way, that of DeepSeek-R1, and a template that only removes thoughts.
    let switched = "{{ messages[0].content }}\n{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}";
    let opened = "{{ messages[0].content }}\n<think>{{ '\n' }}";
    let removed = "{{ messages[0].content.split('</think>')[-1] }}{{ '\n' }}";
    let elsewhere = "{% if enable_thinking is false %}/no_think {% endif %}{{ messages[0].content }}{# <think> #}";
    let (off, on) = (thinking(Some(0)), thinking(None));
    assert_eq!(prompt(switched, &off).0, "Q\n<think>\n\n</think>\n\n");
    assert_eq!(prompt(switched, &on).0, "Q\n");
    assert_eq!(
        prompt(opened, &off),
        ("Q\n<think>\n\n</think>\n\n".into(), None)
    );
    assert_eq!(
        prompt(opened, &on),
        ("Q\n<think>\n".into(), Some("<think>".into()))
    );
    assert_eq!(prompt(removed, &off).0, "Q\n<think>\n\n</think>\n\n");
    assert_eq!(prompt(elsewhere, &off).0, "/no_think Q");
    // A variable of the request comes first.
    let mut by_request = thinking(None);
    by_request
        .chat_template_kwargs
        .insert("enable_thinking".into(), false.into());
    assert_eq!(
        prompt(switched, &by_request).0,
        "Q\n<think>\n\n</think>\n\n"
    );
    by_request
        .chat_template_kwargs
        .insert("messages".into(), false.into());
    let error = Plans::new(&by_request, tokenizer(switched), 4000).unwrap_err();
    assert!(error.to_string().contains("names `messages`"), "{error}");
}

#[test]
fn given_text_may_end_within_a_thought() {
    for (prefix, answer) in [
        ("<think>\nHm", "21"),
        ("<think>\nHm.</think>\n\n", "3"),
        ("<thi", "3"),
    ] {
        let rest = if prefix == "<thi" {
            "nk>a</think>\n\\boxed{3}"
        } else {
            "\\boxed{3}.\n"
        };
        let problem = Problem {
            prefix: prefix.into(),
            ..Problem::from("?")
        };
        let mut writer = Writer::new(rest, ANSWER, THINKS, &thinking(Some(20)), 4000);
        let result = writer.solve(problem, greedy(), None);
        assert_eq!(result.answer.as_deref(), Some(answer), "{prefix:?}");
    }
}

/// The time of a problem may be nearly over while its chain thinks.
#[test]
fn a_deadline_leaves_time_for_the_answer() {
    struct Ticks(std::cell::Cell<u64>);
    impl Clock for Ticks {
        fn now(&self) -> std::time::Duration {
            self.0.set(self.0.get() + 1);
            std::time::Duration::from_millis(self.0.get())
        }
    }
    let config = thinking(Some(100_000));
    let endless = format!("<think>\n{}", "Hm. ".repeat(5000));
    let mut writer = Writer::new(&endless, ANSWER, THINKS, &config, 100_000);
    let models = Models {
        verifier: None,
        generator: &mut writer,
        scorer: None,
        answers: &MathAnswers,
        clock: &Ticks(std::cell::Cell::new(0)),
    };
    let settings = Settings {
        search: greedy(),
        generator: config,
    };
    let mut request = Request::new(Problem::from("?"), settings.into());
    request.deadline = Some(std::time::Duration::from_secs(20));
    let mut deliver = |result: ProblemResult| {
        assert_eq!(
            (result.stopped, result.answer.as_deref()),
            (None, Some("21"))
        );
        assert!(thought(&result).tokens > 100);
        ControlFlow::Continue(())
    };
    let mut sink = Callbacks {
        observe: &mut |_| (),
        deliver: &mut deliver,
    };
    serve(
        models,
        1,
        &mut RequestList([request].into_iter()),
        &mut sink,
    )
    .unwrap();
}

/// A generator whose thoughts end at their budget and never before.
fn long_thoughts(budget: usize, pages: usize, steps: ThoughtSteps) -> LmGenerator {
    let mut config = crate::runs::settings();
    config.thinking = ThinkingConfig {
        open: Some("?".into()),
        close: Some("abcabc".into()),
        budget: Some(budget),
        message: "..".into(),
        answer_reserve: 60,
        steps,
        score: ScoredText::Both,
        ..ThinkingConfig::default()
    };
    config.logit_bias.insert(tiny::END, -100.0);
    let engine = tiny::engine(&tiny::model(2 * budget + 1000), pages);
    LmGenerator::new(engine, tiny::tokenizer(), config).unwrap()
}

/// The tokens that close a thought are read, but not sampled. They may end a step, and be followed by
/// others of the same step.
#[test]
fn tokens_that_close_a_thought_are_read_once() {
    for (steps, search) in [
        (ThoughtSteps::None, best_of(3, 2)),
        (ThoughtSteps::None, beam(4, 2, 3)),
        (ThoughtSteps::Tokens(7), beam(4, 2, 3)),
    ] {
        let mut generator = long_thoughts(40, 4000, steps);
        let (results, summary) = solve(&mut generator, &search, problems(4));
        let forced = |result: &ProblemResult| {
            let mut nodes = result.tree.nodes();
            nodes.any(|(_, node)| node.sampled_tokens() < node.tokens.len())
        };
        assert!(results.iter().all(forced));
        let ledger = summary.ledger;
        assert_eq!(ledger.executed.generate, ledger.least.generate, "{steps:?}");
    }
}

/// Two chains whose thoughts fill memory one and a half times.
#[test]
fn long_thoughts_wait_for_memory_and_stay_the_same() {
    let texts = |budget: usize, pages: usize, n: usize, search: &SearchConfig| {
        let mut generator = long_thoughts(budget, pages, ThoughtSteps::None);
        let (results, _) = solve(&mut generator, search, problems(n));
        let chains = results.iter().map(|result| {
            assert_eq!((result.error.as_deref(), result.lost_to_memory), (None, 0));
            let chains = result.finished.iter();
            let chains: Vec<_> = chains
                .map(|chain| {
                    let node = chain.node;
                    assert_eq!(result.tree.thought_tokens(node), budget);
                    (result.tree.text(node), chain.finish, chain.score)
                })
                .collect();
            chains
        });
        (chains.collect::<Vec<_>>(), generator.tokens_read())
    };
    // A page has 4 tokens, so a chain of 900 and some takes about 240, and one of 8,000 about 2,030.
    let mut read_again = 0;
    for (budget, n, search, tight) in [
        (900, 2, best_of(1, 2), 365),
        (900, 2, best_of(1, 2), 290),
        (900, 1, best_of(4, 1), 400),
        (900, 3, beam(4, 2, 3), 450),
        (8000, 2, best_of(1, 2), 3050),
    ] {
        let (roomy, once) = texts(budget, 5000, n, &search);
        let (scarce, again) = texts(budget, tight, n, &search);
        assert_eq!(roomy, scarce);
        // A chain waits where it is, or loses its memory and reads its tokens again.
        read_again += again - once;
    }
    assert!(read_again > 500, "{read_again}");
}

/// The answer's reserve leaves half of a short context to the thought.
#[test]
fn a_short_context_is_shared_by_thought_and_answer() {
    let mut config = crate::runs::settings();
    config.thinking = ThinkingConfig {
        open: Some("?".into()),
        close: Some("abcabc".into()),
        message: "..".into(),
        ..ThinkingConfig::default()
    };
    config.max_chain_tokens = 1000;
    config.logit_bias.insert(tiny::END, -100.0);
    for (context, limit) in [(120, None), (2000, Some(100))] {
        config.thinking.shares_limit = limit.is_some();
        config.max_chain_tokens = limit.unwrap_or(1000);
        let engine = tiny::engine(&tiny::model(context), 4000);
        let mut generator = LmGenerator::new(engine, tiny::tokenizer(), config.clone()).unwrap();
        let (results, _) = solve(&mut generator, &best_of(1, 1), problems(1));
        let node = results[0].finished[0].node;
        let thought = results[0].tree.thought_tokens(node);
        // The thought ends with 8 letters that close it, which are read as the prompt is.
        let ledger = &results[0].ledger;
        let answer = ledger.generated_tokens as usize - (thought - 8);
        let prompt = ledger.prompt_tokens as usize - 8;
        let most = limit.unwrap_or(context - prompt);
        let half = most / 2;
        assert!((half - 10..=half).contains(&thought), "{thought} of {most}");
        // The answer ends at its mark, before its limit.
        assert!(answer >= 20, "{answer} of {most}");
    }
}

/// Memory that is too short even for one thought ends its chain, and the next problem goes well.
#[test]
fn a_thought_that_no_memory_can_hold_ends_its_chain() {
    let mut given = problems(1);
    given.extend([Problem::from("1=")]);
    // 20 pages of 4 tokens; the second problem opens no thought.
    let (results, _) = solve(
        &mut long_thoughts(900, 20, ThoughtSteps::None),
        &best_of(2, 2),
        given,
    );
    let ends = |at: usize| {
        let chains = results[at].finished.iter();
        chains.filter(|chain| chain.finish == Finish::NoMemory)
    };
    assert_eq!(results[0].lost_to_memory, ends(0).count());
    assert!(ends(0).count() > 0);
    let spoken = &results[1];
    assert_eq!((spoken.error.as_deref(), spoken.lost_to_memory), (None, 0));
    assert_eq!(spoken.finished.len(), 2);
}

/// Every strategy, alone and among others, in ample and in tight memory.
#[test]
fn every_strategy_searches_over_thoughts() {
    let mut forced = 0;
    for &strategy in StrategyKind::ALL {
        let search = |in_flight, budget_tokens| SearchConfig {
            strategy,
            budget_tokens,
            // It rejects by the memory that is there, unless a number is set.
            speculative_rejection: SpeculativeRejectionConfig {
                memory_tokens: 1000,
                ..SpeculativeRejectionConfig::default()
            },
            ..beam(4, 2, in_flight)
        };
        let chains = |pages: usize, search: &SearchConfig, given: Vec<Problem>| {
            let (results, _) = solve(
                &mut long_thoughts(300, pages, ThoughtSteps::None),
                search,
                given,
            );
            let chains = results.iter().flat_map(|result| {
                assert_eq!(result.error, None, "{strategy}");
                let spent = result.ledger.generated_tokens;
                let most = result
                    .tree
                    .nodes()
                    .map(|(_, node)| node.sampled_tokens() as u64);
                assert!(most.sum::<u64>() <= spent, "{strategy}");
                assert!(search.budget_tokens == 0 || spent as usize <= search.budget_tokens);
                let chains = result.finished.iter();
                chains.map(|chain| {
                    let node = chain.node;
                    (
                        result.tree.text(node),
                        chain.finish,
                        chain.score,
                        result.tree.thought_tokens(node),
                    )
                })
            });
            chains.collect::<Vec<_>>()
        };
        let together = chains(4000, &search(3, 0), problems(3));
        let is_closed = |text: &str| text.contains("..abcabc");
        forced += together.iter().filter(|chain| is_closed(&chain.0)).count();
        let alone: Vec<_> = problems(3)
            .into_iter()
            .flat_map(|problem| chains(4000, &search(1, 0), vec![problem]))
            .collect();
        assert_eq!(together, alone, "{strategy}");
        assert_eq!(
            together,
            chains(110, &search(3, 0), problems(3)),
            "{strategy}"
        );
        chains(4000, &search(3, 500), problems(3));
    }
    assert!(forced > 50, "{forced}");
}
