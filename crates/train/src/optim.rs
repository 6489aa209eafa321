//! `AdamW` with global-norm clipping. Own code for one reason: candle's keeps its moments private,
//! so a resumed run could not go on exactly where it stopped.

use candle_core::{Result, Tensor, Var};
use std::collections::HashMap;

/// Loshchilov and Hutter (2019), decoupled weight decay on matrices only.
#[derive(Clone, Debug)]
pub struct AdamW {
    /// Decay of the first and the second moment.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Times the learning rate.
    pub weight_decay: f64,
    /// The largest norm of all gradients together.
    pub clip: f64,
    steps: i32,
    moments: HashMap<String, (Tensor, Tensor)>,
}

impl Default for AdamW {
    fn default() -> Self {
        Self {
            betas: (0.9, 0.98),
            eps: 1e-8,
            weight_decay: 0.05,
            clip: 1.0,
            steps: 0,
            moments: HashMap::new(),
        }
    }
}

impl AdamW {
    /// One update of all of `vars` that have one of `gradients`, which are by name. Returns the norm
    /// of all gradients together, before clipping.
    ///
    /// # Errors
    /// Shapes that do not fit, as candle tells them.
    pub fn step<'a>(
        &mut self,
        vars: impl Iterator<Item = (&'a str, &'a Var)> + Clone,
        gradients: &HashMap<String, Tensor>,
        lr: f64,
    ) -> Result<f64> {
        self.steps += 1;
        let mut square = 0f64;
        for (name, _) in vars.clone() {
            if let Some(g) = gradients.get(name) {
                square += f64::from(g.sqr()?.sum_all()?.to_scalar::<f32>()?);
            }
        }
        let scale = (self.clip / (square.sqrt() + 1e-6)).min(1.0);
        let (b1, b2) = self.betas;
        let (c1, c2) = (1.0 - b1.powi(self.steps), 1.0 - b2.powi(self.steps));
        for (name, var) in vars {
            let Some(g) = gradients.get(name) else {
                continue;
            };
            let g = (g * scale)?;
            let (m, v) = match self.moments.get(name) {
                Some(mv) => mv.clone(),
                None => (var.zeros_like()?, var.zeros_like()?),
            };
            let m = ((m * b1)? + (&g * (1.0 - b1))?)?;
            let v = ((v * b2)? + (g.sqr()? * (1.0 - b2))?)?;
            let update = ((&m / c1)? / ((&v / c2)?.sqrt()? + self.eps)?)?;
            let decay = if var.rank() > 1 {
                lr * self.weight_decay
            } else {
                0.0
            };
            var.set(&((var.as_tensor() * (1.0 - decay))? - (update * lr)?)?)?;
            self.moments
                .insert(name.to_owned(), (m.detach(), v.detach()));
        }
        Ok(square.sqrt())
    }

    /// Updates done.
    pub fn steps(&self) -> usize {
        self.steps as usize
    }

    /// The moments by name, to be saved.
    pub fn state(&self) -> impl Iterator<Item = (String, Tensor)> {
        self.moments.iter().flat_map(|(n, (m, v))| {
            [
                (format!("adam.m.{n}"), m.clone()),
                (format!("adam.v.{n}"), v.clone()),
            ]
        })
    }

    /// Takes back what [`AdamW::state`] gave, after `steps` updates.
    pub fn restore(&mut self, state: &HashMap<String, Tensor>, steps: usize) {
        self.steps = steps as i32;
        for (name, m) in state {
            if let Some(n) = name.strip_prefix("adam.m.")
                && let Some(v) = state.get(&format!("adam.v.{n}"))
            {
                self.moments.insert(n.to_owned(), (m.clone(), v.clone()));
            }
        }
    }
}
