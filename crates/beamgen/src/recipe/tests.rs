use beamgen_search::StrategyKind;

use super::*;

fn recipe(text: &str) -> Recipe {
    Recipe::parse(text, Path::new("r.yaml")).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    let error = Recipe::parse(text, Path::new("r.yaml")).unwrap_err();
    error.to_string()
}

/// The recipes of the repository, in their form: comments after values, no line break at the end.
#[test]
fn recipes_become_settings() {
    let beam = recipe(
        "# refer to src/sal/config.py for more options\n\nmodel_path: org/generator\nprm_path: Qwen/Qwen2.5-Math-PRM-7B\n\
         custom_chat_template: null\nfilter_duplicates: true\napproach: beam_search\nn: 4\n\
         search_batch_size: 1  # DO NOT CHANGE!\nnum_samples: 10       # REMOVE THIS LINE\nseed: 0",
    );
    let config = beam.config(None, None).unwrap();
    assert_eq!(config.models.generator, Some("org/generator".into()));
    assert_eq!(config.models.prm, Some("Qwen/Qwen2.5-Math-PRM-7B".into()));
    let search = &config.search;
    assert_eq!(
        (search.strategy, search.n, search.m),
        (StrategyKind::BEAM, 4, 4)
    );
    let copies = search.beam.as_ref().map(|beam| beam.copies.to_string());
    assert_eq!(copies.as_deref(), Some("distinct"));
    assert_eq!(search.aggregation.to_string(), "last");
    assert_eq!(config.generator.seed, 0);
    assert_eq!(config.generator.boundaries, ["\n\n"]);
    assert_eq!(config.generator.sampling.temperature, Some(0.8));
    assert_eq!((beam.data.start, beam.data.end), (0, Some(10)));
    assert_eq!(beam.data.name, "HuggingFaceH4/MATH-500");
    assert_eq!(beam.data.split.as_deref(), Some("test"));
    assert_eq!(
        beam.notes,
        [
            "search_batch_size changes nothing: problems are solved together in any number (`--in-flight`)"
        ]
    );
}

#[test]
fn defaults_are_those_of_their_config() {
    let empty = recipe("seed: 7\n");
    let config = empty.config(None, None).unwrap();
    let search = &config.search;
    assert_eq!(
        (search.strategy, search.n, search.m),
        (StrategyKind::BEST_OF_N, 4, 4)
    );
    assert_eq!(search.max_steps, 40);
    assert_eq!(config.generator.max_chain_tokens, 2048);
    assert_eq!(config.generator.sampling.top_p, Some(1.0));
    let generator = config.models.generator.unwrap();
    assert_eq!(generator.to_str(), Some("meta-llama/Llama-3.2-1B-Instruct"));
    let none = recipe(
        "dataset_name: org/set\napproach: dvts\nagg_strategy: prod\ndataset_start: 3\ndataset_end: 9\nnum_samples: 2\n",
    );
    assert_eq!(
        (none.data.split, none.data.start, none.data.end),
        (None, 3, Some(5))
    );
    let config = none_config("approach: dvts\nagg_strategy: prod\nfilter_duplicates: true");
    assert_eq!(config.search.strategy, StrategyKind::DVTS);
    assert_eq!(config.search.aggregation.to_string(), "product");
    assert_eq!(config.search.beam, None);
    assert_eq!(config.generator.seed, 42);
    let ahead = none_config("approach: beam_search\nlookahead: 2");
    assert_eq!(
        (ahead.search.strategy, ahead.search.lookahead.steps),
        (StrategyKind::LOOKAHEAD, 2)
    );
}

fn none_config(text: &str) -> Config {
    recipe(text).config(None, None).unwrap()
}

#[test]
fn faults_name_file_line_and_key() {
    for (text, wanted) in [
        ("n: 4\nbeam: 3\n", "r.yaml:2: beam: unknown key of a recipe"),
        (
            "approach: mcts\n",
            "r.yaml:1: approach: no mcts: use best_of_n, beam_search or dvts",
        ),
        ("n: 4\nn: 8\n", "r.yaml:2: n: given twice"),
        ("n: [4, 8]\n", "r.yaml:1: n: write `key: value` lines"),
        (
            "n: &a 4\nseed: *a\n",
            "r.yaml:2: seed: write `key: value` lines",
        ),
        ("- n\n", "r.yaml:1: a recipe: write"),
        ("just text\n", "r.yaml:1: just text: write"),
        ("n: 4\n  seed: 1\n", "r.yaml:2: not YAML"),
        (
            "approach: dvts\nlookahead: 1\n",
            "r.yaml:2: lookahead: dvts here has none",
        ),
        (
            "dataset_end: -1\n",
            "r.yaml:1: dataset_end: write a number from 0",
        ),
        ("agg_strategy: mean\n", "r.yaml:1: agg_strategy: no mean"),
        (
            "filter_duplicates: 1\napproach: beam_search\n",
            "r.yaml:1: filter_duplicates: write true or false",
        ),
    ] {
        let message = refused(text);
        assert!(message.starts_with(wanted), "{message}");
    }
    let error = recipe("n: four\n")
        .config(None, None)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("r.yaml") && error.contains('n'),
        "{error}"
    );
}
