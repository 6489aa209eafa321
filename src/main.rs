//! The program `beamgen`: the commands of `beamgen-cli` with the program's allocator.

#![forbid(unsafe_code)]

use std::process::ExitCode;

// Forward passes and trees come and go; the system allocator gives large buffers back each time,
// and the page faults to have them again are costly on virtual machines.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    beamgen_cli::main()
}
