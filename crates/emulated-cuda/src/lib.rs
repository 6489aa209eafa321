//! A CUDA driver for tests on machines without a CUDA device. It is a `libcuda.so` with the part of
//! the driver API that this workspace calls, and it runs the kernels of `kernels/*.cu` on the CPU.
//! All code that calls CUDA is tested unchanged, from the choice of the device to the last launch.
//!
//! Work runs as late as a real device may run it: when a caller waits for it. A test fails if
//! memory, graphs or host buffers are freed or changed before that. One thread of a block runs at a
//! time. Threads are fibers that take turns at barriers, shuffles and tensor-core operations, in a
//! changing order that reveals missing barriers. Allocated memory is poisoned and surrounded by
//! guard zones, which are checked after each launch. An operation that is undefined on a real
//! device stops the program with one line that begins with `emulated CUDA:`.
//!
//! Environment variables configure the device:
//!
//! * `EMULATED_CUDA_DEVICES=0`: the driver shows no device.
//! * `EMULATED_CUDA_CAPABILITY=7.5`, `EMULATED_CUDA_DRIVER=11.0`: the versions of card and driver.
//! * `EMULATED_CUDA_MEMORY`: the bytes of device memory, 512 MiB by default.
//! * `EMULATED_CUDA_SEED`: a number that determines the order of threads.
//! * `EMULATED_CUDA_FAIL=rmsnorm:7`: the device breaks at the seventh launch of a kernel whose name
//!   begins with `rmsnorm`; without `:7`, at the first launch.
//! * `EMULATED_CUDA_WRONG=rmsnorm:7`: one number in the results of these kernels is wrong, at each
//!   launch from the seventh on. It is the first number; with `rmsnorm:7@middle` or
//!   `rmsnorm:7@last` it is the middle or the last. `rope_kv@last.1` is the last number that is
//!   written through argument 1 (argument 0 is the default). [`plant_wrong`] does the same within a
//!   process.
//! * `EMULATED_CUDA_ERROR=cuStreamSynchronize:226:7`: from its seventh call on, this function of
//!   the API does nothing and returns code 226; without `:7`, from its first call on.
//! * `EMULATED_CUDA_REFUSE=ptx`: the driver has no compiler; `cubin`: it loads no machine code.
//!   `EMULATED_CUDA_PTX_LOG`: the compiler's message about any PTX, which then fails.
//!
//! With `BEAMGEN_TEST_CUDA=real` tests run on the driver and the device of the machine.

#![deny(clippy::undocumented_unsafe_blocks, missing_docs)]

use std::path::Path;
use std::sync::OnceLock;

use beamgen_test_support::{Missing, skip};

/// Returns the path of the library. Returns `None` if no C++ compiler was found, which skips the
/// calling test. A program with the library's directory on `LD_LIBRARY_PATH` finds an emulated
/// device.
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

/// Makes the emulated driver the CUDA driver of this process. The call must come before the first
/// use of CUDA; later calls do nothing. Returns false if no C++ compiler was found, which skips the
/// calling test.
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

/// Makes the results of kernels wrong from now on, in all threads of the process. `fault` has the
/// form of `EMULATED_CUDA_WRONG` and replaces the previous fault; an empty text ends all faults.
///
/// # Panics
///
/// If the emulated driver was not [loaded](load).
#[cfg(target_os = "linux")]
pub fn plant_wrong(fault: &str) {
    use std::ffi::{CString, c_char};
    assert!(
        !uses_real_device() && load(),
        "faults are for the emulated device"
    );
    let fault = CString::new(fault).expect("a fault without zeros");
    // SAFETY: the name ends with a zero; the library was opened for all to see, and stays.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"emulated_cuda_plant".as_ptr()) };
    assert!(!address.is_null(), "the emulated driver plants faults");
    // SAFETY: src/fault.cpp has this function, with this signature.
    let plant: extern "C" fn(*const c_char) = unsafe { std::mem::transmute(address) };
    plant(fault.as_ptr());
}

/// Runs `test` in a forked process, and returns whether `test` returned true there. No other thread
/// of the process may hold a lock during the call.
///
/// # Panics
///
/// If the process cannot be forked.
#[cfg(target_os = "linux")]
#[must_use]
pub fn in_a_fork(test: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs the test and ends; the caller promises that no thread holds a lock.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a process");
    if child == 0 {
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test)).unwrap_or(false);
        // SAFETY: ends the child at once, without handlers that were meant for the parent's end.
        unsafe { libc::_exit(i32::from(!passed)) };
    }
    let mut status = -1;
    // SAFETY: writes an int.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    ended == child && status == 0
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

/// Opens the library and never closes it. The loader then returns this library for `libcuda.so`,
/// which is its name.
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
