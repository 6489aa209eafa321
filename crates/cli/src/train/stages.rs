//! Commands of this program that another command runs one after the other, and the training of a
//! reward model on chains of a new policy.

use std::fs;
use std::path::{Path, PathBuf};

use beamgen::scorer::{Scorer, ScorerKind};
use beamgen::{Config, Problem};
use serde_json::json;

use crate::args::{self, RefreshFlags};
use crate::failure::{Failure, refuse};
use crate::output;
use crate::settings;
use crate::write::{create_folder, failed};

/// A reward model that is trained further.
#[derive(Clone)]
pub(super) struct Judge {
    pub folder: PathBuf,
    /// The name of its format, or a TOML file.
    pub format: String,
    /// The reference model of a log-ratio; `None` for other formats.
    pub reference: Option<PathBuf>,
}

impl Judge {
    /// Returns the number of completions by which the steps of its training data are labelled. A
    /// log-ratio needs none, because it learns outcomes.
    pub(super) fn completions(&self, how: &RefreshFlags) -> u32 {
        match self.reference {
            Some(_) => 0,
            None => how.completions,
        }
    }
}

/// A folder of intermediate files. A command whose result is there is not run again.
pub(super) struct Stages {
    pub folder: PathBuf,
}

impl Stages {
    pub(super) fn new(folder: PathBuf) -> Result<Self, Failure> {
        create_folder(&folder.join("done"))?;
        Ok(Self { folder })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn is_done(&self, name: &str) -> bool {
        self.folder.join("done").join(name).exists()
    }

    fn mark(&self, name: &str) -> Result<(), Failure> {
        let mark = self.folder.join("done").join(name);
        fs::write(&mark, "").map_err(|error| failed(&mark, error))
    }

    /// Runs a command unless it was done before, and shows it.
    pub(super) fn run(&self, name: &str, command: &[&str]) -> Result<(), Failure> {
        if self.is_done(name) {
            return Ok(());
        }
        output::note(format_args!("$ beamgen {}", command.join(" ")));
        crate::run(args::parse_own(command)?)?;
        self.mark(name)
    }

    /// Writes problems with their answers as JSON lines.
    pub(super) fn problems(&self, name: &str, problems: &[Problem]) -> Result<PathBuf, Failure> {
        let path = self.path(name);
        if !path.exists() {
            let lines = problems.iter().map(|problem| {
                let mut line = json!({
                    "id": problem.id, "problem": problem.with_context(), "answer": problem.answer,
                });
                if let Some(verifier) = &problem.verifier {
                    line["verifier"] = json!(verifier);
                }
                if let Some(tests) = &problem.tests {
                    line["tests"] = tests.clone();
                }
                format!("{line}\n")
            });
            let text: String = lines.collect();
            fs::write(&path, text).map_err(|error| failed(&path, error))?;
        }
        Ok(path)
    }

    /// Samples chains of a generator and labels their steps by `completions` completions each, or by
    /// a checker. Returns the file of labelled chains.
    pub(super) fn label(
        &self,
        name: &str,
        generator: &Path,
        problems: &Path,
        completions: u32,
        how: &RefreshFlags,
    ) -> Result<PathBuf, Failure> {
        let [chains, labelled] =
            ["chains", "labelled"].map(|kind| self.path(&format!("{kind}-{name}.jsonl")));
        let sampled = if how.checker.is_some() {
            &chains
        } else {
            &labelled
        };
        let rollouts = if how.checker.is_some() {
            0
        } else {
            completions
        };
        let (count, rollouts) = (how.chains.to_string(), rollouts.to_string());
        let [generator, problems, sampled, labelled_text] =
            [generator, problems, sampled, &labelled].map(|path| path.display().to_string());
        let mut command = vec![
            "label",
            &problems,
            "--generator",
            &generator,
            "--chains",
            &count,
            "--rollouts",
            &rollouts,
            "--out",
            &sampled,
            "--quiet",
        ];
        let verifier = how.verifier.typed();
        command.extend(verifier.iter().map(String::as_str));
        if Path::new(&sampled).exists() {
            command.push("--resume");
        }
        self.run(&format!("chains-{name}"), &command)?;
        if let Some(checker) = &how.checker {
            let command = [
                "labels",
                "judge",
                &sampled,
                "--checker",
                checker,
                "--as",
                "label",
                "--out",
                &labelled_text,
            ];
            self.run(&format!("labelled-{name}"), &command)?;
        }
        Ok(labelled)
    }

    /// Trains a reward model further on files of labelled chains. Returns its folder.
    pub(super) fn learn(
        &self,
        name: &str,
        judge: &Judge,
        data: &[PathBuf],
        how: &RefreshFlags,
    ) -> Result<Judge, Failure> {
        let file = self.path(&format!("data-{name}.jsonl"));
        let out = self.path(&format!("prm-{name}"));
        let inputs: Vec<String> = data
            .iter()
            .chain(&how.replay)
            .map(|path| path.display().to_string())
            .collect();
        let [prm, file, out_text] =
            [&judge.folder, &file, &out].map(|path| path.display().to_string());
        let reference = judge
            .reference
            .as_deref()
            .map(|path| path.display().to_string());
        let mut convert = vec!["labels", "convert"];
        convert.extend(inputs.iter().map(String::as_str));
        convert.extend(["--to", "beamgen", "--out", &file]);
        self.run(&format!("data-{name}"), &convert)?;
        let rate = how.rate.to_string();
        let mut train = vec![
            "train",
            // A log-ratio learns outcomes, and has rewards of steps nevertheless.
            if reference.is_some() { "orm" } else { "prm" },
            "--from",
            &prm,
            "--prm-format",
            &judge.format,
            "--data",
            &file,
            "--out",
            &out_text,
            "--learning-rate",
            &rate,
            "--head-warmup",
            "0",
            "--float32",
        ];
        if let Some(reference) = &reference {
            train.extend(["--prm-reference", reference]);
        }
        if out.join("work").exists() {
            train.push("--resume");
        }
        self.run(&format!("prm-{name}"), &train)?;
        Ok(Judge {
            folder: out,
            ..judge.clone()
        })
    }
}

/// Returns the format of a reward model: the given one, or the model's own file.
pub(super) fn format_of(prm: &Path, given: Option<&str>) -> Result<String, Failure> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let own = prm.join("prm.toml");
    if own.is_file() {
        return Ok(own.display().to_string());
    }
    refuse(format!(
        "{}: has no prm.toml, so its format is unknown: name it with --prm-format",
        prm.display()
    ))
}

/// Loads a reward model; `problems` are the texts that it will read.
pub(super) fn reward_model(
    judge: &Judge,
    problems: impl Iterator<Item = impl AsRef<str>>,
) -> Result<Box<dyn Scorer + Send>, Failure> {
    let mut config = Config::default();
    config.models.prm = Some(judge.folder.clone());
    config.models.prm_format = Some(judge.format.clone());
    config.models.prm_reference.clone_from(&judge.reference);
    config.models.scorer = ScorerKind::Prm;
    config.resolve_words();
    settings::reward_model(config, problems)
}
