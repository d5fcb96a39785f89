//! `tripmeter report`: results as one HTML page.

use super::export::names;
use super::show;
use crate::args::ReportArgs;
use crate::error::CliError;
use crate::{output, sample_plots};
use std::path::{Path, PathBuf};
use tripmeter_model::exit;
use tripmeter_model::file::{FileError, write_named, write_whole};
use tripmeter_model::folder::REPORT;
use tripmeter_model::manifest::Manifest;
use tripmeter_report::{NamedResults, PageInput, SampledTrial, page_of, render};

/// Most samples that a run looks through again for its page: they take a part of a second.
const MOST_SAMPLES: u64 = 1_000_000;

/// `tripmeter report`
pub fn report(args: &ReportArgs) -> Result<u8, CliError> {
    let file = match (&args.output, &args.folders[..]) {
        (Some(file), _) => file.clone(),
        (None, [folder]) => folder.join(REPORT),
        (None, folders) => {
            let text = format!("{} folders are given, but no file for their page; name one (-o FILE)", folders.len());
            return Err(CliError::new(exit::USAGE, text));
        }
    };
    let manifests = args.folders.iter().map(|folder| show::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let names = names(&args.folders);
    let results: Vec<_> =
        names.iter().zip(&manifests).map(|(name, manifest)| NamedResults { name, manifest }).collect();
    let samples = args.folders.iter().zip(&manifests).enumerate();
    let samples = samples.map(|(index, (folder, manifest))| sample_plots::first_trials(index, folder, manifest));
    let samples = samples.collect::<Result<Vec<_>, _>>()?.concat();
    write_named(&file, html(&results, &samples).as_bytes())?;
    output::print(&format!("{}\n", file.display()))?;
    Ok(exit::GOOD)
}

/// Writes the page of a run into its results folder, and says where unless `quiet`. Without it the run is as good.
pub fn of_run(manifest: &Manifest, folder: &Path, quiet: bool) {
    match write(manifest, folder) {
        Ok(file) if !quiet => output::say(&format!("report: {}", file.display())),
        Ok(_) => {}
        Err(error) => output::say(&format!("note: no report: {error}")),
    }
}

fn write(manifest: &Manifest, folder: &Path) -> Result<PathBuf, FileError> {
    let (file, name, manifest) = (folder.join(REPORT), crate::database::last_part(folder), show::printable(manifest));
    // They do not fail the run a second time if they cannot be read.
    let samples = match first_samples(&manifest) {
        ..=MOST_SAMPLES => sample_plots::first_trials(0, folder, &manifest).unwrap_or_default(),
        _ => Vec::new(),
    };
    let page = html(&[NamedResults { name: &name, manifest: &manifest }], &samples);
    write_whole(&file, page.as_bytes())?;
    Ok(file)
}

/// How many samples there are of the first payloads.
fn first_samples(manifest: &Manifest) -> u64 {
    manifest.sub_experiments.iter().filter_map(|result| result.cells.first()).map(|cell| cell.samples).sum()
}

fn html(results: &[NamedResults<'_>], samples: &[SampledTrial]) -> String {
    let names: Vec<&str> = results.iter().map(|one| one.name).collect();
    let title = match results {
        // Flags say nothing that a reader knows them by.
        [one] if ["flags", one.name].contains(&one.manifest.plan.source.as_str()) => one.name.to_owned(),
        [one] => format!("{} · {}", one.manifest.plan.source, one.name),
        _ => names.join(" · "),
    };
    render::html(&page_of(&PageInput { results, samples, check: None }), &title)
}
