//! Splits responses into steps, and locates the steps in the response.

use std::ops::Range;

use beamgen::generator::GeneratorConfig;
use beamgen::mend::steps_of;

/// A text that ends each step in the prompts of a family of reward models.
struct Mark {
    text: &'static str,
    /// Whether the text counts only at the end of a line, because it can also be part of a word.
    ends_line: bool,
    /// Whether the reward model's own format adds `Step N: `, so that this text is removed from a
    /// step.
    numbers: bool,
}

/// The known step marks. The first one that a response contains splits it.
const MARKS: [Mark; 2] = [
    // Qwen2.5-Math-PRM.
    Mark {
        text: "<extra_0>",
        ends_line: false,
        numbers: false,
    },
    // Math-Shepherd.
    Mark {
        text: " ки",
        ends_line: true,
        numbers: true,
    },
];

/// Returns the byte ranges of the steps of a response, without surrounding white space. Splits at
/// `separator` if given, or else at the first known mark in the response, or else as a search
/// would. Steps between two separators or marks may be empty.
pub(super) fn steps(
    response: &str,
    separator: Option<&str>,
    generator: &GeneratorConfig,
) -> Vec<Range<usize>> {
    if let Some(separator) = separator {
        let cuts = response.match_indices(separator);
        return between(response, cuts.map(|(at, text)| at..at + text.len()));
    }
    for mark in &MARKS {
        let cuts: Vec<Range<usize>> = mark.cuts(response).collect();
        if !cuts.is_empty() {
            let mut steps = between(response, cuts.into_iter());
            if mark.numbers {
                for (step, number) in steps.iter_mut().zip(1_usize..) {
                    let own = format!("Step {number}: ");
                    if response[step.clone()].starts_with(&own) {
                        step.start += own.len();
                    }
                }
            }
            return steps;
        }
    }
    // The steps follow each other in the response with only white space in between, so the next
    // occurrence is the step itself.
    let mut end = 0;
    let place = |step: String| {
        let start = end + response[end..].find(&step).unwrap_or_default();
        end = start + step.len();
        start..end
    };
    steps_of(response, generator)
        .into_iter()
        .map(place)
        .collect()
}

impl Mark {
    fn cuts<'a>(&'a self, response: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let found = response.match_indices(self.text);
        let found = found.map(|(at, text)| at..at + text.len());
        found.filter(|cut| {
            let after = &response[cut.end..];
            !self.ends_line || after.is_empty() || after.starts_with(['\n', '\r'])
        })
    }
}

/// Returns the trimmed ranges between the cuts. A blank rest after the last cut is not a step.
fn between(response: &str, cuts: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut steps: Vec<Range<usize>> = Vec::new();
    for cut in cuts {
        steps.push(trimmed(response, start..cut.start));
        start = cut.end;
    }
    let rest = trimmed(response, start..response.len());
    steps.extend((!rest.is_empty()).then_some(rest));
    steps
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    start..start + part.trim().len()
}

/// Converts byte ranges to `[start, end]` in Unicode code points. The ranges must be in ascending
/// order.
pub(super) fn offsets(text: &str, steps: &[Range<usize>]) -> Vec<[usize; 2]> {
    let (mut bytes, mut characters) = (0, 0);
    let mut count = |to: usize| {
        characters += text[bytes..to].chars().count();
        bytes = to;
        characters
    };
    let ends = |step: &Range<usize>| [count(step.start), count(step.end)];
    steps.iter().map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(response: &str, separator: Option<&str>) -> Vec<String> {
        let ranges = steps(response, separator, &GeneratorConfig::default());
        let by_offset = offsets(response, &ranges);
        let characters: Vec<char> = response.chars().collect();
        let texts = by_offset
            .iter()
            .map(|&[start, end]| characters[start..end].iter().collect());
        let texts: Vec<String> = texts.collect();
        let by_bytes: Vec<&str> = ranges
            .iter()
            .map(|range| &response[range.clone()])
            .collect();
        assert_eq!(texts, by_bytes);
        texts
    }

    #[test]
    fn responses_are_split_by_their_marks_and_else_as_a_search_cuts() {
        for (response, separator, wanted) in [
            ("a\nb\n\n  c", None, vec!["a", "b", "c"]),
            ("é = 1\n🧮 = é\n", None, vec!["é = 1", "🧮 = é"]),
            ("", None, vec![]),
            (" \n \n", None, vec![]),
            ("a\nb<extra_0>c<extra_0>", None, vec!["a\nb", "c"]),
            ("a<extra_0>\n c", None, vec!["a", "c"]),
            ("a<extra_0><extra_0>", None, vec!["a", ""]),
            ("Step 1: a ки\nStep 2: b ки", None, vec!["a", "b"]),
            ("Step 1: a ки\nStep 3: b ки\n", None, vec!["a", "Step 3: b"]),
            ("эти кизилы и строки", None, vec!["эти кизилы и строки"]),
            ("a\nb\n\nc\n\n", Some("\n\n"), vec!["a\nb", "c"]),
            ("a<extra_0>b;c", Some(";"), vec!["a<extra_0>b", "c"]),
        ] {
            assert_eq!(split(response, separator), wanted, "{response:?}");
        }
    }

    #[test]
    fn a_long_blank_response_takes_no_time() {
        let response = format!("a{}b", "\n".repeat(1 << 20));
        assert_eq!(split(&response, None), ["a", "b"]);
    }
}
