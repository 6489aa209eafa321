//! Heads and normalisers, which turn a hidden state into a probability.

use std::path::Path;

use beamgen_engine::{Model, ModelConfig, Tensor, Tokenizer, Weights};

use crate::error::Error;
use crate::spec::{HeadSpec, LayerSpec, Normaliser, PrmSpec};
use crate::writer::{Fault, fault};

/// The message if one of the models of a log-ratio has no language-model head.
pub(crate) const NO_LOGITS: &str = "both models need a language-model head";

/// Linear layers with `ReLU` between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    layers: Vec<Layer>,
}

/// A linear layer with a weight `[outputs, inputs]`, row by row, and a bias `[outputs]`.
#[derive(Debug, Clone, PartialEq)]
struct Layer {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Head {
    /// Makes a head with one output; `weight` is `[hidden]`.
    #[must_use]
    pub fn linear(weight: Vec<f32>, bias: f32) -> Self {
        let bias = vec![bias];
        Self {
            layers: vec![Layer { weight, bias }],
        }
    }

    /// Loads the head of a spec; `None` for a log-ratio, which needs no hidden states.
    pub(crate) fn load(
        spec: &HeadSpec,
        weights: &Weights,
        model: &Model,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Self>, Fault> {
        match spec {
            HeadSpec::LogRatio(_) => Ok(None),
            HeadSpec::Tokens(tokens) => {
                let layers = vec![token_rows(tokens, model, tokenizer)?];
                Ok(Some(Self { layers }))
            }
            HeadSpec::Linear(layers) => {
                Self::linear_layers(layers, model.config().hidden_size, weights).map(Some)
            }
        }
    }

    fn linear_layers(
        layers: &[LayerSpec],
        hidden: usize,
        weights: &Weights,
    ) -> Result<Self, Fault> {
        let mut width = hidden;
        let mut loaded = Vec::new();
        for layer in layers {
            let layer = Layer::load(layer, width, weights)?;
            width = layer.bias.len();
            loaded.push(layer);
        }
        Ok(Self { layers: loaded })
    }

    /// Finds the faults that [`load`](Self::load) would find, without loading the model. Returns
    /// the number of outputs; `None` for a log-ratio, which has no head.
    pub(crate) fn check(
        spec: &HeadSpec,
        config: &ModelConfig,
        weights: &Weights,
        tokenizer: &Tokenizer,
    ) -> Result<Option<usize>, Fault> {
        match spec {
            HeadSpec::LogRatio(_) => Ok(None),
            HeadSpec::Tokens(tokens) => {
                token_ids(tokens, tokenizer)?;
                if config.gives_logits(weights) {
                    Ok(Some(tokens.len()))
                } else {
                    Err(fault(TOKENS, NO_HEAD))
                }
            }
            HeadSpec::Linear(layers) => {
                let head = Self::linear_layers(layers, config.hidden_size, weights)?;
                Ok(Some(head.outputs()))
            }
        }
    }

    /// Returns the size of the hidden states that the head reads.
    pub(crate) fn inputs(&self) -> usize {
        self.layers.first().map_or(0, Layer::inputs)
    }

    pub(crate) fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.bias.len())
    }

    /// Weights and biases of the layers.
    pub(crate) fn layers(&self) -> Vec<(&[f32], &[f32])> {
        let layers = self.layers.iter();
        layers
            .map(|layer| (&layer.weight[..], &layer.bias[..]))
            .collect()
    }

    /// Computes the outputs for a hidden state `[hidden]`. Sums have a fixed order, so results are
    /// reproducible.
    pub(crate) fn forward(&self, hidden: &[f32]) -> Vec<f64> {
        let mut values: Vec<f64> = hidden.iter().map(|&x| f64::from(x)).collect();
        for (i, layer) in self.layers.iter().enumerate() {
            // `ReLU` comes between the layers, so not before the first.
            if i > 0 {
                for x in values.iter_mut() {
                    *x = x.max(0.0);
                }
            }
            values = layer.forward(&values);
        }
        values
    }
}

const LINEAR: &str = "head.linear";

fn tensor(weights: &Weights, name: &str) -> Result<Tensor, Fault> {
    let tensor = weights.tensor(name);
    tensor.map_err(|error| fault(LINEAR, error.to_string()))
}

fn wrong_shape(tensor: &str, shape: &[usize], expected: &str) -> Fault {
    let reason = format!("tensor `{tensor}` has shape {shape:?}, expected {expected}");
    fault(LINEAR, reason)
}

impl Layer {
    fn load(spec: &LayerSpec, inputs: usize, weights: &Weights) -> Result<Self, Fault> {
        let weight = tensor(weights, &spec.weight)?;
        let outputs = match weight.shape[..] {
            [outputs, width] if width == inputs && outputs > 0 => outputs,
            ref shape => {
                return Err(wrong_shape(
                    &spec.weight,
                    shape,
                    &format!("[outputs, {inputs}]"),
                ));
            }
        };
        let bias = match &spec.bias {
            Some(name) => {
                let bias = tensor(weights, name)?;
                if bias.shape != [outputs] {
                    return Err(wrong_shape(name, &bias.shape, &format!("[{outputs}]")));
                }
                bias.data
            }
            None => vec![0.0; outputs],
        };
        Ok(Self {
            weight: weight.data,
            bias,
        })
    }

    fn inputs(&self) -> usize {
        self.weight.len() / self.bias.len().max(1)
    }

    fn forward(&self, x: &[f64]) -> Vec<f64> {
        // A chunk size of 0 would panic; a head without weights has 0 inputs.
        let rows = self.weight.chunks_exact(self.inputs().max(1));
        rows.zip(&self.bias)
            .map(|(row, &bias)| dot(row, x) + f64::from(bias))
            .collect()
    }
}

/// Returns the dot product. Eight separate sums let the compiler use vector instructions; the order
/// of additions is fixed.
fn dot(w: &[f32], x: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (whole, rest) = w.as_chunks::<LANES>();
    let (whole_x, rest_x) = x.as_chunks::<LANES>();
    for (w, x) in whole.iter().zip(whole_x) {
        for i in 0..LANES {
            sums[i] += f64::from(w[i]) * x[i];
        }
    }
    let rest = rest.iter().zip(rest_x).map(|(&w, x)| f64::from(w) * x);
    sums.iter().sum::<f64>() + rest.sum::<f64>()
}

const TOKENS: &str = "head.tokens";
const NO_HEAD: &str = "the model has no language-model head";

/// Returns the ids of the label tokens. Each text must be exactly one token of the model.
fn token_ids(tokens: &[String], tokenizer: &Tokenizer) -> Result<Vec<u32>, Fault> {
    let ids: Vec<u32> = tokens
        .iter()
        .map(|token| {
            let ids = tokenizer
                .encode(token, false)
                .map_err(|error| fault(TOKENS, error.to_string()))?;
            if let [id] = ids[..] {
                Ok(id)
            } else {
                let reason = format!("{token:?} is {} tokens of the model, not one", ids.len());
                Err(fault(TOKENS, reason))
            }
        })
        .collect::<Result<_, _>>()?;
    for (i, id) in ids.iter().enumerate() {
        // If a token were there twice, softmax would count it twice and lower the other
        // probabilities.
        if let Some(first) = ids[..i].iter().position(|other| other == id) {
            let (a, b) = (&tokens[first], &tokens[i]);
            let reason = format!("{a:?} and {b:?} are the same token of the model, {id}");
            return Err(fault(TOKENS, reason));
        }
    }
    Ok(ids)
}

impl PrmSpec {
    /// Returns the ids of the label tokens whose logits the head reads; `None` for other heads.
    /// `model` is a path for error messages.
    ///
    /// # Errors
    /// [`Error::Unfit`] if a label is not one token of the model.
    pub fn label_ids(
        &self,
        tokenizer: &Tokenizer,
        model: &Path,
    ) -> Result<Option<Vec<u32>>, Error> {
        let HeadSpec::Tokens(tokens) = &self.head else {
            return Ok(None);
        };
        let ids = token_ids(tokens, tokenizer).map_err(|fault| fault.unfit(self, model))?;
        Ok(Some(ids))
    }
}

/// Makes a layer from the rows of the language-model head that belong to the label tokens.
fn token_rows(tokens: &[String], model: &Model, tokenizer: &Tokenizer) -> Result<Layer, Fault> {
    let mut weight = Vec::new();
    for id in token_ids(tokens, tokenizer)? {
        let row = model.head_row(id);
        let row = row.map_err(|error| fault(TOKENS, error.to_string()))?;
        weight.extend(row.ok_or_else(|| fault(TOKENS, NO_HEAD))?);
    }
    let bias = vec![0.0; tokens.len()];
    Ok(Layer { weight, bias })
}

impl Normaliser {
    /// Refuses a normaliser that cannot work with `outputs` numbers.
    pub(crate) fn check(&self, outputs: usize) -> Result<(), Fault> {
        self.fault(Some(outputs))
            .map_or(Ok(()), |reason| Err(fault("normaliser", reason)))
    }

    /// Returns the reason why the normaliser cannot work with `outputs` numbers, or with any number
    /// of them if `outputs` is `None`; `None` if it can.
    pub(crate) fn fault(&self, outputs: Option<usize>) -> Option<String> {
        let of_one = outputs == Some(1);
        match self {
            Self::Softmax(_) | Self::Expected(_) if of_one => {
                Some("softmax of a head with one output is always 1: use \"sigmoid\"".to_owned())
            }
            Self::Softmax(classes) => {
                let classes = classes.indices();
                let is_twice = |&i: &usize| classes[..i].contains(&classes[i]);
                if classes.is_empty() {
                    return Some("names no class".to_owned());
                }
                if let Some(i) = (1..classes.len()).find(is_twice) {
                    return Some(format!("names class {} twice", classes[i]));
                }
                let outputs = outputs?;
                if let Some(class) = classes.iter().find(|&&class| class >= outputs) {
                    return Some(format!(
                        "names class {class}, but the head has {outputs} outputs (the first is 0)"
                    ));
                }
                let is_all = classes.len() == outputs;
                is_all.then(|| "names all classes, whose sum is always 1".to_owned())
            }
            Self::Expected(values) => {
                let most = values.iter().copied().fold(0.0, f64::max);
                let is_usable = values
                    .iter()
                    .all(|value| (0.0..f64::INFINITY).contains(value));
                if !is_usable || most == 0.0 {
                    return Some("needs values that are 0 or more, and one above 0".to_owned());
                }
                let other = outputs.filter(|&outputs| outputs != values.len());
                other.map(|outputs| {
                    let values = values.len();
                    format!("has {values} values, but the head has {outputs} outputs: one value for each")
                })
            }
            Self::Sigmoid | Self::Clamp => {
                let several = outputs.filter(|&outputs| outputs != 1);
                several
                    .map(|outputs| format!("takes one number, but the head has {outputs} outputs"))
            }
            Self::MeanSigmoid => None,
        }
    }

    /// Returns the probability for the outputs of a head; `None` if the result is NaN or there are
    /// too few outputs.
    #[must_use]
    pub fn probability(&self, outputs: &[f64]) -> Option<f32> {
        let first = outputs.first()?;
        let value = match self {
            Self::Softmax(_) | Self::Expected(_) => self.of_classes(&softmax(outputs))?,
            Self::Sigmoid => sigmoid(*first),
            Self::MeanSigmoid => {
                outputs.iter().copied().map(sigmoid).sum::<f64>() / outputs.len() as f64
            }
            Self::Clamp => first.clamp(0.0, 1.0),
        };
        (!value.is_nan()).then_some(value as f32)
    }

    /// Returns the probability for the probabilities of all classes, as a server gives them; `None`
    /// if there are too few, or if the normaliser takes no classes.
    #[must_use]
    pub fn of_classes(&self, shares: &[f64]) -> Option<f64> {
        match self {
            Self::Softmax(classes) => {
                let classes = classes.indices().iter();
                classes.map(|&class| shares.get(class)).sum()
            }
            Self::Expected(values) => {
                let most = values.iter().copied().fold(0.0, f64::max);
                let values = values.iter().enumerate();
                let expected: Option<f64> = values
                    .map(|(class, value)| Some(value * shares.get(class)?))
                    .sum();
                Some(expected? / most)
            }
            Self::Sigmoid | Self::MeanSigmoid | Self::Clamp => None,
        }
    }
}

fn softmax(outputs: &[f64]) -> Vec<f64> {
    // The largest output is subtracted: without that the exponentials could overflow.
    let most = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = outputs.iter().map(|x| (x - most).exp()).sum();
    let shares = outputs.iter().map(|x| (x - most).exp() / sum);
    shares.collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Classes;

    #[test]
    fn layers_with_relu_between_them() {
        fn layer(weight: &[f32], bias: &[f32]) -> Layer {
            let (weight, bias) = (weight.to_vec(), bias.to_vec());
            Layer { weight, bias }
        }
        let head = Head {
            layers: vec![
                layer(&[1.0, 0.0, 0.0, -1.0], &[0.5, 0.0]),
                layer(&[2.0, 1.0], &[-1.0]),
            ],
        };
        assert_eq!((head.inputs(), head.outputs()), (2, 1));
        assert_eq!(head.forward(&[1.0, 3.0]), [2.0 * 1.5 - 1.0]);
        assert_eq!(head.forward(&[-1.0, -3.0]), [3.0 - 1.0]);
    }

    #[test]
    fn long_rows_are_summed_whole() {
        let w: Vec<f32> = (0..19).map(|i| i as f32).collect();
        let x: Vec<f64> = (0..19).map(f64::from).collect();
        assert_eq!(dot(&w, &x), x.iter().map(|i| i * i).sum::<f64>());
    }

    #[test]
    fn numbers_become_probabilities() {
        let sigmoid = (1.0 / (1.0 + (-2.5f64).exp())) as f32;
        assert_eq!(Normaliser::Sigmoid.probability(&[0.0]), Some(0.5));
        assert_eq!(Normaliser::Sigmoid.probability(&[2.5]), Some(sigmoid));
        let two = Normaliser::Softmax(Classes::One(1))
            .probability(&[-1.0, 1.5])
            .unwrap();
        assert!((two - sigmoid).abs() < 1e-7);
        assert_eq!(Normaliser::Clamp.probability(&[1.25]), Some(1.0));
        assert_eq!(Normaliser::Clamp.probability(&[0.25]), Some(0.25));
        // Against sums written out by hand.
        let logits = [0.5, -1.0, 2.0];
        let e = logits.map(f64::exp);
        let sum: f64 = e.iter().sum();
        let near = |normaliser: Normaliser, expected: f64| {
            let value = normaliser.probability(&logits).unwrap();
            assert!(
                (f64::from(value) - expected).abs() < 1e-7,
                "{normaliser:?}: {value}"
            );
        };
        let two = Classes::Several(vec![1, 2]);
        near(Normaliser::Softmax(two), (e[1] + e[2]) / sum);
        near(
            Normaliser::Expected(vec![0.0, 1.0, 4.0]),
            (e[1] + 4.0 * e[2]) / sum / 4.0,
        );
        let each = logits.map(|x| 1.0 / (1.0 + (-x).exp()));
        near(Normaliser::MeanSigmoid, each.iter().sum::<f64>() / 3.0);
    }

    /// Far logits round to 0 and 1, which are probabilities like any other.
    #[test]
    fn extreme_numbers_are_probabilities_and_no_number_is_none() {
        for (x, expected) in [(-1e30, 0.0), (1e30, 1.0)] {
            assert_eq!(Normaliser::Sigmoid.probability(&[x]), Some(expected));
            let softmax = Normaliser::Softmax(Classes::One(0)).probability(&[x, 0.0]);
            assert_eq!(softmax, Some(expected));
        }
        let all = [
            Normaliser::Sigmoid,
            Normaliser::MeanSigmoid,
            Normaliser::Expected(vec![1.0]),
            Normaliser::Clamp,
            Normaliser::Softmax(Classes::One(0)),
        ];
        for normaliser in all {
            assert_eq!(normaliser.probability(&[f64::NAN]), None);
            assert_eq!(normaliser.probability(&[]), None);
        }
    }

    #[test]
    fn the_normaliser_must_fit_the_head() {
        assert!(Normaliser::Softmax(Classes::One(1)).check(2).is_ok());
        assert!(Normaliser::Softmax(Classes::One(2)).check(2).is_err());
        assert!(Normaliser::Softmax(Classes::One(0)).check(1).is_err());
        assert!(Normaliser::Sigmoid.check(1).is_ok());
        assert!(Normaliser::Sigmoid.check(2).is_err());
        assert!(Normaliser::Clamp.check(2).is_err());
        assert!(Normaliser::MeanSigmoid.check(32).is_ok());
        let sum = |classes: &[usize]| Normaliser::Softmax(Classes::Several(classes.to_vec()));
        assert!(sum(&[1, 2]).check(3).is_ok());
        for wrong in [&[][..], &[1, 1], &[0, 1, 2], &[3]] {
            assert!(sum(wrong).check(3).is_err(), "{wrong:?}");
        }
        let expected = |values: &[f64]| Normaliser::Expected(values.to_vec()).check(3);
        assert!(expected(&[0.0, 1.0, 9.0]).is_ok());
        for wrong in [
            &[0.0, 1.0][..],
            &[0.0; 3],
            &[-1.0, 0.0, 1.0],
            &[0.0, 1.0, f64::NAN],
        ] {
            assert!(expected(wrong).is_err(), "{wrong:?}");
        }
    }
}
