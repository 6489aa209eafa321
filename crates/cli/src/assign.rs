//! The flag `--set KEY=VALUE`, which sets any key of the settings.

use beamgen::program::set_key;
use beamgen::{Config, Error};
use toml::{Table, Value};

use crate::failure::{Failure, refuse};

/// Returns a copy of the settings in which `KEY=VALUE` is applied.
pub(crate) fn set(config: &Config, assignment: &str) -> Result<Config, Failure> {
    let Some((key, value)) = assignment.split_once('=') else {
        return refuse(format!(
            "--set {assignment}: write KEY=VALUE, e.g. search.lookahead.steps=2"
        ));
    };
    set_key(config, key, parsed(value.trim())).map_err(|error| match error {
        Error::Key { reason, .. } => Failure::Input(format!("--set {assignment}: {reason}")),
        error => error.into(),
    })
}

/// Parses a value as TOML. Any other text is a string, so quotes can be left out.
pub(crate) fn parsed(value: &str) -> Value {
    let table = format!("value = {value}").parse::<Table>().ok();
    // A value with a line break could add further keys, so such a value is a string, too.
    let only = table.filter(|table| table.len() == 1);
    only.and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| value.into())
}

#[cfg(test)]
mod tests {
    use beamgen::strategy::Balance;

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
        assert_eq!(config.search.mcts.exploration, 2.0);
        assert_eq!(config.search.rebase.balance, Balance::Paper);
        assert_eq!(config.search.aggregation.to_string(), "soft-min:0.2");
        assert!(config.search.speculate);
        assert_eq!(config.models.prm, Some("some/folder".into()));
        assert_eq!(config.generator.answer_markers, ["so", "="]);
    }

    #[test]
    fn mistakes_are_one_line_with_the_key() {
        for (assignment, word) in [
            ("search.width=3", "no key `search.width`"),
            ("search.stategy=dvts", "nearest is `search.strategy`"),
            ("serch.n=3", "nearest is `search`"),
            (
                "search.mcts.explore=3",
                "nearest is `search.mcts.exploration`",
            ),
            ("search.mcts.c=3", "there are simulations, exploration"),
            (
                "search={stategy=1}",
                "no key `stategy`; the nearest is `strategy`",
            ),
            ("search.n=1.5", "a whole number"),
            ("search.speculate=1", "true or false"),
            ("a.b.c.d.e.f.g.h.i=1", "8 parts"),
            ("search.n=many", "many"),
            ("search.n=-1", "-1"),
            ("search.n.m=1", "\"n\""),
            ("search=1", "1"),
            ("=1", "no key ``"),
            ("search.n", "e.g."),
        ] {
            let line = refusal(assignment);
            assert!(line.contains(assignment) && line.contains(word), "{line}");
            assert!(!line.contains('\n'), "{line}");
        }
        assert!(refusal(&format!("{}=1", "a.".repeat(60_000))).contains("8 parts"));
    }
}
