//! No command writes over what it reads, and none fills a folder that is somebody else's.
//!
//! One rule for all commands, applied before any of them begins: a path among the arguments is read
//! unless it is in the table of outputs. What settings files name is read, too.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use beamgen_files::FileId;
use clap::ArgMatches;
use toml::Value;

use crate::assign;
use crate::failure::{Failure, refuse};
use crate::write::failed;

/// The kind of output that a path names.
#[derive(Clone, Copy)]
enum Kind {
    File,
    /// A folder of one's own; an earlier run of the command would have left this name there.
    Results(&'static str),
    /// Files in a folder that may have others.
    Shared,
}

/// Command (any, if it is empty), argument, and what is written there.
const OUTPUTS: [(&str, &str, Kind); 23] = [
    ("solve", "out", Kind::File),
    ("show", "html", Kind::File),
    ("label", "out", Kind::File),
    ("refine", "out", Kind::File),
    ("guard", "out", Kind::File),
    ("check", "out", Kind::File),
    ("annotate", "out", Kind::File),
    ("", "rejected", Kind::File),
    ("convert", "out", Kind::File),
    ("split", "train", Kind::File),
    ("split", "test", Kind::File),
    ("judge", "out", Kind::File),
    ("chains", "out", Kind::File),
    ("calibrate", "out", Kind::File),
    ("calibrate", "plots", Kind::Shared),
    ("man", "out", Kind::Shared),
    ("bench", "out", Kind::Results("rows.jsonl")),
    ("eval-prm", "report", Kind::Results("rows.jsonl")),
    ("sft", "out", Kind::Results("work")),
    ("prm", "out", Kind::Results("work")),
    ("orm", "out", Kind::Results("work")),
    ("rl", "out", Kind::Results("work")),
    ("abacus", "out", Kind::Results("work")),
];

/// Arguments that are files of settings, which name files in turn.
const SETTINGS: [&str; 3] = ["config", "pair", "presets"];

/// The largest one that is looked into.
const MAX_SETTINGS: u64 = 1 << 20;

/// Keys of settings that may name a file or a folder.
const KEYS: [&str; 11] = [
    "pair",
    "scorer",
    "generator",
    "prm",
    "prm_reference",
    "prm_format",
    "calibration",
    "judge",
    "reference",
    "format",
    "file",
];

/// The ends of the names of a model's files.
const OF_A_MODEL: [&str; 10] = [
    "json",
    "safetensors",
    "gguf",
    "bin",
    "pt",
    "pth",
    "model",
    "jinja",
    "toml",
    "txt",
];

/// Refuses a call that would write over what it reads, twice over one file, or into a foreign
/// folder.
pub(crate) fn check(given: &ArgMatches) -> Result<(), Failure> {
    let mut paths = Paths::default();
    paths.sort("", given);
    let is_read = |path: &Path| FileId::of(path).is_some_and(|id| paths.read.contains(&id));
    for (at, (path, name, kind)) in paths.written.iter().enumerate() {
        let shown = path.display();
        if is_read(path) && !matches!(kind, Kind::Shared) {
            let message = format!("{shown}: is read as well: write into another place");
            return refuse(message);
        }
        let other = paths.written[..at]
            .iter()
            .find(|(other, ..)| is_one_file(path, other));
        if let Some((_, other, _)) = other {
            let message = format!("{shown}: --{other} and --{name} name the same file: give two");
            return refuse(message);
        }
        if let Kind::Results(mark) = kind {
            let is_foreign = beamgen_files::is_foreign_folder(path, &[mark]);
            if is_foreign.map_err(|error| failed(path, error))? {
                return refuse(format!(
                    "{shown}: has files, and no {mark} of an earlier run among them: name an empty or a new folder"
                ));
            }
        }
    }
    if !is_read(Path::new("/dev/stdout")) {
        Ok(())
    } else {
        refuse("the output goes into a file that is read as well: write into another one")
    }
}

/// Whether two outputs are the same regular file, be it there yet or not.
fn is_one_file(a: &Path, b: &Path) -> bool {
    let place = |path| beamgen_files::place(path).ok().flatten();
    place(a).is_some_and(|a| Some(a) == place(b))
}

/// The paths of a call.
#[derive(Default)]
struct Paths {
    read: HashSet<FileId>,
    /// With the argument's name.
    written: Vec<(PathBuf, String, Kind)>,
}

impl Paths {
    /// Adds all that a command was given.
    fn sort(&mut self, command: &str, given: &ArgMatches) {
        for id in given.ids().map(clap::Id::as_str) {
            if let Ok(Some(paths)) = given.try_get_many::<PathBuf>(id) {
                let row = OUTPUTS
                    .iter()
                    .find(|row| row.1 == id && ["", command].contains(&row.0));
                for path in paths {
                    match row {
                        Some(&(.., kind)) => self.written.push((path.clone(), id.to_owned(), kind)),
                        None => self.reads(command, id, path),
                    }
                }
            }
            if let Ok(Some(texts)) = given.try_get_many::<String>(id) {
                texts.for_each(|text| self.reads_text(command, id, text));
            }
            if let Ok(Some(values)) = given.try_get_many::<Value>(id) {
                values.for_each(|value| self.reads_settings(command, Path::new(""), id, value));
            }
        }
        if let Some((command, given)) = given.subcommand() {
            self.sort(command, given);
        }
    }

    fn reads(&mut self, command: &str, id: &str, path: &Path) {
        if path == Path::new("-") {
            self.read.extend(FileId::of(Path::new("/dev/stdin")));
            return;
        }
        self.read.extend(FileId::of(path));
        let in_folder = std::fs::read_dir(path).into_iter().flatten().flatten();
        for file in in_folder.map(|entry| entry.path()) {
            let extension = file.extension().and_then(|end| end.to_str());
            // A calibration lies with its model, and is written again.
            let is_own = command == "calibrate" && file.ends_with("calibration.json");
            if extension.is_some_and(|end| OF_A_MODEL.contains(&end)) && !is_own {
                self.read.extend(FileId::of(&file));
            }
        }
        if SETTINGS.contains(&id)
            && let Ok(text) = beamgen_files::read_text_file(path, MAX_SETTINGS)
            && let Ok(settings) = text.parse::<toml::Table>()
        {
            let folder = path.parent().unwrap_or(Path::new(""));
            self.reads_settings(command, folder, "", &Value::Table(settings));
        }
    }

    /// Adds the files of settings: models as seen from here, problems as seen from the file.
    fn reads_settings(&mut self, command: &str, folder: &Path, key: &str, value: &Value) {
        match value {
            Value::Table(table) => {
                for (key, value) in table {
                    self.reads_settings(command, folder, key, value);
                }
            }
            Value::Array(values) => {
                for value in values {
                    self.reads_settings(command, folder, key, value);
                }
            }
            Value::String(text) if key == "commands" || key == "checker_command" => {
                self.reads_words(text);
            }
            Value::String(text) if KEYS.contains(&key) => {
                self.reads(command, key, Path::new(text));
                self.reads(command, key, &folder.join(text));
            }
            _ => {}
        }
    }

    /// Adds the files that an argument names: it is a setting, or `--set` with one.
    fn reads_text(&mut self, command: &str, id: &str, text: &str) {
        let (key, value) = match text.split_once('=').filter(|_| id == "set") {
            Some((key, value)) => (key.rsplit('.').next(), assign::parsed(value.trim())),
            None => (Some(id), Value::from(text)),
        };
        let key = key.unwrap_or_default().trim();
        self.reads_settings(command, Path::new(""), key, &value);
    }

    /// Adds the files among the words of a shell command.
    fn reads_words(&mut self, text: &str) {
        let words = text
            .split_whitespace()
            .map(|word| Path::new(word.trim_matches(['"', '\''])));
        let files = words.filter(|word| word.is_file());
        self.read.extend(files.filter_map(FileId::of));
    }
}
