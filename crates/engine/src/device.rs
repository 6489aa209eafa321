//! Where models run: on the CPU, or on a CUDA device.

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "cuda")]
use beamgen_kernels::cuda;
use serde::{Deserialize, Serialize};

use crate::Error;
#[cfg(feature = "cuda")]
use crate::self_test;

/// The device that a user selects: `auto`, `cpu` or `cuda:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// CUDA device 0 if it is usable and passes its self-test, otherwise the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A CUDA device by its number in the driver's order. Device 0 is the fastest, unless
    /// `CUDA_DEVICE_ORDER` is `PCI_BUS_ID`.
    Cuda(usize),
}

/// An opened device. All models of a process on the same CUDA device share its memory and stream.
#[derive(Clone, Debug, Default)]
pub enum Compute {
    /// The CPU.
    #[default]
    Cpu,
    /// A CUDA device.
    #[cfg(feature = "cuda")]
    Cuda(cuda::Device),
}

impl DeviceChoice {
    /// Opens the device. A CUDA device must first pass a self-test, which compares each operation
    /// at a small size with the CPU's result.
    ///
    /// # Errors
    /// [`Error::Device`] if the device does not exist, this program cannot use it, or its results
    /// differ from the CPU's.
    pub fn open(self) -> Result<Compute, Error> {
        match self {
            Self::Cpu => Ok(Compute::Cpu),
            Self::Auto => Ok(Self::auto().0),
            #[cfg(feature = "cuda")]
            Self::Cuda(ordinal) => {
                let device = cuda::Device::open(ordinal)?;
                self_test::run(&device)?;
                Ok(Compute::Cuda(device))
            }
            #[cfg(not(feature = "cuda"))]
            Self::Cuda(_) => Err(Error::Device(
                "this program was built without CUDA: use device cpu".into(),
            )),
        }
    }

    /// Opens the device. With [`Auto`](Self::Auto), also returns the reason if a CUDA device exists
    /// and the CPU is used instead.
    ///
    /// # Errors
    /// [`Error::Device`], under the conditions of [`open`](Self::open).
    pub fn open_or_say(self) -> Result<(Compute, Option<Error>), Error> {
        match self {
            Self::Auto => Ok(Self::auto()),
            _ => Ok((self.open()?, None)),
        }
    }

    #[cfg(feature = "cuda")]
    fn auto() -> (Compute, Option<Error>) {
        // Only device 0 is tried: a search runs on one device, and device 0 is the fastest.
        let device = match cuda::Device::open(0) {
            Ok(device) => device,
            // Most machines have no CUDA device, so its absence is not worth a message.
            Err(cuda::CudaError::NoDriver | cuda::CudaError::NoDevice { .. }) => {
                return (Compute::Cpu, None);
            }
            Err(error) => return (Compute::Cpu, Some(error.into())),
        };
        match self_test::run(&device) {
            Ok(()) => (Compute::Cuda(device), None),
            Err(error) => (Compute::Cpu, Some(error)),
        }
    }

    #[cfg(not(feature = "cuda"))]
    fn auto() -> (Compute, Option<Error>) {
        (Compute::Cpu, None)
    }
}

impl Compute {
    /// Returns the free bytes of a CUDA device's memory; `None` for the CPU.
    ///
    /// # Errors
    /// [`Error::Device`]
    pub fn free_bytes(&self) -> Result<Option<usize>, Error> {
        match self {
            Self::Cpu => Ok(None),
            #[cfg(feature = "cuda")]
            Self::Cuda(device) => {
                self.check_process()?;
                Ok(Some(device.free_bytes()?))
            }
        }
    }

    /// Measures the rate of a copy of `bytes` within a device's memory: bytes read and written per
    /// second, the best of five copies. `None` for the CPU, which
    /// [`EngineConfig::ceilings`](crate::EngineConfig::ceilings) measures.
    ///
    /// # Errors
    /// [`Error::Device`], for example if less than twice `bytes` of memory is free.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables))]
    pub fn copy_rate(&self, bytes: usize) -> Result<Option<f64>, Error> {
        match self {
            Self::Cpu => Ok(None),
            #[cfg(feature = "cuda")]
            Self::Cuda(device) => {
                // The memory is written once before the clock starts, so that no first use is
                // timed.
                let mut memory = device.alloc(2 * bytes)?;
                memory.clear()?;
                let mut best = f64::INFINITY;
                for _ in 0..5 {
                    device.synchronize()?;
                    let start = std::time::Instant::now();
                    memory.copy_within(0, bytes, bytes)?;
                    device.synchronize()?;
                    best = best.min(start.elapsed().as_secs_f64());
                }
                // A copy reads and writes every byte.
                Ok(Some(2.0 * bytes as f64 / best))
            }
        }
    }

    /// Returns a note for the user if the device lost its CUDA graphs, with the reason.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        match self {
            Self::Cpu => None,
            #[cfg(feature = "cuda")]
            Self::Cuda(device) => device.graphs_lost().map(|reason| {
                format!(
                    "no CUDA graphs: every kernel is launched by itself, which takes longer and \
                     changes no result ({reason})"
                )
            }),
        }
    }

    /// Refuses a CUDA device in a process that was forked after the device was opened: the driver's
    /// state does not survive a fork.
    ///
    /// # Errors
    /// [`Error::Device`]
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        match self {
            Self::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => Ok(cuda::check_process()?),
        }
    }

    /// Whether models run on the CPU. Only there are hidden states before the final norm readable.
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }
}

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            #[cfg(feature = "cuda")]
            Self::Cuda(device) => {
                let info = device.info();
                let (major, minor) = info.capability;
                write!(f, "{} (CUDA, compute capability {major}.{minor}", info.name)?;
                for (name, id) in [("PCI", &info.bus_id), ("UUID", &info.uuid)] {
                    if !id.is_empty() {
                        write!(f, ", {name} {id}")?;
                    }
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Cpu => f.pad("cpu"),
            Self::Cuda(0) => f.pad("cuda"),
            Self::Cuda(n) => f.pad(&format!("cuda:{n}")),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = match text {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|ordinal| ordinal.parse().ok().map(Self::Cuda)),
        };
        found.ok_or_else(|| {
            let reason = format!("invalid value `{text}`: use auto, cpu, cuda or cuda:N");
            Error::setting("device", reason)
        })
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> Self {
        choice.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let all = [
            DeviceChoice::Auto,
            DeviceChoice::Cpu,
            DeviceChoice::Cuda(0),
            DeviceChoice::Cuda(3),
        ];
        for choice in all {
            assert_eq!(choice.to_string().parse::<DeviceChoice>().unwrap(), choice);
            let json = serde_json::to_string(&choice).unwrap();
            assert_eq!(serde_json::from_str::<DeviceChoice>(&json).unwrap(), choice);
        }
        for text in ["gpu", "cuda:", "cuda:-1", "cuda:x", ""] {
            let error = text.parse::<DeviceChoice>().unwrap_err().to_string();
            assert!(error.contains("cuda:N"), "{error}");
        }
    }
}
