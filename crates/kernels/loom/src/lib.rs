//! This library is empty. The crate's test checks the thread pool of `beamgen-kernels` under loom:
//! `cargo test --release -p beamgen-pool-models` (`tests/pool.rs`).
