//! The configuration that is shipped is the one in the code.

use beamgen_train::abacus::config::TrainConfig;

fn keys(prefix: &str, table: &toml::Table) -> Vec<String> {
    let mut names = Vec::new();
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            toml::Value::Table(inner) => names.extend(keys(&format!("{name}."), inner)),
            _ => names.push(name),
        }
    }
    names.sort();
    names
}

#[test]
fn the_bundled_models_config_is_the_default_and_names_every_key() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../configs/models/abacus.toml"
    );
    let text = std::fs::read_to_string(path).expect("a file");
    let written: TrainConfig = toml::from_str(&text).expect("it loads");
    assert_eq!(written, TrainConfig::default());
    let all = toml::Table::try_from(&written).expect("TOML");
    assert_eq!(keys("", &text.parse().expect("TOML")), keys("", &all));
}
