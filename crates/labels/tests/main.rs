//! Tests of the formats, on texts made for the tests and on published data, and of Monte Carlo
//! labels, on a scripted generator.

#[path = "labels/annotate.rs"]
mod annotate;
#[path = "labels/exported.rs"]
mod exported;
#[path = "labels/formats.rs"]
mod formats;
#[path = "labels/hostile.rs"]
mod hostile;
#[path = "labels/imported.rs"]
mod imported;
#[path = "labels/monte_carlo.rs"]
mod monte_carlo;
#[path = "labels/parts.rs"]
mod parts;
#[path = "labels/real_data.rs"]
mod real_data;
#[allow(
    dead_code,
    reason = "shared with the tests of the crate search, which use all of it"
)]
#[path = "../../search/tests/search/scripted.rs"]
mod scripted;
