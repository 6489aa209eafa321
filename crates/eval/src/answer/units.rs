//! Units of measurement. They are not part of a value, but 5 km are not 5 m.

use super::words;

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
    &["dollar", "usd", "buck"],
    &["euro", "eur"],
    &["degree"],
    &["am", "a.m"],
    &["pm", "p.m"],
];

/// Whether a run of letters after a number is a unit and no product of variables.
pub(super) fn is_abbreviation(word: &str) -> bool {
    let others = ["mph", "kph", "sq", "cu", "rpm", "USD", "EUR"];
    let is_short = word.len() >= 2 && word.len() <= 4 && !is_half_of_day(word);
    others.contains(&word) || (is_short && name(word).is_some())
}

/// Whether letters are `am` or `pm`, which may be products as well.
pub(super) fn is_half_of_day(word: &str) -> bool {
    ["am", "pm"]
        .iter()
        .any(|half| word.eq_ignore_ascii_case(half))
}

/// The things that words after a number count or measure, units by their names.
pub(super) fn things(words: &[String]) -> Vec<String> {
    let mut things = Vec::new();
    for word in words {
        match word.as_str() {
            "mph" => things.extend(["mi", "h"]),
            "kph" => things.extend(["km", "h"]),
            word => match name(word) {
                Some(name) => things.push(name),
                None => things.extend(words::nouns(word).map(|noun| name(noun).unwrap_or(noun))),
            },
        }
    }
    things.into_iter().map(str::to_owned).collect()
}

/// The units that the signs of money in an answer name. A dollar without a backslash may also
/// enclose mathematics, and names none.
pub(super) fn money(answer: &str) -> impl Iterator<Item = String> {
    let signs = [
        ("\\$", "dollar"),
        ("€", "euro"),
        ("£", "pound"),
        ("¥", "yen"),
    ];
    signs
        .into_iter()
        .filter(|(sign, _)| answer.contains(sign))
        .map(|(_, word)| name(word).unwrap_or(word).to_owned())
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

/// The name of the unit that a word is.
pub(super) fn name(word: &str) -> Option<&'static str> {
    let singular = word.strip_suffix('s').unwrap_or(word);
    UNITS
        .iter()
        .find(|spellings| spellings.iter().any(|s| *s == word || *s == singular))
        .map(|spellings| spellings[0])
}
