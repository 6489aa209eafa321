//! Lists the tensors of a decoder. The same list serves to compute memory and to load weights.

use std::collections::HashSet;

use beamgen_kernels::WeightFormat;

use super::Head;
use crate::weights::View;
use crate::{Error, ModelConfig, Precision, Weights};

pub(crate) const HEAD: &str = "lm_head.weight";

/// The names of a decoder's tensors.
pub(crate) struct Parts<'a> {
    config: &'a ModelConfig,
    /// The prefix of all names: empty for a checkpoint of the bare decoder, otherwise `model.`.
    pub(crate) prefix: &'static str,
}

/// Tensors that read the same input. They are packed as one matrix, their rows concatenated.
pub(crate) struct Matrix {
    /// The tensors' names without `.weight` and `.bias`, each with its number of outputs.
    pub(crate) tensors: Vec<(String, usize)>,
    pub(crate) inputs: usize,
    pub(crate) bias: bool,
    /// Whether rows are only looked up, so that nothing is multiplied by the matrix.
    pub(crate) only_looked_up: bool,
}

impl Matrix {
    fn new(prefix: &str, tensors: &[(&str, usize)], inputs: usize, bias: bool) -> Self {
        let tensors = tensors.iter();
        Self {
            tensors: tensors
                .map(|(name, outputs)| (format!("{prefix}{name}"), *outputs))
                .collect(),
            inputs,
            bias,
            only_looked_up: false,
        }
    }

    /// The format in which the matrix is packed. `views` are the matrix's tensors.
    pub(crate) fn format(&self, precision: Precision, views: &[View<'_>]) -> WeightFormat {
        if self.only_looked_up {
            precision.weights.format_of_lookups(views)
        } else {
            precision.format(self.inputs, views)
        }
    }

    pub(crate) fn outputs(&self) -> usize {
        self.tensors.iter().map(|(_, outputs)| outputs).sum()
    }

    /// Finds the weights' tensors in the checkpoint, without reading a value.
    ///
    /// # Errors
    /// [`Error`] if a tensor is missing or has another shape than the configuration implies.
    pub(crate) fn views<'w>(&self, weights: &'w Weights) -> Result<Vec<View<'w>>, Error> {
        self.tensors
            .iter()
            .map(|(name, outputs)| {
                weights.shaped(&format!("{name}.weight"), &[*outputs, self.inputs])
            })
            .collect()
    }

    /// The names and shapes of the matrix's tensors, biases included.
    fn shapes(&self) -> impl Iterator<Item = (String, Vec<usize>)> {
        self.tensors.iter().flat_map(|(name, outputs)| {
            let weight = (format!("{name}.weight"), vec![*outputs, self.inputs]);
            let bias = self.bias.then(|| (format!("{name}.bias"), vec![*outputs]));
            std::iter::once(weight).chain(bias)
        })
    }
}

/// The matrices of a layer.
pub(crate) struct LayerParts {
    /// The projection to queries, keys and values, in this order.
    pub(crate) qkv: Matrix,
    pub(crate) attention_out: Matrix,
    /// The projection to gate and up, in this order.
    pub(crate) gate_up: Matrix,
    pub(crate) down: Matrix,
}

impl Weights {
    /// Creates random bfloat16 weights for `config`, for measurements that depend only on the
    /// shapes.
    #[must_use]
    pub fn random(config: &ModelConfig) -> Self {
        let none = Self::default();
        let shapes: Vec<_> = Parts::new(config, &none).shapes(&none).collect();
        Self::noise(shapes)
    }
}

impl<'a> Parts<'a> {
    pub(crate) fn new(config: &'a ModelConfig, weights: &Weights) -> Self {
        // Checkpoints of the bare decoder class, such as many reward models, have no prefix.
        let bare = !weights.contains("model.embed_tokens.weight")
            && weights.contains("embed_tokens.weight");
        Self {
            config,
            prefix: if bare { "" } else { "model." },
        }
    }

    /// The full name of a norm's or embedding's tensor outside the layers.
    pub(crate) fn vector(&self, name: &str) -> String {
        format!("{}{name}.weight", self.prefix)
    }

    /// The full name of a norm of layer `i`, such as `model.layers.0.input_layernorm.weight`.
    pub(crate) fn layer_vector(&self, i: usize, name: &str) -> String {
        self.vector(&format!("layers.{i}.{name}"))
    }

    pub(crate) fn layer(&self, i: usize) -> LayerParts {
        let c = self.config;
        let (hidden, intermediate) = (c.hidden_size, c.intermediate_size);
        let (q, kv) = (c.q_width(), c.kv_width());
        let prefix = format!("{}layers.{i}.", self.prefix);
        let matrix = |tensors, inputs, bias| Matrix::new(&prefix, tensors, inputs, bias);
        let (qkv, gate_up): (&[_], &[_]) = if c.fused_projections {
            (
                &[("self_attn.qkv_proj", q + 2 * kv)],
                &[("mlp.gate_up_proj", 2 * intermediate)],
            )
        } else {
            (
                &[
                    ("self_attn.q_proj", q),
                    ("self_attn.k_proj", kv),
                    ("self_attn.v_proj", kv),
                ],
                &[
                    ("mlp.gate_proj", intermediate),
                    ("mlp.up_proj", intermediate),
                ],
            )
        };
        LayerParts {
            qkv: matrix(qkv, hidden, c.qkv_bias),
            attention_out: matrix(&[("self_attn.o_proj", hidden)], q, c.o_bias),
            gate_up: matrix(gate_up, hidden, c.mlp_bias),
            down: matrix(&[("mlp.down_proj", hidden)], intermediate, c.mlp_bias),
        }
    }

    /// The full names of all norms, each with its length.
    fn vectors(&self) -> Vec<(String, usize)> {
        let c = self.config;
        let mut vectors = vec![(self.vector("norm"), c.hidden_size)];
        for i in 0..c.num_hidden_layers {
            let hidden = ["input_layernorm", "post_attention_layernorm"];
            vectors.extend(hidden.map(|name| (self.layer_vector(i, name), c.hidden_size)));
            if c.qk_norm {
                let heads = ["self_attn.q_norm", "self_attn.k_norm"];
                vectors.extend(heads.map(|name| (self.layer_vector(i, name), c.head_dim)));
            }
        }
        vectors
    }

    /// All matrices: the embedding, a separate head, then the layers' matrices in order.
    pub(crate) fn matrices(&self, weights: &Weights) -> Vec<Matrix> {
        let mut all = vec![self.embedding()];
        if let Head::Own(head) = self.head(weights) {
            all.push(head);
        }
        for i in 0..self.config.num_hidden_layers {
            let layer = self.layer(i);
            all.extend([layer.qkv, layer.attention_out, layer.gate_up, layer.down]);
        }
        all
    }

    fn shapes(&self, weights: &Weights) -> impl Iterator<Item = (String, Vec<usize>)> {
        let vectors = self.vectors().into_iter();
        let vectors = vectors.map(|(name, len)| (name, vec![len]));
        let matrices = self.matrices(weights);
        let matrices: Vec<_> = matrices.iter().flat_map(Matrix::shapes).collect();
        vectors.chain(matrices)
    }

    /// Checks that the checkpoint has all tensors with the right shapes, and no unknown weights of
    /// the decoder. Reads no value.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Shape`], [`Error::Dtype`], [`Error::UnexpectedTensor`].
    pub(crate) fn check(&self, weights: &Weights) -> Result<(), Error> {
        let mut used = HashSet::new();
        for (name, shape) in self.shapes(weights) {
            weights.shaped(&name, &shape)?;
            used.insert(name);
        }
        self.refuse_unused(weights, &used)
    }

    /// Refuses weights of the decoder that the configuration does not mention. Without such a bias
    /// or layer, the results would be silently wrong.
    fn refuse_unused(&self, weights: &Weights, used: &HashSet<String>) -> Result<(), Error> {
        // Old checkpoints store the rotary frequencies, which the configuration determines.
        let unused = weights.names().find(|name| {
            let is_used = used.contains(*name) || name.ends_with("rotary_emb.inv_freq");
            !is_used && self.is_decoders(name)
        });
        match unused {
            Some(name) => Err(Error::UnexpectedTensor { name: name.into() }),
            None => Ok(()),
        }
    }

    /// Whether the decoder would need a tensor of this name. Reward heads and others are not
    /// checked.
    fn is_decoders(&self, name: &str) -> bool {
        match name.strip_prefix(self.prefix) {
            Some(rest) => ["layers.", "embed_tokens.", "norm."]
                .iter()
                .any(|part| rest.starts_with(part)),
            // A tied head is unexpected here, because `ModelConfig::settle_head` removes it.
            None => {
                name.starts_with("lm_head.") && (name != HEAD || self.config.tie_word_embeddings)
            }
        }
    }

    pub(crate) fn embedding(&self) -> Matrix {
        let c = self.config;
        let tensors = [("embed_tokens", c.vocab_size)];
        Matrix {
            // A tied embedding is also the head, so hidden states are multiplied by it.
            only_looked_up: !c.tie_word_embeddings,
            ..Matrix::new(self.prefix, &tensors, c.hidden_size, false)
        }
    }

    pub(crate) fn head(&self, weights: &Weights) -> Head<Matrix> {
        let c = self.config;
        if c.tie_word_embeddings {
            Head::Tied
        } else if c.causal_lm || weights.contains(HEAD) {
            let tensors = [("lm_head", c.vocab_size)];
            Head::Own(Matrix::new("", &tensors, c.hidden_size, false))
        } else {
            Head::None
        }
    }
}
