//! `--set KEY=VALUE`: any key of the configuration.

use beamgen::Config;
use toml::{Table, Value};

use crate::failure::Failure;

/// The configuration with one key set. The value is TOML or, if it is none, a string as it stands.
pub fn set(config: &Config, assignment: &str) -> Result<Config, Failure> {
    let Some((key, value)) = assignment.split_once('=') else {
        return Err(Failure::Input(format!(
            "--set {assignment}: a key and a value are wanted, e.g. search.lookahead.steps=2"
        )));
    };
    let refused = |reason: &str| {
        let reason = reason.trim().replace('\n', " ");
        Failure::Input(format!("--set {assignment}: {reason}"))
    };
    let mut root = Table::try_from(config).map_err(|error| refused(&error.to_string()))?;
    let mut at = &mut root;
    let mut names = key.trim().split('.').peekable();
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            at.insert(name.to_owned(), parsed(value.trim()));
            break;
        }
        let inner = at.entry(name).or_insert_with(|| Table::new().into());
        at = match inner {
            Value::Table(table) => table,
            _ => return Err(refused(&format!("{name:?} has no keys below it"))),
        };
    }
    root.try_into()
        .map_err(|error: toml::de::Error| refused(error.message()))
}

fn parsed(value: &str) -> Value {
    let table = format!("value = {value}").parse::<Table>().ok();
    let only = table.filter(|table| table.len() == 1);
    only.and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| value.into())
}

#[cfg(test)]
mod tests {
    use beamgen::{Balance, MctsConfig, RebaseConfig};

    use super::*;

    fn refusal(assignment: &str) -> String {
        match set(&Config::default(), assignment) {
            Err(Failure::Input(line)) => line,
            other => panic!("{assignment}: {other:?}"),
        }
    }

    #[test]
    fn keys_at_any_depth_and_values_of_any_kind() {
        let mut config = Config::default();
        for assignment in [
            "search.n=32",
            "search.mcts.exploration = 2",
            "search.rebase.balance=paper",
            "search.aggregation=\"soft-min:0.2\"",
            "search.speculate=true",
            "models.prm=some/folder",
            "generator.answer_markers=[\"so\", \"=\"]",
        ] {
            config = set(&config, assignment).expect(assignment);
        }
        assert_eq!(config.search.n, 32);
        assert_eq!(config.search.keys.get::<MctsConfig>().exploration, 2.0);
        assert_eq!(
            config.search.keys.get::<RebaseConfig>().balance,
            Balance::Paper
        );
        assert_eq!(config.search.aggregation.to_string(), "soft-min:0.2");
        assert!(config.search.speculate);
        assert_eq!(config.models.prm, Some("some/folder".into()));
        assert_eq!(config.generator.answer_markers, ["so", "="]);
    }

    #[test]
    fn mistakes_are_one_line_with_the_key() {
        for (assignment, word) in [
            ("search.width=3", "`width`"),
            ("serch.n=3", "`serch`"),
            ("search.mcts.c=3", "`c`"),
            ("search.n=many", "many"),
            ("search.n=-1", "-1"),
            ("search.n.m=1", "\"n\""),
            ("search=1", "1"),
            ("=1", "``"),
            ("search.n", "e.g."),
        ] {
            let line = refusal(assignment);
            assert!(line.contains(assignment) && line.contains(word), "{line}");
            assert!(!line.contains('\n'), "{line}");
        }
    }
}
