//! Calls of tools in the text of an answer, in the forms that families of models are trained on.

use serde_json::{Deserializer, Value};

/// The way in which a family of models writes calls of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// An object between `<tool_call>` and `</tool_call>` for each call: Hermes, Qwen.
    Tagged,
    /// Objects with `parameters` and nothing else, separated by semicolons: Llama 3.
    Objects,
    /// A list of objects, after `[TOOL_CALLS]`: Mistral.
    List,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub name: String,
    /// The arguments as JSON text.
    pub arguments: String,
}

/// Marks of forms that this server cannot read. Templates with these marks also contain a mark of a
/// known form, so these marks are looked for first.
const OTHER_FORMS: [&str; 3] = ["<function=", "<arg_key>", "[ARGS]"];

impl Form {
    /// Returns the form that a chat template tells the model to use; `None` if the form is unknown.
    pub(crate) fn of_template(template: &str) -> Option<Self> {
        if OTHER_FORMS.iter().any(|mark| template.contains(mark)) {
            return None;
        }
        let forms = [
            ("<tool_call>", Self::Tagged),
            ("[TOOL_CALLS]", Self::List),
            ("\"parameters\": dictionary", Self::Objects),
        ];
        let form = forms.iter().find(|(mark, _)| template.contains(mark));
        form.map(|(_, form)| *form)
    }

    /// Returns the text before the first call, and the calls. If there is no call or one of them is
    /// invalid, returns the whole text and no calls.
    pub(crate) fn read(self, text: &str) -> (&str, Vec<Call>) {
        // A model may try out calls in its thoughts; only calls after the thoughts count.
        let spoken = text.rfind("</think>").map_or(0, |at| at + "</think>".len());
        let (thought, spoken) = text.split_at(spoken);
        let found = match self {
            Self::Tagged => tagged(spoken),
            Self::Objects => after(spoken, "<|python_tag|>", objects),
            Self::List => after(spoken, "[TOOL_CALLS]", list),
        };
        match found {
            Some((before, calls)) if !calls.is_empty() => (&text[..thought.len() + before], calls),
            _ => (text, Vec::new()),
        }
    }
}

/// Reads one JSON object between each pair of tags. Also returns the number of bytes before the
/// first tag.
fn tagged(text: &str) -> Option<(usize, Vec<Call>)> {
    let (before, rest) = text.split_once("<tool_call>")?;
    let calls = rest.split("<tool_call>").map(|block| {
        // A chain that ends with its call may lack the last closing tag.
        let (object, _) = block.split_once("</tool_call>").unwrap_or((block, ""));
        call(&serde_json::from_str(object).ok()?)
    });
    Some((before.len(), calls.collect::<Option<_>>()?))
}

/// Reads the calls after `mark`. Also returns the number of bytes before the mark. The mark is a
/// special token, which may have no text, so without it the whole text is read.
fn after(
    text: &str,
    mark: &str,
    read: fn(&str) -> Option<Vec<Call>>,
) -> Option<(usize, Vec<Call>)> {
    let (before, calls) = text.split_once(mark).unwrap_or(("", text));
    Some((before.len(), read(calls)?))
}

fn objects(text: &str) -> Option<Vec<Call>> {
    let (mut calls, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let mut values = Deserializer::from_str(rest).into_iter::<Value>();
        calls.push(call(&values.next()?.ok()?)?);
        rest = rest[values.byte_offset()..].trim_start_matches([';', ' ', '\n']);
    }
    Some(calls)
}

fn list(text: &str) -> Option<Vec<Call>> {
    let values: Vec<Value> = serde_json::from_str(text.trim()).ok()?;
    values.iter().map(call).collect()
}

fn call(value: &Value) -> Option<Call> {
    let object = value.as_object()?;
    let arguments = object.get("arguments").or_else(|| object.get("parameters"));
    Some(Call {
        name: object.get("name")?.as_str()?.to_owned(),
        arguments: match arguments? {
            Value::String(text) => text.clone(),
            arguments @ Value::Object(_) => arguments.to_string(),
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str, arguments: &str) -> Call {
        Call {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        }
    }

    #[test]
    fn each_family_has_its_form() {
        for (template, form) in [
            ("... <tool_call></tool_call> ...", Some(Form::Tagged)),
            ("<tool_call>\n<function=f>", None),
            ("<tool_call>f\n<arg_key>", None),
            ("[TOOL_CALLS][{", Some(Form::List)),
            ("[TOOL_CALLS]f[ARGS]{", None),
            (
                "{\"name\": function name, \"parameters\": dictionary of argument name",
                Some(Form::Objects),
            ),
            ("{{ messages }}", None),
        ] {
            assert_eq!(Form::of_template(template), form, "{template}");
        }
    }

    #[test]
    fn calls_are_taken_out_of_the_text() {
        let add = made("add", "{\"a\":1}");
        let tagged = "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
        let two = format!("{tagged}\n<tool_call>{{\"name\": \"end\", \"arguments\": \"{{}}\"}}");
        for (form, text, before, calls) in [
            (Form::Tagged, tagged, "Let me see.\n", vec![add.clone()]),
            (
                Form::Tagged,
                &two,
                "Let me see.\n",
                vec![add.clone(), made("end", "{}")],
            ),
            (
                Form::Objects,
                "{\"name\": \"add\", \"parameters\": {\"a\": 1}}; {\"name\": \"end\", \"parameters\": {}}",
                "",
                vec![add.clone(), made("end", "{}")],
            ),
            (
                Form::Objects,
                "<|python_tag|>{\"name\": \"add\", \"parameters\": {\"a\": 1}}",
                "",
                vec![add.clone()],
            ),
            (
                Form::List,
                "So: [TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"a\": 1}}]",
                "So: ",
                vec![add.clone()],
            ),
            (
                Form::List,
                " [{\"name\": \"add\", \"arguments\": {\"a\": 1}}]",
                "",
                vec![add.clone()],
            ),
        ] {
            assert_eq!(form.read(text), (before, calls), "{text}");
        }
        let thought = format!("<think>{tagged}</think>\n\n{tagged}");
        let (before, calls) = Form::Tagged.read(&thought);
        assert!(before.ends_with("</think>\n\nLet me see.\n") && calls == [add]);
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for (form, text) in [
            (Form::Tagged, "The answer is 3."),
            (Form::Tagged, "<tool_call>{\"name\": \"add\"}</tool_call>"),
            (
                Form::Tagged,
                "<tool_call>{\"name\": \"add\", \"arguments\": {</tool_call>",
            ),
            (
                Form::Tagged,
                "<think><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call></think>3",
            ),
            (
                Form::Objects,
                "{\"name\": \"add\", \"parameters\": {}} and more",
            ),
            (Form::Objects, "3"),
            (Form::Objects, ""),
            (Form::List, "[1, 2]"),
            (Form::List, "[]"),
            (Form::List, "[TOOL_CALLS] none"),
        ] {
            assert_eq!(form.read(text), (text, Vec::new()), "{text}");
        }
    }
}
