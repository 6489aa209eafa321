//! Devices that cannot be used, each in a process of its own.

use std::process::Command;

use beamgen_kernels::cuda::{CudaError, Device, Number, rmsnorm};

use beamgen_test_support::{Missing, skip};

use crate::helpers::device;

fn first_launch() -> Result<(), CudaError> {
    assert!(beamgen_emulated_cuda::load());
    let device = Device::open(0)?;
    let (mut out, x) = (device.alloc(4)?, device.upload(&[1.0f32])?);
    rmsnorm(&mut out, Number::F32, &x, &x, 1, 1, 1e-6)
}

/// For `what_is_missing_is_said`.
#[test]
#[ignore = "of a device that the environment describes"]
fn says_what_is_missing() {
    match first_launch() {
        Ok(()) => println!("\nit runs"),
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
        ("EMULATED_CUDA_DEVICES", "1", "it runs"),
        (
            "EMULATED_CUDA_DEVICES",
            "0",
            "there is no CUDA device 0: the driver shows 0",
        ),
        (
            "EMULATED_CUDA_CAPABILITY",
            "7.5",
            "Emulated CUDA device has compute capability 7.5; 8.0 (Ampere) or later is needed",
        ),
        (
            "EMULATED_CUDA_DRIVER",
            "11.0",
            "the driver is for CUDA 11.0; 11.4 or later is needed (driver 470)",
        ),
        ("EMULATED_CUDA_DRIVER", "11.4", "it runs"),
        (
            "EMULATED_CUDA_MEMORY",
            "100",
            "the CUDA device has 100 bytes free, 4 were asked for",
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
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "refusals::says_what_is_missing",
                "--ignored",
                "--nocapture",
            ])
            .env(variable, value)
            .output()
            .expect("this program runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.lines().any(|line| line == says),
            "{variable}={value}: {text}"
        );
    }
}
