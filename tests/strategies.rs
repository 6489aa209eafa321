//! Every strategy by its name on the command line.

use crate::run::Place;

const NAMES: [&str; 14] = [
    "beam",
    "dvts",
    "lookahead",
    "variable-granularity",
    "rebase",
    "particle",
    "mcts",
    "speculative-rejection",
    "refine",
    "best-of-n",
    "majority",
    "weighted",
    "greedy",
    "single",
];

#[test]
fn every_strategy_solves_from_the_command_line() {
    let place = Place::new();
    for name in NAMES {
        let args = [
            "solve",
            "--strategy",
            name,
            "-n",
            "8",
            "--limit",
            "4",
            "--json",
        ];
        let lines = place.run(&args).ok().json();
        assert_eq!(lines.len(), 5, "{name}");
        let answered = lines
            .iter()
            .filter(|line| line["answer"].is_string())
            .count();
        assert!(answered >= 3, "{name}: {answered} of 4");
    }
}

#[test]
fn the_help_names_every_strategy() {
    let help = Place::new().run(&["solve", "--help"]).ok().stdout;
    for name in NAMES {
        assert!(help.contains(&format!("\n  {name} ")), "{name}");
    }
}

#[test]
fn a_withheld_answer_is_said_to_be_withheld() {
    let place = Place::new();
    let args = ["solve", "--limit", "3", "--threshold", "1"];
    let text = place.run(&args).ok().stdout;
    assert_eq!(
        text.matches("withheld, below the threshold").count(),
        3,
        "{text}"
    );
    assert!(text.contains("3 answers below the threshold"), "{text}");
    let args = [&args[..], &["--json"]].concat();
    let lines = place.run(&args).ok().json();
    assert!(lines[0]["answer"].is_null() && lines[0]["withheld"].is_string());
    assert_eq!(lines[3]["summary"]["withheld"], 3);
}
