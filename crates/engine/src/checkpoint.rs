//! Reads the files of a checkpoint from a directory, from memory or from a GGUF file.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::Error;
use crate::bytes::{Bytes, mapped, refuse_pointer};
use crate::gguf::{self, Gguf};

/// The most bytes of a text file that are read. The longest known one, a `tokenizer.json`, has 35
/// MB.
const TEXT_BYTES: u64 = 256 << 20;

/// The files of a checkpoint: a directory, files embedded in the program, or one GGUF file. A GGUF
/// file's metadata replaces `config.json`, `generation_config.json`, `tokenizer.json` and
/// `tokenizer_config.json`.
///
/// Created from a path. A file whose name ends in `.gguf` is a GGUF file; any other path is a
/// directory.
#[derive(Clone, Debug)]
pub struct Checkpoint(Place);

#[derive(Clone, Debug)]
enum Place {
    Directory(PathBuf),
    Memory {
        name: &'static str,
        files: &'static [(&'static str, &'static [u8])],
    },
    Gguf(Arc<GgufFile>),
}

/// A GGUF file that is opened at its first use.
#[derive(Debug)]
struct GgufFile {
    path: PathBuf,
    file: OnceLock<Arc<Gguf>>,
}

impl GgufFile {
    fn get(&self) -> Result<Arc<Gguf>, Error> {
        if let Some(file) = self.file.get() {
            return Ok(Arc::clone(file));
        }
        // Two threads may both open the file; the first result is kept. An error is not kept, so a
        // later call may succeed.
        let file = Arc::new(Gguf::open(&self.path)?);
        Ok(Arc::clone(self.file.get_or_init(|| file)))
    }
}

impl Checkpoint {
    /// Creates a checkpoint from `(name, contents)` pairs in memory. In messages, `name` stands for
    /// the directory.
    #[must_use]
    pub const fn in_memory(
        name: &'static str,
        files: &'static [(&'static str, &'static [u8])],
    ) -> Self {
        Self(Place::Memory { name, files })
    }

    /// The path of the directory or GGUF file, or the name of files in memory.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.0 {
            Place::Directory(dir) => dir,
            Place::Memory { name, .. } => Path::new(name),
            Place::Gguf(file) => &file.path,
        }
    }

    /// The path of `file` for messages. The file need not exist.
    #[must_use]
    pub fn path_of(&self, file: &str) -> PathBuf {
        self.path().join(file)
    }

    /// Whether the checkpoint has `file`. In a GGUF file, the text files that its metadata replaces
    /// exist.
    #[must_use]
    pub fn has(&self, file: &str) -> bool {
        match &self.0 {
            Place::Directory(dir) => dir.join(file).exists(),
            Place::Memory { files, .. } => find(files, file).is_some(),
            Place::Gguf(_) => gguf::has(file),
        }
    }

    /// Reads a text file. Returns `None` if the file does not exist.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read or is not UTF-8. For a GGUF file also
    /// [`Error::Checkpoint`] if it is truncated or corrupt, [`Error::MissingField`],
    /// [`Error::BadField`] and [`Error::Unsupported`] for its metadata.
    pub fn text(&self, file: &str) -> Result<Option<Cow<'static, str>>, Error> {
        let text = match &self.0 {
            Place::Gguf(place) => return Ok(place.get()?.text(file)?.map(Cow::Owned)),
            Place::Directory(dir) => {
                beamgen_files::read_text_file(&dir.join(file), TEXT_BYTES).map(Cow::Owned)
            }
            Place::Memory { files, .. } => match find(files, file) {
                Some(bytes) => std::str::from_utf8(bytes)
                    .map(Cow::Borrowed)
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e)),
                None => Err(io::ErrorKind::NotFound.into()),
            },
        };
        match text {
            Ok(text) => {
                // A Git LFS pointer would otherwise be reported as invalid JSON, which hides the
                // cause.
                refuse_pointer(&self.path_of(file), text.as_bytes())?;
                Ok(Some(text))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io {
                path: self.path_of(file),
                source,
            }),
        }
    }

    /// Reads a text file like [`text`](Self::text), but a missing file is an error.
    ///
    /// # Errors
    /// [`Error::Io`] if the file does not exist, and the errors of [`Checkpoint::text`].
    pub fn required_text(&self, file: &str) -> Result<Cow<'static, str>, Error> {
        self.text(file)?.ok_or_else(|| self.missing(file))
    }

    /// Returns the bytes of a file. A file in a directory is mapped into memory, not read.
    pub(crate) fn bytes(&self, file: &str) -> Result<Bytes, Error> {
        let bytes = match &self.0 {
            Place::Directory(dir) => return mapped(&dir.join(file)),
            Place::Memory { files, .. } => find(files, file).map(Bytes::Static),
            Place::Gguf(_) => None,
        };
        bytes.ok_or_else(|| self.missing(file))
    }

    /// The GGUF file, which the first call opens; `None` for other checkpoints.
    pub(crate) fn gguf(&self) -> Result<Option<Arc<Gguf>>, Error> {
        match &self.0 {
            Place::Gguf(file) => file.get().map(Some),
            Place::Directory(_) | Place::Memory { .. } => Ok(None),
        }
    }

    /// Refuses a folder with a LoRA adapter. `transformers` would apply the adapter to the weights
    /// in the folder, and this engine would not, so results would differ.
    pub(crate) fn refuse_adapter(&self) -> Result<(), Error> {
        let Some(text) = self.text(ADAPTER)? else {
            return Ok(());
        };
        // The folder is refused in any case, so a broken adapter file only costs the base model's
        // name in the message.
        let config: Value = serde_json::from_str(&text).unwrap_or_default();
        let base = config["base_model_name_or_path"].as_str();
        Err(Error::Checkpoint {
            path: self.path_of(ADAPTER),
            reason: format!(
                "the folder has an adapter (LoRA) of {}, which is not applied; merge it first (merge_and_unload of \
                 Python's peft, then save_pretrained), or move the adapter's files away to use the model without it",
                base.unwrap_or("another model")
            ),
        })
    }

    /// Returns the error for a missing file, with the likely cause.
    fn missing(&self, file: &str) -> Error {
        // A folder with only an adapter lacks most files. The adapter is then the true cause.
        if let Err(adapter) = self.refuse_adapter() {
            return adapter;
        }
        let other = OTHER_TOKENIZERS.iter().find(|name| self.has(name));
        let reason = match other {
            // The other formats replace `tokenizer.json` and no other file.
            Some(other) if file == "tokenizer.json" => {
                let folder = self.path().display();
                format!(
                    "no such file; its tokenizer is in {other}, which is not read; convert it once with Python's \
                     transformers: AutoTokenizer.from_pretrained({folder:?}).save_pretrained({folder:?})"
                )
            }
            _ => "no such file".to_owned(),
        };
        Error::Io {
            path: self.path_of(file),
            source: io::Error::new(io::ErrorKind::NotFound, reason),
        }
    }
}

/// The configuration that peft writes next to an adapter's weights.
const ADAPTER: &str = "adapter_config.json";

/// Tokenizers in formats that are not read: `SentencePiece` (`tokenizer.model`, `spiece.model`),
/// byte-level BPE, `WordPiece` and Mistral's tekken.
const OTHER_TOKENIZERS: [&str; 5] = [
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "tekken.json",
    "spiece.model",
];

fn find(files: &'static [(&str, &'static [u8])], name: &str) -> Option<&'static [u8]> {
    files
        .iter()
        .find(|(file, _)| *file == name)
        .map(|(_, bytes)| *bytes)
}

impl From<&Path> for Checkpoint {
    fn from(path: &Path) -> Self {
        let extension = path.extension().and_then(|e| e.to_str());
        // A directory whose name ends in `.gguf` is still a directory.
        Self(match extension {
            Some(e) if e.eq_ignore_ascii_case("gguf") && !path.is_dir() => {
                Place::Gguf(Arc::new(GgufFile {
                    path: path.to_owned(),
                    file: OnceLock::new(),
                }))
            }
            _ => Place::Directory(path.to_owned()),
        })
    }
}

impl From<&PathBuf> for Checkpoint {
    fn from(path: &PathBuf) -> Self {
        path.as_path().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_and_memory_answer_alike() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.json"), "{}").unwrap();
        std::fs::write(dir.path().join("b.json"), b"\xff").unwrap();
        let files: &[(&str, &[u8])] = &[("a.json", b"{}"), ("b.json", b"\xff")];
        for checkpoint in [
            Checkpoint::from(dir.path()),
            Checkpoint::in_memory("bundled", files),
        ] {
            assert!(checkpoint.has("a.json") && !checkpoint.has("c.json"));
            assert_eq!(checkpoint.text("a.json").unwrap().as_deref(), Some("{}"));
            assert_eq!(checkpoint.text("c.json").unwrap(), None);
            assert_eq!(&*checkpoint.bytes("b.json").unwrap(), b"\xff");
            for file in ["b.json", "c.json"] {
                let error = checkpoint.required_text(file).unwrap_err().to_string();
                assert!(
                    error.contains(&*checkpoint.path_of(file).display().to_string()),
                    "{error}"
                );
            }
            assert!(checkpoint.bytes("c.json").is_err());
        }
    }

    #[test]
    fn what_git_left_behind_is_told_as_that() {
        let dir = tempfile::tempdir().unwrap();
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
        let file = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, pointer).unwrap();
            path
        };
        file("tokenizer.json");
        file("model.safetensors");
        let checkpoint = Checkpoint::from(dir.path());
        for error in [
            checkpoint.text("tokenizer.json").unwrap_err(),
            checkpoint.bytes("model.safetensors").unwrap_err(),
            Checkpoint::from(&file("m.gguf")).gguf().unwrap_err(),
            crate::Weights::load(dir.path()).unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(error.contains("git lfs pull"), "{error}");
            assert!(
                error.contains(&*dir.path().display().to_string()),
                "{error}"
            );
        }
    }

    #[test]
    fn folders_that_lack_a_file_say_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let checkpoint = Checkpoint::from(dir.path());
        let missing = |file: &str| checkpoint.required_text(file).unwrap_err().to_string();
        assert!(missing("tokenizer.json").ends_with("tokenizer.json: no such file"));
        write("tokenizer.model", "");
        assert!(missing("config.json").ends_with("config.json: no such file"));
        let error = missing("tokenizer.json");
        assert!(
            error.contains("in tokenizer.model") && error.contains("save_pretrained"),
            "{error}"
        );
        write(
            "adapter_config.json",
            r#"{"base_model_name_or_path": "org/base"}"#,
        );
        for error in [
            missing("config.json"),
            crate::Weights::load(dir.path()).unwrap_err().to_string(),
        ] {
            assert!(
                error.contains("of org/base") && error.contains("merge_and_unload"),
                "{error}"
            );
        }
    }
}
