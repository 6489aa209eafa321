//! Reads streamed answers (server-sent events), and assembles each into the form of an answer that
//! is not streamed.
//!
//! `OpenAI`'s completions do not report the stop string that was found, and leave it out of the
//! text. So no stop strings are sent. The text is searched while it arrives, and the connection is
//! closed after the token in which the first such string ends. White space at the beginning of a
//! step is not searched.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::reply::{Reply, said};

/// The conditions that end a streamed text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Until {
    /// The strings after which the text ends.
    pub marks: Vec<String>,
    /// The most pieces of text that the stream may have.
    pub pieces: usize,
}

/// The text received so far, in the form of an answer that is not streamed.
#[derive(Debug)]
pub(crate) struct Completion<'a> {
    until: &'a Until,
    /// The bytes of an unfinished line; the first `searched` of them contain no line break.
    rest: Vec<u8>,
    searched: usize,
    choice: Choice,
    done: bool,
}

/// The only choice of an answer, with the names that the module `openai` reads.
#[derive(Debug, Default, Serialize)]
struct Choice {
    text: String,
    logprobs: Logprobs,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Logprobs {
    tokens: Vec<Option<String>>,
    token_logprobs: Vec<Option<f64>>,
}

/// A token in the form of chat answers, which some servers also use for completions.
#[derive(Debug, Deserialize)]
struct ChatToken {
    token: Option<String>,
    logprob: Option<f64>,
}

fn bad_event(reason: String) -> Failure {
    Failure::Answer(format!("{reason}, in an event of a stream"))
}

impl<'a> Completion<'a> {
    /// Makes an empty completion that ends at the conditions of `until`.
    pub(crate) fn new(until: &'a Until) -> Self {
        Self {
            until,
            rest: Vec::new(),
            searched: 0,
            choice: Choice::default(),
            done: false,
        }
    }

    /// Adds received bytes. Returns whether the rest of the stream is not needed.
    ///
    /// # Errors
    /// An event cannot be read, or reports an error.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        self.rest.extend_from_slice(bytes);
        let mut from = 0;
        while let Some(length) = self.rest[self.searched..].iter().position(|&b| b == b'\n') {
            let end = self.searched + length;
            let line = self.rest[from..end].to_vec();
            (from, self.searched) = (end + 1, end + 1);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            // Other lines are empty or comments, such as keep-alives.
            if let Some(data) = line.strip_prefix(b"data:") {
                self.event(data.trim_ascii())?;
            }
        }
        // Only the unfinished line is kept; the next bytes continue it.
        self.rest.drain(..from);
        self.searched = self.rest.len();
        Ok(self.done)
    }

    fn event(&mut self, data: &[u8]) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let event = Reply::parse(data).map_err(bad_event)?;
        if event.has("error") {
            let code = event.maybe::<u16>("error.code");
            return Err(Failure::Status {
                status: code.filter(|code| (400..600).contains(code)).unwrap_or(500),
                message: said(data),
                retry_after: None,
            });
        }
        self.add(event).map_err(bad_event)
    }

    /// Adds the choice of an event, or of an answer that was not streamed.
    fn add(&mut self, reply: Reply<'_>) -> Result<(), String> {
        if self.done {
            return Ok(());
        }
        let choice = &mut self.choice;
        let seen = choice.text.len();
        choice.text += &reply.maybe::<String>("choices.0.text").unwrap_or_default();
        let most = self.until.pieces;
        let logprobs = &mut choice.logprobs;
        let tokens = reply.maybe_list::<Option<String>>("choices.0.logprobs.tokens", most)?;
        logprobs.tokens.extend(tokens.unwrap_or_default());
        let values = reply.maybe_list::<Option<f64>>("choices.0.logprobs.token_logprobs", most)?;
        logprobs.token_logprobs.extend(values.unwrap_or_default());
        let chat = reply.maybe_list::<ChatToken>("choices.0.logprobs.content", most)?;
        for ChatToken { token, logprob } in chat.unwrap_or_default() {
            logprobs.tokens.push(token);
            logprobs.token_logprobs.push(logprob);
        }
        let count = logprobs.tokens.len().max(logprobs.token_logprobs.len());
        // Counted over all events, since a server could send an endless list in small pieces.
        if count > most {
            return Err(format!(
                "more than {most} tokens, where fewer were asked for"
            ));
        }
        if let Some(finish) = reply.maybe("choices.0.finish_reason") {
            // A server that names the text it stopped at did not come to the end of the text.
            let is_text = reply.maybe::<String>("choices.0.stop_reason").is_some();
            choice.finish_reason = Some(if is_text { "found".into() } else { finish });
        }
        self.look_for_end(seen);
        Ok(())
    }

    /// Cuts the text after the first mark whose end is after byte `seen`.
    fn look_for_end(&mut self, seen: usize) {
        let text = &self.choice.text;
        // A mark inside the white space at the beginning does not end the step: it would have to be
        // continued by another request, which would split the white space into other tokens.
        let blank = text.len() - text.trim_start().len();
        if let Some(end) = self
            .until
            .marks
            .iter()
            .filter_map(|mark| {
                // The beginning of a mark may be in an earlier piece.
                let mut from = seen.saturating_sub(mark.len().saturating_sub(1)).max(blank);
                while !text.is_char_boundary(from) {
                    from -= 1;
                }
                Some(from + text[from..].find(mark.as_str())? + mark.len())
            })
            .min()
        {
            let end = self.end_of_token(end);
            self.choice.text.truncate(end);
            self.choice.finish_reason = Some("found".into());
            self.done = true;
        }
    }

    /// Returns the end of the token that contains the byte before `end`, if the server reports its
    /// tokens. The bytes of that token after the step are left over for the next step.
    fn end_of_token(&self, end: usize) -> usize {
        let mut at = 0;
        for token in &self.choice.logprobs.tokens {
            let Some(token) = token.as_deref() else { break };
            if at >= end || !self.choice.text[at..].starts_with(token) {
                break;
            }
            at += token.len();
        }
        at.max(end)
    }

    /// Returns the assembled answer, after the stream has ended or its rest is not needed.
    ///
    /// # Errors
    /// The stream ended before the text did.
    pub(crate) fn whole(self) -> Result<Vec<u8>, Failure> {
        if !self.done && self.choice.finish_reason.is_none() {
            return Err(Failure::Cut("the stream ended before the text".into()));
        }
        let answer = BTreeMap::from([("choices", [self.choice])]);
        serde_json::to_vec(&answer).map_err(|error| Failure::Answer(error.to_string()))
    }

    /// Returns the answer of a server that did not stream, in the same form.
    pub(crate) fn of_whole(mut self, answer: &[u8]) -> Result<Vec<u8>, Failure> {
        let added = Reply::parse(answer).and_then(|reply| self.add(reply));
        added.map_err(Failure::Answer)?;
        self.whole()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(until: &[&str], chunks: &[&[u8]]) -> Result<(String, Value, usize), Failure> {
        let until = Until {
            marks: until.iter().map(|&mark| mark.to_owned()).collect(),
            pieces: 32,
        };
        let mut completion = Completion::new(&until);
        let mut taken = 0;
        for chunk in chunks {
            taken += 1;
            if completion.push(chunk)? {
                break;
            }
        }
        let answer: Value = serde_json::from_slice(&completion.whole()?).unwrap();
        let choice = &answer["choices"][0];
        let text = choice["text"].as_str().unwrap().to_owned();
        Ok((text, choice["finish_reason"].clone(), taken))
    }

    fn event(text: &str, finish: Value) -> Vec<u8> {
        let choice = json!({"text": text, "finish_reason": finish});
        format!("data: {}\r\n\r\n", json!({"choices": [choice]})).into_bytes()
    }

    fn token_event(text: &str, tokens: &[&str]) -> Vec<u8> {
        let choice = json!({"text": text, "logprobs": {"tokens": tokens}});
        format!("data: {}\n\n", json!({"choices": [choice]})).into_bytes()
    }

    #[test]
    fn parts_are_put_together_wherever_the_bytes_are_cut() {
        let mut all = b": keep-alive\n\n".to_vec();
        for (text, finish) in [
            ("caf", Value::Null),
            ("é 漢", Value::Null),
            ("!", "length".into()),
        ] {
            all.extend(event(text, finish));
        }
        all.extend(b"data: {\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n");
        for size in [1, 2, 3, 7, 1000] {
            let chunks: Vec<&[u8]> = all.chunks(size).collect();
            let (text, finish, _) = read(&["\n\n"], &chunks).unwrap();
            assert_eq!((text.as_str(), finish), ("café 漢!", "length".into()));
        }
    }

    #[test]
    fn nothing_is_read_behind_the_first_string() {
        let parts: Vec<Vec<u8>> = ["a漢\n", "\nStep", " 2", "never"]
            .iter()
            .map(|text| event(text, Value::Null))
            .collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let found = |until: &[&str]| read(until, &parts).unwrap();
        assert_eq!(found(&["\n\n"]), ("a漢\n\n".into(), "found".into(), 2));
        assert_eq!(
            found(&["Step 2", "S"]),
            ("a漢\n\nS".into(), "found".into(), 2)
        );
        let leading = [event("\n", Value::Null), event("\n\na\nb", Value::Null)];
        let leading: Vec<&[u8]> = leading.iter().map(Vec::as_slice).collect();
        assert_eq!(read(&["\n"], &leading).unwrap().0, "\n\n\na\n");
        assert_eq!(
            found(&["tep 2"]),
            ("a漢\n\nStep 2".into(), "found".into(), 3)
        );
    }

    #[test]
    fn the_last_token_is_whole_where_tokens_are_shown() {
        let found = |tokens: &[&str]| {
            let event = token_event(&tokens.concat(), tokens);
            read(&["\n"], &[&event]).unwrap().0
        };
        assert_eq!(found(&["a", "\n\n", "b"]), "a\n\n");
        assert_eq!(found(&["a", "\n", "\n"]), "a\n");
        assert_eq!(found(&["a\nb", "c"]), "a\nb");
    }

    #[test]
    fn a_stream_has_as_many_tokens_as_were_asked_for() {
        let [some, more] = [20, 40].map(|count| token_event("x", &vec!["x"; count]));
        let end = event("", "stop".into());
        assert!(read(&[], &[&some, &end]).is_ok());
        assert!(matches!(
            read(&[], &[&some, &some, &end]),
            Err(Failure::Answer(_))
        ));
        assert!(matches!(read(&[], &[&more]), Err(Failure::Answer(_))));
    }

    #[test]
    fn a_stream_that_breaks_off_or_fails_is_no_answer() {
        let half = event("half", Value::Null);
        assert!(matches!(read(&[], &[&half]), Err(Failure::Cut(_))));
        assert!(matches!(
            read(&[], &[b"data: {\n"]),
            Err(Failure::Answer(_))
        ));
        let error = b"data: {\"error\":{\"message\":\"full\",\"code\":503}}\n\n";
        let status = read(&[], &[&half, error]).unwrap_err();
        assert!(
            matches!(&status, Failure::Status { status: 503, message, .. } if message == "full")
        );
    }
}
