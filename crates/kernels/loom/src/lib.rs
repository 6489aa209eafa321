//! An empty library: `cargo test --release -p beamgen-pool-models` checks models of the thread pool
//! of `beamgen-kernels` (`tests/pool.rs`).
