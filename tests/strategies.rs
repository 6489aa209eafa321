//! Every strategy by its name on the command line.

use beamgen::StrategyKind;
use beamgen::strategy::StrategyName;

use crate::run::{Place, root};

fn names() -> Vec<&'static str> {
    StrategyName::all().map(StrategyName::name).collect()
}

#[test]
fn every_strategy_solves_from_the_command_line() {
    let place = Place::new();
    for named in StrategyName::all() {
        let name = named.name();
        let args = [
            "solve",
            "--strategy",
            name,
            "-n",
            "8",
            "--limit",
            "4",
            "--json",
            "--verbose",
        ];
        let ran = place.run(&args).ok();
        let choosing = format!("; choose {},", named.config().choosing());
        assert!(ran.stderr.contains(&choosing), "{name}: {}", ran.stderr);
        let lines = ran.json();
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
    for name in names() {
        assert!(help.contains(&format!("\n  {name}\n      ")), "{name}");
    }
}

#[test]
fn the_help_and_the_default_file_say_how_each_strategy_chooses() {
    let usual = StrategyName::usual_choices();
    let in_a_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for command in ["solve", "bench", "serve"] {
        let help = Place::new().run(&[command, "--help"]).ok().stdout;
        assert!(
            in_a_line(&help).contains(&format!("[default: {usual}]")),
            "{command}: {usual}"
        );
    }
    let path = root().join("configs/search/default.toml");
    let text = std::fs::read_to_string(path).expect("a file");
    assert!(text.contains(&usual), "default.toml wants: {usual}");
}

#[test]
fn the_default_file_lists_the_strategies() {
    let path = root().join("configs/search/default.toml");
    let text = std::fs::read_to_string(path).expect("a file");
    let kinds: Vec<&str> = StrategyKind::ALL.iter().map(|kind| kind.name()).collect();
    assert!(
        text.contains(&format!("# {}\n", kinds.join(", "))),
        "{kinds:?}"
    );
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
