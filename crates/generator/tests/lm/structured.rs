//! Chains that follow a grammar, even if the model prefers other tokens.

use beamgen_generator::{GeneratorConfig, LmGenerator, check_grammar};
use beamgen_search::*;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::runs::*;
use crate::tiny;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 8},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 2},
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": false,
    })
}

/// Whether a text is JSON that [`schema`] allows.
fn fits(text: &str) -> bool {
    let Ok(Value::Object(value)) = serde_json::from_str(text) else {
        return false;
    };
    let keys: Vec<&String> = value.keys().collect();
    let name = value.get("name").and_then(Value::as_str);
    let age = value.get("age").and_then(Value::as_u64);
    let tags = value.get("tags").and_then(Value::as_array);
    keys == ["name", "age", "tags"]
        && name.is_some_and(|name| name.chars().count() <= 8)
        && age.is_some_and(|age| age <= 150)
        && tags.is_some_and(|tags| {
            tags.len() <= 2 && tags.iter().all(|tag| tag == "red" || tag == "green")
        })
}

fn following(grammar: Grammar) -> GeneratorConfig {
    GeneratorConfig {
        seed: 5,
        max_step_tokens: 120,
        max_chain_tokens: 300,
        grammar: Some(grammar),
        sampling: SamplingSettings {
            temperature: Some(1.0),
            ..SamplingSettings::default()
        },
        ..GeneratorConfig::default()
    }
}

fn writer(config: GeneratorConfig) -> LmGenerator {
    let engine = tiny::engine(&tiny::model_of_bytes(400), 40_000);
    LmGenerator::new(engine, tiny::tokenizer_of_bytes(tiny::TEMPLATE), config).unwrap()
}

#[test]
fn every_complete_chain_fits_the_schema_through_forks_and_steps() {
    let paused = SearchConfig {
        early_rejection: 6,
        ..beam(8, 4, 3)
    };
    let ahead = SearchConfig {
        speculate: true,
        ..beam(8, 2, 3)
    };
    for search in [beam(8, 2, 4), best_of(8, 4), paused, ahead] {
        let search = SearchConfig {
            max_steps: 40,
            ..search
        };
        let config = following(Grammar::JsonSchema(schema()));
        let (results, _) = solve(&mut writer(config), &search, problems(8));
        let (mut complete, mut deepest) = (0, 0);
        for result in &results {
            assert_eq!(result.error, None);
            for chain in &result.finished {
                let text = result.tree.text(chain.node);
                assert_ne!(chain.finish, Finish::Answer, "{text:?}");
                if chain.finish == Finish::EndOfText {
                    assert!(fits(&text), "{text:?}");
                    complete += 1;
                    deepest = deepest.max(result.tree.path(chain.node).len());
                }
            }
        }
        assert!(complete >= 16, "{complete} complete chains");
        assert!(deepest > 2, "{deepest} steps");
    }
}

#[test]
fn any_object_is_json() {
    let (results, _) = solve(
        &mut writer(following(Grammar::JsonObject)),
        &best_of(24, 4),
        problems(4),
    );
    let mut complete = 0;
    for result in &results {
        for chain in &result.finished {
            if chain.finish == Finish::EndOfText {
                let text = result.tree.text(chain.node);
                // Not parsed as a `Value`: a number may have more digits than a float64 can hold.
                let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
                assert!(is_json && text.starts_with('{'), "{text:?}");
                complete += 1;
            }
        }
    }
    assert!(complete > 8, "{complete} complete chains");
}

#[test]
fn greedy_decoding_follows_too_and_company_changes_nothing() {
    let config = following(Grammar::JsonSchema(schema()));
    let greedy = SearchConfig {
        strategy: StrategyKind::GREEDY,
        ..beam(1, 1, 4)
    };
    let (results, _) = solve(&mut writer(config.clone()), &greedy, problems(3));
    for result in &results {
        let chain = &result.finished[0];
        let text = result.tree.text(chain.node);
        assert!(chain.finish != Finish::EndOfText || fits(&text), "{text:?}");
        assert!(text.starts_with("{"));
    }
    for search in [beam(6, 2, 1), best_of(6, 1)] {
        let solved = |in_flight| {
            let search = SearchConfig {
                in_flight,
                ..search.clone()
            };
            without_shares(solve(&mut writer(config.clone()), &search, problems(9)).0)
        };
        let alone = solved(1);
        assert!(solved(3) == alone);
        assert!(solved(9) == alone);
    }
}

/// Under a grammar, an answer marker in the text does not end the chain.
#[test]
fn an_answer_marker_does_not_end_a_json_text() {
    let schema = json!({"const": {"a": "The answer is 5.", "b": "#### 5"}});
    let config = following(Grammar::JsonSchema(schema.clone()));
    let search = SearchConfig {
        // White space may contain many line breaks, which are boundaries.
        max_steps: 100,
        ..best_of(6, 2)
    };
    let (results, _) = solve(&mut writer(config), &search, problems(2));
    for result in &results {
        for chain in &result.finished {
            assert_eq!(chain.finish, Finish::EndOfText);
            let value: Value = serde_json::from_str(&result.tree.text(chain.node)).unwrap();
            assert_eq!(value, schema["const"]);
        }
    }
}

/// Given steps count as the beginning of the text that follows the grammar.
#[test]
fn a_given_beginning_is_part_of_the_text() {
    let config = following(Grammar::JsonSchema(schema()));
    let given = |steps: &[&str]| Problem {
        steps: steps.iter().map(|&step| step.to_owned()).collect(),
        ..problems(1).remove(0)
    };
    let begun = given(&["{\"name\": \"Ann\",\n"]);
    let (results, _) = solve(&mut writer(config.clone()), &best_of(6, 2), vec![begun]);
    assert_eq!(results[0].error, None);
    let mut complete = 0;
    for chain in &results[0].finished {
        let text = results[0].tree.text(chain.node);
        assert!(text.starts_with("{\"name\": \"Ann\",\n"), "{text:?}");
        if chain.finish == Finish::EndOfText {
            assert!(fits(&text), "{text:?}");
            complete += 1;
        }
    }
    assert!(complete > 0);
    let other = given(&["Sure, here it is:\n"]);
    let (results, _) = solve(&mut writer(config), &best_of(2, 2), vec![other]);
    let error = results[0].error.as_ref().unwrap();
    assert!(error.contains("`grammar`"), "{error}");
}

#[test]
fn a_schema_that_cannot_be_followed_is_refused_in_one_line() {
    assert!(check_grammar(&Grammar::JsonSchema(schema())).is_ok());
    for (schema, named) in [
        (json!({"type": "objekt"}), "objekt"),
        (
            json!({"type": "object", "uniqueItems": true, "not": {}}),
            "not",
        ),
        (json!({"$ref": "#/definitions/missing"}), "missing"),
        (
            json!({"$ref": "https://example.com/schema.json"}),
            "example.com",
        ),
        (json!({"type": "string", "pattern": "("}), ""),
        (json!([1]), "object"),
        (json!({"type": "integer", "minimum": 5, "maximum": 4}), ""),
        // The schema's own options, here `lenient`, must have no effect.
        (
            json!({"type": "object", "not": {}, "x-guidance": {"lenient": true}}),
            "not",
        ),
    ] {
        let grammar = Grammar::JsonSchema(schema.clone());
        let error = check_grammar(&grammar).unwrap_err().to_string();
        assert!(
            error.contains("`grammar`") && error.contains(named),
            "{schema}: {error}"
        );
        assert!(!error.contains('\n') && error.len() < 400, "{error}");
        // A real vocabulary refuses the grammar, too, when a problem with these settings is opened.
        let settings = following(grammar);
        let mut writer = writer(GeneratorConfig::default());
        let refused = Generator::open(&mut writer, &"1".into(), 1, &settings).unwrap_err();
        assert!(matches!(refused, GenError::Settings(_)), "{refused}");
    }
}

#[test]
fn a_template_that_opens_a_thought_is_refused() {
    let template = [tiny::TEMPLATE, "<think>\n"].concat();
    let engine = tiny::engine(&tiny::model_of_bytes(400), 400);
    let config = following(Grammar::JsonObject);
    let mut writer = LmGenerator::new(engine, tiny::tokenizer_of_bytes(&template), config).unwrap();
    let (results, _) = solve(&mut writer, &best_of(2, 1), problems(1));
    let error = results[0].error.as_ref().unwrap();
    assert!(
        error.contains("`grammar`") && error.contains("<think>"),
        "{error}"
    );
}

#[test]
fn log_probabilities_of_a_constrained_token_are_still_the_models() {
    let config = GeneratorConfig {
        logprobs: Some(2),
        ..following(Grammar::JsonSchema(json!({"const": {"a": 1}})))
    };
    let (results, _) = solve(&mut writer(config), &best_of(2, 1), problems(1));
    let chain = results[0].finished[0].node;
    let kept: Vec<_> = results[0].tree.token_logprobs(chain).collect();
    assert!(kept.len() >= 4);
    // The random model gives low probabilities to the tokens that the grammar requires.
    assert!(
        kept.iter()
            .any(|kept| kept.chosen.logprob < kept.top[1].logprob)
    );
    let text: Vec<u8> = kept
        .iter()
        .filter(|kept| kept.in_text)
        .flat_map(|kept| kept.chosen.bytes.clone())
        .collect();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        results[0].tree.text(chain)
    );
}
