//! Large files that are embedded compressed (`build.rs`).

use flate2::bufread::GzDecoder;
use std::io::Read;
use std::sync::LazyLock;

/// Parts of ECharts that the charts use.
pub static ECHARTS: LazyLock<String> = LazyLock::new(|| {
    let bytes = inflated(include_bytes!(concat!(env!("OUT_DIR"), "/echarts.js.gz")));
    String::from_utf8(bytes).expect("the script is text")
});

pub static FONT: LazyLock<Vec<u8>> =
    LazyLock::new(|| inflated(include_bytes!(concat!(env!("OUT_DIR"), "/OpenSans-Regular.ttf.gz"))));

fn inflated(file: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).expect("the build script made the file whole");
    bytes
}
