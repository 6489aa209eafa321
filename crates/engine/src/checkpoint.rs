//! Reads the files of a checkpoint from a directory, from memory or from a GGUF file.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::Error;
use crate::bytes::{Bytes, mapped, refuse_pointer};
use crate::gguf::{self, Gguf};
use crate::vocabulary_files::{self, MERGES, VOCABULARY};

/// The most bytes of a text file that are read. The longest known one, a `tokenizer.json`, has 35
/// MB.
const TEXT_BYTES: u64 = 256 << 20;

/// The files of a checkpoint: a directory, files embedded in the program, or one GGUF file. A GGUF
/// file's metadata replaces `config.json`, `generation_config.json`, `tokenizer.json` and
/// `tokenizer_config.json`.
///
/// Created from a path. A file whose name ends in `.gguf` is a GGUF file; any other path is a
/// directory. In a directory without `tokenizer.json`, the older pair `vocab.json` and `merges.txt`
/// replaces it. A directory with a LoRA adapter of Python's peft has a base, whose files it has where
/// it lacks its own.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    place: Place,
    base: Option<Arc<Checkpoint>>,
    tokenizer: Option<Arc<Checkpoint>>,
}

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
        Self {
            place: Place::Memory { name, files },
            base: None,
            tokenizer: None,
        }
    }

    /// Returns the checkpoint with this base. Its own files come first; a file that it lacks is the
    /// base's.
    #[must_use]
    pub fn with_base(mut self, base: Self) -> Self {
        self.base = Some(Arc::new(base));
        self
    }

    /// Returns the checkpoint with the tokenizer of another one: its files of a tokenizer, chat
    /// template included, replace all of this checkpoint's.
    #[must_use]
    pub fn with_tokenizer(mut self, other: Self) -> Self {
        self.tokenizer = Some(Arc::new(other));
        self
    }

    /// The path of the checkpoint that the tokenizer is from, if it is another one.
    #[must_use]
    pub fn tokenizer_path(&self) -> Option<&Path> {
        self.tokenizer.as_ref().map(|other| other.path())
    }

    /// Whether the checkpoint is an adapter, which has only the changes of a base model.
    #[must_use]
    pub fn is_adapter(&self) -> bool {
        self.has_own(ADAPTER)
    }

    /// The name of the model that an adapter belongs to, as `adapter_config.json` has it, and the
    /// revision on the hub; `None` if the checkpoint is not an adapter.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Json`] for an unreadable file, and [`Error::Checkpoint`] if it names
    /// no model.
    pub fn base_name(&self) -> Result<Option<(String, Option<String>)>, Error> {
        let Some(text) = self.own_text(ADAPTER)? else {
            return Ok(None);
        };
        let path = self.own_path_of(ADAPTER);
        let config: Value =
            serde_json::from_str(&text).map_err(|error| Error::json(&path, error))?;
        let text_of = |field: &str| config[field].as_str().filter(|text| !text.is_empty());
        let Some(name) = text_of("base_model_name_or_path") else {
            return Err(Error::checkpoint(
                &path,
                "base_model_name_or_path names no model",
            ));
        };
        Ok(Some((
            name.to_owned(),
            text_of("revision").map(str::to_owned),
        )))
    }

    /// Gives an adapter its base, if that is a folder on this machine. A relative path may start at
    /// the adapter's folder. An unreadable adapter has no base; whoever needs the base gets the
    /// error.
    fn with_local_base(self) -> Self {
        let Ok(Some((name, _))) = self.base_name() else {
            return self;
        };
        let paths = [PathBuf::from(&name), self.path().join(&name)];
        // The base of an adapter is not an adapter: two of them could be each other's base.
        let is_base = |path: &&PathBuf| path.is_dir() && !path.join(ADAPTER).exists();
        match paths.iter().find(is_base) {
            Some(path) => {
                let base = Self::from(path);
                self.with_base(base)
            }
            None => self,
        }
    }

    /// The path of an adapter's base, if it is known.
    #[must_use]
    pub fn base_path(&self) -> Option<&Path> {
        self.base.as_ref().map(|base| base.path())
    }

    /// Returns the base of an adapter.
    pub(crate) fn base(&self) -> Result<&Self, Error> {
        if let Some(base) = &self.base {
            return Ok(base);
        }
        let name = self.base_name()?.map_or_else(String::new, |(name, _)| name);
        let reason = format!(
            "the adapter belongs to {name:?}, which is not the folder of a model on this machine: download it, and write its path as \
             base_model_name_or_path"
        );
        Err(Error::checkpoint(&self.own_path_of(ADAPTER), reason))
    }

    /// The path of the directory or GGUF file, or the name of files in memory.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.place {
            Place::Directory(dir) => dir,
            Place::Memory { name, .. } => Path::new(name),
            Place::Gguf(file) => &file.path,
        }
    }

    /// The path of `file` for messages. The file need not exist.
    #[must_use]
    pub fn path_of(&self, file: &str) -> PathBuf {
        self.holder(file).own_path_of(file)
    }

    fn own_path_of(&self, file: &str) -> PathBuf {
        self.path().join(file)
    }

    /// Returns the checkpoint that has a file: the base if only the base has it.
    fn holder(&self, file: &str) -> &Self {
        match (&self.tokenizer, &self.base) {
            (Some(other), _) if OF_TOKENIZER.contains(&file) => other.holder(file),
            (_, Some(base)) if !self.has_own(file) && base.has(file) => base.holder(file),
            _ => self,
        }
    }

    /// Whether the checkpoint has `file`. In a GGUF file, the text files that its metadata replaces
    /// exist.
    #[must_use]
    pub fn has(&self, file: &str) -> bool {
        self.holder(file).has_own(file)
    }

    fn has_own(&self, file: &str) -> bool {
        match &self.place {
            Place::Directory(dir) => dir.join(file).exists() || self.builds(file),
            Place::Memory { files, .. } => find(files, file).is_some(),
            Place::Gguf(_) => gguf::has(file),
        }
    }

    /// Whether `file` is a `tokenizer.json` that the directory has as the older pair of files.
    fn builds(&self, file: &str) -> bool {
        let has = |file| matches!(&self.place, Place::Directory(dir) if dir.join(file).exists());
        file == TOKENIZER && !has(TOKENIZER) && has(VOCABULARY) && has(MERGES)
    }

    /// Reads a text file. Returns `None` if the file does not exist.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read or is not UTF-8. For a GGUF file also
    /// [`Error::Checkpoint`] if it is truncated or corrupt, [`Error::MissingField`],
    /// [`Error::BadField`] and [`Error::Unsupported`] for its metadata.
    pub fn text(&self, file: &str) -> Result<Option<Cow<'static, str>>, Error> {
        self.holder(file).own_text(file)
    }

    fn own_text(&self, file: &str) -> Result<Option<Cow<'static, str>>, Error> {
        if self.builds(file) {
            let files = vocabulary_files::Files {
                folder: self.path(),
                read: &|file| self.text(file),
            };
            return vocabulary_files::tokenizer(&files).map(|text| Some(text.into()));
        }
        let text = match &self.place {
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
                refuse_pointer(&self.own_path_of(file), text.as_bytes())?;
                Ok(Some(text))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io {
                path: self.own_path_of(file),
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
        let bytes = match &self.holder(file).place {
            Place::Directory(dir) => return mapped(&dir.join(file)),
            Place::Memory { files, .. } => find(files, file).map(Bytes::Static),
            Place::Gguf(_) => None,
        };
        bytes.ok_or_else(|| self.missing(file))
    }

    /// The GGUF file, which the first call opens; `None` for other checkpoints.
    pub(crate) fn gguf(&self) -> Result<Option<Arc<Gguf>>, Error> {
        match &self.place {
            Place::Gguf(file) => file.get().map(Some),
            Place::Directory(_) | Place::Memory { .. } => Ok(None),
        }
    }

    /// Returns the error for a missing file, with the likely cause.
    fn missing(&self, file: &str) -> Error {
        // A folder with an adapter lacks most files. The missing base is then the true cause.
        if self.is_adapter()
            && let Err(error) = self.base()
        {
            return error;
        }
        let other = OTHER_TOKENIZERS.iter().find(|name| self.has(name));
        let reason = match other {
            // The other formats replace `tokenizer.json` and no other file.
            Some(&VOCABULARY) if file == TOKENIZER => {
                format!("no such file, and {VOCABULARY} needs {MERGES}, which is missing")
            }
            Some(other) if file == TOKENIZER => {
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
pub(crate) const ADAPTER: &str = "adapter_config.json";

const TOKENIZER: &str = "tokenizer.json";

/// The files that belong to a tokenizer and not to a model's weights.
const OF_TOKENIZER: [&str; 8] = [
    TOKENIZER,
    VOCABULARY,
    MERGES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
];

/// Tokenizers in formats that are not read: `SentencePiece` (`tokenizer.model`, `spiece.model`),
/// byte-level BPE without its merges, `WordPiece` and Mistral's tekken.
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
        let place = match extension {
            Some(e) if e.eq_ignore_ascii_case("gguf") && !path.is_dir() => {
                Place::Gguf(Arc::new(GgufFile {
                    path: path.to_owned(),
                    file: OnceLock::new(),
                }))
            }
            _ => Place::Directory(path.to_owned()),
        };
        let checkpoint = Self {
            place,
            base: None,
            tokenizer: None,
        };
        checkpoint.with_local_base()
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
            assert!(error.contains("belongs to \"org/base\""), "{error}");
        }
    }
}
