//! A running solver: its service, its open requests, and the id of the process that owns it.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use beamgen::Service;
use pyo3::prelude::*;

use crate::causes::Causes;
use crate::errors::{self, RunError};
use crate::lock::lock;
use crate::requests::Slots;

pub struct Running {
    /// The service; `None` after `close`. A forked process must never drop the service: the
    /// engine's thread does not exist there, and may have held a lock during the fork.
    service: ManuallyDrop<Mutex<Option<Service>>>,
    groups: Mutex<Vec<Weak<Slots>>>,
    process: u32,
    pub causes: Arc<Causes>,
    closing: Arc<AtomicBool>,
}

impl Running {
    pub fn new(service: Service, causes: Arc<Causes>, closing: Arc<AtomicBool>) -> Self {
        Self {
            service: ManuallyDrop::new(Mutex::new(Some(service))),
            groups: Mutex::default(),
            process: std::process::id(),
            causes,
            closing,
        }
    }

    /// Whether this is the process that the solver was made in.
    pub fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Fails in a forked process.
    ///
    /// # Errors
    /// Returns an error if this process was forked after the solver was made.
    pub fn check_process(&self) -> PyResult<()> {
        if self.is_here() {
            Ok(())
        } else {
            Err(RunError::new_err(format!(
                "this solver belongs to process {}: a forked process has to make its own, \
             or use multiprocessing's start method \"spawn\"",
                self.process
            )))
        }
    }

    /// Returns a handle to the service.
    ///
    /// # Errors
    /// Returns an error if the solver is closed, or if this process was forked after the solver was
    /// made.
    pub fn service(&self) -> PyResult<Service> {
        self.check_process()?;
        lock(&self.service).clone().ok_or_else(errors::closed)
    }

    /// Remembers a group of requests, so that `close` can cancel it.
    pub fn watch(&self, slots: &Arc<Slots>) {
        let mut groups = lock(&self.groups);
        groups.retain(|group| group.strong_count() > 0);
        groups.push(Arc::downgrade(slots));
    }

    /// Takes no more requests, cancels those that are out, and waits for the engine's thread. Does
    /// nothing the second time.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        let service = lock(&self.service).take();
        for slots in lock(&self.groups).iter().filter_map(Weak::upgrade) {
            slots.cancel();
        }
        if let Some(service) = service {
            // The only possible error is a lost model, which the open requests have reported
            // already.
            let _ = service.close();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_here() {
            lock(&self.service).take();
        }
    }
}
