//! Reads a checkpoint's tensors and packs them into a decoder.

use std::sync::atomic::{AtomicUsize, Ordering};

use beamgen_kernels::{PackedLinear, Parallel, WeightFormat};

use super::parts::{Matrix, Parts};
use super::{Decoder, Head, Layer};
use crate::weights::View;
use crate::{Error, ModelConfig, Precision, WeightType, Weights};

/// Reads the tensors of a decoder and passes them to a [`Pack`].
pub(super) struct Loader<'a> {
    pub(super) weights: &'a Weights,
    pub(super) parts: &'a Parts<'a>,
    pub(super) precision: Precision,
}

/// Packs matrices and vectors for one kind of device. A device reads weights in its own layout.
pub(super) trait Pack {
    type Matrix;
    type Vector;

    /// Packs the matrix `source` in its format, with its bias.
    fn matrix(&self, source: &Source<'_>, bias: Option<Vec<f32>>) -> Result<Self::Matrix, Error>;

    fn vector(&self, values: Vec<f32>) -> Result<Self::Vector, Error>;
}

/// The tensors that form one matrix, their rows concatenated.
pub(super) struct Source<'a> {
    matrix: &'a Matrix,
    views: Vec<View<'a>>,
    precision: Precision,
    pub(super) format: WeightFormat,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// The least index of a tensor with a value outside the format's range; `usize::MAX` for none.
    /// The minimum does not depend on the order in which threads find such values.
    out_of_range: AtomicUsize,
}

impl Source<'_> {
    /// Returns the index of the tensor that has row `n`, and the row's number in that tensor.
    fn locate(&self, mut n: usize) -> (usize, usize) {
        let mut i = 0;
        // A matrix has at most three tensors, so a binary search would not be faster.
        while n >= self.views[i].rows() {
            n -= self.views[i].rows();
            i += 1;
        }
        (i, n)
    }

    /// Decodes row `n` to float32. Remembers the tensor if rounding to `format` would overflow.
    pub(super) fn widen(&self, n: usize, format: WeightFormat, row: &mut [f32]) {
        let (i, n) = self.locate(n);
        self.views[i].widen(n * self.inputs, row);
        // A tensor that is stored in `format` cannot overflow it.
        let stored = self.views[i].format();
        let kept = stored == format || (stored == WeightFormat::Bf16 && format.is_pairs());
        if !kept && overflows(format, row) {
            self.out_of_range.fetch_min(i, Ordering::Relaxed);
        }
    }

    /// Reads row `n` as quantised blocks. Remembers the tensor if a value is out of range.
    fn blocks(&self, n: usize, blocks: &mut [u8]) {
        let (i, n) = self.locate(n);
        if !self.views[i].blocks(n, self.format, blocks) {
            self.out_of_range.fetch_min(i, Ordering::Relaxed);
        }
    }

    fn check(&self) -> Result<(), Error> {
        match self
            .matrix
            .tensors
            .get(self.out_of_range.load(Ordering::Relaxed))
        {
            Some((name, _)) => Err(Error::WeightRange {
                name: format!("{name}.weight"),
                weight_type: if self.format.is_pairs() {
                    WeightType::Bf16
                } else {
                    self.precision.weights
                },
            }),
            None => Ok(()),
        }
    }
}

pub(super) struct OnCpu<'a> {
    pub(super) parallel: Parallel<'a>,
}

impl Pack for OnCpu<'_> {
    type Matrix = PackedLinear;
    type Vector = Vec<f32>;

    fn matrix(&self, source: &Source<'_>, bias: Option<Vec<f32>>) -> Result<PackedLinear, Error> {
        let (inputs, outputs, format) = (source.inputs, source.outputs, source.format);
        let layer = if format.is_blocks() {
            PackedLinear::pack_blocks(self.parallel, inputs, outputs, format, |n, blocks| {
                source.blocks(n, blocks);
            })
        } else {
            PackedLinear::pack(self.parallel, inputs, outputs, format, |n, row| {
                source.widen(n, format, row);
            })
        };
        Ok(match bias {
            Some(bias) => layer.with_bias(&bias),
            None => layer,
        })
    }

    fn vector(&self, values: Vec<f32>) -> Result<Vec<f32>, Error> {
        Ok(values)
    }
}

impl Loader<'_> {
    pub(super) fn decoder<P: Pack>(
        &self,
        c: &ModelConfig,
        pack: &P,
    ) -> Result<Decoder<P::Matrix, P::Vector>, Error> {
        // The largest matrices are packed first, while nothing else is in memory.
        let embedding = self.matrix(&self.parts.embedding(), pack)?;
        let head = match self.parts.head(self.weights) {
            Head::None => Head::None,
            Head::Tied => Head::Tied,
            Head::Own(matrix) => Head::Own(self.matrix(&matrix, pack)?),
        };
        let layers = (0..c.num_hidden_layers)
            .map(|i| self.layer(c, i, pack))
            .collect::<Result<Vec<_>, _>>()?;
        let norm = self.vector(self.parts.vector("norm"), c.hidden_size, pack)?;
        Ok(Decoder {
            embedding,
            layers,
            norm,
            head,
        })
    }

    fn values(&self, name: &str, len: usize) -> Result<Vec<f32>, Error> {
        self.weights.values(name, &[len])
    }

    fn vector<P: Pack>(&self, name: String, len: usize, pack: &P) -> Result<P::Vector, Error> {
        pack.vector(self.values(&name, len)?)
    }

    fn matrix<P: Pack>(&self, matrix: &Matrix, pack: &P) -> Result<P::Matrix, Error> {
        let mut bias = matrix.bias.then(Vec::new);
        if let Some(bias) = &mut bias {
            for (name, outputs) in &matrix.tensors {
                bias.extend(self.values(&format!("{name}.bias"), *outputs)?);
            }
        }
        let views = matrix.views(self.weights)?;
        let source = Source {
            format: matrix.format(self.precision, &views),
            views,
            matrix,
            precision: self.precision,
            inputs: matrix.inputs,
            outputs: matrix.outputs(),
            out_of_range: AtomicUsize::new(usize::MAX),
        };
        let packed = pack.matrix(&source, bias)?;
        source.check()?;
        drop(source);
        // Without this, the mapped pages of all tensors would stay in memory next to the packed
        // weights.
        for (name, _) in &matrix.tensors {
            self.weights.set_aside(&format!("{name}.weight"));
        }
        Ok(packed)
    }

    fn layer<P: Pack>(
        &self,
        c: &ModelConfig,
        i: usize,
        pack: &P,
    ) -> Result<Layer<P::Matrix, P::Vector>, Error> {
        let parts = self.parts;
        let matrices = parts.layer(i);
        let norm = |name, len| self.vector(parts.layer_vector(i, name), len, pack);
        Ok(Layer {
            attention_norm: norm("input_layernorm", c.hidden_size)?,
            qkv: self.matrix(&matrices.qkv, pack)?,
            qk_norm: if c.qk_norm {
                Some((
                    norm("self_attn.q_norm", c.head_dim)?,
                    norm("self_attn.k_norm", c.head_dim)?,
                ))
            } else {
                None
            },
            attention_out: self.matrix(&matrices.attention_out, pack)?,
            mlp_norm: norm("post_attention_layernorm", c.hidden_size)?,
            gate_up: self.matrix(&matrices.gate_up, pack)?,
            down: self.matrix(&matrices.down, pack)?,
        })
    }
}

/// Whether rounding a finite value to `format` gives an infinity.
fn overflows(format: WeightFormat, row: &[f32]) -> bool {
    row.iter().any(|x| {
        let mut rounded = [*x];
        format.round(&mut rounded);
        // Infinities of the checkpoint itself are kept.
        x.is_finite() && !rounded[0].is_finite()
    })
}
