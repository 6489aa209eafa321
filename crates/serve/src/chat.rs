//! Reads the problem from the messages of a chat.

use serde_json::{Map, Value};

use crate::refusal::Refusal;

/// The system prompt and the problem of a chat.
#[derive(Debug, PartialEq)]
pub(crate) struct Conversation {
    pub system: Option<String>,
    pub problem: String,
}

/// Reads a user message, and the system messages before it. A search solves a single problem, so earlier
/// turns are an error.
pub(crate) fn read(messages: Option<Value>) -> Result<Conversation, Refusal> {
    let Some(Value::Array(messages)) = messages else {
        return Err(wrong("messages", "not an array of messages: send one"));
    };
    let (mut system, mut problem) = (Vec::new(), None);
    for (at, message) in messages.into_iter().enumerate() {
        let place = format!("messages[{at}]");
        let Value::Object(mut message) = message else {
            return Err(wrong(
                &place,
                "not a message: send an object with role and content",
            ));
        };
        let role = message.shift_remove("role");
        let role = role.as_ref().and_then(Value::as_str).unwrap_or_default();
        match role {
            "system" | "developer" if problem.is_none() => {
                let text = content(&place, &mut message)?;
                // Clients send empty system messages: without text, the settings' prompt stays.
                system.extend(Some(text).filter(|text| !text.trim().is_empty()));
            }
            "user" if problem.is_none() => {
                let text = content(&place, &mut message)?;
                if text.trim().is_empty() {
                    return Err(wrong(
                        &format!("{place}.content"),
                        "empty: send the problem's text",
                    ));
                }
                problem = Some(text);
            }
            "system" | "developer" | "user" | "assistant" | "tool" | "function" => {
                let reason = "a search solves a single problem: send one user message, without earlier turns";
                return Err(unsupported(&place, reason));
            }
            _ => {
                let reason = "unknown role: use user, system or developer";
                return Err(wrong(&format!("{place}.role"), reason));
            }
        }
        // OpenAI's API lets a message name its author, which a prompt has no place for.
        message.shift_remove("name");
        // Some clients write fields that are not set as null.
        let left = message.iter().find(|(_, value)| !value.is_null());
        if let Some((key, _)) = left {
            let key: String = key.chars().take(100).collect();
            let reason = "a message has role, content and name here";
            return Err(unsupported(&format!("{place}.{key}"), reason));
        }
    }
    Ok(Conversation {
        problem: problem.ok_or_else(|| wrong("messages", "no user message: send one"))?,
        system: (!system.is_empty()).then(|| system.join("\n\n")),
    })
}

fn content(place: &str, message: &mut Map<String, Value>) -> Result<String, Refusal> {
    let place = format!("{place}.content");
    match message.shift_remove("content") {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Array(parts)) => {
            let mut text = String::new();
            for (at, part) in parts.iter().enumerate() {
                let is_text = part["type"] == "text";
                let piece = part["text"].as_str().filter(|_| is_text);
                let reason = "only parts of type text can be read";
                text += piece.ok_or_else(|| unsupported(&format!("{place}[{at}]"), reason))?;
            }
            Ok(text)
        }
        _ => Err(wrong(&place, "not a text: send a string")),
    }
}

fn wrong(param: &str, reason: &str) -> Refusal {
    Refusal::field("invalid_value", param, reason)
}

fn unsupported(param: &str, reason: &str) -> Refusal {
    Refusal::field("unsupported_field", param, reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(messages: Value) -> String {
        read(Some(messages)).unwrap_err().message.into_owned()
    }

    #[test]
    fn a_user_message_is_the_problem_and_what_stands_before_it_the_system_prompt() {
        let messages = json!([
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "right."}]},
            {"role": "user", "content": "1 + 1?", "name": "mia"},
        ]);
        let read = read(Some(messages)).unwrap();
        assert_eq!(read.problem, "1 + 1?");
        assert_eq!(read.system.as_deref(), Some("Be brief.\n\nAnd right."));
    }

    #[test]
    fn empty_system_messages_say_nothing() {
        let user = json!({"role": "user", "content": "1 + 1?"});
        let empty = [
            json!(""),
            json!(" \n"),
            json!([]),
            json!([{"type": "text", "text": ""}]),
        ];
        let roles = ["system", "developer"];
        for (role, content) in roles
            .iter()
            .flat_map(|role| empty.iter().map(move |e| (role, e)))
        {
            let message = json!({"role": role, "content": content});
            let brief = json!({"role": "system", "content": "Be brief."});
            let alone = read(Some(json!([message, user]))).unwrap();
            assert_eq!(alone.system, None);
            let both = read(Some(json!([message, brief, message, user]))).unwrap();
            assert_eq!(both.system.as_deref(), Some("Be brief."));
        }
        let missing = json!([{"role": "system"}, user]);
        assert!(refused(missing).starts_with("messages[0].content: not a text"));
    }

    #[test]
    fn what_a_search_cannot_do_is_refused_with_its_place() {
        let user = json!({"role": "user", "content": "x"});
        for (messages, begin) in [
            (json!(3), "messages: not an array"),
            (json!([]), "messages: no user message"),
            (json!(["x"]), "messages[0]: not a message"),
            (json!([{"role": "user"}]), "messages[0].content: not a text"),
            (
                json!([{"role": "user", "content": " "}]),
                "messages[0].content: empty",
            ),
            (
                json!([{"role": "robot", "content": "x"}]),
                "messages[0].role: ",
            ),
            (json!([user, user]), "messages[1]: a search solves a single"),
            (
                json!([{"role": "assistant", "content": "x"}, user]),
                "messages[0]: a search solves a single",
            ),
            (
                json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]),
                "messages[0].content[0]: only parts of type text",
            ),
            (
                json!([{"role": "user", "content": "x", "tool_calls": []}]),
                "messages[0].tool_calls: ",
            ),
        ] {
            let message = refused(messages);
            assert!(message.starts_with(begin), "{message}");
        }
    }
}
