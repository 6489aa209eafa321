//! Tests whether a CUDA device computes correctly: every kernel at small sizes, against references
//! in float64. The test runs before the device is used, because each driver compiles the kernels
//! itself.

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

/// Tests every operation on the device.
///
/// # Errors
/// [`Error::Device`], which names the first operation that fails or whose results exceed the
/// tolerance.
pub(crate) fn run(device: &Device) -> Result<(), Error> {
    // Simple operations come first, so that the error names the simplest one that fails.
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
