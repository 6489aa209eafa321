//! Compiles the emulated driver and all kernels to `libcuda.so`, where there is a C++ compiler.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=../../kernels");
    println!("cargo:rerun-if-env-changed=CXX");
    let library = match compile() {
        Ok(library) => library
            .into_os_string()
            .into_string()
            .expect("a path in UTF-8"),
        Err(reason) => {
            println!("cargo:warning=no emulated CUDA device: {reason}");
            String::new()
        }
    };
    println!("cargo:rustc-env=EMULATED_CUDA_LIBRARY={library}");
}

/// Returns the library's path, or the reason why the library was not built.
///
/// # Panics
/// If there is a compiler that does not accept the sources.
fn compile() -> Result<PathBuf, String> {
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux")
        || env::var("HOST") != env::var("TARGET")
    {
        return Err("it needs Linux".to_owned());
    }
    let compiler = env::var_os("CXX").unwrap_or_else(|| "g++".into());
    let sources = [
        "block", "driver", "fault", "kernels", "memory", "module", "stream",
    ];
    let sources = sources.map(|name| format!("src/{name}.cpp"));
    // The directory is its own, so that it can be put on LD_LIBRARY_PATH.
    let library = Path::new(&env::var_os("OUT_DIR").expect("set by cargo")).join("libcuda.so");
    let mut command = Command::new(&compiler);
    command.args([
        "-std=c++17",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-fno-strict-aliasing",
    ]);
    command.args([
        "-DKERNEL_CPU_SHIM",
        "-Isrc",
        "-I../../kernels",
        "-Wl,-soname,libcuda.so",
    ]);
    command.args(["-Wall", "-Wextra", "-Wno-unknown-pragmas"]);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
    {
        command.arg("-march=x86-64-v3");
    }
    command.args(sources).arg("-o").arg(&library);
    match command.status() {
        Ok(status) => {
            assert!(
                status.success(),
                "{} does not compile the kernels",
                compiler.to_string_lossy()
            );
            Ok(library)
        }
        Err(error) => Err(format!("{}: {error}", compiler.to_string_lossy())),
    }
}
