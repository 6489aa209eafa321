//! Tokens drawn on the device.

use beamgen_kernels::cuda::{Device, SampleRequest, Samples};

use super::CudaRunner;
use crate::logits::Choice;
use crate::{Error, Sampled};

/// Requests and what was drawn for them.
#[derive(Debug)]
pub(super) struct Drawing {
    requests: Vec<SampleRequest>,
    samples: Samples,
    capacity: usize,
}

impl Drawing {
    pub(super) fn new(device: &Device, capacity: usize) -> Result<Self, Error> {
        Ok(Self {
            requests: Vec::with_capacity(capacity),
            samples: Samples::new(device, capacity)?,
            capacity,
        })
    }
}

impl CudaRunner {
    /// Draws `count` tokens among the first `tokens` of the vocabulary of `width`.
    pub(crate) fn draw<'a>(
        &mut self,
        width: usize,
        tokens: usize,
        count: usize,
        choice: &dyn Fn(usize) -> Choice<'a>,
        out: &mut Vec<Sampled>,
    ) -> Result<(), Error> {
        out.clear();
        if count > self.drawing.capacity {
            self.drawing = Drawing::new(&self.device, count.next_power_of_two())?;
        }
        let Drawing { requests, samples, .. } = &mut self.drawing;
        requests.clear();
        requests.extend((0..count).map(|i| {
            let Choice { row, params, draw, .. } = choice(i);
            let (key, counter) = draw.state();
            SampleRequest {
                row: row as u32,
                top_k: u32::try_from(params.top_k).unwrap_or(0),
                temperature: params.temperature,
                top_p: params.top_p,
                min_p: params.min_p,
                key,
                counter,
            }
        }));
        samples.request(requests)?;
        samples.draw(&self.out, tokens, width)?;
        out.extend(samples.read()?.map(|(token, logprob)| Sampled { token, logprob }));
        Ok(())
    }
}
