//! The server over plain HTTP, with the bundled pair.

mod access;
#[path = "../client.rs"]
mod client;
mod company;
mod limits;
mod long;
mod refusals;
mod routes;
mod stopping;
mod streams;
