//! A normal form of problem texts, to find the same problem in two files.

use std::collections::BTreeSet;

use beamgen_records::DataSource;

use crate::LabelsError;
use crate::open::each;

/// Returns a text in lower case, without LaTeX spacing and math delimiters. Words, numbers and
/// operators are separated by single spaces; other ASCII punctuation counts as white space.
#[must_use]
pub fn normalised(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = if first == '\\' {
            let name = length_of(&rest[1..], |c| c.is_ascii_alphabetic());
            let lower = rest[1..=name].to_lowercase();
            match lower.as_str() {
                // These commands only change the appearance.
                "" | "left" | "right" | "quad" | "qquad" | "displaystyle" | "textstyle" | "big"
                | "bigl" | "bigr" | "limits" | "nonumber" | "noindent" => {}
                // Each of these commands means the same as the shorter name.
                "dfrac" | "tfrac" => push(&mut normal, "frac"),
                "leq" => push(&mut normal, "le"),
                "geq" => push(&mut normal, "ge"),
                "mbox" => push(&mut normal, "text"),
                other => push(&mut normal, other),
            }
            // `\,` is spacing and `\(` a delimiter: both are skipped. The sign of `\%` stays.
            match rest[1..].chars().next() {
                Some(sign) if name == 0 && !"%#&".contains(sign) => 1 + sign.len_utf8(),
                _ => 1 + name,
            }
        } else if first.is_alphanumeric() {
            let end = length_of(rest, char::is_alphanumeric);
            push(&mut normal, &rest[..end].to_lowercase());
            end
        } else {
            let end = first.len_utf8();
            // Of ASCII punctuation only these signs change the meaning. Other signs may be
            // operators.
            if "+-*/=<>^_%|!".contains(first) || (!first.is_ascii() && !first.is_whitespace()) {
                push(&mut normal, &rest[..end]);
            }
            end
        };
        rest = &rest[end..];
    }
    normal
}

/// Returns the length in bytes of the longest prefix in which all characters satisfy `is`.
fn length_of(text: &str, is: fn(char) -> bool) -> usize {
    text.find(|c| !is(c)).unwrap_or(text.len())
}

fn push(normal: &mut String, token: &str) {
    if !normal.is_empty() {
        normal.push(' ');
    }
    normal.push_str(token);
}

/// The fields that contain a problem's text in files of problems, benchmarks and chains.
const FIELDS: [&str; 7] = [
    "problem",
    "question",
    "prompt",
    "original_question",
    "modified_question",
    "input",
    "q",
];

/// Returns the [`normalised`] problems of a JSON file. The format does not matter: the texts are
/// found by the usual names of fields.
///
/// # Errors
/// Returns an error if the file cannot be read, is not JSON, or has no field with a problem.
pub fn problems_of(source: impl Into<DataSource>) -> Result<BTreeSet<String>, LabelsError> {
    let source = source.into();
    let mut problems = BTreeSet::new();
    each(&source, &mut |_, record| {
        // PRM800K has the problem inside an object `question`.
        let within = record
            .get("question")
            .filter(|question| question.is_object());
        for place in [Some(&record), within].into_iter().flatten() {
            let texts = FIELDS
                .iter()
                .filter_map(|&field| place.get(field)?.as_str());
            let texts = texts.map(normalised).filter(|text| !text.is_empty());
            problems.extend(texts);
        }
        Ok(())
    })?;
    if problems.is_empty() {
        Err(LabelsError::NoProblems {
            source_name: source.name,
        })
    } else {
        Ok(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacing_and_looks_do_not_matter() {
        let same = [
            r"Find $\left(\frac{1}{2} + x\right)$, if $x = 3.$",
            r"find \( ( \dfrac{1}{2}+x ) \)  if  x=3",
            "Find $$\\frac 1 2\\, +\\!\\;\\quad x$$;\nif $x\\ = 3$",
        ];
        for text in same {
            assert_eq!(normalised(text), "find frac 1 2 + x if x = 3", "{text}");
        }
    }

    #[test]
    fn what_tells_problems_apart_is_kept() {
        let different = [
            "x + 1",
            "x - 1",
            "x * 1",
            "x1",
            "x",
            r"\frac{1}{23}",
            r"\frac{12}{3}",
            r"5\%",
            "5",
            "x < 1",
            r"x \le 1",
            "π",
            r"\pi x",
            "",
        ];
        let normal: BTreeSet<String> = different.into_iter().map(normalised).collect();
        assert_eq!(normal.len(), different.len(), "{normal:?}");
        assert_eq!(normalised("\\"), "");
        assert_eq!(normalised("\\é a"), "a");
    }
}
