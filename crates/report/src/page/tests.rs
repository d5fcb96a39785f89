use super::*;
use crate::plots::Options;
use crate::render::Text;
use std::path::{Path, PathBuf};
use tripmeter_model::manifest::Manifest;

fn read(folder: &Path) -> Manifest {
    tripmeter_model::folder::read(folder, |text| text.into()).unwrap()
}

fn kept(name: &str) -> Manifest {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results").join(name))
}

fn readings(document: &Document) -> Vec<String> {
    document.charts().map(|chart| format!("{} | {} | {}", chart.name, chart.title, chart.reading)).collect()
}

/// Leaves pages to be looked at: `TRIPMETER_PAGES=FROM:TO cargo test -p tripmeter-report pages_of_folders -- --ignored`.
#[test]
#[ignore = "draws what is asked for"]
fn pages_of_folders() {
    let Ok(asked) = std::env::var("TRIPMETER_PAGES") else { return };
    let paths: Vec<PathBuf> = asked.split(':').map(PathBuf::from).collect();
    let (to, from) = paths.split_last().unwrap();
    let manifests: Vec<Manifest> = from.iter().map(|folder| read(folder)).collect();
    let names: Vec<String> = from.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    let results: Vec<NamedResults<'_>> =
        names.iter().zip(&manifests).map(|(name, manifest)| NamedResults { name, manifest }).collect();
    let document = page(&results);
    std::fs::create_dir_all(to).unwrap();
    std::fs::write(to.join("page.txt"), Text { is_unwrapped: true, ..Text::default() }.render(&document)).unwrap();
    std::fs::write(to.join("readings.txt"), readings(&document).join("\n")).unwrap();
    for chart in document.charts() {
        let picture = chart.picture(&Options { width: 1000, height: 600, ..Options::default() }).unwrap();
        std::fs::write(to.join(&picture.path), &picture.bytes).unwrap();
    }
}
