//! `AdamW` with clipping by the global norm. candle's own `AdamW` keeps its moments private, so a run could not save
//! and resume them.

use candle_core::{Result, Tensor, Var};
use std::collections::HashMap;

/// Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101). Only matrices decay.
#[derive(Clone, Debug)]
pub struct AdamW {
    /// The decay rates of the moving averages of the gradient and of its square.
    pub betas: (f64, f64),
    /// A small number, added to the root of the second moment so that the division is safe.
    pub eps: f64,
    /// The fraction by which an update shrinks weights, before multiplication by the learning rate.
    pub weight_decay: f64,
    /// The largest L2 norm of all gradients together. If the norm is larger, all gradients are scaled down to it.
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
    /// Updates each variable of `vars` that has an entry in `gradients`, with learning rate `lr`. Returns the L2 norm
    /// of all these gradients together before clipping.
    ///
    /// # Errors
    /// A gradient and its variable differ in shape, or are not float32.
    pub fn step<'a>(
        &mut self,
        vars: impl Iterator<Item = (&'a str, &'a Var)> + Clone,
        gradients: &HashMap<String, Tensor>,
        lr: f64,
    ) -> Result<f64> {
        self.steps += 1;
        // The sum follows the order of `vars`: a hash map has another order in each run, which would change the
        // rounding.
        let mut square = 0f64;
        for (name, _) in vars.clone() {
            if let Some(g) = gradients.get(name) {
                square += f64::from(g.sqr()?.sum_all()?.to_scalar::<f32>()?);
            }
        }
        let scale = (self.clip / (square.sqrt() + 1e-6)).min(1.0);
        let (b1, b2) = self.betas;
        // The moments start at zero; division by these factors corrects this bias of the first updates.
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
            // Vectors are norms and biases, whose decay does not regularise the model.
            let decay = if var.rank() > 1 {
                lr * self.weight_decay
            } else {
                0.0
            };
            var.set(&((var.as_tensor() * (1.0 - decay))? - (update * lr)?)?)?;
            // `detach` releases the computation graphs of earlier updates.
            self.moments
                .insert(name.to_owned(), (m.detach(), v.detach()));
        }
        Ok(square.sqrt())
    }

    /// Returns the number of updates since the moments were zero, including those before a resume.
    pub fn steps(&self) -> usize {
        self.steps as usize
    }

    /// Returns the moments for saving: tensors `adam.m.NAME` and `adam.v.NAME` for each updated variable.
    pub fn state(&self) -> impl Iterator<Item = (String, Tensor)> {
        self.moments.iter().flat_map(|(n, (m, v))| {
            [
                (format!("adam.m.{n}"), m.clone()),
                (format!("adam.v.{n}"), v.clone()),
            ]
        })
    }

    /// Restores the moments that [`AdamW::state`] returned after `steps` updates. Tensors of other names in `state`
    /// are ignored.
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
