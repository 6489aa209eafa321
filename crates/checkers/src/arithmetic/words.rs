//! Lists of words and units that change the meaning of an equation.

/// Words that take the expression after them as an operand ("twice 5 + 3", "3 less than 8").
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
    "off",
    "gcd",
    "lcm",
    "max",
    "min",
    "abs",
    "exp",
    "det",
    "cot",
    "sec",
    "csc",
    "arcsin",
    "arccos",
    "arctan",
    "floor",
    "ceil",
    "fewer",
    "decreased",
    "increased",
    "reduced",
];

/// Words shortly before an expression that is supposed and not claimed.
const CONDITIONS: &[&str] = &[
    "if",
    "whether",
    "unless",
    "suppose",
    "supposing",
    "supposed",
    "assume",
    "assuming",
    "assumed",
    "imagine",
    "pretend",
    "check",
    "see",
    "verify",
];

/// Words shortly before an expression whose multiple or part is meant.
const MULTIPLES: &[&str] = &[
    "twice",
    "thrice",
    "double",
    "doubles",
    "doubling",
    "triple",
    "triples",
    "tripling",
    "quadruple",
    "half",
    "halve",
    "halving",
];

/// Words after a number that multiply it, such as "dozen".
const MULTIPLIERS: &[&str] = &[
    "dozen", "hundred", "thousand", "million", "billion", "trillion", "score", "gross", "pair",
    "couple", "grand",
];

/// Units that people exchange for others within a sum, without saying so.
const EXCHANGED: &[&str] = &[
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "year",
    "inch",
    "inche",
    "foot",
    "feet",
    "yard",
    "mile",
    "meter",
    "metre",
    "kilometer",
    "centimeter",
    "millimeter",
    "km",
    "cm",
    "mm",
    "ft",
    "in",
    "ounce",
    "oz",
    "pound",
    "lb",
    "ton",
    "gram",
    "kilogram",
    "kg",
    "cup",
    "pint",
    "quart",
    "gallon",
    "liter",
    "litre",
    "ml",
    "cent",
    "dollar",
    "penny",
    "pennie",
    "nickel",
    "dime",
    "quarter",
    "min",
    "sec",
    "hr",
    "degree",
];

/// Words of two letters; other pairs of letters are products.
const TWO_LETTERS: &[&str] = &[
    "km", "cm", "mm", "ft", "in", "yd", "mi", "kg", "mg", "oz", "lb", "ml", "dl", "cl", "hr", "hp",
    "of", "to", "on", "at", "by", "up", "no", "an", "us", "my", "or", "if", "so", "as", "is", "it",
    "he", "we", "be", "do", "go", "me", "am", "pm", "ok", "TV", "CD", "PC",
];

/// Words before a number that is a label and not a quantity ("Day 1 + 2").
const LABELS: &[&str] = &[
    "day", "week", "month", "year", "hour", "minute", "step", "number", "no", "page", "chapter",
    "room", "box", "type", "group", "case", "figure", "part", "question", "problem", "equation",
    "option", "level", "class", "grade", "bus", "route", "team", "player", "car", "tank", "friend",
    "person", "table", "row", "column", "line", "item", "round", "game", "test", "book", "store",
    "shop", "house", "floor", "stage", "phase", "student", "child", "bag", "jar", "set", "method",
    "way", "solution", "example", "note", "section", "trip", "shift", "side", "angle", "base",
    "eq", "formula", "point", "term", "digit", "plan",
];

/// Words that make all numbers of a step approximate.
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

/// Words that show that some equation of a step may not be a claim.
const NOT_A_CLAIM: &[&str] = &[
    "incorrect",
    "mistakenly",
    "falsely",
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

/// Words that make a step's equations of variables suppositions, or cases, or new definitions.
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

/// Ratios of units that people convert without saying so, such as 60 for minutes and hours.
pub(crate) const CONVERSIONS: &[i64] = &[
    2, 3, 4, 5, 7, 8, 10, 12, 14, 16, 20, 24, 28, 30, 31, 36, 50, 52, 60, 90, 100, 120, 128, 144,
    168, 180, 360, 365, 366, 480, 720, 1000, 1440, 1760, 2000, 3600, 5280, 7200, 10_000, 86_400,
    1_000_000,
];

/// Words that may be between a word and the number that it belongs to ("the 29").
const ARTICLES: &[&str] = &[
    "the", "a", "an", "his", "her", "their", "its", "these", "those", "this", "that",
];

/// Words that begin a new clause; a unit ends before them.
const ENDS_UNIT: &[&str] = &[
    "and", "or", "so", "then", "but", "which", "where", "while", "because", "since", "as", "if",
    "we", "he", "she", "they", "it", "is", "are", "was", "were",
];

/// Units of one letter; other single letters are variables.
const ONE_LETTER: &[&str] = &["m", "g", "l", "L", "h", "s"];

fn has(list: &[&str], word: &str) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// Whether the word takes the expression after it as an operand.
pub(crate) fn takes_what_follows(word: &str) -> bool {
    has(TAKES_WHAT_FOLLOWS, word) || has(TAKES_WHAT_FOLLOWS, singular(word))
}

/// Whether a sign says that an equation does not hold.
pub(crate) fn denies(sign: &str) -> bool {
    ["≠", "\\ne", "\\neq", "\\not", "!="].contains(&sign)
}

/// Whether a word begins a modulus.
pub(crate) fn is_modulo(word: &str) -> bool {
    has(&["mod", "modulo", "modulus"], word)
}

/// Whether a word makes what a number is divided by a modulus.
pub(crate) fn is_remainder(word: &str) -> bool {
    has(
        &[
            "remainder",
            "remainders",
            "residue",
            "residues",
            "congruent",
        ],
        word,
    )
}

/// Whether a word says which digit of a number is meant.
pub(crate) fn is_place(word: &str) -> bool {
    has(
        &[
            "last",
            "units",
            "unit",
            "ones",
            "tens",
            "final",
            "rightmost",
        ],
        word,
    )
}

/// Whether a word makes a text one that defines operators.
pub(crate) fn defines_operator(word: &str) -> bool {
    has(
        &[
            "operation",
            "operations",
            "operator",
            "define",
            "defined",
            "defines",
            "binary",
        ],
        word,
    )
}

/// Whether a word is "base".
pub(crate) fn names_base(word: &str) -> bool {
    singular(word).eq_ignore_ascii_case("base")
}

/// Whether a word names another base than ten.
pub(crate) fn is_base(word: &str) -> bool {
    has(&["binary", "hexadecimal", "octal", "ternary"], word)
}

/// Whether a word is a small number.
pub(crate) fn is_number(word: &str) -> bool {
    has(
        &[
            "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
            "twelve", "sixteen",
        ],
        word,
    )
}

/// Whether a subject is a name that a solution gives to a number, as capital letters mostly are,
/// and no unknown.
pub(crate) fn is_name(subject: &str) -> bool {
    is_variable(subject) && subject.starts_with(char::is_uppercase)
}

/// Whether a word supposes what follows.
pub(crate) fn is_condition(word: &str) -> bool {
    has(CONDITIONS, word)
}

/// Whether a word takes a multiple or a part of what follows.
pub(crate) fn is_multiple(word: &str) -> bool {
    has(MULTIPLES, word)
}

/// Whether a word multiplies the number before it.
pub(crate) fn is_multiplier(word: &str) -> bool {
    has(MULTIPLIERS, singular(word))
}

/// Whether people exchange this unit for another one within a sum.
pub(crate) fn is_exchanged(unit: &str) -> bool {
    has(EXCHANGED, unit)
}

/// Whether the letters after a number may be variables that multiply it.
pub(crate) fn is_product(word: &str) -> bool {
    let two = word.len() == 2 && word.bytes().all(|b| b.is_ascii_alphabetic());
    is_variable(word) || two && !has(TWO_LETTERS, word)
}

/// Whether a number after this word is a label, not a quantity.
pub(crate) fn is_label(word: &str) -> bool {
    has(LABELS, word) || has(LABELS, singular(word))
}

/// Whether the word stands between another one and what belongs to it.
pub(crate) fn is_article(word: &str) -> bool {
    has(ARTICLES, word)
}

/// Whether a unit ends before this word.
pub(crate) fn ends_unit(word: &str) -> bool {
    has(ENDS_UNIT, word)
}

/// Whether a word makes the numbers of its step approximate.
pub(crate) fn is_approximate(word: &str) -> bool {
    has(APPROXIMATE, word)
}

/// Whether a word makes equations of its step something else than claims.
pub(crate) fn is_no_claim(word: &str) -> bool {
    has(NOT_A_CLAIM, word)
}

/// Whether a word makes what its step says of variables a supposition, or a new definition.
pub(crate) fn supposes(word: &str) -> bool {
    has(SUPPOSES, word)
}

/// Whether a word may name a variable: a letter, perhaps with an index.
pub(crate) fn is_variable(word: &str) -> bool {
    let mut characters = word.chars();
    let letter = characters.next().is_some_and(char::is_alphabetic);
    letter && characters.all(|c| c.is_ascii_digit() || "_{}".contains(c)) || word.contains('_')
}

/// Whether a single letter after a number and a blank is a unit.
pub(crate) fn is_unit_letter(word: &str) -> bool {
    ONE_LETTER.contains(&word)
}

/// A word without the ending of a plural.
pub(crate) fn singular(word: &str) -> &str {
    word.strip_suffix('s')
        .filter(|stem| stem.len() > 1)
        .unwrap_or(word)
}
