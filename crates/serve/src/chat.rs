//! Reads the messages of a chat: system prompt, earlier turns, problem, beginning of the answer.

use beamgen::{Role, Turn};
use serde_json::{Map, Value};

use crate::fields::Fields;
use crate::refusal::Refusal;

/// The parts of a chat.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Conversation {
    pub system: Option<String>,
    /// The earlier turns, oldest first, without the problem.
    pub turns: Vec<Turn>,
    pub problem: String,
    /// The beginning of the answer; empty unless the request asks to continue the last message.
    pub prefix: String,
}

/// Whether the answer continues the last message of the chat, by vLLM's fields.
pub(crate) fn continues(fields: &mut Fields) -> Result<bool, Refusal> {
    let continues = fields.flag("continue_final_message")?;
    let begins = fields.maybe_flag("add_generation_prompt")?;
    if continues && begins == Some(true) {
        let reason = "cannot be true together with continue_final_message: set it to false";
        return Err(fields.wrong("add_generation_prompt", reason));
    }
    if !continues && begins == Some(false) {
        let reason =
            "without a new message there is no answer: leave it out, or add continue_final_message";
        return Err(unsupported("add_generation_prompt", reason));
    }
    Ok(continues)
}

/// Fields of a message that do not change the prompt.
const WITHOUT_EFFECT: [&str; 6] = [
    "name",
    "annotations",
    "cache_control",
    "reasoning",
    "reasoning_content",
    "weight",
];

/// Reads the messages of a chat. System messages come first; the last user message is the problem.
pub(crate) fn read(messages: Option<Value>, continues: bool) -> Result<Conversation, Refusal> {
    let Some(Value::Array(messages)) = messages else {
        return Err(wrong("messages", "not an array of messages: send one"));
    };
    let (mut system, mut turns) = (Vec::new(), Vec::new());
    for (at, message) in messages.into_iter().enumerate() {
        let place = format!("messages[{at}]");
        let Value::Object(mut message) = message else {
            return Err(wrong(
                &place,
                "not a message: send an object with role and content",
            ));
        };
        let role = message.shift_remove("role");
        let role = match role.as_ref().and_then(Value::as_str).unwrap_or_default() {
            "system" | "developer" if turns.is_empty() => None,
            "system" | "developer" => {
                let reason =
                    "a system message after other messages is not supported: send it first";
                return Err(unsupported(&place, reason));
            }
            "user" => Some(Role::User),
            "assistant" => Some(Role::Assistant),
            "tool" | "function" => {
                let reason =
                    "results of tools are not supported: send them as text of a user message";
                return Err(unsupported(&place, reason));
            }
            _ => {
                let reason = "unknown role: use user, assistant, system or developer";
                return Err(wrong(&format!("{place}.role"), reason));
            }
        };
        let text = content(&place, &mut message)?;
        match role {
            // Some clients send empty system messages. These must not replace the system prompt of
            // the settings.
            None => system.extend(Some(text).filter(|text| !text.trim().is_empty())),
            Some(Role::User) if text.trim().is_empty() => {
                return Err(wrong(
                    &format!("{place}.content"),
                    "empty: send the problem's text",
                ));
            }
            Some(role) => turns.push((
                place.clone(),
                Turn {
                    role,
                    content: text,
                },
            )),
        }
        refuse_others(&place, message)?;
    }
    let prefix = prefix(&mut turns, continues)?;
    let Some((_, problem)) = turns.pop() else {
        return Err(wrong("messages", "no user message: send one"));
    };
    Ok(Conversation {
        system: (!system.is_empty()).then(|| system.join("\n\n")),
        turns: turns.into_iter().map(|(_, turn)| turn).collect(),
        problem: problem.content,
        prefix,
    })
}

/// Removes the last message if the answer should continue it, and returns its text. Checks that the
/// chat then ends with a user message.
fn prefix(turns: &mut Vec<(String, Turn)>, continues: bool) -> Result<String, Refusal> {
    let is_assistant = |(_, turn): &(String, Turn)| turn.role == Role::Assistant;
    let prefix = match turns.pop_if(|last| is_assistant(last)) {
        Some((_, last)) if continues => last.content,
        Some((place, _)) => {
            let reason = "the last message is the assistant's: add continue_final_message, or end with a user message";
            return Err(unsupported(&place, reason));
        }
        None if continues => {
            let reason = "the last message is not the assistant's: leave it out, or add the beginning of the answer";
            return Err(wrong("continue_final_message", reason));
        }
        None => String::new(),
    };
    match turns.last() {
        Some(last) if is_assistant(last) => {
            let reason = "two messages of the assistant, one after the other: join them";
            Err(unsupported(&last.0, reason))
        }
        Some(_) => Ok(prefix),
        None => Err(wrong("messages", "no user message: send one")),
    }
}

/// Refuses a message with fields that would change the prompt.
fn refuse_others(place: &str, mut message: Map<String, Value>) -> Result<(), Refusal> {
    for key in WITHOUT_EFFECT {
        message.shift_remove(key);
    }
    // Some clients write unset fields as null or as empty lists.
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    match message.iter().find(|(_, value)| !is_empty(value)) {
        Some((key, _)) => {
            let key: String = key.chars().take(100).collect();
            let reason = "a message has role, content and name here";
            Err(unsupported(&format!("{place}.{key}"), reason))
        }
        None => Ok(()),
    }
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

    fn read(messages: Value) -> Result<Conversation, Refusal> {
        super::read(Some(messages), false)
    }

    fn refused(messages: Value) -> String {
        read(messages).unwrap_err().message.into_owned()
    }

    fn turn(role: Role, content: &str) -> Turn {
        let content = content.to_owned();
        Turn { role, content }
    }

    #[test]
    fn a_user_message_is_the_problem_and_what_stands_before_it_the_system_prompt() {
        let messages = json!([
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "right."}]},
            {"role": "user", "content": "1 + 1?", "name": "mia"},
        ]);
        let read = read(messages).unwrap();
        assert_eq!(read.problem, "1 + 1?");
        assert_eq!(read.system.as_deref(), Some("Be brief.\n\nAnd right."));
        assert_eq!((read.turns, read.prefix), (Vec::new(), String::new()));
    }

    #[test]
    fn earlier_messages_are_turns() {
        // OpenAI's SDK sends an earlier answer back in this form.
        let answer = json!({"role": "assistant", "content": "2", "refusal": null, "annotations": [], "tool_calls": []});
        let messages = json!([
            {"role": "user", "content": "1 + 1?"},
            answer,
            {"role": "user", "content": "And 2 + 2?"},
        ]);
        let read = read(messages).unwrap();
        let turns = [turn(Role::User, "1 + 1?"), turn(Role::Assistant, "2")];
        assert_eq!(read.turns, turns);
        assert_eq!(read.problem, "And 2 + 2?");
    }

    #[test]
    fn a_final_message_of_the_assistant_is_the_beginning_of_the_answer_if_it_is_continued() {
        let messages = json!([
            {"role": "user", "content": "1 + 1?"},
            {"role": "assistant", "content": "1 + 1 = "},
        ]);
        let continued = |body: Value| {
            let body = body.as_object().cloned().unwrap_or_default();
            let continues = continues(&mut Fields::new(body, ""))?;
            super::read(Some(messages.clone()), continues)
        };
        for more in [json!({}), json!({"add_generation_prompt": false})] {
            let mut body = more;
            body["continue_final_message"] = true.into();
            let read = continued(body).unwrap();
            assert_eq!(
                (read.problem.as_str(), read.prefix.as_str()),
                ("1 + 1?", "1 + 1 = ")
            );
        }
        let both = json!({"continue_final_message": true, "add_generation_prompt": true});
        for (body, begin) in [
            (both, "add_generation_prompt: cannot be true"),
            (
                json!({"add_generation_prompt": false}),
                "add_generation_prompt: without a new message",
            ),
            (
                json!({}),
                "messages[1]: the last message is the assistant's",
            ),
        ] {
            let message = continued(body).unwrap_err().message;
            assert!(message.starts_with(begin), "{message}");
        }
        let user = json!([{"role": "user", "content": "x"}]);
        let message = super::read(Some(user), true).unwrap_err().message;
        assert!(message.starts_with("continue_final_message: "), "{message}");
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
            let alone = read(json!([message, user])).unwrap();
            assert_eq!(alone.system, None);
            let both = read(json!([message, brief, message, user])).unwrap();
            assert_eq!(both.system.as_deref(), Some("Be brief."));
        }
        let missing = json!([{"role": "system"}, user]);
        assert!(refused(missing).starts_with("messages[0].content: not a text"));
    }

    #[test]
    fn what_no_prompt_can_have_is_refused_with_its_place() {
        let user = json!({"role": "user", "content": "x"});
        let assistant = json!({"role": "assistant", "content": "x"});
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
            (
                json!([user, assistant]),
                "messages[1]: the last message is the assistant's",
            ),
            (
                json!([user, {"role": "system", "content": "x"}]),
                "messages[1]: a system message after",
            ),
            (
                json!([user, {"role": "tool", "content": "x"}, user]),
                "messages[1]: results of tools",
            ),
            (
                json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]),
                "messages[0].content[0]: only parts of type text",
            ),
            (
                json!([user, {"role": "assistant", "content": "x", "tool_calls": [{}]}, user]),
                "messages[1].tool_calls: ",
            ),
        ] {
            let message = refused(messages);
            assert!(message.starts_with(begin), "{message}");
        }
        let two = json!([user, assistant, assistant]);
        let message = super::read(Some(two), true).unwrap_err().message;
        assert!(
            message.starts_with("messages[1]: two messages"),
            "{message}"
        );
    }
}
