//! Whether a CUDA device computes what the CPU does: the operations of a pass at small sizes,
//! against references in float64. Run before a device is given any work, since the same kernels are
//! compiled anew by every driver.

use beamgen_kernels::cuda::{
    self, AttentionCapacity, AttentionLists, AttentionPlan, AttentionReach, AttentionRoom, Buffer,
    KvLayout, LinearShape, LinearWorkspace, Number, PrmLayer, QkvRows, SampleRequest, Samples,
    Staging,
};
use beamgen_kernels::{
    AttentionRow, AttentionShape, Epilogue, attention_reference, linear_reference,
    rmsnorm_reference, rope_reference, silu_mul_reference,
};
use half::{bf16, f16};

use crate::rng::Key;
use crate::{Error, Sampler, SamplingParams};

const NUMBERS: [Number; 3] = [Number::F32, Number::Bf16, Number::F16];

/// Runs the operations on the device.
///
/// # Errors
/// [`Error::Device`] names the operation that fails, or whose numbers differ from the CPU's by more
/// than its tolerance.
pub(crate) fn run(device: &cuda::Device) -> Result<(), Error> {
    rmsnorm(device)?;
    silu(device)?;
    for number in NUMBERS {
        linear(device, number)?;
        attention(device, number)?;
    }
    prm_head(device)?;
    sampling(device)
}

/// Largest error, relative to 1 or to a larger expected value: what sums of a few hundred terms of
/// about 1 in another order lose in float32, and one rounding of their factors or their result.
fn tolerance(number: Number) -> f64 {
    match number {
        Number::F32 => 1e-4,
        Number::Bf16 => 2e-2,
        Number::F16 => 3e-3,
    }
}

fn check(operation: &str, got: &[f32], expected: &[f64], tolerance: f64) -> Result<(), Error> {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        let error = (f64::from(*got) - expected).abs();
        // Also false for what is not a number.
        let near = error <= tolerance * expected.abs().max(1.0);
        if !near {
            return Err(wrong(operation, got, expected));
        }
    }
    Ok(())
}

fn wrong(operation: &str, got: impl ToString, expected: impl ToString) -> Error {
    let (got, expected) = (got.to_string(), expected.to_string());
    Error::Device(format!(
        "it computes wrong numbers: {operation} gives {got}, the cpu {expected}"
    ))
}

/// Uniform in -1..1.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The values as `number` keeps them.
fn rounded(number: Number, values: Vec<f32>) -> Vec<f32> {
    let round = |v: f32| match number {
        Number::F32 => v,
        Number::Bf16 => bf16::from_f32(v).to_f32(),
        Number::F16 => f16::from_f32(v).to_f32(),
    };
    values.into_iter().map(round).collect()
}

fn upload(device: &cuda::Device, number: Number, values: &[f32]) -> Result<Buffer, Error> {
    let values = values.iter().copied();
    Ok(match number {
        Number::F32 => device.upload(&values.collect::<Vec<_>>())?,
        Number::Bf16 => device.upload(&values.map(bf16::from_f32).collect::<Vec<_>>())?,
        Number::F16 => device.upload(&values.map(f16::from_f32).collect::<Vec<_>>())?,
    })
}

fn download(buffer: &Buffer, number: Number, count: usize) -> Result<Vec<f32>, Error> {
    match number {
        Number::F32 => {
            let mut values = vec![0.0; count];
            buffer.read(0, &mut values)?;
            Ok(values)
        }
        Number::Bf16 | Number::F16 => {
            let mut bits = vec![0u16; count];
            buffer.read(0, &mut bits)?;
            let widen = |bits: u16| match number {
                Number::F16 => f16::from_bits(bits).to_f32(),
                _ => bf16::from_bits(bits).to_f32(),
            };
            Ok(bits.into_iter().map(widen).collect())
        }
    }
}

/// Two rows of 301 floats, to every type.
fn rmsnorm(device: &cuda::Device) -> Result<(), Error> {
    const WIDTH: usize = 301;
    let (x, weight) = (noise(2 * WIDTH, 1), noise(WIDTH, 2));
    let expected: Vec<f64> = x
        .chunks(WIDTH)
        .flat_map(|x| rmsnorm_reference(x, &weight, 1e-5))
        .collect();
    let source = upload(device, Number::F32, &x)?;
    let weight = upload(device, Number::F32, &weight)?;
    for number in NUMBERS {
        let mut out = device.alloc(number.bytes() * x.len())?;
        cuda::rmsnorm(&mut out, number, &source, &weight, 2, WIDTH, 1e-5)?;
        let got = download(&out, number, x.len())?;
        check("rmsnorm", &got, &expected, tolerance(number))?;
    }
    Ok(())
}

/// Two rows of 70 gates, to every type.
fn silu(device: &cuda::Device) -> Result<(), Error> {
    const WIDTH: usize = 70;
    let gate_up: Vec<f32> = noise(4 * WIDTH, 3).iter().map(|x| 4.0 * x).collect();
    let expected: Vec<f64> = gate_up
        .chunks(2 * WIDTH)
        .flat_map(|row| {
            let (gate, up) = row.split_at(WIDTH);
            gate.iter()
                .zip(up)
                .map(|(gate, up)| silu_mul_reference(*gate, *up))
        })
        .collect();
    let source = upload(device, Number::F32, &gate_up)?;
    for number in NUMBERS {
        let mut out = device.alloc(number.bytes() * expected.len())?;
        cuda::silu_mul(&mut out, number, &source, 2, WIDTH)?;
        let got = download(&out, number, expected.len())?;
        check("silu_mul", &got, &expected, tolerance(number))?;
    }
    Ok(())
}

/// A layer with its inputs cut among blocks, for a few rows with and without the gate; one for many
/// rows.
fn linear(device: &cuda::Device, number: Number) -> Result<(), Error> {
    for (inputs, outputs, rows, compared) in [(544, 70, 5, 5), (64, 70, 260, 3)] {
        let layer = LinearShape {
            inputs,
            outputs,
            number,
        };
        let weight = rounded(number, noise(inputs * outputs, 4));
        let x = rounded(number, noise(inputs * rows, 5));
        let bias = noise(outputs, 6);
        let mut workspace = LinearWorkspace::new(device, &[layer], rows)?;
        let on_device = upload(device, number, &weight)?;
        let source = upload(device, number, &x)?;
        let biases = upload(device, Number::F32, &bias)?;
        let mut out = device.alloc(4 * rows * outputs)?;
        cuda::linear(
            &mut out,
            &source,
            &layer,
            &on_device,
            Some(&biases),
            rows,
            Epilogue::Store,
            &mut workspace,
        )?;
        // The last row of many, too: it is in another tile.
        let chosen = |row: &usize| row + compared > rows || *row < compared;
        let got = download(&out, Number::F32, rows * outputs)?;
        let mut gated = Vec::new();
        for row in (0..rows).filter(chosen) {
            let x = &x[row * inputs..][..inputs];
            let expected = linear_reference(x, &weight, Some(&bias));
            let got = &got[row * outputs..][..outputs];
            check("linear", got, &expected, tolerance(Number::F32))?;
            let (gate, up) = (&expected[..outputs / 2], &expected[outputs / 2..]);
            let without = |n: usize, value: f64| (value - f64::from(bias[n])) as f32;
            gated.extend(gate.iter().zip(up).enumerate().map(|(n, (gate, up))| {
                silu_mul_reference(without(n, *gate), without(n + outputs / 2, *up))
            }));
        }
        if layer.on_tensor_cores() && compared == rows {
            cuda::linear_silu(&mut out, &source, &layer, &on_device, rows, &mut workspace)?;
            let got = download(&out, number, gated.len())?;
            check("linear_silu", &got, &gated, tolerance(number))?;
        }
    }
    Ok(())
}

/// Twenty tokens: their rotation, the way of their keys and values to pages, causal attention, and
/// the sum of its partial results.
fn attention(device: &cuda::Device, number: Number) -> Result<(), Error> {
    const ROWS: usize = 20;
    const HEADS: usize = 4;
    const KV_HEADS: usize = 2;
    const DIM: usize = 64;
    const STRIDE: usize = (HEADS + 2 * KV_HEADS) * DIM;
    let layout = KvLayout {
        number,
        page_size: 16,
        layers: 1,
        kv_heads: KV_HEADS,
        head_dim: DIM,
    };
    let tables = [1u32, 0];
    let frequencies: Vec<f64> = (0..DIM / 2)
        .map(|i| 1e4f64.powf(-((2 * i) as f64) / DIM as f64))
        .collect();
    let positions: Vec<u32> = (0..ROWS as u32).collect();
    let slots: Vec<u32> = positions
        .iter()
        .flat_map(|p| [tables[*p as usize / 16], p % 16])
        .collect();
    let qkv = noise(ROWS * STRIDE, 7);

    let narrowed: Vec<f32> = frequencies.iter().map(|f| *f as f32).collect();
    let (positions, narrowed) = (device.upload(&positions)?, device.upload(&narrowed)?);
    let mut angles = device.alloc(4 * ROWS * DIM)?;
    cuda::rope_angles(&mut angles, &positions, &narrowed, 1.0, ROWS, DIM / 2)?;
    let mut rows = upload(device, Number::F32, &qkv)?;
    let mut kv = device.alloc(tables.len() * layout.page_bytes())?;
    kv.clear()?;
    let shape = QkvRows {
        rows: ROWS,
        stride: STRIDE,
        heads: HEADS,
    };
    let slots = device.upload(&slots)?;
    cuda::rope_kv(
        &mut rows,
        shape,
        &mut kv,
        &layout,
        0,
        &angles,
        DIM / 2,
        &slots,
    )?;
    // What the device rotated is what attention is computed from, there and here.
    let rotated = download(&rows, Number::F32, qkv.len())?;
    let heads = HEADS + KV_HEADS;
    for (row, (qkv, rotated)) in qkv.chunks(STRIDE).zip(rotated.chunks(STRIDE)).enumerate() {
        for head in 0..heads {
            let part = head * DIM..(head + 1) * DIM;
            let expected = rope_reference(&qkv[part.clone()], &frequencies, 1.0, row);
            check("rope", &rotated[part], &expected, tolerance(Number::F32))?;
        }
    }

    let attends: Vec<AttentionRow> = (1..=ROWS as u32)
        .map(|len| AttentionRow { table: 0, len })
        .collect();
    let reach = AttentionReach {
        page_size: layout.page_size,
        window: None,
        group: HEADS / KV_HEADS,
    };
    let mut plan = AttentionPlan::default();
    plan.build(&tables, &attends, reach);
    let capacity = AttentionCapacity {
        rows: ROWS,
        partials: plan.partials(),
    };
    let room = AttentionRoom::of(&plan);
    let mut staging = Staging::new(device, room.words())?;
    let mut lists = AttentionLists::new(capacity);
    lists.stage(&mut staging, &plan, room);
    staging.copy()?;
    let scale = 0.25;
    let shape = AttentionShape {
        heads: HEADS,
        stride: STRIDE,
        scale,
        window: None,
    };
    let mut parts = device.alloc(capacity.partial_bytes(HEADS, DIM))?;
    let mut out = device.alloc(4 * ROWS * HEADS * DIM)?;
    cuda::attention(
        &mut parts,
        &rows,
        &shape,
        &kv,
        &layout,
        0,
        &staging,
        &lists,
        plan.items(),
    )?;
    let width = (HEADS, DIM);
    cuda::attention_merge(&mut out, Number::F32, &parts, &staging, &lists, ROWS, width)?;
    let got = download(&out, Number::F32, ROWS * HEADS * DIM)?;
    for row in 0..ROWS {
        for head in 0..HEADS {
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            for at in rotated.chunks(STRIDE).take(row + 1) {
                let kv_head = head / (HEADS / KV_HEADS);
                keys.extend_from_slice(&at[(HEADS + kv_head) * DIM..][..DIM]);
                values.extend_from_slice(&at[(heads + kv_head) * DIM..][..DIM]);
            }
            let (keys, values) = (rounded(number, keys), rounded(number, values));
            let q = &rotated[row * STRIDE + head * DIM..][..DIM];
            let expected = attention_reference(q, &keys, &values, scale);
            let got = &got[(row * HEADS + head) * DIM..][..DIM];
            check("attention", got, &expected, tolerance(number))?;
        }
    }
    Ok(())
}

/// A layer of a reward model's head on two of three rows.
fn prm_head(device: &cuda::Device) -> Result<(), Error> {
    let (inputs, outputs) = (101, 9);
    let (hidden, weight) = (noise(3 * inputs, 8), noise(inputs * outputs, 9));
    let expected: Vec<f64> = [2, 0]
        .into_iter()
        .flat_map(|row| linear_reference(&hidden[row * inputs..][..inputs], &weight, None))
        .collect();
    let mut out = device.alloc(8 * expected.len())?;
    let layer = PrmLayer {
        weight: &upload(device, Number::F32, &weight)?,
        bias: None,
        inputs,
        outputs,
    };
    let hidden = upload(device, Number::F32, &hidden)?;
    cuda::prm_head(&mut out, &hidden, &device.upload(&[2u32, 0])?, layer, 2)?;
    let mut got = vec![0.0; expected.len()];
    out.read(0, &mut got)?;
    for (got, expected) in got.iter().zip(&expected) {
        let near = (got - expected).abs() <= 1e-9;
        if !near {
            return Err(wrong("prm_head", got, expected));
        }
    }
    Ok(())
}

/// Tokens by four settings, the same as the CPU samples, with their log-probabilities.
fn sampling(device: &cuda::Device) -> Result<(), Error> {
    const VOCAB: usize = 1300;
    let logits: Vec<f32> = noise(VOCAB, 10).iter().map(|x| 8.0 * x).collect();
    let on_device = device.upload(&logits)?;
    let settings = [(0.0, 0, 1.0), (1.0, 0, 1.0), (0.7, 5, 1.0), (1.0, 0, 0.9)];
    let params = settings.map(|(temperature, top_k, top_p)| SamplingParams {
        temperature,
        top_k,
        top_p,
        ..SamplingParams::default()
    });
    let key = Key {
        seed: 1,
        problem: 2,
        chain: 3,
    };
    let request = |(position, params): (usize, &SamplingParams)| {
        let (key, counter) = key.at(position as u32).key_and_counter();
        SampleRequest {
            row: 0,
            said_first: 0,
            said_count: 0,
            top_k: params.top_k as u32,
            penalty: params.repetition_penalty,
            temperature: params.temperature,
            top_p: params.top_p,
            min_p: params.min_p,
            key,
            counter,
        }
    };
    let requests: Vec<SampleRequest> = params.iter().enumerate().map(request).collect();
    let mut samples = Samples::new(device, requests.len(), 0)?;
    samples.request(&requests, &[])?;
    samples.draw(&on_device, VOCAB, VOCAB)?;
    let mut sampler = Sampler::new();
    for (position, (token, logprob)) in samples.read()?.enumerate() {
        let mut draw = key.at(position as u32);
        let expected = sampler.sample(&logits, &params[position], &mut draw);
        if token != expected.token {
            let (token, expected) = (
                format!("token {token}"),
                format!("token {}", expected.token),
            );
            return Err(wrong("sample", token, expected));
        }
        let expected = f64::from(expected.logprob);
        check("sample", &[logprob], &[expected], tolerance(Number::F32))?;
    }
    Ok(())
}
