//! Devices that cannot be used, each in a process of its own.

use std::process::Command;

use beamgen_kernels::cuda::{CudaError, Device, Loaded, Number, rmsnorm};

use beamgen_test_support::{Missing, skip};

use crate::helpers::{device, download};

const AS_MACHINE_CODE: &str = "it runs: 2 modules of machine code, 0 of PTX";
const AS_PTX: &str = "it runs: 0 modules of machine code, 2 of PTX";

/// Returns how many modules the first launch loads as machine code and as PTX.
fn first_launch() -> Result<Loaded, CudaError> {
    assert!(beamgen_emulated_cuda::load());
    let device = Device::open(0)?;
    let (mut out, x) = (device.alloc(4)?, device.upload(&[-3.0f32])?);
    let one = device.upload(&[1.0f32])?;
    rmsnorm(&mut out, Number::F32, &x, &one, 1, 1, 0.0)?;
    assert_eq!(download(&out, Number::F32, 1), [-1.0]);
    Ok(device.loaded())
}

/// Prints the result of a first launch. The test `what_is_missing_is_said` runs this in processes
/// with other environments.
#[test]
#[ignore = "needs an environment, so assert_says starts it in a process with one"]
fn says_what_is_missing() {
    match first_launch() {
        Ok(Loaded { machine_code, ptx }) => {
            println!("\nit runs: {machine_code} modules of machine code, {ptx} of PTX");
        }
        Err(error) => println!("\n{error}"),
    }
}

#[test]
fn what_is_missing_is_said() {
    if device().is_none() {
        return;
    }
    if beamgen_emulated_cuda::uses_real_device() {
        skip(Missing::Gpu, "a real device does not change its looks");
        return;
    }
    for (variable, value, says) in [
        ("EMULATED_CUDA_DEVICES", "1", AS_MACHINE_CODE),
        (
            "EMULATED_CUDA_DEVICES",
            "0",
            "no CUDA device 0: the driver shows 0",
        ),
        (
            "EMULATED_CUDA_CAPABILITY",
            "7.5",
            "Emulated CUDA device is too old: compute capability 7.5, 8.0 (Ampere) or later is needed",
        ),
        (
            "EMULATED_CUDA_DRIVER",
            "11.0",
            "the driver for CUDA 11.0 is too old: install 11.4 or later (driver 470)",
        ),
        // Machine code requires a driver for CUDA 12 or later, and a known architecture.
        ("EMULATED_CUDA_DRIVER", "11.4", AS_PTX),
        ("EMULATED_CUDA_DRIVER", "12.0", AS_MACHINE_CODE),
        ("EMULATED_CUDA_CAPABILITY", "8.6", AS_MACHINE_CODE),
        ("EMULATED_CUDA_CAPABILITY", "9.0", AS_MACHINE_CODE),
        ("EMULATED_CUDA_CAPABILITY", "10.3", AS_MACHINE_CODE),
        ("EMULATED_CUDA_CAPABILITY", "11.0", AS_PTX),
        ("EMULATED_CUDA_CAPABILITY", "12.1", AS_MACHINE_CODE),
        // Either form of the code suffices.
        ("EMULATED_CUDA_REFUSE", "ptx", AS_MACHINE_CODE),
        ("EMULATED_CUDA_PTX_LOG", "bad", AS_MACHINE_CODE),
        ("EMULATED_CUDA_REFUSE", "cubin", AS_PTX),
        (
            "EMULATED_CUDA_MEMORY",
            "100",
            "not enough memory on the CUDA device: 4 bytes needed, 100 free",
        ),
        // The attribute is only a preference, so its error is ignored.
        (
            "EMULATED_CUDA_ERROR",
            "cuFuncSetAttribute:1",
            AS_MACHINE_CODE,
        ),
        // Codes that came with CUDA 12.8 and 13.4.
        (
            "EMULATED_CUDA_ERROR",
            "cuLaunchKernel:226",
            "CUDA: rmsnorm_f32: Invalid access of peer GPU memory over nvlink or a hardware error (CUDA_ERROR_CONTAINED)",
        ),
        (
            "EMULATED_CUDA_ERROR",
            "cuLaunchKernel:919",
            "CUDA: rmsnorm_f32: error 919, which the driver has no name for",
        ),
    ] {
        assert_says(&[(variable, value)], says);
    }
}

/// If neither machine code nor PTX can be loaded, the error has the messages of driver and
/// compiler, and a remedy.
#[test]
fn what_is_wrong_with_code_is_said() {
    if device().is_none() || beamgen_emulated_cuda::uses_real_device() {
        return;
    }
    let of_hopper =
        "CUDA: loading kernels: gather (compute capability 9.0, driver for CUDA 11.8): ";
    let new = [
        ("EMULATED_CUDA_CAPABILITY", "9.0"),
        ("EMULATED_CUDA_DRIVER", "11.8"),
    ];
    for (variable, value, says) in [
        (
            "EMULATED_CUDA_REFUSE",
            "ptx",
            "PTX JIT compiler library not found (CUDA_ERROR_JIT_COMPILER_NOT_FOUND): \
             install the driver's libnvidia-ptxjitcompiler.so.1",
        ),
        (
            "EMULATED_CUDA_PTX_LOG",
            "ptxas application ptx input, line 9; error: a\n  \n  ptxas fatal: b\n",
            "a PTX JIT compilation failed (CUDA_ERROR_INVALID_PTX); \
             ptxas application ptx input, line 9; error: a; ptxas fatal: b",
        ),
    ] {
        let says = format!("{of_hopper}{says}");
        assert_says(&[&new[..], &[(variable, value)]].concat(), &says);
    }
    let both = [
        ("EMULATED_CUDA_REFUSE", "cubin"),
        ("EMULATED_CUDA_PTX_LOG", "bad"),
    ];
    assert_says(
        &both,
        "CUDA: loading kernels: gather (compute capability 8.0, driver for CUDA 12.4): \
         a PTX JIT compilation failed (CUDA_ERROR_INVALID_PTX); bad; \
         its machine code: no kernel image is available for execution on the device (CUDA_ERROR_NO_BINARY_FOR_GPU)",
    );
}

/// Checks that a first launch in this environment prints the line `says`.
#[track_caller]
fn assert_says(environment: &[(&str, &str)], says: &str) {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "refusals::says_what_is_missing",
            "--ignored",
            "--nocapture",
        ])
        .envs(environment.iter().copied())
        .output()
        .expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.lines().any(|line| line == says),
        "{environment:?}: {text}"
    );
}

/// Forks. The test `a_forked_process_is_told` starts this one in a process without other threads.
#[test]
#[ignore = "forks, so a_forked_process_is_told starts it in a process of its own"]
fn in_a_forked_process() {
    assert!(beamgen_emulated_cuda::load());
    let other = |process| move || Device::count() == Err(CudaError::Forked { process });
    // Another library of the process may also have started the driver.
    cudarc::driver::result::init().expect("an emulated driver");
    assert!(beamgen_emulated_cuda::in_a_fork(other(None)));
    Device::open(0).expect("a device");
    let parent = Some(std::process::id());
    assert!(beamgen_emulated_cuda::in_a_fork(other(parent)));
    assert_eq!(Device::count(), Ok(1));
}

#[test]
fn a_forked_process_is_told() {
    if beamgen_emulated_cuda::library().is_none() {
        return;
    }
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "refusals::in_a_forked_process", "--ignored"])
        .env_remove("BEAMGEN_TEST_CUDA")
        .output()
        .expect("this program runs");
    assert!(output.status.success(), "{output:?}");
}
