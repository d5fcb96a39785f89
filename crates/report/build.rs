//! Compresses the large files that are embedded in the program.
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    for file in ["assets/echarts.js", "fonts/OpenSans-Regular.ttf"] {
        println!("cargo::rerun-if-changed={file}");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(file)?)?;
        let name = Path::new(file).file_name().expect("each is a file");
        fs::write(Path::new(&out).join(format!("{}.gz", name.display())), encoder.finish()?)?;
    }
    Ok(())
}
