use super::{Arg, Buffer, CudaError, Device, Launch};

/// Outputs and rows of a block, as `kernels/prm.cu` has it.
const TILE: usize = 8;

/// A linear layer of a reward model's head: `weight: [outputs, inputs]` and `bias: [outputs]`, float32.
#[derive(Clone, Copy, Debug)]
pub struct PrmLayer<'a> {
    /// The weights.
    pub weight: &'a Buffer,
    /// The bias; none is zeros.
    pub bias: Option<&'a Buffer>,
    /// Values that go in.
    pub inputs: usize,
    /// Values that come out.
    pub outputs: usize,
}

impl PrmLayer<'_> {
    fn check(&self) {
        self.weight.assert_holds(self.inputs * self.outputs, 4);
        if let Some(bias) = self.bias {
            bias.assert_holds(self.outputs, 4);
        }
    }

    fn bias(&self) -> Arg<'_> {
        self.bias.map_or(Arg::Null, Arg::At)
    }

    fn launch(&self, count: usize) -> Launch {
        Launch {
            grid: [self.outputs.div_ceil(TILE), count.div_ceil(TILE), 1],
            block: 32 * TILE,
            shared: 0,
        }
    }
}

/// The first layer of a head on `count` chosen rows of `hidden: [rows, inputs]` float32: `rows` (u32) says
/// which. `out: [count, outputs]` float64. NaN for a row that does not exist.
///
/// # Errors
/// What the driver says.
///
/// # Panics
/// If a buffer is too small, or nothing goes in.
pub fn prm_head(
    out: &mut Buffer,
    hidden: &Buffer,
    rows: &Buffer,
    layer: PrmLayer<'_>,
    count: usize,
) -> Result<(), CudaError> {
    layer.check();
    assert!(layer.inputs > 0);
    out.assert_holds(count * layer.outputs, 8);
    rows.assert_holds(count, 4);
    let args = [
        Arg::At(out),
        Arg::At(hidden),
        Arg::At(rows),
        Arg::Int(hidden.bytes() / (4 * layer.inputs)),
        Arg::At(layer.weight),
        layer.bias(),
        Arg::Int(count),
        Arg::Int(layer.inputs),
        Arg::Int(layer.outputs),
    ];
    // SAFETY: layer and room are there, checked; the kernel reads no row that is not there.
    unsafe { out.device().launch("prm_head", layer.launch(count), &args) }
}

/// A further layer, on what the one before it gave: `x: [count, inputs]` to `out: [count, outputs]`, both
/// float64. Negative inputs count as 0 (ReLU).
///
/// # Errors
/// What the driver says.
///
/// # Panics
/// If a buffer is too small.
pub fn prm_layer(
    out: &mut Buffer,
    x: &Buffer,
    layer: PrmLayer<'_>,
    count: usize,
) -> Result<(), CudaError> {
    layer.check();
    out.assert_holds(count * layer.outputs, 8);
    x.assert_holds(count * layer.inputs, 8);
    let args = [
        Arg::At(out),
        Arg::At(x),
        Arg::At(layer.weight),
        layer.bias(),
        Arg::Int(count),
        Arg::Int(layer.inputs),
        Arg::Int(layer.outputs),
    ];
    // SAFETY: layer, inputs and room are there, checked.
    unsafe { out.device().launch("prm_layer", layer.launch(count), &args) }
}

/// From the numbers of a head to a probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrmNormaliser {
    /// The share of this class, from 0.
    Softmax(usize),
    /// The logistic function of the first number.
    Sigmoid,
    /// The first number, cut to 0 and 1.
    Clamp,
}

/// Probabilities of `values: [count, outputs]` float64, written as float32 to `out` from place `first` on.
/// NaN where the numbers give none.
///
/// # Errors
/// What the driver says.
///
/// # Panics
/// If a buffer is too small, or there is no such class.
pub fn prm_scores(
    out: &mut Buffer,
    first: usize,
    values: &Buffer,
    count: usize,
    outputs: usize,
    normaliser: PrmNormaliser,
) -> Result<(), CudaError> {
    const BLOCK: usize = 128;
    let (kind, class) = match normaliser {
        PrmNormaliser::Softmax(class) => (0, class),
        PrmNormaliser::Sigmoid => (1, 0),
        PrmNormaliser::Clamp => (2, 0),
    };
    assert!(class < outputs, "class {class} of {outputs}");
    out.assert_holds(first + count, 4);
    values.assert_holds(count * outputs, 8);
    let launch = Launch {
        grid: [count.div_ceil(BLOCK), 1, 1],
        block: BLOCK,
        shared: 0,
    };
    let args = [
        Arg::Byte(out, 4 * first),
        Arg::At(values),
        Arg::Int(count),
        Arg::Int(outputs),
        Arg::Int(kind),
        Arg::Int(class),
    ];
    // SAFETY: so many values and places are there, checked, and the class among them.
    unsafe { out.device().launch("prm_scores", launch, &args) }
}

/// How the scores of a chain's steps become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PrmAggregation {
    /// The least.
    Min,
    /// Their product.
    Product,
    /// Their mean.
    Mean,
    /// The newest.
    Last,
    /// The largest.
    Max,
    /// The mean weighted by exp(-score / temperature).
    SoftMin {
        /// Above 0.
        temperature: f32,
    },
}

/// A chain among those of its problem.
#[derive(Clone, Copy, Debug)]
pub struct Contender<'a> {
    /// Where the scores of its steps are, first step first.
    pub steps: &'a [u32],
    /// How many chains it stands for: it gets at most so many slots.
    pub copies: u32,
}

/// What became of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Its score; minus infinity without steps.
    pub score: f32,
    /// How many chains of its problem are before it: 0 is the best. Of equals the earlier comes first.
    pub place: u32,
    /// Slots that it gets; 0 is none.
    pub held: u32,
}

/// The choice of the best chains of many problems: lists of chains go to the device in one copy, and what
/// became of them comes back in one.
#[derive(Debug)]
pub struct Selection {
    /// For each problem its first chain, and the end of the last; its slots. For each chain its first
    /// step, and the end of the last; its copies. The steps.
    plan: Buffer,
    /// Scores, places and slots held, of all chains each.
    standings: Buffer,
    words: Vec<u32>,
    problems: usize,
    chains: usize,
    /// Scores that the steps refer to.
    scores: usize,
}

impl Selection {
    /// Room for so many problems, chains and steps of all chains.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`].
    pub fn new(
        device: &Device,
        problems: usize,
        chains: usize,
        steps: usize,
    ) -> Result<Self, CudaError> {
        let words = 2 * problems + 2 * chains + steps + 2;
        Ok(Self {
            plan: device.alloc(4 * words)?,
            standings: device.alloc(12 * chains)?,
            words: Vec::with_capacity(words.max(3 * chains)),
            problems: 0,
            chains: 0,
            scores: 0,
        })
    }

    /// Copies the chains of the next choice to the device. A problem has so many slots and these chains.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Panics
    /// If there is no room for so many.
    pub fn plan(&mut self, problems: &[(u32, &[Contender<'_>])]) -> Result<(), CudaError> {
        let chains = || problems.iter().flat_map(|(_, chains)| *chains);
        let mut scores = 0;
        let words = &mut self.words;
        words.clear();
        ends(words, problems.iter().map(|(_, chains)| chains.len()));
        words.extend(problems.iter().map(|(slots, _)| *slots));
        ends(words, chains().map(|chain| chain.steps.len()));
        words.extend(chains().map(|chain| chain.copies));
        for step in chains().flat_map(|chain| chain.steps) {
            scores = scores.max(*step as usize + 1);
            words.push(*step);
        }
        let chains = chains().count();
        self.standings.assert_holds(3 * chains, 4);
        self.plan.write(0, words.as_slice())?;
        (self.problems, self.chains, self.scores) = (problems.len(), chains, scores);
        Ok(())
    }

    /// Chooses by `scores`, float32.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Panics
    /// If a step refers to a score that is not there.
    pub fn select(
        &mut self,
        scores: &Buffer,
        aggregation: PrmAggregation,
    ) -> Result<(), CudaError> {
        scores.assert_holds(self.scores, 4);
        let (how, temperature) = match aggregation {
            PrmAggregation::Min => (0, 1.0),
            PrmAggregation::Product => (1, 1.0),
            PrmAggregation::Mean => (2, 1.0),
            PrmAggregation::Last => (3, 1.0),
            PrmAggregation::Max => (4, 1.0),
            PrmAggregation::SoftMin { temperature } => (5, temperature),
        };
        let keep = self.problems + 1;
        let step_first = keep + self.problems;
        let copies = step_first + self.chains + 1;
        let steps = copies + self.chains;
        let launch = Launch {
            grid: [self.problems, 1, 1],
            block: 256,
            shared: 0,
        };
        let args = [
            Arg::At(&self.standings),
            Arg::Byte(&self.standings, 4 * self.chains),
            Arg::Byte(&self.standings, 8 * self.chains),
            Arg::At(scores),
            Arg::Byte(&self.plan, 4 * steps),
            Arg::Byte(&self.plan, 4 * step_first),
            Arg::At(&self.plan),
            Arg::Byte(&self.plan, 4 * keep),
            Arg::Byte(&self.plan, 4 * copies),
            Arg::Int(how),
            Arg::Float(temperature),
        ];
        // SAFETY: `plan` has written lists that fit each other, and the scores are there, checked.
        unsafe { scores.device().launch("prm_select", launch, &args) }
    }

    /// Waits for the choice and copies what became of each chain, in the order of the plan.
    ///
    /// # Errors
    /// What the driver says, also of work queued before.
    pub fn read(&mut self) -> Result<impl ExactSizeIterator<Item = Standing>, CudaError> {
        self.words.resize(3 * self.chains, 0);
        self.standings.read(0, &mut self.words)?;
        let (scores, rest) = self.words.split_at(self.chains);
        let (places, held) = rest.split_at(self.chains);
        let all = scores.iter().zip(places).zip(held);
        Ok(all.map(|((score, place), held)| Standing {
            score: f32::from_bits(*score),
            place: *place,
            held: *held,
        }))
    }
}

/// Appends where each of some lists begins in all of them, and where the last one ends.
fn ends(words: &mut Vec<u32>, lengths: impl Iterator<Item = usize>) {
    let mut end = 0;
    words.push(0);
    for length in lengths {
        end += length;
        words.push(u32::try_from(end).expect("not so many"));
    }
}
