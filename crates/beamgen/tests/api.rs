//! The public items of the crate as text, in `api.txt`, so that a review sees a change of them.
//!
//! The sources are read as `rustfmt` leaves them: an item begins at the margin, its parts one step
//! further in. So no nightly compiler is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All lines of the sources of a crate.
fn source(krate: &str) -> Vec<String> {
    let name = krate.trim_start_matches("beamgen_").replace('_', "-");
    let mut files = vec![crates().join(name).join("src")];
    let mut lines = Vec::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            files.extend(entries.map(|entry| entry.expect("an entry").path()));
            files.sort_unstable_by(|a, b| b.cmp(a));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            lines.extend(text.lines().map(str::to_owned));
        }
    }
    lines
}

/// The names that a list of `pub use` statements exports, with the crate or module of each.
fn exports(text: &str) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for statement in text.split("pub use ").skip(1) {
        let path = statement.split(';').next().expect("a statement");
        let (place, items) = match path.split_once('{') {
            Some((place, items)) => (place.trim_end_matches("::"), items.trim_end_matches('}')),
            None => path.rsplit_once("::").unwrap_or(("", path)),
        };
        let items = items
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty());
        names.extend(items.map(|item| (item.to_owned(), place.trim().to_owned())));
    }
    names
}

/// The names that a module of a file of its own has, those that it defines and those it exports.
fn of_file(path: &str, place: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(crates().join(path)).expect("a module");
    let mut names = exports(&text);
    for (_, from) in &mut names {
        if !from.starts_with("beamgen_") {
            place.clone_into(from);
        }
    }
    for line in text.lines().filter_map(|line| line.strip_prefix("pub ")) {
        let (kind, rest) = line.split_once(' ').unwrap_or_default();
        if ["struct", "enum", "trait", "fn", "const"].contains(&kind) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            names.push((
                rest[..end.unwrap_or(rest.len())].to_owned(),
                place.to_owned(),
            ));
        }
    }
    names
}

/// The lines of the item or block that begins at `at`, without comments.
fn block(lines: &[String], at: usize) -> Vec<&str> {
    let end = lines[at..].iter().position(|line| {
        line.starts_with(['}', ')']) || line.ends_with(';') && !line.starts_with(' ')
    });
    let block = lines[at..=at + end.unwrap_or(0)].iter();
    let block = block.map(String::as_str);
    block
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect()
}

/// The parts of an item or block that stand one step in and begin with one of `starts`, each on a
/// line of its own.
fn parts(block: &[&str], starts: &[&str]) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut open = false;
    for line in &block[1..] {
        let is_part = line.starts_with("    ") && !line.starts_with("     ");
        let text = line.trim();
        if is_part && starts.iter().any(|start| text.starts_with(start)) {
            parts.push(text.to_owned());
            open = true;
        } else if open {
            let part = parts.last_mut().expect("a part is open");
            part.push(' ');
            part.push_str(text);
        }
        // A signature ends where the body begins, anything else at the end of its line.
        let last = parts.last().map_or("", String::as_str);
        let ends = if last.contains("fn ") {
            ["{", ";", "}"]
        } else if last.contains("const ") {
            [" =", "= {", ";"]
        } else {
            [",", "},", ")"]
        };
        let inside = line.starts_with("     ");
        open = open && (inside || !ends.iter().any(|end| text.ends_with(end)));
    }
    let trim = |part: String| {
        let part = match part.split_once(" = ") {
            Some((constant, _)) if part.starts_with("pub const ") => constant,
            _ => part.as_str(),
        };
        let part = part.trim_end_matches([' ', '{', ';', ',']);
        part.replace("( ", "(").replace(", )", ")")
    };
    parts.into_iter().map(trim).collect()
}

/// Describes an item that is defined in `lines`: its header, its parts, its traits.
fn describe(name: &str, lines: &[String]) -> Option<String> {
    let kinds = ["struct", "enum", "trait", "fn", "type", "const", "mod"];
    let is_word = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let begins = |line: &str, kind: &str| {
        let rest = line.strip_prefix(&format!("pub {kind} {name}"));
        rest.is_some_and(is_word)
    };
    let (kind, at) = kinds.into_iter().find_map(|kind| {
        let at = lines.iter().position(|line| begins(line, kind))?;
        Some((kind, at))
    })?;
    let mut text = format!("{kind} {name}\n");
    let add = |text: &mut String, parts: Vec<String>| {
        for part in parts {
            writeln!(text, "    {part}").expect("a string takes all");
        }
    };
    let item = block(lines, at);
    match kind {
        "struct" => add(&mut text, parts(&item, &["pub "])),
        "enum" => {
            let upper: Vec<String> = ('A'..='Z').map(String::from).collect();
            let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
            add(&mut text, parts(&item, &upper));
        }
        "trait" => add(&mut text, parts(&item, &["fn ", "type "])),
        _ => {
            let end = item.iter().position(|line| line.ends_with(['{', ';']));
            let header = item[..=end.unwrap_or(0)].concat();
            let header = header.split_whitespace().collect::<Vec<_>>().join(" ");
            let header = match kind {
                "const" => header.split(" =").next().unwrap_or_default().to_owned(),
                _ => header,
            };
            text = format!(
                "{}\n",
                header
                    .trim_start_matches("pub ")
                    .trim_end_matches([' ', '{'])
            );
        }
    }
    let mut traits = BTreeSet::new();
    for (at, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with("impl"))
    {
        let header = line.trim_end_matches([' ', '{']);
        let (of, target) = match header.split_once(" for ") {
            Some((of, target)) => (Some(of), target),
            None => (
                None,
                header.split_once(' ').map_or("", |(_, target)| target),
            ),
        };
        if !target.strip_prefix(name).is_some_and(is_word) {
            continue;
        }
        match of {
            Some(of) => drop(traits.insert(of.split_once(' ').map_or(of, |(_, of)| of))),
            None => add(
                &mut text,
                parts(&block(lines, at), &["pub fn", "pub const"]),
            ),
        }
    }
    for of in traits {
        writeln!(text, "    impl {of}").expect("a string takes all");
    }
    Some(text)
}

/// The public items of the crate, module by module.
fn api() -> String {
    let own = source("beamgen");
    let root = crates().join("beamgen/src/lib.rs");
    let root = std::fs::read_to_string(root).expect("the root");
    let mut sources: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut modules: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut flat = String::new();
    for (at, part) in root.split("\npub mod ").enumerate() {
        let (name, body, rest) = match part.split_once(" {\n") {
            Some((name, body)) if at > 0 && !name.contains(';') => {
                let (body, rest) = body.split_once("\n}").expect("a module ends");
                (name, body, rest)
            }
            _ => ("", "", part),
        };
        flat.push_str(rest);
        if !name.is_empty() {
            modules.insert(name.to_owned(), exports(body));
        }
    }
    modules.insert(String::new(), exports(&flat));
    for line in root
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod "))
    {
        if let Some(name) = line.strip_suffix(';') {
            let names = of_file(&format!("beamgen/src/{name}.rs"), "beamgen");
            modules.insert(name.to_owned(), names);
        }
    }
    let strategies = of_file("search/src/strategy.rs", "beamgen_search");
    let module = modules.get_mut("strategy").expect("there are strategies");
    module.retain(|(name, _)| name != "*");
    module.extend(strategies);
    let mut text = String::new();
    for (module, names) in &modules {
        let mut items = BTreeMap::new();
        // Modules have entries of their own.
        for (name, place) in names.iter().filter(|(name, _)| name != "*") {
            let krate = match place.split("::").next().unwrap_or_default() {
                krate if krate.starts_with("beamgen_") => krate,
                _ => "beamgen",
            };
            let lines = match krate {
                "beamgen" => &own,
                krate => sources
                    .entry(krate.to_owned())
                    .or_insert_with(|| source(krate)),
            };
            let item = match describe(name, lines) {
                // The names alone of what may change at any time.
                Some(item) if module == "program" => {
                    item.lines().next().map(|line| format!("{line}\n"))
                }
                item => item,
            };
            let other = match place.as_str() {
                "" => format!("crate {name}\n"),
                place => format!("use {place}::{name}\n"),
            };
            items.insert(name, item.unwrap_or(other));
        }
        let count = items.len();
        let title = if module.is_empty() {
            "the root"
        } else {
            module
        };
        writeln!(text, "# {title}: {count} names\n").expect("a string takes all");
        for item in items.values() {
            writeln!(text, "{item}").expect("a string takes all");
        }
    }
    text
}

#[test]
fn the_public_items_are_those_of_api_txt() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("api.txt");
    let now = api();
    if std::env::var_os("BEAMGEN_RENEW_API").is_some() {
        std::fs::write(&path, &now).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let difference = kept
        .lines()
        .zip(now.lines())
        .find(|(kept, now)| kept != now);
    assert!(
        kept == now,
        "crates/beamgen/api.txt is not what the sources say, first at {difference:?}. If the change is meant, renew it: \
         BEAMGEN_RENEW_API=1 cargo test --release -p beamgen --test api"
    );
}
