//! Adapts minijinja to Python's Jinja with the options that `transformers` sets.

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error};

use crate::jinja::{printed, refusal, spend, strip, tojson};

/// Sets the options, filters and tests of `transformers`, and replaces those of minijinja that give
/// other results than Python.
pub(super) fn prepare(environment: &mut Environment<'_>) {
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_function("raise_exception", |message: &Value| {
        Err::<Value, _>(refusal(printed(message)?))
    });
    environment.add_filter("tojson", tojson);
    environment.add_filter("trim", |text: &str| {
        spend(text.len())?;
        Ok::<_, Error>(strip(text).to_owned())
    });
    // None must not be iterable, although minijinja iterates it; an undefined value is iterable.
    environment.add_test("iterable", |value: &Value| {
        !value.is_none() && value.try_iter().is_ok()
    });
    // Python's Jinja calls everything a sequence that has a length and items, also strings and
    // mappings.
    environment.add_test("sequence", |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::String | ValueKind::Seq | ValueKind::Map
        )
    });
}

/// Replaces the `generation` blocks of a template by `with` blocks. In `transformers` the
/// `generation` blocks mark the assistant's text for training; they have no effect on a prompt.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        rest = tag;
        let inside = tag.trim_start_matches(['-', '+']).trim_start();
        for name in ["generation", "endgeneration"] {
            let Some(after) = inside.strip_prefix(name) else {
                continue;
            };
            // A longer word (`generations`) or an assignment (`{% generation = ... %}`) stays
            // unchanged.
            if after
                .trim_start()
                .trim_start_matches(['-', '+'])
                .starts_with("%}")
            {
                out.push_str(&tag[..tag.len() - inside.len()]);
                out.push_str(&name.replace("generation", "with"));
                rest = after;
            }
            break;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_blocks_are_scopes() {
        assert_eq!(
            without_generation_tags("a{%- generation -%}b{% endgeneration %}{# {% #}{% if x %}"),
            "a{%- with -%}b{% endwith %}{# {% #}{% if x %}"
        );
        assert_eq!(
            without_generation_tags("{% set generation = 1 %}{%"),
            "{% set generation = 1 %}{%"
        );
        assert_eq!(
            without_generation_tags("{%-generation%}{% generations %}"),
            "{%-with%}{% generations %}"
        );
    }
}
