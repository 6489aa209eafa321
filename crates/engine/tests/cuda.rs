//! Compares an engine on a CUDA device with an engine on the processor. The device is emulated,
//! unless `BEAMGEN_TEST_CUDA=real` selects the machine's own.
#![cfg(feature = "cuda")]

mod common;

use std::hash::Hasher;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use beamgen_engine::rng::Key;
use beamgen_engine::{
    Append, Compute, ComputeType, DeviceChoice, Engine, EngineConfig, Error, KvType, Model,
    ModelConfig, Output, Precision, RowEdits, SampleRow, Sampler, SamplingParams, SeqId,
    ThreadPool, Want, WeightType, Weights, log_prob,
};
use beamgen_test_support::{Missing, skip};
use common::{PAIRS, append, assert_same_bits, even_config, random_weights, tiny_config};

const BYTES: usize = 4 << 20;

fn device() -> Option<Compute> {
    if !beamgen_emulated_cuda::load() {
        return None;
    }
    Some(DeviceChoice::Cuda(0).open().unwrap())
}

fn model(compute: &Compute, config: &ModelConfig, weight_type: WeightType) -> Arc<Model> {
    let weights = Weights::from_tensors(random_weights(config)).unwrap();
    let pool = ThreadPool::new(1);
    Arc::new(Model::on(compute, config.clone(), &weights, weight_type, &pool).unwrap())
}

fn engine(model: &Arc<Model>, change: impl FnOnce(&mut EngineConfig)) -> Engine {
    let mut config = EngineConfig {
        kv_bytes: BYTES,
        max_rows: 48,
        threads: 1,
        ..EngineConfig::default()
    };
    change(&mut config);
    Engine::new(Arc::clone(model), config).unwrap()
}

fn tokens(n: usize, seed: usize, config: &ModelConfig) -> Vec<u32> {
    let token = |i: usize| ((i * i + 7 * i + 31 * seed) % config.vocab_size) as u32;
    (0..n).map(token).collect()
}

#[track_caller]
fn assert_near(a: &[f32], b: &[f32], tolerance: f32) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        let near = (a - b).abs() <= tolerance * (1.0 + b.abs());
        assert!(near, "at {i}: {a} instead of {b}");
    }
}

/// Returns the rows of a small tree with a prompt longer than a pass, branches of branches, a
/// truncation, and wanted rows in several places.
fn tree(engine: &mut Engine, config: &ModelConfig) -> Vec<Vec<f32>> {
    let mut seen = Vec::new();
    let root = engine.create();
    let prompt = tokens(71, 1, config);
    let rows = engine
        .forward(
            &[Append {
                seq: root,
                tokens: &prompt,
                want: Want::At(&[0, 3, 50, 70]),
            }],
            Output::Logits,
        )
        .unwrap();
    seen.extend(rows.iter().map(<[f32]>::to_vec));
    let mut branches: Vec<SeqId> = (0..5).map(|_| engine.fork(root)).collect();
    for step in 0..20 {
        if step == 9 {
            let grown = branches
                .iter()
                .map(|seq| engine.fork(*seq))
                .collect::<Vec<_>>();
            branches.extend(grown);
            engine.truncate(branches[1], 65);
        }
        let next: Vec<Vec<u32>> = (0..branches.len())
            .map(|i| tokens(1, step + 3 * i, config))
            .collect();
        let items: Vec<Append<'_>> = branches
            .iter()
            .zip(&next)
            .map(|(seq, next)| Append {
                seq: *seq,
                tokens: next,
                want: Want::Last,
            })
            .collect();
        let output = if step % 4 == 3 {
            Output::Hidden
        } else {
            Output::Logits
        };
        let rows = engine.forward(&items, output).unwrap();
        seen.extend(rows.iter().map(<[f32]>::to_vec));
        engine.recycle(rows);
    }
    for seq in branches.into_iter().chain([root]) {
        engine.free(seq);
    }
    assert_eq!(engine.kv().pages_used, 0);
    seen
}

#[test]
fn a_tree_is_the_processors() {
    let Some(compute) = device() else { return };
    for config in [tiny_config(), even_config()] {
        for (weights, kv, tolerance) in [
            (WeightType::F32, KvType::F32, 2e-5),
            (WeightType::Bf16, KvType::F32, 3e-2),
            (WeightType::Bf16, KvType::Auto, 3e-2),
            (WeightType::F16, KvType::F16, 5e-3),
        ] {
            let cpu = model(&Compute::Cpu, &config, weights);
            let want = tree(&mut engine(&cpu, |_| {}), &config);
            let cuda = model(&compute, &config, weights);
            let got = tree(&mut engine(&cuda, |c| c.kv_dtype = kv), &config);
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(&want) {
                assert_near(got, want, tolerance);
            }
        }
    }
}

/// Compares recorded passes with unrecorded ones, and batches with single sequences.
#[test]
fn a_row_does_not_depend_on_the_others() {
    let Some(compute) = device() else { return };
    let config = even_config();
    for weights in [WeightType::F32, WeightType::Bf16] {
        let model = model(&compute, &config, weights);
        // The engine has room for 11 rows, so a pass of 11 rows is not padded.
        let mut engine = engine(&model, |c| c.max_rows = 11);
        let text = tokens(40, 2, &config);
        let whole = engine.create();
        let whole = append(&mut engine, whole, &text, Want::All);
        // The text is read token by token: alone, and in a batch with up to ten other sequences.
        for count in [0, 1, 10] {
            let seq = engine.create();
            let others: Vec<SeqId> = (0..count)
                .map(|i| {
                    let other = engine.create();
                    append(
                        &mut engine,
                        other,
                        &tokens(1 + 5 * i, i, &config),
                        Want::None,
                    );
                    other
                })
                .collect();
            for (i, token) in text.iter().enumerate() {
                let mut items: Vec<Append<'_>> = others
                    .iter()
                    .map(|seq| Append {
                        seq: *seq,
                        tokens: std::slice::from_ref(token),
                        want: Want::Last,
                    })
                    .collect();
                let at = i % (count + 1);
                let own = Append {
                    seq,
                    tokens: std::slice::from_ref(token),
                    want: Want::Last,
                };
                items.insert(at, own);
                let rows = engine.forward(&items, Output::Logits).unwrap();
                assert_same_bits(rows.row(at), whole.row(i));
            }
        }
    }
}

/// Two texts with the same first pages, in one call or in two, with rows on the host or on the device.
#[test]
fn shared_prefixes_are_read_once_and_change_no_bit() {
    let Some(compute) = device() else { return };
    let config = even_config();
    let model = model(&compute, &config, WeightType::Bf16);
    let text = |seed| [tokens(40, 1, &config), tokens(9, seed, &config)].concat();
    let texts = [text(2), text(3)];
    let read = |prefix_cache, calls: usize, on_device| {
        let mut engine = engine(&model, |c| c.prefix_cache = prefix_cache);
        let (mut rows, mut sampled, mut sampler) = (Vec::new(), Vec::new(), Sampler::new());
        for texts in texts.chunks(2 / calls) {
            let items = texts.iter().map(|tokens| Append {
                seq: engine.create(),
                tokens,
                want: Want::Last,
            });
            let items: Vec<Append<'_>> = items.collect();
            if on_device {
                let logits = engine.logits(&items).unwrap();
                let key = Key {
                    seed: 1,
                    problem: 2,
                    chain: 3,
                };
                let choice = |row| SampleRow {
                    row,
                    history: &[],
                    params: SamplingParams::default(),
                    edits: RowEdits::default(),
                    draw: key.at(row as u32),
                };
                let mut one = Vec::new();
                let (count, all) = (items.len(), config.vocab_size);
                engine
                    .sample(&logits, all, &mut sampler, count, choice, &mut one)
                    .unwrap();
                sampled.extend(one.iter().map(|one| (one.token, one.logprob.to_bits())));
            } else {
                let read = engine.forward(&items, Output::Logits).unwrap();
                rows.extend(read.iter().map(<[f32]>::to_vec));
            }
        }
        let computed = engine.computed();
        let found = if prefix_cache { 32 } else { 0 };
        assert_eq!(computed.reused_tokens, found);
        assert_eq!(computed.tokens, 2 * 49 - found);
        (rows, sampled)
    };
    for (calls, on_device) in [(1, false), (2, false), (1, true), (2, true)] {
        assert_eq!(read(true, calls, on_device), read(false, calls, on_device));
    }
}

/// Appends tokens until the device fails, for `a_failed_pass_changes_no_sequence`.
#[test]
#[ignore = "needs an environment, so a_failed_pass_changes_no_sequence starts it in a process with one"]
fn fails_in_a_pass() {
    let compute = device().unwrap();
    let config = tiny_config();
    let model = model(&compute, &config, WeightType::F32);
    let mut engine = engine(&model, |c| c.cuda_graphs = false);
    let text = tokens(40, 1, &config);
    let kept = engine.create();
    append(&mut engine, kept, &text, Want::None);
    let before = engine.kv().pages_used;
    for _ in 0..2000 {
        // The first two pages are found, and the third is new.
        let seq = engine.create();
        let item = Append {
            seq,
            tokens: &text,
            want: Want::Last,
        };
        let failed = engine.forward(&[item], Output::Logits).is_err();
        if failed {
            assert_eq!(engine.len(seq), 0);
            assert_eq!(engine.pages_needed(seq, 40), 3);
            assert_eq!(engine.kv().pages_used, before);
            println!("\nfailed and changed nothing");
            return;
        }
        engine.free(seq);
    }
}

/// A device fails in the middle of a call. The pages that were found, and the new ones, go back.
#[test]
fn a_failed_pass_changes_no_sequence() {
    if device().is_none() {
        return;
    }
    if beamgen_emulated_cuda::uses_real_device() {
        skip(Missing::Gpu, "passes of a real device do not fail");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fails_in_a_pass", "--ignored", "--nocapture"])
        .env("EMULATED_CUDA_ERROR", "cuLaunchKernel:2:2000")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("\nfailed and changed nothing"), "{text}");
}

/// Prints a hash of a tree's bits, and the note about lost features, for
/// `graphs_that_fail_change_no_bit`.
#[test]
#[ignore = "needs an environment, so graphs_that_fail_change_no_bit starts it in a process with one"]
fn says_bits_of_a_tree() {
    let compute = device().unwrap();
    let config = tiny_config();
    let model = model(&compute, &config, WeightType::F32);
    let graphs = std::env::var_os("WITHOUT_GRAPHS").is_none();
    let rows = tree(&mut engine(&model, |c| c.cuda_graphs = graphs), &config);
    let mut hash = std::hash::DefaultHasher::new();
    for value in rows.iter().flatten() {
        hash.write_u32(value.to_bits());
    }
    println!("\nbits {:x}", hash.finish());
    println!("note {}", compute.note().unwrap_or_default());
}

/// Makes graphs fail at each step. The passes must run without graphs, with the same bits and a
/// note.
#[test]
fn graphs_that_fail_change_no_bit() {
    if device().is_none() {
        return;
    }
    if beamgen_emulated_cuda::uses_real_device() {
        skip(Missing::Gpu, "graphs of a real device do not fail");
        return;
    }
    let run = |variables: &[(&str, &str)]| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "says_bits_of_a_tree", "--ignored", "--nocapture"])
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{variables:?}: {text}");
        let line = |begin| {
            let found = text.lines().find_map(|line| line.strip_prefix(begin));
            found.unwrap_or_else(|| panic!("{text}")).to_owned()
        };
        (line("bits "), line("note "))
    };
    let (bits, note) = run(&[]);
    assert_eq!(note, "");
    for (fault, says) in [
        ("cuStreamBeginCapture_v2:800", "recording a graph"),
        ("cuStreamEndCapture:901", "previous error during capture"),
        ("cuGraphInstantiateWithFlags:2", "out of memory"),
        ("cuGraphLaunch:2", "launching a graph: out of memory"),
        ("cuGraphLaunch:2:12", "launching a graph: out of memory"),
    ] {
        let fault = ("EMULATED_CUDA_ERROR", fault);
        let (without, note) = run(&[fault]);
        assert_eq!(without, bits, "{fault:?}");
        assert!(note.contains(says), "{fault:?}: {note}");
        // A fault of graphs cannot occur if graphs are switched off.
        let off = run(&[fault, ("WITHOUT_GRAPHS", "1")]);
        assert_eq!(off, (bits.clone(), String::new()), "{fault:?}");
    }
}

/// Compares the bundled generator on both devices.
#[test]
fn the_bundled_generator_is_the_processors() {
    let Some(compute) = device() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/abacus/generator");
    let config = ModelConfig::load(folder.as_path()).unwrap();
    let weights = Weights::load(folder.as_path()).unwrap();
    let pool = ThreadPool::new(1);
    let logits = |compute: &Compute, kv_dtype| {
        let config = config.clone();
        let model = Model::on(compute, config, &weights, WeightType::F32, &pool).unwrap();
        let mut engine = engine(&Arc::new(model), |c| c.kv_dtype = kv_dtype);
        let text = tokens(60, 7, engine.model().config());
        let seq = engine.create();
        append(&mut engine, seq, &text, Want::All)
    };
    let cpu = logits(&Compute::Cpu, KvType::F32);
    let cuda = logits(&compute, KvType::F32);
    let pairs = cpu.iter().zip(cuda.iter());
    let gaps = pairs.map(|(a, b)| {
        a.iter()
            .zip(b)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max)
    });
    let worst = gaps.fold(0.0, f32::max);
    eprintln!("bundled generator, float32: largest difference of a logit {worst:.1e}");
    assert!(worst < 1e-3, "{worst}");
}

/// Makes the lists of recorded passes grow: new segments of positions begin, and more sequences
/// join.
#[test]
fn lists_grow_between_recorded_passes() {
    let Some(compute) = device() else { return };
    let config = tiny_config();
    let model = model(&compute, &config, WeightType::F32);
    let text = tokens(266, 3, &config);
    let whole = {
        let mut engine = engine(&model, |_| {});
        let seq = engine.create();
        append(&mut engine, seq, &text, Want::All)
    };
    let mut engine = engine(&model, |_| {});
    let root = engine.create();
    append(&mut engine, root, &text[..248], Want::None);
    let branches: Vec<SeqId> = (0..5).map(|_| engine.fork(root)).collect();
    for (i, token) in text.iter().enumerate().skip(248) {
        let item = |seq: &SeqId| Append {
            seq: *seq,
            tokens: std::slice::from_ref(token),
            want: Want::Last,
        };
        let items: Vec<Append<'_>> = branches.iter().map(item).collect();
        let rows = engine.forward(&items, Output::Logits).unwrap();
        for row in rows.iter() {
            assert_same_bits(row, whole.row(i));
        }
        // Many sequences at once make the lists of recorded passes outgrow their room.
        if i == 252 {
            let more: Vec<SeqId> = (0..20).map(|i| engine.fork(branches[i % 5])).collect();
            let items: Vec<Append<'_>> = more.iter().map(item).collect();
            engine.forward(&items, Output::Hidden).unwrap();
            for seq in more.into_iter() {
                engine.free(seq);
            }
        }
        // Other sizes in between, also of passes that are not recorded.
        append(&mut engine, root, &text[..1 + i % 3], Want::Last);
        engine.truncate(root, 248);
    }
}

/// Rows with edits are sampled on the host. In a batch with other rows, each token must be the one
/// that the request gets alone, and the processor's.
#[test]
fn changed_rows_are_drawn_as_on_the_processor_and_alone() {
    let Some(compute) = device() else { return };
    let config = tiny_config();
    let few = config.vocab_size - 3;
    let bias = [(3, 4.0), (few as u32 - 1, -100.0)];
    let allowed = [0xA5A5_0F0F, 0x1234_5678, 0x0000_0101];
    let mut draws = Vec::new();
    for compute in [Compute::Cpu, compute] {
        let model = model(&compute, &config, WeightType::F32);
        let mut engine = engine(&model, |_| {});
        let seq = engine.create();
        let text = tokens(9, 4, &config);
        let item = Append {
            seq,
            tokens: &text,
            want: Want::All,
        };
        let logits = engine.logits(&[item]).unwrap();
        let choice = |i: usize| SampleRow {
            row: i % 9,
            history: &[],
            params: SamplingParams::default(),
            edits: RowEdits {
                bias: if i % 3 == 1 { &bias } else { &[] },
                allowed: (i % 4 == 2).then_some(&allowed),
            },
            draw: Key {
                seed: 1,
                problem: 2,
                chain: i as u64,
            }
            .at(i as u32),
        };
        let (mut sampler, mut together, mut alone) = (Sampler::new(), Vec::new(), Vec::new());
        engine
            .sample(&logits, few, &mut sampler, 40, choice, &mut together)
            .unwrap();
        for (i, sampled) in together.iter().enumerate() {
            let own = |_| choice(i);
            engine
                .sample(&logits, few, &mut sampler, 1, own, &mut alone)
                .unwrap();
            assert_eq!(alone, [*sampled]);
            let token = sampled.token as usize;
            assert!(i % 4 != 2 || allowed[token / 32] >> (token % 32) & 1 == 1);
        }
        draws.push(together);
    }
    for (cpu, cuda) in draws[0].iter().zip(&draws[1]) {
        assert_eq!(cpu.token, cuda.token);
        assert!((cpu.logprob - cuda.logprob).abs() < 1e-5);
    }
}

#[test]
fn tokens_are_drawn_as_on_the_processor() {
    let Some(compute) = device() else { return };
    let config = tiny_config();
    let cpu = model(&Compute::Cpu, &config, WeightType::F32);
    let cuda = model(&compute, &config, WeightType::F32);
    let mut engines = [engine(&cpu, |_| {}), engine(&cuda, |_| {})];
    let said = [3, 5];
    let (mut draws, mut logs) = (Vec::new(), Vec::new());
    for engine in &mut engines {
        let seq = engine.create();
        let text = tokens(9, 4, &config);
        let logits = engine
            .logits(&[Append {
                seq,
                tokens: &text,
                want: Want::All,
            }])
            .unwrap();
        assert_eq!(logits.len(), 9);
        let mut row = Vec::new();
        engine.copy_logits(&logits, 4, &mut row).unwrap();
        assert_eq!(row.len(), config.vocab_size);
        let mut of_these = Vec::new();
        let next: Vec<u32> = (0..9).map(|i| (7 * i) as u32 % 67).collect();
        engine.log_probs(&logits, &next, &mut of_these).unwrap();
        let own = log_prob(&row, next[4]);
        assert!((of_these[4] - own).abs() < 1e-5, "{of_these:?}, {own}");
        logs.push(of_these);
        let (mut sampler, mut drawn, mut all) = (Sampler::new(), Vec::new(), Vec::new());
        for penalty in [1.0, 1.3] {
            for (temperature, top_k, top_p) in
                [(0.0, 0, 1.0), (1.0, 0, 1.0), (0.7, 5, 1.0), (1.2, 0, 0.8)]
            {
                let params = SamplingParams {
                    temperature,
                    top_k,
                    top_p,
                    repetition_penalty: penalty,
                    ..SamplingParams::default()
                };
                let choice = |i: usize| SampleRow {
                    row: i % 9,
                    history: &said,
                    params,
                    edits: RowEdits::default(),
                    draw: Key {
                        seed: 1,
                        problem: 2,
                        chain: i as u64,
                    }
                    .at(i as u32),
                };
                let few = config.vocab_size - 3;
                engine
                    .sample(&logits, few, &mut sampler, 40, choice, &mut drawn)
                    .unwrap();
                all.extend(drawn.iter().copied());
            }
        }
        draws.push(all);
    }
    assert_near(&logs[1], &logs[0], 2e-5);
    let [cpu, cuda] = [&draws[0], &draws[1]];
    let same = cpu
        .iter()
        .zip(cuda)
        .filter(|(a, b)| a.token == b.token)
        .count();
    // A random number may fall between two roundings of a sum, so one token may differ.
    assert!(same + 1 >= cpu.len(), "{same} of {}", cpu.len());
    for (a, b) in cpu.iter().zip(cuda) {
        assert!(
            a.token != b.token || (a.logprob - b.logprob).abs() < 1e-4,
            "{a:?} {b:?}"
        );
    }
}

#[test]
fn what_a_device_cannot_do_is_said() {
    let Some(compute) = device() else { return };
    let config = even_config();
    let weights = Weights::from_tensors(random_weights(&config)).unwrap();
    let pool = ThreadPool::new(1);
    let load =
        |precision: Precision| Model::on(&compute, config.clone(), &weights, precision, &pool);
    let error = load(WeightType::Int8.into()).unwrap_err().to_string();
    assert!(error.contains("int8") && error.contains("bf16"), "{error}");
    let wide = Precision {
        weights: WeightType::Bf16,
        compute: ComputeType::F32,
    };
    let error = load(wide).unwrap_err().to_string();
    assert!(error.contains("compute auto"), "{error}");
    let error = load(PAIRS).unwrap_err().to_string();
    assert!(error.contains("compute bf16 on a CUDA"), "{error}");
    // A device computes in the type of the weights, so both name the same arithmetic.
    let arithmetic = Precision {
        compute: ComputeType::Bf16,
        ..PAIRS
    };
    let bf16 = load(arithmetic).unwrap().bytes();
    assert_eq!(bf16, load(WeightType::Bf16.into()).unwrap().bytes());
    let model = Arc::new(load(WeightType::Auto.into()).unwrap());
    let refuse = |settings: EngineConfig| {
        let error = Engine::new(Arc::clone(&model), settings).unwrap_err();
        assert!(!error.to_string().contains('\n'));
        error
    };
    let settings = EngineConfig {
        kv_bytes: BYTES,
        ..EngineConfig::default()
    };
    let error = refuse(EngineConfig {
        page_size: 8,
        ..settings.clone()
    });
    assert!(
        matches!(
            error,
            Error::Setting {
                field: "page_size",
                ..
            }
        ),
        "{error}"
    );
    let error = refuse(EngineConfig {
        kv_bytes: 1,
        ..settings.clone()
    });
    assert!(
        matches!(
            error,
            Error::Setting {
                field: "kv_bytes",
                ..
            }
        ),
        "{error}"
    );
    let error = refuse(EngineConfig {
        kv_bytes: 1 << 50,
        ..settings
    });
    assert!(matches!(error, Error::Device(_)), "{error}");
    assert!(error.to_string().contains("free"), "{error}");
}

#[test]
fn a_full_cache_refuses_and_goes_on() {
    let Some(compute) = device() else { return };
    let config = tiny_config();
    let model = model(&compute, &config, WeightType::F32);
    let page = engine(&model, |_| {}).kv().page_bytes;
    let mut engine = engine(&model, |c| c.kv_bytes = 3 * page);
    let seq = engine.create();
    let text = tokens(40, 5, &config);
    let whole = append(&mut engine, seq, &text, Want::Last);
    let fork = engine.fork(seq);
    let item = Append {
        seq: fork,
        tokens: &[1],
        want: Want::Last,
    };
    let error = engine.forward(&[item], Output::Logits).unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { needed: 1, free: 0 }),
        "{error}"
    );
    engine.free(fork);
    engine.truncate(seq, 39);
    let again = append(&mut engine, seq, &text[39..], Want::Last);
    assert_same_bits(again.row(0), whole.row(0));
}

#[test]
fn logits_that_are_not_numbers_are_an_error_wherever_they_are() {
    let config = even_config();
    let computes = [Some(Compute::Cpu), device()];
    for compute in computes.into_iter().flatten() {
        let mut weights = random_weights(&config);
        for (_, tensor) in &mut weights {
            tensor.data.fill(f32::NAN);
        }
        let weights = Weights::from_tensors(weights).unwrap();
        let pool = ThreadPool::new(1);
        let model = Model::on(&compute, config.clone(), &weights, WeightType::Auto, &pool);
        let model = Arc::new(model.unwrap());
        if !compute.is_cpu() {
            // A new engine tests its device with a short text, which finds the NaN.
            let config = EngineConfig {
                kv_bytes: BYTES,
                max_rows: 48,
                threads: 1,
                ..EngineConfig::default()
            };
            let error = Engine::new(model, config).map(|_| ());
            let error = error.unwrap_err().to_string();
            assert!(error.contains("NaN"), "{error}");
            continue;
        }
        let mut engine = engine(&model, |_| {});
        let seq = engine.create();
        let item = Append {
            seq,
            tokens: &[1, 2, 3],
            want: Want::Last,
        };
        let logits = engine.logits(&[item]).unwrap();
        for temperature in [0.0, 1.0] {
            let row = |_| SampleRow {
                row: 0,
                history: &[],
                params: SamplingParams {
                    temperature,
                    ..SamplingParams::default()
                },
                edits: RowEdits::default(),
                draw: Key {
                    seed: 1,
                    problem: 2,
                    chain: 3,
                }
                .at(0),
            };
            let (mut sampler, mut sampled) = (Sampler::new(), Vec::new());
            let error = engine.sample(&logits, 11, &mut sampler, 2, row, &mut sampled);
            assert!(matches!(error, Err(Error::NotNumbers)), "{compute}");
        }
    }
}
