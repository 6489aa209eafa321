//! Judges of one token: a text before the verdict, and read-outs of several tokens.

use std::path::Path;
use std::sync::Arc;

use beamgen_engine::{ChatTemplate, Ending, Message, ThreadPool, Tokenizer};
use beamgen_prm::{ChainWriter, HeadSpec, Normaliser, PrmSpec, RewardModel};

use crate::models::on_cpu;

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

#[test]
fn the_score_is_read_after_the_lead() {
    let tokenizer = Arc::new(Tokenizer::load(Path::new(MODEL)).unwrap());
    let chat = ChatTemplate::of(&tokenizer).unwrap();
    let spec = judge("{ softmax = 9 }");
    let writer = ChainWriter::new(&spec, Arc::clone(&tokenizer), Path::new(MODEL)).unwrap();
    let written = writer.written("1 + 3?", &STEPS).unwrap();
    assert_eq!(written.read_at.len(), STEPS.len());
    for (i, read_at) in written.read_at.into_iter().enumerate() {
        // The chat as the template writes it, with the answers so far.
        let mut messages = vec![Message::system("Judge the last step.")];
        let first = format!("1 + 3? {}", STEPS[0]);
        for (at, step) in STEPS[..=i].iter().enumerate() {
            messages.push(Message::user(if at == 0 { &first } else { step }));
            messages.push(Message::assistant("From 0 to 9: [9"));
        }
        let text = chat.render(&messages, Ending::Closed).unwrap();
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
