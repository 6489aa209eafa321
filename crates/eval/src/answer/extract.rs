//! Extraction of the answer from a solution, and the check that a stated answer is complete. Every search is linear
//! in the length of the text, so hostile text cannot make it slow.

use beamgen_search::{Border, thoughts};

use super::{parse, readings};

/// The mark that identifies the answer in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// `\boxed{x}`
    Boxed,
    /// `#### x` on a line of its own, as in GSM8K
    Hashes,
    /// `The answer is x` and its relatives
    Sentence,
    /// Nothing marks an answer; the last number of the text was taken. A guess.
    LastNumber,
}

/// An answer and how it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extracted {
    /// The answer as it stands in the text, trimmed.
    pub text: String,
    /// The mark that identified the answer; [`Marker::LastNumber`] means a guess.
    pub marker: Marker,
}

/// Returns the answer of a solution, ignoring text inside thoughts. The first of these that exists is the answer: the
/// last `\boxed{}`, the last `#### x`, the last "answer is x", and as a guess the last number.
///
/// If the last box is cut off or empty, only text after the box is searched. A solution with an unclosed thought has
/// no answer.
pub fn extract(solution: &str) -> Option<Extracted> {
    let spoken = thoughts::spoken(solution)?;
    let marks = Marks::of(&spoken, End::Text);
    let found = marks
        .first()
        .or_else(|| Some((last_number(marks.rest)?, Marker::LastNumber)));
    found.map(Extracted::new)
}

/// Returns the marked answer as [`extract`] does, but does not guess by the last number.
pub fn extract_marked(solution: &str) -> Option<Extracted> {
    let spoken = thoughts::spoken(solution)?;
    Marks::of(&spoken, End::Text).first().map(Extracted::new)
}

/// Returns whether the end of a chain states a complete answer, so that the chain is done. One of `markers` has to
/// mark the answer. `\boxed`, `####` and "answer is" are searched as in [`extract`]; any other marker only has to
/// occur.
pub(super) fn is_stated(text: &str, markers: &[String], border: Border) -> bool {
    let Some(spoken) = thoughts::spoken(text) else {
        return false;
    };
    let end = if border == Border::Boundary {
        End::Boundary
    } else {
        End::Anywhere
    };
    let marks = Marks::of(&spoken, end);
    markers.iter().any(|marker| match marked_by(marker) {
        Some(Marker::Boxed) => marks.boxed.is_some(),
        Some(Marker::Hashes) => marks.hashes.is_some(),
        Some(_) => marks.sentence.is_some() && marks.rest.contains(marker),
        None => {
            let found = spoken.rsplit_once(marker);
            found.is_some_and(|(_, after)| end.closes(after))
        }
    })
}

/// Returns the kind of answer that a marker of the settings marks, if that kind is extracted.
fn marked_by(marker: &str) -> Option<Marker> {
    let marker = marker.trim_end().to_ascii_lowercase();
    if BOXES.iter().any(|name| marker.contains(name)) {
        Some(Marker::Boxed)
    } else if marker.ends_with("####") {
        Some(Marker::Hashes)
    } else {
        let mut said = SENTENCES.iter();
        let is_sentence = said.any(|said| marker.ends_with(said)) || marker.ends_with("answer is:");
        is_sentence.then_some(Marker::Sentence)
    }
}

/// The position of a text's end in the solution, which decides whether an answer is complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// No text follows, because the solution ends here.
    Text,
    /// A step ends here, and the next one may follow.
    Boundary,
    /// The middle of a sentence or number: "The answer is 4" may become 42.
    Anywhere,
}

impl End {
    /// Returns whether no following text can change the first line of `text`.
    fn closes(self, text: &str) -> bool {
        self != Self::Anywhere || text.contains('\n')
    }
}

/// The last marked and complete answer of each kind.
struct Marks<'a> {
    boxed: Option<&'a str>,
    hashes: Option<&'a str>,
    sentence: Option<&'a str>,
    /// The whole text. If the last box is cut off or empty, only the text after that box.
    rest: &'a str,
}

impl<'a> Marks<'a> {
    fn of(text: &'a str, end: End) -> Self {
        let (boxed, rest) = match last_boxed(text, end) {
            Some(Ok(content)) => (Some(content), text),
            Some(Err(after)) => (None, &text[after..]),
            None => (None, text),
        };
        Self {
            boxed,
            hashes: after_hashes(rest, end),
            sentence: after_sentence(rest, end),
            rest,
        }
    }

    fn first(&self) -> Option<(&'a str, Marker)> {
        // A box counts before `####`, and `####` before a sentence, wherever they are in the text.
        let marks = [
            (self.boxed, Marker::Boxed),
            (self.hashes, Marker::Hashes),
            (self.sentence, Marker::Sentence),
        ];
        marks
            .into_iter()
            .find_map(|(text, marker)| Some((text?, marker)))
    }
}

impl Extracted {
    fn new((text, marker): (&str, Marker)) -> Self {
        Self {
            text: text.to_owned(),
            marker,
        }
    }
}

/// Returns the answer of a reference solution: the value after the last `####`, else the content of the last
/// `\boxed{}`, else any text after the `####`, else the whole reference.
pub fn reference(answer: &str) -> &str {
    let line = answer.rfind("####").map(|at| &answer[at + 4..]);
    let hashes = line.and_then(first_line);
    hashes
        .filter(|line| is_value(line, true))
        .or_else(|| last_boxed(answer, End::Text)?.ok())
        .or(hashes)
        .unwrap_or(answer.trim())
}

/// Returns the content of the box that starts last. If this box is cut off or empty, the error is the byte offset of
/// the text after it.
fn last_boxed(text: &str, end: End) -> Option<Result<&str, usize>> {
    let bytes = text.as_bytes();
    // For each open brace: the offset after the brace, and whether the brace opens a box.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut last: Option<(usize, Result<&str, usize>)> = None;
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
                    found = Some((next, unbraced(after, end).unwrap_or_default()));
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
        {
            let answers = !content.trim_matches(PLACEHOLDERS).is_empty();
            last = Some((start, answers.then(|| content.trim()).ok_or(next)));
        }
        at = next;
    }
    // If the last box is not closed, no earlier box counts, because an earlier one may hold an intermediate result.
    let cut_off = open.iter().rev().find(|(_, is_box)| *is_box);
    if let Some((start, _)) = cut_off
        && last.is_none_or(|(earlier, _)| *start > earlier)
    {
        return Some(Err(text.len()));
    }
    last.map(|(_, content)| content)
}

/// Characters that fill a box in place of an answer.
const PLACEHOLDERS: [char; 7] = [' ', '\t', '\n', '.', '\u{2026}', '_', '?'];

/// Returns the text after a box command at the start of `text`; `None` without a box command there.
fn after_box(text: &str) -> Option<&str> {
    let after = BOXES.iter().find_map(|name| text.strip_prefix(name))?;
    (!after.starts_with(|c: char| c.is_ascii_alphabetic())).then_some(after)
}

/// Commands that draw a box.
const BOXES: [&str; 2] = ["boxed", "fbox"];

fn is_box(text: &str) -> bool {
    after_box(text).is_some()
}

/// Returns the content of a box without braces, as in `\boxed 5`. The content ends with the formula or at the next
/// blank. `None` means that text that may follow could continue the content.
fn unbraced(after: &str, end: End) -> Option<&str> {
    let text = after.trim_start_matches([' ', '\t']);
    // A bound for each box keeps the whole search linear.
    let bound = text.char_indices().nth(MAX_UNBRACED);
    let text = &text[..bound.map_or(text.len(), |(at, _)| at)];
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
    let content = formula.or_else(|| {
        let first_word = text.split_whitespace().next();
        first_word.filter(|_| end.closes(text))
    })?;
    Some(content.trim_end_matches(['.', ',', ';', ' ']))
}

/// The longest content of a box without braces, in characters.
const MAX_UNBRACED: usize = 200;

/// Returns the value in the last line that has `####` before a value.
fn after_hashes(text: &str, end: End) -> Option<&str> {
    let mut is_last = true;
    let mut headings = 0;
    for (at, line) in text.rsplit('\n').enumerate() {
        let line = line.trim();
        let four = line.strip_prefix("####").map(str::trim_start);
        if let Some(rest) = four.filter(|rest| !rest.starts_with('#')) {
            if at == 0 && end == End::Anywhere || headings == MAX_HEADINGS {
                return None;
            }
            if is_value(rest, is_last && end == End::Text) {
                return Some(rest);
            }
            headings += 1;
        }
        is_last &= line.is_empty();
    }
    None
}

/// The largest number of lines with `####` that are parsed for a value, from the end of the solution.
const MAX_HEADINGS: usize = 64;

/// Returns whether the text after `####` is a value, not a Markdown heading such as `Step 2: ...`. Text of words only
/// is a value if it is the last line.
fn is_value(line: &str, is_last: bool) -> bool {
    let line = line.trim_matches('*').trim();
    let only_words = line.chars().all(|c| c.is_alphabetic() || c == ' ');
    let title = line.split_once(": ").map_or("", |(_, title)| title);
    let is_heading = !parse::is_mathematics(first_word(line)) || first_word(title).len() > 2;
    let [reading] = readings([line]);
    (!is_heading || only_words && is_last) && reading.meaning.is_some()
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphabetic());
    &text[..end.unwrap_or(text.len())]
}

fn after_sentence(text: &str, end: End) -> Option<&str> {
    // ASCII lowering keeps byte positions.
    let lower = text.to_ascii_lowercase();
    let at = SENTENCES
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
    if sentence.len() == line.len() && !end.closes(rest) {
        return None;
    }
    let sentence = sentence.trim_end_matches(['.', '*', ' ', '!']);
    // A formula that begins there is on the lines below.
    let is_empty = matches!(sentence, "" | "$" | "$$" | "\\[" | "\\(");
    Some(only_number(sentence).unwrap_or(sentence)).filter(|_| !is_empty)
}

/// The phrases before an answer, in lower case.
const SENTENCES: [&str; 2] = ["answer is", "answer:"];

/// Returns the only number of a sentence in plain words, such as "She has 7 apples left".
fn only_number(sentence: &str) -> Option<&str> {
    let plain = !sentence.contains(['\\', '^', '=', '+', '*', '(', '_']);
    let words = sentence
        .split_whitespace()
        .filter(|word| word.len() > 1 && word.bytes().all(|b| b.is_ascii_alphabetic()));
    if !plain || words.count() < 3 {
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
    use beamgen_search::GeneratorConfig;

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
            ("\\boxed{\\boxed{5}}", "5", Marker::Boxed),
            ("\\boxed {5}", "5", Marker::Boxed),
            ("\\\\boxed{5}", "5", Marker::Boxed),
            ("a \\\\ \\fbox{x = {5}}", "x = {5}", Marker::Boxed),
            ("$\\boxed 5$ and more", "5", Marker::Boxed),
            ("\\boxed 5, as said", "5", Marker::Boxed),
            ("$\\boxed\\frac{1}{2} so", "\\frac{1}{2}", Marker::Boxed),
            ("work\n#### 1,200", "1,200", Marker::Hashes),
            ("#### 3\n#### 4\nbye", "4", Marker::Hashes),
            ("#### 3\n\n#### Step 2: Add\n", "3", Marker::Hashes),
            ("#### Step 1: Guess\n#### Yes\n", "Yes", Marker::Hashes),
            ("#### Yes\n#### No or not: 4 of 5", "5", Marker::LastNumber),
            ("so #### 3 or 5", "5", Marker::LastNumber),
            ("##### 3\nand 5", "5", Marker::LastNumber),
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
            // A model says again how it was asked to answer, and then answers.
            (
                "It goes within \\boxed{}. #### 3\nThe answer is 5.",
                "5",
                Marker::Sentence,
            ),
            (
                "\\boxed{4}. Or within \\boxed{...}: it is 5",
                "5",
                Marker::LastNumber,
            ),
            (
                "<think>\\boxed{9}?</think>It is 5.",
                "5",
                Marker::LastNumber,
            ),
            ("\\boxed{9}? No.\n</think>\n#### 5", "5", Marker::Hashes),
            ("The answer is 5.<think>9?</think>", "5", Marker::Sentence),
        ] {
            let got = extract(solution).unwrap_or_else(|| panic!("{solution}"));
            assert_eq!(
                (got.text.as_str(), got.marker),
                (want, marker),
                "{solution}"
            );
        }
        for solution in [
            "",
            "no number here",
            "\\boxed{}",
            "The answer is ",
            "The answer is $$\nx\n$$",
            "####",
            "\\boxed{7} and then \\boxed{8",
            "\\boxed{7} and then \\boxed{ }",
            "#### 7\nThe answer is \\boxed",
            "The answer is 7. <think>or \\boxed{8}?",
        ] {
            assert_eq!(extract(solution), None, "{solution}");
        }
        assert_eq!(extract_marked("we get 7"), None);
    }

    #[test]
    fn a_chain_has_stated_its_answer_once_that_is_whole() {
        let markers = GeneratorConfig::default().answer_markers;
        let stated = |text: &str, border| is_stated(text, &markers, border);
        for text in [
            "so \\boxed{12}",
            "\\boxed{1} or <think>or?</think> \\boxed{\n2\n} and",
            "$\\boxed 5$",
            "Hm.</think> \\boxed{7}",
            "#### 12\n",
            "\n\n####12\nAnd",
            "The answer is 12.\n",
            "The answer is 12. And",
            "The answer is $12$ or",
            "The answer is 12 because of",
        ] {
            assert!(stated(text, Border::Length), "{text:?}");
            assert!(stated(text, Border::Boundary), "{text:?}");
        }
        // Whole if nothing follows but the next step.
        for text in [
            "#### 12",
            "The answer is 12",
            "The answer is 12.",
            "so \\boxed 5",
        ] {
            assert!(!stated(text, Border::Length), "{text:?}");
            assert!(stated(text, Border::Boundary), "{text:?}");
        }
        for text in [
            "so \\boxed{1",
            "The answer is \\boxed{1",
            "\\boxed{}\n",
            "\\boxed{5} or rather \\boxed{...}\n",
            "<think>\\boxed{17}\n",
            "\\boxed{17}</think>\n",
            "The answer is:\n",
            "The answer is\n\\[\n",
            "#### Step 2: Add 5 and 6\n",
            "#### 2. Add 5 and 6\n",
            "#### Solution\n",
            "That is #### 12\n",
            "12\n",
        ] {
            assert!(!stated(text, Border::Length), "{text:?}");
            assert!(!stated(text, Border::Boundary), "{text:?}");
        }
    }

    #[test]
    fn markers_of_ones_own_end_a_chain_by_being_there() {
        let stated = |marker: &str, text| is_stated(text, &[marker.into()], Border::Boundary);
        assert!(stated("</answer>", "<answer>5</answer>\n"));
        assert!(!stated("</answer>", "<think></answer>\n"));
        assert!(!stated("\\boxed{", "The answer is 5.\n#### 5\n"));
        assert!(stated("####", "\\boxed{5}\n#### 6\n"));
        // A sentence has to be there as it is written.
        assert!(stated("Final answer:", "Final answer: 6\n"));
        assert!(!stated("Final answer:", "Answer: 6\n"));
        assert!(!stated("Final answer:", "Final answer:\n"));
        assert!(stated("Final Answer", "**Final Answer**\n"));
        let anywhere = |text| is_stated(text, &["So:".into()], Border::Length);
        assert!(!anywhere("So: 1"));
        assert!(anywhere("So: 12\nA"));
    }

    #[test]
    fn references_may_be_worked_solutions() {
        assert_eq!(reference("She makes 9 * 2 = $18\n#### 18"), "18");
        assert_eq!(reference("Thus \\boxed{x^2}."), "x^2");
        assert_eq!(reference(" 18 "), "18");
        assert_eq!(reference("9 * 2 = 18 #### 18 dollars"), "18 dollars");
        assert_eq!(reference("#### Step 2: Add\nThus \\boxed{18}."), "18");
        assert_eq!(reference("So no.\n#### No, never"), "No, never");
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
            "<",
            "<think>",
            "</think>",
            "<think></think>",
            "####\n",
            "#### 1.\n",
        ] {
            extract(&piece.repeat((1 << 20) / piece.len()));
        }
        let nested = format!("{}5{}", "\\boxed{".repeat(100_000), "}".repeat(100_000));
        assert_eq!(extract(&nested).map(|found| found.text), Some("5".into()));
    }
}
