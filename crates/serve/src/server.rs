//! Binds an address, and serves requests with a solver.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use beamgen::eval::profile::Profile;
use beamgen::service::ServiceOptions;
use beamgen::{RunSummary, Solver};
use tokio::sync::Semaphore;

use crate::Error;
use crate::app::{App, ModelFacts};
use crate::listen::listen;
use crate::options::ServeOptions;
use crate::origins::Origin;
use crate::presets::Presets;
use crate::reload::heed;
use crate::routes::router;
use crate::stop::Stop;

/// A server that listens already. Clients that connect before [`run`](Self::run) have to wait.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    options: ServeOptions,
}

impl Server {
    /// Binds the address and starts to listen.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, if other machines can reach it and there is
    /// neither a key nor `allow_anyone`, if pages of every origin are allowed without a key, or if the
    /// limit of connections is too large.
    pub fn bind(options: ServeOptions) -> Result<Self, Error> {
        let address = options.address;
        let is_private = address.ip().is_loopback();
        if !is_private && options.keys.is_empty() && !options.allow_anyone {
            return Err(Error::Open { address });
        }
        let is_for_every_page = options.allow_origins.iter().any(Origin::is_every);
        if is_for_every_page && options.keys.is_empty() {
            return Err(Error::EveryOrigin);
        }
        let (asked, most) = (options.limits.connections, Semaphore::MAX_PERMITS);
        if asked > most {
            return Err(Error::Connections { asked, most });
        }
        // Tokio requires listeners that do not block.
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|source| Error::Bind { address, source })?;
        Ok(Self { listener, options })
    }

    /// Sets the profiles from which the drift of each preset's answers is measured, by preset.
    pub fn compare_with(&mut self, references: BTreeMap<String, Profile>) {
        self.options.references = references;
    }

    /// Returns the address, with the actual port if the options had port 0.
    ///
    /// # Errors
    /// Returns an error if the operating system does not report the address.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(Error::Runtime)
    }

    /// Serves requests with `solver` until `stop`. Returns the solver and a summary of its work.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread or a timer, or if a model was
    /// lost.
    pub fn run(
        self,
        solver: Solver,
        presets: Presets,
        stop: &Stop,
    ) -> Result<(Solver, RunSummary), Error> {
        // One thread suffices for the sockets; the engine needs the other cores.
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
                if let Some(reload) = app.options.reload.clone() {
                    tokio::spawn(heed(Arc::clone(&app), reload));
                }
                listen(listener, app, router).await;
                Ok(())
            })
            .map_err(Error::Runtime)?;
        // Dropping the runtime ends the remaining connections and their searches, for which `close`
        // would otherwise wait.
        drop(runtime);
        Ok(service.close()?)
    }
}
