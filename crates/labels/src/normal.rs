//! A normal form of problem texts, equal for the same problem from two files.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{LabelsError, read};

/// Returns the text in lower case, without LaTeX spacing and math delimiters. Words, numbers and
/// operators are separated by single spaces; other punctuation counts as a space.
#[must_use]
pub fn normalised(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = if first == '\\' {
            let name = length_of(&rest[1..], |c| c.is_ascii_alphabetic());
            let lower = rest[1..=name].to_lowercase();
            match lower.as_str() {
                // Commands that change only the looks.
                "" | "left" | "right" | "quad" | "qquad" | "displaystyle" | "textstyle" | "big"
                | "bigl" | "bigr" | "limits" | "nonumber" | "noindent" => {}
                // Commands with the same meaning as another one.
                "dfrac" | "tfrac" => push(&mut normal, "frac"),
                "leq" => push(&mut normal, "le"),
                "geq" => push(&mut normal, "ge"),
                "mbox" => push(&mut normal, "text"),
                other => push(&mut normal, other),
            }
            // `\,` and the like are spacing, `\(` is a delimiter, and `\%` is a sign that stays.
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
            // Signs outside of ASCII may be operators; of other punctuation only these change the
            // meaning.
            if "+-*/=<>^_%|!".contains(first) || (!first.is_ascii() && !first.is_whitespace()) {
                push(&mut normal, &rest[..end]);
            }
            end
        };
        rest = &rest[end..];
    }
    normal
}

/// Returns the number of bytes of the characters at the beginning of `text` for which `is` holds.
fn length_of(text: &str, is: fn(char) -> bool) -> usize {
    text.find(|c| !is(c)).unwrap_or(text.len())
}

fn push(normal: &mut String, token: &str) {
    if !normal.is_empty() {
        normal.push(' ');
    }
    normal.push_str(token);
}

/// The names of fields that contain a problem's text, in files of problems, benchmarks and chains.
const FIELDS: [&str; 7] = [
    "problem",
    "question",
    "prompt",
    "original_question",
    "modified_question",
    "input",
    "q",
];

/// Returns the [`normalised`] problems of a JSON file of any kind: the texts of its records under
/// the usual names.
///
/// # Errors
/// The file cannot be read, is not JSON, or has no such text.
pub fn problems_of(path: &Path) -> Result<BTreeSet<String>, LabelsError> {
    let mut problems = BTreeSet::new();
    read::file(path, &mut |_, record| {
        // PRM800K has the problem one level deeper.
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
            source_name: read::source(path),
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
