//! Tests of the fused operations against the composed ones.

use super::*;
use candle_core::{Device, Var};
use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

fn random(dims: &[usize], seed: u64) -> Var {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let n: usize = dims.iter().product();
    let data: Vec<f32> = (0..n).map(|_| rng.random_range(-1.5..1.5)).collect();
    Var::from_vec(data, dims, &Device::Cpu).unwrap()
}

fn close(a: &Tensor, b: &Tensor, what: &str) {
    let a: Vec<f32> = a.flatten_all().unwrap().to_vec1().unwrap();
    let b: Vec<f32> = b.flatten_all().unwrap().to_vec1().unwrap();
    let scale = b.iter().fold(1e-3f32, |m, x| m.max(x.abs()));
    for (i, (x, y)) in a.iter().zip(&b).enumerate() {
        assert!(
            (x - y).abs() <= 2e-5 * scale.max(1.0),
            "{what}[{i}]: {x} against {y}"
        );
    }
}

/// Checks that a fused and a composed operation have the same values and gradients. The scalar that is differentiated
/// is the dot product of the result with random numbers.
fn same(vars: &[Var], fused: impl Fn() -> Result<Tensor>, plain: impl Fn() -> Result<Tensor>) {
    let (a, b) = (fused().unwrap(), plain().unwrap());
    close(&a, &b, "value");
    let dims = a.dims().to_vec();
    let probe = random(&dims, 99);
    let [ga, gb] = [a, b].map(|value| {
        let sum = (value * probe.as_tensor()).unwrap().sum_all().unwrap();
        sum.backward().unwrap()
    });
    for (i, v) in vars.iter().enumerate() {
        close(
            ga.get(v).unwrap(),
            gb.get(v).unwrap(),
            &format!("gradient {i}"),
        );
    }
}

#[test]
fn a_frozen_matrix_gives_the_gradient_of_its_input_alone() {
    for (rows, inputs, outputs) in [(1, 1, 1), (3, 7, 5), (65, 33, 17)] {
        let (x, w) = (random(&[rows, inputs], 1), random(&[outputs, inputs], 2));
        let frozen = || {
            let weight = w.as_tensor().clone();
            x.apply_op1(FrozenLinear { weight })
        };
        same(std::slice::from_ref(&x), frozen, || x.matmul(&w.t()?));
        let grads = frozen().unwrap().sum_all().unwrap().backward().unwrap();
        assert!(grads.get(&w).is_none());
    }
}

#[test]
fn rms_norm_equals_composed() {
    for (rows, d) in [(1, 1), (3, 7), (65, 33), (130, 64)] {
        let (x, w) = (random(&[rows, d], 1), random(&[d], 2));
        same(
            &[x.clone(), w.clone()],
            || x.apply_op2(&w, RmsNorm { eps: 1e-5 }),
            || composed::rms_norm(&x, &w, 1e-5),
        );
    }
}

#[test]
fn swiglu_equals_composed() {
    for (rows, f) in [(1, 1), (3, 7), (65, 33)] {
        let x = random(&[rows, 2 * f], 3);
        same(
            std::slice::from_ref(&x),
            || x.apply_op1(SwiGlu),
            || composed::swiglu(&x),
        );
    }
}

#[test]
fn cross_entropy_equals_composed() {
    let x = random(&[9, 37], 4);
    let targets: Vec<u32> = (0..9).map(|i| i * 4).collect();
    let weights: Vec<f32> = (0..9).map(|i| i as f32 * 0.25).collect();
    same(
        std::slice::from_ref(&x),
        || {
            x.apply_op1(CrossEntropy {
                targets: targets.clone(),
                weights: weights.clone(),
            })
        },
        || composed::cross_entropy(&x, &targets, &weights),
    );
}

#[test]
fn cross_entropy_of_a_head_equals_that_of_its_logits() {
    let (x, w) = (random(&[9, 5], 6), random(&[37, 5], 7));
    let targets: Vec<u32> = (0..9).map(|i| i * 4).collect();
    let weights: Vec<f32> = (0..9).map(|i| i as f32 * 0.25).collect();
    same(
        &[x.clone(), w.clone()],
        || linear_cross_entropy(&x, &w, &targets, &weights, true),
        || composed::cross_entropy(&x.matmul(&w.t()?)?, &targets, &weights),
    );
}

#[test]
fn attention_equals_composed() {
    // batch, time, heads, key-value heads, head_dim, pairs that turn, window
    for (batch, time, heads, kv_heads, head_dim, pairs, window) in [
        (1, 1, 1, 1, 16, 8, None),
        (2, 7, 3, 3, 16, 8, None),
        (3, 33, 2, 2, 32, 16, None),
        (1, 20, 1, 1, 64, 32, None),
        (2, 19, 6, 2, 16, 8, None),
        (2, 19, 4, 1, 16, 6, Some(5)),
        (1, 9, 2, 2, 96, 48, Some(1)),
    ] {
        let angles = (0..time * pairs)
            .map(|i| (i / pairs) as f32 / 10f32.powf((i % pairs) as f32 / pairs as f32));
        let table = |f: fn(f32) -> f32| std::sync::Arc::new(angles.clone().map(f).collect());
        let op = Attention {
            time,
            heads,
            kv_heads,
            head_dim,
            pairs,
            window,
            cos: table(f32::cos),
            sin: table(f32::sin),
        };
        let x = random(&[batch * time, (heads + 2 * kv_heads) * head_dim], 5);
        same(
            std::slice::from_ref(&x),
            || x.apply_op1(op.clone()),
            || composed::attention(&op, &x),
        );
    }
}
