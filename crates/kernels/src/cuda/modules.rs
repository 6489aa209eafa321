//! The modules, one for each file of `kernels/`.

/// A module and the kernels that it has.
pub(super) struct Module {
    pub(super) name: &'static str,
    pub(super) kernels: &'static [&'static str],
}

macro_rules! modules {
    ($($name:literal: [$($kernel:literal),* $(,)?]),* $(,)?) => {
        &[$(Module {
            name: $name,
            kernels: &[$($kernel),*],
        }),*]
    };
}

pub(super) const MODULES: &[Module] = modules! {
    "attention": [
        "attention_64_bf16", "attention_96_bf16", "attention_128_bf16",
        "attention_64_f16", "attention_96_f16", "attention_128_f16",
        "attention_any_f32", "attention_any_bf16", "attention_any_f16",
        "attention_merge_f32", "attention_merge_bf16", "attention_merge_f16",
    ],
    "embed": ["embed_f32", "embed_bf16", "embed_f16"],
    "gather": ["gather_rows"],
    "linear": [
        "linear_8_bf16", "linear_16_bf16", "linear_32_bf16", "linear_64_bf16", "linear_many_bf16",
        "linear_silu_8_bf16", "linear_silu_16_bf16", "linear_silu_32_bf16", "linear_silu_64_bf16", "linear_silu_many_bf16",
        "linear_8_f16", "linear_16_f16", "linear_32_f16", "linear_64_f16", "linear_many_f16",
        "linear_silu_8_f16", "linear_silu_16_f16", "linear_silu_32_f16", "linear_silu_64_f16", "linear_silu_many_f16",
        "linear_any_f32", "linear_any_bf16", "linear_any_f16",
    ],
    "prm": ["prm_head", "prm_layer"],
    "rmsnorm": ["rmsnorm_f32", "rmsnorm_bf16", "rmsnorm_f16", "rmsnorm_heads"],
    "rope": ["rope_angles", "rope_kv_f32", "rope_kv_bf16", "rope_kv_f16"],
    "sample": ["sample", "log_prob"],
    "silu": ["silu_mul_f32", "silu_mul_bf16", "silu_mul_f16"],
};
