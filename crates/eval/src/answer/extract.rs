//! Finding the answer in a solution. Every search is one pass over the text.

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

/// The content of the box that begins last among those that are complete and not empty.
fn last_boxed(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    // Where the content of each open brace begins, and whether it is that of a box.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut last: Option<(usize, &str)> = None;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let mut found = None;
        let mut next = at + 1;
        match byte {
            b'\\' => match after_box(&text[at + 1..]) {
                Some(after) if after.trim_start().starts_with('{') => {
                    next = text.len() - after.trim_start().len() + 1;
                    open.push((next, true));
                }
                Some(after) => {
                    next = text.len() - after.len();
                    found = Some((next, unbraced(after)));
                }
                // The next character is escaped, unless this backslash is a doubled one before a
                // box.
                None if text[at + 1..].strip_prefix('\\').is_some_and(is_box) => {}
                None => next = at + 2,
            },
            b'{' => open.push((next, false)),
            b'}' => {
                if let Some((start, true)) = open.pop() {
                    found = Some((start, &text[start..at]));
                }
            }
            _ => {}
        }
        if let Some((start, content)) = found
            && last.is_none_or(|(earlier, _)| start > earlier)
            && !content.trim().is_empty()
        {
            last = Some((start, content));
        }
        at = next;
    }
    last.map(|(_, content)| content.trim())
}

/// What follows the name of a box command.
fn after_box(text: &str) -> Option<&str> {
    let after = ["boxed", "fbox"]
        .iter()
        .find_map(|name| text.strip_prefix(name))?;
    (!after.starts_with(|c: char| c.is_ascii_alphabetic())).then_some(after)
}

fn is_box(text: &str) -> bool {
    after_box(text).is_some()
}

/// The content of `\boxed 5`: up to the end of the formula, else to the next blank.
fn unbraced(after: &str) -> &str {
    let text = after.trim_start_matches([' ', '\t']);
    // A bound for each box keeps the whole search linear.
    let end = text.char_indices().nth(MAX_UNBRACED);
    let text = &text[..end.map_or(text.len(), |(at, _)| at)];
    let mut depth = 0usize;
    let mut formula = None;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b'}' | b'$' => {
                formula = Some(&text[..at]);
                break;
            }
            b'\n' => break,
            _ => {}
        }
    }
    let first_word = || text.split_whitespace().next().unwrap_or_default();
    let content = formula.unwrap_or_else(first_word);
    content.trim_end_matches(['.', ',', ';', ' '])
}

/// In characters.
const MAX_UNBRACED: usize = 200;

/// The text up to the brace that closes the one already open.
pub(super) fn closed(text: &str) -> Option<&str> {
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
    for (open, close) in [("$", "$"), ("\\(", "\\)")] {
        let formula = line.strip_prefix(open).and_then(|l| l.split_once(close));
        // `$18 and not $20` is money.
        let is_formula = |f: &str| !f.trim().is_empty() && f.starts_with(' ') == f.ends_with(' ');
        if let Some((formula, _)) = formula.filter(|(formula, _)| is_formula(formula)) {
            return Some(formula.trim());
        }
    }
    // A sentence ends at ". "; a full stop inside a number has no blank after it.
    let mut sentence = line.split_once(". ").map_or(line, |(first, _)| first);
    for reason in [" because ", " since ", ", since ", ", because ", ", which "] {
        sentence = sentence
            .split_once(reason)
            .map_or(sentence, |(first, _)| first);
    }
    let sentence = sentence.trim_end_matches(['.', '*', ' ', '!']);
    Some(only_number(sentence).unwrap_or(sentence)).filter(|t| !t.is_empty())
}

/// The number of a sentence in plain words that has just one, as "She has 7 apples left".
fn only_number(sentence: &str) -> Option<&str> {
    let plain = !sentence.contains(['\\', '^', '=', '+', '*', '(', '_']);
    let is_word = |word: &&str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_alphabetic());
    if !plain || sentence.split_whitespace().filter(is_word).count() < 3 {
        return None;
    }
    let mut with_digits = sentence
        .split_whitespace()
        .filter(|word| word.bytes().any(|b| b.is_ascii_digit()));
    let number = with_digits.next()?;
    with_digits.next().is_none().then(|| last_number(number))?
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
            ("\\boxed{7} and then \\boxed{ }", "7", Marker::Boxed),
            ("\\boxed{\\boxed{5}}", "5", Marker::Boxed),
            ("\\boxed {5}", "5", Marker::Boxed),
            ("\\\\boxed{5}", "5", Marker::Boxed),
            ("a \\\\ \\fbox{x = {5}}", "x = {5}", Marker::Boxed),
            ("$\\boxed 5$ and more", "5", Marker::Boxed),
            ("\\boxed 5, as said", "5", Marker::Boxed),
            ("$\\boxed\\frac{1}{2} so", "\\frac{1}{2}", Marker::Boxed),
            ("work\n#### 1,200", "1,200", Marker::Hashes),
            ("#### 3\n#### 4\nbye", "4", Marker::Hashes),
            ("- a: 1 + 1 = 2.\nThe answer is 2.\n", "2", Marker::Sentence),
            ("The answer is 2.5. I am sure.", "2.5", Marker::Sentence),
            ("the final Answer is: $12$ .", "12", Marker::Sentence),
            ("The answer is $x=1$, as x > 0.", "x=1", Marker::Sentence),
            ("The answer is 5 because 2+3=5.", "5", Marker::Sentence),
            ("**Answer:** 12 apples", "12 apples", Marker::Sentence),
            ("The answer is 1.\nThe answer is 2.", "2", Marker::Sentence),
            ("The answer is $18", "$18", Marker::Sentence),
            ("Answer: She has $7.50 left.", "7.50", Marker::Sentence),
            (
                "Answer: 3 of the 7 are red.",
                "3 of the 7 are red",
                Marker::Sentence,
            ),
            ("we get 3 + 4 = 7 pens", "7", Marker::LastNumber),
            ("it is -7", "-7", Marker::LastNumber),
            ("10-7", "7", Marker::LastNumber),
            ("about 1,234.50.", "1,234.50", Marker::LastNumber),
            ("half: 1/2", "1/2", Marker::LastNumber),
            ("\\boxedness 3", "3", Marker::LastNumber),
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
    fn a_megabyte_is_searched_in_one_pass() {
        for piece in [
            "\\boxed{",
            "\\boxed ",
            "\\boxed",
            "\\",
            "\\\\\\boxed{",
            "{",
            "}",
            "#",
            "answer is ",
            "1,",
            "-",
            " ",
            "\\boxed{ }",
        ] {
            extract(&piece.repeat((1 << 20) / piece.len()));
        }
        let nested = format!("{}5{}", "\\boxed{".repeat(100_000), "}".repeat(100_000));
        assert_eq!(extract(&nested).map(|found| found.text), Some("5"));
    }
}
