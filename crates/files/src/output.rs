//! Writing of files whose names a user gave: each is written whole or not at all.
//!
//! A temporary file is written in the same folder and, when all bytes are on disk, renamed. An
//! error, a full disk or a kill therefore leaves the old file, or no file. If the name is a link,
//! the link stays and its target is replaced. Pipes, terminals and other character devices are
//! written directly and never replaced. Block devices and sockets are refused.
//! block devices and sockets are refused.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A checked place for output. Check it before the work whose result is written.
#[derive(Debug)]
pub struct Output(To);

#[derive(Debug)]
enum To {
    /// A regular file, which may not exist yet. No part of the path is a link.
    File(PathBuf),
    /// An open pipe, terminal or other character device, or the file behind stdout or stderr.
    Stream(File),
}

impl Output {
    /// Checks that an output can be written. A stream is opened at once and stays open; a file is
    /// unchanged until [`write`](Self::write).
    ///
    /// # Errors
    /// The folder is missing or takes no files; the path names a folder, a socket, a block device,
    /// a write-protected file, or a pipe that nobody reads.
    pub fn open(path: &Path) -> io::Result<Self> {
        let to = find(path)?;
        if let To::File(target) = &to {
            // If a temporary file can be created, the folder is writable; the file is removed at
            // once.
            Aside::create(target)?;
        }
        Ok(Self(to))
    }

    /// Writes the bytes that `fill` produces. After an error a file is unchanged. Another call
    /// replaces the file, or continues the stream.
    ///
    /// # Errors
    /// The errors of `fill` and of the system.
    pub fn write<E: From<io::Error>>(
        &mut self,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.0 {
            To::Stream(stream) => {
                let mut out = BufWriter::new(stream);
                fill(&mut out)?;
                Ok(out.flush()?)
            }
            To::File(target) => put(target, |aside| {
                let mut out = BufWriter::new(File::create(aside)?);
                fill(&mut out)?;
                Ok(out.flush()?)
            }),
        }
    }
}

/// Writes a file whole or not at all.
///
/// # Errors
/// Returns the errors of [`Output::open`], and errors of writing.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    Output(find(path)?).write(|out| out.write_all(bytes.as_ref()))
}

/// Replaces a file. `fill` gets the path of a temporary file and writes the new contents there.
///
/// # Errors
/// The errors of [`Output::open`] and of `fill`, and [`ErrorKind::InvalidInput`] for streams.
pub fn replace<E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    match find(path)? {
        To::File(target) => put(&target, fill),
        To::Stream(_) => Err(refused("is not a regular file: name one").into()),
    }
}

/// Opens a new file or a stream for appending. The second value is true for a stream.
///
/// # Errors
/// The errors of [`Output::open`], and [`ErrorKind::AlreadyExists`].
pub fn create_new(path: &Path) -> io::Result<(File, bool)> {
    match find(path)? {
        To::Stream(stream) => Ok((stream, true)),
        To::File(target) => {
            let mut options = OpenOptions::new();
            options.read(true).append(true).create_new(true);
            Ok((options.open(target)?, false))
        }
    }
}

/// Opens a regular file for reading and appending; creates the file if it does not exist.
///
/// # Errors
/// Returns [`ErrorKind::IsADirectory`] for folders, [`ErrorKind::InvalidInput`] for devices, FIFOs
/// and sockets, and errors of the system.
pub fn append(path: &Path) -> io::Result<File> {
    match crate::open_regular_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path),
    }
}

/// Creates a folder and its missing parents. If the path is a link to a missing folder, that folder
/// is created.
///
/// # Errors
/// The error of the system.
pub fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        Ok(())
    } else {
        fs::create_dir_all(followed(path))
    }
}

/// Whether a folder contains visible files but none of `marks`. The marks are names of files by
/// which a program recognises the folders it wrote.
///
/// # Errors
/// Returns an error of the system, e.g. if the path is not a folder.
pub fn is_foreign_folder(path: &Path, marks: &[&str]) -> io::Result<bool> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    let mut is_empty = true;
    for entry in entries {
        let name = entry?.file_name();
        // One mark is enough, since an interrupted run may have written only some of its files.
        if marks.iter().any(|&mark| name == mark) {
            return Ok(false);
        }
        is_empty &= name.as_encoded_bytes().starts_with(b".");
    }
    Ok(!is_empty)
}

/// Returns the regular file that a path leads to through links, even if the file does not exist
/// yet. `None` for folders, pipes and devices.
///
/// # Errors
/// Returns an error of the system; also for a missing file whose path has no name or no folder.
pub fn place(path: &Path) -> io::Result<Option<PathBuf>> {
    match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => missing(path).map(Some),
        Ok(found) if found.is_file() => path.canonicalize().map(Some),
        found => found.map(|_| None),
    }
}

/// Whether an error is caused by the named path, and not by the machine, e.g. a full disk.
#[must_use]
pub fn is_about_the_name(error: &io::Error) -> bool {
    use ErrorKind::{
        AlreadyExists, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
    };
    matches!(
        error.kind(),
        NotFound | PermissionDenied | IsADirectory | NotADirectory | AlreadyExists | InvalidInput
    )
}

/// The identity of a file; all names of the same file have equal identities.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
    #[cfg(not(unix))]
    path: PathBuf,
}

impl FileId {
    /// Returns the identity of the file, folder or pipe at a path. `None` if nothing exists there,
    /// and for devices, since reading and writing the same terminal is allowed.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let found = path.metadata().ok()?;
        is_file_folder_or_pipe(&found).then(|| Self::new(path, &found))?
    }

    #[cfg(unix)]
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere a path may vanish")]
    fn new(_: &Path, found: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let device_and_inode = (found.dev(), found.ino());
        Some(Self { device_and_inode })
    }

    #[cfg(not(unix))]
    fn new(path: &Path, _: &Metadata) -> Option<Self> {
        let path = path.canonicalize().ok()?;
        Some(Self { path })
    }
}

#[cfg(unix)]
fn is_file_folder_or_pipe(found: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.is_file() || found.is_dir() || found.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_file_folder_or_pipe(_: &Metadata) -> bool {
    true
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, reason)
}

/// Resolves a path to a regular file or opens it as a stream.
fn find(path: &Path) -> io::Result<To> {
    let found = match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(To::File(missing(path)?)),
        found => found?,
    };
    if found.is_dir() {
        return Err(io::Error::new(
            ErrorKind::IsADirectory,
            "is a folder: name a file",
        ));
    }
    // Tested before regular files, because stdout may be redirected to this file.
    if let Some(stream) = stream::standard(&found)? {
        return Ok(To::Stream(stream));
    }
    if !found.is_file() {
        return Ok(To::Stream(stream::open(path, &found)?));
    }
    if !found.permissions().readonly() {
        Ok(To::File(path.canonicalize()?))
    } else {
        Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "is write-protected: allow writing, or name another file",
        ))
    }
}

/// Returns the path that a missing file will have: links are followed, and its folder must exist.
fn missing(path: &Path) -> io::Result<PathBuf> {
    let path = followed(path);
    let name = path.file_name().ok_or_else(|| refused("names no file"))?;
    let folder = folder(&path).canonicalize()?;
    if folder.is_dir() {
        Ok(folder.join(name))
    } else {
        Err(ErrorKind::NotADirectory.into())
    }
}

/// Follows links to their end. The loop ends, since the system found the path missing; for a circle
/// of links it reports another error.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    while let Ok(link) = fs::read_link(&path) {
        path = folder(&path).join(link);
    }
    path
}

fn folder(path: &Path) -> &Path {
    let parent = path.parent();
    parent
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Replaces `target` by the temporary file that `fill` writes.
fn put<E: From<io::Error>>(
    target: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let aside = Aside::create(target)?;
    // The new file gets the permissions of the old one, so a private file stays private. They are
    // read before `fill`, since the target may be deleted meanwhile.
    let permissions = target.metadata().or_else(|_| aside.0.metadata())?;
    fill(&aside.0)?;
    // `fill` may have put another file at the temporary path, with other permissions.
    fs::set_permissions(&aside.0, permissions.permissions())?;
    // Synced before the rename: after a crash the target must not be an empty file.
    OpenOptions::new().append(true).open(&aside.0)?.sync_all()?;
    Ok(fs::rename(&aside.0, target)?)
}

/// An empty file next to the target. Dropping the value removes the file if it was not renamed.
struct Aside(PathBuf);

impl Aside {
    fn create(target: &Path) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            // The target's name is not part of this name, which could become too long.
            let name = format!(".beamgen-{}-{count}.part", std::process::id());
            let path = folder(target).join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                opened => return opened.map(|_| Self(path)),
            }
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // After a rename there is nothing under this name.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(unix)]
mod stream {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io::{self, Write};
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;

    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::io::Errno;

    use super::refused;

    /// Returns stdout or stderr if `found` is the same file. Opening that file again would
    /// overwrite it from its beginning.
    pub(super) fn standard(found: &Metadata) -> io::Result<Option<File>> {
        let is_same = |file: &File| {
            let own = file.metadata();
            own.is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()))
        };
        let (mut stdout, stderr) = (io::stdout(), io::stderr());
        let stdout_file = File::from(stdout.as_fd().try_clone_to_owned()?);
        if is_same(&stdout_file) {
            stdout.flush()?;
            return Ok(Some(stdout_file));
        }
        let stderr = File::from(stderr.as_fd().try_clone_to_owned()?);
        Ok(Some(stderr).filter(is_same))
    }

    /// Opens a pipe or a character device; fails at once if nobody reads the pipe.
    pub(super) fn open(path: &Path, found: &Metadata) -> io::Result<File> {
        let kind = found.file_type();
        if kind.is_block_device() {
            return Err(refused("is a block device: name a file"));
        }
        if kind.is_socket() {
            return Err(refused("is a socket: name a file or a pipe"));
        }
        // Without NONBLOCK, opening a pipe would wait for a reader.
        let at_once = OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(at_once.bits().cast_signed())
            .open(path);
        let file = match opened {
            Err(error)
                if kind.is_fifo() && error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) =>
            {
                return Err(refused(
                    "is a pipe that nobody reads: start its reader first",
                ));
            }
            opened => opened?,
        };
        // NONBLOCK was for opening only: writes should wait while the pipe is full.
        fcntl_setfl(&file, OFlags::empty())?;
        Ok(file)
    }
}

#[cfg(not(unix))]
mod stream {
    use std::fs::{File, Metadata};
    use std::io;
    use std::path::Path;

    use super::refused;

    pub fn standard(_: &Metadata) -> io::Result<Option<File>> {
        Ok(None)
    }

    pub fn open(_: &Path, _: &Metadata) -> io::Result<File> {
        Err(refused("is not a regular file: name one"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names in a folder, sorted.
    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_written_whole_or_not_at_all_and_without_litter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        write(&path, "old").unwrap();
        let mut output = Output::open(&path).unwrap();
        let failed: io::Result<()> = output.write(|out| {
            out.write_all(b"half")?;
            Err(ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let failed: io::Result<()> = replace(&path, |aside| {
            fs::write(aside, "half")?;
            Err(ErrorKind::StorageFull.into())
        });
        assert!(failed.is_err());
        assert_eq!(names(dir.path()), ["report.html"]);
        output.write(|out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        // The second file differs in its extension only and is written while the first one is open.
        let other = dir.path().join("report.json");
        output
            .write(|out| {
                write(&other, "{}")?;
                out.write_all(b"<p>")
            })
            .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"<p>");
        assert_eq!(fs::read(&other).unwrap(), b"{}");
        assert_eq!(names(dir.path()), ["report.html", "report.json"]);
        let longest = dir.path().join("n".repeat(255));
        write(&longest, "as long as names may be").unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_refused_before_the_work() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let refusal = |path: &Path| Output::open(path).unwrap_err();
        fs::write(at("file"), "").unwrap();
        fs::create_dir(at("folder")).unwrap();
        assert_eq!(refusal(&at("none/x")).kind(), ErrorKind::NotFound);
        assert_eq!(refusal(&at("file/x")).kind(), ErrorKind::NotADirectory);
        assert_eq!(refusal(&at("folder")).kind(), ErrorKind::IsADirectory);
        let mut permissions = at("file").metadata().unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(at("file"), permissions).unwrap();
        assert_eq!(refusal(&at("file")).kind(), ErrorKind::PermissionDenied);
        assert!(is_about_the_name(&refusal(&at("file"))));
        assert!(!is_about_the_name(&ErrorKind::StorageFull.into()));
        assert_eq!(names(dir.path()), ["file", "folder"]);
    }

    #[test]
    fn a_folder_is_foreign_if_it_has_files_and_no_mark() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        assert!(!is_foreign_folder(&path, &["rows"]).unwrap());
        create_folder(&path).unwrap();
        create_folder(&path).unwrap();
        fs::write(path.join(".hidden"), "").unwrap();
        assert!(!is_foreign_folder(&path, &["rows"]).unwrap());
        fs::write(path.join("letter"), "").unwrap();
        assert!(is_foreign_folder(&path, &["rows"]).unwrap());
        fs::write(path.join("rows"), "").unwrap();
        assert!(!is_foreign_folder(&path, &["rows"]).unwrap());
        assert!(is_foreign_folder(&path.join("rows"), &[]).is_err());
        assert!(create_folder(&path.join("rows")).is_err());
    }

    #[cfg(unix)]
    mod unix {
        use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
        use std::process::Command;

        use super::*;

        #[test]
        fn links_stay_and_what_they_point_to_is_replaced() {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            fs::create_dir(at("real")).unwrap();
            fs::write(at("real/file"), "old").unwrap();
            let private = fs::Permissions::from_mode(0o600);
            fs::set_permissions(at("real/file"), private).unwrap();
            symlink("real/file", at("link")).unwrap();
            symlink("link", at("link-to-link")).unwrap();
            symlink("real/fresh", at("dangling")).unwrap();
            symlink("circle", at("circle")).unwrap();
            symlink("real/new/folder", at("to-folder")).unwrap();
            write(&at("link-to-link"), "new").unwrap();
            assert_eq!(fs::read(at("real/file")).unwrap(), b"new");
            assert_eq!(at("real/file").metadata().unwrap().mode() & 0o777, 0o600);
            write(&at("dangling"), "made").unwrap();
            assert_eq!(fs::read(at("real/fresh")).unwrap(), b"made");
            let (file, is_stream) = {
                fs::remove_file(at("real/fresh")).unwrap();
                create_new(&at("dangling")).unwrap()
            };
            assert!(!is_stream && file.metadata().unwrap().len() == 0);
            let again = create_new(&at("dangling")).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::AlreadyExists);
            assert!(Output::open(&at("circle")).is_err());
            create_folder(&at("to-folder")).unwrap();
            assert!(at("real/new/folder").is_dir());
            for link in ["link", "link-to-link", "dangling", "circle", "to-folder"] {
                assert!(at(link).is_symlink(), "{link}");
            }
        }

        #[test]
        fn names_of_one_file_have_one_identity() {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            fs::write(at("file"), "").unwrap();
            fs::write(at("other"), "").unwrap();
            fs::hard_link(at("file"), at("hard")).unwrap();
            symlink("hard", at("soft")).unwrap();
            let id = FileId::of(&at("file"));
            assert!(id.is_some());
            assert_eq!(FileId::of(&at("hard")), id);
            assert_eq!(FileId::of(&at("soft")), id);
            assert_ne!(FileId::of(&at("other")), id);
            assert_eq!(FileId::of(&at("none")), None);
            assert_eq!(FileId::of(Path::new("/dev/null")), None);
            symlink("fresh", at("dangling")).unwrap();
            let place = |path: &Path| super::super::place(path).unwrap();
            assert_eq!(place(&at("dangling")), place(&at("fresh")));
            assert_ne!(place(&at("fresh")), place(&at("file")));
            assert_eq!(place(Path::new("/dev/null")), None);
        }

        #[test]
        fn pipes_are_written_through_and_need_a_reader() {
            let dir = tempfile::tempdir().unwrap();
            let fifo = dir.path().join("fifo");
            let made = Command::new("mkfifo").arg(&fifo).status();
            assert!(made.unwrap().success());
            let error = Output::open(&fifo).unwrap_err();
            assert!(error.to_string().contains("nobody reads"), "{error}");
            let path = fifo.clone();
            let reader = std::thread::spawn(move || fs::read(path).unwrap());
            let mut output = loop {
                if let Ok(output) = Output::open(&fifo) {
                    break output;
                }
            };
            // More than a pipe holds, so writing waits for the reader.
            let much = vec![b'x'; 1 << 20];
            output.write(|out| out.write_all(&much)).unwrap();
            output.write(|out| out.write_all(b"end")).unwrap();
            drop(output);
            assert_eq!(reader.join().unwrap(), [&much[..], b"end"].concat());
            assert!(fifo.metadata().unwrap().file_type().is_fifo());
            let error = replace(&fifo, |_| io::Result::Ok(())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let error = append(&fifo).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }

        #[test]
        fn sockets_and_block_devices_are_refused_and_character_devices_stay() {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
            let refusal = |name: &str| Output::open(&at(name)).unwrap_err().to_string();
            assert!(refusal("socket").contains("is a socket"));
            let nodes = [
                ("null", ["c", "1", "3"]),
                ("full", ["c", "1", "7"]),
                ("block", ["b", "7", "250"]),
            ];
            for (name, numbers) in nodes {
                if !made_node(&at(name), &numbers) {
                    let reason = "this user may not make device nodes";
                    beamgen_test_support::skip(beamgen_test_support::Missing::Right, reason);
                    return;
                }
            }
            assert!(refusal("block").contains("is a block device"));
            write(&at("null"), "swallowed").unwrap();
            let error = write(&at("full"), "too much").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            for (name, _) in nodes {
                let kind = at(name).metadata().unwrap().file_type();
                assert!(kind.is_char_device() || kind.is_block_device(), "{name}");
            }
        }

        fn made_node(path: &Path, numbers: &[&str; 3]) -> bool {
            let made = Command::new("mknod").arg(path).args(numbers).output();
            // Where nodes have no power (`nodev`), they are made and cannot be opened.
            made.is_ok_and(|made| made.status.success())
                && (numbers[0] == "b" || OpenOptions::new().write(true).open(path).is_ok())
        }
    }
}
