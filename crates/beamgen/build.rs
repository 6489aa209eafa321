//! Lists the files in `pairs/` for `Pair::all`, so that a new pair needs only a new file.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?)
        .join("pairs")
        .canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            paths.push(path);
        }
    }
    paths.sort_by(|a, b| a.file_stem().cmp(&b.file_stem()));
    let entry = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default();
        format!("({name:?}, include_str!({path:?})),\n")
    };
    let list: String = paths.iter().map(entry).collect();
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs::write(out.join("pairs.rs"), format!("&[\n{list}]\n"))
}
