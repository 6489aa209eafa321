//! Twins: a problem `X` and the problem `X-twin` with other numbers. A model that is right on both
//! has a method, and not only luck or memory.

use std::collections::BTreeMap;

/// The end of a twin's id, after the id of its problem.
pub const TWIN: &str = "-twin";

/// Returns the values of the pairs of twins among graded problems, `(problem, twin)`.
pub fn pairs<'a, T: Copy>(graded: impl IntoIterator<Item = (&'a str, T)>) -> Vec<(T, T)> {
    let graded: BTreeMap<&str, T> = graded.into_iter().collect();
    let pairs = graded
        .iter()
        .filter_map(|(id, &twin)| Some((*graded.get(id.strip_suffix(TWIN)?)?, twin)));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_paired_by_their_ids() {
        let graded = [
            ("b-twin", 1),
            ("a", 2),
            ("a-twin", 3),
            ("c", 4),
            ("-twin", 5),
        ];
        assert_eq!(pairs(graded), [(2, 3)]);
        assert_eq!(pairs([("", 1), ("-twin", 2)]), [(1, 2)]);
    }
}
