//! Tokens drawn on the device.

use beamgen_kernels::cuda::{Buffer, Device, SampleRequest, sample};

use super::CudaRunner;
use crate::logits::Choice;
use crate::{Error, Sampled};

/// Requests and what was drawn, on both sides.
#[derive(Debug)]
pub(super) struct Drawing {
    device: Device,
    requests: Vec<SampleRequest>,
    on_device: Option<Buffer>,
    drawn: Option<Buffer>,
    words: Vec<u32>,
}

impl Drawing {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            requests: Vec::new(),
            on_device: None,
            drawn: None,
            words: Vec::new(),
        }
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
        if count == 0 {
            return Ok(());
        }
        let drawing = &mut self.drawing;
        drawing.requests.clear();
        drawing.requests.extend((0..count).map(|i| {
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
        let bytes = size_of::<SampleRequest>() * count;
        let device = &drawing.device;
        for (buffer, bytes) in [(&mut drawing.on_device, bytes), (&mut drawing.drawn, 8 * count)] {
            if buffer.as_ref().is_none_or(|buffer| buffer.bytes() < bytes) {
                *buffer = Some(device.alloc(bytes.next_power_of_two())?);
            }
        }
        let requests = drawing.on_device.as_mut().expect("just taken");
        let drawn = drawing.drawn.as_ref().expect("just taken");
        requests.write(0, &drawing.requests)?;
        // Tokens, then the bits of their log-probabilities.
        sample(drawn.at(0), drawn.at(4 * count), self.out.at(0), requests.at(0), count, tokens, width)?;
        drawing.words.resize(2 * count, 0);
        drawn.read(0, &mut drawing.words)?;
        let (tokens, logprobs) = drawing.words.split_at(count);
        out.extend(tokens.iter().zip(logprobs).map(|(token, logprob)| Sampled {
            token: *token,
            logprob: f32::from_bits(*logprob),
        }));
        Ok(())
    }
}
