//! The read-out of reward models, against the same in float64 as crates/prm and crates/search do it.

use beamgen_kernels::cuda::{
    Buffer, Contender, Device, Number, PrmAggregation, PrmLayer, PrmNormaliser, Selection,
    Standing, prm_head, prm_layer, prm_scores,
};

use crate::helpers::{device, download, noise, upload};

struct Layer {
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
    inputs: usize,
    outputs: usize,
}

impl Layer {
    fn new(inputs: usize, outputs: usize, bias: bool, seed: u64) -> Self {
        let bias = bias.then(|| noise(outputs, seed + 1));
        Self {
            weight: noise(inputs * outputs, seed),
            bias,
            inputs,
            outputs,
        }
    }

    /// Each output, and the sum of its magnitudes, which its error is measured by.
    fn forward(&self, x: &[f64]) -> Vec<(f64, f64)> {
        let output = |(o, row): (usize, &[f32])| {
            let bias = self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[o]));
            let terms = || row.iter().zip(x).map(|(w, x)| f64::from(*w) * x);
            (
                terms().sum::<f64>() + bias,
                terms().map(f64::abs).sum::<f64>() + bias.abs(),
            )
        };
        self.weight
            .chunks_exact(self.inputs)
            .enumerate()
            .map(output)
            .collect()
    }

    /// Runs `launch` with the layer on the device; returns the outputs of `count` rows.
    fn on(
        &self,
        device: &Device,
        count: usize,
        launch: impl FnOnce(&mut Buffer, PrmLayer<'_>),
    ) -> Vec<f64> {
        let weight = upload(device, Number::F32, &self.weight);
        let bias = self
            .bias
            .as_ref()
            .map(|bias| upload(device, Number::F32, bias));
        let mut out = device.alloc(8 * count * self.outputs).expect("memory");
        let (inputs, outputs) = (self.inputs, self.outputs);
        launch(
            &mut out,
            PrmLayer {
                weight: &weight,
                bias: bias.as_ref(),
                inputs,
                outputs,
            },
        );
        let mut values = vec![0.0; count * outputs];
        out.read(0, &mut values).expect("a copy");
        values
    }
}

/// Sizes of layers; rows from 1 to more than two tiles.
const SHAPES: [(usize, usize, usize); 6] = [
    (1, 1, 1),
    (2, 3, 7),
    (31, 8, 8),
    (33, 9, 9),
    (896, 2, 17),
    (129, 40, 3),
];

#[test]
fn heads_equal_the_reference() {
    let Some(device) = device() else { return };
    for (inputs, outputs, count) in SHAPES {
        for bias in [false, true] {
            let layer = Layer::new(inputs, outputs, bias, 3);
            let hidden = noise(5 * inputs, 4);
            let rows: Vec<u32> = (0..count as u32).map(|i| i * 3 % 5).collect();
            let got = layer.on(device, count, |out, layer| {
                let list = device.upload(&rows).expect("memory");
                prm_head(
                    out,
                    &upload(device, Number::F32, &hidden),
                    &list,
                    layer,
                    count,
                )
                .expect("a launch");
            });
            for (row, got) in rows.iter().zip(got.chunks(outputs)) {
                let x = hidden.chunks(inputs).nth(*row as usize).expect("a row");
                let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
                for ((want, size), got) in layer.forward(&x).into_iter().zip(got) {
                    assert!(
                        (got - want).abs() <= 1e-14 * size,
                        "{got} instead of {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn further_layers_take_what_is_above_zero() {
    let Some(device) = device() else { return };
    for (inputs, outputs, count) in SHAPES {
        let layer = Layer::new(inputs, outputs, true, 5);
        let mut x: Vec<f64> = noise(count * inputs, 6)
            .iter()
            .map(|x| f64::from(*x))
            .collect();
        // As `f64::max` of the CPU has it.
        x[0] = f64::NAN;
        let got = layer.on(device, count, |out, layer| {
            prm_layer(out, &device.upload(&x).expect("memory"), layer, count).expect("a launch");
        });
        for (x, got) in x.chunks(inputs).zip(got.chunks(outputs)) {
            let x: Vec<f64> = x.iter().map(|x| x.max(0.0)).collect();
            for ((want, size), got) in layer.forward(&x).into_iter().zip(got) {
                assert!(
                    (got - want).abs() <= 1e-14 * size,
                    "{got} instead of {want}"
                );
            }
        }
    }
}

#[test]
fn a_row_does_not_depend_on_its_company_and_a_missing_one_is_no_number() {
    let Some(device) = device() else { return };
    let layer = Layer::new(101, 11, true, 7);
    let hidden = upload(device, Number::F32, &noise(4 * 101, 8));
    let run = |rows: &[u32]| {
        let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
        bits(layer.on(device, rows.len(), |out, layer| {
            let list = device.upload(rows).expect("memory");
            prm_head(out, &hidden, &list, layer, rows.len()).expect("a launch");
        }))
    };
    let rows = [3, 0, 2, 2, 1, 0, 3, 1, 2, 0];
    let together = run(&rows);
    for (row, want) in rows.iter().zip(together.chunks(11)) {
        assert_eq!(run(&[*row]), want);
    }
    let missing = run(&[1, 4, u32::MAX]);
    assert_eq!(missing[..11], run(&[1]));
    assert!(
        missing[11..]
            .iter()
            .all(|bits| f64::from_bits(*bits).is_nan())
    );
}

/// As `Normaliser::probability` of crates/prm/src/head.rs.
fn probability(normaliser: PrmNormaliser, outputs: &[f64]) -> Option<f32> {
    let value = match normaliser {
        PrmNormaliser::Softmax(class) => {
            let most = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = outputs.iter().map(|x| (x - most).exp()).sum();
            (outputs[class] - most).exp() / sum
        }
        PrmNormaliser::Sigmoid => 1.0 / (1.0 + (-outputs[0]).exp()),
        PrmNormaliser::Clamp => outputs[0].clamp(0.0, 1.0),
    };
    (!value.is_nan()).then_some(value as f32)
}

#[test]
fn numbers_become_the_same_probabilities() {
    let Some(device) = device() else { return };
    const INF: f64 = f64::INFINITY;
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e30,
        -1e30,
        INF,
        -INF,
        f64::NAN,
        0.25,
        1.25,
        700.0,
        -800.0,
    ];
    for (outputs, count) in [(1, 1), (1, 300), (2, 169), (3, 128), (10, 7)] {
        let mut values: Vec<f64> = noise(outputs * count, 9)
            .iter()
            .map(|x| 6.0 * f64::from(*x))
            .collect();
        if outputs < 3 {
            // Every pair of them, or each.
            for (i, row) in values.chunks_mut(outputs).take(169).enumerate() {
                row[0] = special[i % 13];
                if let Some(second) = row.get_mut(1) {
                    *second = special[i / 13];
                }
            }
        }
        let on_device = device.upload(&values).expect("memory");
        let mut normalisers = vec![
            PrmNormaliser::Softmax(0),
            PrmNormaliser::Softmax(outputs - 1),
        ];
        if outputs == 1 {
            normalisers.extend([PrmNormaliser::Sigmoid, PrmNormaliser::Clamp]);
        }
        for normaliser in normalisers {
            let first = 3;
            let mut out = upload(device, Number::F32, &vec![9.0; first + count]);
            prm_scores(&mut out, first, &on_device, count, outputs, normaliser).expect("a launch");
            let scores = download(&out, Number::F32, first + count);
            assert_eq!(scores[..first], [9.0; 3]);
            for (row, got) in values.chunks(outputs).zip(&scores[first..]) {
                match probability(normaliser, row) {
                    None => assert!(got.is_nan(), "{normaliser:?} of {row:?}: {got}"),
                    Some(want) => assert!(
                        (got - want).abs() <= 1e-7 * want,
                        "{normaliser:?} of {row:?}: {got}, not {want}"
                    ),
                }
            }
        }
    }
}

const AGGREGATIONS: [PrmAggregation; 7] = [
    PrmAggregation::Min,
    PrmAggregation::Product,
    PrmAggregation::Mean,
    PrmAggregation::Last,
    PrmAggregation::Max,
    PrmAggregation::SoftMin { temperature: 0.1 },
    PrmAggregation::SoftMin { temperature: 1e-4 },
];

/// As `Aggregation::fold` of crates/search/src/aggregation.rs; minus infinity for no scores, as when chains are sorted.
fn fold(how: PrmAggregation, scores: &[f32]) -> f32 {
    let Some(last) = scores.last() else {
        return f32::NEG_INFINITY;
    };
    let wide = || scores.iter().map(|s| f64::from(*s));
    match how {
        PrmAggregation::Min => scores.iter().copied().fold(f32::INFINITY, f32::min),
        PrmAggregation::Max => scores.iter().copied().fold(f32::NEG_INFINITY, f32::max),
        PrmAggregation::Last => *last,
        PrmAggregation::Product => wide().product::<f64>() as f32,
        PrmAggregation::Mean => (wide().sum::<f64>() / scores.len() as f64) as f32,
        PrmAggregation::SoftMin { temperature } => {
            let min = wide().fold(f64::INFINITY, f64::min);
            let weight = |s: f64| ((min - s) / f64::from(temperature)).exp();
            (wide().map(|s| weight(s) * s).sum::<f64>() / wide().map(weight).sum::<f64>()) as f32
        }
    }
}

/// Places and slots as `sort_by_score` and `slots::place` of crates/search give them, by sorting.
fn standings(scores: &[f32], copies: &[u32], slots: u32) -> Vec<(u32, u32)> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let (mut free, mut all) = (slots, vec![(0, 0); scores.len()]);
    for (place, i) in order.into_iter().enumerate() {
        let held = copies[i].min(free);
        free -= held;
        all[i] = (place as u32, held);
    }
    all
}

/// Chains of each problem as lists of steps, with copies.
type Problem = (u32, Vec<(Vec<u32>, u32)>);

fn choose(
    selection: &mut Selection,
    scores: &Buffer,
    problems: &[Problem],
    how: PrmAggregation,
) -> Vec<Standing> {
    let lists: Vec<Vec<Contender<'_>>> = problems
        .iter()
        .map(|(_, chains)| {
            chains
                .iter()
                .map(|(steps, copies)| Contender {
                    steps,
                    copies: *copies,
                })
                .collect()
        })
        .collect();
    let plan: Vec<(u32, &[Contender<'_>])> = problems
        .iter()
        .zip(&lists)
        .map(|((slots, _), chains)| (*slots, &chains[..]))
        .collect();
    selection.plan(&plan).expect("a copy");
    selection.select(scores, how).expect("a launch");
    selection.read().expect("a copy").collect()
}

#[test]
fn the_best_chains_of_every_problem_survive() {
    let Some(device) = device() else { return };
    // Few different scores, so that chains are equal.
    let scores: Vec<f32> = noise(500, 10)
        .iter()
        .map(|x| ((x + 1.0) * 4.0).floor() / 8.0)
        .collect();
    let on_device = upload(device, Number::F32, &scores);
    let mut selection = Selection::new(device, 8, 800, 8000).expect("memory");
    // Slots and chains: more chains than slots, as many, fewer, none.
    let sizes = [
        (4, 16),
        (1, 1),
        (16, 16),
        (8, 3),
        (0, 5),
        (3, 0),
        (64, 600),
        (1, 40),
    ];
    for copies in [1, 3] {
        let mut steps = noise(20_000, 11).into_iter();
        let mut random = |below: usize| {
            ((steps.next().expect("enough") + 1.0) * 0.5 * below as f32) as usize % below
        };
        let mut chain = || {
            // Some have no score yet.
            let steps = (0..random(9)).map(|_| random(500) as u32).collect();
            (steps, 1 + random(copies) as u32)
        };
        let problems: Vec<Problem> = sizes
            .iter()
            .map(|(slots, chains)| (*slots, (0..*chains).map(|_| chain()).collect()))
            .collect();
        for how in AGGREGATIONS {
            let got = choose(&mut selection, &on_device, &problems, how);
            let mut got = &got[..];
            for (slots, chains) in &problems {
                let (own, rest) = got.split_at(chains.len());
                got = rest;
                for ((steps, _), own) in chains.iter().zip(own) {
                    let steps: Vec<f32> = steps.iter().map(|s| scores[*s as usize]).collect();
                    let want = fold(how, &steps);
                    let exact = !matches!(how, PrmAggregation::SoftMin { .. });
                    let same = own.score == want || !exact && (own.score - want).abs() < 1e-6;
                    assert!(
                        same,
                        "{how:?} of {steps:?}: {} instead of {want}",
                        own.score
                    );
                }
                let folded: Vec<f32> = own.iter().map(|own| own.score).collect();
                let copies: Vec<u32> = chains.iter().map(|(_, copies)| *copies).collect();
                let pairs: Vec<(u32, u32)> = own.iter().map(|own| (own.place, own.held)).collect();
                assert_eq!(pairs, standings(&folded, &copies, *slots), "{how:?}");
                let held: u32 = own.iter().map(|own| own.held).sum();
                assert_eq!(held, (*slots).min(copies.iter().sum()));
            }
            assert!(got.is_empty());
        }
    }
}

#[test]
fn of_equal_chains_the_earlier_survive() {
    let Some(device) = device() else { return };
    let scores = upload(device, Number::F32, &[0.5, 0.75, 0.5]);
    let mut selection = Selection::new(device, 2, 9, 9).expect("memory");
    let chain = |step: u32| (vec![step], 1);
    let problems = [
        (2, vec![chain(0), chain(2), chain(1), chain(0)]),
        (1, vec![chain(2), chain(0)]),
    ];
    let got = choose(&mut selection, &scores, &problems, PrmAggregation::Last);
    let held: Vec<u32> = got.iter().map(|own| own.held).collect();
    assert_eq!(held, [1, 0, 1, 0, 1, 0]);
    let places: Vec<u32> = got.iter().map(|own| own.place).collect();
    assert_eq!(places, [1, 2, 0, 3, 0, 1]);
    // Nothing to choose from.
    assert_eq!(
        choose(&mut selection, &scores, &[], PrmAggregation::Min),
        []
    );
}
