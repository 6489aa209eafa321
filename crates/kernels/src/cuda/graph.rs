use std::thread;

use cudarc::driver::{CudaGraph, DriverError, sys};

use super::{CudaError, Device};

/// A CUDA graph: recorded launches, which one call queues again.
pub struct Graph {
    graph: CudaGraph,
    device: Device,
}

// SAFETY: the driver lets graphs be used from any thread, one at a time; launching takes `&mut
// self`.
unsafe impl Send for Graph {}

/// Ends the capture of a stream when dropped, also if what was being recorded fails or panics.
struct Capture<'a>(Option<&'a Device>);

impl Capture<'_> {
    fn end(&mut self) -> Result<Option<CudaGraph>, DriverError> {
        let Some(device) = self.0.take() else {
            return Ok(None);
        };
        let mut recording = device.recording();
        *recording = None;
        let flags = sys::CUgraphInstantiate_flags(0);
        device.shared_stream().end_capture(flags)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        // Drops the graph of what was recorded so far.
        let _ = self.end();
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Graph")
    }
}

impl Graph {
    /// Records the launches that `record` queues, without running them. Their buffers must stay
    /// alive as long as the graph is launched. Each kernel must have been launched before, because
    /// loading a module would break the recording.
    ///
    /// # Errors
    /// An error of `record` or of the driver, or [`CudaError::Recording`].
    pub fn record<E: From<CudaError>>(
        device: &Device,
        record: impl FnOnce() -> Result<(), E>,
    ) -> Result<Self, E> {
        const WHAT: &str = "recording a graph";
        let failed = CudaError::failed(WHAT);
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let mut recording = device.recording();
        if recording.is_some() {
            return Err(CudaError::Recording { what: WHAT }.into());
        }
        let begun = device.shared_stream().begin_capture(mode);
        begun.map_err(&failed)?;
        *recording = Some(thread::current().id());
        drop(recording);
        let mut capture = Capture(Some(device));
        record()?;
        let graph = capture.end().map_err(&failed);
        Ok(Self {
            graph: graph?.ok_or_else(|| CudaError::Failed {
                what: WHAT,
                reason: "nothing was recorded".into(),
            })?,
            device: device.clone(),
        })
    }

    /// Queues the recorded launches.
    ///
    /// # Errors
    /// [`CudaError::Recording`], or the driver's error.
    pub fn launch(&mut self) -> Result<(), CudaError> {
        const WHAT: &str = "launching a graph";
        let _turn = self.device.turn(WHAT)?;
        self.graph.launch().map_err(CudaError::failed(WHAT))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // Older drivers do not promise to finish a replay of a graph that is destroyed.
        self.device.drain();
    }
}
