//! Runs the example that times all operations on a card, at small sizes on the emulated device.

use std::process::Command;

#[test]
fn every_operation_is_timed() {
    let Some(library) = beamgen_emulated_cuda::library() else {
        return;
    };
    if beamgen_emulated_cuda::uses_real_device() {
        // There the example itself is run.
        return;
    }
    let test = std::env::current_exe().expect("this program");
    let example = test
        .ancestors()
        .nth(2)
        .expect("a folder")
        .join("examples/cuda");
    let run = |args: &[&str]| {
        let output = Command::new(&example)
            .args(args)
            .env("LD_LIBRARY_PATH", library.parent().expect("a folder"))
            .output()
            .expect("`cargo test` has built the example");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let lines = run(&["--dry", "--json"]);
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines[0].starts_with(r#"{"device": "Emulated CUDA device", "pci": "0000:65:00.0""#));
    let having = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    let kernels = beamgen_kernels::cuda::Device::kernel_names().count();
    assert_eq!(having("\"registers\": "), kernels);
    for (kernel, count) in [
        ("linear", 14),
        ("linear_silu", 4),
        ("attention", 3),
        ("attention_merge", 3),
        ("rmsnorm", 2),
        ("rmsnorm_heads", 2),
        ("silu_mul", 2),
        ("embed", 2),
        ("gather_rows", 2),
        ("rope_angles", 2),
        ("rope_kv", 2),
        ("sample", 3),
        ("log_prob", 1),
        ("prm_head", 1),
        ("prm_layer", 1),
    ] {
        let timed = format!(r#"{{"kernel": "{kernel}", "shape": "#);
        assert_eq!(having(&timed), count, "{kernel}");
    }
    assert!(
        lines
            .iter()
            .all(|line| line.starts_with('{') && line.ends_with('}'))
    );
    let table = run(&["--dry"]);
    let rows = table
        .lines()
        .filter(|line| line.starts_with("linear "))
        .count();
    assert_eq!(rows, 14, "{table}");
}
