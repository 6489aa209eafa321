//! No circles of imports between the modules of a crate: each can be read after those that it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::run::root;

/// Circles that stay: the crate and the module around them, the modules of the circle, the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "search",
        "config strategy",
        "a configuration names a row of the table of strategies, a row makes its strategy of the configuration",
    ),
    (
        "kernels",
        "isa simd",
        "a task runs on any vectors, and vectors run a task with the instructions of their tier switched on",
    ),
    (
        "kernels::cuda",
        "buffer device",
        "a device gives out buffers, and a buffer holds the device that it lies on",
    ),
    (
        "kernels::linear",
        "amx_tile int8 int8_tile",
        "one operation in three files: the layer, its register blocks, and those that AMX sums",
    ),
    (
        "serve",
        "app ask body field_table ignored options reload writing",
        "the state of a server holds what handlers keep between requests, and handlers are given the state",
    ),
    (
        "serve",
        "gate openapi reward routes schema",
        "the table of routes names handlers and schemas, and the document is made of the table",
    ),
    (
        "serve::reward",
        "chain markup",
        "a chain is read out of a marked-up text, and the turns of such a text are those of a chain",
    ),
    (
        "eval::algebra",
        "fraction numeric poly",
        "a fraction is of polynomials, whose atoms are functions of fractions; numeric evaluates both",
    ),
    (
        "labels::monte_carlo",
        "bisect pool sampled",
        "what was sampled keeps the candidates of both ways to choose a prefix, and these read what was sampled",
    ),
    (
        "python",
        "news requests running",
        "a running solver cancels its groups of requests when it closes, and a group asks the solver that runs",
    ),
];

/// A path of names, from the crate's root.
type Names = Vec<String>;

/// The code of a crate's files, by the modules that they are, without tests.
fn modules(folder: &Path, module: &[String], found: &mut BTreeMap<Names, String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.expect("a name").to_owned();
        let inside = [module, std::slice::from_ref(&name)].concat();
        if path.is_dir() {
            modules(&path, &inside, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            let is_parent = ["mod", "lib", "main"].contains(&name.as_str());
            let module = if is_parent { module.to_vec() } else { inside };
            found.insert(module, without_comments(&text));
        }
    }
}

fn without_comments(text: &str) -> String {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// Takes tests away: modules that only tests have, and what stands in the files of others.
fn without_tests(all: &BTreeMap<Names, String>) -> BTreeMap<Names, String> {
    let mut kept = all.clone();
    for (module, code) in all {
        let mut parts = code.split("#[cfg(test)]\n");
        let mut rest = parts.next().expect("a part").to_owned();
        for part in parts {
            let Some(item) = part.trim_start_matches("pub(crate) ").strip_prefix("mod ") else {
                rest += part;
                continue;
            };
            // a module that stands in the file ends it
            let declared = item.split_once(';').filter(|(name, _)| !name.contains('{'));
            let Some((name, after)) = declared else { break };
            let inside = [module.as_slice(), &[name.to_owned()]].concat();
            kept.retain(|other, _| !other.starts_with(&inside));
            rest += after;
        }
        if let Some(kept) = kept.get_mut(module) {
            *kept = rest;
        }
    }
    kept
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
    let inside = &inside[..inside
        .rfind('}')
        .unwrap_or_else(|| panic!("no closing brace: {tree}"))];
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
    let uses = code.split(';').enumerate().filter_map(|(at, part)| {
        let line = part.rfind("use ")?;
        let before = part[..line].trim_end();
        // `use` may also be in a text, as in "unknown engine: use ...": only the start of a line
        // counts.
        let begun = part[..line].rsplit('\n').next().unwrap_or_default();
        let is_new = at == 0 || part[..line].contains('\n');
        let begins_line = is_new && (begun.trim().is_empty() || begun.trim().starts_with("pub"));
        let ends = begins_line
            && (before.is_empty()
                || before.ends_with(['}', ']', '{', ')'])
                || before.ends_with("pub"));
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

/// The paths that stand in the code itself and begin at the crate's root or the parent.
fn inline(code: &str) -> Vec<Names> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c: char| !is_path(c));
    let starts = ["crate::", "super::"];
    let rooted = words.filter(|word| starts.iter().any(|start| word.starts_with(start)));
    rooted
        .flat_map(|path| paths(path.trim_end_matches(':')))
        .collect()
}

/// Which modules of a crate use which.
struct Crate {
    modules: BTreeSet<Names>,
    uses: BTreeSet<(Names, Names)>,
}

impl Crate {
    fn read(source: &Path) -> Self {
        let mut all = BTreeMap::new();
        modules(source, &[], &mut all);
        let all = without_tests(&all);
        let mut handed_on = BTreeMap::new();
        for (module, code) in &all {
            for (public, path) in imports(code) {
                if let (true, Some(to)) = (public, absolute(&path, module, &all)) {
                    let name = path.last().expect("a name").clone();
                    handed_on.insert([module.as_slice(), &[name]].concat(), to);
                }
            }
        }
        let mut uses = BTreeSet::new();
        for (module, code) in &all {
            let imported = imports(code).map(|(_, path)| path);
            for path in imported.chain(inline(code)) {
                if let Some(path) = absolute(&path, module, &all) {
                    uses.insert((module.clone(), home(&path, &handed_on, &all)));
                }
            }
        }
        let modules = all.into_keys().collect();
        Self { modules, uses }
    }

    /// Every module with others inside it; the first is the crate's root.
    fn parents(&self) -> BTreeSet<&[String]> {
        let children = self.modules.iter().filter(|module| !module.is_empty());
        children.map(|child| &child[..child.len() - 1]).collect()
    }

    /// Which modules inside `within` use which others there. How a module and those inside it use
    /// each other does not matter.
    fn uses_inside(&self, within: &[String]) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (from, to) in &self.uses {
            if let (Some(from), Some(to)) = (child(from, within), child(to, within))
                && from != to
            {
                graph.entry(from).or_default().insert(to);
            }
        }
        graph
    }
}

/// The module directly inside `within` that `path` is or lies in.
fn child<'a>(path: &'a [String], within: &[String]) -> Option<&'a str> {
    path.strip_prefix(within)?.first().map(String::as_str)
}

/// All that `from` uses, directly or not.
fn reachable<'a>(
    graph: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    from: &str,
    seen: &mut BTreeSet<&'a str>,
) {
    for next in graph.get(from).into_iter().flatten() {
        if seen.insert(next) {
            reachable(graph, next, seen);
        }
    }
}

/// The sets of modules that use each other in circles.
fn circles<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<Vec<&'a str>> {
    let reach = |from: &str| {
        let mut seen = BTreeSet::new();
        reachable(graph, from, &mut seen);
        seen
    };
    let all: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|from| (*from, reach(from))).collect();
    let back = |to: &str, from: &str| all.get(to).is_some_and(|reach| reach.contains(from));
    let own = all.iter().map(|(from, reach)| {
        let members = reach.iter().copied().filter(|to| back(to, from));
        members.collect::<Vec<_>>()
    });
    own.filter(|members| !members.is_empty()).collect()
}

/// The folders with sources, by the names of their crates.
fn sources() -> BTreeMap<String, PathBuf> {
    let listed = std::fs::read_dir(root().join("crates")).expect("a folder");
    let crates = listed.map(|entry| entry.expect("an entry").path());
    crates
        .chain([root().join("python")])
        .map(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            (name.expect("a name").to_owned(), path.join("src"))
        })
        .collect()
}

#[test]
fn modules_do_not_import_each_other_in_circles() {
    let (mut edges, mut found) = (0, BTreeMap::new());
    for (name, source) in sources() {
        let modules = Crate::read(&source);
        for within in modules.parents() {
            let place = [std::slice::from_ref(&name), within].concat().join("::");
            let graph = modules.uses_inside(within);
            edges += graph.values().map(BTreeSet::len).sum::<usize>();
            for members in circles(&graph) {
                let uses = members
                    .iter()
                    .map(|from| format!("{from} -> {:?}", graph[from]));
                let uses = uses.collect::<Vec<_>>().join(", ");
                found.insert((place.clone(), members.join(" ")), uses);
            }
        }
    }
    assert!(edges > 1000, "only {edges} imports found");
    for (place, members, _) in EXCEPTIONS {
        let known = found.remove(&((*place).to_owned(), (*members).to_owned()));
        assert!(known.is_some(), "no longer a circle in {place}: {members}");
    }
    assert!(found.is_empty(), "new circles: {found:#?}");
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
    let circles_in = |within: &[&str]| {
        let within: Names = within.iter().map(|&name| name.to_owned()).collect();
        let found = Crate::read(folder.path());
        let graph = found.uses_inside(&within);
        circles(&graph)
            .into_iter()
            .map(|one| one.join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(circles_in(&[]), [""; 0]);
    write("b.rs", "fn f() -> crate::a::A {}\n");
    assert_eq!(circles_in(&[]), ["a b c"]);

    assert_eq!(circles_in(&["c"]), [""; 0]);
    write("c/e.rs", "fn f() -> super::d::Other {}\n");
    write("c/d.rs", "use super::e::More;\n");
    assert_eq!(circles_in(&["c"]), ["d e"]);
    assert_eq!(circles_in(&[]), [""; 0]);
    write("c.rs", "#[cfg(test)]\nmod e;\nmod d;\n");
    assert_eq!(circles_in(&["c"]), [""; 0]);
}
