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
use crate::{ComputeType, Error, ModelConfig, Precision, WeightType};

/// The number of values that the host converts at a time; 8 to 16 MiB, depending on the type.
const STAGED: usize = 1 << 22;

pub(crate) type CudaDecoder = Decoder<DeviceLinear, Buffer>;

/// A matrix on the device, row-major `[outputs, inputs]`. Its bias is float32.
#[derive(Debug)]
pub(crate) struct DeviceLinear {
    pub(crate) weight: Buffer,
    bias: Option<Buffer>,
    pub(crate) shape: LinearShape,
}

impl CudaDecoder {
    /// The number type of the last layer's weights; [`KvType::Auto`](crate::KvType::Auto) follows
    /// it.
    pub(crate) fn number(&self) -> Number {
        let last = self.layers.last();
        last.map_or(Number::F32, |layer| layer.down.number())
    }
}

impl DeviceLinear {
    pub(super) fn bytes(&self) -> usize {
        self.weight.bytes() + self.bias.as_ref().map_or(0, Buffer::bytes)
    }

    /// The number type of the weights. Inputs must have the same type.
    pub(crate) fn number(&self) -> Number {
        self.shape.number
    }

    /// Computes `x Wᵀ + b` for `rows` rows, and stores the result in `out` or adds it there
    /// (`epilogue`).
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

    /// Whether [`gated`](Self::gated) can run this matrix of gate and up, if the next matrix reads
    /// its inputs as `number`.
    pub(crate) fn gates(&self, number: Number) -> bool {
        self.bias.is_none() && self.number() == number && self.shape.on_tensor_cores()
    }

    /// Computes gate and up, and writes `silu(gate) * up` to `out`. A row of `out` is half as wide
    /// as the matrix has outputs.
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

    /// Copies one row of the weights to the host, converted to float32.
    pub(crate) fn weight_row(&self, row: usize, out: &mut [f32]) -> Result<(), Error> {
        let at = row * self.shape.inputs * self.number().bytes();
        Ok(self.weight.read_f32(at, self.number(), out)?)
    }
}

/// The number type for weights of `format` on a device. Quantised blocks become float32.
pub(crate) fn number(format: WeightFormat) -> Number {
    match format {
        WeightFormat::Bf16 | WeightFormat::Bf16Pairs | WeightFormat::Bf16Tiles => Number::Bf16,
        WeightFormat::F16 => Number::F16,
        _ => Number::F32,
    }
}

/// Refuses what only the processor computes with: int8 weights, and float32 products of weights in
/// half precision.
pub(crate) fn check(precision: Precision) -> Result<(), Error> {
    if precision.weights == WeightType::Int8 {
        let reason = "int8 runs on the CPU only: use device cpu, or auto, bf16, f16 or f32 on a CUDA \
                      device";
        return Err(Error::setting("dtype", reason));
    }
    if precision.compute == ComputeType::F32 && precision.weights != WeightType::F32 {
        let reason = "a CUDA device computes in the weights' type: use compute auto, or dtype f32";
        return Err(Error::setting("compute", reason));
    }
    if matches!(
        precision.compute,
        ComputeType::Bf16Pairs | ComputeType::Bf16Tiles
    ) {
        let reason = format!(
            "{} is an order of the CPU: use compute bf16 on a CUDA device",
            precision.compute
        );
        return Err(Error::setting("compute", reason));
    }
    precision.check()
}

pub(super) fn load(
    loader: &Loader<'_>,
    config: &ModelConfig,
    device: &Device,
    pool: &ThreadPool,
) -> Result<CudaDecoder, Error> {
    check(loader.precision)?;
    check_process()?;
    let threads = pool.threads();
    let decoder = loader.decoder(config, &OnDevice { device, threads })?;
    // An error of work that is still queued should be reported while loading, not in the first
    // pass.
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
    /// Copies a matrix to the device in pieces. All threads convert the rows of a piece.
    fn upload<T: Element + Default + Send>(
        &self,
        source: &Source<'_>,
        format: WeightFormat,
        narrow: impl Fn(&[f32], &mut [T]) + Sync,
    ) -> Result<Buffer, Error> {
        let (inputs, outputs) = (source.inputs, source.outputs);
        let mut buffer = self.device.alloc(size_of::<T>() * inputs * outputs)?;
        // Pieces keep the host from having the whole matrix in two types. A piece is at least one
        // row, which may be longer than `STAGED` values.
        let piece = (STAGED / inputs.max(1)).clamp(1, outputs.max(1));
        let mut staged = vec![T::default(); piece * inputs];
        for first in (0..outputs).step_by(piece) {
            let staged = &mut staged[..piece.min(outputs - first) * inputs];
            let share = staged.len().div_ceil(inputs * self.threads).max(1);
            // Only the conversion is parallel. The copy to the device waits for all rows of the
            // piece.
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
