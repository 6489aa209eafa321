//! The file `results.csv`, a table of all raw rows for other programs.

use std::path::Path;

use super::measured::Measured;
use super::row::Row;
use crate::Error;
use crate::printable;
use crate::report::markdown::Column;
use crate::report::write_file;

const COLUMNS: [Column<Row>; 34] = [
    ("set", |row| row.set.clone()),
    ("run", |row| row.run.clone()),
    ("n", |row| row.n.to_string()),
    ("m", |row| row.m.to_string()),
    ("scorer", |row| row.scorer.to_string()),
    ("seed", |row| row.seed.to_string()),
    ("id", |row| row.id.clone()),
    ("correct", |row| row.correct.to_string()),
    ("any_right", |row| {
        row.any_right.map(|any| any.to_string()).unwrap_or_default()
    }),
    ("answer", |row| row.answer.clone().unwrap_or_default()),
    ("score", |row| {
        row.score.map(|score| score.to_string()).unwrap_or_default()
    }),
    ("finish", |row| row.finish.clone()),
    ("prompt_tokens", |row| row.ledger.prompt_tokens.to_string()),
    ("generated_tokens", |row| {
        row.ledger.generated_tokens.to_string()
    }),
    ("scored_tokens", |row| row.ledger.scored_tokens.to_string()),
    ("reused_tokens", |row| row.ledger.reused_tokens.to_string()),
    ("forward_passes", |row| {
        row.ledger.forward_passes.to_string()
    }),
    ("score_passes", |row| row.ledger.score_passes.to_string()),
    ("peak_kv_bytes", |row| row.ledger.peak_kv_bytes.to_string()),
    ("peak_kv_is_bound", |row| row.without_scores.to_string()),
    ("generate_seconds", |row| {
        row.ledger.seconds.generate.to_string()
    }),
    ("score_seconds", |row| row.ledger.seconds.score.to_string()),
    ("search_seconds", |row| {
        row.ledger.seconds.search.to_string()
    }),
    ("generate_flops", |row| {
        row.ledger.flops.generate.to_string()
    }),
    ("score_flops", |row| row.ledger.flops.score.to_string()),
    ("executed_flops", |row| {
        or_0(row.ledger.known(row.ledger.executed))
    }),
    ("least_flops", |row| {
        or_0(row.ledger.known(row.ledger.least))
    }),
    ("rounds", |row| row.ledger.width.rounds.to_string()),
    ("continued_chains", |row| {
        row.ledger.width.chains.to_string()
    }),
    ("continued_tokens", |row| {
        row.ledger.width.tokens.to_string()
    }),
    ("distinct_tokens", |row| {
        row.ledger.width.distinct_tokens.to_string()
    }),
    ("sampled_by_depth", |row| listed(&row.depths.sampled)),
    ("kept_by_depth", |row| listed(&row.depths.kept)),
    ("scored_by_depth", |row| listed(&row.depths.scored)),
];

fn listed(tokens: &[u32]) -> String {
    let tokens: Vec<String> = tokens.iter().map(u32::to_string).collect();
    tokens.join(" ")
}

/// Writes a line for each row, sorted by set, cell, problem and seed. A missing value is an empty field. Counts of a
/// `_by_depth` column are separated by blanks.
pub(super) fn write(path: &Path, measured: &[Measured<'_>]) -> Result<(), Error> {
    let mut table = csv::Writer::from_writer(Vec::new());
    let head = COLUMNS.map(|column| column.0);
    table.write_record(head).map_err(failed(path))?;
    for &row in measured.iter().flat_map(|cell| cell.rows.iter().flatten()) {
        let fields = COLUMNS.map(|column| shown(column.1(row)));
        table.write_record(fields).map_err(failed(path))?;
    }
    // The table is built in memory, so that the file is replaced atomically.
    let bytes = table
        .into_inner()
        .map_err(|error| Error::writing(path)(error.into_error()))?;
    write_file(path, &bytes)
}

/// Returns a field that spreadsheets and terminals show as text. Control characters are escaped, and text that looks
/// like a formula gets an apostrophe. Numbers stay numbers. The original text remains in the file of rows.
fn shown(text: String) -> String {
    let cell = printable::lines(&text).into_owned();
    // A spreadsheet would evaluate fields that begin with these characters.
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) && !is_number(&cell) {
        format!("'{cell}")
    } else {
        cell
    }
}

/// Returns a total of operations, or 0 if those of a model are unknown.
fn or_0(operations: Option<u64>) -> String {
    operations.unwrap_or(0).to_string()
}

fn failed(path: &Path) -> impl Fn(csv::Error) -> Error {
    move |error| Error::writing(path)(error.into())
}

/// Returns whether a field is a plain number. `parse` alone would accept `inf` and `nan` too.
fn is_number(cell: &str) -> bool {
    let unsigned = cell.strip_prefix(['-', '+']).unwrap_or(cell);
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') && cell.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_begin_a_formula_are_text_and_numbers_stay_numbers() {
        for formula in ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "-inf", "+", "-", "\t=1"] {
            assert_eq!(shown(formula.to_owned()), format!("'{formula}"));
        }
        assert_eq!(
            shown("a\u{1b}[2J\u{202e}b\0".to_owned()),
            "a\\x1b[2J\\u{202e}b\\x00"
        );
        for plain in ["", "-3.5", "+7", "-1e-7", "-.5", "1=1", "beam", "a-b"] {
            assert_eq!(shown(plain.to_owned()), plain);
        }
    }
}
