//! Compares rendered chats with those of `transformers`, from
//! `tests/fixtures/chat/make_expected.py`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use beamgen_engine::{ChatTemplate, Ending, Message};
use serde_json::Value;

fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/chat");
    std::fs::read_to_string(PathBuf::from(folder).join(name)).unwrap()
}

#[test]
fn every_template_is_rendered_as_transformers_renders_it() {
    let expected: Value = serde_json::from_str(&fixture("expected.json")).unwrap();
    let tokens: BTreeMap<String, String> =
        serde_json::from_value(expected["tokens"].clone()).unwrap();
    let rendered = expected["rendered"].as_object().unwrap();
    let (mut rendered_alike, mut refused) = (0, 0);
    for (name, cases) in rendered {
        let source = fixture(&format!("{name}.jinja"));
        let mut template = ChatTemplate::new(Some(&source), tokens.clone()).unwrap();
        template.set_date("2024-07-06").unwrap();
        for case in cases.as_array().unwrap() {
            let chat = &expected["chats"][case["chat"].as_u64().unwrap() as usize];
            let messages: Vec<Message<'_>> = chat
                .as_array()
                .unwrap()
                .iter()
                .map(|message| Message {
                    role: message["role"].as_str().unwrap(),
                    content: message["content"].as_str().unwrap(),
                })
                .collect();
            let ending = match case["ending"].as_str().unwrap() {
                "closed" => Ending::Closed,
                "generation" => Ending::Generation,
                _ => Ending::Continue,
            };
            let ours = template.render(&messages, ending);
            match case["text"].as_str() {
                Some(text) => assert_eq!(ours.as_deref().ok(), Some(text), "{name}: {case}"),
                None => assert!(ours.is_err(), "{name}: {case}: {ours:?}"),
            }
            rendered_alike += usize::from(ours.is_ok());
            refused += usize::from(ours.is_err());
        }
    }
    assert!(
        rendered.len() >= 10 && rendered_alike > 200 && refused > 20,
        "{rendered_alike}, {refused}"
    );
}
