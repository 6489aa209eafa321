//! What the emulated device does as a real one, and what it finds where a real one would do anything.

use std::ffi::{CString, c_void};
use std::process::Command;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

/// PTX of `src/planted.cu`, as far as the emulated driver reads it.
const PTX: &str = ".version 7.1\n.target sm_80\n\
    .visible .entry planted_increment(.param .u64 a, .param .u32 b)\n\
    .visible .entry planted_turn(.param .u64 a, .param .u32 b)\n\
    .visible .entry planted_write(.param .u64 a, .param .u32 b)\n\
    .visible .entry planted_shuffle(.param .u64 a)\n\
    .visible .entry planted_pairs(.param .u64 a)\n\0";

/// Memory of 256 numbers 0, 1, 2 ... and a stream.
struct Fixture {
    stream: Arc<CudaStream>,
    module: sys::CUmodule,
    memory: sys::CUdeviceptr,
}

impl Fixture {
    /// None where there is no emulated device.
    fn new() -> Option<Self> {
        if beamgen_emulated_cuda::library().is_none() || !beamgen_emulated_cuda::load() {
            eprintln!("skipped: no C++ compiler for the emulated CUDA device");
            return None;
        }
        let context = CudaContext::new(0).expect("a device");
        let stream = context.new_stream().expect("a stream");
        let numbers: Vec<u32> = (0..256).collect();
        // SAFETY: text with a zero at its end; memory of the size of what is copied.
        unsafe {
            let module = result::module::load_data(PTX.as_ptr().cast()).expect("a module");
            let memory = result::malloc_sync(1024).expect("memory");
            result::memcpy_htod_async(memory, &numbers, stream.cu_stream()).expect("a copy");
            Some(Self {
                stream,
                module,
                memory,
            })
        }
    }

    fn launch(&self, kernel: &str, grid: u32, block: u32, number: i32) -> Result<(), DriverError> {
        let name = CString::new(kernel).expect("a name");
        let (mut memory, mut number) = (self.memory, number);
        let mut arguments: [*mut c_void; 2] = [(&raw mut memory).cast(), (&raw mut number).cast()];
        // SAFETY: the arguments of `planted.cu`; those with one take the first.
        unsafe {
            let function = result::module::get_function(self.module, name)?;
            result::launch_kernel(
                function,
                (grid, 1, 1),
                (block, 1, 1),
                0,
                self.stream.cu_stream(),
                &mut arguments,
            )
        }
    }

    fn numbers(&self) -> Vec<u32> {
        let mut numbers = vec![0; 256];
        // SAFETY: as many as there are; waited for.
        unsafe { result::memcpy_dtoh_async(&mut numbers, self.memory, self.stream.cu_stream()) }
            .expect("a copy");
        self.stream.synchronize().expect("finished");
        numbers
    }
}

#[test]
fn lanes_meet_in_any_groups() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fixture.launch("planted_pairs", 1, 32, 0).expect("a launch");
    // Pair p adds 2p + (2p + 1), p + 1 times.
    let sum = (0..16).map(|p| (4 * p + 1) * (p + 1)).sum();
    assert_eq!(fixture.numbers()[..32], [sum; 32]);
}

#[test]
fn a_missing_barrier_shows() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fixture.launch("planted_turn", 1, 256, 1).expect("a launch");
    let mut turned = fixture.numbers();
    assert_eq!((turned[0], turned[1], turned[255]), (255, 0, 254));
    fixture.launch("planted_turn", 1, 256, 0).expect("a launch");
    turned.rotate_right(1);
    assert_ne!(fixture.numbers(), turned);
}

#[test]
fn launches_beyond_the_limits_are_refused() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let invalid = Err(DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE));
    assert_eq!(fixture.launch("planted_increment", 1, 1025, 0), invalid);
    assert_eq!(fixture.launch("planted_increment", 0, 32, 0), invalid);
    let unknown = Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND));
    assert_eq!(fixture.launch("rmsnorm_f32", 1, 32, 0), unknown);
}

#[test]
fn graphs_replay_what_was_captured() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let none = sys::CUgraphInstantiate_flags(0);
    fixture.stream.begin_capture(mode).expect("a capture");
    fixture
        .launch("planted_increment", 2, 128, 256)
        .expect("kept");
    fixture
        .launch("planted_increment", 1, 128, 100)
        .expect("kept");
    let graph = fixture
        .stream
        .end_capture(none)
        .expect("a graph")
        .expect("a graph");
    assert_eq!(fixture.numbers()[..2], [0, 1], "nothing has run yet");
    for _ in 0..3 {
        graph.launch().expect("a launch");
    }
    let numbers = fixture.numbers();
    assert_eq!(
        (numbers[0], numbers[99], numbers[100], numbers[255]),
        (6, 105, 103, 258)
    );

    // What waits or takes memory ends a capture.
    fixture.stream.begin_capture(mode).expect("a capture");
    let unsupported = DriverError(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(fixture.stream.synchronize(), Err(unsupported));
    let invalidated = DriverError(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_eq!(fixture.stream.end_capture(none).err(), Some(invalidated));
    fixture.stream.begin_capture(mode).expect("a capture");
    // SAFETY: no memory is taken.
    assert_eq!(unsafe { result::malloc_sync(8) }, Err(unsupported));
    assert_eq!(fixture.stream.end_capture(none).err(), Some(invalidated));
}

/// Runs in a process of its own, for `errors_stop_the_program`.
#[test]
#[ignore = "stops the program"]
fn with_an_error() {
    let fixture = Fixture::new().expect("a device");
    let (kernel, number) = match std::env::var("PLANTED").expect("which").as_str() {
        "behind" => ("planted_write", 1024),
        "before" => ("planted_write", -1),
        _ => ("planted_shuffle", 0),
    };
    let _ = fixture.launch(kernel, 1, 32, number);
}

#[test]
fn errors_stop_the_program() {
    if beamgen_emulated_cuda::library().is_none() {
        return;
    }
    for (planted, says) in [
        (
            "behind",
            "emulated CUDA: after planted_write: somebody wrote to byte 1024 of a buffer of 1024 bytes",
        ),
        (
            "before",
            "emulated CUDA: after planted_write: somebody wrote 1 bytes before a buffer of 1024 bytes",
        ),
        (
            "shuffle",
            "emulated CUDA: deadlock: of 32 threads, 16 wait at a barrier and 16 for lanes of their warp",
        ),
    ] {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "with_an_error", "--ignored", "--nocapture"])
            .env("PLANTED", planted)
            .output()
            .expect("this program runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(says),
            "{planted}: {errors}"
        );
    }
}
