//! Words that are numbers, and words that change what is said of a number.

use crate::algebra::Rational;

/// A number in one word.
pub(super) fn number(word: &str) -> Option<i64> {
    const WORDS: [&str; 21] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ];
    let place = WORDS.iter().position(|known| *known == word)?;
    i64::try_from(place).ok()
}

/// Returns the factor of a word after a number, such as 1000 for "thousand".
pub(super) fn multiplier(word: &str) -> Option<i64> {
    Some(match word {
        "hundred" => 100,
        "thousand" => 1_000,
        "million" => 1_000_000,
        "billion" => 1_000_000_000,
        "trillion" => 1_000_000_000_000,
        _ => return None,
    })
}

/// The part of one that a word names: a half, or (of `many`) halves.
pub(super) fn part(word: &str, many: bool) -> Option<Rational> {
    const PARTS: &[(&str, i64)] = &[
        ("third", 3),
        ("quarter", 4),
        ("fourth", 4),
        ("fifth", 5),
        ("sixth", 6),
        ("seventh", 7),
        ("eighth", 8),
        ("ninth", 9),
        ("tenth", 10),
        ("eleventh", 11),
        ("twelfth", 12),
        ("twentieth", 20),
        ("hundredth", 100),
        ("thousandth", 1_000),
        ("millionth", 1_000_000),
    ];
    let one = match (many, word.strip_suffix('s')) {
        (false, _) => word,
        (true, Some("halve")) => "half",
        (true, one) => one?,
    };
    let found = PARTS.iter().find(|(name, _)| *name == one);
    let parts = match one {
        "half" => 2,
        _ => found?.1,
    };
    Some(Rational::new(1.into(), parts.into()))
}

/// A number in words (`two`, `half`, `a third`, `three quarters`), and how many words it takes.
pub(super) fn quantity(words: &[String]) -> Option<(Rational, usize)> {
    let first = words.first()?.as_str();
    let count = if first == "a" { Some(1) } else { number(first) };
    let next = words.get(1).zip(count);
    if let Some(part) = next.and_then(|(word, count)| part(word, count != 1)) {
        return Some((part * Rational::from_integer(count?.into()), 2));
    }
    match first {
        "half" => Some((part(first, false)?, 1)),
        _ => Some((Rational::from_integer(number(first)?.into()), 1)),
    }
}

/// Whether words after a number say more than what is counted or measured: they make a condition, a
/// denial, an operation or another amount of it.
pub(super) fn say_more(words: &[String]) -> bool {
    let operates =
        |word: &String| matches!(word.as_str(), "squared" | "cubed" | "factorial" | "choose");
    // `3 hundredth` is a fraction, not a count of things called hundredths.
    let is_part = |word: &String| part(word, false).is_some() && word != "quarter";
    words.first().is_some_and(operates)
        || (words.len() == 1 && is_part(&words[0]))
        || words
            .iter()
            .enumerate()
            .any(|(place, word)| match word.as_str() {
                // `5 in all`
                "all" => place == 0 || words[place - 1] != "in",
                "any" | "are" | "be" | "both" | "but" | "cannot" | "divided" | "either"
                | "every" | "except" | "excluding" | "false" | "if" | "impossible"
                | "incorrect" | "invalid" | "is" | "least" | "minus" | "mod" | "modulo"
                | "most" | "neither" | "never" | "no" | "none" | "nor" | "not" | "otherwise"
                | "plus" | "provided" | "undefined" | "unknown" | "unless" | "was" | "were"
                | "when" | "where" | "whenever" | "while" | "without" | "wrong" => true,
                word => word.ends_with("n't") || number(word).is_some(),
            })
}

/// Words that name nothing that is counted.
const NEUTRAL: &[&str] = &[
    "a", "an", "at", "by", "cu", "cubic", "each", "for", "from", "in", "left", "number", "of",
    "on", "per", "sq", "square", "the", "to", "total", "with",
];

/// The nouns in a word after a number, without the s of the plural.
pub(super) fn nouns(word: &str) -> impl Iterator<Item = &str> {
    word.split(['-', '/', '.'])
        .map(|word| word.strip_suffix('s').unwrap_or(word))
        .filter(|word| !word.is_empty() && !NEUTRAL.contains(word))
}
