//! Where a step's text ends.

use beamgen_search::GeneratorConfig;

/// What ends a step, in bytes.
#[derive(Debug, Clone)]
pub struct Cuts {
    /// Each belongs to the step it ends.
    pub boundaries: Vec<Vec<u8>>,
    /// At the beginning of a line, each begins the next step.
    pub starts: Vec<Vec<u8>>,
}

impl Cuts {
    /// The marks of these settings.
    pub fn of(config: &GeneratorConfig) -> Self {
        let bytes = |marks: &[String]| marks.iter().map(|m| m.clone().into_bytes()).collect();
        Self {
            boundaries: bytes(&config.boundaries),
            starts: bytes(&config.starts),
        }
    }

    /// A whole answer as the steps that a chain with this text has. The last one may lack a
    /// boundary, and none of them is blank.
    pub fn steps(&self, answer: &str) -> Vec<String> {
        let (mut steps, mut rest) = (Vec::new(), answer);
        while let Some(end) = self.find(rest.as_bytes(), 0) {
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

    /// A given step with what ends a step: where it lacks a boundary, the first one follows.
    pub fn ended(&self, step: &str) -> String {
        let ends = |mark: &Vec<u8>| step.as_bytes().ends_with(mark);
        let boundary = match self.boundaries.first() {
            None if self.starts.is_empty() => return step.to_owned(),
            None => "\n",
            Some(first) => std::str::from_utf8(first).unwrap_or("\n"),
        };
        if self.boundaries.iter().any(ends) {
            step.to_owned()
        } else {
            [step.trim_end(), boundary].concat()
        }
    }

    /// Where a step that begins with `bytes` ends, if they show it and those before `seen` do not.
    ///
    /// Bytes are looked at one after the other, so it does not matter how tokens divide them.
    /// White space alone is no step: it belongs to the step that follows.
    pub fn find(&self, bytes: &[u8], seen: usize) -> Option<usize> {
        (seen + 1..=bytes.len()).find_map(|end| self.shown_by_last(&bytes[..end]))
    }

    fn shown_by_last(&self, bytes: &[u8]) -> Option<usize> {
        let begins_line = |start: &&Vec<u8>| bytes[..bytes.len() - start.len()].ends_with(b"\n");
        let before = |start: &Vec<u8>| bytes.len() - start.len();
        let ended = |mark: &&Vec<u8>| bytes.ends_with(mark);
        let starts = self.starts.iter().filter(ended).filter(begins_line);
        let boundaries = self.boundaries.iter().filter(ended);
        starts
            .map(before)
            .chain(boundaries.map(|_| bytes.len()))
            .filter(|&cut| !String::from_utf8_lossy(&bytes[..cut]).trim().is_empty())
            .min()
    }
}

/// The length of `bytes` without a character at their end that is not complete.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let rest = bytes.utf8_chunks().last().map_or(&[][..], |c| c.invalid());
    match std::str::from_utf8(rest) {
        Err(error) if error.error_len().is_none() => bytes.len() - rest.len(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cuts(boundaries: &[&str], starts: &[&str]) -> Cuts {
        let bytes = |list: &[&str]| list.iter().map(|s| s.as_bytes().to_vec()).collect();
        Cuts {
            boundaries: bytes(boundaries),
            starts: bytes(starts),
        }
    }

    /// The steps of a text whose bytes come in pieces, as a chain makes them: what is behind a cut
    /// is carried. The last one is what is left.
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
        let text = |step| String::from_utf8(step).unwrap();
        steps.into_iter().map(text).collect()
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
