//! `tripmeter export`: writes results as tables for other programs, or as plots.

mod exchange;

use super::show;
use crate::ab_json;
use crate::args::{ExchangeFormat, ExportArgs, ExportFormat};
use crate::error::CliError;
use crate::plotting::{PictureJob, draw_all, no_link};
use crate::results::{listed, names, opened};
use crate::{explanation, output, sample_files, sample_plots};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use tripmeter_model::explain::FILE;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::Manifest;
use tripmeter_model::{exit, printable};
use tripmeter_report::document::{Block, Document};
use tripmeter_report::plots::Options;
use tripmeter_report::plots::aimrt::charts;
use tripmeter_report::{NamedResults, PageChecks, PageInput, page_of};

const PLOTS: &str = "plots";

pub fn export(args: &ExportArgs) -> Result<u8, CliError> {
    let takes_verdict = matches!(args.format, ExportFormat::Exchange(ExchangeFormat::Junit | ExchangeFormat::Github));
    if args.verdict.is_some() && !takes_verdict {
        return Err(CliError::new(exit::USAGE, "--verdict is for --format junit or github; leave it out"));
    }
    match args.format {
        ExportFormat::Exchange(format) => exchange::export(args, format),
        ExportFormat::Plots(format) => plots(args, Options { format, log: args.log, ..Options::default() }),
        ExportFormat::Table(_) if args.log => {
            Err(CliError::new(exit::USAGE, "--log is for plots; choose --format png or svg, or leave it out"))
        }
        ExportFormat::Table(format) => {
            let text = show::exported(args, format)?;
            if text.is_empty() {
                let text = format!("nothing of this table was measured in {}", quoted(&args.folders));
                return Err(CliError::new(exit::DATA, text));
            }
            match &args.output {
                Some(file) => output::write_file(file, printable::lines(&text).as_bytes())?,
                None => output::print(&text)?,
            }
            Ok(exit::GOOD)
        }
    }
}

fn plots(args: &ExportArgs, options: Options) -> Result<u8, CliError> {
    if !args.tables.is_empty() {
        return Err(CliError::new(exit::USAGE, "--tables is for csv, json and markdown; leave it out"));
    }
    if args.sorting.sort.is_some() {
        return Err(CliError::new(exit::USAGE, "--sort is for csv, json and markdown; leave it out"));
    }
    let (place, own) = match (&args.output, &args.folders[..]) {
        (Some(place), _) => (place.clone(), None),
        (None, [folder]) => {
            no_link(&folder.join(PLOTS))?;
            (folder.join(PLOTS), Some(opened(folder)?))
        }
        (None, folders) => {
            let text = format!("{} folders are given, but no folder for their plots; name one (-o DIR)", folders.len());
            return Err(CliError::new(exit::USAGE, text));
        }
    };
    let manifests = args.folders.iter().map(|folder| show::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let names = names(&args.folders);
    let results: Vec<_> =
        names.iter().zip(&manifests).map(|(name, manifest)| NamedResults { name, manifest }).collect();
    let samples = args
        .folders
        .iter()
        .zip(&manifests)
        .enumerate()
        .map(|(index, (folder, manifest))| sample_plots::first_trials(index, folder, manifest));
    let samples = samples.collect::<Result<Vec<_>, _>>()?.concat();
    let pairs = args.folders.iter().map(|folder| ab_json::asked(folder)).collect();
    let checks = PageChecks { pairs, ..PageChecks::default() };
    let page = page_of(&PageInput { results: &results, samples: &samples, check: Some(&checks) });
    let mut documents = vec![charts(&results), page];
    for (folder, name) in args.folders.iter().zip(&names).filter(|one| one.0.join(FILE).exists()) {
        let mut parts = tripmeter_report::explain(&explanation::read(folder)?);
        for block in parts.blocks.iter_mut().filter(|_| names.len() > 1) {
            if let Block::Chart(chart) = block {
                chart.name = format!("{}_{name}", chart.name);
            }
        }
        documents.push(parts);
    }
    let place = own.as_ref().map_or(Ok(place), |own| own.at(PLOTS))?;
    let shown = |text: String| own.as_ref().map_or(text.clone(), |own| own.shown(&text));
    let draw_in = || {
        let mut drawn = draw(&documents, &place, options)?;
        for (folder, NamedResults { name, manifest }) in args.folders.iter().zip(&results) {
            let place = if results.len() == 1 { place.clone() } else { place.join(name) };
            drawn.extend(sample_plots::draw(folder, manifest, &place, options)?);
        }
        Ok(drawn)
    };
    let drawn = draw_in().map_err(|error: CliError| CliError::new(error.code, shown(error.to_string())))?;
    if drawn.is_empty() {
        let text = format!("nothing to plot in {}: no figures", quoted(&args.folders));
        return Err(CliError::new(exit::DATA, text));
    }
    sample_files::note_absent(args.folders.iter().zip(&manifests));
    output::print(&shown(drawn.iter().map(|path| format!("{}\n", path.display())).collect()))?;
    Ok(exit::GOOD)
}

/// Plots a run into its results folder, and prints where, unless `quiet` or nothing was plotted.
pub fn plots_of_run(manifest: &Manifest, folder: &FolderHandle, quiet: bool) -> Result<(), CliError> {
    let place = folder.at(PLOTS)?;
    let drawn = draw(&[charts(&[NamedResults { name: "", manifest }])], &place, Options::default());
    let drawn = drawn.map_err(|error| CliError::new(error.code, folder.shown(&error.to_string())))?;
    if !drawn.is_empty() && !quiet {
        output::say(&format!("plots in '{}'", folder.path().join(PLOTS).display()));
    }
    Ok(())
}

/// Plots the charts of the documents, and returns the files. If several charts have one name, only the first is
/// plotted.
fn draw(documents: &[Document], place: &Path, options: Options) -> Result<Vec<PathBuf>, CliError> {
    let mut names = HashSet::new();
    let all = documents.iter().flat_map(Document::charts).filter(|chart| names.insert(chart.name.as_str()));
    let jobs = all.map(|chart| -> PictureJob<'_> { Box::new(move || chart.picture(&options)) });
    draw_all(place, jobs.collect())
}

fn quoted(folders: &[PathBuf]) -> String {
    listed(&folders.iter().map(|folder| format!("'{}'", folder.display())).collect::<Vec<_>>())
}
