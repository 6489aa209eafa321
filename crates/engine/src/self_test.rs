//! Whether a CUDA device computes what the CPU does: every kernel at small sizes, against references
//! in float64. Run before a device is given any work, since the same kernels are compiled anew by
//! every driver.

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

/// Runs the operations on the device.
///
/// # Errors
/// [`Error::Device`] names the operation that fails, or whose numbers differ from the CPU's by more
/// than its tolerance.
pub(crate) fn run(device: &Device) -> Result<(), Error> {
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
