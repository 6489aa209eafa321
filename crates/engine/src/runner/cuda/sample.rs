//! Samples tokens and computes log-probabilities from logits on the device.

use beamgen_kernels::cuda::{Buffer, Device, SampleRequest, Samples, log_probs};

use super::CudaRunner;
use crate::{Error, SampleRow, Sampled};

/// The requests of a batch, and the device buffers of its results.
#[derive(Debug)]
pub(super) struct Sampling {
    requests: Vec<SampleRequest>,
    /// The histories of the rows with a repetition penalty, concatenated.
    history: Vec<u32>,
    samples: Samples,
    /// The number of requests and of history tokens that `samples` has memory for.
    capacity: (usize, usize),
    /// The device buffer of [`log_probs`](CudaRunner::log_probs): tokens, then their
    /// log-probabilities.
    judged: Buffer,
}

impl Sampling {
    pub(super) fn new(device: &Device, capacity: usize, history: usize) -> Result<Self, Error> {
        Ok(Self {
            requests: Vec::with_capacity(capacity),
            history: Vec::new(),
            samples: Samples::new(device, capacity, history)?,
            capacity: (capacity, history),
            judged: device.alloc(0)?,
        })
    }
}

impl CudaRunner {
    /// Samples `count` tokens from the last call's logits, whose rows have `width` values. Only the
    /// first `tokens` values of a row are considered.
    pub(crate) fn sample<'a>(
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
        let sampling = &mut self.sampling;
        let (requests, all) = (&mut sampling.requests, &mut sampling.history);
        requests.clear();
        all.clear();
        for i in 0..count {
            let next = choice(i);
            // A history is copied to the device only if the penalty has an effect.
            let history = if next.params.repetition_penalty == 1.0 {
                &[]
            } else {
                next.history
            };
            let place = all.len()..all.len() + history.len();
            requests.push(next.params.on_device(next.row, place, &next.draw));
            all.extend_from_slice(history);
        }
        if !all.is_empty() && tokens > Samples::MOST_PENALISED {
            let most = Samples::MOST_PENALISED;
            let reason = format!(
                "a CUDA device penalises at most {most} tokens, the vocabulary has {tokens}: \
                 use device cpu"
            );
            return Err(Error::setting("repetition_penalty", reason));
        }
        let (room, history_room) = sampling.capacity;
        if count > room || all.len() > history_room {
            let room = room.max(count.next_power_of_two());
            // Most searches use no penalty. Memory for histories is then never allocated.
            let history_room = match all.len() {
                0 => history_room,
                tokens => history_room.max(tokens.next_power_of_two()),
            };
            sampling.samples = Samples::new(&self.device, room, history_room)?;
            sampling.capacity = (room, history_room);
        }
        let samples = &mut sampling.samples;
        samples.request(requests, all)?;
        samples.draw(&self.out, tokens, width)?;
        out.extend(
            samples
                .read()?
                .map(|(token, logprob)| Sampled { token, logprob }),
        );
        Ok(())
    }

    /// Computes the natural logarithm of the probability of `tokens[i]` in row `i` of the last
    /// call.
    pub(crate) fn log_probs(
        &mut self,
        width: usize,
        tokens: &[u32],
        out: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let judged = &mut self.sampling.judged;
        // Tokens and logarithms both take 4 bytes, so one buffer holds both in equal halves.
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
