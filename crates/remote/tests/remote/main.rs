//! Generators and scorers over servers: against the local models, and against servers that fail.

#[path = "../../../generator/tests/tiny/mod.rs"]
mod tiny;

mod brain;
mod chats;
mod fake;
mod faults;
mod generating;
mod odd_values;
mod openai;
mod runs;
mod scoring;
mod stops;
