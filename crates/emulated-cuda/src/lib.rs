//! A CUDA driver for tests on machines without one: a `libcuda.so` with the part of the driver API
//! that this workspace calls, which runs the kernels of `kernels/*.cu` on the CPU. What calls CUDA
//! is tested as it is, from the choice of the device to the last launch.
//!
//! Work runs as late as a real device may run it: when somebody waits for it. Memory, graphs and
//! host buffers that are given back or changed before that show. One thread of a block runs at a
//! time: threads are fibers that go on at barriers, shuffles and tensor-core operations in a
//! changing order, so that a barrier that is missing shows. Memory is poisoned when it is taken,
//! and lies between guard zones that are checked after each launch. What has no meaning on a real
//! device stops the program with one line that begins with `emulated CUDA:`.
//!
//! Environment variables let a device look otherwise: `EMULATED_CUDA_DEVICES=0` there is none,
//! `EMULATED_CUDA_CAPABILITY=7.5` it is old, `EMULATED_CUDA_DRIVER=11.0` its driver is,
//! `EMULATED_CUDA_MEMORY` it has so many bytes (512 MiB); `EMULATED_CUDA_SEED` is the order of
//! threads. `EMULATED_CUDA_FAIL=rmsnorm:7` breaks the device at the seventh launch of a kernel
//! whose name begins so (without a number, at the first), `EMULATED_CUDA_WRONG=rmsnorm:7` changes a
//! number of what these kernels compute, from the seventh launch on.
//! `EMULATED_CUDA_ERROR=cuStreamSynchronize:226:7` returns this code from the seventh call of this
//! function of the API on (without the second number, from the first on), and does nothing else.
//! `EMULATED_CUDA_REFUSE=ptx` is a driver without its compiler, `cubin` one that loads no machine
//! code; `EMULATED_CUDA_PTX_LOG` is what its compiler finds wrong with any PTX.
//!
//! With `BEAMGEN_TEST_CUDA=real` tests run on the driver and the device of the machine.

#![deny(clippy::undocumented_unsafe_blocks, missing_docs)]

use std::path::Path;
use std::sync::OnceLock;

use beamgen_test_support::{Missing, skip};

/// Returns the library; `None` after a skip of the calling test, where no C++ compiler was found. A
/// program with its directory on `LD_LIBRARY_PATH` finds an emulated device.
///
/// # Panics
///
/// If tools must exist and there was no C++ compiler.
#[must_use]
#[track_caller]
pub fn library() -> Option<&'static Path> {
    let path = built();
    if path.is_none() {
        no_compiler();
    }
    path
}

/// Makes the emulated driver that of this process. To be called before the first use of CUDA; more
/// calls do nothing. False after a skip of the calling test.
///
/// # Panics
///
/// If tools must exist and there was no C++ compiler.
#[must_use]
#[track_caller]
pub fn load() -> bool {
    static LOADED: OnceLock<bool> = OnceLock::new();
    let loaded = *LOADED.get_or_init(|| uses_real_device() || built().is_some_and(open));
    if !loaded {
        no_compiler();
    }
    loaded
}

/// Whether tests run on the machine's own device.
#[must_use]
pub fn uses_real_device() -> bool {
    std::env::var_os("BEAMGEN_TEST_CUDA").is_some_and(|value| value == "real")
}

fn built() -> Option<&'static Path> {
    let path = env!("EMULATED_CUDA_LIBRARY");
    (!path.is_empty()).then_some(Path::new(path))
}

#[track_caller]
fn no_compiler() {
    skip(
        Missing::Tool,
        "no C++ compiler for the emulated CUDA driver",
    );
}

/// Opens the library for good. Who asks for `libcuda.so` later gets it: the loader knows its name.
#[cfg(target_os = "linux")]
fn open(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path");
    // SAFETY: the library does nothing when it is loaded; the path ends with a zero.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!handle.is_null(), "the emulated driver cannot be loaded");
    true
}

#[cfg(not(target_os = "linux"))]
fn open(_: &Path) -> bool {
    false
}
