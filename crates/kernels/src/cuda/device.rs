use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::thread::{self, ThreadId};

use cudarc::driver::{CudaContext, CudaStream, result, sys};

use super::code::{Code, Loaded};
use super::modules::MODULES;
use super::upload::Uploads;
use super::{Buffer, CudaError, Element, process};

/// A CUDA device: its context, one stream, and the kernels that are loaded. Clones share all these.
/// While a thread records a graph, other threads cannot queue work, because the work would become
/// part of the graph.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    info: DeviceInfo,
    kernels: Mutex<Kernels>,
    uploads: Mutex<Uploads>,
    /// The thread that records a graph on the stream. Every call that queues work holds a [`Turn`],
    /// which is a read lock of this field.
    recording: RwLock<Option<ThreadId>>,
    /// The reason why graphs are no longer used; set at most once.
    graphs_lost: OnceLock<String>,
}

/// The right to queue work. While a turn is held, no other thread records a graph or starts to. A
/// thread must not take a second turn while it holds one: it may wait for itself.
pub(super) type Turn<'a> = RwLockReadGuard<'a, Option<ThreadId>>;

/// The function attribute for the share of a multiprocessor's memory that is used as shared memory.
const CARVEOUT: sys::CUfunction_attribute =
    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;

/// Whether a kernel needs most of a multiprocessor's memory as shared memory, so that two blocks
/// fit. By default the driver may use more of it as cache.
fn takes_shared_memory(kernel: &str) -> bool {
    kernel.contains("_many_")
        || kernel.starts_with("attention_") && !kernel.starts_with("attention_merge")
}

/// The kernels loaded so far, and the code of all.
struct Kernels {
    code: Code,
    functions: HashMap<&'static str, Kernel>,
}

/// A kernel. Its module stays loaded until the process ends.
#[derive(Clone, Copy)]
struct Kernel(sys::CUfunction);

// SAFETY: a function is a handle, and the driver's calls that take it may be made from any thread.
unsafe impl Send for Kernel {}

/// The properties of a card, as the driver reported them when the device was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The name of the card, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// The PCI address, such as `0000:65:00.0`; empty if the driver does not say.
    pub bus_id: String,
    /// The UUID of the card or of the MIG instance; empty if the driver does not say.
    pub uuid: String,
    /// The compute capability, as major and minor version.
    pub capability: (i32, i32),
    /// The bytes of the card's memory, also those in use by others.
    pub memory: usize,
    /// The number of multiprocessors, each of which runs blocks independently.
    pub multiprocessors: usize,
}

/// The resources of a card that a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Registers of a thread.
    pub registers: i32,
    /// The bytes of local memory per thread, for values that did not fit in registers.
    pub local: i32,
    /// Bytes of shared memory of a block that the kernel declares.
    pub shared: i32,
    /// The part of a multiprocessor's memory that should be shared, in percent; -1 if the driver
    /// chooses.
    pub carveout: i32,
}

/// The grid of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// The number of blocks in each dimension; an empty grid launches nothing.
    pub grid: [usize; 3],
    /// The number of threads in a block, a multiple of 32 in all kernels here.
    pub block: usize,
    /// Bytes of dynamic shared memory of a block, at most 48 KiB.
    pub shared: usize,
}

impl Launch {
    /// A launch without dynamic shared memory.
    pub(super) fn new(grid: [usize; 3], block: usize) -> Self {
        Self {
            grid,
            block,
            shared: 0,
        }
    }
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// The address of the buffer's first byte.
    At(&'a Buffer),
    /// The address of the byte at an offset in the buffer.
    Byte(&'a Buffer, usize),
    /// A null pointer.
    Null,
    /// No argument: this kernel does not have it.
    Absent,
    /// An `int`. Launching panics if the value does not fit.
    Int(usize),
    /// A `float`.
    Float(f32),
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Device").field(&self.inner.info).finish()
    }
}

impl Device {
    /// The least compute capability. Ampere (8.0) was the first with bfloat16 tensor cores.
    const LEAST: (i32, i32) = (8, 0);
    /// The least CUDA version of the driver, which the graphs and the PTX require.
    const LEAST_DRIVER: i32 = 11_040;
    /// The most arguments that a launch can pass. The kernel with the most, `attention`, has 17.
    const ARGS: usize = 24;

    /// The number of devices that the driver shows to this process.
    ///
    /// # Errors
    /// [`CudaError::NoDriver`] without a driver, [`CudaError::Forked`] in a forked process, or the
    /// driver's error.
    pub fn count() -> Result<usize, CudaError> {
        process::check_process()?;
        // SAFETY: opening the driver's library runs its initialisers, as every CUDA program does.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        match CudaContext::device_count() {
            Ok(devices) => {
                process::started();
                Ok(devices as usize)
            }
            Err(error) => match error.0 {
                sys::CUresult::CUDA_ERROR_NO_DEVICE => Ok(0),
                // Another library has started the driver before the fork.
                sys::CUresult::CUDA_ERROR_NOT_INITIALIZED => {
                    Err(CudaError::Forked { process: None })
                }
                _ => Err(CudaError::failed("starting the driver")(error)),
            },
        }
    }

    /// Opens the device with the number `ordinal`, counted from 0 among those of
    /// `CUDA_VISIBLE_DEVICES`. Device 0 is the fastest. If `CUDA_DEVICE_ORDER` is `PCI_BUS_ID`, the
    /// order is that of `nvidia-smi`.
    ///
    /// # Errors
    /// An error that names the missing or outdated part: the driver, the device, or its
    /// instructions.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        let devices = Self::count()?;
        let failed = CudaError::failed("opening the device");
        let mut version = 0;
        // SAFETY: writes an int.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }
            .result()
            .map_err(&failed)?;
        if version < Self::LEAST_DRIVER {
            return Err(CudaError::OldDriver { version });
        }
        if ordinal >= devices {
            return Err(CudaError::NoDevice { ordinal, devices });
        }
        let context = CudaContext::new(ordinal).map_err(&failed)?;
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let info = DeviceInfo {
            name: context.name().map_err(&failed)?,
            bus_id: bus_id(&context).unwrap_or_default(),
            uuid: context.uuid().map_or_else(|_| String::new(), hyphenated),
            capability: context.compute_capability().map_err(&failed)?,
            memory: context.total_mem().map_err(&failed)?,
            multiprocessors: context.attribute(attribute).map_err(&failed)? as usize,
        };
        if info.capability < Self::LEAST {
            let DeviceInfo {
                name, capability, ..
            } = info;
            return Err(CudaError::OldCard { name, capability });
        }
        let stream = context.new_stream().map_err(&failed)?;
        let uploads = Uploads::new(&context, &stream).map_err(&failed)?;
        let kernels = Kernels {
            code: Code::new(info.capability, version),
            functions: HashMap::new(),
        };
        let device = Self {
            inner: Arc::new(Inner {
                context,
                stream,
                info,
                kernels: Mutex::new(kernels),
                uploads: Mutex::new(uploads),
                recording: RwLock::default(),
                graphs_lost: OnceLock::new(),
            }),
        };
        // If the driver can neither load nor compile the kernels, opening fails instead of the
        // first pass.
        device.kernel("gather_rows")?;
        Ok(device)
    }

    /// The properties of the card, which never change.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// The numbers of modules loaded so far, as machine code and as PTX.
    #[must_use]
    pub fn loaded(&self) -> Loaded {
        self.kernels().code.loaded
    }

    /// Returns the resources of the card that a kernel takes.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If no kernel has this name.
    pub fn kernel_info(&self, kernel: &'static str) -> Result<KernelInfo, CudaError> {
        use sys::CUfunction_attribute as Attribute;
        self.bind()?;
        let function = self.kernel(kernel)?;
        let ask = |attribute| {
            let mut value = 0;
            // SAFETY: writes an int; a function of a loaded module.
            let asked =
                unsafe { sys::cuFuncGetAttribute(&raw mut value, attribute, function.0) }.result();
            asked.map(|()| value).map_err(CudaError::failed(kernel))
        };
        Ok(KernelInfo {
            registers: ask(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local: ask(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            shared: ask(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            carveout: ask(CARVEOUT)?,
        })
    }

    /// The names of all kernels.
    pub fn kernel_names() -> impl Iterator<Item = &'static str> {
        MODULES.iter().flat_map(|module| module.kernels).copied()
    }

    /// The reason why graphs are no longer used, if one has failed. Graphs only save time, so
    /// kernels are then launched one by one.
    #[must_use]
    pub fn graphs_lost(&self) -> Option<&str> {
        self.inner.graphs_lost.get().map(String::as_str)
    }

    /// Stops the use of graphs. Only the first reason is kept.
    pub fn lose_graphs(&self, reason: String) {
        let _ = self.inner.graphs_lost.set(reason);
    }

    /// Free memory in bytes.
    ///
    /// # Errors
    /// The driver's error.
    pub fn free_bytes(&self) -> Result<usize, CudaError> {
        let info = self.inner.context.mem_get_info();
        info.map(|(free, _)| free)
            .map_err(CudaError::failed("asking for free memory"))
    }

    /// Allocates `bytes` bytes of device memory, whose contents are arbitrary.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`].
    pub fn alloc(&self, bytes: usize) -> Result<Buffer, CudaError> {
        Buffer::new(self, bytes)
    }

    /// Allocates device memory for `values` and queues a copy of them.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`].
    pub fn upload<T: Element>(&self, values: &[T]) -> Result<Buffer, CudaError> {
        let mut buffer = self.alloc(size_of_val(values))?;
        buffer.write(0, values)?;
        Ok(buffer)
    }

    /// Waits for all queued work.
    ///
    /// # Errors
    /// An error of work queued before, or [`CudaError::Recording`].
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let turn = self.turn("running kernels")?;
        self.wait(&turn)
    }

    /// Waits like [`synchronize`](Self::synchronize), for a caller that already holds a turn.
    pub(super) fn wait(&self, _: &Turn<'_>) -> Result<(), CudaError> {
        let waited = self.inner.stream.synchronize();
        waited.map_err(CudaError::failed("running kernels"))
    }

    /// Waits for all queued work, before memory or a graph that the work may use is freed. A
    /// failure of that work is reported by the next call that can return an error.
    pub(super) fn drain(&self) {
        // A recording lasts no longer than its launches take to be queued.
        let _turn = loop {
            match self.turn("") {
                Ok(turn) => break turn,
                Err(_) => thread::yield_now(),
            }
        };
        // The first call may only report, and forget, an error of an earlier call.
        let _ = self.bind().or_else(|_| self.bind());
        let _ = self.inner.stream.synchronize();
    }

    /// Queues a copy of `bytes` to the device. The caller may change `bytes` once this returns.
    ///
    /// # Safety
    /// The `bytes.len()` bytes at `to` must be device memory.
    pub(super) unsafe fn copy_to(
        &self,
        to: sys::CUdeviceptr,
        bytes: &[u8],
    ) -> Result<(), CudaError> {
        const WHAT: &str = "copying to the device";
        self.bind()?;
        let turn = self.turn(WHAT)?;
        if turn.is_some() {
            // A replay would read a slot that others have used since.
            return Err(CudaError::Recording { what: WHAT });
        }
        let uploads = self.inner.uploads.lock();
        let mut uploads = uploads.unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the context is current; the caller's promise.
        unsafe { uploads.copy(to, bytes) }.map_err(CudaError::failed(WHAT))
    }

    /// Takes the right to queue work. `what` names the operation in an error.
    ///
    /// # Errors
    /// [`CudaError::Recording`] if another thread records a graph.
    pub(super) fn turn(&self, what: &'static str) -> Result<Turn<'_>, CudaError> {
        let turn = self.inner.recording.read();
        let turn = turn.unwrap_or_else(PoisonError::into_inner);
        match *turn {
            Some(thread) if thread != thread::current().id() => Err(CudaError::Recording { what }),
            _ => Ok(turn),
        }
    }

    /// Waits until no thread queues work. The guarded value is the thread that records a graph.
    pub(super) fn recording(&self) -> RwLockWriteGuard<'_, Option<ThreadId>> {
        let recording = self.inner.recording.write();
        recording.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn shared_stream(&self) -> &Arc<CudaStream> {
        &self.inner.stream
    }

    pub(super) fn stream(&self) -> sys::CUstream {
        self.inner.stream.cu_stream()
    }

    pub(super) fn bind(&self) -> Result<(), CudaError> {
        let bound = self.inner.context.bind_to_thread();
        bound.map_err(CudaError::failed("using the device from this thread"))
    }

    /// Queues a kernel.
    ///
    /// # Safety
    /// The arguments must be those that the kernel declares (`kernels/*.cu`). With these arguments,
    /// the kernel must not touch memory outside the buffers.
    pub(crate) unsafe fn launch(
        &self,
        kernel: &'static str,
        launch: Launch,
        args: &[Arg<'_>],
    ) -> Result<(), CudaError> {
        // The driver refuses an empty grid, in which there is nothing to compute.
        if launch.grid.contains(&0) {
            return Ok(());
        }
        self.bind()?;
        let _turn = self.turn(kernel)?;
        let function = self.kernel(kernel)?;
        // The driver reads as many bytes of each argument as the kernel declares, at most eight.
        let mut words = [0u64; Self::ARGS];
        let mut pointers = [std::ptr::null_mut::<c_void>(); Self::ARGS];
        let mut count = 0;
        for arg in args {
            let word = &mut words[count];
            *word = match *arg {
                Arg::At(buffer) => buffer.pointer(),
                Arg::Byte(buffer, byte) => buffer.from(byte).pointer(),
                Arg::Null => 0,
                Arg::Absent => continue,
                Arg::Int(value) => u64::from(i32::try_from(value).expect("an int") as u32),
                Arg::Float(value) => u64::from(value.to_bits()),
            };
            pointers[count] = std::ptr::from_mut(word).cast();
            count += 1;
        }
        let [x, y, z] = launch.grid.map(|n| u32::try_from(n).expect("a grid"));
        let block = (launch.block as u32, 1, 1);
        // SAFETY: the caller's promise; the words live until the call returns, and the driver
        // copies them.
        unsafe {
            result::launch_kernel(
                function.0,
                (x, y, z),
                block,
                launch.shared as u32,
                self.stream(),
                &mut pointers[..count],
            )
        }
        .map_err(CudaError::failed(kernel))
    }

    /// Returns a kernel. The first use of a kernel loads all kernels of its module.
    fn kernel(&self, name: &'static str) -> Result<Kernel, CudaError> {
        let mut kernels = self.kernels();
        if let Some(kernel) = kernels.functions.get(name) {
            return Ok(*kernel);
        }
        let module = MODULES.iter().find(|module| module.kernels.contains(&name));
        let module = module.unwrap_or_else(|| panic!("no module has the kernel {name}"));
        let loaded = kernels.code.load(module.name)?;
        for kernel in module.kernels {
            let symbol = CString::new(*kernel).expect("a name without zeros");
            // SAFETY: the module is loaded and stays so.
            let function = unsafe { result::module::get_function(loaded, symbol) };
            let function = function.map_err(CudaError::failed("loading kernels"))?;
            if takes_shared_memory(kernel) {
                // The attribute is only a preference: if it cannot be set, the kernel runs anyway.
                // SAFETY: a function of a loaded module.
                let _ = unsafe { sys::cuFuncSetAttribute(function, CARVEOUT, 100) };
            }
            kernels.functions.insert(kernel, Kernel(function));
        }
        Ok(kernels.functions[name])
    }

    fn kernels(&self) -> MutexGuard<'_, Kernels> {
        let kernels = self.inner.kernels.lock();
        kernels.unwrap_or_else(PoisonError::into_inner)
    }
}

fn bus_id(context: &CudaContext) -> Option<String> {
    let mut text = [0u8; 32];
    // SAFETY: the driver writes at most `len` bytes, the final zero included.
    let asked = unsafe {
        sys::cuDeviceGetPCIBusId(
            text.as_mut_ptr().cast(),
            text.len() as i32,
            context.cu_device(),
        )
    };
    asked.result().ok()?;
    let text = CStr::from_bytes_until_nul(&text).ok()?;
    Some(text.to_string_lossy().to_ascii_lowercase())
}

fn hyphenated(uuid: sys::CUuuid) -> String {
    let mut text = String::new();
    for (i, byte) in uuid.bytes.into_iter().enumerate() {
        if [4, 6, 8, 10].contains(&i) {
            text.push('-');
        }
        text += &format!("{:02x}", byte as u8);
    }
    text
}
