//! The folder of one run of a sandbox.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// A folder that is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn new() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // A canonical path, because the view of the file system has no links on the way.
        let parent = std::env::temp_dir().canonicalize()?;
        let path = loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("beamgen-sandbox-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => break path,
                // Left by a process that was killed and had the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        let folder = Self { path };
        fs::create_dir(folder.scratch())?;
        fs::create_dir(folder.view())?;
        sys::give_to_nobody(&folder.scratch())?;
        Ok(folder)
    }

    pub(super) fn scratch(&self) -> PathBuf {
        self.path.join("scratch")
    }

    pub(super) fn view(&self) -> PathBuf {
        self.path.join("view")
    }

    pub(super) fn report(&self) -> PathBuf {
        self.path.join("report")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.path).is_ok() {
            return;
        }
        // A program may leave folders without rights, or deeper than the library can follow.
        for [tool, argument] in [["chmod", "-R"], ["rm", "-rf"]] {
            let mut command = Command::new(tool);
            command.arg(argument);
            if tool == "chmod" {
                command.arg("u+rwx");
            }
            let command = command.arg("--").arg(&self.path);
            // `drop` cannot return an error.
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}
