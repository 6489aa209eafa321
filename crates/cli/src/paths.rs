//! Refuses calls that would overwrite their own input, or write into a folder with other files.
//!
//! The rule is the same for all commands, and applies before the command starts. Each path among
//! the arguments is an input, unless the table of outputs lists its argument. Files named in a
//! settings file are inputs, too.

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
    /// A folder for results of this command only. It is new or empty, or it contains a file of this
    /// name from an earlier run.
    Results(&'static str),
    /// A folder that may also contain other files.
    Shared,
}

/// The arguments that are outputs: command (empty for all), argument, kind of output.
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

/// Arguments whose files contain settings, which may name further files.
const SETTINGS: [&str; 3] = ["config", "pair", "presets"];

/// The maximum size of a settings file that is searched for file names, in bytes.
const MAX_SETTINGS: u64 = 1 << 20;

/// Keys of settings that may name a file or a folder.
const KEYS: [&str; 13] = [
    "pair",
    "scorer",
    "generator",
    "prm",
    "prm_reference",
    "tokenizer",
    "prm_tokenizer",
    "prm_format",
    "calibration",
    "judge",
    "reference",
    "format",
    "file",
];

/// Extensions of files that belong to a model.
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

/// Refuses a call if an output is also an input, if two outputs are the same file, or if a folder
/// for results contains other files.
pub(crate) fn check(given: &ArgMatches) -> Result<(), Failure> {
    let mut paths = Paths::default();
    paths.sort("", given);
    // Files are compared by device and inode, so that links and different spellings of a path are
    // recognised.
    let is_read = |path: &Path| FileId::of(path).is_some_and(|id| paths.read.contains(&id));
    for (at, (path, name, kind)) in paths.written.iter().enumerate() {
        let shown = path.display();
        // A shared folder may contain inputs, since only files within it are written.
        if is_read(path) && !matches!(kind, Kind::Shared) {
            let message = format!("{shown}: is an input, too: name another output");
            return refuse(message);
        }
        let other = paths.written[..at]
            .iter()
            .find(|(other, ..)| is_one_file(path, other));
        if let Some((_, other, _)) = other {
            let message =
                format!("{shown}: --{other} and --{name} name the same file: name two files");
            return refuse(message);
        }
        if let Kind::Results(mark) = kind {
            let is_foreign = beamgen_files::is_foreign_folder(path, &[mark]);
            if is_foreign.map_err(|error| failed(path, error))? {
                return refuse(format!(
                    "{shown}: has files, but no {mark} of an earlier run: name an empty or a new folder"
                ));
            }
        }
    }
    // Stdout may be redirected to an input, as in `beamgen score a.jsonl >> a.jsonl`. The command
    // would then read its own output.
    if is_read(Path::new("/dev/stdout")) {
        refuse("the output is redirected to a file that is an input, too: use another file")
    } else {
        Ok(())
    }
}

/// Whether two paths lead to the same regular file, which need not exist yet.
fn is_one_file(a: &Path, b: &Path) -> bool {
    let place = |path| beamgen_files::place(path).ok().flatten();
    place(a).is_some_and(|a| Some(a) == place(b))
}

#[derive(Default)]
struct Paths {
    read: HashSet<FileId>,
    /// Outputs: path, name of the argument, kind.
    written: Vec<(PathBuf, String, Kind)>,
}

impl Paths {
    /// Sorts the paths among a command's arguments into inputs and outputs.
    fn sort(&mut self, command: &str, given: &ArgMatches) {
        for id in given.ids().map(clap::Id::as_str) {
            // An argument that is not a path gives an error here, and is skipped.
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
        // clap keeps the arguments of a subcommand in separate matches.
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
        // A folder that is an input contains a model, whose files must not be overwritten either.
        let in_folder = std::fs::read_dir(path).into_iter().flatten().flatten();
        for file in in_folder.map(|entry| entry.path()) {
            let extension = file.extension().and_then(|end| end.to_str());
            // `calibrate` writes this file into the model's folder, although that folder is an
            // input.
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

    /// Adds files named in settings. Paths of models are relative to the working directory, and
    /// paths of problem files to the settings file; both readings of a path are added.
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
                // The text may be meant either way. To refuse one file too many is better than to
                // lose a file.
                self.reads(command, key, &folder.join(text));
            }
            _ => {}
        }
    }

    /// Adds the files that a text argument names: a flag for a setting, or `--set KEY=VALUE`.
    fn reads_text(&mut self, command: &str, id: &str, text: &str) {
        let (key, value) = match text.split_once('=').filter(|_| id == "set") {
            Some((key, value)) => (key.rsplit('.').next(), assign::parsed(value.trim())),
            None => (Some(id), Value::from(text)),
        };
        let key = key.unwrap_or_default().trim();
        self.reads_settings(command, Path::new(""), key, &value);
    }

    /// Adds the files among the words of a shell command, such as the script of a checker.
    fn reads_words(&mut self, text: &str) {
        let words = text
            .split_whitespace()
            .map(|word| Path::new(word.trim_matches(['"', '\''])));
        let files = words.filter(|word| word.is_file());
        self.read.extend(files.filter_map(FileId::of));
    }
}
