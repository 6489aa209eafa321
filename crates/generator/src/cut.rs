//! The marks between steps, and where they cut a text.

use beamgen_search::GeneratorConfig;

/// The marks that end a step, in bytes.
#[derive(Debug, Clone)]
pub struct Cuts {
    /// Marks that belong to the step that they end.
    pub boundaries: Vec<Vec<u8>>,
    /// Marks that begin the next step, where they are at the beginning of a line.
    pub starts: Vec<Vec<u8>>,
}

impl Cuts {
    /// Returns the marks of these settings.
    pub fn of(config: &GeneratorConfig) -> Self {
        let [boundaries, starts] = [&config.boundaries, &config.starts]
            .map(|marks| marks.iter().map(|m| m.clone().into_bytes()).collect());
        Self { boundaries, starts }
    }

    /// Cuts a whole answer into the steps of a chain with this text. The last step may lack a
    /// boundary, and no step is blank.
    pub fn steps(&self, answer: &str) -> Vec<String> {
        let (mut steps, mut rest) = (Vec::new(), answer);
        loop {
            // No step is blank, so the search begins after white space: it may be long.
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

    /// Returns a given step with its end: if it lacks a boundary, the first boundary is appended.
    pub fn ended(&self, step: &str) -> String {
        let boundary = match self.boundaries.first() {
            // Without any mark, only its length ends a step.
            None if self.starts.is_empty() => return step.to_owned(),
            // A start counts only at the beginning of a line.
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

    /// Returns where a step that begins with `bytes` ends, if they show that and the first `seen`
    /// of them do not.
    ///
    /// Bytes are looked at one after the other, so it does not matter how tokens divide them. White
    /// space by itself does not make a step: it belongs to the step that follows.
    pub fn find(&self, bytes: &[u8], seen: usize) -> Option<usize> {
        (seen + 1..=bytes.len()).find_map(|end| self.shown_by_last(&bytes[..end]))
    }

    /// Returns where a step that begins with `bytes` ends, if the last of them shows it.
    pub(crate) fn shown_by_last(&self, bytes: &[u8]) -> Option<usize> {
        let starts = self.starts.iter().filter_map(|mark| {
            let before = bytes.strip_suffix(mark.as_slice())?;
            before.ends_with(b"\n").then_some(before.len())
        });
        let mut boundaries = self.boundaries.iter();
        let boundary = boundaries.any(|mark| bytes.ends_with(mark));
        // The earliest cut: a mark that begins the next step takes itself out of this one.
        starts
            .chain(boundary.then_some(bytes.len()))
            .filter(|&cut| !String::from_utf8_lossy(&bytes[..cut]).trim().is_empty())
            .min()
    }
}

/// The length of `bytes` without an incomplete character at their end.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let rest = bytes.utf8_chunks().last().map_or(&[][..], |c| c.invalid());
    match std::str::from_utf8(rest) {
        // A missing length means that more bytes could complete the character; other errors
        // are final.
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

    /// The steps of a text whose bytes come in pieces, made as a chain makes them: bytes after a
    /// cut are left over for the next step. The last entry is the rest.
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
