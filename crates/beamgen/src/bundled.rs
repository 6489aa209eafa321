//! The bundled models: a generator, two reward models, and sample problems. They all belong to
//! "abacus", a synthetic world of short word problems.
//!
//! The files are inside the program, so that the program works in any folder and without a network.
//! `beamgen train` made them; the folder `models/abacus/` of the repository contains the same
//! files.

use std::path::Path;

use beamgen_engine::Checkpoint;
use beamgen_eval::{Problems, ProblemsError};
use beamgen_prm::same_tokenizer;
use beamgen_world::{Checker, Difficulty, Verdict};

type Files = &'static [(&'static str, &'static [u8])];

macro_rules! files {
    ($folder:literal: $($file:literal),+) => {
        &[$(($file, include_bytes!(concat!("../abacus/", $folder, "/", $file)))),+]
    };
}

/// A checkpoint inside the program. Each is a `static`, so that the program contains the bytes
/// once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bundled {
    name: &'static str,
    folder: &'static str,
    pub(crate) files: Files,
}

impl Bundled {
    pub(crate) fn checkpoint(self) -> Checkpoint {
        Checkpoint::in_memory(self.name, self.files)
    }
}

pub(crate) static GENERATOR: Bundled = Bundled {
    name: "bundled generator",
    folder: "generator",
    files: files!("generator": "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                  "tokenizer_config.json"),
};

pub(crate) static PRM: Bundled = Bundled {
    name: "bundled prm",
    folder: "prm",
    files: files!("prm": "config.json", "generation_config.json", "model.safetensors", "prm.json", "tokenizer.json",
                  "tokenizer_config.json"),
};

pub(crate) static ORM: Bundled = Bundled {
    name: "bundled orm",
    folder: "orm",
    files: files!("orm": "config.json", "generation_config.json", "model.safetensors", "prm.json", "tokenizer.json",
                  "tokenizer_config.json"),
};

/// Returns the checkpoint of the bundled generator, from which a training can start.
pub fn generator() -> Checkpoint {
    GENERATOR.checkpoint()
}

/// Returns the files of all bundled models, each with its model's folder, its name and its bytes.
pub fn files() -> impl Iterator<Item = (&'static str, &'static str, &'static [u8])> {
    let models = [GENERATOR, PRM, ORM].into_iter();
    models.flat_map(|model| {
        let files = model.files.iter();
        files.map(move |&(name, bytes)| (model.folder, name, bytes))
    })
}

static SAMPLE: &[u8] = include_bytes!("../abacus/sample.jsonl");

/// Returns sample problems with answers, on which no bundled model was trained.
///
/// # Errors
/// Returns an error if the bundled file is invalid. A test reads the file, so no release fails
/// here.
pub fn sample() -> Result<Problems, ProblemsError> {
    let mut sample = Problems::read(SAMPLE, "the bundled sample")?;
    sample.found = None;
    Ok(sample)
}

/// Whether a local model has the tokenizer of the bundled models. A model that was trained from a
/// bundled one does.
pub(crate) fn shares_tokenizer(model: &Path) -> bool {
    // A model of a hub may not be downloaded yet; such a model counts as different.
    model.exists() && same_tokenizer(model, generator()).unwrap_or(false)
}

/// Whether a problem is of the kind that the bundled models were trained on: 3 to 7 people have
/// something, and each number follows from an earlier person's. For other problems, answers and
/// scores of the bundled models mean nothing.
pub fn knows(problem: &str) -> bool {
    beamgen_world::parse(problem).is_some_and(|problem| Difficulty::BUNDLED.covers(&problem))
}

/// Returns whether the last step of a chain is right: in the world of the bundled models, each step has one right form.
/// `None` for other problems, and for a chain without steps.
pub fn last_is_right(problem: &str, chain: &[&str]) -> Option<bool> {
    let mut checker = Checker::new(&beamgen_world::parse(problem)?);
    let verdicts = chain.iter().map(|step| checker.next(step));
    Some(verdicts.last()? == Verdict::Right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_known_and_the_rest_of_the_world_is_foreign() {
        let sample = sample().unwrap();
        assert!(sample.problems.iter().all(|problem| knows(&problem.text)));
        for foreign in [
            "What is 17 times 23?",
            "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?",
            "",
        ] {
            assert!(!knows(foreign), "{foreign}");
        }
    }

    #[test]
    fn the_sample_has_answers() {
        let sample = sample().unwrap();
        assert!(sample.problems.len() >= 20);
        sample.require_answers(usize::MAX).unwrap();
    }

    #[test]
    fn the_models_are_small_enough_to_carry() {
        let bytes: usize = files().map(|(_, _, bytes)| bytes.len()).sum();
        assert!(
            bytes <= 9_000_000,
            "{bytes} bytes: at most 8 MB of weights and their tokenizers"
        );
    }
}
