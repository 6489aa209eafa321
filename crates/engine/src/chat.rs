//! Renders chats as text by a checkpoint's Jinja template, with the results of `transformers`.

mod python;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::SystemTime;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use minijinja::{Value, context};
use serde::Serialize;

use crate::jinja::{self, Template, TemplateError};
use crate::{Error, Tokenizer};

const TITLE: &str = "the chat template";
/// A mark that is appended to the last message, to find its end in the rendered text. The mark's
/// last space shows whether the template strips contents.
const CONTINUED: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// The variables that a template gets from a chat.
const OF_CHATS: [&str; 6] = [
    "messages",
    "documents",
    "tools",
    "add_generation_prompt",
    "raise_exception",
    "strftime_now",
];

/// A document with the field names that templates read.
#[derive(Serialize)]
struct Document<'a> {
    title: String,
    text: &'a str,
}

/// Optional inputs that only some templates write.
#[derive(Clone, Copy, Default)]
struct Extras<'a> {
    documents: Option<&'a [Document<'a>]>,
    tools: &'a [serde_json::Value],
}

/// One turn of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Message<'a> {
    /// `system`, `user` or `assistant`.
    pub role: &'a str,
    /// The text of the turn. It may be empty.
    pub content: &'a str,
}

impl<'a> Message<'a> {
    fn new(role: &'a str, content: &'a str) -> Self {
        Self { role, content }
    }

    /// Creates a turn with the role `system`: instructions for the whole chat.
    #[must_use]
    pub fn system(content: &'a str) -> Self {
        Self::new("system", content)
    }

    /// Creates a turn with the role `user`: a problem or a question.
    #[must_use]
    pub fn user(content: &'a str) -> Self {
        Self::new("user", content)
    }

    /// Creates a turn with the role `assistant`: an answer, also an unfinished one
    /// ([`Ending::Continue`]).
    #[must_use]
    pub fn assistant(content: &'a str) -> Self {
        Self::new("assistant", content)
    }
}

/// The place where a rendered chat ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// After the last turn and its closing tokens.
    Closed,
    /// Where the assistant's next turn begins (`add_generation_prompt`).
    Generation,
    /// Inside the last turn, directly after its content (`continue_final_message`).
    Continue,
}

/// A checkpoint's Jinja chat template, rendered with the results of `apply_chat_template` in
/// `transformers`.
///
/// A template can read `messages`, `documents`, `add_generation_prompt`, the named special tokens,
/// `tools`, `raise_exception`, `strftime_now` and the variables of
/// [`set_variables`](ChatTemplate::set_variables); everything else is undefined. The time and memory
/// of a rendering are limited.
#[derive(Debug)]
pub struct ChatTemplate {
    /// `None` for a base model: the prompt is then the problem's text.
    template: Option<Template>,
    special_tokens: BTreeMap<String, String>,
    /// Further variables, such as `enable_thinking`.
    variables: serde_json::Map<String, serde_json::Value>,
    /// Whether the template's source has the word `strftime_now`: its prompts may depend on the
    /// date.
    dated: bool,
    /// Whether the template's source has the word `content`. Without it, no message can appear in a
    /// prompt.
    names_content: bool,
    now: NaiveDateTime,
}

impl ChatTemplate {
    /// Compiles the chat template that `tokenizer` has read. If the tokenizer has none, prompts are
    /// the problem's text.
    ///
    /// # Errors
    /// [`Error::Template`] if the template is too long or not valid Jinja.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self, Error> {
        let tokens = tokenizer.special_tokens();
        Self::new(
            tokenizer.chat_template(),
            tokens.map(|(name, token)| (name.to_owned(), token.to_owned())),
        )
    }

    /// Compiles a template. `special_tokens` are pairs of a name that the template may use (such as
    /// `bos_token`) and its text.
    ///
    /// # Errors
    /// [`Error::Template`] if the template is too long or not valid Jinja.
    pub fn new(
        source: Option<&str>,
        special_tokens: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        let template = source.map(|source| {
            let mut environment = jinja::environment();
            python::prepare(&mut environment);
            Template::compile(TITLE, &python::without_generation_tags(source), environment)
        });
        let mut template = Self {
            template: template.transpose()?,
            special_tokens: special_tokens.into_iter().collect(),
            variables: serde_json::Map::new(),
            // Also true for a template that only mentions the name. The cost is a recorded date
            // that has no influence.
            dated: source.is_some_and(|source| source.contains("strftime_now")),
            names_content: source.is_some_and(|source| source.contains("content")),
            now: NaiveDateTime::default(),
        };
        // The clock is read once, so that all prompts of a run have the same day even past
        // midnight.
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since_1970.map_or(0, |time| time.as_secs() as i64);
        template.set_now(
            DateTime::from_timestamp(seconds, 0)
                .unwrap_or_default()
                .naive_utc(),
        );
        Ok(template)
    }

    fn set_now(&mut self, now: NaiveDateTime) {
        self.now = now;
        let Some(template) = &mut self.template else {
            return;
        };
        let environment = template.environment();
        environment.add_function("strftime_now", move |format: &str| {
            // The cost is paid before the fields are written. No field of a date has more than 64
            // characters per character of the format.
            jinja::spend(64 * format.len())?;
            let mut text = String::new();
            write!(text, "{}", now.format(format))
                .map_err(|_| jinja::refusal(format!("strftime_now: invalid format {format:?}")))?;
            Ok::<_, minijinja::Error>(text)
        });
    }

    /// Sets the day that the template sees as today, as `YYYY-MM-DD`.
    ///
    /// # Errors
    /// [`Error::Date`] if `date` is not a calendar day in that form.
    pub fn set_date(&mut self, date: &str) -> Result<(), Error> {
        let day = NaiveDate::parse_from_str(date, "%Y-%m-%d");
        let Some(now) = day.ok().and_then(|day| day.and_hms_opt(0, 0, 0)) else {
            return Err(Error::Date(date.to_owned()));
        };
        self.set_now(now);
        Ok(())
    }

    /// Sets variables of the template, such as `enable_thinking`: the further arguments of
    /// `apply_chat_template`. A template does not see a variable that it does not name.
    ///
    /// # Errors
    /// The name of a variable that a chat sets itself, such as `messages`.
    pub fn set_variables(
        &mut self,
        variables: serde_json::Map<String, serde_json::Value>,
    ) -> Result<(), String> {
        let mut names = variables.keys();
        let taken = |name: &&String| {
            OF_CHATS.contains(&name.as_str()) || self.special_tokens.contains_key(*name)
        };
        if let Some(name) = names.find(taken) {
            return Err(name.clone());
        }
        self.variables = variables;
        Ok(())
    }

    /// Returns the day that the template sees as today, or `None` if the template never asks for
    /// it. The day comes from [`set_date`](Self::set_date); by default it is the UTC day of this
    /// value's creation.
    #[must_use]
    pub fn date(&self) -> Option<String> {
        self.dated.then(|| self.now.format("%Y-%m-%d").to_string())
    }

    /// Renders a chat as text. Without a template, the text is the contents, separated by blank
    /// lines.
    ///
    /// # Errors
    /// [`TemplateError`] if the template refuses the chat or exceeds a limit.
    pub fn render(
        &self,
        messages: &[Message<'_>],
        ending: Ending,
    ) -> Result<String, TemplateError> {
        let Some(template) = &self.template else {
            let contents: Vec<&str> = messages.iter().map(|message| message.content).collect();
            return Ok(contents.join("\n\n"));
        };
        if ending != Ending::Continue {
            let generation = ending == Ending::Generation;
            return self.rendered(template, messages, Extras::default(), generation);
        }
        // `transformers` does the same: a mark after the last message shows where the text must
        // end.
        let refused = |reason: &str| template.failed(None, reason);
        let Some((last, before)) = messages.split_last() else {
            return Err(refused("no message to continue"));
        };
        if !self.names_content {
            return Err(refused(
                "it writes no message's content, so none can be continued",
            ));
        }
        let content = format!("{}{CONTINUED}", last.content);
        let marked = Message {
            content: &content,
            ..*last
        };
        let marked = [before, &[marked]].concat();
        let mut text = self.rendered(template, &marked, Extras::default(), false)?;
        // A template may have changed the content. The model would then continue another text.
        let end = text
            .rfind(CONTINUED.trim_end())
            .filter(|_| text.contains(jinja::strip(last.content)))
            .ok_or_else(|| refused("it changes the last message, which cannot be continued"))?;
        // A template that strips contents also strips the mark's last space. The spaces before the
        // mark survived that, so they are removed here.
        let keeps_spaces = text[end..].starts_with(CONTINUED);
        text.truncate(end);
        if !keeps_spaces {
            text.truncate(jinja::rstrip(&text).len());
        }
        Ok(text)
    }

    fn rendered(
        &self,
        template: &Template,
        messages: &[Message<'_>],
        Extras { documents, tools }: Extras<'_>,
        generation: bool,
    ) -> Result<String, TemplateError> {
        let contents = messages.iter().map(|message| message.content);
        let texts = documents
            .unwrap_or_default()
            .iter()
            .map(|document| document.text);
        // The limits on time and memory grow with the text that the caller passes in.
        let input: usize = contents.chain(texts).map(str::len).sum();
        let of_tools: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
        // `transformers` passes None instead of an empty list, and templates test for it.
        let tools = if tools.is_empty() {
            Value::from(())
        } else {
            Value::from_serialize(tools)
        };
        let tokens = self.special_tokens.iter();
        let tokens = tokens.map(|(name, token)| (name, Value::from(token.as_str())));
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| (name, Value::from_serialize(value)));
        let further: BTreeMap<&String, Value> = tokens.chain(variables).collect();
        let values = context! {
            messages,
            add_generation_prompt => generation,
            tools,
            documents,
            ..Value::from_serialize(&further)
        };
        let of_variables: usize = self.variables.values().map(|v| v.to_string().len()).sum();
        template.render(values, input + of_tools + of_variables)
    }

    /// Renders the prompt for a problem, up to the place where the solution begins.
    ///
    /// # Errors
    /// [`TemplateError`] if the template refuses the chat or exceeds a limit.
    pub fn prompt(&self, system: Option<&str>, problem: &str) -> Result<String, TemplateError> {
        let system = system.map(Message::system);
        let messages: Vec<_> = system.into_iter().chain([Message::user(problem)]).collect();
        self.render(&messages, Ending::Generation)
    }

    /// Renders the prompt for a chat with tools, up to the place where the answer begins. Returns
    /// `None` if the template ignores `tools`.
    ///
    /// # Errors
    /// [`TemplateError`] if the template refuses the chat or exceeds a limit.
    pub fn prompt_with_tools(
        &self,
        messages: &[Message<'_>],
        tools: &[serde_json::Value],
    ) -> Result<Option<String>, TemplateError> {
        let extras = Extras {
            tools,
            documents: None,
        };
        self.written_with(messages, Extras::default(), extras)
    }

    /// Renders with `more`. Returns `None` if the text is the same with `less`.
    fn written_with(
        &self,
        messages: &[Message<'_>],
        less: Extras<'_>,
        more: Extras<'_>,
    ) -> Result<Option<String>, TemplateError> {
        let Some(template) = &self.template else {
            return Ok(None);
        };
        // Compares two renderings, because a template may mention a value and still ignore it.
        let written = self.rendered(template, messages, more, true)?;
        let without = self.rendered(template, messages, less, true)?;
        Ok((written != without).then_some(written))
    }

    /// Renders the prompt for a chat with documents and tools. Returns `None` if the template
    /// ignores `documents`; the caller must then put them into the problem.
    ///
    /// # Errors
    /// [`TemplateError`] if the template refuses the chat or exceeds a limit.
    pub fn prompt_with_documents(
        &self,
        messages: &[Message<'_>],
        documents: &[String],
        tools: &[serde_json::Value],
    ) -> Result<Option<String>, TemplateError> {
        let given: Vec<Document<'_>> = (1..)
            .zip(documents)
            .map(|(number, text)| Document {
                title: format!("Document {number}"),
                text,
            })
            .collect();
        let documents = None;
        let less = Extras { documents, tools };
        let documents = Some(&given[..]);
        self.written_with(messages, less, Extras { documents, tools })
    }

    /// Whether the checkpoint has a template. A template writes the special tokens itself. Without
    /// one, the tokenizer must add them to the problem.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.template.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(
        template: &str,
        system: Option<&str>,
        problem: &str,
    ) -> Result<String, TemplateError> {
        let tokens = [("bos_token", "<s>"), ("eos_token", "</s>")];
        let tokens = tokens.map(|(name, token)| (name.to_owned(), token.to_owned()));
        ChatTemplate::new(Some(template), tokens)
            .unwrap()
            .prompt(system, problem)
    }

    #[test]
    fn a_usual_chat_template() {
        let template = "{{ bos_token }}{% for message in messages %}\
            <|{{ message['role'] }}|>\n{{ message.content }}{{ eos_token }}\n\
            {% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}";
        // `trim_blocks` drops the first newline after a block, like `transformers`.
        assert_eq!(
            render(template, Some("Be brief."), "1 + 1?").unwrap(),
            "<s><|system|>\nBe brief.</s>\n<|user|>\n1 + 1?</s>\n<|assistant|>\n"
        );
    }

    /// In a template, every line end is a newline; line ends in messages stay unchanged.
    #[test]
    fn line_ends_of_a_template() {
        let template = "{% for m in messages %}\n<{{ m.role }}>\n{{ m.content }}{{ 'a\n' }}\n\
            {% endfor %}\nend\n";
        let expected = "<user>\nx\r\ny\ra\n\nend";
        for end in ["\n", "\r\n", "\r"] {
            let template = template.replace('\n', end);
            assert_eq!(
                render(&template, None, "x\r\ny\r").unwrap(),
                expected,
                "{end:?}"
            );
        }
        let strict = Template::strict("t", "{{ x }}\r\n\r-\r\n").unwrap();
        assert_eq!(
            strict.render(context! { x => "\r" }, 1).unwrap(),
            "\r\n\n-\n"
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
        assert_eq!(
            error.to_string(),
            "the chat template, line 1: no system message"
        );
    }

    #[test]
    fn a_broken_template_is_an_error_at_once() {
        assert!(matches!(
            ChatTemplate::new(Some("{% if %}"), []),
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
    fn documents_go_where_the_template_takes_them() {
        let documents = ["Red.".to_owned(), "Blue.".to_owned()];
        let prompt = |source| {
            let template = ChatTemplate::new(source, []).unwrap();
            template.prompt_with_documents(&[Message::user("?")], &documents, &[])
        };
        let takes = "{% if documents %}{% for d in documents %}[{{ d['title'] }}: {{ d.text }}]\
            {% endfor %}{% endif %}{{ messages[0].content }}";
        let written = "[Document 1: Red.][Document 2: Blue.]?";
        assert_eq!(prompt(Some(takes)).unwrap().as_deref(), Some(written));
        let takes_none = "{# documents #}{{ messages[0].content }}";
        assert_eq!(prompt(Some(takes_none)).unwrap(), None);
        assert_eq!(prompt(None).unwrap(), None);
        assert_eq!(render(takes, None, "?").unwrap(), "?");
    }

    #[test]
    fn tools_and_earlier_turns_go_where_the_template_takes_them() {
        let tools = [serde_json::json!({"name": "sum", "a": 1})];
        let messages = [
            Message::user("Hi."),
            Message::assistant("Hello."),
            Message::user("1 + 1?"),
        ];
        let prompt = |source| {
            let template = ChatTemplate::new(source, []).unwrap();
            template.prompt_with_tools(&messages, &tools).unwrap()
        };
        let chat = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
        let takes = ["{% if tools %}{{ tools[0] | tojson }}{% endif %}", chat].concat();
        let written = "<user>Hi.<assistant>Hello.<user>1 + 1?";
        let with_tools = [r#"{"name": "sum", "a": 1}"#, written].concat();
        assert_eq!(prompt(Some(&takes)), Some(with_tools));
        assert_eq!(prompt(Some(chat)), None);
        assert_eq!(prompt(None), None);
        let template = ChatTemplate::new(Some(&takes), []).unwrap();
        let rendered = template.render(&messages, Ending::Generation);
        assert_eq!(rendered.unwrap(), written);
    }

    #[test]
    fn without_a_template_the_problem_is_the_prompt() {
        let plain = ChatTemplate::new(None, []).unwrap();
        assert_eq!(plain.prompt(None, "x?").unwrap(), "x?");
        assert_eq!(
            plain.prompt(Some("Be brief."), "x?").unwrap(),
            "Be brief.\n\nx?"
        );
        assert!(!plain.is_present());
    }

    #[test]
    fn the_date_is_today_until_it_is_set() {
        let source = "{{ strftime_now('%d %b %Y, %H:%M') }}";
        let mut template = ChatTemplate::new(Some(source), []).unwrap();
        assert!(template.date() > Some("2025-01-01".into()));
        template.set_date("2024-07-06").unwrap();
        assert_eq!(template.prompt(None, "").unwrap(), "06 Jul 2024, 00:00");
        assert_eq!(template.date().as_deref(), Some("2024-07-06"));
        assert!(template.set_date("6.7.2024").is_err());
        let timeless = ChatTemplate::new(Some("{{ messages }}"), []).unwrap();
        assert_eq!(timeless.date(), None);
        let bad = ChatTemplate::new(Some("{{ strftime_now('%!') }}"), []).unwrap();
        let error = bad.prompt(None, "").unwrap_err().to_string();
        assert!(error.contains("invalid format"), "{error}");
    }
}
