//! Forward passes, on the CPU or on a CUDA device. A runner owns the memory of keys and values and
//! the activations; the engine owns sequences and page tables.

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
mod cuda;

use std::sync::Arc;

use beamgen_kernels::ThreadPool;

use crate::model::Packed;
use crate::{EngineConfig, Error, Model, ModelConfig};
pub(crate) use cpu::CpuRunner;
#[cfg(feature = "cuda")]
pub(crate) use cuda::CudaRunner;

#[derive(Debug)]
pub(crate) enum Runner {
    Cpu(Box<CpuRunner>),
    #[cfg(feature = "cuda")]
    Cuda(Box<CudaRunner>),
}

macro_rules! on_each {
    ($runner:expr, $each:ident => $call:expr) => {
        match $runner {
            Runner::Cpu($each) => $call,
            #[cfg(feature = "cuda")]
            Runner::Cuda($each) => $call,
        }
    };
}

impl Runner {
    /// Creates a runner on the model's device. Also returns the number of pages that the budget
    /// allows.
    pub(crate) fn new(
        model: &Arc<Model>,
        config: &EngineConfig,
        pool: &ThreadPool,
    ) -> Result<(Self, usize), Error> {
        Ok(match model.packed() {
            Packed::Cpu(decoder) => {
                let (runner, pages) = CpuRunner::new(model.config(), decoder, config, pool)?;
                (Self::Cpu(Box::new(runner)), pages)
            }
            #[cfg(feature = "cuda")]
            Packed::Cuda(decoder) => {
                let (runner, pages) = CudaRunner::new(model.config(), decoder, config)?;
                (Self::Cuda(Box::new(runner)), pages)
            }
        })
    }

    /// The bytes of a page: the keys and values of its positions in all layers.
    pub(crate) fn page_bytes(&self) -> usize {
        on_each!(self, runner => runner.page_bytes())
    }

    /// The bytes of the runner's memory besides keys and values.
    pub(crate) fn buffer_bytes(&self) -> usize {
        on_each!(self, runner => runner.buffer_bytes())
    }

    /// The most segments in a chunk, summed over its rows. (A segment is a fixed number of
    /// positions that a row attends to.)
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables))]
    pub(crate) fn most_segments(&self, c: &ModelConfig, rows: usize) -> usize {
        match self {
            // The processor keeps no partial results per segment, so it has no limit.
            Self::Cpu(_) => usize::MAX,
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => cuda::most_partials(c, rows),
        }
    }

    /// Allocates the memory of pages `0..pages`, and computes the rotations of positions up to
    /// `longest`.
    pub(crate) fn prepare(&mut self, pages: usize, longest: usize) {
        match self {
            Self::Cpu(runner) => runner.prepare(pages, longest),
            // A device's memory is allocated when its runner is created, because recorded graphs
            // keep addresses.
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => {}
        }
    }

    /// Gives the memory of a free page back to the system. A device keeps it.
    pub(crate) fn discard_page(&mut self, page: u32) {
        match self {
            Self::Cpu(runner) => runner.kv.discard_page(page),
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => {}
        }
    }

    /// Copies a page: the keys and values of its positions in all layers.
    pub(crate) fn copy_page(&mut self, from: u32, to: u32) -> Result<(), Error> {
        match self {
            Self::Cpu(runner) => runner.kv.copy_page(from, to),
            #[cfg(feature = "cuda")]
            Self::Cuda(runner) => runner.copy_page(from, to)?,
        }
        Ok(())
    }
}
