//! The texts at which a chain stops, and their effect on the ends of steps.
//!
//! Bytes are read one by one, so the text of a chain does not depend on its division into tokens.
//! The stop that is complete first counts; of several that are complete at the same byte, the
//! longest. A stop may contain a boundary or begin before one. So if the end of a step may be the
//! beginning of a stop, the step ends before it, and the rest goes to the next step. If only white
//! space would be left of the step, the boundary does not end a step.

use beamgen_search::GeneratorConfig;

use crate::cut::Cuts;

/// The texts at which a chain stops, as bytes.
#[derive(Debug, Clone)]
pub struct Stops {
    texts: Vec<Vec<u8>>,
    /// Whether the stop itself is part of the chain's text.
    include: bool,
}

/// The end of a step, found in its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The number of bytes that belong to the step.
    pub end: usize,
    /// Whether the chain stops with the step.
    pub stops: bool,
}

impl Stops {
    /// Takes the stops from the settings `stop` and `include_stop`.
    pub fn of(config: &GeneratorConfig) -> Self {
        Self {
            texts: config.stop.iter().map(|s| s.clone().into_bytes()).collect(),
            include: config.include_stop,
        }
    }

    /// Returns the end of the step that begins with `bytes`; `None` if more bytes are needed. The
    /// first `seen` bytes are known not to show it. The first `given` bytes are not sampled, so no
    /// stop begins in them.
    pub fn find(&self, cuts: &Cuts, bytes: &[u8], given: usize, seen: usize) -> Option<Shown> {
        if self.texts.is_empty() {
            let end = cuts.find(bytes, seen)?;
            return Some(Shown { end, stops: false });
        }
        (seen + 1..=bytes.len()).find_map(|end| {
            let bytes = &bytes[..end];
            if let Some(end) = self.completed(bytes, given) {
                return Some(Shown { end, stops: true });
            }
            let cut = cuts.shown_by_last(bytes)?;
            let end = self.before_begun(bytes, given, cut);
            let is_blank = || String::from_utf8_lossy(&bytes[..end]).trim().is_empty();
            (end == cut || !is_blank()).then_some(Shown { end, stops: false })
        })
    }

    /// Returns `cut` or, if the end of `bytes` may be the beginning of a stop, the start of that
    /// beginning, whichever is earlier.
    pub fn before_begun(&self, bytes: &[u8], given: usize, cut: usize) -> usize {
        let begun = self.texts.iter().filter_map(|stop| {
            let most = stop
                .len()
                .saturating_sub(1)
                .min(bytes.len().saturating_sub(given));
            let longest = (1..=most).rev().find(|&n| bytes.ends_with(&stop[..n]));
            longest.map(|n| bytes.len() - n)
        });
        begun.fold(cut, usize::min)
    }

    /// Returns the end of the chain's text if a stop is complete at the end of `bytes`.
    fn completed(&self, bytes: &[u8], given: usize) -> Option<usize> {
        let sampled = bytes.get(given..)?;
        let stops = self.texts.iter().filter(|stop| sampled.ends_with(stop));
        let longest = stops.map(Vec::len).max()?;
        Some(if self.include {
            bytes.len()
        } else {
            bytes.len() - longest
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marks(boundaries: &[&str], starts: &[&str], stop: &[&str], include: bool) -> (Cuts, Stops) {
        let lists = [boundaries, starts, stop];
        let [boundaries, starts, stop] = lists.map(|l| l.iter().map(|&s| s.to_owned()).collect());
        let config = GeneratorConfig {
            boundaries,
            starts,
            stop,
            include_stop: include,
            ..GeneratorConfig::default()
        };
        (Cuts::of(&config), Stops::of(&config))
    }

    /// Returns the steps of a chain whose bytes come in pieces after `given`, and whether the chain
    /// stopped.
    fn steps<'a>(
        (cuts, stops): &(Cuts, Stops),
        given: &str,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Vec<String>, bool) {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (mut steps, mut bytes) = (Vec::new(), given.as_bytes().to_vec());
        let mut given = given.len();
        for piece in pieces {
            let mut seen = bytes.len();
            bytes.extend_from_slice(piece);
            while let Some(shown) = stops.find(cuts, &bytes, given, seen) {
                let leftover = bytes.split_off(shown.end);
                steps.push(text(std::mem::replace(&mut bytes, leftover)));
                given = given.saturating_sub(shown.end);
                seen = 0;
                if shown.stops {
                    return (steps, true);
                }
            }
        }
        steps.push(text(bytes));
        (steps, false)
    }

    fn whole(marks: &(Cuts, Stops), text: &str) -> (Vec<String>, bool) {
        steps(marks, "", [text.as_bytes()])
    }

    #[test]
    fn a_stop_ends_the_text_wherever_it_is() {
        let lines = |stop: &[&str]| marks(&["\n"], &[], stop, false);
        for (marks, text, expected, stopped) in [
            (lines(&["Q:"]), "a\nb Q: c", "a\n|b ", true),
            // A stop at the beginning of a step leaves an empty step.
            (lines(&["Q:"]), "a\nQ: c", "a\n|", true),
            // The boundary may be the beginning of the stop, so it goes to the next step.
            (lines(&["\n\n"]), "a\nb\n\nc", "a|\nb|", true),
            (lines(&["\n\n"]), "a\nb\nc", "a|\nb|\nc", false),
            (lines(&["\n"]), "a\nb", "a", true),
            (lines(&["a\nb"]), "a\nc\n", "a\nc\n|", false),
            (lines(&["a\nb"]), "a\nb\n", "", true),
            (lines(&["ab", "b"]), "xab", "x", true),
            (lines(&["abc", "b"]), "xabc", "xa", true),
            (marks(&["\n"], &[], &["Q:"], true), "aQ: c", "aQ:", true),
            (marks(&[], &["#"], &["\n#b"], false), "a\n#b", "a|", true),
            (
                marks(&[], &["#"], &["\n#b"], false),
                "a\n#c",
                "a|\n#c",
                false,
            ),
        ] {
            let (steps, is_stopped) = whole(&marks, text);
            assert_eq!((steps.join("|").as_str(), is_stopped), (expected, stopped));
        }
    }

    #[test]
    fn no_stop_begins_in_what_is_given() {
        let marks = marks(&["\n"], &[], &["Q:", "aa"], false);
        let pieces = |text: &'static str| [text.as_bytes()];
        let (texts, stopped) = steps(&marks, "Q: Q", pieces(": x\n"));
        assert_eq!(
            (texts, stopped),
            (vec!["Q: Q: x\n".to_owned(), String::new()], false)
        );
        let (texts, stopped) = steps(&marks, "a", pieces("aab"));
        assert_eq!((texts, stopped), (vec!["a".to_owned()], true));
    }

    proptest! {
        /// For every division into tokens, the text ends before the first stop or, with `include`,
        /// after it. Without a stop in the text, the whole text is there.
        #[test]
        fn tokens_do_not_matter(
            text in "[ab\n#é]{0,40}",
            mut at in prop::collection::vec(0usize..80, 0..40),
            which in 0usize..4,
            stop in prop::collection::vec("[ab\n#é]{1,4}", 0..4),
            include: bool,
        ) {
            let (boundaries, starts): (&[&str], &[&str]) = [
                (&["\n"][..], &[][..]),
                (&["\n\n", "é"][..], &[][..]),
                (&[][..], &["# a", "##"][..]),
                (&["\n\n", "b a"][..], &["#", "é"][..]),
            ][which];
            let stop: Vec<&str> = stop.iter().map(String::as_str).collect();
            let marks = marks(boundaries, starts, &stop, include);
            let bytes = text.as_bytes();
            at.retain(|&at| at < bytes.len());
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let pieces = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            let (steps, stopped) = steps(&marks, "", pieces);
            let at_once = whole(&marks, &text);
            prop_assert_eq!((&steps, stopped), (&at_once.0, at_once.1));
            let ends = stop.iter().filter_map(|s| Some((text.find(s)? + s.len(), s.len())));
            let first = ends.min_by_key(|&(end, len)| (end, std::cmp::Reverse(len)));
            prop_assert_eq!(stopped, first.is_some());
            let expected = first.map_or(&text[..], |(end, len)| {
                &text[..if include { end } else { end - len }]
            });
            prop_assert_eq!(steps.concat(), expected);
            if stop.is_empty() {
                let cuts = marks.0.steps(&text);
                prop_assert!(steps.starts_with(&cuts));
            }
        }
    }
}
