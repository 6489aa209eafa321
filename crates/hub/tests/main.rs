//! The hub against a server of the hub's protocol on this machine. No test needs the network.

mod caching;
mod data_sets;
mod fetching;
mod python;
mod refusals;
mod resuming;
mod server;
mod setup;
#[allow(
    dead_code,
    reason = "shared with the tests of the program, which use all of it"
)]
mod tls;
mod trust;
mod waiting;
