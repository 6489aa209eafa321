use super::{Arg, Buffer, CudaError, Device, Element, Launch};

/// Threads of a block, as `kernels/sample.cu` has it.
const BLOCK: usize = 512;

/// A token to draw from a row of logits. Filters apply in the order top-k, top-p, min-p; settings outside
/// their ranges act as the nearest that makes sense.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct SampleRequest {
    /// The row of logits.
    pub row: u32,
    /// Keeps that many most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Divides the logits. 0 takes the most likely token, the lowest id of equals.
    pub temperature: f32,
    /// Keeps the fewest most likely tokens that have this probability together; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Key of the Philox4x32-10 block whose first 64 bits make the uniform number.
    pub key: [u32; 2],
    /// Its counter.
    pub counter: [u32; 4],
}

// SAFETY: eleven words without gaps, of which every bit pattern is a value.
unsafe impl Element for SampleRequest {}

/// Requests and what was drawn for them, in memory of a device.
#[derive(Debug)]
pub struct Samples {
    requests: Buffer,
    /// Tokens of the requests, then their log-probabilities.
    drawn: Buffer,
    words: Vec<u32>,
    count: usize,
}

impl Samples {
    /// Room for `capacity` requests.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`].
    pub fn new(device: &Device, capacity: usize) -> Result<Self, CudaError> {
        Ok(Self {
            requests: device.alloc(capacity * size_of::<SampleRequest>())?,
            drawn: device.alloc(capacity * 8)?,
            words: Vec::with_capacity(2 * capacity),
            count: 0,
        })
    }

    /// Copies the requests of the next draw to the device, at once.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Panics
    /// If there is no room for so many.
    pub fn request(&mut self, requests: &[SampleRequest]) -> Result<(), CudaError> {
        self.requests.write(0, requests)?;
        self.count = requests.len();
        Ok(())
    }

    /// Draws a token for each request from `logits: [rows, stride]` float32, of which the first `vocab` of a
    /// row stand for tokens. NaN counts as minus infinity. The same tokens as on the CPU: the weights have its
    /// bits, sums are in float64 in an order that depends on the row alone. A request for a row that does
    /// not exist gets token 0 and NaN.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Panics
    /// If `vocab` is 0 or more than `stride`.
    pub fn draw(&mut self, logits: &Buffer, vocab: usize, stride: usize) -> Result<(), CudaError> {
        assert!(vocab > 0 && vocab <= stride);
        let rows = logits.bytes() / (4 * stride);
        let launch = Launch {
            grid: [self.count, 1, 1],
            block: BLOCK,
            shared: 0,
        };
        let args = [
            Arg::At(&self.drawn),
            Arg::Byte(&self.drawn, 4 * self.count),
            Arg::At(logits),
            Arg::At(&self.requests),
            Arg::Int(rows),
            Arg::Int(vocab),
            Arg::Int(stride),
        ];
        // SAFETY: `request` has written so many, and there is room for what they get; the kernel passes over
        // rows that are not there.
        unsafe { logits.device().launch("sample", launch, &args) }
    }

    /// The tokens as they lie on the device, u32 in the order of the requests: the next step's input.
    #[must_use]
    pub fn tokens(&self) -> &Buffer {
        &self.drawn
    }

    /// Waits for the draw and copies token and log-probability of each request, at once. Log-probabilities
    /// are natural, under the model's own distribution: temperature 1, no filters.
    ///
    /// # Errors
    /// What the driver says, also of work queued before.
    pub fn read(&mut self) -> Result<impl ExactSizeIterator<Item = (u32, f32)>, CudaError> {
        self.words.resize(2 * self.count, 0);
        self.drawn.read(0, &mut self.words)?;
        let (tokens, logprobs) = self.words.split_at(self.count);
        let pairs = tokens.iter().zip(logprobs);
        Ok(pairs.map(|(token, bits)| (*token, f32::from_bits(*bits))))
    }
}

/// Natural log of the probability of `tokens[row]` (u32) under row `row` of `logits: [rows, stride]`, of which
/// the first `vocab` stand for tokens; `out: [rows]` float32. NaN for a token that does not exist.
///
/// # Errors
/// What the driver says.
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
    let launch = Launch {
        grid: [rows, 1, 1],
        block: BLOCK,
        shared: 0,
    };
    let args = [
        Arg::At(out),
        Arg::At(logits),
        Arg::At(tokens),
        Arg::Int(vocab),
        Arg::Int(stride),
    ];
    // SAFETY: so many rows and tokens are there, checked.
    unsafe { out.device().launch("log_prob", launch, &args) }
}
