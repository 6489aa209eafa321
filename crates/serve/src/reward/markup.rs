//! Reads the markup of chat templates: some trainers send a whole chat as one text.

use super::chain::{Role, Turn};

use Role::{Assistant, System, User};

/// The markup of a family of chat templates.
struct Markup {
    /// The texts that begin a turn, with its role. If several match at one place, the first one
    /// counts.
    begins: &'static [(&'static str, Role)],
    /// The texts that end a turn or the whole text.
    ends: &'static [&'static str],
}

/// The known markups, each with the families of models that use it.
const MARKUPS: [Markup; 6] = [
    // Qwen, Yi, SmolLM and others: ChatML.
    Markup {
        begins: &[
            ("<|im_start|>system\n", System),
            ("<|im_start|>user\n", User),
            ("<|im_start|>assistant\n", Assistant),
        ],
        ends: &["<|im_end|>", "<|endoftext|>"],
    },
    // Llama 3.
    Markup {
        begins: &[
            ("<|start_header_id|>system<|end_header_id|>\n\n", System),
            ("<|start_header_id|>user<|end_header_id|>\n\n", User),
            (
                "<|start_header_id|>assistant<|end_header_id|>\n\n",
                Assistant,
            ),
        ],
        ends: &["<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"],
    },
    // Gemma.
    Markup {
        begins: &[
            ("<start_of_turn>user\n", User),
            ("<start_of_turn>model\n", Assistant),
        ],
        ends: &["<end_of_turn>", "<eos>"],
    },
    // Mistral.
    Markup {
        begins: &[
            ("[INST] ", User),
            ("[INST]", User),
            (" [/INST] ", Assistant),
            (" [/INST]", Assistant),
            ("[/INST]", Assistant),
        ],
        ends: &["</s>"],
    },
    // DeepSeek.
    Markup {
        begins: &[("<｜User｜>", User), ("<｜Assistant｜>", Assistant)],
        ends: &["<｜end▁of▁sentence｜>"],
    },
    // Phi and Zephyr.
    Markup {
        begins: &[
            ("<|system|>\n", System),
            ("<|user|>\n", User),
            ("<|assistant|>\n", Assistant),
        ],
        ends: &["<|end|>", "</s>", "<|endoftext|>"],
    },
];

/// Texts that occur in markup only. A text with one of them but without a known markup is refused
/// rather than read as plain.
const SIGNS: [&str; 4] = ["<|", "<｜", "[INST]", "<start_of_turn>"];

/// The maximum number of turns in a text.
const MOST_TURNS: usize = 1024;

/// Returns the turns of a chat that a template wrote; `None` for a text without markup. The last
/// turn is empty if the text ends where the response should begin.
///
/// # Errors
/// Returns an error if the markup is unknown, or if there are more than [`MOST_TURNS`] turns.
pub(super) fn turns(text: &str) -> Result<Option<Vec<Turn>>, String> {
    let has_user = |markup: &&Markup| {
        let mut begins = markup.begins.iter();
        begins.any(|(mark, role)| *role == User && text.contains(mark))
    };
    let Some(markup) = MARKUPS.iter().find(has_user) else {
        return match SIGNS.iter().find(|sign| text.contains(**sign)) {
            Some(sign) => Err(format!(
                "it has {sign} of a chat template that is not known: send the problem's text"
            )),
            None => Ok(None),
        };
    };
    let mut begins = markup.begins(text);
    let mut turns: Vec<Turn> = Vec::new();
    let mut current = begins.next();
    while let Some((_, start, role)) = current {
        if turns.len() == MOST_TURNS {
            return Err(format!("it has more than {MOST_TURNS} turns: send fewer"));
        }
        current = begins.next();
        let until = current.map_or(text.len(), |(at, ..)| at);
        let content = &text[start..until];
        // The first end mark ends a turn; more of them, or padding, may follow in the last turn.
        let content = match markup.ends.iter().filter_map(|end| content.find(end)).min() {
            Some(end) => &content[..end],
            None => content,
        };
        turns.push(Turn {
            role,
            content: content.to_owned(),
        });
    }
    Ok(Some(turns))
}

/// Removes the marks at the end of a response, such as `<|im_end|>`, also if repeated as padding.
pub(super) fn without_ends(response: &str) -> &str {
    let mut rest = response;
    loop {
        let text = rest.trim_end();
        let mut ends = MARKUPS.iter().flat_map(|markup| markup.ends);
        match ends.find_map(|end| text.strip_suffix(end)) {
            Some(shorter) => rest = shorter,
            None => return rest,
        }
    }
}

impl Markup {
    /// Returns the start and the end of each mark that begins a turn, and the turn's role.
    fn begins<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, usize, Role)> + 'a {
        let mut from = 0;
        let places = text.char_indices();
        places.filter_map(move |(at, _)| {
            if at < from {
                return None;
            }
            let rest = &text[at..];
            let mut begins = self.begins.iter();
            let &(mark, role) = begins.find(|(mark, _)| rest.starts_with(mark))?;
            from = at + mark.len();
            Some((at, from, role))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turns_of_each_markup_are_read() {
        for text in [
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\n p <|im_end|>\n<|im_start|>assistant\na\nb<|im_end|>\n",
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\ns<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n p <|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\na\nb<|eot_id|>",
            "<|system|>\ns<|end|>\n<|user|>\n p <|end|>\n<|assistant|>\na\nb<|end|>\n<|endoftext|>",
        ] {
            let read = turns(text).unwrap().unwrap();
            let read: Vec<(Role, &str)> = read.iter().map(|t| (t.role, &*t.content)).collect();
            assert_eq!(
                read,
                [(System, "s"), (User, " p "), (Assistant, "a\nb")],
                "{text}"
            );
        }
        for (text, wanted) in [
            (
                "<bos><start_of_turn>user\np<end_of_turn>\n<start_of_turn>model\n",
                vec![(User, "p"), (Assistant, "")],
            ),
            (
                "<s>[INST] p [/INST] a</s>[INST] q [/INST]",
                vec![(User, "p"), (Assistant, "a"), (User, "q"), (Assistant, "")],
            ),
            (
                "<｜begin▁of▁sentence｜><｜User｜>p<｜Assistant｜>a<｜end▁of▁sentence｜>",
                vec![(User, "p"), (Assistant, "a")],
            ),
        ] {
            let read = turns(text).unwrap().unwrap();
            let read: Vec<(Role, &str)> = read.iter().map(|t| (t.role, &*t.content)).collect();
            assert_eq!(read, wanted, "{text}");
        }
        assert_eq!(turns("1 < 2, what is [x]?"), Ok(None));
        assert!(turns("<|robot|>x").unwrap_err().contains("<|"));
        let many = "<|user|>\n".repeat(MOST_TURNS + 1);
        assert!(turns(&many).unwrap_err().contains("turns"));
    }

    #[test]
    fn ends_are_taken_off() {
        for (text, wanted) in [
            ("a\nb<|im_end|>\n<|endoftext|><|endoftext|>", "a\nb"),
            ("a </s> b</s>", "a </s> b"),
            ("a\n", "a\n"),
        ] {
            assert_eq!(without_ends(text), wanted);
        }
    }
}
