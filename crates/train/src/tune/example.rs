/// A sequence and what is learnt from it. A row is a position of `ids`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Example {
    /// The tokens.
    pub ids: Vec<u32>,
    /// Next-token prediction: row, the token to be predicted there, weight.
    pub next: Vec<(u32, u32, f32)>,
    /// Scores: row, label in `[0, 1]`, weight.
    pub scores: Vec<(u32, f32, f32)>,
}

impl Example {
    /// What the losses of its rows are weighted with, together.
    pub fn weight(&self) -> f64 {
        let next = self.next.iter().map(|x| f64::from(x.2));
        let scores = self.scores.iter().map(|x| f64::from(x.2));
        next.sum::<f64>() + scores.sum::<f64>()
    }
}
