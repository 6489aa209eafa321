//! Units of measurement. They are not part of a value, but 5 km are not 5 m.

/// Spellings of each unit; the first one is its name.
const UNITS: &[&[&str]] = &[
    &["mm", "millimeter", "millimetre"],
    &["cm", "centimeter", "centimetre"],
    &["m", "meter", "metre"],
    &["km", "kilometer", "kilometre"],
    &["in", "inch", "inche"],
    &["ft", "foot", "feet"],
    &["yd", "yard"],
    &["mi", "mile"],
    &["mg", "milligram"],
    &["g", "gram"],
    &["kg", "kilogram"],
    &["oz", "ounce"],
    &["lb", "pound"],
    &["ml", "mL", "milliliter", "millilitre"],
    &["l", "L", "liter", "litre"],
    &["s", "sec", "second"],
    &["min", "minute"],
    &["h", "hr", "hour"],
    &["day"],
    &["week"],
    &["month"],
    &["yr", "year"],
    &["cent"],
    &["dollar"],
];

/// Whether a run of letters after a number is a unit and no product of variables.
pub(super) fn is_abbreviation(word: &str) -> bool {
    let others = ["mph", "kph", "sq", "cu", "rpm"];
    word.len() >= 2 && (others.contains(&word) || (word.len() <= 4 && name(word).is_some()))
}

/// Whether a letter is a unit as well as a variable.
pub(super) fn is_letter(word: &str) -> bool {
    word.len() == 1 && name(word).is_some()
}

/// The name of the unit that some words give; `None` if they give none of the table ("apples",
/// "miles per hour").
pub(super) fn unit(words: &[String], power: Option<u32>) -> Option<String> {
    let mut words: Vec<&str> = words.iter().flat_map(|w| w.split_whitespace()).collect();
    let mut power = power;
    if let Some(first) = words.first() {
        let named = match *first {
            "square" | "sq" => Some(2),
            "cubic" | "cu" => Some(3),
            _ => None,
        };
        if named.is_some() {
            power = named;
            words.remove(0);
        }
    }
    let [word] = words.as_slice() else {
        return None;
    };
    let name = name(word)?;
    Some(match power {
        Some(power) => format!("{name}^{power}"),
        None => name.to_owned(),
    })
}

fn name(word: &str) -> Option<&'static str> {
    let singular = word.strip_suffix('s').unwrap_or(word);
    UNITS
        .iter()
        .find(|spellings| spellings.iter().any(|s| *s == word || *s == singular))
        .map(|spellings| spellings[0])
}

/// A number in one word.
pub(super) fn number_word(word: &str) -> Option<i64> {
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

/// What a word after a number multiplies it with.
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
