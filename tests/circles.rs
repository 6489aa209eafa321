//! No circles of imports between the modules of a crate: each can be read after those that it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::run::root;

/// Where no module uses another that uses it: crates, and modules inside them.
const PLACES: &[(&str, &[&str])] = &[
    ("crates/beamgen", &[]),
    ("crates/checkers", &[]),
    ("crates/checkers", &["arithmetic"]),
    ("crates/cli", &[]),
    ("crates/cli", &["bench"]),
    ("crates/engine", &[]),
    ("crates/eval", &[]),
    ("crates/generator", &[]),
    ("crates/hub", &[]),
    ("crates/labels", &[]),
    ("crates/prm", &[]),
    ("crates/search", &[]),
    ("crates/search", &["scheduler"]),
    ("crates/serve", &[]),
    ("crates/train", &[]),
    ("crates/train", &["rl"]),
    ("crates/train", &["tune"]),
];

/// A configuration names a row of the table of strategies, and a row makes its strategy of the
/// configuration.
const KNOWN: &[&str] = &[
    "config -> strategy -> config",
    "strategy -> config -> strategy",
];

/// A path of names, from the crate's root.
type Names = Vec<String>;

/// The files of a crate, by the modules that they are, without their tests.
fn modules(folder: &Path, module: &[String], found: &mut BTreeMap<Names, String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.expect("a name").to_owned();
        let inside = [module, std::slice::from_ref(&name)].concat();
        if path.is_dir() {
            modules(&path, &inside, found);
        } else if name != "tests" {
            let text = std::fs::read_to_string(&path).expect("a source file");
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let code = code.collect::<Vec<_>>().join("\n");
            let code = code.split("#[cfg(test)]\nmod ").next().expect("a part");
            let is_parent = ["mod", "lib", "main"].contains(&name.as_str());
            let module = if is_parent { module.to_vec() } else { inside };
            found.insert(module, code.to_owned());
        }
    }
}

/// The paths of `a::{b, c::{d, e}}`.
fn paths(tree: &str) -> Vec<Names> {
    let tree = tree.trim();
    let Some((before, inside)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().expect("a path");
        return vec![
            path.split("::")
                .map(|name| name.trim().to_owned())
                .collect(),
        ];
    };
    let before: Names = before
        .split("::")
        .map(|name| name.trim().to_owned())
        .collect();
    let before = &before[..before.len() - 1];
    let inside = &inside[..inside.rfind('}').expect("a closing brace")];
    let (mut all, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, c) in inside.char_indices().chain([(inside.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = &inside[from..at];
                if !part.trim().is_empty() {
                    all.extend(paths(part).into_iter().map(|path| [before, &path].concat()));
                }
                from = at + 1;
            }
            _ => {}
        }
    }
    all
}

/// The path from the crate's root that `path` is in `module`; `None` for those of other crates.
fn absolute(path: &[String], module: &[String], all: &BTreeMap<Names, String>) -> Option<Names> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => Some([&module[..module.len().checked_sub(ups)?], &path[ups..]].concat()),
        first => {
            let child = [module, &[first.to_owned()]].concat();
            all.contains_key(&child).then(|| [module, path].concat())
        }
    }
}

fn imports(code: &str) -> impl Iterator<Item = (bool, Names)> {
    let uses = code.split(';').filter_map(|part| {
        let line = part.rfind("use ")?;
        let before = part[..line].trim_end();
        let ends =
            before.is_empty() || before.ends_with(['}', ']', '{', ')']) || before.ends_with("pub");
        ends.then(|| {
            (
                before.ends_with("pub") || before.ends_with(')'),
                paths(&part[line + 4..]),
            )
        })
    });
    uses.flat_map(|(public, paths)| paths.into_iter().map(move |path| (public, path)))
}

/// The module's own file that a path leads to, through what the root and others hand on.
fn home(
    path: &[String],
    handed_on: &BTreeMap<Names, Names>,
    all: &BTreeMap<Names, String>,
) -> Names {
    let mut path = path.to_vec();
    for _ in 0..8 {
        let to = (0..=path.len()).rev().find_map(|n| {
            let to = handed_on.get(&path[..n])?;
            (to[..] != path[..n]).then(|| [to.as_slice(), &path[n..]].concat())
        });
        match to {
            Some(to) => path = to,
            None => break,
        }
    }
    let len = (0..=path.len())
        .rev()
        .find(|n| all.contains_key(&path[..*n]));
    path.truncate(len.unwrap_or(0));
    path
}

/// Which modules inside `within` use which others there; an empty path is the crate's root. What a
/// module and those inside it are to each other is their own affair.
fn uses(source: &Path, within: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let child = |path: &[String]| {
        let is_inside = path.len() > within.len() && path.iter().zip(within).all(|(a, b)| a == b);
        is_inside.then(|| path[within.len()].clone())
    };
    let mut all = BTreeMap::new();
    modules(source, &[], &mut all);
    let mut handed_on = BTreeMap::new();
    for (module, code) in &all {
        for (public, path) in imports(code) {
            if let (true, Some(to)) = (public, absolute(&path, module, &all)) {
                let name = path.last().expect("a name").clone();
                handed_on.insert([module.as_slice(), &[name]].concat(), to);
            }
        }
    }
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, code) in &all {
        let Some(from) = child(module) else { continue };
        let inline = code.split("crate::").skip(1).map(|rest| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            paths(&format!("crate::{}", &rest[..end.unwrap_or(rest.len())])).remove(0)
        });
        for path in imports(code).map(|(_, path)| path).chain(inline) {
            let Some(path) = absolute(&path, module, &all) else {
                continue;
            };
            if let Some(to) = child(&home(&path, &handed_on, &all))
                && to != from
            {
                graph.entry(from.clone()).or_default().insert(to);
            }
        }
    }
    graph
}

/// A circle from `from` back to it, if there is one.
fn circle<'a>(
    graph: &'a BTreeMap<String, BTreeSet<String>>,
    from: &'a str,
    way: &mut Vec<&'a str>,
    seen: &mut BTreeSet<&'a str>,
) -> bool {
    let here = *way.last().unwrap_or(&from);
    graph.get(here).into_iter().flatten().any(|next| {
        if next == from {
            return true;
        }
        if !seen.insert(next) {
            return false;
        }
        way.push(next);
        let found = circle(graph, from, way, seen);
        if !found {
            way.pop();
        }
        found
    })
}

fn circles(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    graph
        .keys()
        .filter_map(|from| {
            let (mut way, mut seen) = (Vec::new(), BTreeSet::new());
            circle(graph, from, &mut way, &mut seen)
                .then(|| format!("{from} -> {} -> {from}", way.join(" -> ")))
        })
        .collect()
}

#[test]
fn modules_do_not_import_each_other_in_circles() {
    for (name, within) in PLACES {
        let graph = uses(&root().join(name).join("src"), within);
        let edges: usize = graph.values().map(BTreeSet::len).sum();
        assert!(edges > 4, "{name} {within:?}: only {edges} imports found");
        let mut found = circles(&graph);
        found.retain(|circle| *name != "crates/search" || !KNOWN.contains(&circle.as_str()));
        assert_eq!(found, [""; 0], "{name} {within:?}");
    }
}

#[test]
fn circles_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    write(
        "lib.rs",
        "mod a;\nmod b;\nmod c;\npub use c::{Thing, d::Other};\n",
    );
    write(
        "a.rs",
        "use std::fmt;\n\nuse crate::{Thing};\n\npub struct A;\n",
    );
    write("c.rs", "mod d;\nuse d::Other;\n");
    write("c/d.rs", "use super::super::b::B;\nuse super::Thing;\n");
    write("b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }\n");
    assert_eq!(circles(&uses(folder.path(), &[])), [""; 0]);
    write("b.rs", "fn f() -> crate::a::A {}\n");
    let found = circles(&uses(folder.path(), &[]));
    assert_eq!(found.first().map(String::as_str), Some("a -> c -> b -> a"));

    assert_eq!(circles(&uses(folder.path(), &["c"])), [""; 0]);
    write("c/e.rs", "use super::d::Other;\n");
    write("c/d.rs", "use super::e::More;\n");
    let found = circles(&uses(folder.path(), &["c"]));
    assert_eq!(found, ["d -> e -> d", "e -> d -> e"]);
}
