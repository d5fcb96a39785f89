//! Embeds every sidecar and preset, so that adding one touches no other file, and lists the systems for the conformance
//! suite.
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..").canonicalize()?;
    let mut code = String::new();
    let sidecars = sorted(&root.join("transports"))?.into_iter().map(|folder| folder.join("transport.toml"));
    embed(&mut code, "SIDECARS", sidecars.filter(|file| file.is_file()));
    let presets = sorted(&root.join("presets"))?.into_iter();
    embed(&mut code, "PRESETS", presets.filter(|file| file.extension().is_some_and(|ending| ending == "toml")));
    let out = env::var("OUT_DIR").expect("cargo sets it");
    // Symbols of the program that libraries must find: see `os/for_this_user.rs` of the engine.
    for symbol in ["umask", "fchmod"] {
        println!("cargo::rustc-link-arg-bins=-Wl,--undefined={symbol},--export-dynamic-symbol={symbol}");
    }
    fs::write(Path::new(&out).join("systems.rs"), systems(&sorted(&root.join("transports"))?))?;
    fs::write(Path::new(&out).join("embedded.rs"), code)
}

/// Call of the conformance suite's macro `systems!`, with a test name and the name of each system.
fn systems(folders: &[PathBuf]) -> String {
    let mut list = String::new();
    for folder in folders.iter().filter(|folder| folder.join("transport.toml").is_file()) {
        let system = folder.file_name().unwrap_or_default().to_string_lossy();
        writeln!(list, "    {} {system:?}", system.replace('-', "_")).expect("a String takes it");
    }
    format!("systems! {{\n{list}}}\n")
}

/// Sorted contents of a folder; a change in it runs this script again.
fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Declares a list of pairs: file stem and text.
fn embed(code: &mut String, name: &str, files: impl Iterator<Item = PathBuf>) {
    let mut list = String::new();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        writeln!(list, "    ({stem:?}, include_str!({:?})),", file.display().to_string()).expect("a String takes it");
    }
    writeln!(code, "const {name}: &[(&str, &str)] = &[\n{list}];").expect("a String takes it");
}
