//! The kernels' code, which `kernels/build.sh` packs: machine code for some architectures, and PTX,
//! which the driver compiles, for all others.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::io::Read;
use std::ptr;

use cudarc::driver::sys::{self, CUjit_option, CUresult};
use flate2::read::GzDecoder;

use super::CudaError;
use super::error::reason;

const PTX: &[u8] = include_bytes!("../../code/ptx.gz");

/// Machine code by compute capability. It runs on cards of the same major number and no smaller
/// minor one.
const MACHINE_CODE: [((i32, i32), &[u8]); 4] = [
    ((8, 0), include_bytes!("../../code/sm_80.gz")),
    ((9, 0), include_bytes!("../../code/sm_90.gz")),
    ((10, 0), include_bytes!("../../code/sm_100.gz")),
    ((12, 0), include_bytes!("../../code/sm_120.gz")),
];

/// The least CUDA version of a driver that can load the machine code, which CUDA 12 has compiled.
const MACHINE_CODE_DRIVER: i32 = 12_000;

/// The most bytes of the driver's compiler messages; longer messages are cut.
const LOG: usize = 8192;

/// The numbers of modules that a device has loaded as machine code and as PTX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Modules loaded as machine code.
    pub machine_code: usize,
    /// Modules loaded as PTX, which the driver compiled.
    pub ptx: usize,
}

/// The code for one card.
pub(super) struct Code {
    /// The card and its driver, for messages.
    target: String,
    machine_code: Option<Package>,
    /// The PTX of all modules, unpacked at its first use.
    ptx: Option<Package>,
    pub(super) loaded: Loaded,
}

impl Code {
    pub(super) fn new(capability: (i32, i32), driver: i32) -> Self {
        let (major, minor) = capability;
        let fitting = MACHINE_CODE
            .iter()
            .filter(|((for_major, for_minor), _)| {
                driver >= MACHINE_CODE_DRIVER && *for_major == major && *for_minor <= minor
            })
            .max_by_key(|(capability, _)| *capability);
        Self {
            target: format!(
                "compute capability {major}.{minor}, driver for CUDA {}.{}",
                driver / 1000,
                driver % 1000 / 10
            ),
            machine_code: fitting.map(|(_, packed)| Package::unpack(packed)),
            ptx: None,
            loaded: Loaded::default(),
        }
    }

    /// Loads a module in the current context: its machine code, or, where none fits or the driver
    /// refuses it, its PTX.
    pub(super) fn load(&mut self, module: &str) -> Result<sys::CUmodule, CudaError> {
        let machine_code = self.machine_code.as_ref();
        let tried = machine_code.map(|package| load(package.image(module)));
        if let Some(Ok(loaded)) = tried {
            self.loaded.machine_code += 1;
            return Ok(loaded);
        }
        let ptx = self.ptx.get_or_insert_with(|| Package::unpack(PTX));
        let loaded = load(ptx.image(module)).map_err(|reason| CudaError::Failed {
            what: "loading kernels",
            reason: match tried {
                Some(Err(refused)) => format!(
                    "{module} ({}): {reason}; its machine code: {refused}",
                    self.target
                ),
                _ => format!("{module} ({}): {reason}", self.target),
            },
        })?;
        self.loaded.ptx += 1;
        Ok(loaded)
    }
}

/// Modules by name, each with a zero at its end.
struct Package(HashMap<String, Vec<u8>>);

impl Package {
    /// Unpacks a file of `kernels/code`: a line with name and bytes for each module, an empty line,
    /// and the modules one after the other.
    fn unpack(packed: &[u8]) -> Self {
        const PACKED: &str = "packed by kernels/build.sh";
        let mut bytes = Vec::new();
        GzDecoder::new(packed)
            .read_to_end(&mut bytes)
            .expect(PACKED);
        let index = bytes.windows(2).position(|pair| pair == b"\n\n");
        let (index, mut rest) = bytes.split_at(index.expect(PACKED));
        rest = &rest[2..];
        let mut modules = HashMap::new();
        for line in std::str::from_utf8(index).expect(PACKED).lines() {
            let (name, size) = line.split_once(' ').expect(PACKED);
            let (module, others) = rest.split_at(size.parse().expect(PACKED));
            modules.insert(name.to_owned(), [module, &[0]].concat());
            rest = others;
        }
        Self(modules)
    }

    fn image(&self, module: &str) -> &[u8] {
        let image = self.0.get(module);
        image.unwrap_or_else(|| panic!("kernels/code lacks {module}: run kernels/build.sh"))
    }
}

/// Loads a module in the current context. An error has the compiler's messages and a remedy, in one
/// line.
fn load(image: &[u8]) -> Result<sys::CUmodule, String> {
    let mut module = ptr::null_mut();
    let mut log = [0u8; LOG];
    let mut options = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    // The driver expects the length of the log in place of a pointer.
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG)];
    // SAFETY: PTX with a zero at its end or a whole ELF file; as many options as values, which are
    // what the options want; the log is written during the call only.
    let loaded = unsafe {
        sys::cuModuleLoadDataEx(
            &raw mut module,
            image.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    }
    .result();
    let Err(error) = loaded else {
        return Ok(module);
    };
    let mut text = reason(error);
    text += match error.0 {
        CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND => {
            ": install the driver's libnvidia-ptxjitcompiler.so.1"
        }
        CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED => {
            ": take CUDA_DISABLE_PTX_JIT out of the environment"
        }
        _ => "",
    };
    let log = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy);
    for line in log.unwrap_or_default().lines().map(str::trim) {
        if !line.is_empty() {
            text = text + "; " + line;
        }
    }
    Err(text)
}

#[cfg(test)]
mod tests {
    use super::super::modules::MODULES;
    use super::*;

    #[test]
    fn every_package_has_every_module() {
        let machine_code = MACHINE_CODE.iter().map(|(_, packed)| *packed);
        for (i, packed) in machine_code.chain([PTX]).enumerate() {
            let package = Package::unpack(packed);
            assert_eq!(package.0.len(), MODULES.len(), "package {i}");
            for module in MODULES {
                let image = package.image(module.name);
                let elf = image.starts_with(b"\x7fELF");
                assert_eq!(elf, i < MACHINE_CODE.len(), "{} of {i}", module.name);
            }
        }
    }

    #[test]
    fn the_packed_ptx_is_that_beside_it() {
        let package = Package::unpack(PTX);
        for module in MODULES {
            let path = format!(
                "{}/../../kernels/ptx/{}.ptx",
                env!("CARGO_MANIFEST_DIR"),
                module.name
            );
            let text = std::fs::read(path).expect("a file");
            let image = package.image(module.name);
            assert!(image.strip_suffix(&[0]) == Some(&*text), "{}", module.name);
        }
    }

    #[test]
    fn machine_code_is_for_the_same_major_and_no_later_minor() {
        for (capability, driver, fits) in [
            ((8, 0), 12_000, true),
            ((8, 6), 12_040, true),
            ((8, 9), 13_000, true),
            ((9, 0), 12_040, true),
            ((10, 3), 13_000, true),
            ((11, 0), 13_000, false),
            ((12, 1), 13_000, true),
            ((13, 0), 14_000, false),
            ((8, 0), 11_080, false),
        ] {
            let code = Code::new(capability, driver);
            assert_eq!(code.machine_code.is_some(), fits, "{capability:?} {driver}");
        }
    }
}
