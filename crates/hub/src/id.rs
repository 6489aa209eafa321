//! Names of models on a hub.

use std::fmt;
use std::str::FromStr;

use crate::{HubError, NameError, PathError};

/// A repository of a hub at a revision, or one GGUF file of it: `ORG/NAME`, `ORG/NAME@REVISION`,
/// `ORG/NAME:FILE.gguf`, `ORG/NAME@REVISION:FILE.gguf`.
///
/// A revision is a branch, a tag or a commit; `main` if none is given. Nothing in it can leave the
/// cache: no part of a name is empty, `.` or `..`.
///
/// ```
/// # use beamgen_hub::ModelId;
/// let id: ModelId = "Qwen/Qwen2.5-0.5B-Instruct-GGUF@main:qwen2.5-0.5b-instruct-q8_0.gguf".parse()?;
/// assert_eq!(id.repo(), "Qwen/Qwen2.5-0.5B-Instruct-GGUF");
/// assert_eq!(id.file(), Some("qwen2.5-0.5b-instruct-q8_0.gguf"));
/// assert!("../weights".parse::<ModelId>().is_err());
/// # Ok::<(), beamgen_hub::HubError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId {
    repo: String,
    revision: String,
    file: Option<String>,
}

impl ModelId {
    /// `ORG/NAME`.
    #[must_use]
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// The branch, tag or commit.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The GGUF file, if one was named.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The revision, if it is a full commit hash, which can never mean other files.
    pub(crate) fn commit(&self) -> Option<&str> {
        is_commit(&self.revision).then_some(self.revision.as_str())
    }
}

impl FromStr for ModelId {
    type Err = HubError;

    fn from_str(id: &str) -> Result<Self, HubError> {
        parse(id).map_err(|reason| HubError::BadModelId {
            id: id.to_owned(),
            reason,
        })
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.repo, self.revision)?;
        match &self.file {
            Some(file) => write!(f, ":{file}"),
            None => Ok(()),
        }
    }
}

fn parse(id: &str) -> Result<ModelId, NameError> {
    let (name, file) = match id.split_once(':') {
        Some((name, file)) => (name, Some(file)),
        None => (id, None),
    };
    let (repo, revision) = name.split_once('@').unwrap_or((name, "main"));
    let parts: Vec<&str> = repo.split('/').collect();
    let [organisation, repository] = parts[..] else {
        return Err(NameError::Form);
    };
    repo_part("organisation", organisation)?;
    repo_part("name", repository)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+=/".contains(c);
    let checked = match revision.chars().all(plain) {
        true => safe_path(revision),
        false => Err(PathError::Character),
    };
    checked.map_err(|reason| NameError::Revision {
        text: revision.to_owned(),
        reason,
    })?;
    if let Some(file) = file {
        safe_path(file).map_err(|reason| NameError::File {
            text: file.to_owned(),
            reason,
        })?;
        if !is_gguf(file) {
            return Err(NameError::NotGguf(file.to_owned()));
        }
    }
    Ok(ModelId {
        repo: repo.to_owned(),
        revision: revision.to_owned(),
        file: file.map(str::to_owned),
    })
}

/// The hub's own rules for both halves of a repository's name.
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

/// Whether a relative path of slash-separated parts stays below the folder it is joined to, on any
/// system.
pub(crate) fn safe_path(path: &str) -> Result<(), PathError> {
    if path.chars().any(|c| c.is_control() || c == '\\') {
        return Err(PathError::Control);
    }
    if path.contains(':') {
        return Err(PathError::Colon);
    }
    if path.split('/').any(|part| part.is_empty()) {
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

/// Forty lower-case hexadecimal digits.
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
    }

    #[test]
    fn what_could_leave_the_cache_is_refused() {
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
        ] {
            let error = id.parse::<ModelId>().expect_err(id).to_string();
            assert!(error.contains("ORG/NAME"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
