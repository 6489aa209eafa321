//! The thread that makes the requests.

use std::future::Future;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::error::Error;

/// A tokio runtime of its own, so that the crate works whether or not the caller has a runtime.
#[derive(Debug)]
pub(crate) struct Requests(Option<Runtime>);

impl Requests {
    pub(crate) fn start() -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            // A request nearly always waits for its server, so one thread serves hundreds of
            // requests.
            .worker_threads(1)
            .thread_name("beamgen-remote")
            .enable_all()
            .build()
            .map_err(|error| Error::Runtime(error.to_string()))?;
        Ok(Self(Some(runtime)))
    }

    fn runtime(&self) -> &Runtime {
        self.0
            .as_ref()
            .expect("the runtime exists until it is dropped")
    }

    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime().spawn(future)
    }

    /// Waits for a future on a new thread. The caller's thread may belong to another runtime, where
    /// waiting would panic.
    pub(crate) fn wait<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| self.runtime().block_on(future));
            waiting
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Requests {
    /// Drops the runtime without waiting for running requests: if this thread belongs to another
    /// runtime, waiting would panic.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
