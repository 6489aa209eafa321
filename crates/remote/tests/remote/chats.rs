//! Judges over endpoints that have `OpenAI`'s chats and no route for plain text.

use std::sync::Arc;

use beamgen_engine::{ChatTemplate, Ending, Message, Output, Tokenizer};
use beamgen_prm::PrmSpec;
use beamgen_remote::{Remote, RemoteScorer, ServerFacts};
use serde_json::{Value, json};

use crate::fake::{Fake, Reply, Seen};
use crate::runs::servers;
use crate::scoring::{Served, expected, folder, grow, spec};

const MODEL: &str = "Llama3.1-8B-PRM-Deepseek-Data";

/// The behaviour of a server.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    /// Ignores `continue_final_message`.
    Ignores,
    /// Lists each label only if it is likely.
    Lists(f64),
}

/// An endpoint that serves the model of a fixture by chats only.
fn chats(kind: Kind, labels: &'static [&'static str]) -> Fake {
    let served = Served::load(MODEL);
    let tokenizer = Tokenizer::load(&*folder(MODEL)).unwrap();
    let template = ChatTemplate::of(&tokenizer).unwrap();
    Fake::start(move |seen| {
        match seen.path.as_str() {
            "/v1/models" => {
                let models = json!({"data": [{"id": "prm", "max_model_len": 512}]});
                return Reply::Json(200, models);
            }
            "/v1/chat/completions" => {}
            _ => return Reply::Json(404, json!({"detail": "Not Found"})),
        }
        let field = |message: &'static str| {
            move |value: &Value| value[message].as_str().unwrap().to_owned()
        };
        let messages = seen.body["messages"].as_array().unwrap();
        let roles: Vec<String> = messages.iter().map(field("role")).collect();
        let contents: Vec<String> = messages.iter().map(field("content")).collect();
        let messages: Vec<Message<'_>> = roles
            .iter()
            .zip(&contents)
            .map(|(role, content)| Message { role, content })
            .collect();
        let continues = seen.body["continue_final_message"] == json!(true) && kind != Kind::Ignores;
        let ending = if continues {
            Ending::Continue
        } else {
            Ending::Generation
        };
        let text = template.render(&messages, ending).unwrap();
        let ids = tokenizer.encode(&text, false).unwrap();
        let row = &served.rows(&ids, &[ids.len() - 1], Output::Logits)[0];
        let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        let logprob = |id: u32| f64::from(row[id as usize]) - sum.ln();
        let text = |id: u32| String::from_utf8_lossy(tokenizer.token_bytes(id)).into_owned();
        let mut top: Vec<(String, f64)> = (0..tokenizer.len() as u32)
            .map(|id| (text(id), logprob(id)))
            .collect();
        // The fixture's model is random, so its labels are listed first, as a judge's are.
        top.sort_by(|a, b| {
            let is_label = |text: &str| labels.contains(&text);
            is_label(&b.0)
                .cmp(&is_label(&a.0))
                .then(b.1.total_cmp(&a.1))
        });
        if let Kind::Lists(offset) = kind {
            // All tokens but the first label are unlikely.
            top.retain(|(text, _)| text != labels[1]);
            for (at, (_, logprob)) in top.iter_mut().enumerate() {
                *logprob = if at == 0 { -0.001 } else { offset };
            }
        }
        top.truncate(20);
        let top = top
            .iter()
            .map(|(token, logprob)| json!({"token": token, "logprob": logprob, "bytes": null}));
        let top: Vec<Value> = top.collect();
        Reply::Json(
            200,
            json!({
                "choices": [{"logprobs": {"content": [{"token": "x", "top_logprobs": top}]}}],
                "usage": {"prompt_tokens": ids.len()},
            }),
        )
    })
}

fn judge(
    server: &Fake,
    remote: &Remote,
    spec: &PrmSpec,
    engine: Option<&str>,
) -> Result<(RemoteScorer, ServerFacts), String> {
    let mut servers = servers([server.url()]);
    servers.engine = engine.map(str::to_owned);
    let tokenizer = Arc::new(Tokenizer::load(&*folder(MODEL)).unwrap());
    let connection = remote.connect("prm", &servers).unwrap();
    let made = remote.scorer(connection, tokenizer, spec);
    made.map_err(|error| error.to_string())
}

fn with(step: &str) -> PrmSpec {
    let text = format!(
        "normaliser = {{ softmax = 0 }}\nprompt.system = \"Judge the last step.\"\nhead.tokens = [\"1\", \"0\"]\n[step]\n{step}"
    );
    PrmSpec::from_toml(&text, "judge.toml").unwrap()
}

fn turns(lead: &str) -> PrmSpec {
    with(&format!(
        "turns = true\nfirst = \"{{{{ problem }}}} {{{{ step }}}}\"\ntext = \"{{{{ index }}}}: {{{{ step }}}}\"\nverdict = \"1\"\n{lead}"
    ))
}

/// Scores over chats are those over token ids: each judge's own question, the turns before it, and
/// the beginning of its answer.
#[test]
fn a_chat_gives_the_scores_of_its_tokens() {
    let question =
        with("text = \"{{ step }};\"\nquestion = \"Is that right?\"\nlead = \"Mark:\"\n");
    let judges = [
        (spec(MODEL), &["+", "-"] as &'static [&'static str]),
        (turns(""), &["1", "0"]),
        (turns("lead = \"Mark: [\"\n"), &["1", "0"]),
        (question, &["1", "0"]),
    ];
    let chains = expected(MODEL);
    for (i, (spec, labels)) in judges.iter().enumerate() {
        let remote = Remote::new().unwrap();
        let exact = Fake::start({
            let served = Served::load(MODEL);
            move |seen: &Seen| served.reply(seen)
        });
        let wanted = grow(
            &mut judge(&exact, &remote, spec, None).unwrap().0,
            MODEL,
            &chains,
        );
        let server = chats(Kind::Plain, labels);
        let (mut scorer, facts) = judge(&server, &remote, spec, Some("openai")).unwrap();
        assert_eq!(facts.route.as_deref(), Some("label tokens of chats"));
        let found = grow(&mut scorer, MODEL, &chains);
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
            assert!((found - wanted).abs() < 1e-5, "judge {i}: {found} {wanted}");
        }
        let seen = server.seen();
        let last = seen.last().unwrap();
        assert_eq!(last.body["max_tokens"], 1);
        // The template of this model cannot think.
        assert!(last.body.get("chat_template_kwargs").is_none());
    }
}

#[test]
fn a_server_that_does_not_continue_the_answer_is_refused() {
    let remote = Remote::new().unwrap();
    let server = chats(Kind::Ignores, &["1", "0"]);
    let refused = judge(
        &server,
        &remote,
        &turns("lead = \"Mark: [\"\n"),
        Some("openai"),
    )
    .unwrap_err();
    assert!(
        refused.contains(&server.url())
            && refused.contains("continue_final_message")
            && refused.contains("`step.lead`"),
        "{refused}"
    );
    // Without a beginning of the answer nothing is continued.
    judge(&server, &remote, &turns(""), Some("openai")).unwrap();
}

/// A label that is missing among the likeliest tokens counts as the last of them, if that changes
/// nothing.
#[test]
fn a_missing_label_counts_only_if_it_cannot_matter() {
    let remote = Remote::new().unwrap();
    let chains = expected(MODEL);
    let server = chats(Kind::Lists(-10.0), &["1", "0"]);
    let (mut scorer, _) = judge(&server, &remote, &turns(""), Some("openai")).unwrap();
    let found = grow(&mut scorer, MODEL, &chains);
    assert!(
        found
            .iter()
            .flatten()
            .all(|score| (0.999..=1.0).contains(score)),
        "{found:?}"
    );
    let server = chats(Kind::Lists(-3.0), &["1", "0"]);
    let refused = judge(&server, &remote, &turns(""), Some("openai")).unwrap_err();
    assert!(
        refused.contains("label \"0\" is not among the 20 likeliest tokens"),
        "{refused}"
    );
}

/// The error is that of the route that the server has.
#[test]
fn an_endpoint_without_any_route_is_refused() {
    let server = Fake::start(|seen| match seen.path.as_str() {
        "/v1/models" => Reply::Json(200, json!({"data": [{"id": "m", "max_model_len": 512}]})),
        _ => Reply::Json(404, json!({"detail": "Not Found"})),
    });
    let remote = Remote::new().unwrap();
    let refused = judge(&server, &remote, &turns(""), Some("openai")).unwrap_err();
    assert!(refused.contains("404"), "{refused}");
}
