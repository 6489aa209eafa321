//! The bundled pair with other JSON files.

use std::fs;
use std::path::Path;

use beamgen::Config;
use serde_json::Value;

/// Writes the bundled pair below a folder, after a change of the JSON files of a model ("generator" or "prm").
pub(crate) fn changed_pair(folder: &Path, change: impl Fn(&str, &str, &mut Value)) -> Config {
    for (model, file, bytes) in beamgen::bundled::files() {
        let to = folder.join(model);
        fs::create_dir_all(&to).unwrap();
        let mut bytes = bytes.to_vec();
        if file.ends_with(".json") {
            let mut content: Value = serde_json::from_slice(&bytes).unwrap();
            change(model, file, &mut content);
            bytes = content.to_string().into_bytes();
        }
        fs::write(to.join(file), bytes).unwrap();
    }
    let mut config = Config::default();
    config.models.generator = Some(folder.join("generator"));
    config.models.prm = Some(folder.join("prm"));
    config
}
