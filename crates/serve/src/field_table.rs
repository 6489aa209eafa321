//! The table of all fields that clients of OpenAI, vLLM, SGLang and llama.cpp send, with the
//! server's treatment of each. A field that would change the form or the text of an answer is read
//! or refused; all others are ignored.

use serde_json::{Map, Value, json};

use crate::writing::MOST_STOPS;

/// The way in which the server treats a field of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Treatment {
    /// The field is read. The function returns its JSON schema.
    Read(fn() -> Value),
    /// A value is accepted only if it asks for what the server does anyway. The text advises what
    /// to send instead of others.
    Only(IsDoneAnyway, &'static str),
    /// The field cannot change an answer here: it is accepted, counted and named in the answer.
    Ignored,
}

/// Whether a value asks for what the server does anyway.
pub(crate) type IsDoneAnyway = fn(&Value) -> bool;

#[derive(Debug)]
pub(crate) struct Row {
    pub name: &'static str,
    pub treatment: Treatment,
}

const fn read(name: &'static str, schema: fn() -> Value) -> Row {
    let treatment = Treatment::Read(schema);
    Row { name, treatment }
}

const fn only(name: &'static str, is_done_anyway: IsDoneAnyway, advice: &'static str) -> Row {
    let treatment = Treatment::Only(is_done_anyway, advice);
    Row { name, treatment }
}

const fn ignored(name: &'static str) -> Row {
    let treatment = Treatment::Ignored;
    Row { name, treatment }
}

/// The advice for fields that have no substitute.
const LEAVE_OUT: &str = "leave it out";
const USE_STOP: &str = "use stop, with texts";
const USE_FORMAT: &str = "use response_format";
const USE_TOOLS: &str = "use tools";
const USE_MAX_TOKENS: &str = "use max_tokens";

/// All known fields. A field that is missing here is ignored, too.
pub(crate) const FIELDS: &[Row] = &[
    read("model", || described(text(), "A preset.")),
    read("temperature", number),
    read("top_p", number),
    read("min_p", number),
    read("repetition_penalty", number),
    read("top_k", whole_or_off),
    read("max_tokens", whole_or_off),
    read("max_completion_tokens", whole_or_off),
    read("seed", whole_or_off),
    read("n", || json!({"type": ["integer", "null"], "minimum": 1})),
    read("best_of", || {
        described(whole(), "Only the value of n is supported.")
    }),
    read("stream", flag),
    read("stream_options", || {
        json!({
            "type": ["object", "null"],
            "properties": {
                "include_usage": flag(),
                "include_obfuscation": flag(),
                "continuous_usage_stats": {"enum": [false, null]},
            },
            "additionalProperties": false,
        })
    }),
    read("continue_final_message", flag),
    read("add_generation_prompt", flag),
    read("stop", || {
        let texts = json!({"type": "array", "items": {"type": "string"}, "maxItems": MOST_STOPS});
        json!({"anyOf": [text(), texts]})
    }),
    read("include_stop_str_in_output", flag),
    read("logprobs", || {
        described(
            json!({"type": ["boolean", "integer", "null"]}),
            "Of a chat true or false, of a completion the number of alternatives.",
        )
    }),
    read(
        "top_logprobs",
        || json!({"type": ["integer", "null"], "minimum": 0, "maximum": 20}),
    ),
    read("logit_bias", || json!({"type": ["object", "null"]})),
    read("response_format", || json!({"type": ["object", "null"]})),
    read(
        "tools",
        || json!({"type": ["array", "null"], "items": {"type": "object"}}),
    ),
    read("tool_choice", || json!({"enum": ["none", "auto", null]})),
    read("parallel_tool_calls", flag),
    // Fields about the text of the answer.
    only("suffix", |v| v == "", LEAVE_OUT),
    only("echo", is_false, LEAVE_OUT),
    only("stop_token_ids", is_empty, USE_STOP),
    only("stop_regex", is_blank, USE_STOP),
    only("no_stop_trim", is_false, "use include_stop_str_in_output"),
    only("min_tokens", is_zero, LEAVE_OUT),
    only("min_new_tokens", is_zero, LEAVE_OUT),
    only("max_new_tokens", |_| false, USE_MAX_TOKENS),
    only("n_predict", |v| *v == -1, USE_MAX_TOKENS),
    only("skip_special_tokens", |v| v == true, LEAVE_OUT),
    only("truncate_prompt_tokens", |_| false, "shorten the prompt"),
    only("documents", is_empty, "use beamgen.context"),
    only("prompt_embeds", is_empty, "send a text"),
    only("chat_template", is_blank, "the model's own is used"),
    read(
        "chat_template_kwargs",
        || json!({"type": ["object", "null"]}),
    ),
    only("modalities", |v| *v == json!(["text"]), LEAVE_OUT),
    only("audio", |_| false, LEAVE_OUT),
    only("web_search_options", |_| false, LEAVE_OUT),
    read("reasoning_effort", || {
        described(
            json!({"type": ["string", "null"]}),
            "A variable of the chat template. With none, the model does not think.",
        )
    }),
    read("thinking_token_budget", whole_or_off),
    read("include_reasoning", flag),
    only("separate_reasoning", |v| v == true, "use include_reasoning"),
    only("verbosity", |v| v == "medium", LEAVE_OUT),
    only("moderation", |_| false, LEAVE_OUT),
    only("functions", is_empty, USE_TOOLS),
    only("function_call", |v| v == "none" || v == "auto", USE_TOOLS),
    // Fields about the form of the text, such as a grammar.
    only("guided_json", is_blank, USE_FORMAT),
    only("guided_regex", is_blank, USE_FORMAT),
    only("guided_choice", is_empty, USE_FORMAT),
    only("guided_grammar", is_blank, USE_FORMAT),
    only("structured_outputs", is_empty, USE_FORMAT),
    only("structural_tag", is_blank, USE_FORMAT),
    only("json_schema", is_empty, USE_FORMAT),
    only("grammar", is_blank, USE_FORMAT),
    only("regex", is_blank, USE_FORMAT),
    only("ebnf", is_blank, USE_FORMAT),
    // Fields about sampling.
    only("presence_penalty", is_zero, "use repetition_penalty"),
    only("frequency_penalty", is_zero, "use repetition_penalty"),
    only("repeat_penalty", is_one, "use repetition_penalty"),
    only("length_penalty", is_one, LEAVE_OUT),
    only("use_beam_search", is_false, "use a preset of a search"),
    only("allowed_token_ids", is_empty, LEAVE_OUT),
    only("bad_words", is_empty, LEAVE_OUT),
    only("logits_processors", is_empty, LEAVE_OUT),
    only("custom_logit_processor", is_blank, LEAVE_OUT),
    only("repetition_detection", is_empty, LEAVE_OUT),
    only("typical_p", is_one, LEAVE_OUT),
    only("mirostat", is_zero, LEAVE_OUT),
    only("dynatemp_range", is_zero, LEAVE_OUT),
    only("xtc_probability", is_zero, LEAVE_OUT),
    only("dry_multiplier", is_zero, LEAVE_OUT),
    only("top_n_sigma", |v| v.as_f64() == Some(-1.0), LEAVE_OUT),
    only("lora_path", is_blank, LEAVE_OUT),
    only("vllm_xargs", is_empty, LEAVE_OUT),
    // Fields about additional parts of an answer.
    only("prompt_logprobs", |_| false, LEAVE_OUT),
    only("logprob_token_ids", is_empty, "use top_logprobs"),
    only("n_probs", is_zero, "use top_logprobs"),
    only("return_token_ids", is_false, LEAVE_OUT),
    only("return_tokens_as_token_ids", is_false, LEAVE_OUT),
    only("return_prompt_text", is_false, LEAVE_OUT),
    ignored("user"),
    ignored("metadata"),
    ignored("store"),
    ignored("service_tier"),
    ignored("safety_identifier"),
    ignored("prompt_cache_key"),
    ignored("prompt_cache_retention"),
    ignored("prediction"),
    ignored("extra_body"),
    ignored("extra_headers"),
    ignored("extra_query"),
    ignored("ignore_eos"),
    ignored("priority"),
    ignored("request_id"),
    ignored("session_id"),
    ignored("rid"),
    ignored("cache_salt"),
    ignored("cache_prompt"),
    ignored("id_slot"),
    ignored("kv_transfer_params"),
    ignored("add_special_tokens"),
    ignored("spaces_between_special_tokens"),
    ignored("truncation_side"),
    ignored("guided_decoding_backend"),
    ignored("guided_whitespace_pattern"),
    ignored("mm_processor_kwargs"),
    ignored("media_io_kwargs"),
    ignored("timings_per_token"),
];

pub(crate) fn row(name: &str) -> Option<&'static Row> {
    FIELDS.iter().find(|row| row.name == name)
}

/// Returns the names of all fields with [`Treatment::Read`].
pub(crate) fn read_names() -> impl Iterator<Item = &'static str> {
    let read = FIELDS
        .iter()
        .filter(|row| matches!(row.treatment, Treatment::Read(_)));
    read.map(|row| row.name)
}

impl Row {
    /// Returns the JSON schema of the field's value.
    pub(crate) fn schema(&self) -> Value {
        match self.treatment {
            Treatment::Read(schema) => schema(),
            Treatment::Only(..) => {
                json!({"description": "Only the value that has no effect is supported."})
            }
            Treatment::Ignored => json!({"description": "Ignored."}),
        }
    }
}

fn described(mut schema: Value, words: &str) -> Value {
    schema["description"] = words.into();
    schema
}

fn text() -> Value {
    json!({"type": ["string", "null"]})
}

fn number() -> Value {
    json!({"type": ["number", "null"]})
}

fn whole() -> Value {
    json!({"type": ["integer", "null"], "minimum": 0})
}

fn whole_or_off() -> Value {
    json!({"type": ["integer", "null"], "minimum": -1})
}

fn flag() -> Value {
    json!({"type": ["boolean", "null"]})
}

fn is_false(value: &Value) -> bool {
    value == false
}

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn is_one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

fn is_blank(value: &Value) -> bool {
    value == "" || is_empty(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_has_two_rows_and_no_neutral_value_is_a_text_of_another_kind() {
        let mut names: Vec<&str> = FIELDS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for row in FIELDS {
            if let Treatment::Only(is_done_anyway, advice) = row.treatment {
                assert!(!is_done_anyway(&json!("nonesuch")), "{}", row.name);
                assert!(!advice.is_empty() && !advice.ends_with('.'), "{}", row.name);
            }
        }
    }
}
