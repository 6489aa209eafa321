//! Parsing of models' names, and of the addresses of models' pages.

use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use crate::error::RequestError;
use crate::{HubError, NameError, PathError};

/// The host names of the public hub; the second is its short form.
pub(crate) const PUBLIC_HOSTS: [&str; 2] = ["huggingface.co", "hf.co"];

/// A repository at a revision, or one GGUF file in it: `ORG/NAME`, `ORG/NAME@REVISION`,
/// `ORG/NAME:FILE.gguf`, `ORG/NAME@REVISION:FILE.gguf`. In `ORG/NAME:Q4_K_M` the file is chosen by
/// its quantisation, in upper or lower case.
///
/// A revision is a branch, a tag or a commit, by default `main`. No part of a name is empty, `.` or
/// `..`, so a name cannot lead out of the cache. The address of a model's page on `huggingface.co`
/// or `hf.co` can be parsed, too; for other hubs see [`Hub::model`](crate::Hub::model).
///
/// ```
/// # use beamgen_hub::ModelId;
/// let id: ModelId = "Qwen/Qwen2.5-0.5B-Instruct-GGUF@main:qwen2.5-0.5b-instruct-q8_0.gguf".parse()?;
/// assert_eq!(id.repo(), "Qwen/Qwen2.5-0.5B-Instruct-GGUF");
/// assert_eq!(id.file(), Some("qwen2.5-0.5b-instruct-q8_0.gguf"));
/// assert_eq!("https://huggingface.co/org/name/tree/v1".parse::<ModelId>()?, "org/name@v1".parse()?);
/// assert!("../weights".parse::<ModelId>().is_err());
/// # Ok::<(), beamgen_hub::HubError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId {
    kind: Kind,
    repo: String,
    revision: String,
    gguf: Option<Gguf>,
}

/// The kind of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Model,
    DataSet,
}

/// The name of a data set: `ORG/NAME` or `ORG/NAME@REVISION`, or the address of its page. Without a
/// revision the Hub's conversion to Parquet is meant.
///
/// ```
/// # use beamgen_hub::DataSetId;
/// let id: DataSetId = "HuggingFaceH4/MATH-500".parse()?;
/// assert_eq!(id.to_string(), "HuggingFaceH4/MATH-500");
/// # Ok::<(), beamgen_hub::HubError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataSetId {
    repo: String,
    revision: Option<String>,
}

impl DataSetId {
    /// Returns the repository in the form `ORG/NAME`.
    #[must_use]
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// Parses a data set's name, or the address of its page at `endpoint` or on the public hub.
    pub(crate) fn at(endpoint: &str, name: &str) -> Result<Self, HubError> {
        let parsed = match page(name, endpoint) {
            Some(page) => match page.strip_prefix("datasets/") {
                Some(page) => parse_page(page),
                None => Err(NameError::Page),
            },
            None => parse(name),
        };
        let parsed = parsed.and_then(|id| match id.gguf {
            Some(_) => Err(NameError::Form),
            None => Ok(id),
        });
        let id = parsed.map_err(|reason| HubError::BadDataSetId {
            id: name.to_owned(),
            reason,
        })?;
        let is_named =
            name.contains('@') || page(name, endpoint).is_some_and(|p| p.contains("/tree/"));
        Ok(Self {
            repo: id.repo,
            revision: is_named.then_some(id.revision),
        })
    }

    /// Returns the repository at the named revision, or at `usual`.
    pub(crate) fn at_revision(&self, usual: &str) -> ModelId {
        ModelId {
            kind: Kind::DataSet,
            repo: self.repo.clone(),
            revision: self.revision.as_deref().unwrap_or(usual).to_owned(),
            gguf: None,
        }
    }

    pub(crate) fn names_revision(&self) -> bool {
        self.revision.is_some()
    }
}

impl FromStr for DataSetId {
    type Err = HubError;

    fn from_str(id: &str) -> Result<Self, HubError> {
        Self::at("https://huggingface.co", id)
    }
}

impl fmt::Display for DataSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repo)?;
        match &self.revision {
            Some(revision) => write!(f, "@{revision}"),
            None => Ok(()),
        }
    }
}

/// The way in which one GGUF file is requested.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Gguf {
    File(String),
    Quantisation(String),
}

impl ModelId {
    /// Returns the repository in the form `ORG/NAME`.
    #[must_use]
    pub fn repo(&self) -> &str {
        &self.repo
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the branch, tag or commit; `main` by default.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Returns the GGUF file, if one was requested by its name.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        match &self.gguf {
            Some(Gguf::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Returns the quantisation, e.g. `Q4_K_M`, if a GGUF file was requested by quantisation.
    #[must_use]
    pub fn quantisation(&self) -> Option<&str> {
        match &self.gguf {
            Some(Gguf::Quantisation(quantisation)) => Some(quantisation),
            _ => None,
        }
    }

    /// Returns the revision if it is a full commit hash, whose files never change.
    pub(crate) fn commit(&self) -> Option<&str> {
        is_commit(&self.revision).then_some(self.revision.as_str())
    }

    /// Parses a model's name, or the address of its page at `endpoint` or on the public hub.
    pub(crate) fn at(endpoint: &str, name: &str) -> Result<Self, HubError> {
        let parsed = match page(name, endpoint) {
            Some(page) => parse_page(page),
            None if name.contains("://") => Err(NameError::OtherHub(endpoint.to_owned())),
            None => parse(name),
        };
        parsed.map_err(|reason| HubError::BadModelId {
            id: name.to_owned(),
            reason,
        })
    }

    /// Returns the requested GGUF file among a repository's files; `None` if the whole repository
    /// was requested.
    pub(crate) fn gguf_among<'a>(
        &self,
        files: impl Iterator<Item = &'a str>,
    ) -> Result<Option<String>, RequestError> {
        let quantisation = match &self.gguf {
            None => return Ok(None),
            Some(Gguf::File(file)) => return Ok(Some(file.clone())),
            Some(Gguf::Quantisation(quantisation)) => quantisation,
        };
        let gguf: Vec<String> = files.filter(|f| is_gguf(f)).map(str::to_owned).collect();
        let mut matching = gguf.clone();
        matching.retain(|file| has_quantisation(file, quantisation));
        // Two matching files are an error: choosing the first would depend on the order of the
        // listing.
        match (matching.pop(), matching.is_empty()) {
            (Some(one), true) => Ok(Some(one)),
            (last, _) => {
                matching.extend(last);
                Err(RequestError::Quantisation {
                    quantisation: quantisation.clone(),
                    matching,
                    gguf,
                })
            }
        }
    }
}

impl FromStr for ModelId {
    type Err = HubError;

    fn from_str(id: &str) -> Result<Self, HubError> {
        Self::at("https://huggingface.co", id)
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.repo, self.revision)?;
        match &self.gguf {
            Some(Gguf::File(text) | Gguf::Quantisation(text)) => write!(f, ":{text}"),
            None => Ok(()),
        }
    }
}

/// Returns the path of an address at `endpoint` or on the public hub, without the first slash;
/// `None` for other texts.
fn page<'a>(text: &'a str, endpoint: &str) -> Option<&'a str> {
    if let Some(path) = text.strip_prefix(endpoint) {
        return path.strip_prefix('/');
    }
    let mut schemes = ["https://", "http://"].into_iter();
    let plain = schemes.find_map(|scheme| text.strip_prefix(scheme));
    // Browsers hide the scheme, so a copied address may not have one.
    let (host, path) = plain.unwrap_or(text).split_once('/')?;
    let is_public = PUBLIC_HOSTS.iter().any(|h| h.eq_ignore_ascii_case(host));
    is_public.then_some(path)
}

fn parse_page(path: &str) -> Result<ModelId, NameError> {
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let path = path.trim_end_matches('/');
    let parts: Vec<&str> = path.splitn(5, '/').collect();
    // Decoded after splitting: a branch such as `refs/pr/1` has its slashes as %2F.
    let (owner, name, revision, file) = match parts[..] {
        [owner, name, "tree" | "commit", revision] => (owner, name, revision, None),
        [owner, name, "blob" | "resolve" | "raw", revision, file] => {
            (owner, name, revision, Some(percent_decoded(file)))
        }
        [_, _] => return parse(path),
        _ => return Err(NameError::Page),
    };
    // The page of another file, e.g. a shard, stands for the whole model.
    let file = file.filter(|file| is_gguf(file)).map(Gguf::File);
    model(&format!("{owner}/{name}"), &percent_decoded(revision), file)
}

fn percent_decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn parse(id: &str) -> Result<ModelId, NameError> {
    let (name, gguf) = match id.split_once(':') {
        Some((name, text)) if is_quantisation(text) => {
            (name, Some(Gguf::Quantisation(text.to_owned())))
        }
        Some((name, file)) => (name, Some(Gguf::File(file.to_owned()))),
        None => (id, None),
    };
    let (repo, revision) = name.split_once('@').unwrap_or((name, "main"));
    model(repo, revision, gguf)
}

fn model(repo: &str, revision: &str, gguf: Option<Gguf>) -> Result<ModelId, NameError> {
    let parts: Vec<&str> = repo.split('/').collect();
    let [organisation, repository] = parts[..] else {
        return Err(NameError::Form);
    };
    repo_part("organisation", organisation)?;
    repo_part("name", repository)?;
    let checked = if is_plain(revision) {
        safe_path(revision)
    } else {
        Err(PathError::Character)
    };
    checked.map_err(|reason| path_error("revision", revision, reason))?;
    if let Some(Gguf::File(file)) = &gguf {
        safe_path(file).map_err(|reason| path_error("file", file, reason))?;
        if !is_gguf(file) {
            return Err(NameError::NotGguf(file.to_owned()));
        }
    }
    Ok(ModelId {
        kind: Kind::Model,
        repo: repo.to_owned(),
        revision: revision.to_owned(),
        gguf,
    })
}

/// Whether a revision needs no escaping in an address or a shell.
fn is_plain(revision: &str) -> bool {
    let mut characters = revision.chars();
    characters.all(|c| c.is_ascii_alphanumeric() || "._-+=/".contains(c))
}

fn path_error(part: &'static str, text: &str, reason: PathError) -> NameError {
    NameError::Path {
        part,
        text: text.to_owned(),
        reason,
    }
}

/// Whether a text looks like a quantisation: `Q4_K_M`, `f16`, `UD-IQ2_XXS`. File names have a dot
/// and never match.
fn is_quantisation(text: &str) -> bool {
    let mut characters = text.chars();
    !text.is_empty() && characters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Whether a file's name contains the quantisation as a whole word: `x-Q4_K_M.gguf` does not
/// contain `Q4_K`, and `x-BF16.gguf` does not contain `F16`.
fn has_quantisation(file: &str, quantisation: &str) -> bool {
    let file = file.to_ascii_lowercase();
    // Folders are ignored: some repositories have files like `Q8_0/x-Q4_0.gguf`.
    let name = file.rsplit('/').next().unwrap_or(&file);
    let quantisation = quantisation.to_ascii_lowercase();
    name.match_indices(&quantisation).any(|(at, _)| {
        let before = name[..at].chars().next_back();
        let after = name[at + quantisation.len()..].chars().next();
        // `-` may follow, as in the split file `x-Q8_0-00001-of-00002.gguf`. `_` may come before,
        // but may not follow: `Q4_K_M` is not `Q4_K`.
        before.is_none_or(|c| !c.is_alphanumeric()) && after.is_some_and(|c| c == '.' || c == '-')
    })
}

/// Checks the hub's rules for an organisation or a repository's name; errors call it `what`.
fn repo_part(what: &'static str, part: &str) -> Result<(), NameError> {
    let reason = if part.is_empty() {
        "is empty"
    } else if part.len() > 96 {
        "is longer than 96 characters"
    } else if !part
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    {
        "has a character outside A-Z a-z 0-9 . _ -"
    } else if part.starts_with(['.', '-']) || part.ends_with(['.', '-']) {
        "begins or ends with . or -"
    } else if part.contains("--") || part.contains("..") {
        // `--` separates organisation and name in the cache folder `models--ORG--NAME`.
        "has -- or .. in it"
    } else {
        return Ok(());
    };
    Err(NameError::Part {
        part: what,
        text: part.to_owned(),
        reason,
    })
}

/// Checks that a relative path stays below the folder it is joined to, on every operating system.
pub(crate) fn safe_path(path: &str) -> Result<(), PathError> {
    if path.chars().any(|c| c.is_control() || c == '\\') {
        return Err(PathError::Control);
    }
    if path.contains(':') {
        return Err(PathError::Colon);
    }
    if path.split('/').any(str::is_empty) {
        return Err(PathError::EmptyPart);
    }
    if path.split('/').any(|part| part == "." || part == "..") {
        return Err(PathError::Dots);
    }
    Ok(())
}

pub(crate) fn is_gguf(file: &str) -> bool {
    file.to_ascii_lowercase().ends_with(".gguf")
}

/// Whether a text is a full commit hash: 40 hexadecimal digits, lower case.
pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found() {
        let id: ModelId = "org/name@refs/pr/3:sub/x.Q4_1.GGUF".parse().expect("good");
        assert_eq!(
            (id.repo(), id.revision(), id.file()),
            ("org/name", "refs/pr/3", Some("sub/x.Q4_1.GGUF"))
        );
        assert_eq!(id.to_string(), "org/name@refs/pr/3:sub/x.Q4_1.GGUF");
        let id: ModelId = "org/name".parse().expect("good");
        assert_eq!((id.revision(), id.file()), ("main", None));
        assert_eq!(id.commit(), None);
        let id: ModelId = "org/name@v1:q4_K_m".parse().expect("good");
        assert_eq!((id.file(), id.quantisation()), (None, Some("q4_K_m")));
        assert_eq!(id.to_string(), "org/name@v1:q4_K_m");
    }

    #[test]
    fn addresses_of_pages() {
        let mirror = "http://127.0.0.1:8000/hub";
        for (address, name) in [
            ("https://huggingface.co/org/name", "org/name@main"),
            ("https://huggingface.co/org/name/", "org/name@main"),
            ("http://hf.co/org/name?library=x#files", "org/name@main"),
            ("hf.co/org/name:Q4_K_M", "org/name@main:Q4_K_M"),
            ("huggingface.co/org/name@v1", "org/name@v1"),
            ("HTTPS://x", ""),
            ("https://HuggingFace.co/org/name/tree/v1.0", "org/name@v1.0"),
            (
                "https://hf.co/org/name/tree/refs%2Fpr%2F1",
                "org/name@refs/pr/1",
            ),
            ("https://hf.co/org/name/commit/abc", "org/name@abc"),
            (
                "https://huggingface.co/org/name/blob/main/sub/a%20b.Q8_0.gguf",
                "org/name@main:sub/a b.Q8_0.gguf",
            ),
            (
                "https://huggingface.co/org/name/resolve/main/x.gguf?download=true",
                "org/name@main:x.gguf",
            ),
            (
                "https://huggingface.co/org/name/blob/v2/model.safetensors",
                "org/name@v2",
            ),
            ("http://127.0.0.1:8000/hub/org/name", "org/name@main"),
            ("http://127.0.0.1:8000/hub/org/name/tree/v1", "org/name@v1"),
            ("https://huggingface.co/datasets/org/name", ""),
            ("https://huggingface.co/org", ""),
            ("https://huggingface.co/", ""),
            ("https://huggingface.co/org/name/discussions/1", ""),
            ("https://huggingface.co/org/name/tree/main/sub", ""),
            ("https://huggingface.co/org/name/tree/..%2F..", ""),
            ("https://huggingface.co/org/name/blob/main/..%2Fx.gguf", ""),
            ("https://huggingface.co.evil/org/name", ""),
            ("http://127.0.0.1:8000/hubs/org/name", ""),
        ] {
            match (ModelId::at(mirror, address), name) {
                (Ok(id), _) => assert_eq!(id.to_string(), name, "{address}"),
                (Err(error), "") => {
                    let error = error.to_string();
                    assert!(error.contains(address), "{error}");
                }
                (Err(error), _) => panic!("{error}"),
            }
        }
        let other = ModelId::at(mirror, "https://x.org/org/name").expect_err("another hub");
        let other = other.to_string();
        assert!(
            other.contains(mirror) && other.contains("HF_ENDPOINT"),
            "{other}"
        );
    }

    #[test]
    fn a_quantisation_is_a_whole_word() {
        for (quantisation, file) in [
            ("Q4_K_M", "x-q4_k_m.gguf"),
            ("q4_0", "a.b/SmolLM2-135M.Q4_0.gguf"),
            ("bf16", "x_BF16-00001-of-00002.gguf"),
            ("f16", "f16.gguf"),
            ("Q4_K_XL", "x-UD-Q4_K_XL.gguf"),
        ] {
            assert!(has_quantisation(file, quantisation), "{file}");
        }
        for (quantisation, file) in [
            ("Q4_K", "x-Q4_K_M.gguf"),
            ("F16", "x-BF16.gguf"),
            ("Q4_NL", "x-IQ4_NL.gguf"),
            ("Q4_0", "x-Q4_0_4_4.gguf"),
            ("Q8_0", "Q8_0/x-Q4_0.gguf"),
        ] {
            assert!(!has_quantisation(file, quantisation), "{file}");
        }
    }

    #[test]
    fn one_file_has_to_match() {
        fn among(id: &str) -> Result<Option<String>, RequestError> {
            let files = ["README.md", "x-Q4_0.gguf", "x-Q8_0.gguf", "y-q8_0.gguf"];
            let id: ModelId = id.parse().expect(id);
            id.gguf_among(files.into_iter())
        }
        assert_eq!(among("o/n:q4_0"), Ok(Some("x-Q4_0.gguf".to_owned())));
        assert_eq!(among("o/n"), Ok(None));
        assert_eq!(among("o/n:z.gguf"), Ok(Some("z.gguf".to_owned())));
        let none = among("o/n:Q5_0").expect_err("none").to_string();
        assert_eq!(
            none,
            "no GGUF file is of Q5_0: take one of x-Q4_0.gguf, x-Q8_0.gguf, y-q8_0.gguf"
        );
        let two = among("o/n:Q8_0").expect_err("two").to_string();
        assert!(
            two.contains(": x-Q8_0.gguf, y-q8_0.gguf; name one"),
            "{two}"
        );
    }

    #[test]
    fn names_that_could_leave_the_cache_are_refused() {
        for id in [
            "",
            "name",
            "/",
            "org/",
            "/name",
            "a/b/c",
            "../name",
            "org/..",
            "./x",
            "~/x",
            "/abs/x",
            "org//x",
            "org/na me",
            "org/n\u{e4}me",
            "org\\x/y",
            "C:/x",
            "org/a--b",
            "org/name@",
            "org/name@../../x",
            "org/name@/x",
            "org/name@x/",
            "org/name@a\nb",
            "org/name:",
            "org/name:../x.gguf",
            "org/name:/x.gguf",
            "org/name:a//x.gguf",
            "org/name:a\\x.gguf",
            "org/name:model.safetensors",
            "org/name:Q4 0",
        ] {
            let error = id.parse::<ModelId>().expect_err(id).to_string();
            assert!(error.contains("ORG/NAME"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
