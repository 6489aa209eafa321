//! The marks between steps, and the positions at which they cut a text into steps.

use beamgen_search::GeneratorConfig;

/// The marks that end steps, as bytes.
#[derive(Debug, Clone)]
pub struct Cuts {
    /// Marks at the end of a step; they belong to that step.
    pub boundaries: Vec<Vec<u8>>,
    /// Marks that begin the next step if they are at the beginning of a line.
    pub starts: Vec<Vec<u8>>,
}

impl Cuts {
    /// Takes the marks from the settings `boundaries` and `starts`.
    pub fn of(config: &GeneratorConfig) -> Self {
        let [boundaries, starts] = [&config.boundaries, &config.starts]
            .map(|marks| marks.iter().map(|m| m.clone().into_bytes()).collect());
        Self { boundaries, starts }
    }

    /// Cuts a whole answer into the steps that a chain with this text would have. The last step may
    /// lack a boundary. No step is blank.
    pub fn steps(&self, answer: &str) -> Vec<String> {
        let (mut steps, mut rest) = (Vec::new(), answer);
        loop {
            // White space at the beginning, which may be long, cannot be a step: it is skipped.
            let blank = rest.len() - rest.trim_start().len();
            let Some(end) = self.find(rest.as_bytes(), blank) else {
                break;
            };
            // Marks are whole characters, so they end and begin between characters.
            let (step, after) = rest.split_at(end);
            steps.push(step.to_owned());
            rest = after;
        }
        if !rest.trim().is_empty() {
            steps.push(rest.to_owned());
        }
        steps
    }

    /// Returns a given step with a boundary at its end; if it has none, the first boundary is
    /// appended.
    pub fn ended(&self, step: &str) -> String {
        let boundary = match self.boundaries.first() {
            // Without marks, steps end by their length, so no text is appended.
            None if self.starts.is_empty() => return step.to_owned(),
            // A start is a mark only at the beginning of a line, so a line break has to come before
            // it.
            None => "\n",
            Some(first) => std::str::from_utf8(first).unwrap_or("\n"),
        };
        let mut boundaries = self.boundaries.iter();
        if boundaries.any(|mark| step.as_bytes().ends_with(mark)) {
            step.to_owned()
        } else {
            [step.trim_end(), boundary].concat()
        }
    }

    /// Returns the end of the step that begins with `bytes`; `None` if more bytes are needed. The
    /// first `seen` bytes are known not to show it.
    ///
    /// Bytes are read one by one, so the division into tokens does not matter. White space alone is
    /// no step: it belongs to the step after it.
    pub fn find(&self, bytes: &[u8], seen: usize) -> Option<usize> {
        (seen + 1..=bytes.len()).find_map(|end| self.shown_by_last(&bytes[..end]))
    }

    /// Returns the end of the step that begins with `bytes`, if their last byte completes a mark.
    pub(crate) fn shown_by_last(&self, bytes: &[u8]) -> Option<usize> {
        let starts = self.starts.iter().filter_map(|mark| {
            let before = bytes.strip_suffix(mark.as_slice())?;
            before.ends_with(b"\n").then_some(before.len())
        });
        let mut boundaries = self.boundaries.iter();
        let boundary = boundaries.any(|mark| bytes.ends_with(mark));
        // The earliest end counts: a start ends the step before itself.
        starts
            .chain(boundary.then_some(bytes.len()))
            .filter(|&cut| !String::from_utf8_lossy(&bytes[..cut]).trim().is_empty())
            .min()
    }
}

/// Returns the length of `bytes` without an incomplete UTF-8 character at their end.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let rest = bytes.utf8_chunks().last().map_or(&[][..], |c| c.invalid());
    match std::str::from_utf8(rest) {
        // No `error_len` means that further bytes could complete the character. Other errors are
        // final.
        Err(error) if error.error_len().is_none() => bytes.len() - rest.len(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cuts(boundaries: &[&str], starts: &[&str]) -> Cuts {
        let [boundaries, starts] =
            [boundaries, starts].map(|list| list.iter().map(|s| s.as_bytes().to_vec()).collect());
        Cuts { boundaries, starts }
    }

    /// Returns the steps of a text whose bytes come in pieces, as a chain makes them: bytes after
    /// the end of a step are left over for the next step. The last entry is the rest.
    fn steps<'a>(cuts: &Cuts, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
        let (mut steps, mut bytes) = (Vec::new(), Vec::new());
        for piece in pieces {
            let mut seen = bytes.len();
            bytes.extend_from_slice(piece);
            while let Some(cut) = cuts.find(&bytes, seen) {
                let leftover = bytes.split_off(cut);
                steps.push(std::mem::replace(&mut bytes, leftover));
                seen = 0;
            }
        }
        steps.push(bytes);
        steps
    }

    fn texts(cuts: &Cuts, text: &str) -> Vec<String> {
        let steps = steps(cuts, [text.as_bytes()]);
        steps
            .into_iter()
            .map(|step| String::from_utf8(step).unwrap())
            .collect()
    }

    #[test]
    fn given_steps_end_as_sampled_ones_do() {
        let lines = cuts(&["\n"], &[]);
        for (cuts, step, ended) in [
            (&lines, "a", "a\n"),
            (&lines, "a\nb\n", "a\nb\n"),
            (&cuts(&["\n\n", "."], &[]), "a\n", "a\n\n"),
            (&cuts(&["\n\n", "."], &[]), "a.", "a."),
            (&cuts(&[], &["Step"]), "Step 1: a ", "Step 1: a\n"),
            (&cuts(&[], &[]), "a", "a"),
        ] {
            assert_eq!(cuts.ended(step), ended);
        }
        assert_eq!(lines.steps("\na\n\n b"), ["\na\n", "\n b"]);
        assert_eq!(lines.steps("a\n \n"), ["a\n"]);
    }

    #[test]
    fn boundaries_end_a_step_and_starts_begin_one() {
        let lines = cuts(&["\n"], &[]);
        assert_eq!(texts(&lines, "a\n\n b\nc"), ["a\n", "\n b\n", "c"]);
        let paragraphs = cuts(&["\n\n"], &[]);
        assert_eq!(texts(&paragraphs, "a\nb\n\n\nc"), ["a\nb\n\n", "\nc"]);
        let headings = cuts(&[], &["## Step"]);
        assert_eq!(
            texts(&headings, "\n## Step 1\nx ## Step\n\n## Step 2"),
            ["\n## Step 1\nx ## Step\n\n", "## Step 2"]
        );
        let both = cuts(&["\n\n", "."], &["Step", "Answer"]);
        assert_eq!(
            texts(&both, "Step 1.\nStep\n\nAnswer\nAnswer"),
            ["Step 1.", "\nStep\n\n", "Answer\n", "Answer"]
        );
        assert_eq!(
            texts(&lines, "\u{a0}\n\u{3000}x\n"),
            ["\u{a0}\n\u{3000}x\n", ""]
        );
    }

    #[test]
    fn only_an_incomplete_character_at_the_end_is_left_out() {
        for (bytes, whole) in [
            (&b"ab"[..], 2),
            (b"", 0),
            ("a🙂".as_bytes(), 5),
            (b"a\xF0\x9F\x99", 1),
            (b"a\xFF", 2),
            (b"\xFFa\xC3", 2),
            (b"\xC3a", 2),
        ] {
            assert_eq!(whole_characters(bytes), whole, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_cutting_into_tokens_gives_the_same_steps(
            text in "[ab #é\n]{0,40}",
            mut at in prop::collection::vec(0_usize..60, 0..20),
            which in 0_usize..4,
        ) {
            let cuts = &[
                cuts(&["\n"], &[]),
                cuts(&["\n\n", "é"], &[]),
                cuts(&[], &["# a", "##"]),
                cuts(&["\n\n", "b a"], &["#", "é"]),
            ][which];
            let bytes = text.as_bytes();
            at.retain(|&at| at < bytes.len());
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let pieces = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            let steps = steps(cuts, pieces);
            prop_assert_eq!(&steps, &super::tests::steps(cuts, [bytes]));
            prop_assert_eq!(steps.concat(), bytes);
            let texts = cuts.steps(&text);
            let last = steps.last().is_some_and(|last| last.trim_ascii().is_empty());
            prop_assert_eq!(texts.len(), steps.len() - usize::from(last));
            prop_assert!(texts.iter().zip(&steps).all(|(text, step)| text.as_bytes() == step));
            for step in steps {
                prop_assert!(String::from_utf8(step).is_ok());
            }
        }
    }
}
