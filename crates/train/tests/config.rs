//! The configuration that is shipped is the one in the code.

use beamgen_train::abacus::config::TrainConfig;

#[test]
fn the_bundled_models_config_is_the_default_and_names_every_key() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../configs/models/abacus.toml"
    );
    let text = std::fs::read_to_string(path).expect("a file");
    let written: TrainConfig = toml::from_str(&text).expect("it loads");
    assert_eq!(written, TrainConfig::default());
    // A key that is left out would have its default, but is not in the table.
    let all = toml::Table::try_from(&written).expect("TOML");
    assert_eq!(text.parse::<toml::Table>().expect("TOML"), all);
}
