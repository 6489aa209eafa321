//! Detects the stated answer of a chain, which ends the chain.

use super::active::ActiveProblem;
use crate::choose::Answers;
use crate::finish::Border;
use crate::thoughts::{ending, open_end};
use crate::tree::NodeId;

/// The longest text that is kept to look for an answer, in bytes, over any number of steps.
const LONGEST: usize = 4096;

/// Stands for text that was left out: without it the kept text would seem to begin a line.
const LEFT_OUT: &str = "\u{2026}";

impl ActiveProblem {
    /// Whether the step that just closed states the answer of its chain. If not, `unsettled` keeps
    /// the end of the text that later steps may complete to an answer.
    pub(super) fn states_answer(
        &mut self,
        id: NodeId,
        border: Border,
        answers: &dyn Answers,
    ) -> bool {
        // A step that was cut at its token limit may end inside a number, so its text states no
        // answer yet.
        let markers = &self.request.settings.generator.answer_markers;
        // Under a grammar a marker may be any part of the text, and ending there would break the
        // form.
        let has_grammar = self.request.settings.generator.grammar.is_some();
        if markers.is_empty() || has_grammar || border == Border::Limit {
            return false;
        }
        let node = self.tree.node(id);
        let before = match (node.thought, node.parent) {
            // The answer is yet to come.
            (Some(thought), _) if thought.bytes == node.text.len() => return false,
            // The text after a thought continues no text before it.
            (Some(_), _) | (None, None) => "",
            (None, Some(parent)) => &self.resources[parent].unsettled,
        };
        let text = before.to_owned() + node.spoken();
        let stated = answers.is_stated(&text, markers, border);
        if !stated {
            self.resources[id].unsettled = unsettled(&text, markers);
        }
        stated
    }
}

/// Returns the end of a text in which an incomplete answer may begin: the last line, or more if a
/// marker precedes it.
fn unsettled(text: &str, markers: &[String]) -> String {
    if let Some(thought) = open_end(text) {
        return thought;
    }
    let line = text.rfind('\n').map_or(0, |at| at + 1);
    let begun = markers.iter().filter_map(|marker| text.rfind(marker)).min();
    // The last line may complete a marker that began before it, so a marker's length is kept.
    let longest = markers.iter().map(String::len).max().unwrap_or_default();
    let kept = (text.len() - begun.unwrap_or(line).min(line)).max(longest);
    let end = ending(text, kept.min(LONGEST));
    let before = &text[..text.len() - end.len()];
    let left_out = !before.is_empty() && !before.ends_with('\n');
    [if left_out { LEFT_OUT } else { "" }, end].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_still_become_an_answer_is_kept_and_no_more() {
        let markers = ["The answer is".into(), "\\boxed{".into()];
        let long = "x".repeat(2 * LONGEST);
        for (text, kept) in [
            ("", ""),
            ("34 + 8 = 42", "34 + 8 = 42"),
            ("One line is over.\nThe an", "\u{2026} over.\nThe an"),
            (
                "One line is over.\nSo Kim has: The an",
                "So Kim has: The an",
            ),
            ("so \\boxed{\n12 or 13\n", "\u{2026}\\boxed{\n12 or 13\n"),
            (
                "x\n<think>\nIs it 12? </thi",
                "<think>x\n<think>\nIs it 12? </thi",
            ),
        ] {
            assert_eq!(unsettled(text, &markers), kept, "{text:?}");
        }
        let thought = format!("<think>{long}é");
        assert_eq!(unsettled(&thought, &markers).len(), 7 + 52);
        for text in [&long, &format!("\\boxed{{{long}é\n{long}")] {
            let kept = unsettled(text, &markers);
            assert_eq!(kept.len(), LONGEST + LEFT_OUT.len());
            assert!(text.ends_with(kept.trim_start_matches(LEFT_OUT)));
        }
    }
}
