//! Judges of one token: a text before the verdict, and read-outs of several tokens.

use std::path::Path;
use std::sync::Arc;

use beamgen_engine::{
    Append, ChatTemplate, DeviceChoice, Ending, Engine, EngineConfig, Message, Model, ModelConfig,
    ThreadPool, Tokenizer, Want, WeightType,
};
use beamgen_prm::{Body, ChainWriter, HeadSpec, Normaliser, PrmSpec, RewardModel};
use beamgen_search::{ScoreItem, Scored, Scorer, StepRef};

use crate::models::{on_cpu, problem};

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/fixtures/prm/Llama3.1-8B-PRM-Deepseek-Data"
);
const STEPS: [&str; 3] = ["1 + 1 = 2.", "2 + 2 = 5.", "So it is 5."];

fn judge(normaliser: &str) -> PrmSpec {
    let text = format!(
        "normaliser = {normaliser}\n\
         prompt.system = \"Judge the last step.\"\n\
         head.tokens = [\"0\", \"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"9\"]\n\
         [step]\nturns = true\nfirst = \"{{{{ problem }}}} {{{{ step }}}}\"\ntext = \"{{{{ step }}}}\"\n\
         lead = \"From 0 to 9: [\"\nverdict = \"9\"\n"
    );
    PrmSpec::from_toml(&text, "judge.toml").unwrap()
}

fn scores(normaliser: &str, steps: &[&str]) -> Vec<f32> {
    let spec = Some(judge(normaliser));
    let pool = ThreadPool::new(1);
    let mut prm = RewardModel::load(Path::new(MODEL), spec, None, on_cpu(), pool).unwrap();
    prm.whole_chain("1 + 3?", steps).unwrap()
}

/// The chat of [`judge`] as the template writes it, with the answers so far.
fn judged(chat: &ChatTemplate, steps: &[&str]) -> String {
    let mut messages = vec![Message::system("Judge the last step.")];
    let first = format!("1 + 3? {}", steps[0]);
    for (at, step) in steps.iter().enumerate() {
        messages.push(Message::user(if at == 0 { &first } else { step }));
        messages.push(Message::assistant("From 0 to 9: [9"));
    }
    chat.render(&messages, Ending::Closed).unwrap()
}

#[test]
fn the_score_is_read_after_the_lead() {
    let tokenizer = Arc::new(Tokenizer::load(Path::new(MODEL)).unwrap());
    let chat = ChatTemplate::of(&tokenizer).unwrap();
    let spec = judge("{ softmax = 9 }");
    let writer = ChainWriter::new(&spec, Arc::clone(&tokenizer), Path::new(MODEL)).unwrap();
    let written = writer.written("1 + 3?", &STEPS).unwrap();
    assert_eq!(written.read_at.len(), STEPS.len());
    for (i, read_at) in written.read_at.into_iter().enumerate() {
        let text = judged(&chat, &STEPS[..=i]);
        let (read, verdict) = text.rsplit_once('[').unwrap();
        assert!(verdict.starts_with('9'));
        let ids = tokenizer.encode(&format!("{read}["), false).unwrap();
        assert_eq!(written.tokens[..=read_at], ids, "step {i}");
    }
}

#[test]
fn several_tokens_give_a_sum_or_an_expected_value() {
    let classes: Vec<Vec<f32>> = (0..10)
        .map(|class| scores(&format!("{{ softmax = {class} }}"), &STEPS))
        .collect();
    let digits = "{ expected = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }";
    let (expected, high) = (
        scores(digits, &STEPS),
        scores("{ softmax = [7, 8, 9] }", &STEPS),
    );
    for i in 0..STEPS.len() {
        let of = |class: usize| f64::from(classes[class][i]);
        let mean: f64 = (0..10).map(|class| class as f64 * of(class)).sum();
        assert!((f64::from(expected[i]) - mean / 9.0).abs() < 1e-6);
        assert!((f64::from(high[i]) - of(7) - of(8) - of(9)).abs() < 1e-6);
        // A step's score does not depend on later steps.
        assert_eq!(scores(digits, &STEPS[..=i])[i], expected[i]);
    }
}

const QUESTION: &str = "Is the last step right?";

fn asking() -> PrmSpec {
    let text = "normaliser = { expected = [0, 1, 2, 3] }\n\
         head.tokens = [\"0\", \"1\", \"2\", \"3\"]\n\
         [step]\ntext = \"{{ step }}\\n\\n\"\n\
         question = \"Is the last step right?\"\nlead = \"Mark: [\"\n";
    PrmSpec::from_toml(text, "asking.toml").unwrap()
}

/// The expected mark from 0 to 3, from the logits after the chat that the template writes.
fn mark_of(engine: &mut Engine, tokenizer: &Tokenizer, steps: &[&str]) -> f64 {
    // This template trims a turn, so a letter keeps the end of the chain.
    let chain: String = steps.iter().map(|step| format!("{step}\n\n")).collect();
    let chain = format!("{chain}x");
    let messages = [
        Message::user("1 + 3?"),
        Message::assistant(&chain),
        Message::user(QUESTION),
        Message::assistant("Mark: [0"),
    ];
    let chat = ChatTemplate::of(tokenizer).unwrap();
    let text = chat.render(&messages, Ending::Closed).unwrap();
    let (text, _) = text.rsplit_once('0').unwrap();
    let text = text.replacen("\n\nx", "\n\n", 1);
    let ids = tokenizer.encode(&text, false).unwrap();
    let seq = engine.create();
    let wanted = [ids.len() - 1];
    let item = Append {
        seq,
        tokens: &ids,
        want: Want::At(&wanted),
    };
    let logits = engine.logits(&[item]).unwrap();
    let mut row = Vec::new();
    engine.copy_logits(&logits, 0, &mut row).unwrap();
    engine.free(seq);
    let digits = ["0", "1", "2", "3"].map(|digit| {
        let id = tokenizer.encode(digit, false).unwrap()[0];
        f64::from(row[id as usize]).exp()
    });
    let sum: f64 = digits.iter().sum();
    let marks = digits.iter().enumerate();
    marks.map(|(mark, e)| mark as f64 * e / sum).sum::<f64>() / 3.0
}

#[test]
fn a_question_after_a_step_leaves_no_trace() {
    let load = |kv_bytes| {
        let config = EngineConfig {
            kv_bytes,
            ..on_cpu()
        };
        let pool = ThreadPool::new(1);
        RewardModel::load(Path::new(MODEL), Some(asking()), None, config, pool).unwrap()
    };
    let mut prm = load(EngineConfig::default().kv_bytes);
    let tokenizer = Tokenizer::load(Path::new(MODEL)).unwrap();
    let model = Arc::new(Model::load(Path::new(MODEL)).unwrap());
    let mut engine = Engine::new(model, on_cpu()).unwrap();
    let whole = prm.whole_chain("1 + 3?", &STEPS).unwrap();
    for (i, score) in whole.iter().enumerate() {
        let expected = mark_of(&mut engine, &tokenizer, &STEPS[..=i]);
        assert!(
            (f64::from(*score) - expected).abs() < 1e-5,
            "step {i}: {score}, {expected}"
        );
    }
    // Step by step, with another chain between, and two chains of different lengths in a pass.
    let problem = problem("1 + 3?");
    let (one, two) = (
        prm.open(&problem, 0).unwrap(),
        prm.open(&problem, 0).unwrap(),
    );
    let read = |text: &'static str| StepRef {
        text,
        tokens: &[],
        finish: None,
    };
    let item = |id, steps: &[&'static str]| ScoreItem {
        id,
        steps: steps.iter().copied().map(read).collect(),
    };
    let (mut own, mut read_tokens) = (Vec::new(), 0);
    for at in 0..STEPS.len() {
        let items = [
            item(one, &STEPS[at..=at]),
            item(two, if at == 1 { &STEPS } else { &[] }),
        ];
        let items = &items[..if at == 1 { 2 } else { 1 }];
        let scored = prm.score(items).unwrap();
        let scored: Vec<Scored> = scored.into_iter().map(Result::unwrap).collect();
        own.push(scored[0].probabilities[0].unwrap());
        read_tokens += scored[0].read_tokens;
        if at == 1 {
            let both: Vec<f32> = scored[1].probabilities.iter().flatten().copied().collect();
            assert_eq!(both, whole);
        }
    }
    assert_eq!(own, whole);
    prm.release(one);
    prm.release(two);
    // The question is read once more for each step.
    let (spec, tokenizer) = (asking(), Arc::new(tokenizer));
    let question = ChainWriter::new(&spec, tokenizer, Path::new(MODEL)).unwrap();
    let question = question.question().len();
    let tokens = prm.written("1 + 3?", &STEPS).unwrap().tokens.len();
    assert_eq!(read_tokens, tokens + STEPS.len() * question);

    // With memory for little more than one chain, caches are forgotten all the time.
    let pages = (tokens + question).div_ceil(prm.engine().page_size()) + 3;
    let mut tight = load(pages * prm.page_bytes());
    let chains = [
        ("1 + 3?", &STEPS[..]),
        ("1 + 3?", &STEPS[..2]),
        ("1 + 3?", &STEPS[1..]),
    ];
    let usual = prm.whole_chains(&chains).unwrap();
    assert_eq!(tight.whole_chains(&chains).unwrap(), usual);
    assert_eq!(usual[1].as_deref().unwrap(), &whole[..2]);
}

/// The head on a CUDA device: the emulated one, unless there is a real one to be used.
#[test]
fn a_question_is_read_on_a_cuda_device() {
    if !beamgen_emulated_cuda::load() {
        return;
    }
    let scores = |device| {
        let config = EngineConfig {
            device,
            kv_bytes: 1 << 20,
            ..EngineConfig::default()
        };
        // In float32: with smaller weights a device would round inputs, and the CPU would not.
        let (pool, compute) = (ThreadPool::new(1), device.open().unwrap());
        let (own, weights) = ModelConfig::load_with_weights(Path::new(MODEL)).unwrap();
        let model = Model::on(&compute, own, &weights, WeightType::F32, &pool).unwrap();
        let body = Body {
            checkpoint: Path::new(MODEL).into(),
            model: Some(Arc::new(model)),
        };
        let mut prm = RewardModel::load(body, Some(asking()), None, config, pool).unwrap();
        prm.whole_chain("1 + 3?", &STEPS).unwrap()
    };
    let on_cpu = scores(DeviceChoice::Cpu);
    let on_device = scores(DeviceChoice::Cuda(0));
    for (cpu, device) in on_cpu.iter().zip(&on_device) {
        assert!((cpu - device).abs() < 1e-4, "{on_cpu:?}, {on_device:?}");
    }
    assert_eq!(on_device.len(), STEPS.len());
}

/// A template that begins the last answer with an empty thought, like Qwen3's.
#[test]
fn an_empty_thought_is_read_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(MODEL).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let template = include_str!("../../../../tests/fixtures/chat/thinking.jinja");
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    let tokenizer = Arc::new(Tokenizer::load(folder.path()).unwrap());
    let chat = ChatTemplate::of(&tokenizer).unwrap();
    let spec = judge("{ softmax = 9 }");
    let writer = ChainWriter::new(&spec, Arc::clone(&tokenizer), folder.path()).unwrap();
    let question = tokenizer.decode(writer.question(), false).unwrap();
    assert_eq!(question, "<think>\n\n</think>\n\nFrom 0 to 9: [");
    let written = writer.written("1 + 3?", &STEPS).unwrap();
    for (i, read_at) in written.read_at.into_iter().enumerate() {
        let text = judged(&chat, &STEPS[..=i]);
        assert_eq!(text.matches("<think>").count(), 1);
        let (read, _) = text.rsplit_once('9').unwrap();
        let ids = tokenizer.encode(read, false).unwrap();
        let own = [&written.tokens[..=read_at], writer.question()].concat();
        assert_eq!(own, ids, "step {i}");
    }
    let pool = ThreadPool::new(1);
    let mut prm = RewardModel::load(folder.path(), Some(spec), None, on_cpu(), pool).unwrap();
    let whole = prm.whole_chain("1 + 3?", &STEPS).unwrap();
    assert_eq!(prm.whole_chain("1 + 3?", &STEPS[..1]).unwrap(), whole[..1]);
}

/// The families of judges, with labels that the small tokenizer has.
#[test]
fn bundled_judges_are_written_by_the_chat_template() {
    for (name, answer) in [
        ("chat-judge", ""),
        ("genprm-direct", "**Judgement**: $\\boxed{"),
    ] {
        let mut spec = PrmSpec::named(name).unwrap();
        assert_eq!(spec.head, HeadSpec::Tokens(vec!["Yes".into(), "No".into()]));
        spec.head = HeadSpec::Tokens(vec!["+".into(), "-".into()]);
        spec.step.verdict = spec.step.verdict.map(|verdict| verdict.replace("Yes", "+"));
        let pool = ThreadPool::new(1);
        let prm = RewardModel::load(Path::new(MODEL), Some(spec), None, on_cpu(), pool);
        let mut prm = prm.unwrap();
        let scores = prm.whole_chain("1 + 3?", &STEPS).unwrap();
        assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)) && scores[0] != scores[1]);
        let written = prm.written("1 + 3?", &STEPS).unwrap();
        let tokenizer = Tokenizer::load(Path::new(MODEL)).unwrap();
        let read = tokenizer
            .decode(&written.tokens[..=written.read_at[1]], false)
            .unwrap();
        assert!(read.ends_with(answer) && read.contains(STEPS[1]), "{read}");
        assert!(
            !read.contains(STEPS[2]) && read.contains("math teacher"),
            "{read}"
        );
    }
}

/// A tokenizer that makes a token of two line breaks, and two tokens of them before a word.
#[test]
fn white_space_is_cut_where_the_tokenizer_cuts_it() {
    let folder = tempfile::tempdir().unwrap();
    let own = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/vocabulary-gpt2"
    );
    for file in ["vocab.json", "merges.txt", "config.json"] {
        std::fs::copy(format!("{own}/{file}"), folder.path().join(file)).unwrap();
    }
    let template = "{% for message in messages %}{{ message.role }}\n{{ message.content }}<|endoftext|>\n{% endfor %}";
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    let config = r#"{"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>"}"#;
    std::fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
    let tokenizer = Arc::new(Tokenizer::load(folder.path()).unwrap());
    let breaks = |text| tokenizer.encode(text, false).unwrap().len();
    assert_eq!((breaks("\n\n"), breaks("\n\na"), breaks("a")), (1, 3, 1));

    let mut turns = PrmSpec::named("chat-judge").unwrap();
    turns.head = HeadSpec::Tokens(vec!["1".into(), "3".into()]);
    turns.step.verdict = Some("1".into());
    for spec in [turns, PrmSpec::named("specreason").unwrap()] {
        let writer = ChainWriter::new(&spec, Arc::clone(&tokenizer), folder.path()).unwrap();
        let written = writer.written("1 + 3?", &STEPS).unwrap();
        let text = tokenizer.decode(&written.tokens, false).unwrap();
        assert_eq!(tokenizer.encode(&text, false).unwrap(), written.tokens);
        for read_at in written.read_at {
            let read = [&written.tokens[..=read_at], writer.question()].concat();
            let text = tokenizer.decode(&read, false).unwrap();
            assert_eq!(tokenizer.encode(&text, false).unwrap(), read, "{text}");
        }
    }
}

/// The page's own example.
#[test]
fn the_judge_of_the_page_works() {
    let page = include_str!("../../families/README.md");
    let (_, page) = page.split_once("### A chat model as judge").unwrap();
    let example = page
        .split("```")
        .nth(1)
        .unwrap()
        .strip_prefix("toml")
        .unwrap();
    let spec = PrmSpec::from_toml(example, "page.toml").unwrap();
    let pool = ThreadPool::new(1);
    let prm = RewardModel::load(Path::new(MODEL), Some(spec), None, on_cpu(), pool);
    let scores = prm.unwrap().whole_chain("1 + 3?", &STEPS).unwrap();
    assert_eq!(scores.len(), STEPS.len());
}

#[test]
fn read_outs_that_cannot_work_are_refused() {
    let refused = |text: &str| PrmSpec::from_toml(text, "x.toml").unwrap_err().to_string();
    for (normaliser, word) in [
        ("{ softmax = [0, 10] }", "class 10"),
        ("{ softmax = [1, 1] }", "twice"),
        ("{ softmax = [] }", "no class"),
        ("{ expected = [0, 1] }", "2 values"),
        ("{ expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0] }", "above 0"),
        ("\"mean-sigmoid\"", "softmax"),
    ] {
        let text = judge("{ softmax = 9 }").to_toml().unwrap();
        let from = text.find("[normaliser]").unwrap();
        let text = format!("normaliser = {normaliser}\n{}", &text[..from]);
        let error = refused(&text);
        assert!(
            error.contains("normaliser") && error.contains(word),
            "{error}"
        );
    }
    for (more, field) in [
        ("question = \"x\"\nverdict = \"+\"", "step.verdict"),
        (
            "question = \"x\"\nturns = true\nverdict = \"+\"",
            "step.question",
        ),
        (
            "question = \"x\"\nlead = \"x\"\n[prompt]\ntext = \"{{ problem }}\"",
            "step.lead",
        ),
    ] {
        let text =
            format!("normaliser = {{ softmax = 0 }}\nhead.tokens = [\"+\", \"-\"]\n[step]\n{more}");
        assert!(refused(&text).contains(field), "{}", refused(&text));
    }
    let lead = "normaliser = { softmax = 0 }\nhead.tokens = [\"+\", \"-\"]\nstep.lead = \"x\"";
    assert!(refused(lead).contains("step.lead"), "{}", refused(lead));
    assert_eq!(judge("{ softmax = 9 }").normaliser, {
        let all = PrmSpec::from_toml(&judge("{ softmax = 9 }").to_toml().unwrap(), "x");
        all.unwrap().normaliser
    });
    assert!(matches!(
        judge("{ expected = [0,1,2,3,4,5,6,7,8,9] }").normaliser,
        Normaliser::Expected(_)
    ));
}
