//! Passes on the versions of the measured crates, from the lock file.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=Cargo.lock");
    let lock = std::env::var("CARGO_MANIFEST_DIR").map(|folder| Path::new(&folder).join("Cargo.lock"));
    let lock = lock.ok().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let version = |name: &str| {
        let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{name}\""));
        let version = lines.nth(1).and_then(|line| line.strip_prefix("version = "));
        version.map_or("unknown", |version| version.trim_matches('"')).to_owned()
    };
    let (tracing, subscriber, appender) =
        (version("tracing"), version("tracing-subscriber"), version("tracing-appender"));
    println!(
        "cargo:rustc-env=TRIPMETER_SYSTEM_VERSION=tracing {tracing}, subscriber {subscriber}, appender {appender}"
    );
}
