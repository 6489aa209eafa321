//! Weights in the memory of a CUDA device: row-major, in float32, bfloat16 or float16.

use std::thread;

use beamgen_kernels::cuda::{
    Buffer, Device, Element, LinearShape, LinearWorkspace, Number, check_process, linear,
    linear_silu,
};
use beamgen_kernels::{Epilogue, ThreadPool, WeightFormat};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::Decoder;
use super::load::{Loader, Pack, Source};
use crate::{Error, ModelConfig, WeightType};

/// The number of values that are staged on the host at a time.
const STAGED: usize = 1 << 22;

pub(crate) type CudaDecoder = Decoder<DeviceLinear, Buffer>;

/// A matrix `[outputs, inputs]` and its optional bias.
#[derive(Debug)]
pub(crate) struct DeviceLinear {
    pub(crate) weight: Buffer,
    bias: Option<Buffer>,
    pub(crate) shape: LinearShape,
}

impl CudaDecoder {
    /// The number type of the last layer, which [`KvType::Auto`](crate::KvType::Auto) follows.
    pub(crate) fn number(&self) -> Number {
        let last = self.layers.last();
        last.map_or(Number::F32, |layer| layer.down.number())
    }
}

impl DeviceLinear {
    pub(super) fn bytes(&self) -> usize {
        self.weight.bytes() + self.bias.as_ref().map_or(0, Buffer::bytes)
    }

    /// The number type of the weights, which the inputs must have, too.
    pub(crate) fn number(&self) -> Number {
        self.shape.number
    }

    /// Computes `out = x Wᵀ + b` for `rows` rows, or adds that to `out`.
    pub(crate) fn forward(
        &self,
        x: &Buffer,
        out: &mut Buffer,
        rows: usize,
        epilogue: Epilogue,
        workspace: &LinearWorkspace,
    ) -> Result<(), Error> {
        let (weight, bias) = (&self.weight, self.bias.as_ref());
        let workspace = &mut workspace.share();
        linear(out, x, &self.shape, weight, bias, rows, epilogue, workspace)?;
        Ok(())
    }

    /// Whether [`gated`](Self::gated) supports this matrix, before a matrix with inputs in
    /// `number`.
    pub(crate) fn gates(&self, number: Number) -> bool {
        self.bias.is_none() && self.number() == number && self.shape.on_tensor_cores()
    }

    /// Computes gate and up, and writes `silu(gate) * up` to `out`, half as wide, as the input of
    /// the next matrix.
    pub(crate) fn gated(
        &self,
        x: &Buffer,
        out: &mut Buffer,
        rows: usize,
        workspace: &LinearWorkspace,
    ) -> Result<(), Error> {
        linear_silu(
            out,
            x,
            &self.shape,
            &self.weight,
            rows,
            &mut workspace.share(),
        )?;
        Ok(())
    }

    /// Copies one row of the weights to the host, widened to float32.
    pub(crate) fn weight_row(&self, row: usize, out: &mut [f32]) -> Result<(), Error> {
        let at = row * self.shape.inputs * self.number().bytes();
        Ok(self.weight.read_f32(at, self.number(), out)?)
    }
}

/// The number type in which a device keeps weights of `format`; blocks are unpacked.
pub(crate) fn number(format: WeightFormat) -> Number {
    match format {
        WeightFormat::Bf16 => Number::Bf16,
        WeightFormat::F16 => Number::F16,
        _ => Number::F32,
    }
}

/// Refuses int8 weights, which only the processor computes with.
pub(crate) fn check(weight_type: WeightType) -> Result<(), Error> {
    if weight_type != WeightType::Int8 {
        return Ok(());
    }
    let reason = "int8 runs on the CPU only: use device cpu, or auto, bf16, f16 or f32 on a CUDA \
                  device";
    Err(Error::setting("dtype", reason))
}

pub(super) fn load(
    loader: &Loader<'_>,
    config: &ModelConfig,
    device: &Device,
    pool: &ThreadPool,
) -> Result<CudaDecoder, Error> {
    check(loader.weight_type)?;
    check_process()?;
    let threads = pool.threads();
    let decoder = loader.decoder(config, &OnDevice { device, threads })?;
    // Errors of work that is still queued belong to loading, not to the first pass.
    device.synchronize()?;
    Ok(decoder)
}

struct OnDevice<'a> {
    device: &'a Device,
    threads: usize,
}

impl Pack for OnDevice<'_> {
    type Matrix = DeviceLinear;
    type Vector = Buffer;

    fn matrix(&self, source: &Source<'_>, bias: Option<Vec<f32>>) -> Result<DeviceLinear, Error> {
        let number = number(source.format);
        let weight = match number {
            Number::F32 => self.upload(source, WeightFormat::F32, |row, out: &mut [f32]| {
                out.copy_from_slice(row);
            }),
            Number::Bf16 => self.upload(source, WeightFormat::Bf16, |row, out: &mut [bf16]| {
                out.convert_from_f32_slice(row);
            }),
            Number::F16 => self.upload(source, WeightFormat::F16, |row, out: &mut [f16]| {
                out.convert_from_f32_slice(row);
            }),
        }?;
        let bias = bias.map(|bias| self.vector(bias)).transpose()?;
        Ok(DeviceLinear {
            weight,
            bias,
            shape: LinearShape {
                inputs: source.inputs,
                outputs: source.outputs,
                number,
            },
        })
    }

    fn vector(&self, values: Vec<f32>) -> Result<Buffer, Error> {
        Ok(self.device.upload(&values)?)
    }
}

impl OnDevice<'_> {
    /// Copies a matrix to the device piece by piece; all threads narrow the rows of a piece.
    fn upload<T: Element + Default + Send>(
        &self,
        source: &Source<'_>,
        format: WeightFormat,
        narrow: impl Fn(&[f32], &mut [T]) + Sync,
    ) -> Result<Buffer, Error> {
        let (inputs, outputs) = (source.inputs, source.outputs);
        let mut buffer = self.device.alloc(size_of::<T>() * inputs * outputs)?;
        // In pieces, so that the host never has a whole matrix in two types.
        // Whole rows, and at least one: a single row may be longer than the staging area.
        let piece = (STAGED / inputs.max(1)).clamp(1, outputs.max(1));
        let mut staged = vec![T::default(); piece * inputs];
        for first in (0..outputs).step_by(piece) {
            let staged = &mut staged[..piece.min(outputs - first) * inputs];
            let share = staged.len().div_ceil(inputs * self.threads).max(1);
            // Only widening is parallel: the copy to the device waits for all rows of the piece.
            thread::scope(|scope| {
                for (i, rows) in staged.chunks_mut(share * inputs).enumerate() {
                    let narrow = &narrow;
                    scope.spawn(move || {
                        let mut wide = vec![0.0; inputs];
                        for (n, row) in rows.chunks_exact_mut(inputs).enumerate() {
                            source.widen(first + i * share + n, format, &mut wide);
                            narrow(&wide, row);
                        }
                    });
                }
            });
            buffer.write(size_of::<T>() * first * inputs, staged)?;
        }
        Ok(buffer)
    }
}
