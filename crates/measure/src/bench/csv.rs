//! All raw rows as a table for other programs.

use std::path::Path;

use super::measured::Measured;
use super::outline::Outline;
use crate::Error;
use crate::printable;
use crate::report::write_file;

const HEAD: [&str; 25] = [
    "set",
    "run",
    "n",
    "m",
    "scorer",
    "seed",
    "id",
    "correct",
    "answer",
    "score",
    "finish",
    "prompt_tokens",
    "generated_tokens",
    "scored_tokens",
    "reused_tokens",
    "forward_passes",
    "score_passes",
    "peak_kv_bytes",
    "peak_kv_is_bound",
    "generate_seconds",
    "score_seconds",
    "search_seconds",
    "sampled_by_depth",
    "kept_by_depth",
    "scored_by_depth",
];

/// Writes the rows by set, cell, problem and seed; what is absent is empty, and tokens by depth are
/// separated by blanks.
pub fn write(path: &Path, outline: &Outline, measured: &[Measured<'_>]) -> Result<(), Error> {
    let failed = |error: csv::Error| Error::writing(path)(error.into());
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record(HEAD).map_err(failed)?;
    for cell in measured {
        for row in cell.rows.iter().flatten() {
            let ledger = &row.ledger;
            let listed = |tokens: &[u32]| {
                tokens
                    .iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let fields = [
                outline.sets[cell.set].name.clone(),
                row.run.clone(),
                row.n.to_string(),
                row.m.to_string(),
                row.scorer.to_string(),
                row.seed.to_string(),
                row.id.clone(),
                row.correct.to_string(),
                row.answer.clone().unwrap_or_default(),
                row.score.map(|score| score.to_string()).unwrap_or_default(),
                row.finish.clone(),
                ledger.prompt_tokens.to_string(),
                ledger.generated_tokens.to_string(),
                ledger.scored_tokens.to_string(),
                ledger.reused_tokens.to_string(),
                ledger.forward_passes.to_string(),
                ledger.score_passes.to_string(),
                ledger.peak_kv_bytes.to_string(),
                row.without_scores.to_string(),
                ledger.seconds.generate.to_string(),
                ledger.seconds.score.to_string(),
                ledger.seconds.search.to_string(),
                listed(&row.depths.sampled),
                listed(&row.depths.kept),
                listed(&row.depths.scored),
            ];
            table.write_record(fields.map(shown)).map_err(failed)?;
        }
    }
    let bytes = table
        .into_inner()
        .map_err(|error| Error::writing(path)(error.into_error()))?;
    write_file(path, &bytes)
}

/// A cell that spreadsheets and terminals show as it is: characters that act are escapes, and what
/// begins like a formula gets an apostrophe before it; plain numbers stay numbers. The rows have
/// the text as it was.
fn shown(text: String) -> String {
    let cell = printable::lines(&text).into_owned();
    let is_number = || {
        let unsigned = cell.strip_prefix(['-', '+']).unwrap_or(&cell);
        unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && cell.parse::<f64>().is_ok()
    };
    match cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) && !is_number() {
        true => format!("'{cell}"),
        false => cell,
    }
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
