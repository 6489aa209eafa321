use super::Arg::{At, Byte, Int};
use super::{Buffer, CudaError, Device, Element, Launch};

/// Threads of a block, as `kernels/sample.cu` has it.
const BLOCK: usize = 512;

/// The most bytes of the bitmap of penalised tokens: 48 KiB, minus the kernel's other shared
/// memory.
const MARKS: usize = 36 << 10;

/// A token to sample from a row of logits. The repetition penalty applies first, then the filters
/// in the order top-k, top-p, min-p. A setting out of range acts like the nearest valid value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct SampleRequest {
    /// The row of logits.
    pub row: u32,
    /// The index of the first token to penalise, in the list of tokens that comes with the
    /// requests.
    pub said_first: u32,
    /// The number of tokens to penalise. A repeated token is penalised once.
    pub said_count: u32,
    /// The number of most likely tokens to keep; 0 keeps all.
    pub top_k: u32,
    /// The divisor of positive logits, and factor of negative logits, of the tokens to penalise. 1
    /// changes nothing.
    pub penalty: f32,
    /// Divides the logits. 0 takes the most likely token, the lowest id of equals.
    pub temperature: f32,
    /// Keeps the fewest most likely tokens that have this probability together; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Key of the Philox4x32-10 block whose first 64 bits make the uniform number.
    pub key: [u32; 2],
    /// The counter of the Philox block that `key` belongs to.
    pub counter: [u32; 4],
}

// SAFETY: fourteen words without gaps, and every bit pattern is a value.
unsafe impl Element for SampleRequest {}

/// Requests and the tokens that are sampled for them, in the memory of a device.
#[derive(Debug)]
pub struct Samples {
    requests: Buffer,
    /// The lists of tokens to penalise, for all requests one after the other.
    said: Buffer,
    /// Tokens of the requests, then their log-probabilities.
    sampled: Buffer,
    words: Vec<u32>,
    count: usize,
}

impl Samples {
    /// The largest vocabulary for which a request may have a repetition penalty.
    pub const MOST_PENALISED: usize = 8 * MARKS;

    /// Allocates memory for `capacity` requests and `said` tokens to penalise. `said` is 0 if no
    /// request has a penalty.
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

    /// Copies the requests of the next [`draw`](Self::draw), and the tokens to penalise, to the
    /// device. The caller may change both once this returns.
    ///
    /// # Errors
    /// [`CudaError`] if the copy fails.
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

    /// Samples a token for each request from `logits: [rows, stride]` in float32. Only the first
    /// `vocab` logits of a row belong to tokens. NaN counts as minus infinity. The tokens are the
    /// CPU's: weights have the same bits, and sums are in float64 in an order that depends only on
    /// the row. A request for a row that does not exist gets token 0 and NaN.
    ///
    /// # Errors
    /// [`CudaError`] if the kernel cannot be loaded or launched.
    ///
    /// # Panics
    /// If `vocab` is 0 or exceeds `stride`, or if there is room for tokens to penalise and `vocab`
    /// exceeds [`MOST_PENALISED`](Self::MOST_PENALISED).
    pub fn draw(&mut self, logits: &Buffer, vocab: usize, stride: usize) -> Result<(), CudaError> {
        assert!(vocab > 0 && vocab <= stride);
        let rows = logits.bytes() / (4 * stride);
        // The size does not depend on the current requests, because a recorded launch may be
        // replayed with others.
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
        // SAFETY: `request` has written `count` requests, whose tokens to penalise are in `said`,
        // and `sampled` has room for their results; the kernel skips rows that do not exist.
        unsafe { logits.device().launch("sample", launch, &args) }
    }

    /// Waits for the sampling, and returns the token and log-probability of each request.
    /// Log-probabilities are natural logarithms in the model's own distribution (temperature 1, no
    /// filters).
    ///
    /// # Errors
    /// The driver's error, also one of earlier work.
    pub fn read(&mut self) -> Result<impl ExactSizeIterator<Item = (u32, f32)>, CudaError> {
        self.words.resize(2 * self.count, 0);
        self.sampled.read(0, &mut self.words)?;
        let (tokens, logprobs) = self.words.split_at(self.count);
        let pairs = tokens.iter().zip(logprobs);
        Ok(pairs.map(|(token, bits)| (*token, f32::from_bits(*bits))))
    }
}

/// Computes the natural logarithm of the probability of `tokens[row]` (u32) in row `row` of
/// `logits: [rows, stride]`. Only the first `vocab` logits of a row belong to tokens. `out: [rows]`
/// is float32; a token that does not exist gives NaN.
///
/// # Errors
/// [`CudaError`] if the kernel cannot be loaded or launched.
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
