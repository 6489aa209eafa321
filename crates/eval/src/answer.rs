//! Finding the answer in a solution, and deciding whether two answers are the same.
//!
//! Everything here is a bounded pass over the text: no evaluation, no recursion, no timeouts.

use beamgen_search::Answers;

use crate::number::Rational;

/// The grader of this crate as the search asks for it: [`extract`] and [`class`].
#[derive(Clone, Copy, Debug, Default)]
pub struct MathAnswers;

impl Answers for MathAnswers {
    fn extract(&self, text: &str) -> Option<String> {
        extract(text).map(|found| found.text.to_owned())
    }

    fn class(&self, answer: &str) -> String {
        class(answer)
    }
}

/// How an answer was marked in the text it was found in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// `\boxed{x}`
    Boxed,
    /// `#### x`, as in GSM8K
    Hashes,
    /// `The answer is x` and its relatives
    Sentence,
    /// Nothing marks an answer; the last number of the text was taken. A guess.
    LastNumber,
}

/// An answer and how it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extracted<'a> {
    /// The answer as it stands in the text, trimmed.
    pub text: &'a str,
    /// What marked it.
    pub marker: Marker,
}

/// The answer that a solution gives: its last `\boxed{}`, else its last `#### x`, else its last
/// "answer is x", else (marked as a guess) its last number.
pub fn extract(solution: &str) -> Option<Extracted<'_>> {
    extract_marked(solution).or_else(|| {
        last_number(solution).map(|text| Extracted {
            text,
            marker: Marker::LastNumber,
        })
    })
}

/// As [`extract`], but only an answer that the solution itself marks as such.
pub fn extract_marked(solution: &str) -> Option<Extracted<'_>> {
    let found = |marker| move |text| Extracted { text, marker };
    last_boxed(solution)
        .map(found(Marker::Boxed))
        .or_else(|| after_hashes(solution).map(found(Marker::Hashes)))
        .or_else(|| after_sentence(solution).map(found(Marker::Sentence)))
}

/// The answer inside a reference: what follows `####` or stands in `\boxed{}` if it is a worked
/// solution, else all of it.
pub fn reference(answer: &str) -> &str {
    after_hashes(answer)
        .or_else(|| last_boxed(answer))
        .unwrap_or(answer.trim())
}

fn last_boxed(text: &str) -> Option<&str> {
    let mut starts: Vec<usize> = Vec::new();
    for name in ["\\boxed{", "\\fbox{"] {
        starts.extend(text.match_indices(name).map(|(at, _)| at + name.len()));
    }
    starts.sort_unstable();
    // From the back, so that a box cut off by the end of the text does not hide a complete one
    // before it.
    starts
        .into_iter()
        .rev()
        .find_map(|start| closed(&text[start..]))
        .map(str::trim)
        .filter(|t| !t.is_empty())
}

/// The text up to the brace that closes the one already open.
fn closed(text: &str) -> Option<&str> {
    let mut depth = 1usize;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(&text[..at]);
                }
            }
            _ => {}
        }
    }
    None
}

fn after_hashes(text: &str) -> Option<&str> {
    let at = text.rfind("####")?;
    first_line(&text[at + 4..])
}

fn after_sentence(text: &str) -> Option<&str> {
    // ASCII lowering keeps byte positions.
    let lower = text.to_ascii_lowercase();
    let at = ["answer is", "answer:"]
        .iter()
        .filter_map(|m| lower.rfind(m).map(|at| at + m.len()))
        .max()?;
    let rest = text[at..].trim_start_matches([':', ' ', '*']);
    let line = first_line(rest)?;
    // A sentence ends at ". "; a full stop inside a number has no blank after it.
    let sentence = line.split_once(". ").map_or(line, |(first, _)| first);
    Some(sentence.trim_end_matches(['.', '*', ' ', '!'])).filter(|t| !t.is_empty())
}

fn first_line(text: &str) -> Option<&str> {
    text.trim_start_matches([' ', '\t'])
        .lines()
        .next()
        .map(str::trim)
        .filter(|t| !t.is_empty())
}

fn last_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let end = bytes.iter().rposition(u8::is_ascii_digit)? + 1;
    let mut start = end;
    while start > 0
        && (bytes[start - 1].is_ascii_digit() || matches!(bytes[start - 1], b'.' | b',' | b'/'))
    {
        start -= 1;
    }
    let number = text[start..end].trim_start_matches(['.', ',', '/']);
    start = end - number.len();
    // A minus sign belongs to the number only where it is not a subtraction or a hyphen.
    let negative = start > 0
        && bytes[start - 1] == b'-'
        && (start == 1 || matches!(bytes[start - 2], b' ' | b'\n' | b'(' | b'=' | b'$' | b':'));
    Some(&text[start - usize::from(negative)..end])
}

/// The canonical form of an answer: two answers are the same vote if and only if their classes are
/// equal.
///
/// A number, with thousands separators, currency, percent sign or unit around it, becomes its exact
/// value (`$1,200.50` and `2401/2 dollars` are one class); anything else becomes its text without
/// the layout.
pub fn class(answer: &str) -> String {
    let plain = without_markup(answer);
    match number_of(&plain) {
        Some(number) => number.to_string(),
        None => normalised_text(&plain),
    }
}

/// Whether `answer` is the same as `expected`.
///
/// Equal classes are equal. Besides, where just one of the two is written as a percentage, its
/// hundredth counts too (`50%` and `0.5`); votes do not use this second rule, since it is not
/// transitive.
pub fn equal(answer: &str, expected: &str) -> bool {
    if class(answer) == class(expected) {
        return true;
    }
    let (a, b) = (without_markup(answer), without_markup(expected));
    let (Some(x), Some(y)) = (number_of(&a), number_of(&b)) else {
        return false;
    };
    let hundred = Rational::new(100, 1);
    let hundredth = |value: Rational| hundred.and_then(|h| value.over(h));
    match (is_percentage(&a), is_percentage(&b)) {
        (true, false) => hundredth(x) == Some(y),
        (false, true) => hundredth(y) == Some(x),
        _ => false,
    }
}

/// The answer without dollar signs, LaTeX spacing, text commands, degree signs and a leading `x =`.
fn without_markup(answer: &str) -> String {
    let mut text = answer.trim().to_owned();
    for (from, to) in [
        ("\\dfrac", "\\frac"),
        ("\\tfrac", "\\frac"),
        ("\\left", ""),
        ("\\right", ""),
        ("\\!", ""),
        ("\\,", ""),
        ("\\;", " "),
        ("\\ ", " "),
        ("{,}", ","),
        ("\\%", "%"),
        ("\\$", ""),
        ("$", ""),
        ("\\(", ""),
        ("\\)", ""),
        ("\\[", ""),
        ("\\]", ""),
        ("^{\\circ}", ""),
        ("^\\circ", ""),
        ("°", ""),
        ("€", ""),
        ("£", ""),
        ("¥", ""),
        ("**", ""),
        ("\u{2212}", "-"),
        ("\u{a0}", " "),
        ("\u{202f}", " "),
    ] {
        if text.contains(from) {
            text = text.replace(from, to);
        }
    }
    for command in ["\\text{", "\\textbf{", "\\mbox{", "\\mathrm{", "\\mathbf{"] {
        while let Some(at) = text.find(command) {
            let inside = at + command.len();
            let Some(content) = closed(&text[inside..]).map(str::to_owned) else {
                break;
            };
            let end = inside + content.len() + 1;
            text.replace_range(at..end, &content);
        }
    }
    let mut text = text.trim().trim_end_matches('.').trim();
    if let Some((name, value)) = text.split_once('=') {
        let name = name.trim();
        if name.len() == 1 && name.bytes().all(|b| b.is_ascii_alphabetic()) && !value.contains('=')
        {
            text = value.trim();
        }
    }
    text.to_owned()
}

/// The value of a number that may carry a percent sign or a unit.
fn number_of(plain: &str) -> Option<Rational> {
    if let Some(number) = Rational::parse(plain) {
        return Some(number);
    }
    // The unit is what follows the last character a number can end with.
    let end = plain.rfind(|c: char| c.is_ascii_digit() || c == '}' || c == '.')? + 1;
    let (number, unit) = (plain[..end].trim_end_matches('.'), plain[end..].trim());
    is_unit(unit).then(|| Rational::parse(number)).flatten()
}

/// `%` or words such as "apples" or "square meters". A lone letter is a variable, and constants and
/// operators are part of the value.
fn is_unit(text: &str) -> bool {
    let text = text.trim_end_matches('.');
    if text == "%" {
        return true;
    }
    let is_word = |word: &str| {
        word.len() >= 2
            && word
                .bytes()
                .all(|b| b.is_ascii_alphabetic() || b == b'-' || b == b'\'')
            && ![
                "pi", "or", "and", "to", "mod", "million", "billion", "thousand", "hundred",
            ]
            .contains(&word.to_ascii_lowercase().as_str())
    };
    !text.is_empty() && text.split_whitespace().all(is_word)
}

fn is_percentage(plain: &str) -> bool {
    plain.ends_with('%')
        || plain
            .to_ascii_lowercase()
            .trim_end_matches('.')
            .ends_with("percent")
}

/// Text answers compare without blanks and, if they are words, without case.
fn normalised_text(plain: &str) -> String {
    let text: String = plain.split_whitespace().collect();
    let text = match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        Some(choice) if choice.len() == 1 => choice.to_owned(),
        _ => text,
    };
    if text.bytes().all(|b| b.is_ascii_alphabetic()) {
        text.to_ascii_lowercase()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_by_their_marks() {
        for (solution, want, marker) in [
            ("so \\boxed{42}.", "42", Marker::Boxed),
            (
                "\\boxed{1} then \\boxed{\\frac{3}{4}}",
                "\\frac{3}{4}",
                Marker::Boxed,
            ),
            (
                "\\boxed{\\text{a}\\{b\\}} The answer is 9.",
                "\\text{a}\\{b\\}",
                Marker::Boxed,
            ),
            ("\\boxed{7} and then \\boxed{8", "7", Marker::Boxed),
            ("work\n#### 1,200", "1,200", Marker::Hashes),
            ("#### 3\n#### 4\nbye", "4", Marker::Hashes),
            ("- a: 1 + 1 = 2.\nThe answer is 2.\n", "2", Marker::Sentence),
            ("The answer is 2.5. I am sure.", "2.5", Marker::Sentence),
            ("the final Answer is: $12$ .", "$12$", Marker::Sentence),
            ("**Answer:** 12 apples", "12 apples", Marker::Sentence),
            ("The answer is 1.\nThe answer is 2.", "2", Marker::Sentence),
            ("we get 3 + 4 = 7 pens", "7", Marker::LastNumber),
            ("it is -7", "-7", Marker::LastNumber),
            ("10-7", "7", Marker::LastNumber),
            ("about 1,234.50.", "1,234.50", Marker::LastNumber),
            ("half: 1/2", "1/2", Marker::LastNumber),
        ] {
            let got = extract(solution).unwrap_or_else(|| panic!("{solution}"));
            assert_eq!((got.text, got.marker), (want, marker), "{solution}");
        }
        for solution in ["", "no number here", "\\boxed{}", "The answer is ", "####"] {
            assert_eq!(extract(solution), None, "{solution}");
        }
        assert_eq!(extract_marked("we get 7"), None);
    }

    #[test]
    fn references_may_be_worked_solutions() {
        assert_eq!(reference("She makes 9 * 2 = $18\n#### 18"), "18");
        assert_eq!(reference("Thus \\boxed{x^2}."), "x^2");
        assert_eq!(reference(" 18 "), "18");
    }

    #[test]
    fn equal_answers() {
        for (a, b) in [
            ("42", "42.0"),
            ("1,200", "1200"),
            ("$18", "18"),
            ("18 dollars", "\\$18.00"),
            ("\\frac{1}{2}", "0.5"),
            ("\\dfrac12", "1/2"),
            ("0.50", "\\frac{3}{6}"),
            ("50%", "50"),
            ("50\\%", "0.5"),
            ("0.5", "50 percent"),
            ("x = 5", "5"),
            ("12\\text{ cm}", "12"),
            ("12 square meters", "12"),
            ("90^\\circ", "90"),
            ("-3", "\u{2212}3"),
            ("10{,}000", "10,000"),
            ("\\text{Evelyn}", "evelyn"),
            ("(A)", "A"),
            ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\frac{\\pi}{2})"),
            ("3.", "3"),
            ("\\(7\\)", "7"),
        ] {
            assert!(
                equal(a, b) && equal(b, a),
                "{a} = {b}: {} {}",
                class(a),
                class(b)
            );
        }
    }

    #[test]
    fn different_answers() {
        for (a, b) in [
            ("42", "43"),
            ("1,2", "12"),
            ("3x", "3"),
            ("2\\pi", "2"),
            ("2 pi", "2"),
            ("0.333", "1/3"),
            ("5%", "500%"),
            ("11\\sqrt{2}", "11"),
            ("2 + 3i", "2"),
            ("3 million", "3"),
            ("(1,2)", "(2,1)"),
            ("", "0"),
            (
                "170141183460469231731687303715884105728",
                "-170141183460469231731687303715884105728",
            ),
        ] {
            assert!(
                !equal(a, b) && !equal(b, a),
                "{a} /= {b}: {} {}",
                class(a),
                class(b)
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_handled(text in "(\\PC|\n|\\\\boxed\\{|\\}|####|answer is|\\\\text\\{|%|\\\\frac)*") {
            if let Some(found) = extract(&text) {
                class(found.text);
            }
            reference(&text);
            proptest::prop_assert!(equal(&text, &text));
        }
    }
}
