//! Memory, copies and launches.

use beamgen_kernels::cuda::{CudaError, Device, Graph, Number, Staging, rmsnorm};

use crate::helpers::{assert_same_bits, device, download, noise, own_device, upload};

#[test]
fn what_is_written_is_read() {
    let Some(device) = device() else { return };
    let mut buffer = device.alloc(40).expect("memory");
    buffer
        .write(0, &[1.0f32, 2.0, 3.0, 4.0, 5.0])
        .expect("a copy");
    buffer.write(4, &[7u32]).expect("a copy");
    buffer.copy_within(4, 20, 12).expect("a copy");
    let mut values = [0u32; 3];
    buffer.read(20, &mut values).expect("a copy");
    assert_eq!(values, [7, 3.0f32.to_bits(), 4.0f32.to_bits()]);
    buffer.clear().expect("a fill");
    buffer.read(20, &mut values).expect("a copy");
    assert_eq!(values, [0; 3]);
}

#[test]
fn a_card_is_told_from_others() {
    let Some(device) = device() else { return };
    let info = device.info();
    let is = |text: &str, form: &str| {
        text.len() == form.len()
            && text.chars().zip(form.chars()).all(|(c, form)| match form {
                'x' => c.is_ascii_hexdigit() && !c.is_ascii_uppercase(),
                form => c == form,
            })
    };
    assert!(is(&info.bus_id, "xxxx:xx:xx.x"), "{info:?}");
    assert!(
        is(&info.uuid, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"),
        "{info:?}"
    );
    if !beamgen_emulated_cuda::uses_real_device() {
        assert_eq!(info.bus_id, "0000:65:00.0");
        assert_eq!(info.uuid, "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
    }
}

/// The large kernels ask for all shared memory, so that two blocks fit on a multiprocessor.
#[test]
fn large_kernels_ask_for_all_shared_memory() {
    let Some(device) = device() else { return };
    let asks =
        |kernel: &&'static str| device.kernel_info(kernel).expect("a kernel").carveout == 100;
    let asking: Vec<&str> = Device::kernel_names().filter(asks).collect();
    let large = [
        "attention_64_bf16",
        "attention_96_bf16",
        "attention_128_bf16",
        "attention_64_f16",
        "attention_96_f16",
        "attention_128_f16",
        "attention_any_f32",
        "attention_any_bf16",
        "attention_any_f16",
        "linear_many_bf16",
        "linear_silu_many_bf16",
        "linear_many_f16",
        "linear_silu_many_f16",
    ];
    assert_eq!(asking, large);
}

#[test]
fn memory_ends() {
    let Some(device) = device() else { return };
    let needed = device.info().memory + 1;
    match device.alloc(needed) {
        Err(CudaError::OutOfMemory { needed: said, free }) => {
            assert_eq!(said, needed);
            assert!(free < needed);
        }
        other => panic!("{other:?}"),
    }
    assert!(device.alloc(0).is_ok());
}

#[test]
fn launches_of_no_rows_do_nothing() {
    let Some(device) = device() else { return };
    let x = noise(8, 1);
    let (source, mut out) = (
        upload(device, Number::F32, &x),
        upload(device, Number::F32, &x),
    );
    rmsnorm(&mut out, Number::F32, &source, &source, 0, 8, 1e-6).expect("a launch");
    assert_same_bits(&download(&out, Number::F32, 8), &x);
}

#[test]
#[should_panic(expected = "9 numbers of 4 bytes in a buffer of 32")]
fn short_buffers_are_refused() {
    let Some(device) = device() else {
        panic!("9 numbers of 4 bytes in a buffer of 32: no device");
    };
    let x = upload(device, Number::F32, &noise(8, 1));
    let mut out = device.alloc(64).expect("memory");
    let _ = rmsnorm(&mut out, Number::F32, &x, &x, 3, 3, 1e-6);
}

#[test]
fn nothing_is_cleared_and_copied_in_no_bytes() {
    let Some(device) = device() else { return };
    let mut buffer = device.alloc(0).expect("memory");
    buffer.clear().expect("a fill of nothing");
    buffer.copy_within(0, 0, 0).expect("a copy of nothing");
    buffer.write::<u32>(0, &[]).expect("a copy of nothing");
    device.synchronize().expect("finished");
}

#[test]
fn values_may_change_as_soon_as_they_are_written() {
    let Some(device) = device() else { return };
    // The copies are several times as large as the page-locked memory, in single writes and in many
    // small ones without waiting.
    let count = 300_000;
    let mut values: Vec<u32> = (0..count).collect();
    let mut buffers: Vec<_> = (0..6)
        .map(|_| device.alloc(4 * values.len()).expect("memory"))
        .collect();
    for buffer in &mut buffers {
        buffer.write(0, &values).expect("a copy");
        for value in values.iter_mut() {
            *value += 1;
        }
    }
    let mut small = device.alloc(4 * 50).expect("memory");
    for i in 0..50u32 {
        let word = vec![i];
        small.write(4 * i as usize, &word).expect("a copy");
    }
    for (i, buffer) in buffers.iter().enumerate() {
        buffer.read(0, &mut values).expect("a copy");
        let first = i as u32;
        assert!(values.iter().copied().eq(first..first + count), "write {i}");
    }
    let mut words = [0; 50];
    small.read(0, &mut words).expect("a copy");
    assert!(words.iter().copied().eq(0..50));
}

#[test]
fn memory_is_given_back_when_the_work_on_it_is_done() {
    let Some(device) = device() else { return };
    let x = noise(8, 2);
    let mut out = device.alloc(32).expect("memory");
    {
        let source = upload(device, Number::F32, &x);
        let ones = upload(device, Number::F32, &[1.0; 8]);
        rmsnorm(&mut out, Number::F32, &source, &ones, 1, 8, 1e-6).expect("a launch");
    }
    let y = download(&out, Number::F32, 8);
    assert!(y.iter().zip(&x).all(|(y, x)| y.signum() == x.signum()));
}

#[test]
fn lists_move_while_the_last_ones_are_read() {
    let Some(device) = device() else { return };
    let mut staging = Staging::new(device, 4).expect("memory");
    let mut out = device.alloc(16).expect("memory");
    let table = upload(device, Number::F32, &noise(20, 3));
    for (room, moves) in [(4, false), (40, true)] {
        staging.clear();
        staging.push([3u32, 1], room);
        assert_eq!(staging.copy().expect("a copy"), moves);
        let tokens = staging.memory();
        beamgen_kernels::cuda::embed(&mut out, Number::F32, &table, tokens, 2, 2)
            .expect("a launch");
    }
    let y = download(&out, Number::F32, 4);
    let table = noise(20, 3);
    assert_same_bits(&y, &[&table[6..8], &table[2..4]].concat());
}

#[test]
fn a_graph_ends_after_its_last_replay() {
    let Some(device) = &own_device() else {
        return;
    };
    let x = upload(device, Number::F32, &[3.0, -4.0]);
    let ones = upload(device, Number::F32, &[1.0; 2]);
    let mut out = device.alloc(8).expect("memory");
    let mut launch = || rmsnorm(&mut out, Number::F32, &x, &ones, 1, 2, 0.0);
    launch().expect("a launch");
    let mut graph = Graph::record(device, launch).expect("a graph");
    out.clear().expect("a fill");
    graph.launch().expect("a replay");
    drop(graph);
    let y = download(&out, Number::F32, 2);
    assert!(y[0] > 0.8 && y[1] < -1.1, "{y:?}");
}

#[test]
fn a_copy_from_the_host_cannot_be_recorded() {
    let Some(device) = &own_device() else {
        return;
    };
    let mut buffer = device.upload(&[1u32]).expect("memory");
    let error = Graph::record(device, || buffer.write(0, &[2u32])).expect_err("refused");
    assert!(matches!(error, CudaError::Recording { .. }), "{error}");
    // The stream still works after the refused recording.
    buffer.write(0, &[3u32]).expect("a copy");
    let mut value = [0];
    buffer.read(0, &mut value).expect("a copy");
    assert_eq!(value, [3]);
}

#[test]
fn other_threads_queue_nothing_while_a_graph_is_recorded() {
    let Some(device) = &own_device() else {
        return;
    };
    let x = upload(device, Number::F32, &[3.0, -4.0]);
    let ones = upload(device, Number::F32, &[1.0; 2]);
    let mut out = device.alloc(8).expect("memory");
    let mut other = upload(device, Number::F32, &[5.0, 6.0]);
    let twin = other.from(0);
    rmsnorm(&mut out, Number::F32, &x, &ones, 1, 2, 0.0).expect("a launch");
    let mut elsewhere = || {
        let mut values = [0.0f32; 2];
        let tried = [
            rmsnorm(&mut other, Number::F32, &x, &ones, 1, 2, 0.0),
            other.write(0, &[7.0f32]),
            other.copy_within(0, 4, 4),
            other.clear(),
            other.read(0, &mut values),
            device.synchronize(),
            Graph::record(device, || Ok::<_, CudaError>(())).map(|_| ()),
        ];
        for (i, result) in tried.into_iter().enumerate() {
            assert!(
                matches!(result, Err(CudaError::Recording { .. })),
                "{i}: {result:?}"
            );
        }
    };
    let mut graph = Graph::record(device, || {
        rmsnorm(&mut out, Number::F32, &x, &ones, 1, 2, 0.0)?;
        std::thread::scope(|scope| {
            let joined = scope.spawn(&mut elsewhere).join();
            joined.expect("the other thread is refused everything");
        });
        Ok::<_, CudaError>(())
    })
    .expect("a graph");
    // The refused work of the other threads is not in the graph. After the recording they may queue
    // work.
    graph.launch().expect("a replay");
    assert_same_bits(&download(&twin, Number::F32, 2), &[5.0, 6.0]);
    let y = download(&out, Number::F32, 2);
    assert!(y[0] > 0.8 && y[1] < -1.1, "{y:?}");
    let turned = std::thread::scope(|scope| {
        let launch = scope.spawn(|| rmsnorm(&mut other, Number::F32, &x, &ones, 1, 2, 0.0));
        launch.join().expect("no panic")
    });
    turned.expect("a launch");
    assert_same_bits(&download(&twin, Number::F32, 2), &y);
}

/// Memory may be freed at any time, because freeing waits for the end of a recording.
#[test]
fn memory_given_back_elsewhere_does_not_end_a_recording() {
    let Some(device) = &own_device() else {
        return;
    };
    let x = upload(device, Number::F32, &[3.0, -4.0]);
    let ones = upload(device, Number::F32, &[1.0; 2]);
    let (mut out, unused) = (device.alloc(8).expect("memory"), device.alloc(8));
    let mut launch = || rmsnorm(&mut out, Number::F32, &x, &ones, 1, 2, 0.0);
    launch().expect("a launch");
    std::thread::scope(|scope| {
        let (recording, begun) = std::sync::mpsc::channel();
        let dropping = scope.spawn(move || {
            begun.recv().expect("a recording");
            drop(unused);
        });
        let graph = Graph::record(device, || {
            recording.send(()).expect("somebody listens");
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!dropping.is_finished());
            launch()
        });
        graph.expect("a graph").launch().expect("a replay");
    });
}
