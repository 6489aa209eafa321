//! An answer that comes as a stream of server-sent events, put together as if it had come whole.
//!
//! OpenAI's completions do not say which string they stopped at, and leave it out. So none is sent:
//! the text is read as it comes, and the connection is closed behind the token in which the first
//! such string ends. White space that a step begins with is passed over.

use serde_json::{Value, json};

use crate::error::{Failure, said};

/// The completion so far, in the shape of an answer that is not streamed.
#[derive(Debug)]
pub(crate) struct Completion<'a> {
    until: &'a [String],
    /// Bytes of an event that has not ended.
    rest: Vec<u8>,
    text: String,
    tokens: Vec<Value>,
    logprobs: Vec<Value>,
    finish: Value,
    done: bool,
}

impl<'a> Completion<'a> {
    /// Ends behind the token in which the first of these strings ends.
    pub fn new(until: &'a [String]) -> Self {
        Self {
            until,
            rest: Vec::new(),
            text: String::new(),
            tokens: Vec::new(),
            logprobs: Vec::new(),
            finish: Value::Null,
            done: false,
        }
    }

    /// Takes bytes as they come. Nothing more is wanted once it returns true.
    ///
    /// # Errors
    /// An event that cannot be read, or that is an error.
    pub fn push(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        self.rest.extend_from_slice(bytes);
        let mut from = 0;
        while let Some(length) = self.rest[from..].iter().position(|&byte| byte == b'\n') {
            let line = self.rest[from..from + length].to_vec();
            from += length + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            // What does not begin so is a comment or an empty line.
            if let Some(data) = line.strip_prefix(b"data:") {
                self.event(data.trim_ascii())?;
            }
        }
        self.rest.drain(..from);
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
        let event: Value = serde_json::from_slice(data)
            .map_err(|error| Failure::Answer(format!("{error} in an event of a stream")))?;
        if !event["error"].is_null() {
            let error = &event["error"];
            let code = error["code"].as_u64().and_then(|code| code.try_into().ok());
            return Err(Failure::Status {
                status: code.filter(|code| (400..600).contains(code)).unwrap_or(500),
                message: said(data),
                retry_after: None,
            });
        }
        self.add(&event["choices"][0]);
        Ok(())
    }

    /// Adds what a choice has: a part of the text, or all of it.
    fn add(&mut self, choice: &Value) {
        if self.done {
            return;
        }
        let seen = self.text.len();
        self.text += choice["text"].as_str().unwrap_or_default();
        for (all, more) in [
            (&mut self.tokens, &choice["logprobs"]["tokens"]),
            (&mut self.logprobs, &choice["logprobs"]["token_logprobs"]),
        ] {
            all.extend(more.as_array().into_iter().flatten().cloned());
        }
        // The shape of chats, which some have here, too.
        for token in choice["logprobs"]["content"]
            .as_array()
            .into_iter()
            .flatten()
        {
            self.tokens.push(token["token"].clone());
            self.logprobs.push(token["logprob"].clone());
        }
        if !choice["finish_reason"].is_null() {
            self.finish = choice["finish_reason"].clone();
        }
        // A step does not end before it has begun, and to ask anew there would cut its white space
        // into other tokens.
        let blank = self.text.len() - self.text.trim_start().len();
        let end_of = |mark: &String| {
            let mut from = seen.saturating_sub(mark.len().saturating_sub(1)).max(blank);
            while !self.text.is_char_boundary(from) {
                from -= 1;
            }
            Some(from + self.text[from..].find(mark.as_str())? + mark.len())
        };
        if let Some(end) = self.until.iter().filter_map(end_of).min() {
            self.text.truncate(self.end_of_token(end));
            self.finish = "found".into();
            self.done = true;
        }
    }

    /// Where the token ends in which the byte before `end` is, if the server shows its tokens: a
    /// step carries the rest of its last token on.
    fn end_of_token(&self, end: usize) -> usize {
        let mut at = 0;
        for token in &self.tokens {
            let Some(token) = token.as_str() else { break };
            if at >= end || !self.text[at..].starts_with(token) {
                break;
            }
            at += token.len();
        }
        match at >= end {
            true => at,
            false => end,
        }
    }

    /// The answer, when the stream is over or nothing more is wanted.
    ///
    /// # Errors
    /// It broke off.
    pub fn whole(self) -> Result<Value, Failure> {
        if !self.done && self.finish.is_null() {
            return Err(Failure::Cut("the stream ended before the text".into()));
        }
        Ok(json!({"choices": [{
            "text": self.text,
            "logprobs": {"tokens": self.tokens, "token_logprobs": self.logprobs},
            "finish_reason": self.finish,
        }]}))
    }

    /// The same of a server that does not stream.
    pub fn of_whole(mut self, answer: &Value) -> Result<Value, Failure> {
        self.add(&answer["choices"][0]);
        self.whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(until: &[&str], chunks: &[&[u8]]) -> Result<(String, Value, usize), Failure> {
        let until: Vec<String> = until.iter().map(|&mark| mark.to_owned()).collect();
        let mut completion = Completion::new(&until);
        let mut taken = 0;
        for chunk in chunks {
            taken += 1;
            if completion.push(chunk)? {
                break;
            }
        }
        let answer = completion.whole()?;
        let choice = &answer["choices"][0];
        let text = choice["text"].as_str().unwrap().to_owned();
        Ok((text, choice["finish_reason"].clone(), taken))
    }

    fn event(text: &str, finish: Value) -> Vec<u8> {
        let choice = json!({"text": text, "finish_reason": finish});
        format!("data: {}\r\n\r\n", json!({"choices": [choice]})).into_bytes()
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
        let event = |tokens: &[&str]| {
            let choice = json!({"text": tokens.concat(), "logprobs": {"tokens": tokens}});
            format!("data: {}\n\n", json!({"choices": [choice]})).into_bytes()
        };
        let found = |tokens: &[&str]| read(&["\n"], &[&event(tokens)]).unwrap().0;
        assert_eq!(found(&["a", "\n\n", "b"]), "a\n\n");
        assert_eq!(found(&["a", "\n", "\n"]), "a\n");
        assert_eq!(found(&["a\nb", "c"]), "a\nb");
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
