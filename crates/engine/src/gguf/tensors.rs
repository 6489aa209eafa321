//! The tensors of a GGUF file under their Hugging Face names.

use super::{Gguf, config};
use crate::Error;
use crate::gguf::header::TensorInfo;

/// A tensor of a GGUF file.
pub(crate) struct Tensor<'a> {
    /// The tensor's name in Hugging Face checkpoints, by which all other code finds tensors.
    pub(crate) name: String,
    pub(crate) info: &'a TensorInfo,
    /// The values of a head, if the rows of a head's two halves alternate in the file (the rotation
    /// pairs neighbouring rows). `None` if the rows are ordered as in Hugging Face checkpoints.
    pub(crate) interleaved: Option<usize>,
}

/// Names of the tensors outside the layers: in GGUF, and in Hugging Face checkpoints.
const WHOLE: [(&str, &str); 3] = [
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
];

/// Names of a layer's tensors in both formats, without `.weight` and `.bias`.
const PARTS: [(&str, &str); 13] = [
    ("attn_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_qkv", "self_attn.qkv_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_gate_up", "mlp.gate_up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

impl Gguf {
    /// Returns the decoder's tensors. Tensors that become fields of `config.json` (such as
    /// `rope_freqs.weight`) are left out.
    pub(crate) fn tensors(&self) -> Result<Vec<Tensor<'_>>, Error> {
        let architecture = config::Architecture::of(self)?;
        let head_dim = config::head_dim(self)?;
        let mut tensors = Vec::new();
        for info in &self.tensors {
            if config::RESCALING.contains(&info.name.as_str()) {
                continue;
            }
            let Some((name, part)) = hugging_face(&info.name, architecture.fused) else {
                return Err(Error::UnexpectedTensor {
                    name: info.name.clone(),
                });
            };
            let is_rotated = part == "attn_q" || part == "attn_k";
            let interleaved = (architecture.interleaved && is_rotated).then_some(head_dim);
            // A reader reorders the rows within each head, so the rows must be whole heads.
            if interleaved.is_some() && !rows_are_heads(info, head_dim) {
                let (name, shape) = (&info.name, &info.shape);
                let reason =
                    format!("tensor `{name}` of shape {shape:?} has no heads of {head_dim}");
                return Err(Error::checkpoint(&self.path, reason));
            }
            tensors.push(Tensor {
                name,
                info,
                interleaved,
            });
        }
        Ok(tensors)
    }

    /// Whether the file has a tensor with this name, as GGUF names it.
    pub(super) fn has_tensor(&self, name: &str) -> bool {
        self.tensors.iter().any(|tensor| tensor.name == name)
    }
}

/// Whether the rows are whole heads, and each row is a whole number of blocks.
fn rows_are_heads(info: &TensorInfo, head_dim: usize) -> bool {
    let width: usize = info.shape.iter().skip(1).product();
    let encoding = info.encoding.as_ref();
    let whole_rows = encoding.map_or(true, |encoding| width.is_multiple_of(encoding.block().0));
    let rows = info.shape.first().copied().unwrap_or(1);
    whole_rows && head_dim.is_multiple_of(2) && head_dim > 0 && rows.is_multiple_of(head_dim)
}

/// Translates a GGUF name to the Hugging Face name. Also returns the part of the layer that the
/// GGUF name mentions (empty outside the layers).
fn hugging_face(name: &str, fused: bool) -> Option<(String, &str)> {
    if let Some((_, whole)) = WHOLE.iter().find(|(gguf, _)| *gguf == name) {
        return Some(((*whole).into(), ""));
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let (part, kind) = rest.rsplit_once('.')?;
    if !matches!(kind, "weight" | "bias") {
        return None;
    }
    // In fused files, llama.cpp calls the matrix of gate and up `ffn_up`.
    let sought = if fused && part == "ffn_up" {
        "ffn_gate_up"
    } else {
        part
    };
    let (_, named) = PARTS.iter().find(|(gguf, _)| *gguf == sought)?;
    Some((format!("model.layers.{layer}.{named}.{kind}"), part))
}
