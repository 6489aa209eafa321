//! A reward model's head on a CUDA device: a few linear layers over hidden states, which stay in
//! the device's memory. On the processor the reward model computes its head itself.

#[cfg(not(feature = "cuda"))]
use crate::{Append, Engine, Error};

/// Linear layers with `ReLU` between them, in the memory of a model's device; sums are in float64.
#[derive(Debug)]
pub struct DeviceHead {
    #[cfg(feature = "cuda")]
    layers: Vec<Layer>,
    #[cfg(feature = "cuda")]
    rows: beamgen_kernels::cuda::Buffer,
    /// Inputs and outputs of a layer, in turn.
    #[cfg(feature = "cuda")]
    values: [beamgen_kernels::cuda::Buffer; 2],
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
    /// Copies a head to the device; `None` where hidden states are on the host anyway.
    ///
    /// # Errors
    /// [`Error::Device`]
    pub fn place_head(&self, _: &[(&[f32], &[f32])]) -> Result<Option<DeviceHead>, Error> {
        Ok(None)
    }

    /// The head's numbers of each wanted row.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
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
        /// Copies a head to the device: for each layer its weights `[outputs, inputs]` and biases
        /// `[outputs]`. `None` where hidden states are on the host anyway.
        ///
        /// # Errors
        /// [`Error::Device`]
        ///
        /// # Panics
        /// If there is no layer, or one without outputs.
        pub fn place_head(&self, layers: &[(&[f32], &[f32])]) -> Result<Option<DeviceHead>, Error> {
            let Compute::Cuda(device) = self.model().compute() else {
                return Ok(None);
            };
            let place = |(weight, bias): &(&[f32], &[f32])| -> Result<Layer, Error> {
                Ok(Layer {
                    weight: device.upload(weight)?,
                    bias: device.upload(bias)?,
                    inputs: weight.len() / bias.len(),
                    outputs: bias.len(),
                })
            };
            assert!(!layers.is_empty(), "a head has a layer");
            Ok(Some(DeviceHead {
                layers: layers.iter().map(place).collect::<Result<_, _>>()?,
                rows: device.alloc(0)?,
                values: [device.alloc(0)?, device.alloc(0)?],
                room: 0,
            }))
        }

        /// The head's numbers of each wanted row, row by row.
        ///
        /// # Errors
        /// As [`forward`](Self::forward).
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
