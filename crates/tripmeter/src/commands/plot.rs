//! `tripmeter plot`: the plots that AimRT publishes, and those of samples, of results folders.

use super::table;
use crate::args::plotting::PlotArgs;
use crate::database::last_part;
use crate::error::CliError;
use crate::plotting::{PictureJob, draw_all, no_link};
use crate::{output, sample_plots};
use std::path::{Path, PathBuf};
use tripmeter_model::exit;
use tripmeter_model::manifest::Manifest;
use tripmeter_report::plots::Options;
use tripmeter_report::plots::aimrt::{NamedResults, drawings};

/// Where plots go in a results folder.
const PLOTS: &str = "plots";

/// `tripmeter plot`
pub fn plot(args: &PlotArgs) -> Result<u8, CliError> {
    let place = match (&args.plots_directory, &args.folders[..]) {
        (Some(place), _) => place.clone(),
        (None, [folder]) => {
            no_link(&folder.join(PLOTS))?;
            folder.join(PLOTS)
        }
        (None, folders) => {
            let text = format!("{} folders are given, but no place for their plots; name one (-p DIR)", folders.len());
            return Err(CliError::new(exit::USAGE, text));
        }
    };
    let manifests = args.folders.iter().map(|folder| table::read(folder)).collect::<Result<Vec<_>, _>>()?;
    let names = names(&args.folders);
    let results: Vec<_> =
        names.iter().zip(&manifests).map(|(name, manifest)| NamedResults { name, manifest }).collect();
    let mut drawn = draw(&results, &place, args.plotting.options())?;
    for (folder, NamedResults { name, manifest }) in args.folders.iter().zip(&results) {
        let place = if results.len() == 1 { place.clone() } else { place.join(name) };
        drawn.extend(sample_plots::draw(folder, manifest, &place, args.plotting.options())?);
    }
    if drawn.is_empty() {
        let text = format!(
            "nothing to plot: {} no samples of round trips or calls of a logger, and no results of patterns channel, rpc or \
             log at two payloads, or with two numbers of topics or clients",
            if names.len() == 1 {
                format!("'{}' has", args.folders[0].display())
            } else {
                "the folders have".to_owned()
            }
        );
        return Err(CliError::new(exit::DATA, text));
    }
    output::print(&drawn.iter().map(|path| format!("{}\n", path.display())).collect::<String>())?;
    Ok(exit::GOOD)
}

/// Draws what was measured into its results folder; says where, unless `quiet` or if there is nothing to draw.
pub fn of_run(manifest: &Manifest, folder: &Path, quiet: bool) -> Result<(), CliError> {
    let place = folder.join(PLOTS);
    no_link(&place)?;
    let drawn = draw(&[NamedResults { name: "", manifest }], &place, Options::default())?;
    if !drawn.is_empty() && !quiet {
        output::say(&format!("plots in '{}'", place.display()));
    }
    Ok(())
}

/// Draws everything there is; returns the files.
fn draw(results: &[NamedResults<'_>], place: &Path, options: Options) -> Result<Vec<PathBuf>, CliError> {
    let drawings = drawings(results, &options);
    let jobs = drawings.iter().map(|drawing| -> PictureJob<'_> { Box::new(move || drawing.draw(&options)) });
    draw_all(place, jobs.collect())
}

/// The names of the folders; where two are the same, with the folders that they are in.
fn names(folders: &[PathBuf]) -> Vec<String> {
    let short: Vec<String> = folders.iter().map(|folder| last_part(folder)).collect();
    let is_twice = |name: &String| short.iter().filter(|other| *other == name).count() > 1;
    let name = |(folder, name): (&PathBuf, &String)| {
        if is_twice(name) { folder.display().to_string() } else { name.clone() }
    };
    folders.iter().zip(&short).map(name).collect()
}
