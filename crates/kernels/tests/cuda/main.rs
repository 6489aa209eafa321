//! The operations on a CUDA device against the references in float64, at awkward sizes, in all
//! types. They run on the emulated device, or with `BEAMGEN_TEST_CUDA=real` on device 0 of the
//! machine.

mod attention;
mod device;
mod helpers;
mod linear;
mod prm;
mod refusals;
mod rmsnorm;
mod rope;
mod rows;
mod sample;
mod silu;
mod timing;
