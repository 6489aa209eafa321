//! "Did you mean": finds the known name that is most similar to an unknown one.

/// The minimum Jaro-Winkler similarity, from 0 to 1. clap has the same bound for its suggestions.
const ALIKE: f64 = 0.7;

/// Returns the known name that is most similar to `word`, ignoring case; `None` if none is similar
/// enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|name| {
            let score = strsim::jaro_winkler(&word, &name.to_lowercase());
            (score, name)
        })
        .filter(|(score, _)| *score > ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_most_alike_name_is_found_and_others_are_not() {
        let known = ["strategy", "max_steps", "m", "Qwen/Qwen2.5-Math-PRM-7B"];
        assert_eq!(nearest("stategy", known), Some("strategy"));
        assert_eq!(nearest("maxsteps", known), Some("max_steps"));
        let typed = "qwen/qwen2.5-math-prm7b";
        assert_eq!(nearest(typed, known), Some("Qwen/Qwen2.5-Math-PRM-7B"));
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(nearest("", known), None);
    }
}
