//! Tests whether a CUDA device computes what the CPU does: every kernel at small sizes, against
//! references in float64. The test runs before a device gets any work, since each driver compiles
//! the kernels for itself.

mod attention;
mod linear;
mod norms;
mod prm;
mod rows;
mod sampling;
mod silu;
mod values;

use beamgen_kernels::cuda::Device;

use crate::Error;
use values::NUMBERS;

/// Runs every operation on the device.
///
/// # Errors
/// [`Error::Device`] with the operation that fails, or whose results differ from the CPU's by more
/// than its tolerance.
pub(crate) fn run(device: &Device) -> Result<(), Error> {
    // Simple operations come first, so that the message names the simplest that fails.
    for number in NUMBERS {
        rows::embed(device, number)?;
        norms::rows(device, number)?;
        silu::run(device, number)?;
    }
    rows::gather(device)?;
    norms::heads(device)?;
    prm::run(device)?;
    sampling::run(device)?;
    for number in NUMBERS {
        attention::run(device, number)?;
        linear::run(device, number)?;
    }
    Ok(())
}
