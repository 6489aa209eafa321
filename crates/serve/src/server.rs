//! From an address to a server that runs.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use beamgen::service::ServiceOptions;
use beamgen::{RunSummary, Solver};
use tokio::sync::Semaphore;

use crate::Error;
use crate::app::{App, ModelFacts};
use crate::listen::listen;
use crate::options::ServeOptions;
use crate::presets::Presets;
use crate::routes::router;
use crate::stop::Stop;

/// A server that listens already. Clients that come before it runs wait.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    options: ServeOptions,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// The address cannot be listened on, or other machines reach it and there is neither a key nor
    /// leave to do without one; more connections are asked for than can be counted.
    pub fn bind(options: ServeOptions) -> Result<Self, Error> {
        let address = options.address;
        let is_private = address.ip().is_loopback();
        if !is_private && options.keys.is_empty() && !options.allow_anyone {
            return Err(Error::Open { address });
        }
        let (asked, most) = (options.limits.connections, Semaphore::MAX_PERMITS);
        if asked > most {
            return Err(Error::Connections { asked, most });
        }
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|source| Error::Bind { address, source })?;
        Ok(Self { listener, options })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The operating system does not say.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(Error::Runtime)
    }

    /// Serves a solver until it is told to stop, and gives it back with what was spent.
    ///
    /// # Errors
    /// There is nothing to run on, or a model was lost.
    pub fn run(
        self,
        solver: Solver,
        presets: Presets,
        stop: &Stop,
    ) -> Result<(Solver, RunSummary), Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(Error::Runtime)?;
        let models = ModelFacts::of(&solver);
        let presets = if models.has_scorer {
            presets
        } else {
            presets.without_scorer()
        };
        let service = solver.spawn(ServiceOptions {
            queue: self.options.limits.queue,
            events: 0,
        });
        let app = App::new(service.clone(), models, presets, self.options, stop.clone());
        let app = Arc::new(app);
        let router = router(Arc::clone(&app));
        runtime
            .block_on(async {
                let listener = tokio::net::TcpListener::from_std(self.listener)?;
                listen(listener, app, router).await;
                Ok(())
            })
            .map_err(Error::Runtime)?;
        // Connections that are still there end here, and with them their searches.
        drop(runtime);
        Ok(service.close()?)
    }
}
