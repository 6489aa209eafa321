//! Checks of the pages in `docs/` that are generated from tables: settings, command line, HTTP,
//! strategies.

use std::collections::BTreeSet;
use std::fmt::Write;

use beamgen::settings::{Kind, SETTINGS, Scope, Setting};
use beamgen::strategy::StrategyName;

use crate::book::read;
use crate::run::{Place, root};

/// The headings of a command's help under which flags for settings are listed.
const SETTING_HEADINGS: [&str; 4] = ["Search", "Sampling", "Models", "Checkers and verifiers"];

/// Checks that a file has this text. With `BEAMGEN_WRITE=1` the file is written instead.
fn assert_written(path: &str, text: &str) {
    if std::env::var_os("BEAMGEN_WRITE").is_some() && read(path) != text {
        // Another test may read the page at this moment, and must not find half of it.
        let (page, new) = (root().join(path), root().join(format!("{path}.new")));
        std::fs::write(&new, text).expect("written");
        std::fs::rename(new, page).expect("renamed");
    }
    let found = read(path);
    let differs = found.lines().zip(text.lines()).find(|(a, b)| a != b);
    let advice = "BEAMGEN_WRITE=1 cargo test --release --test integration reference";
    assert!(
        found == text,
        "{path} is not what the tables say, first at {differs:?}. If the change is meant, write it: {advice}"
    );
}

/// Checks the text between the two comments called `name` in a page, or writes it with
/// `BEAMGEN_WRITE=1`.
fn assert_part_written(path: &str, name: &str, text: &str) {
    let page = read(path);
    let (begin, end) = (
        format!("<!-- begin: {name} -->\n"),
        format!("<!-- end: {name} -->"),
    );
    let (before, rest) = page.split_once(&begin).expect(&begin);
    let (_, after) = rest.split_once(&end).expect(&end);
    assert_written(path, &format!("{before}{begin}{text}{end}{after}"));
}

/// Adds a comment below the title of a page that tells how to generate the page.
fn generated(page: &str) -> String {
    let note = "\n\n<!-- tests/reference.rs writes this page: BEAMGEN_WRITE=1 -->\n\n";
    page.replacen("\n\n", note, 1)
}

#[test]
fn the_page_of_settings_is_the_table_of_settings() {
    assert_written("docs/reference/settings.md", &generated(&settings_page()));
}

#[test]
fn the_page_of_the_command_line_is_the_help_of_the_program() {
    let page = generated(&command_line_page());
    assert_written("docs/reference/command-line.md", &page);
}

#[test]
fn the_page_of_http_has_the_settings_of_a_request() {
    let mut table = "| key | type | meaning |\n|---|---|---|\n".to_owned();
    for row in SETTINGS.iter().filter(|row| row.scope == Scope::Request) {
        let kind = match row.kind {
            Kind::Switch => "boolean",
            Kind::Count => "integer",
            Kind::Number => "number",
            Kind::Text | Kind::Path => "string",
            Kind::Size => "string or integer",
            Kind::List | Kind::Texts => "string or array",
        };
        let meaning = escaped(&sentences(&[row.help()]));
        let _ = writeln!(table, "| `{}` | {kind} | {meaning} |", row.name);
    }
    assert_part_written("docs/reference/http.md", "settings of a request", &table);
}

#[test]
fn the_page_of_http_has_every_route() {
    // A test of the crate `beamgen-serve` compares openapi.json with the routes.
    let document = read("docs/reference/openapi.json");
    let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    let paths = document["paths"].as_object().expect("paths");
    let wanted: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let path = path.replace("{name}", "NAME");
            let methods = methods.as_object().expect("methods");
            let methods = methods
                .keys()
                .map(move |method| format!("{} {path}", method.to_uppercase()));
            methods.collect::<Vec<_>>()
        })
        .collect();
    let page = read("docs/reference/http.md");
    let (_, table) = page.split_once("\n## Routes\n").expect("a heading");
    let (table, _) = table.split_once("\n## ").expect("a heading");
    let firsts = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let firsts = firsts.filter_map(|row| row.split_once(" |"));
    let names = firsts.flat_map(|(names, _)| names.split('`'));
    let found: BTreeSet<String> = names
        .filter(|name| name.starts_with("GET ") || name.starts_with("POST "))
        .map(str::to_owned)
        .collect();
    assert_eq!(found, wanted);
    assert!(wanted.len() > 8, "{wanted:?}");
}

#[test]
fn the_page_of_strategies_has_the_table_of_strategies() {
    let table = StrategyName::markdown();
    assert_part_written("docs/guide/strategies.md", "strategies", &table);
}

fn settings_page() -> String {
    let mut page = "\
# Settings

A setting has one name everywhere. On the command line `max_steps` is `--max-steps`, in Python the keyword `max_steps`, over HTTP the field
`max_steps` of the object `beamgen`. In a file it is the key that is shown below its flag.

```sh
beamgen solve problems.jsonl --max-steps 60
beamgen solve problems.jsonl --set search.max_steps=60
beamgen solve problems.jsonl --config my.toml         # with a table [search] and max_steps = 60
```

`--set KEY=VALUE` reaches every key, those without a flag too. It wins over `--config`, and other flags win over both. `--verbose` shows the settings in
effect. A setting that would change nothing is refused, e.g. `--combine` without a judge.

"
    .to_owned();
    let mut headings: Vec<&str> = Vec::new();
    for row in SETTINGS {
        if !headings.contains(&row.part.heading()) {
            headings.push(row.part.heading());
        }
    }
    for heading in headings {
        let _ = writeln!(page, "## {heading}\n");
        page += "| flag, key | default | what it does |\n|---|---|---|\n";
        let rows = SETTINGS.iter().filter(|row| row.part.heading() == heading);
        for row in rows {
            page += &setting_row(row);
        }
        page += "\n";
    }
    let of_requests = SETTINGS.iter().filter(|row| row.scope == Scope::Request);
    let names: Vec<String> = of_requests.map(|row| format!("`{}`", row.name)).collect();
    let _ = write!(
        page,
        "## Settings of a request

One loaded pair of models answers requests with different settings: over [HTTP](http.md), and in [Python](../guide/python.md) as keywords of `solve`. A
request may set {}. The others belong to the models or the process.

",
        names.join(", ")
    );
    page += "\
## Every key

A file may leave out any key.

```toml
{{#include ../../configs/search/default.toml}}
```

The tables of two more strategies:

```toml
{{#include ../../configs/search/ets.toml}}
```

```toml
{{#include ../../configs/search/deepconf.toml}}
```
";
    page
}

fn setting_row(row: &Setting) -> String {
    let flag = flag(row.name);
    let names = if row.short.is_empty() {
        flag
    } else {
        format!("-{}, {flag}", row.short)
    };
    let shown = format!("{names} {}", row.value);
    let mut first = format!("`{}`", shown.trim_end().replace('|', "\\|"));
    if !row.key.is_empty() {
        let _ = write!(first, "<br>`{}`", row.key);
    }
    let default = match (row.default, row.kind) {
        ("", Kind::Switch) => "off".to_owned(),
        ("", _) => String::new(),
        (default, _) => format!("`{default}`"),
    };
    let text = description(row);
    let range = match row.range.split_once("..") {
        Some((least, "")) if least != "0" => format!("At least {least}."),
        Some((least, most))
            if !most.is_empty()
                && !text.contains(&format!("from {least} to {most}"))
                && !text.contains(&format!("At most {most}")) =>
        {
            format!("From {least} to {most}.")
        }
        _ => String::new(),
    };
    let meaning = escaped(&sentences(&[text, range]));
    format!("| {first} | {default} | {meaning} |\n")
}

/// Returns a setting's help without the default, which is in another column.
fn description(row: &Setting) -> String {
    let more = row.more();
    let more = if row.default.is_empty() {
        more
    } else {
        let default = format!("[default: {}]", row.default);
        let more = more.strip_suffix(&default).expect("a default at the end");
        more.trim_end().to_owned()
    };
    sentences(&[row.help(), more])
}

fn flag(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

/// Joins texts and adds a full stop to each that has no end.
fn sentences(parts: &[impl AsRef<str>]) -> String {
    let ends = |text: &str| text.ends_with(['.', ':', ';', '!', '?', ']']);
    let mut text = String::new();
    for part in parts.iter().map(AsRef::as_ref) {
        if part.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text += if ends(&text) { " " } else { ". " };
        }
        text += part;
    }
    if !text.is_empty() && !ends(&text) {
        text.push('.');
    }
    text
}

/// Escapes text with code spans for Markdown. Inside a table, `|` must be escaped, too.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(at, part)| {
        if at % 2 == 1 {
            return part.replace('|', "\\|");
        }
        part.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('|', "\\|")
            .replace('*', "\\*")
    });
    parts.collect::<Vec<_>>().join("`")
}

fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Joins the lines of each paragraph.
fn paragraphs(lines: &[&str]) -> Vec<String> {
    let parts = lines.split(|line| line.trim().is_empty());
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(|part| joined(&part.join(" "))).collect()
}

/// A command's long help, split into its parts.
struct Help<'a> {
    about: Vec<String>,
    usage: String,
    sections: Vec<Section<'a>>,
    /// The lines from the examples to the end.
    tail: Vec<&'a str>,
}

struct Section<'a> {
    heading: &'a str,
    /// Arguments and flags as the help writes them, each with its paragraphs.
    entries: Vec<(&'a str, Vec<String>)>,
}

impl<'a> Help<'a> {
    fn of(text: &'a str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let usage = lines.iter().position(|line| line.starts_with("Usage: "));
        let usage = usage.expect("a usage");
        let after = &lines[usage + 1..];
        let wrapped = after.iter().take_while(|line| line.starts_with(' '));
        let (wrapped, body) = after.split_at(wrapped.count());
        let begins_tail =
            |line: &&str| is_unindented(line) && (*line == "Examples:" || !line.ends_with(':'));
        let tail = body.iter().position(begins_tail).unwrap_or(body.len());
        let usage: Vec<&str> = std::iter::once(&lines[usage])
            .chain(wrapped)
            .map(|line| line.trim())
            .collect();
        Self {
            about: paragraphs(&lines[..lines.len() - after.len() - 1]),
            usage: usage.join(" "),
            sections: sections(&body[..tail]),
            tail: body[tail..].to_vec(),
        }
    }
}

fn is_unindented(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(' ')
}

fn sections<'a>(lines: &[&'a str]) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    for line in lines {
        if is_unindented(line) {
            sections.push(Section {
                heading: line.trim_end_matches(':'),
                entries: Vec::new(),
            });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            continue;
        };
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        if !text.is_empty() && indent <= 6 {
            section.entries.push((text, vec![String::new()]));
        } else if let Some((_, paragraphs)) = section.entries.last_mut() {
            let is_open = paragraphs.last().is_some_and(|last| !last.is_empty());
            match paragraphs.last_mut() {
                Some(last) if !text.is_empty() => {
                    if is_open {
                        last.push(' ');
                    }
                    last.push_str(text);
                }
                _ if is_open => paragraphs.push(String::new()),
                _ => {}
            }
        }
    }
    sections
}

/// Returns a command's help at the default width, as printed to a file.
fn help(path: &[&str]) -> String {
    let args = [path, &["--help"]].concat();
    let place = Place::new();
    let mut command = place.command(&args);
    let output = command.env_remove("COLUMNS").output().expect("it runs");
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the commands that a help text lists, without `help`.
fn commands(help: &str) -> Vec<&str> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let list = list.split_once("\n\n").map_or(list, |(list, _)| list);
    let lines = list
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").collect()
}

fn command_line_page() -> String {
    let mut page = "\
# Command line

`beamgen COMMAND --help` prints what is below; `-h` prints a summary. `beamgen completions SHELL` and `beamgen man COMMAND` write completions and manual
pages. Exit codes: 0 done, 1 the run failed, 2 wrong usage or input, with one line that names the file, line and field; 130 after Ctrl-C, which ends
a run with what is done (a second one ends it at once), likewise 143, 129 and 131 after SIGTERM, SIGHUP and SIGQUIT.

"
    .to_owned();
    for command in commands(&help(&[])) {
        page += &command_section(&[command]);
    }
    format!("{}\n", page.trim_end())
}

fn command_section(path: &[&str]) -> String {
    let text = help(path);
    let help = Help::of(&text);
    let mut out = format!(
        "{} beamgen {}\n\n",
        "#".repeat(path.len() + 1),
        path.join(" ")
    );
    for paragraph in &help.about {
        let _ = writeln!(out, "{}\n", escaped(paragraph));
    }
    let _ = writeln!(out, "```text\n{}\n```\n", help.usage);
    out += &flags(&help.sections);
    out += &tail(&help.tail);
    for command in commands(&text) {
        out += &command_section(&[path, &[command]].concat());
    }
    out
}

/// Returns a table of the command's own flags, and the names of its flags for settings.
fn flags(sections: &[Section<'_>]) -> String {
    let mut all: BTreeSet<String> = SETTINGS.iter().map(|row| row.name.to_owned()).collect();
    all.extend(["config".to_owned(), "set".to_owned()]);
    let (mut rows, mut settings, mut found) = (String::new(), Vec::new(), BTreeSet::new());
    for section in sections.iter().filter(|part| part.heading != "Commands") {
        for (names, paragraphs) in &section.entries {
            if names.starts_with("-h, --help") {
                continue;
            }
            let long = names.split_once("--").map_or("", |(_, long)| long);
            let long = long.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
            let name = long.take(1).collect::<String>().replace('-', "_");
            if SETTING_HEADINGS.contains(&section.heading) && all.contains(&name) {
                let flag = names.split(" <").next().unwrap_or(names);
                let flag = flag.split(", ").next().unwrap_or(flag);
                settings.push(format!("`{flag}`"));
                found.insert(name);
                continue;
            }
            let texts: Vec<String> = paragraphs.iter().map(|text| values(text)).collect();
            let names = names.replace('|', "\\|");
            let _ = writeln!(rows, "| `{names}` | {} |", escaped(&sentences(&texts)));
        }
    }
    let mut out = String::new();
    if !rows.is_empty() {
        out += "| argument or flag | what it does |\n|---|---|\n";
        out += &rows;
        out += "\n";
    }
    if found == all {
        out += "All [settings](settings.md) are flags, too.\n\n";
    } else if !settings.is_empty() {
        let _ = writeln!(
            out,
            "[Settings](settings.md) that are flags, too: {}.\n",
            settings.join(", ")
        );
    }
    out
}

/// Joins a paragraph to one line. A list of possible values becomes a sentence.
fn values(paragraph: &str) -> String {
    let text = joined(paragraph);
    if text.starts_with("Possible values: - ") {
        return text.replacen(": - ", ": ", 1).replace(" - ", "; ");
    }
    text
}

/// Formats the examples as code and the rest as prose. The list of strategies is left out, because
/// it has a page.
fn tail(lines: &[&str]) -> String {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in lines {
        let last = blocks.last().and_then(|block| block.last());
        let continues = last.is_some_and(|last| is_unindented(last) && !last.ends_with(':'));
        match blocks.last_mut() {
            Some(block) if continues || !is_unindented(line) => block.push(line),
            _ => blocks.push(vec![*line]),
        }
    }
    let mut out = String::new();
    for mut block in blocks {
        while block.last().is_some_and(|line| line.trim().is_empty()) {
            block.pop();
        }
        match block.as_slice() {
            [] | ["Strategies:", ..] => {}
            [title, rest @ ..]
                if title.ends_with(':')
                    && rest.first().is_some_and(|line| line.starts_with(' ')) =>
            {
                let rest = rest
                    .iter()
                    .map(|line| line.strip_prefix("  ").unwrap_or(line));
                let rest: Vec<&str> = rest.collect();
                let _ = writeln!(out, "{title}\n\n```text\n{}\n```\n", rest.join("\n"));
            }
            lines => {
                for paragraph in paragraphs(lines) {
                    let _ = writeln!(out, "{}\n", escaped(&paragraph));
                }
            }
        }
    }
    out
}
