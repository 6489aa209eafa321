//! The labelled chains of an evaluation: as input of the reward model, and as rows of the report.

use std::collections::BTreeMap;
use std::path::Path;

use super::outline::SetOutline;
use crate::Error;
use crate::report::slug;
use crate::scores;
use beamgen::eval::GivenChain;
use beamgen::eval::quality::ScoredChain;
use beamgen_labels::{DataSource, LabelRule, Labelled, LabelledChain};

/// The chains of one file, before they are scored.
pub struct Set {
    /// The name, path and format of the file, as the report shows them.
    pub outline: SetOutline,
    /// The chains, as the model reads them.
    pub chains: Vec<GivenChain>,
    /// The rows of the chains with labels; scores are still missing.
    pub rows: Vec<ScoredChain>,
    /// A message on the records that were left out, with their number and the reason of the first one.
    pub left_out: Option<String>,
}

/// Reads the first `limit` chains of each file, or all without a limit.
///
/// # Errors
/// A file cannot be used, or no step of it has a label.
pub fn open(
    sources: &[impl Clone + Into<DataSource>],
    limit: Option<usize>,
    rule: &LabelRule,
) -> Result<Vec<Set>, Error> {
    let mut sets: Vec<Set> = Vec::new();
    for source in sources {
        let source: DataSource = source.clone().into();
        let labelled = beamgen_labels::open(&source, None)?;
        sets.push(Set::new(
            name(Path::new(&source.name), |name: &str| {
                // Slugs are compared, because file names of figures contain the slug of the set.
                sets.iter().any(|set| slug(&set.outline.name) == slug(name))
            }),
            labelled,
            limit,
            rule,
        )?);
    }
    Ok(sets)
}

impl Set {
    /// Takes the first `limit` chains with their labels.
    ///
    /// # Errors
    /// No step has a label.
    pub fn new(
        name: String,
        mut labelled: Labelled,
        limit: Option<usize>,
        rule: &LabelRule,
    ) -> Result<Self, Error> {
        labelled.chains.truncate(limit.unwrap_or(usize::MAX));
        let rows = rows(&labelled.chains, rule);
        // Labels are checked before scoring, which may take hours.
        if rows
            .iter()
            .all(|row| row.labels.iter().all(Option::is_none))
        {
            return Err(Error::Data(format!(
                "{}: no step has a label: give chains with ratings, labels or the first wrong step",
                labelled.source
            )));
        }
        Ok(Self {
            left_out: labelled.left_out(),
            chains: scores::given(&labelled.chains),
            outline: SetOutline {
                name,
                source: labelled.source,
                format: labelled.format.name.to_owned(),
                rejected: labelled.rejected.len(),
            },
            rows,
        })
    }
}

/// Returns the stem of the file's name. A number is appended if the name is taken.
fn name(path: &Path, taken: impl Fn(&str) -> bool) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy());
    let stem = match stem {
        // File names of figures contain the slug, which must not be empty.
        Some(stem) if !slug(&stem).is_empty() => stem.into_owned(),
        _ => "data".to_owned(),
    };
    let numbered = (2..).map(|number| format!("{stem}-{number}"));
    let mut names = std::iter::once(stem.clone()).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or(stem)
}

fn rows(chains: &[LabelledChain], rule: &LabelRule) -> Vec<ScoredChain> {
    // Texts that differ only in white space are one problem. As two problems they would make the intervals too
    // narrow, since intervals resample problems.
    let mut problems: BTreeMap<String, u32> = BTreeMap::new();
    chains
        .iter()
        .enumerate()
        .map(|(number, chain)| {
            let text: Vec<&str> = chain.problem.split_whitespace().collect();
            let next = problems.len() as u32;
            ScoredChain {
                id: chain.id.clone().unwrap_or_else(|| (number + 1).to_string()),
                problem: *problems.entry(text.join(" ")).or_insert(next),
                labels: rule.labels(chain),
                scores: None,
                lengths: chain
                    .steps
                    .iter()
                    .map(|step| step.text.chars().count() as u32)
                    .collect(),
                level: chain.level.clone(),
                source: chain.source.clone(),
                class: chain.class.clone(),
                generator: chain.policy.as_ref().map(|policy| policy.generator.clone()),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, taken: &[&str]) -> String {
        name(Path::new(path), |name| taken.contains(&name))
    }

    #[test]
    fn names_are_stems_of_files_and_distinct() {
        assert_eq!(named("a/gsm8k.json", &[]), "gsm8k");
        assert_eq!(named("b/gsm8k.jsonl", &["gsm8k", "gsm8k-2"]), "gsm8k-3");
        assert_eq!(named("-", &[]), "data");
    }
}
