/// A sequence and what is learnt from it. A row is a position of `ids`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Example {
    /// The tokens.
    pub ids: Vec<u32>,
    /// Next-token prediction: row, the token to be predicted there, weight.
    pub next: Vec<(u32, u32, f32)>,
}

impl Example {
    /// What the losses of its rows are weighted with, together.
    pub fn weight(&self) -> f64 {
        self.next.iter().map(|x| f64::from(x.2)).sum()
    }
}
