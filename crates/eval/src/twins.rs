//! Twins: a problem `X`, and a problem `X-twin` that differs only in its numbers. A model that solves both has a
//! method and did not just guess or remember.

use std::collections::BTreeMap;

/// The end of a twin's id, after the id of its problem.
pub const TWIN: &str = "-twin";

/// Returns the values of problem and twin, for each problem that is graded together with its twin.
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
