//! Systems without process groups: programs are not started, since they could not be ended
//! reliably.

use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::LaunchError;

const REASON: &str = "other programs are started on Unix only";

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, REASON)
}

#[derive(Debug)]
pub(crate) enum Control {}

pub(crate) fn control() -> io::Result<(Control, Stdio)> {
    Err(refused())
}

pub(crate) fn close(control: &Control) {
    match *control {}
}

pub(crate) fn hand_over(control: &Control, _input: PipeReader) -> io::Result<()> {
    match *control {}
}

pub(crate) fn this_program() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

pub(crate) fn guard(_own: &[OsString], _instructions: &[OsString]) -> Result<u8, LaunchError> {
    Err(LaunchError::Instructions(REASON.to_owned()))
}

pub(crate) fn become_program(_instructions: &[OsString]) -> Result<u8, LaunchError> {
    Err(LaunchError::Instructions(REASON.to_owned()))
}

pub(crate) fn init() -> Result<u8, LaunchError> {
    Err(LaunchError::Instructions(REASON.to_owned()))
}

pub(crate) fn give_to_nobody(_folder: &Path) -> io::Result<()> {
    Err(refused())
}

pub(crate) fn signal(control: &Control) -> Option<i32> {
    match *control {}
}
