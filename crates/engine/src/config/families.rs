//! The table of model families, with the defaults of their configurations in `transformers`.

/// The source of a yes-or-no property: fixed for the family, or a field of the configuration.
pub(super) enum Flag {
    Always,
    Never,
    Field(&'static str),
}

/// Which layers attend through a sliding window.
#[derive(PartialEq, Eq)]
pub(super) enum Windows {
    /// The family has no sliding windows, so a window in the configuration is an error.
    None,
    /// All layers attend through `sliding_window`, or `default` if the field is absent.
    All { default: Option<usize> },
    /// If `use_sliding_window` is true: the layers that `layer_types` names. Without that list: the
    /// layers from `max_window_layers` on.
    Listed,
}

/// A model family: its defaults for absent fields, and its variants.
pub(super) struct Family {
    pub(super) model_type: &'static str,
    pub(super) qkv_bias: Flag,
    pub(super) o_bias: Flag,
    pub(super) mlp_bias: Flag,
    pub(super) qk_norm: bool,
    /// The value for an absent `head_dim`; `None` means `hidden_size / num_attention_heads`.
    pub(super) default_head_dim: Option<usize>,
    /// The value for an absent `num_key_value_heads`; `None` means as many as query heads.
    pub(super) default_kv_heads: Option<usize>,
    pub(super) default_rms_norm_eps: f64,
    pub(super) windows: Windows,
    /// Whether a layer has one tensor for queries, keys and values, and one for gate and up.
    pub(super) fused_projections: bool,
    pub(super) partial_rotation: bool,
    /// Whether scaling of the rotation (`rope_scaling`) is supported.
    pub(super) scaled_rotation: bool,
}

const LLAMA: Family = Family {
    model_type: "llama",
    qkv_bias: Flag::Field("attention_bias"),
    o_bias: Flag::Field("attention_bias"),
    mlp_bias: Flag::Field("mlp_bias"),
    qk_norm: false,
    default_head_dim: None,
    default_kv_heads: None,
    default_rms_norm_eps: 1e-6,
    windows: Windows::None,
    fused_projections: false,
    partial_rotation: false,
    scaled_rotation: true,
};

pub(super) const FAMILIES: [Family; 5] = [
    LLAMA,
    Family {
        model_type: "mistral",
        qkv_bias: Flag::Never,
        o_bias: Flag::Never,
        mlp_bias: Flag::Never,
        default_kv_heads: Some(8),
        windows: Windows::All {
            default: Some(4096),
        },
        ..LLAMA
    },
    Family {
        model_type: "qwen2",
        qkv_bias: Flag::Always,
        o_bias: Flag::Never,
        mlp_bias: Flag::Never,
        default_kv_heads: Some(32),
        windows: Windows::Listed,
        ..LLAMA
    },
    Family {
        model_type: "qwen3",
        mlp_bias: Flag::Never,
        qk_norm: true,
        default_head_dim: Some(128),
        default_kv_heads: Some(32),
        windows: Windows::Listed,
        ..LLAMA
    },
    Family {
        model_type: "phi3",
        qkv_bias: Flag::Never,
        o_bias: Flag::Never,
        mlp_bias: Flag::Never,
        default_rms_norm_eps: 1e-5,
        windows: Windows::All { default: None },
        fused_projections: true,
        partial_rotation: true,
        // Phi-3 scales only by LongRoPE. Beyond a certain length that rotates all cached keys
        // again.
        scaled_rotation: false,
        ..LLAMA
    },
];

/// The supported values of `model_type`, for messages.
pub(super) fn names() -> String {
    let names: Vec<&str> = FAMILIES.iter().map(|f| f.model_type).collect();
    names.join(", ")
}

/// Fields whose arithmetic this engine lacks, with the JSON values at which the field has no
/// effect. An absent or `null` field has no effect either.
pub(super) const UNSUPPORTED: [(&str, &[&str]); 25] = [
    ("quantization_config", &[]),
    ("compression_config", &[]),
    ("attn_logit_softcapping", &["0.0", "0"]),
    ("final_logit_softcapping", &["0.0", "0"]),
    ("embedding_multiplier", &["1.0", "1"]),
    ("residual_multiplier", &["1.0", "1"]),
    // No value is harmless, because the neutral one depends on `head_dim`.
    ("attention_multiplier", &[]),
    ("query_pre_attn_scalar", &[]),
    ("logits_scaling", &["1.0", "1"]),
    ("logit_scale", &["1.0", "1"]),
    ("num_experts", &["0"]),
    ("num_local_experts", &["0"]),
    ("num_experts_per_tok", &["0"]),
    ("no_rope_layers", &["[]"]),
    ("attention_chunk_size", &[]),
    ("is_causal", &["true"]),
    ("use_mrope", &["false"]),
    ("use_qk_norm", &["false"]),
    ("clip_qkv", &[]),
    ("qkv_bias", &["false"]),
    ("lm_head_bias", &["false"]),
    ("is_encoder_decoder", &["false"]),
    ("add_cross_attention", &["false"]),
    ("attention_sinks", &["false"]),
    ("position_embedding_type", &["\"rope\"", "\"absolute\""]),
];
