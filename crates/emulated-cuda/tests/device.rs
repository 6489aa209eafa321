//! Tests the behaviour that the emulated device shares with a real one, and the errors that it
//! detects where the behaviour of a real device is undefined.

use std::ffi::{CString, c_void};
use std::process::Command;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaGraph, CudaStream, DriverError, result, sys};

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
    /// Page-locked memory of the host, as large as `memory`.
    host: *mut u32,
}

impl Fixture {
    fn new() -> Option<Self> {
        if beamgen_emulated_cuda::library().is_none() || !beamgen_emulated_cuda::load() {
            return None;
        }
        let context = CudaContext::new(0).expect("a device");
        let stream = context.new_stream().expect("a stream");
        // SAFETY: text with a zero at its end; memory of the size of what is written and copied.
        unsafe {
            let module = result::module::load_data(PTX.as_ptr().cast()).expect("a module");
            let memory = result::malloc_sync(1024).expect("memory");
            let host = result::malloc_host(1024, 0).expect("memory").cast::<u32>();
            for i in 0..256 {
                host.add(i).write(i as u32);
            }
            let fixture = Self {
                stream,
                module,
                memory,
                host,
            };
            fixture.upload();
            fixture.stream.synchronize().expect("finished");
            Some(fixture)
        }
    }

    fn upload(&self) {
        // SAFETY: both have 256 numbers and live as long as the process.
        unsafe {
            let numbers = std::slice::from_raw_parts(self.host, 256);
            result::memcpy_htod_async(self.memory, numbers, self.stream.cu_stream())
        }
        .expect("a copy");
    }

    /// Records a graph that adds 1 to all numbers.
    fn graph(&self) -> CudaGraph {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode).expect("a capture");
        self.launch("planted_increment", 2, 128, 256).expect("kept");
        let graph = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        graph.expect("a graph").expect("a graph")
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
        // SAFETY: the device's memory has 256 numbers, and the copy is waited for.
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

    // A call that waits or allocates memory ends a capture with an error.
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

#[test]
fn nothing_is_copied_or_filled_only_if_there_is_something() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let stream = fixture.stream.cu_stream();
    let invalid = Err(DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE));
    // SAFETY: no bytes, or too many, are refused.
    unsafe {
        let memory = fixture.memory;
        assert_eq!(result::memset_d8_async(memory, 0, 0, stream), invalid);
        assert_eq!(result::memset_d8_async(memory, 0, 1025, stream), invalid);
        assert_eq!(
            result::memcpy_dtod_async(memory, memory, 0, stream),
            invalid
        );
    }
}

#[test]
fn work_runs_when_somebody_waits_for_it() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let event = fixture.stream.context().new_event(None).expect("an event");
    let launch = || {
        fixture
            .launch("planted_increment", 2, 128, 256)
            .expect("a launch");
    };
    launch();
    event.record(&fixture.stream).expect("a mark");
    launch();
    assert!(!event.is_complete());
    event.synchronize().expect("reached");
    assert!(event.is_complete());
    assert_eq!(fixture.numbers()[..3], [2, 3, 4]);
}

/// Runs in a process of its own, for `errors_stop_the_program`.
#[test]
#[ignore = "stops its process, so errors_stop_the_program starts it in one of its own"]
fn with_an_error() {
    let fixture = Fixture::new().expect("a device");
    let stream = fixture.stream.cu_stream();
    match std::env::var("PLANTED").expect("which").as_str() {
        "behind" => fixture.launch("planted_write", 1, 32, 1024).expect("kept"),
        "before" => fixture.launch("planted_write", 1, 32, -1).expect("kept"),
        "shuffle" => fixture.launch("planted_shuffle", 1, 32, 0).expect("kept"),
        "pageable" => {
            let numbers = vec![1u32; 256];
            // SAFETY: the device's memory has as many numbers.
            let _ = unsafe { result::memcpy_htod_async(fixture.memory, &numbers, stream) };
        }
        "changed" => {
            fixture.upload();
            // SAFETY: page-locked memory of this size; that a copy still reads it is what is
            // tested.
            unsafe { fixture.host.write(7) };
        }
        "unlocked" => {
            fixture.upload();
            // SAFETY: taken by the fixture; that a copy still reads it is what is tested.
            let _ = unsafe { result::free_host(fixture.host.cast()) };
        }
        "freed" => {
            fixture
                .launch("planted_increment", 2, 128, 256)
                .expect("kept");
            // SAFETY: taken by the fixture; that a launch still uses it is what is tested.
            let _ = unsafe { result::free_sync(fixture.memory) };
        }
        "destroyed" => {
            let graph = fixture.graph();
            graph.launch().expect("kept");
            drop(graph);
        }
        "replayed" => {
            let graph = fixture.graph();
            // SAFETY: taken by the fixture, and nothing that is queued uses it.
            unsafe { result::free_sync(fixture.memory) }.expect("given back");
            graph.launch().expect("kept");
            let _ = fixture.stream.synchronize();
        }
        other => panic!("{other}"),
    }
    let _ = fixture.stream.synchronize();
}

#[test]
fn errors_stop_the_program() {
    if beamgen_emulated_cuda::library().is_none() {
        return;
    }
    for (planted, says) in [
        (
            "behind",
            "after planted_write: somebody wrote to byte 1024 of a buffer of 1024 bytes",
        ),
        (
            "before",
            "after planted_write: somebody wrote 1 bytes before a buffer of 1024 bytes",
        ),
        (
            "shuffle",
            "deadlock: of 32 threads, 16 wait at a barrier and 16 for lanes of their warp",
        ),
        (
            "pageable",
            "an asynchronous copy of 1024 bytes from host memory that is not page-locked",
        ),
        (
            "changed",
            "host memory was changed before the copy of its 1024 bytes to the device was done",
        ),
        (
            "unlocked",
            "page-locked memory is given back before a copy from it has run",
        ),
        (
            "freed",
            "1024 bytes of the device are given back before planted_increment that uses them has run",
        ),
        (
            "destroyed",
            "a graph is destroyed before its last replay has run",
        ),
        (
            "replayed",
            "a graph launches planted_increment on memory that was given back",
        ),
    ] {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "with_an_error", "--ignored", "--nocapture"])
            .env("PLANTED", planted)
            .output()
            .expect("this program runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(&format!("emulated CUDA: {says}")),
            "{planted}: {errors}"
        );
    }
}

/// Runs in a process of its own, for the test below.
#[test]
#[ignore = "breaks the device, so the test below starts it in a process of its own"]
fn on_a_faulty_device() {
    let fixture = Fixture::new().expect("a device");
    let launch = || fixture.launch("planted_increment", 2, 128, 256);
    if std::env::var_os("EMULATED_CUDA_ERROR").is_some() {
        let contained = DriverError(sys::CUresult::CUDA_ERROR_CONTAINED);
        launch().expect("kept");
        assert_eq!(launch(), Err(contained));
        assert_eq!(fixture.numbers()[..3], [1, 2, 3], "only that call fails");
    } else if let Ok(fault) = std::env::var("EMULATED_CUDA_WRONG") {
        let place = [("@middle", 127), ("@last", 255)];
        let place = place.iter().find(|(place, _)| fault.ends_with(place));
        let mut expected: Vec<u32> = (1..=256).collect();
        launch().expect("kept");
        assert_eq!(fixture.numbers(), expected);
        launch().expect("kept");
        for number in expected.iter_mut() {
            *number += 1;
        }
        expected[place.map_or(0, |(_, at)| *at)] ^= 1;
        assert_eq!(fixture.numbers(), expected);
    } else {
        let broken = DriverError(sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        launch().expect("kept");
        fixture.stream.synchronize().expect("the first one runs");
        launch().expect("kept");
        assert_eq!(fixture.stream.synchronize(), Err(broken));
        assert_eq!(launch(), Err(broken), "the context stays broken");
    }
}

#[test]
fn faults_that_were_asked_for_come() {
    if beamgen_emulated_cuda::library().is_none() {
        return;
    }
    for (variable, fault) in [
        ("EMULATED_CUDA_FAIL", "planted_inc:2"),
        ("EMULATED_CUDA_WRONG", "planted_inc:2"),
        ("EMULATED_CUDA_WRONG", "planted_increment:2@middle"),
        ("EMULATED_CUDA_WRONG", "planted_increment:2@last"),
        ("EMULATED_CUDA_ERROR", "cuLaunchKernel:226:2"),
    ] {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "on_a_faulty_device", "--ignored"])
            .env(variable, fault)
            .output()
            .expect("this program runs");
        assert!(output.status.success(), "{variable}={fault}: {output:?}");
    }
}

/// In a process that was forked after the driver had started, the driver must seem not initialised.
#[test]
#[ignore = "forks, so a_forked_process_has_no_driver starts it in a process of its own"]
fn in_a_forked_process() {
    let fixture = Fixture::new().expect("a device");
    let refused = DriverError(sys::CUresult::CUDA_ERROR_NOT_INITIALIZED);
    assert!(beamgen_emulated_cuda::in_a_fork(|| {
        fixture.launch("planted_increment", 2, 128, 256) == Err(refused)
            && result::init() == Err(refused)
    }));
    fixture
        .launch("planted_increment", 2, 128, 256)
        .expect("kept");
}

#[test]
fn a_forked_process_has_no_driver() {
    if beamgen_emulated_cuda::library().is_none() {
        return;
    }
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "in_a_forked_process", "--ignored"])
        .output()
        .expect("this program runs");
    assert!(output.status.success(), "{output:?}");
}
