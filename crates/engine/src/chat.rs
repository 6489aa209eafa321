//! Chats as text: a checkpoint's Jinja template, rendered as `transformers` does.

use minijinja::{Environment, ErrorKind, context};
use serde::Serialize;

use crate::{Error, Tokenizer};

const NAME: &str = "chat_template";

/// One turn of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Message<'a> {
    /// `system`, `user` or `assistant`.
    pub role: &'a str,
    /// What is said.
    pub content: &'a str,
}

impl<'a> Message<'a> {
    /// A turn of the system.
    #[must_use]
    pub fn system(content: &'a str) -> Self {
        Self {
            role: "system",
            content,
        }
    }

    /// A turn of the user.
    #[must_use]
    pub fn user(content: &'a str) -> Self {
        Self {
            role: "user",
            content,
        }
    }

    /// A turn of the assistant.
    #[must_use]
    pub fn assistant(content: &'a str) -> Self {
        Self {
            role: "assistant",
            content,
        }
    }
}

/// Where a rendered chat stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Behind the last turn.
    Closed,
    /// Where the assistant's next turn begins (`add_generation_prompt`).
    Generation,
    /// Inside the last turn, behind its content (`continue_final_message`).
    Continue,
}

/// A checkpoint's Jinja chat template, as `transformers` renders it.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos_token: Option<String>,
    eos_token: Option<String>,
    /// Without a template (a base model) the problem itself is the prompt.
    plain: bool,
}

impl ChatTemplate {
    /// The template that came with `tokenizer`; without one, the prompt is the problem's text.
    ///
    /// # Errors
    /// [`Error::Template`] if it is not valid Jinja.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self, Error> {
        Self::new(
            tokenizer.chat_template(),
            tokenizer.bos_token(),
            tokenizer.eos_token(),
        )
    }

    /// A template and the tokens it may name.
    ///
    /// # Errors
    /// [`Error::Template`] if it is not valid Jinja.
    pub fn new(
        source: Option<&str>,
        bos_token: Option<&str>,
        eos_token: Option<&str>,
    ) -> Result<Self, Error> {
        let mut environment = Environment::new();
        // What `transformers` sets, and templates rely on.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", raise_exception);
        if let Some(source) = source {
            environment
                .add_template_owned(NAME, source.to_owned())
                .map_err(|error| Error::Template(describe(&error)))?;
        }
        Ok(Self {
            environment,
            bos_token: bos_token.map(str::to_owned),
            eos_token: eos_token.map(str::to_owned),
            plain: source.is_none(),
        })
    }

    /// The chat as text. Without a template: the contents, a blank line between them.
    ///
    /// # Errors
    /// What the template says, in one line.
    pub fn render(&self, messages: &[Message<'_>], ending: Ending) -> Result<String, String> {
        if self.plain {
            let contents: Vec<&str> = messages.iter().map(|message| message.content).collect();
            return Ok(contents.join("\n\n"));
        }
        let rendered = self.environment.get_template(NAME).and_then(|template| {
            template.render(context! {
                messages => messages,
                add_generation_prompt => ending == Ending::Generation,
                bos_token => self.bos_token.as_deref().unwrap_or_default(),
                eos_token => self.eos_token.as_deref().unwrap_or_default(),
            })
        });
        let mut text = rendered.map_err(|error| describe(&error))?;
        if ending == Ending::Continue {
            let last = messages.last().map_or("", |message| message.content.trim());
            let at = text
                .rfind(last)
                .ok_or("the template changes the last message, which cannot be continued")?;
            text.truncate(at + last.len());
        }
        Ok(text)
    }

    /// The prompt for a problem, up to where the solution begins.
    ///
    /// # Errors
    /// What the template says, in one line.
    pub fn prompt(&self, system: Option<&str>, problem: &str) -> Result<String, String> {
        let system = system.map(Message::system);
        let messages: Vec<_> = system.into_iter().chain([Message::user(problem)]).collect();
        self.render(&messages, Ending::Generation)
    }

    /// Whether the template writes the special tokens around the text itself.
    #[must_use]
    pub fn writes_special_tokens(&self) -> bool {
        !self.plain
    }
}

fn raise_exception(message: String) -> Result<String, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
}

fn describe(error: &minijinja::Error) -> String {
    let line = error.line().map(|line| format!("line {line}: "));
    let what = error
        .detail()
        .map_or_else(|| error.to_string(), str::to_owned);
    format!("{}{what}", line.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(template: &str, system: Option<&str>, problem: &str) -> Result<String, String> {
        ChatTemplate::new(Some(template), Some("<s>"), Some("</s>"))
            .unwrap()
            .prompt(system, problem)
    }

    #[test]
    fn a_usual_chat_template() {
        let template = "{{ bos_token }}{% for message in messages %}\
            <|{{ message['role'] }}|>\n{{ message.content }}{{ eos_token }}\n\
            {% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}";
        // As in `transformers`, the first newline after a block is dropped.
        assert_eq!(
            render(template, Some("Be brief."), "1 + 1?").unwrap(),
            "<s><|system|>\nBe brief.</s>\n<|user|>\n1 + 1?</s>\n<|assistant|>\n"
        );
    }

    #[test]
    fn python_string_methods_and_filters() {
        let template = "{% set text = messages[0]['content'].strip() %}\
            {% if text.startswith('What') %}{{ text.split(' ')[-1] | upper }}{% endif %}\
            {{ messages[0]['content'] | trim | replace('. ', '.\n') }}{{ messages | length }}";
        assert_eq!(
            render(template, None, " What is. that ").unwrap(),
            "THATWhat is.\nthat1"
        );
    }

    #[test]
    fn a_template_may_refuse() {
        let template = "{% if messages[0].role == 'system' %}\
            {{ raise_exception('no system message') }}{% endif %}ok";
        assert_eq!(render(template, None, "x").unwrap(), "ok");
        let error = render(template, Some("y"), "x").unwrap_err();
        assert!(error.contains("no system message"), "{error}");
    }

    #[test]
    fn a_broken_template_is_an_error_at_once() {
        assert!(matches!(
            ChatTemplate::new(Some("{% if %}"), None, None),
            Err(Error::Template(_))
        ));
    }

    #[test]
    fn problems_are_not_templates() {
        assert_eq!(
            render("{{ messages[0].content }}", None, "{{ 1 + 1 }} <b>").unwrap(),
            "{{ 1 + 1 }} <b>"
        );
    }

    #[test]
    fn without_a_template_the_problem_is_the_prompt() {
        let plain = ChatTemplate::new(None, None, None).unwrap();
        assert_eq!(plain.prompt(None, "x?").unwrap(), "x?");
        assert_eq!(
            plain.prompt(Some("Be brief."), "x?").unwrap(),
            "Be brief.\n\nx?"
        );
        assert!(!plain.writes_special_tokens());
    }
}
