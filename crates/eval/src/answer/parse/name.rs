//! Names that only introduce an answer, before an equals sign: `x =`, `AB =`, `f(x) =`, `(x,y) =`.

use super::super::lex::Kind;
use super::Parser;

/// Commands that name something.
const NAMING: &[&str] = &[
    "angle",
    "triangle",
    "overline",
    "measuredangle",
    "widehat",
    "vec",
    "overrightarrow",
];

impl Parser<'_> {
    /// The place of the equals sign or membership sign after a name, and the name if it is that of
    /// a variable (other names do not matter).
    pub(super) fn name(&self) -> Option<(usize, Option<String>)> {
        let mut at = self.at;
        let mut name = String::new();
        let mut variable = true;
        if self.tokens.get(at)?.kind == Kind::Symbol('(') {
            at = self.arguments(at)?;
            variable = false;
        }
        loop {
            match &self.tokens.get(at)?.kind {
                Kind::Symbol('=') => break,
                Kind::Symbol('∈') if variable => break,
                Kind::Letters(letters) => {
                    if !name.is_empty() || !names(letters) {
                        variable = false;
                    }
                    // `xy = 6` is an equation.
                    if letters.len() == 2
                        && letters.bytes().any(|b| b.is_ascii_lowercase())
                        && name.is_empty()
                    {
                        return None;
                    }
                    name.push_str(letters);
                }
                Kind::Text(_) => {
                    name.push('t');
                    variable = false;
                }
                Kind::Command(command) if NAMING.contains(&command.as_str()) => variable = false,
                Kind::Symbol('{' | '}') if !variable => {}
                // `|CD|`, but `|x| = 3` is an equation.
                Kind::Symbol('|') if self.is_segment(at + 1) => {
                    at += 2;
                    variable = false;
                }
                Kind::Symbol('_') if !name.is_empty() => {
                    at += 1;
                    let (end, text) = self.plain_subscript(at)?;
                    name.push('_');
                    name.push_str(&text);
                    at = end;
                    continue;
                }
                Kind::Symbol('(') if !name.is_empty() => {
                    at = self.arguments(at)?;
                    variable = false;
                    continue;
                }
                _ => return None,
            }
            at += 1;
        }
        let is_empty = name.is_empty() && at == self.at;
        (!is_empty).then_some((at, variable.then_some(name).filter(|n| !n.is_empty())))
    }

    /// The end of `(x)`, `(-3)` or `(x,y)`.
    fn arguments(&self, open: usize) -> Option<usize> {
        let mut at = open + 1;
        loop {
            match &self.tokens.get(at)?.kind {
                Kind::Symbol(')') => return Some(at + 1),
                Kind::Symbol(',' | '-') | Kind::Number(..) => {}
                Kind::Letters(letters) if letters.len() == 1 => {}
                _ => return None,
            }
            at += 1;
        }
    }

    /// Whether two points and a bar follow.
    fn is_segment(&self, at: usize) -> bool {
        let kind = |at: usize| self.tokens.get(at).map(|token| &token.kind);
        let is_points =
            |name: &str| name.len() == 2 && name.bytes().all(|b| b.is_ascii_uppercase());
        matches!(kind(at), Some(Kind::Letters(name)) if is_points(name))
            && kind(at + 1) == Some(&Kind::Symbol('|'))
    }

    fn plain_subscript(&self, at: usize) -> Option<(usize, String)> {
        let braced = self.tokens.get(at)?.kind == Kind::Symbol('{');
        let at = at + usize::from(braced);
        let text = match &self.tokens.get(at)?.kind {
            Kind::Number(_, Some(text)) | Kind::Letters(text) | Kind::Text(text) => text.clone(),
            _ => return None,
        };
        if braced && self.tokens.get(at + 1)?.kind != Kind::Symbol('}') {
            return None;
        }
        Some((at + 1 + usize::from(braced), text))
    }
}

/// Whether letters are the name of one variable: `x`, `f'`.
fn names(letters: &str) -> bool {
    letters.trim_end_matches('\'').len() == 1
}
