//! The server over plain HTTP, with the bundled pair.

mod access;
mod chats;
mod choices;
#[path = "../client.rs"]
mod client;
mod company;
mod fields;
mod limits;
mod log;
mod long;
mod monitoring;
mod openapi;
mod origins;
mod pair;
mod refusals;
mod reload;
mod reward_batches;
mod rewards;
mod routes;
mod seeds;
mod stopping;
mod streams;
mod thinking;
mod tools;
mod trainers;
mod verifiers;
mod writing;
