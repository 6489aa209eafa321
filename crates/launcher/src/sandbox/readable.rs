//! The folders that a program in a sandbox may read.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::LaunchError;

/// Programs and libraries of the system. Not all of `/usr`, since containers keep other files there;
/// not `/etc`, since it has secrets.
const SYSTEM: [&str; 24] = [
    "/bin",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/sbin",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/bin",
    "/usr/local/include",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/libexec",
    "/usr/sbin",
    "/usr/share",
];

/// Folders of programs, for a program that is named without a path.
const PROGRAMS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// The parts of an installation next to its folder `bin`. The rest of such a folder may be
/// somebody's home.
const INSTALLATION: [&str; 5] = ["bin", "lib", "lib64", "libexec", "pyvenv.cfg"];

/// The longest chain of links to a program.
const LINKS: usize = 40;

/// Returns the absolute path of a program. Its last part may be a link, which says where Python finds
/// its packages.
pub(super) fn find(program: &Path) -> Result<PathBuf, LaunchError> {
    let found = if program.components().count() == 1 && program.is_relative() {
        let paths = PROGRAMS
            .iter()
            .map(|folder| Path::new(folder).join(program));
        paths.into_iter().find(|path| path.is_file())
    } else {
        absolute(program).ok().filter(|path| path.is_file())
    };
    found.ok_or_else(|| LaunchError::Program {
        program: program.to_owned(),
        source: io::Error::from(ErrorKind::NotFound),
    })
}

/// Returns a path whose folder has neither links nor `..`. The path must name a file in a folder.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let folder = std::path::absolute(path)?;
    let folder = folder.parent().ok_or(ErrorKind::InvalidInput)?;
    Ok(folder.canonicalize()?.join(name))
}

/// Returns everything that a program may read: the system, the program's installation and `more`.
/// No path is below another.
pub(super) fn all(program: &Path, more: &[PathBuf]) -> Result<Vec<PathBuf>, LaunchError> {
    let mut paths: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    installation(program, &mut paths);
    paths.retain(|path| path.exists());
    for path in more {
        let real = path
            .canonicalize()
            .map_err(|source| LaunchError::Readable {
                path: path.clone(),
                source,
            })?;
        // The program may use the name that it was told.
        paths.extend(absolute(path).ok());
        paths.push(real);
    }
    paths.sort();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.iter().any(|above| path.starts_with(above)) {
            kept.push(path);
        }
    }
    Ok(kept)
}

/// Adds the parts of the program's installation, and those of each program that it is a link to.
fn installation(program: &Path, paths: &mut Vec<PathBuf>) {
    let mut program = program.to_owned();
    for _ in 0..LINKS {
        let folder = program.parent().unwrap_or(Path::new("/"));
        let prefix = folder.parent().filter(|_| folder.ends_with("bin"));
        if let Some(prefix) = prefix {
            paths.extend(INSTALLATION.iter().map(|part| prefix.join(part)));
        } else {
            paths.push(program.clone());
        }
        let Ok(target) = fs::read_link(&program) else {
            return;
        };
        let Ok(target) = absolute(&folder.join(target)) else {
            return;
        };
        program = target;
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_found_behind_links_and_nothing_next_to_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a path");
        for path in [
            "base/bin",
            "base/lib/python3",
            "base/.ssh",
            "venv/bin",
            "venv/secrets",
        ] {
            fs::create_dir_all(root.join(path)).expect("a folder");
        }
        for file in ["base/bin/python3.11", "venv/pyvenv.cfg", "base/token"] {
            fs::write(root.join(file), "").expect("a file");
        }
        let link = root.join("venv/bin/python");
        std::os::unix::fs::symlink("../../base/bin/python3.11", &link).expect("a link");
        let found = find(&root.join("venv/../venv/bin/python")).expect("a program");
        assert_eq!(found, link);
        let extra = root.join("venv/bin/../secrets");
        let paths = all(&found, &[extra]).expect("paths");
        for path in [
            "base/bin",
            "base/lib",
            "venv/bin",
            "venv/pyvenv.cfg",
            "venv/secrets",
        ] {
            assert!(paths.contains(&root.join(path)), "{path}: {paths:?}");
        }
        for path in [".", "base", "base/.ssh", "base/token", "venv"] {
            assert!(!paths.contains(&root.join(path)), "{path}: {paths:?}");
        }
        let missing = all(&found, &["/no/such".into()]).expect_err("missing");
        assert!(missing.to_string().contains("/no/such"), "{missing}");
    }

    #[test]
    fn names_are_looked_for_in_folders_of_the_system_only() {
        assert!(find(Path::new("sh")).expect("a shell").is_absolute());
        assert!(find(Path::new("no-such-program")).is_err());
        assert!(find(Path::new("/")).is_err());
    }
}
