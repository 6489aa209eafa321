//! A reward model's head on a CUDA device: a few linear layers over hidden states, which stay in
//! the device's memory. On the processor the reward model's crate computes the head.

#[cfg(not(feature = "cuda"))]
use crate::{Append, Engine, Error};

/// Linear layers with `ReLU` between them, in the memory of a model's device; sums are in float64.
#[derive(Debug)]
pub struct DeviceHead {
    #[cfg(feature = "cuda")]
    layers: Vec<Layer>,
    /// The numbers `0..room`: the rows of hidden states that the first layer reads.
    #[cfg(feature = "cuda")]
    rows: beamgen_kernels::cuda::Buffer,
    /// Inputs and outputs of a layer; the two buffers swap roles with each layer.
    #[cfg(feature = "cuda")]
    values: [beamgen_kernels::cuda::Buffer; 2],
    /// Rows for which there is memory.
    #[cfg(feature = "cuda")]
    room: usize,
    #[cfg(not(feature = "cuda"))]
    never: std::convert::Infallible,
}

#[cfg(feature = "cuda")]
#[derive(Debug)]
struct Layer {
    weight: beamgen_kernels::cuda::Buffer,
    bias: beamgen_kernels::cuda::Buffer,
    inputs: usize,
    outputs: usize,
}

#[cfg(not(feature = "cuda"))]
impl Engine {
    /// Copies a head to the device; always `None`, as hidden states are on the host without CUDA.
    ///
    /// # Errors
    /// [`Error::Device`]
    pub fn place_head(&self, _: &[(&[f32], &[f32])]) -> Result<Option<DeviceHead>, Error> {
        Ok(None)
    }

    /// Reads out the head of a device, which cannot exist without CUDA.
    ///
    /// # Errors
    /// The errors of [`forward`](Self::forward).
    pub fn read_out(&mut self, _: &[Append<'_>], head: &mut DeviceHead) -> Result<Vec<f64>, Error> {
        match head.never {}
    }
}

#[cfg(feature = "cuda")]
mod on_device {
    use beamgen_kernels::cuda::{PrmLayer, prm_head, prm_layer};

    use super::{DeviceHead, Layer};
    use crate::{Append, Compute, Engine, Error, Output};

    impl Engine {
        /// Copies a head to the device: the weights `[outputs, inputs]` and biases `[outputs]` of
        /// each layer. Returns `None` if hidden states are on the host anyway.
        ///
        /// # Errors
        /// [`Error::Device`]
        ///
        /// # Panics
        /// If there is no layer, or a layer has no outputs.
        pub fn place_head(&self, layers: &[(&[f32], &[f32])]) -> Result<Option<DeviceHead>, Error> {
            let Compute::Cuda(device) = self.model().compute() else {
                return Ok(None);
            };
            assert!(!layers.is_empty(), "a head has a layer");
            let layers = layers.iter().map(|(weight, bias)| -> Result<Layer, Error> {
                Ok(Layer {
                    weight: device.upload(weight)?,
                    bias: device.upload(bias)?,
                    inputs: weight.len() / bias.len(),
                    outputs: bias.len(),
                })
            });
            Ok(Some(DeviceHead {
                layers: layers.collect::<Result<_, Error>>()?,
                rows: device.alloc(0)?,
                values: [device.alloc(0)?, device.alloc(0)?],
                room: 0,
            }))
        }

        /// Returns the head's outputs for each wanted row, row by row.
        ///
        /// # Errors
        /// The errors of [`forward`](Self::forward).
        ///
        /// # Panics
        /// If the head does not fit the model's hidden states.
        pub fn read_out(
            &mut self,
            items: &[Append<'_>],
            head: &mut DeviceHead,
        ) -> Result<Vec<f64>, Error> {
            let count = self.forward_on_device(items, Output::Hidden)?;
            if count > head.room {
                // Powers of two, so that a search whose batches grow reallocates only a few times.
                let room = count.next_power_of_two();
                let device = head.rows.device().clone();
                let widest = head.layers.iter().map(|layer| layer.outputs).max();
                let bytes = 8 * room * widest.unwrap_or(0);
                head.rows = device.upload(&(0..room as u32).collect::<Vec<_>>())?;
                head.values = [device.alloc(bytes)?, device.alloc(bytes)?];
                head.room = room;
            }
            let hidden = self.device().rows();
            let [out, x] = &mut head.values;
            let mut outputs = 0;
            for (i, layer) in head.layers.iter().enumerate() {
                let weights = PrmLayer {
                    weight: &layer.weight,
                    bias: Some(&layer.bias),
                    inputs: layer.inputs,
                    outputs: layer.outputs,
                };
                if i == 0 {
                    prm_head(out, hidden, &head.rows, weights, count)?;
                } else {
                    // The last outputs become the inputs, and the buffer of the old inputs is free.
                    std::mem::swap(out, x);
                    prm_layer(out, x, weights, count)?;
                }
                outputs = layer.outputs;
            }
            let mut numbers = vec![0.0; count * outputs];
            out.read(0, &mut numbers)?;
            Ok(numbers)
        }
    }
}
