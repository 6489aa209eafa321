//! Tests that `configs/models/abacus.toml` has all settings, with the default values of the code.

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
    // A missing key would get its default in `written`, but is absent from the file's own table.
    let all = toml::Table::try_from(&written).expect("TOML");
    assert_eq!(text.parse::<toml::Table>().expect("TOML"), all);
}
