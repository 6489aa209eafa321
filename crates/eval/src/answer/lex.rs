//! The tokeniser of answers. It drops LaTeX commands that affect only the layout.

use crate::algebra::{Fault, Rational};
use crate::number;

use super::words;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind {
    /// A number; the text only if it is digits alone.
    Number(Rational, Option<String>),
    /// A run of letters as typed, or one that `\mathrm` or `\operatorname` sets upright.
    Letters(String),
    /// The words of a `\text{}`.
    Text(String),
    /// A LaTeX command, without the backslash.
    Command(String),
    /// Anything else, and the commands that stand for an operator.
    Symbol(char),
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    pub spaced: bool,
}

/// The symbols that stand for `\{`, `\}` and the end of a matrix row.
pub(super) const SET_OPEN: char = '\u{2983}';
pub(super) const SET_CLOSE: char = '\u{2984}';
pub(super) const ROW_END: char = '\n';

/// Commands and characters that stand for a symbol.
fn symbol(name: &str) -> Option<char> {
    Some(match name {
        "cdot" | "times" | "ast" | "×" | "·" | "∙" | "⋅" => '*',
        "div" | "÷" => '/',
        "le" | "leq" | "leqslant" | "≤" => '≤',
        "ge" | "geq" | "geqslant" | "≥" => '≥',
        "lt" => '<',
        "gt" => '>',
        "ne" | "neq" | "≠" => '≠',
        "approx" | "≈" => '≈',
        "pm" | "±" => '±',
        "mp" | "∓" => '∓',
        "cup" | "∪" => '∪',
        "in" | "∈" => '∈',
        "langle" | "⟨" => '⟨',
        "rangle" | "⟩" => '⟩',
        "vert" | "lvert" | "rvert" | "mid" => '|',
        "{" | "lbrace" => SET_OPEN,
        "}" | "rbrace" => SET_CLOSE,
        "lbrack" => '[',
        "rbrack" => ']',
        "lparen" => '(',
        "rparen" => ')',
        "\\" | "cr" => ROW_END,
        "%" => '%',
        "&" => '&',
        "_" => '_',
        "colon" => ':',
        "degree" | "degrees" | "°" | "º" => '°',
        "−" | "–" => '-',
        _ => return None,
    })
}

/// Characters that stand for a command.
fn command(character: char) -> Option<&'static str> {
    Some(match character {
        'π' => "pi",
        '∞' => "infty",
        '√' => "sqrt",
        'θ' => "theta",
        'α' => "alpha",
        'β' => "beta",
        'λ' => "lambda",
        'φ' => "phi",
        '∅' => "emptyset",
        'ℝ' => "mathbb R",
        _ => return None,
    })
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    let mut lexer = Lexer {
        tokens: Vec::new(),
        brackets: 0,
        spaced: false,
    };
    lexer.read(text, 0)?;
    Ok(lexer.tokens)
}

/// Returns the text after the ending of an ordinal, as in `21st` and `4^{\\text{th}}`.
fn ordinal<'t>(digits: &str, after: &'t str) -> Option<&'t str> {
    let ending = match digits.as_bytes() {
        [.., b'1', _] => "th",
        [.., b'1'] => "st",
        [.., b'2'] => "nd",
        [.., b'3'] => "rd",
        _ => "th",
    };
    let raised = ["^{\\text{", "^\\text{", "^{\\mathrm{", "^\\mathrm{"];
    let set = raised.iter().find_map(|start| {
        let inside = after.strip_prefix(start)?.strip_prefix(ending)?;
        inside.strip_prefix(if start.starts_with("^{") { "}}" } else { "}" })
    });
    let rest = set.or_else(|| after.strip_prefix(ending))?;
    (!rest.starts_with(|c: char| c.is_ascii_alphanumeric())).then_some(rest)
}

struct Lexer {
    tokens: Vec<Token>,
    /// How many brackets are open, where a comma separates.
    brackets: usize,
    spaced: bool,
}

impl Lexer {
    fn push(&mut self, kind: Kind) {
        let spaced = std::mem::take(&mut self.spaced);
        self.tokens.push(Token { kind, spaced });
    }

    fn push_symbol(&mut self, symbol: char) {
        match symbol {
            '(' | '[' | '⟨' | SET_OPEN => self.brackets += 1,
            ')' | ']' | '⟩' | SET_CLOSE => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        self.push(Kind::Symbol(symbol));
    }

    fn read(&mut self, text: &str, depth: usize) -> Result<(), Fault> {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            rest = match first {
                '\\' => self.command(&rest[1..], depth)?,
                '0'..='9' | '.' => self.number(rest)?,
                _ if first.is_ascii_alphabetic() => self.letters(rest),
                '^' => self.superscript(&rest[1..]),
                _ => self.character(first, &rest[first.len_utf8()..]),
            };
        }
        Ok(())
    }

    fn number<'t>(&mut self, rest: &'t str) -> Result<&'t str, Fault> {
        if let Some(found) = number::literal(rest, self.brackets == 0) {
            let (digits, after) = rest.split_at(found.length);
            let after = match self.tokens.last() {
                None => ordinal(digits, after).unwrap_or(after),
                Some(_) => after,
            };
            let digits = found.plain.then(|| digits.to_owned());
            self.push(Kind::Number(found.value, digits));
            return Ok(after);
        }
        let Some(after) = rest.strip_prefix('.') else {
            // Digits that are no number are too many.
            return Err(Fault::TooHard);
        };
        // A full stop, or the invisible delimiter of `\right.`
        if !after.trim_start_matches(['$', ' ', '*']).is_empty() {
            self.push(Kind::Symbol('.'));
        }
        Ok(after)
    }

    fn letters<'t>(&mut self, rest: &'t str) -> &'t str {
        for half in ["a.m", "p.m"] {
            let Some((start, after)) = rest.split_at_checked(half.len()) else {
                continue;
            };
            let ends = !after.starts_with(|c: char| c.is_ascii_alphanumeric());
            if ends && start.eq_ignore_ascii_case(half) {
                self.push(Kind::Text(half.to_owned()));
                return after.strip_prefix('.').unwrap_or(after);
            }
        }
        // An apostrophe is part of the run: `f'` is one name, and `don't` is one word.
        let end = rest
            .bytes()
            .take_while(|b| b.is_ascii_alphabetic() || *b == b'\'')
            .count();
        let (run, after) = rest.split_at(end);
        self.push(Kind::Letters(run.to_owned()));
        after
    }

    /// `^\circ` in all its spellings is a degree sign.
    fn superscript<'t>(&mut self, rest: &'t str) -> &'t str {
        let inside = rest.trim_start();
        let (braced, inside) = match inside.strip_prefix('{') {
            Some(inside) => (true, inside.trim_start()),
            None => (false, inside),
        };
        let degree = ["\\circ", "\\degree", "∘", "°"]
            .iter()
            .find_map(|sign| inside.strip_prefix(sign));
        let after = match (degree, braced) {
            (Some(after), true) => after.trim_start().strip_prefix('}'),
            (after, _) => after,
        };
        self.push(Kind::Symbol(if after.is_some() { '°' } else { '^' }));
        after.unwrap_or(rest)
    }

    fn character<'t>(&mut self, first: char, after: &'t str) -> &'t str {
        let relation = match first {
            '<' => Some('≤'),
            '>' => Some('≥'),
            '!' => Some('≠'),
            _ => None,
        };
        // Programs print `<=`. As two tokens, `<` would have no right side.
        if let (Some(relation), Some(after)) = (relation, after.strip_prefix('=')) {
            self.push(Kind::Symbol(relation));
            return after;
        }
        match first {
            // `$` may enclose mathematics, so currency is not read here but from the answer's text.
            '$' | '€' | '£' | '¥' => {}
            _ if first.is_whitespace() || first == '~' => self.spaced = true,
            '²' | '³' => {
                self.push(Kind::Symbol('^'));
                let power = if first == '²' { 2 } else { 3 };
                self.push(Kind::Number(Rational::from_integer(power.into()), None));
            }
            _ => {
                if let Some(name) = command(first) {
                    self.push(Kind::Command(name.to_owned()));
                } else {
                    let mut buffer = [0; 4];
                    // `{` is not `\{`.
                    let known = if first.is_ascii() {
                        None
                    } else {
                        symbol(first.encode_utf8(&mut buffer))
                    };
                    self.push_symbol(known.unwrap_or(first));
                }
            }
        }
        after
    }

    fn command<'t>(&mut self, rest: &'t str, depth: usize) -> Result<&'t str, Fault> {
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let length = match letters {
            0 => rest.chars().next().map_or(0, char::len_utf8),
            _ => letters,
        };
        let (name, after) = rest.split_at(length);
        match name {
            // A bracket that is not there, as in `\right.`
            "left" | "right" => return Ok(after.trim_start().strip_prefix('.').unwrap_or(after)),
            // Commands that only lay out.
            "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr" | "biggl"
            | "biggr" | "displaystyle" | "textstyle" | "limits" | "rm" | "bf" | "it" | "hline" => {
                return Ok(after);
            }
            "," | ";" | ":" | "!" | " " | "\n" | "quad" | "qquad" | "enspace" | "thinspace"
            | "hfill" => {
                self.spaced = true;
                return Ok(after);
            }
            "$" | "(" | ")" | "[" | "]" | "" => return Ok(after),
            // A backslash too many, as in `\15`.
            _ if name.starts_with(|c: char| c.is_ascii_digit()) => return Ok(rest),
            _ => {}
        }
        // Only a closed group is the argument of a command. Otherwise the command name alone is a token, which the
        // parser may reject.
        let content = after.trim_start().strip_prefix('{').and_then(closed);
        if let Some(content) = content {
            let blanks = after.len() - after.trim_start().len();
            let end = &after[blanks + content.len() + 2..];
            match name {
                "mathbb" if content == "R" => {
                    self.push(Kind::Command("mathbb R".to_owned()));
                    return Ok(end);
                }
                // Words.
                "text" | "textbf" | "textit" | "textrm" | "textnormal" | "mbox" | "hbox" => {
                    self.text(content, false, depth)?;
                    return Ok(end);
                }
                // Letters in another type.
                "mathrm" | "mathbf" | "mathit" | "mathcal" | "mathsf" | "boldsymbol"
                | "operatorname" | "mathbb" => {
                    self.text(content, true, depth)?;
                    return Ok(end);
                }
                _ => {}
            }
        }
        match symbol(name) {
            Some(symbol) => self.push_symbol(symbol),
            None => self.push(Kind::Command(name.to_owned())),
        }
        Ok(after)
    }

    /// Reads the content of a text command: a single upright word as letters, several words as a token each. Any
    /// other content is read as mathematics, because models put whole formulas into `\text{}`.
    fn text(&mut self, content: &str, upright: bool, depth: usize) -> Result<(), Fault> {
        let content = content.replace(['~', '\u{a0}'], " ");
        let trimmed = content.trim().trim_end_matches('.');
        let is_words = trimmed
            .chars()
            .all(|c| c.is_alphabetic() || c.is_whitespace() || matches!(c, '-' | '\'' | '/' | '.'));
        let spaced = content.starts_with(char::is_whitespace);
        self.spaced |= spaced;
        if trimmed.is_empty() {
            self.spaced = true;
        } else if is_words && upright && trimmed.is_ascii() && !content.contains([' ', '/', '-']) {
            self.push(Kind::Letters(trimmed.to_owned()));
        } else if is_words {
            for word in trimmed.split_whitespace() {
                // `three-quarters`
                let (count, part) = word.split_once('-').unwrap_or_default();
                let is_part = words::part(part, true).or_else(|| words::part(part, false));
                if is_part.is_some() {
                    self.push(Kind::Text(count.to_owned()));
                    self.push(Kind::Text(part.to_owned()));
                } else {
                    self.push(Kind::Text(word.to_owned()));
                }
                self.spaced = true;
            }
            self.spaced = content.ends_with(char::is_whitespace);
        // Each level copies its content, so the limit on depth also limits the work.
        } else if depth < 4 {
            self.read(&content, depth + 1)?;
        } else {
            return Err(Fault::TooHard);
        }
        Ok(())
    }
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
