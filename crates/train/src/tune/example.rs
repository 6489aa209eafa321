/// A sequence and what is learnt from it. A row is a position of `ids`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Example {
    /// The tokens.
    pub ids: Vec<u32>,
    /// Next-token prediction: row, the token to be predicted there, weight.
    pub next: Vec<(u32, u32, f32)>,
    /// Labels of a reward model.
    pub labels: Vec<Label>,
}

/// What a reward model has to say at a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label {
    /// Where it is read.
    pub row: u32,
    /// The probability that the step is right, 0 to 1.
    pub right: f32,
    /// Of its loss.
    pub weight: f32,
}

impl Example {
    /// What the losses of its rows are weighted with, together.
    pub fn weight(&self) -> f64 {
        let next = self.next.iter().map(|x| f64::from(x.2));
        let labels = self.labels.iter().map(|x| f64::from(x.weight));
        next.chain(labels).sum()
    }
}
