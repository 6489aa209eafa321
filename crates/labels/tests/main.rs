//! The formats, on texts of our own and on data that others labelled.

#[path = "labels/exported.rs"]
mod exported;
#[path = "labels/formats.rs"]
mod formats;
#[path = "labels/hostile.rs"]
mod hostile;
#[path = "labels/imported.rs"]
mod imported;
#[path = "labels/real_data.rs"]
mod real_data;
