//! A reward model's head on a CUDA device: a few linear layers over hidden states that stay in the
//! device's memory. On the processor, the crate `beamgen-prm` computes the head itself.

#[cfg(not(feature = "cuda"))]
use crate::{Append, Engine, Error};

/// Linear layers with `ReLU` between them, in the memory of a model's device; sums are in float64.
#[derive(Debug)]
pub struct DeviceHead {
    #[cfg(feature = "cuda")]
    layers: Vec<Layer>,
    /// The row numbers `0..room`, by which the first layer finds its hidden states.
    #[cfg(feature = "cuda")]
    rows: beamgen_kernels::cuda::Buffer,
    /// Inputs and outputs of the current layer. The two buffers swap roles after each layer.
    #[cfg(feature = "cuda")]
    values: [beamgen_kernels::cuda::Buffer; 2],
    /// The number of rows that `rows` and `values` have memory for.
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
    /// Returns `None`: without CUDA, hidden states are on the host, and the caller computes the
    /// head.
    ///
    /// # Errors
    /// [`Error::Device`]
    pub fn place_head(&self, _: &[(&[f32], &[f32])]) -> Result<Option<DeviceHead>, Error> {
        Ok(None)
    }

    /// Cannot be called: without CUDA, no [`DeviceHead`] exists.
    ///
    /// # Errors
    /// Returns no error.
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
        /// Copies a head to the device: each layer's weights `[outputs, inputs]` and biases
        /// `[outputs]`. Returns `None` if the model runs on the CPU, where the caller computes the
        /// head.
        ///
        /// # Errors
        /// [`Error::Device`]
        ///
        /// # Panics
        /// If `layers` is empty, or a layer has no outputs.
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

        /// Appends tokens like [`forward`](Self::forward). Returns the head's outputs `[wanted
        /// rows, outputs]` instead of hidden states.
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
                // The room is a power of two, so that growing batches reallocate only a few times.
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
                    // The last layer's outputs become the inputs; the buffer of the old inputs
                    // takes the outputs.
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
