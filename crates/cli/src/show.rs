//! `beamgen show`: prints a run file, or writes it as an HTML page.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use beamgen::eval::{Record, RunFile, RunHeader, is_table, write_table};
use beamgen::strategy::{ChainTree, Node, NodeId, PruneReason, State};
use beamgen::{Aggregation, Problem, bundled};
use beamgen_view::{Run, Search, aggregation, failures, findings};

use crate::args::ShowArgs;
use crate::failure::{Failure, refuse};
use crate::palette::{Ink, Palette};
use crate::printable::{line, lines};
use crate::printed;
use crate::table::{Table, counted, grouped, percent, thousandths};
use crate::write::{Output, failed, write_file};

pub(crate) fn main(args: &ShowArgs) -> Result<(), Failure> {
    let (header, lines) = RunFile::read::<Record>(&args.file)?;
    let header = header.unwrap_or_else(|| RunHeader::new(String::new(), Default::default()));
    let mut records = last_of_each(lines);
    if let Some(id) = &args.id {
        match records.iter().position(|record| record.id == *id) {
            // `swap_remove` changes the order of the other records, which are dropped here.
            Some(at) => records = vec![records.swap_remove(at)],
            None => return Err(unknown(args, id, &records)),
        }
    }
    if let Some(path) = &args.html {
        let name = args.file.file_name().unwrap_or(args.file.as_os_str());
        let page = beamgen_view::report(&Run {
            name: &name.to_string_lossy(),
            header: &header,
            records: &records,
            check: &bundled::last_is_right,
        });
        return write_file(path, page.as_bytes());
    }
    if let Some(path) = &args.table {
        return table(path, &records);
    }
    if let Some(path) = &args.completions {
        return completions(args, path, &records);
    }
    let palette = Palette::new(args.color, io::stdout().is_terminal());
    let mut out = io::stdout().lock();
    match &records[..] {
        [record] if args.id.is_some() => one(&mut out, palette, record, aggregation(&header))?,
        _ => {
            list(&mut out, &records)?;
            causes(&mut out, palette, &records, aggregation(&header))?;
        }
    }
    Ok(out.flush()?)
}

/// Writes a row for each record, whole or not at all.
fn table(path: &Path, records: &[Record]) -> Result<(), Failure> {
    if !is_table(path) {
        return refuse(format!(
            "--table {}: end the name in .csv, .tsv or .parquet",
            path.display()
        ));
    }
    let rows: Vec<_> = records.iter().map(Record::row).collect();
    write_table(path, &rows).map_err(|error| match error.kind() {
        io::ErrorKind::Unsupported => Failure::Input(format!("{}: {error}", path.display())),
        _ => failed(path, error),
    })
}

/// Writes the chains of each record as a line of search-and-learn's.
fn completions(args: &ShowArgs, path: &Path, records: &[Record]) -> Result<(), Failure> {
    let mut lines = Vec::new();
    for record in records {
        let Some(line) = record.completions() else {
            return refuse(format!(
                "{}: {} has no tree, which has the chains: solve with --tree",
                args.file.display(),
                record.id
            ));
        };
        lines.push(line);
    }
    Output::open(path)?.lines(lines.into_iter())
}

/// Keeps the last line of each problem, at the position of its first line. A problem that was tried
/// again has several lines.
fn last_of_each(lines: Vec<Record>) -> Vec<Record> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut records: Vec<Record> = Vec::new();
    for record in lines {
        if let Some(&at) = places.get(&record.id) {
            records[at] = record;
        } else {
            places.insert(record.id.clone(), records.len());
            records.push(record);
        }
    }
    records
}

fn unknown(args: &ShowArgs, id: &str, records: &[Record]) -> Failure {
    let some: Vec<&str> = records.iter().take(5).map(|r| r.id.as_str()).collect();
    let file = args.file.display();
    Failure::Input(if some.is_empty() {
        format!("{file}: has no finished problem: run `beamgen solve --resume` first")
    } else {
        format!(
            "--id {id}: not a problem of {file}: use one of its {}: {}{}",
            records.len(),
            some.join(", "),
            if some.len() < records.len() {
                ", ..."
            } else {
                ""
            }
        )
    })
}

fn list(out: &mut dyn Write, records: &[Record]) -> io::Result<()> {
    let mut table = Table::new(&[
        "id", "graded", "answer", "votes", "score", "tokens", "end", "tree",
    ]);
    for record in records {
        let graded = match record.correct {
            None => "-",
            Some(true) if record.unsound.is_some() => "right, unsound",
            Some(true) => "right",
            Some(false) => "wrong",
        };
        let votes = record.answers.first().map(|chosen| {
            let all: usize = record.answers.iter().map(|answer| answer.votes).sum();
            format!("{} of {all}", chosen.votes)
        });
        table.row(vec![
            record.id.clone(),
            graded.to_owned(),
            record.answer.clone().unwrap_or_else(|| "-".to_owned()),
            votes.unwrap_or_else(|| "-".to_owned()),
            thousandths(record.score),
            grouped(record.ledger.generated_tokens),
            record.finish.clone(),
            if record.tree.is_some() { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table.write(out)?;
    writeln!(
        out,
        "\n  --id ID shows a problem, with its tree if the run had --tree"
    )
}

/// Prints why problems failed, with what to do.
fn causes(
    out: &mut dyn Write,
    palette: Palette,
    records: &[Record],
    aggregation: Aggregation,
) -> io::Result<()> {
    let searched = records.iter().map(|record| {
        let search = Search::of(record, aggregation, &bundled::last_is_right);
        (record, search)
    });
    let failures = failures(searched);
    let all: usize = failures.iter().map(|of| of.ids.len()).sum();
    if all == 0 {
        return Ok(());
    }
    let failed = counted(all, "problem", "problems");
    let head = palette.paint(Ink::Bold, format!("why {failed} failed"));
    writeln!(out, "\n  {head}")?;
    for of in &failures {
        let some: Vec<_> = of.ids.iter().take(3).map(|id| line(id)).collect();
        let more = if of.ids.len() > some.len() {
            ", ..."
        } else {
            ""
        };
        writeln!(
            out,
            "  {:>5}  {} ({}{more})",
            of.ids.len(),
            of.words,
            some.join(", ")
        )?;
        writeln!(out, "         {}", palette.paint(Ink::Dim, of.advice))?;
    }
    Ok(())
}

/// Prints one problem: its chosen chain, all answers and, if the run file has trees, its tree.
fn one(
    out: &mut dyn Write,
    palette: Palette,
    record: &Record,
    aggregation: Aggregation,
) -> io::Result<()> {
    let problem = Problem {
        id: record.id.clone(),
        text: record.problem.clone(),
        answer: record.reference.clone(),
        context: record.context.clone(),
        ..Problem::default()
    };
    for document in &record.context {
        let document = palette.paint(Ink::Dim, lines(document.trim())).to_string();
        writeln!(out, "{}\n", palette.wrapped(&document, 0, ""))?;
    }
    printed::problem(out, palette, &problem, record)?;
    if let Some(error) = &record.error {
        writeln!(out, "{}\n", line(error))?;
    }
    if !record.answers.is_empty() {
        let mut table = Table::new(&[
            "answers",
            "votes",
            "sum of scores",
            "best score",
            "best chain",
        ]);
        for answer in &record.answers {
            table.row(vec![
                answer.answer.clone(),
                answer.votes.to_string(),
                format!("{:.3}", answer.weight),
                thousandths(answer.score),
                format!("#{}", answer.node.0),
            ]);
        }
        table.write(out)?;
        writeln!(out)?;
    }
    let found = findings(
        record,
        &Search::of(record, aggregation, &bundled::last_is_right),
    );
    for finding in &found {
        let question = palette.paint(Ink::Bold, finding.question);
        let node = finding
            .node
            .map_or(String::new(), |node| format!(" [#{node}]"));
        writeln!(out, "  {question} {}{node}", line(&finding.answer))?;
    }
    if !found.is_empty() {
        writeln!(out)?;
    }
    let width = record.ledger.width;
    if let (Some(mean), Some(shared)) = (width.mean(), width.shared()) {
        let said = format!(
            "{mean:.2} different chains continued after a step, {} of their tokens shared",
            percent(shared)
        );
        writeln!(out, "  {}\n", palette.paint(Ink::Dim, said))?;
    }
    match &record.tree {
        Some(tree) => Drawing {
            tree,
            record,
            palette,
        }
        .write(out),
        None => writeln!(out, "no tree: run with --tree to save it"),
    }
}

/// Draws a search tree with one line per step. Duplicates are not drawn; the step that represents
/// them shows their number. A single child is not indented, so a chain without branches is one
/// column.
struct Drawing<'a> {
    tree: &'a ChainTree,
    record: &'a Record,
    palette: Palette,
}

impl Drawing<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let count = |wanted: fn(&Node) -> bool| {
            // The root node is the problem, not a step.
            let nodes = self.tree.nodes().skip(1);
            nodes.filter(|(_, node)| wanted(node)).count()
        };
        writeln!(
            out,
            "tree: {} sampled, {} of them duplicates; {} pruned, {} ended. * is the chosen chain",
            counted(self.tree.len() - 1, "step", "steps"),
            count(|node| node.state == State::Duplicate),
            count(|node| node.state == State::Pruned),
            counted(count(|node| node.finish().is_some()), "chain", "chains"),
        )?;
        // The stack of nodes to draw, each with the prefix of its first line and the prefix of its
        // further lines. A loop replaces recursion, because a chain may be deeper than the thread's
        // stack.
        let mut todo = self.below(ChainTree::ROOT, "");
        let chosen = self.chosen();
        while let Some((id, first, rest)) = todo.pop() {
            self.step(out, id, &first, &rest, chosen.contains(&id))?;
            todo.extend(self.below(id, &rest));
        }
        Ok(())
    }

    /// Returns the nodes of the chain whose answer was chosen; an empty list without an answer.
    fn chosen(&self) -> Vec<NodeId> {
        match self.record.answers.first() {
            // An edited run file may name a node that does not exist.
            Some(answer) if (answer.node.0 as usize) < self.tree.len() => {
                self.tree.path(answer.node)
            }
            _ => Vec::new(),
        }
    }

    /// Returns the children of a node with their prefixes. The last child comes first, since a
    /// stack pops from the end.
    fn below(&self, id: NodeId, before: &str) -> Vec<(NodeId, String, String)> {
        let above = self.tree.node(id);
        let chosen = self.chosen();
        // Of the rollouts, only the chosen chain is drawn.
        let completed = above.rollouts.iter().filter(|id| chosen.contains(id));
        let shown = above.children.iter().chain(completed).copied();
        let shown = shown.filter(|&child| {
            let node = self.tree.node(child);
            node.state != State::Duplicate
        });
        let shown: Vec<NodeId> = shown.collect();
        if let [only] = shown[..] {
            return vec![(only, before.to_owned(), before.to_owned())];
        }
        let last = shown.last().copied();
        let lines = shown.into_iter().map(|child| {
            let (own, below) = if Some(child) == last {
                ("\u{2514}\u{2500} ", "   ")
            } else {
                ("\u{251c}\u{2500} ", "\u{2502}  ")
            };
            (child, format!("{before}{own}"), format!("{before}{below}"))
        });
        lines.rev().collect()
    }

    fn step(
        &self,
        out: &mut dyn Write,
        id: NodeId,
        first: &str,
        rest: &str,
        is_chosen: bool,
    ) -> io::Result<()> {
        let node = self.tree.node(id);
        let star = if is_chosen { "*" } else { " " };
        let score = match node.score.or(node.partial_score) {
            Some(score) => self
                .palette
                .paint(Ink::of_score(score), format!("{score:.3}")),
            None => self.palette.paint(Ink::Dim, "    -".to_owned()),
        };
        let text = if node.is_empty_step() {
            "(no text)"
        } else {
            &lines(node.spoken().trim())
        };
        let text = if is_chosen {
            self.palette.paint(Ink::Bold, text).to_string()
        } else {
            text.to_owned()
        };
        let remarks = self.palette.paint(Ink::Dim, self.remarks(id, node));
        // 9 columns before the text: the star, a blank, five for the score, two blanks.
        let used = first.chars().count() + 9;
        let hang = format!("  {rest}         ");
        let text = format!("{text}  {remarks}");
        let text = self.palette.wrapped(&text, used, &hang);
        writeln!(out, "{star} {first}{score}  {text}")
    }

    /// Returns the remarks after a step: its number, sureness, judges' scores, copies and end.
    fn remarks(&self, id: NodeId, node: &Node) -> String {
        let mut remarks = vec![format!("#{}", id.0)];
        if let Some(thought) = node.thought {
            remarks.push(match thought.forced {
                0 => format!("thought of {} tokens", thought.tokens),
                forced => format!(
                    "thought of {} tokens, the last {forced} to close it at its limit",
                    thought.tokens
                ),
            });
        }
        remarks.extend(self.value(node));
        remarks.extend(
            node.quantiles
                .and_then(printed::sureness)
                .map(str::to_owned),
        );
        remarks.extend(printed::judges(&node.judges));
        if node.copies > 1 {
            remarks.push(format!("sampled {} times", node.copies));
        }
        remarks.extend(match node.state {
            State::Finished(finish) => Some(format!("end: {finish}")),
            State::Pruned => Some(pruned(node)),
            State::Expanded | State::Duplicate => None,
            State::Open | State::Paused | State::Growing => Some("open".to_owned()),
        });
        format!("({})", remarks.join("; "))
    }

    /// Returns the value of a step by rollouts, and its difference from the step before; `None` for
    /// a step without a value.
    fn value(&self, node: &Node) -> Option<String> {
        let value = node.value?;
        let mut text = format!("V {value:.2}");
        if let Some(before) = node.parent.and_then(|parent| self.tree.node(parent).value) {
            text += &format!(" ({:+.2})", value - before);
        }
        text += match node.rollouts.len() {
            0 => "",
            1 => " of 1 rollout",
            count => return Some(format!("{text} of {count} rollouts")),
        };
        Some(text)
    }
}

fn pruned(node: &Node) -> String {
    let Some(why) = node.pruned else {
        return "pruned".to_owned();
    };
    let in_round = why
        .round
        .map_or(String::new(), |round| format!(" in round {round}"));
    let why = match why.reason {
        PruneReason::NotChosen => match (why.rank, why.candidates, why.cutoff) {
            (Some(rank), Some(all), Some(cutoff)) => {
                format!(": rank {rank} of {all}, cutoff {cutoff:.3}")
            }
            (Some(rank), Some(all), None) => format!(": rank {rank} of {all}"),
            _ => String::new(),
        },
        PruneReason::Budget => ": the token budget was used up".to_owned(),
        PruneReason::SearchOver => ": the search was over".to_owned(),
    };
    format!("pruned{in_round}{why}")
}
