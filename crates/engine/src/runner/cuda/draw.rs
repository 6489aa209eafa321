//! What is made of logits on the device: tokens that are drawn, log-probabilities.

use beamgen_kernels::cuda::{Buffer, Device, SampleRequest, Samples, log_probs};

use super::CudaRunner;
use crate::{Error, SampleRow, Sampled};

/// Requests and what was drawn for them.
#[derive(Debug)]
pub(super) struct Drawing {
    requests: Vec<SampleRequest>,
    said: Vec<u32>,
    samples: Samples,
    /// Requests and said tokens that there is room for.
    capacity: (usize, usize),
    /// Tokens, then what the logs of their probabilities are.
    judged: Buffer,
}

impl Drawing {
    pub(super) fn new(device: &Device, capacity: usize, said: usize) -> Result<Self, Error> {
        Ok(Self {
            requests: Vec::with_capacity(capacity),
            said: Vec::new(),
            samples: Samples::new(device, capacity, said)?,
            capacity: (capacity, said),
            judged: device.alloc(0)?,
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
        choice: &dyn Fn(usize) -> SampleRow<'a>,
        out: &mut Vec<Sampled>,
    ) -> Result<(), Error> {
        out.clear();
        if count == 0 {
            return Ok(());
        }
        let drawing = &mut self.drawing;
        let (requests, all) = (&mut drawing.requests, &mut drawing.said);
        requests.clear();
        all.clear();
        for i in 0..count {
            let next = choice(i);
            let history = if next.params.repetition_penalty == 1.0 {
                &[]
            } else {
                next.history
            };
            let said = all.len()..all.len() + history.len();
            requests.push(next.params.on_device(next.row, said, &next.draw));
            all.extend_from_slice(history);
        }
        if !all.is_empty() && tokens > Samples::MOST_PENALISED {
            let most = Samples::MOST_PENALISED;
            let reason = format!(
                "a CUDA device penalises at most {most} tokens, the vocabulary has {tokens}: take device cpu"
            );
            return Err(Error::setting("repetition_penalty", reason));
        }
        let (room, room_said) = drawing.capacity;
        if count > room || all.len() > room_said {
            let room = room.max(count.next_power_of_two());
            let room_said = match all.len() {
                0 => room_said,
                said => room_said.max(said.next_power_of_two()),
            };
            drawing.samples = Samples::new(&self.device, room, room_said)?;
            drawing.capacity = (room, room_said);
        }
        let samples = &mut drawing.samples;
        samples.request(requests, all)?;
        samples.draw(&self.out, tokens, width)?;
        out.extend(
            samples
                .read()?
                .map(|(token, logprob)| Sampled { token, logprob }),
        );
        Ok(())
    }

    /// Natural log of the probability of `tokens[i]` under row `i` of `width`.
    pub(crate) fn log_probs(
        &mut self,
        width: usize,
        tokens: &[u32],
        out: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let judged = &mut self.drawing.judged;
        let bytes = size_of_val(tokens);
        if judged.bytes() < 2 * bytes {
            *judged = self.device.alloc((2 * bytes).next_power_of_two())?;
        }
        judged.write(0, tokens)?;
        let mut logs = judged.from(bytes);
        log_probs(&mut logs, &self.out, judged, tokens.len(), width, width)?;
        out.resize(tokens.len(), 0.0);
        Ok(logs.read(0, out)?)
    }
}
