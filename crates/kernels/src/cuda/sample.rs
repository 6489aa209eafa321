use super::Arg::{At, Byte, Int};
use super::{Buffer, CudaError, Device, Element, Launch};

/// Threads of a block, as `kernels/sample.cu` has it.
const BLOCK: usize = 512;

/// The most bytes of the bitmap of penalised tokens: what the kernel's other shared memory leaves
/// of 48 KiB.
const MARKS: usize = 36 << 10;

/// A token to sample from a row of logits. The repetition penalty applies first, then the filters
/// in the order top-k, top-p, min-p. Settings outside their ranges act as the nearest that makes
/// sense.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct SampleRequest {
    /// The row of logits.
    pub row: u32,
    /// Index of the first token that the repetition penalty is for, in the list that comes with the
    /// requests.
    pub said_first: u32,
    /// The number of tokens that the repetition penalty is for; duplicates count once.
    pub said_count: u32,
    /// The number of most likely tokens to keep; 0 keeps all.
    pub top_k: u32,
    /// Divides the positive and multiplies the negative logits of tokens seen before; 1 changes
    /// nothing.
    pub penalty: f32,
    /// Divides the logits. 0 takes the most likely token, the lowest id of equals.
    pub temperature: f32,
    /// Keeps the fewest most likely tokens that have this probability together; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Key of the Philox4x32-10 block whose first 64 bits make the uniform number.
    pub key: [u32; 2],
    /// Counter of that Philox block.
    pub counter: [u32; 4],
}

// SAFETY: fourteen words without gaps, and every bit pattern is a value.
unsafe impl Element for SampleRequest {}

/// Requests and the tokens sampled for them, in memory of a device.
#[derive(Debug)]
pub struct Samples {
    requests: Buffer,
    /// Tokens that the repetition penalties are for.
    said: Buffer,
    /// Tokens of the requests, then their log-probabilities.
    sampled: Buffer,
    words: Vec<u32>,
    count: usize,
}

impl Samples {
    /// The largest vocabulary of requests with a repetition penalty.
    pub const MOST_PENALISED: usize = 8 * MARKS;

    /// Room for `capacity` requests and `said` penalised tokens; 0 if no request has a penalty.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`].
    pub fn new(device: &Device, capacity: usize, said: usize) -> Result<Self, CudaError> {
        Ok(Self {
            requests: device.alloc(capacity * size_of::<SampleRequest>())?,
            said: device.alloc(4 * said)?,
            sampled: device.alloc(capacity * 8)?,
            words: Vec::with_capacity(2 * capacity),
            count: 0,
        })
    }

    /// Copies the requests of the next [`draw`](Self::draw), and the penalised tokens that they
    /// refer to, to the device. The caller may change both when this returns.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If there is no room for them, or a request refers to tokens beyond the end of `said`.
    pub fn request(&mut self, requests: &[SampleRequest], said: &[u32]) -> Result<(), CudaError> {
        for request in requests {
            let end = u64::from(request.said_first) + u64::from(request.said_count);
            assert!(
                end <= said.len() as u64,
                "{end} of {} said tokens",
                said.len()
            );
        }
        self.said.write(0, said)?;
        self.requests.write(0, requests)?;
        self.count = requests.len();
        Ok(())
    }

    /// Samples a token for each request from `logits: [rows, stride]` float32, of which the first
    /// `vocab` of a row belong to tokens. NaN counts as minus infinity. The tokens are those of the
    /// CPU: weights have the same bits, and sums are in float64 in an order that depends only on
    /// the row. A request for a row that does not exist gets token 0 and NaN.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If `vocab` is 0 or more than `stride`, or more than [`MOST_PENALISED`](Self::MOST_PENALISED)
    /// where there is room for penalised tokens.
    pub fn draw(&mut self, logits: &Buffer, vocab: usize, stride: usize) -> Result<(), CudaError> {
        assert!(vocab > 0 && vocab <= stride);
        let rows = logits.bytes() / (4 * stride);
        // Sized for any requests, not for these: a recorded launch may be repeated with others.
        let shared = match self.said.bytes() {
            0 => 0,
            _ => 4 * vocab.div_ceil(32),
        };
        assert!(shared <= MARKS, "a repetition penalty over {vocab} tokens");
        let launch = Launch {
            shared,
            ..Launch::new([self.count, 1, 1], BLOCK)
        };
        let args = [
            At(&self.sampled),
            Byte(&self.sampled, 4 * self.count),
            At(logits),
            At(&self.requests),
            At(&self.said),
            Int(rows),
            Int(vocab),
            Int(stride),
        ];
        // SAFETY: `request` has written `count` requests, whose penalised tokens are in `said`, and
        // `sampled` has room for their results; the kernel skips rows that do not exist.
        unsafe { logits.device().launch("sample", launch, &args) }
    }

    /// Waits for the sampling and copies token and log-probability of each request.
    /// Log-probabilities are natural, under the model's own distribution: temperature 1, no
    /// filters.
    ///
    /// # Errors
    /// The driver's error, also one of work queued before.
    pub fn read(&mut self) -> Result<impl ExactSizeIterator<Item = (u32, f32)>, CudaError> {
        self.words.resize(2 * self.count, 0);
        self.sampled.read(0, &mut self.words)?;
        let (tokens, logprobs) = self.words.split_at(self.count);
        let pairs = tokens.iter().zip(logprobs);
        Ok(pairs.map(|(token, bits)| (*token, f32::from_bits(*bits))))
    }
}

/// Computes the natural log of the probability of `tokens[row]` (u32) under row `row` of `logits:
/// [rows, stride]`, of which the first `vocab` belong to tokens. `out: [rows]` is float32, NaN for
/// a token that does not exist.
///
/// # Errors
/// The driver's error.
///
/// # Panics
/// If a buffer is too small, or `vocab` is 0 or more than `stride`.
pub fn log_probs(
    out: &mut Buffer,
    logits: &Buffer,
    tokens: &Buffer,
    rows: usize,
    vocab: usize,
    stride: usize,
) -> Result<(), CudaError> {
    assert!(vocab > 0 && vocab <= stride);
    out.assert_holds(rows, 4);
    logits.assert_holds(rows * stride, 4);
    tokens.assert_holds(rows, 4);
    let launch = Launch::new([rows, 1, 1], BLOCK);
    let args = [At(out), At(logits), At(tokens), Int(vocab), Int(stride)];
    // SAFETY: the buffers hold `rows` rows and tokens, checked.
    unsafe { out.device().launch("log_prob", launch, &args) }
}
