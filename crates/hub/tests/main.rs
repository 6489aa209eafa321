//! The hub against a server of the hub's protocol on this machine. No test needs the network.

mod caching;
mod fetching;
mod python;
mod refusals;
mod resuming;
mod server;
mod setup;
