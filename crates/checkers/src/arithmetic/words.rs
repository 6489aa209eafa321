//! Words that change what an equation says.

/// Before an expression: what follows is part of something larger ("twice 5 + 3", "3 less than 8").
const TAKES_WHAT_FOLLOWS: &[&str] = &[
    "of",
    "twice",
    "thrice",
    "double",
    "triple",
    "half",
    "times",
    "time",
    "than",
    "minus",
    "plus",
    "by",
    "to",
    "from",
    "over",
    "per",
    "root",
    "sqrt",
    "log",
    "ln",
    "sin",
    "cos",
    "tan",
    "square",
    "cube",
    "third",
    "quarter",
    "fourth",
    "fifth",
    "tenth",
    "divided",
    "multiplied",
    "subtract",
    "subtracting",
    "subtracted",
    "add",
    "adding",
    "added",
    "sum",
    "difference",
    "product",
    "quotient",
    "remainder",
    "less",
    "more",
    "mod",
    "modulo",
    "through",
    "between",
    "until",
    "except",
    "without",
    "another",
    "factorial",
    "negative",
];

/// Before a number: it counts places, it is no quantity ("Day 1 + 2").
const LABELS: &[&str] = &[
    "day", "week", "month", "year", "hour", "minute", "step", "number", "no", "page", "chapter",
    "room", "box", "type", "group", "case", "figure", "part", "question", "problem", "equation",
    "option", "level", "class", "grade", "bus", "route", "team", "player", "car", "tank", "friend",
    "person", "table", "row", "column", "line", "item", "round", "game", "test", "book", "store",
    "shop", "house", "floor", "stage", "phase", "student", "child", "bag", "jar", "set", "method",
    "way", "solution", "example", "note", "section", "trip", "shift", "side", "angle", "base",
    "eq", "formula", "point", "term", "digit", "plan",
];

/// Anywhere in a step: numbers are about.
const APPROXIMATE: &[&str] = &[
    "about",
    "approximately",
    "around",
    "roughly",
    "nearly",
    "almost",
    "rounded",
    "rounding",
    "round",
    "rounds",
    "estimate",
    "estimated",
    "estimates",
    "approx",
    "approximate",
    "approximated",
    "truncated",
    "truncating",
    "ceiling",
    "floor",
];

/// Anywhere in a step: equations in it need not be claims.
const NOT_A_CLAIM: &[&str] = &[
    "incorrect",
    "incorrectly",
    "wrong",
    "wrongly",
    "mistake",
    "mistaken",
    "error",
    "contradiction",
    "contradicts",
    "impossible",
    "false",
    "modulo",
    "mod",
    "binary",
    "hexadecimal",
    "octal",
    "not",
    "isn't",
    "doesn't",
    "cannot",
    "can't",
    "never",
    "unless",
    "remainder",
    "instead",
    "digit",
    "digits",
    "clock",
    "o'clock",
    "pm",
    "am",
    "carry",
];

/// Anywhere in a step: what is said of variables is supposed, chosen or one of several cases.
const SUPPOSES: &[&str] = &[
    "if",
    "let",
    "suppose",
    "supposing",
    "assume",
    "assuming",
    "case",
    "cases",
    "try",
    "trying",
    "or",
    "either",
    "when",
    "whenever",
    "for",
    "each",
    "guess",
    "say",
    "now",
    "new",
    "update",
    "updated",
    "becomes",
    "instead",
    "next",
    "otherwise",
    "solutions",
    "roots",
    "values",
    "possible",
    "range",
    "set",
    "setting",
    "replace",
    "redefine",
    "again",
    "recalculate",
    "correct",
    "correction",
    "wait",
    "actually",
    "denote",
    "choose",
    "pick",
    "take",
    "taking",
    "consider",
    "interval",
    "at",
    "solve",
    "solving",
    "first",
    "second",
    "third",
    "define",
    "call",
    "given",
    "test",
    "testing",
    "check",
    "plugging",
    "substituting",
    "substitute",
];

/// What a unit may be exchanged for: factors between units that people convert without saying so.
pub const CONVERSIONS: &[i64] = &[
    2, 3, 4, 5, 7, 8, 10, 12, 14, 16, 20, 24, 28, 30, 31, 36, 50, 52, 60, 90, 100, 120, 128, 144,
    168, 180, 360, 365, 366, 480, 720, 1000, 1440, 1760, 2000, 3600, 5280, 7200, 10_000, 86_400,
    1_000_000,
];

/// What stands between a word and what belongs to it.
const ARTICLES: &[&str] = &[
    "the", "a", "an", "his", "her", "their", "its", "these", "those", "this", "that",
];

/// What begins a new clause.
const ENDS_UNIT: &[&str] = &[
    "and", "or", "so", "then", "but", "which", "where", "while", "because", "since", "as", "if",
    "we", "he", "she", "they", "it", "is", "are", "was", "were",
];

/// Units of one letter; other single letters are variables.
const ONE_LETTER: &[&str] = &["m", "g", "l", "L", "h", "s"];

fn has(list: &[&str], word: &str) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// Whether what follows this word belongs to something larger than the numbers behind it.
pub fn takes_what_follows(word: &str) -> bool {
    has(TAKES_WHAT_FOLLOWS, word) || has(TAKES_WHAT_FOLLOWS, singular(word))
}

/// Whether a number behind this word is a label.
pub fn is_label(word: &str) -> bool {
    has(LABELS, word) || has(LABELS, singular(word))
}

/// Whether the word stands between another one and what belongs to it.
pub fn is_article(word: &str) -> bool {
    has(ARTICLES, word)
}

/// Whether a unit ends before this word.
pub fn ends_unit(word: &str) -> bool {
    has(ENDS_UNIT, word)
}

/// Whether a word makes the numbers of its step approximate.
pub fn is_approximate(word: &str) -> bool {
    has(APPROXIMATE, word)
}

/// Whether a word makes equations of its step something else than claims.
pub fn is_no_claim(word: &str) -> bool {
    has(NOT_A_CLAIM, word)
}

/// Whether a word makes what its step says of variables a supposition, or a new definition.
pub fn supposes(word: &str) -> bool {
    has(SUPPOSES, word)
}

/// Whether a word may name a variable: a letter, perhaps with an index.
pub fn is_variable(word: &str) -> bool {
    let mut characters = word.chars();
    let letter = characters.next().is_some_and(char::is_alphabetic);
    letter && characters.all(|c| c.is_ascii_digit() || "_{}".contains(c)) || word.contains('_')
}

/// Whether a letter behind a number, with a blank between, is a unit.
pub fn is_unit_letter(word: &str) -> bool {
    ONE_LETTER.contains(&word)
}

/// A word without the ending of a plural.
pub fn singular(word: &str) -> &str {
    word.strip_suffix('s')
        .filter(|stem| stem.len() > 1)
        .unwrap_or(word)
}
