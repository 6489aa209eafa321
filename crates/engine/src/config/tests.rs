use serde_json::json;

use super::*;

const LLAMA: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 100, "hidden_size": 64, "intermediate_size": 88, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
    "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "rope_scaling": null, "torch_dtype": "bfloat16", "_name_or_path": "x"}"#;

fn with(changes: &[(&str, Value)]) -> Result<ModelConfig, Error> {
    let mut map: Map<String, Value> = serde_json::from_str(LLAMA).unwrap();
    for (field, value) in changes {
        map.insert((*field).into(), value.clone());
    }
    ModelConfig::from_json(
        &Value::Object(map).to_string(),
        Path::new("dir/config.json"),
    )
}

#[track_caller]
fn refused(changes: &[(&str, Value)], words: &[&str]) {
    let message = with(changes).unwrap_err().to_string();
    for word in words.iter().chain(&["dir/config.json"]) {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
}

#[test]
fn reads_a_llama() {
    let config = with(&[]).unwrap();
    assert_eq!(config.head_dim, 16);
    assert_eq!(config.rope, Rope::plain(500_000.0));
    assert_eq!(config.rms_norm_eps, 1e-5);
    assert!(config.causal_lm && !config.tie_word_embeddings && !config.qkv_bias);
}

#[test]
fn families_differ_by_data() {
    let qwen2 = with(&[("model_type", "qwen2".into())]).unwrap();
    assert!(qwen2.qkv_bias && !qwen2.o_bias && !qwen2.qk_norm);
    let qwen3 = with(&[
        ("model_type", "qwen3".into()),
        ("attention_bias", true.into()),
    ])
    .unwrap();
    assert!(qwen3.qkv_bias && qwen3.o_bias && qwen3.qk_norm);
    assert_eq!(qwen3.head_dim, 128);
    let llama = with(&[("attention_bias", true.into()), ("mlp_bias", true.into())]).unwrap();
    assert!(llama.qkv_bias && llama.o_bias && llama.mlp_bias);
}

#[test]
fn absent_fields_mean_what_the_family_says() {
    let bare = |model_type: &str, removed: &[&str]| {
        let mut map: Map<String, Value> = serde_json::from_str(LLAMA).unwrap();
        map.insert("model_type".into(), model_type.into());
        map.insert("num_attention_heads".into(), 32.into());
        map.insert("hidden_size".into(), 256.into());
        for field in removed {
            map.remove(*field);
        }
        ModelConfig::from_json(&Value::Object(map).to_string(), Path::new("c.json")).unwrap()
    };
    let removed = &["num_key_value_heads", "rms_norm_eps"];
    let read = |model_type| {
        let c = bare(model_type, removed);
        (c.num_key_value_heads, c.rms_norm_eps)
    };
    assert_eq!(read("llama"), (32, 1e-6));
    assert_eq!(read("mistral"), (8, 1e-6));
    assert_eq!(read("qwen2"), (32, 1e-6));
    assert_eq!(read("phi3"), (32, 1e-5));
    let null = ("num_key_value_heads", Value::Null);
    let mistral = ("model_type", Value::from("mistral"));
    assert_eq!(with(&[mistral, null]).unwrap().num_key_value_heads, 4);
    assert!(bare("phi3", &[]).fused_projections);
}

fn rope(changes: &[(&str, Value)]) -> Rope {
    with(changes).unwrap().rope
}

#[test]
fn reads_rope_of_transformers_5() {
    let parameters = json!({"rope_theta": 7.5, "rope_type": "default"});
    assert_eq!(rope(&[("rope_parameters", parameters)]), Rope::plain(7.5));
    let default = json!({"rope_type": "default"});
    assert_eq!(
        rope(&[("rope_scaling", default)]),
        Rope::plain(500_000.0),
        "the base beside the object"
    );
    let theta = ("rope_theta", Value::Null);
    assert_eq!(rope(&[theta]), Rope::plain(10_000.0));
}

#[test]
fn reads_scaled_rotations_in_both_forms() {
    let llama3 = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64});
    let scaling = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original: 64,
    };
    assert_eq!(rope(&[("rope_scaling", llama3.clone())]).scaling, scaling);
    assert_eq!(rope(&[("rope_parameters", llama3)]).scaling, scaling);
    let old = ("rope_scaling", json!({"type": "linear", "factor": 2}));
    let new = (
        "rope_parameters",
        json!({"rope_type": "linear", "factor": 3.0}),
    );
    let linear = |factor| RopeScaling::Linear { factor };
    assert_eq!(rope(std::slice::from_ref(&new)).scaling, linear(3.0));
    assert_eq!(
        rope(&[old, new]).scaling,
        linear(2.0),
        "the older form goes first"
    );
    let dynamic = json!({"type": "dynamic", "factor": 2.0});
    let config = with(&[("rope_scaling", dynamic)]).unwrap();
    assert_eq!(config.rope, Rope::plain(500_000.0));
    assert_eq!(config.max_position_embeddings, 256);
}

#[test]
fn yarn_has_its_defaults_and_its_context() {
    let yarn = |changes: Value| {
        let mut object = json!({"type": "yarn", "factor": 4.0});
        let map = object.as_object_mut().unwrap();
        map.extend(changes.as_object().unwrap().clone());
        with(&[("rope_scaling", object)]).unwrap()
    };
    let plain = yarn(json!({}));
    let RopeScaling::Yarn {
        beta_fast,
        beta_slow,
        truncate,
        original,
        ..
    } = plain.rope.scaling
    else {
        panic!("{:?}", plain.rope);
    };
    assert_eq!(
        (beta_fast, beta_slow, truncate, original),
        (32.0, 1.0, true, 256)
    );
    assert_eq!(plain.max_position_embeddings, 1024);
    assert!((plain.rope.attention_factor() - (0.1 * 4f64.ln() + 1.0)).abs() < 1e-15);
    let shorter = yarn(json!({"original_max_position_embeddings": 32}));
    assert_eq!(shorter.max_position_embeddings, 256);
    assert_eq!(
        yarn(json!({"attention_factor": 0.5}))
            .rope
            .attention_factor(),
        0.5
    );
    let both = yarn(json!({"mscale": 1.0, "mscale_all_dim": 0.5})).rope;
    let ratio = (0.1 * 4f64.ln() + 1.0) / (0.05 * 4f64.ln() + 1.0);
    assert!((both.attention_factor() - ratio).abs() < 1e-15);
    let implied = yarn(json!({"factor": null, "original_max_position_embeddings": 128}));
    assert!(matches!(
        implied.rope.scaling,
        RopeScaling::Yarn { factor: 2.0, .. }
    ));
    // Slow pairs are divided by the factor, fast ones stay.
    let (scaled, plain) = (
        shorter.rope.frequencies(64),
        Rope::plain(500_000.0).frequencies(64),
    );
    assert_eq!(scaled[0], plain[0]);
    assert_eq!(scaled[31], plain[31] / 4.0);
}

#[test]
fn refuses_other_arithmetic_by_name() {
    refused(
        &[("model_type", "gpt2".into())],
        &["model_type", "gpt2", "qwen3", "phi3"],
    );
    refused(&[("hidden_act", "gelu".into())], &["hidden_act", "gelu"]);
    refused(
        &[("quantization_config", json!({"bits": 4}))],
        &["quantization_config"],
    );
    refused(&[("num_local_experts", 8.into())], &["num_local_experts"]);
    refused(
        &[("final_logit_softcapping", 30.0.into())],
        &["final_logit_softcapping"],
    );
}

#[test]
fn every_field_that_is_not_inert_is_refused() {
    for (field, without_effect) in UNSUPPORTED {
        refused(&[(field, json!("other"))], &[field, "other"]);
        assert!(with(&[(field, Value::Null)]).is_ok());
        for value in without_effect {
            let value = serde_json::from_str(value).unwrap();
            assert!(with(&[(field, value)]).is_ok(), "{field}");
        }
    }
}

#[test]
fn refuses_rotations_by_name() {
    let scaling = |value: Value, words: &[&str]| refused(&[("rope_scaling", value)], words);
    scaling(
        json!({"rope_type": "longrope", "factor": 4.0}),
        &["rope_scaling.rope_type", "longrope", "yarn"],
    );
    scaling(json!({"type": "su"}), &["rope_scaling.type", "su"]);
    scaling(json!({"factor": 2.0}), &["rope_scaling.factor", "default"]);
    scaling(
        json!({"type": "linear"}),
        &["rope_scaling.factor", "missing"],
    );
    scaling(
        json!({"type": "linear", "factor": 0}),
        &["rope_scaling.factor", "positive"],
    );
    scaling(
        json!({"type": "linear", "factor": 2.0, "finetuned": true}),
        &["rope_scaling.finetuned", "linear"],
    );
    scaling(json!(["linear"]), &["rope_scaling", "an object"]);
    scaling(
        json!({"type": "yarn", "factor": 4.0, "beta_fast": 1, "beta_slow": 2}),
        &["rope_scaling.beta_fast"],
    );
    scaling(
        json!({"type": "yarn", "factor": 4.0, "attention_factor": "x"}),
        &["rope_scaling.attention_factor"],
    );
    scaling(
        json!({"type": "yarn", "factor": 1e12}),
        &["rope_scaling.factor", "2^30"],
    );
    scaling(
        json!({"type": "llama3", "factor": 4.0, "low_freq_factor": 4, "high_freq_factor": 4}),
        &["rope_scaling.high_freq_factor"],
    );
    refused(
        &[("rope_parameters", json!({"rope_type": "mrope"}))],
        &["rope_parameters.rope_type", "mrope"],
    );
    let phi = ("model_type", Value::from("phi3"));
    let linear = ("rope_scaling", json!({"type": "linear", "factor": 2.0}));
    refused(&[phi, linear], &["rope_scaling.type", "linear"]);
}

#[test]
fn part_of_a_head_turns_where_the_family_knows_it() {
    let half = ("partial_rotary_factor", Value::from(0.5));
    refused(
        std::slice::from_ref(&half),
        &["partial_rotary_factor", "0.5"],
    );
    let phi = ("model_type", Value::from("phi3"));
    assert_eq!(rope(&[phi.clone(), half]).frequencies(16).len(), 4);
    let within = ("rope_parameters", json!({"partial_rotary_factor": 0.75}));
    assert_eq!(rope(&[phi.clone(), within]).frequencies(16).len(), 6);
    let never = ("partial_rotary_factor", Value::from(0.0));
    refused(&[phi, never], &["partial_rotary_factor"]);
}

fn windows(changes: &[(&str, Value)]) -> Vec<Option<usize>> {
    with(changes).unwrap().windows
}

#[test]
fn mistral_and_phi_have_their_window_in_all_layers() {
    for family in ["mistral", "phi3"] {
        let family = ("model_type", Value::from(family));
        let window = ("sliding_window", Value::from(64));
        assert_eq!(windows(&[family.clone(), window.clone()]), [Some(64); 2]);
        let null = ("sliding_window", Value::Null);
        assert_eq!(windows(&[family.clone(), null.clone()]), [None; 2]);
        let full = (
            "layer_types",
            json!(["sliding_attention", "full_attention"]),
        );
        refused(&[family.clone(), window, full.clone()], &["layer_types"]);
        refused(&[family, null, full], &["layer_types"]);
    }
    assert_eq!(
        windows(&[("model_type", "mistral".into())]),
        [Some(4096); 2]
    );
    assert_eq!(windows(&[("model_type", "phi3".into())]), [None; 2]);
}

#[test]
fn qwen_has_a_window_only_where_it_is_used() {
    for family in ["qwen2", "qwen3"] {
        let qwen = ("model_type", Value::from(family));
        let window = ("sliding_window", Value::from(64));
        let on = ("use_sliding_window", Value::from(true));
        assert_eq!(windows(&[qwen.clone(), window.clone()]), [None; 2]);
        let used = [qwen.clone(), window.clone(), on.clone()];
        let and = |more: (&'static str, Value)| [&used[..], &[more]].concat();
        assert_eq!(windows(&used), [None; 2], "layers from the 28th on");
        assert_eq!(
            windows(&and(("max_window_layers", 1.into()))),
            [None, Some(64)]
        );
        let types = |types: [&str; 2]| ("layer_types", json!(types));
        let (full, sliding) = ("full_attention", "sliding_attention");
        assert_eq!(windows(&and(types([sliding, full]))), [Some(64), None]);
        refused(
            &and(types([full, "chunked_attention"])),
            &["layer_types", "chunked"],
        );
        refused(
            &and(("layer_types", json!([full]))),
            &["layer_types", "2 layers"],
        );
        refused(
            &[qwen, window, types([full, sliding])],
            &["layer_types", "use_sliding_window"],
        );
    }
}

#[test]
fn a_llama_has_no_window() {
    refused(&[("sliding_window", 64.into())], &["sliding_window", "64"]);
    assert_eq!(windows(&[("sliding_window", 4096.into())]), [None; 2]);
    let types = json!(["full_attention", "sliding_attention"]);
    refused(
        &[("layer_types", types)],
        &["layer_types", "sliding_attention"],
    );
}

#[test]
fn refuses_impossible_sizes() {
    refused(
        &[("num_hidden_layers", 1_000_000_000.into())],
        &["num_hidden_layers", "65536"],
    );
    refused(&[("vocab_size", Value::Null)], &["vocab_size", "missing"]);
    refused(&[("vocab_size", 0.into())], &["vocab_size", "positive"]);
    refused(&[("hidden_size", "wide".into())], &["hidden_size", "wide"]);
    refused(
        &[("num_hidden_layers", (-1).into())],
        &["num_hidden_layers", "-1"],
    );
    refused(
        &[("num_key_value_heads", 3.into())],
        &["num_key_value_heads", "divisor"],
    );
    refused(
        &[("num_attention_heads", 6.into())],
        &["num_attention_heads", "64"],
    );
    refused(&[("head_dim", 7.into())], &["head_dim", "even"]);
    refused(&[("rope_theta", 0.0.into())], &["rope_theta"]);
    refused(
        &[("tie_word_embeddings", 1.into())],
        &["tie_word_embeddings"],
    );
}

#[test]
fn refuses_what_is_not_an_object() {
    let error = ModelConfig::from_json("[1]", Path::new("c.json")).unwrap_err();
    assert!(matches!(error, Error::Json { .. }));
    assert!(error.to_string().contains("c.json"));
}
