//! The server over plain HTTP, with the bundled pair.

mod access;
#[path = "../client.rs"]
mod client;
mod company;
mod limits;
mod log;
mod long;
mod openapi;
mod origins;
mod refusals;
mod reload;
mod routes;
mod stopping;
mod streams;
