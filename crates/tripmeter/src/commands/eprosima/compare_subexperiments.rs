//! `tripmeter eprosima compare-subexperiments`: plots sub-experiments side by side.

use crate::args::CompareSubexperimentsArgs;
use crate::error::CliError;
use crate::output;
use crate::plotting::{PictureJob, draw_all};
use std::path::{Path, PathBuf};
use tripmeter_eprosima::summary::{Magnitude, Summary, sub_experiment};
use tripmeter_model::exit;
use tripmeter_report::plots::eprosima::{Named, subexperiment_comparison};

pub fn compare_subexperiments(args: &CompareSubexperimentsArgs) -> Result<u8, CliError> {
    let files = &args.subexperiment_summaries;
    let summaries: Vec<Summary> = files.iter().map(|file| Summary::read(file)).collect::<Result<_, _>>()?;
    for (file, _) in files.iter().zip(&summaries).filter(|(_, summary)| summary.rows.is_empty()) {
        output::say(&format!("tripmeter: '{}' has no rows and is not plotted", file.display()));
    }
    let names = names(files);
    let named = names.iter().zip(&summaries).filter(|(_, summary)| !summary.rows.is_empty());
    let named: Vec<Named<'_>> = named.map(|(name, summary)| Named { name, summary }).collect();
    if named.is_empty() {
        return Err(CliError::new(exit::DATA, "nothing to plot: no summary has a row"));
    }
    let (named, options) = (&named, args.plotting.options());
    let jobs = Magnitude::ALL
        .map(|magnitude| -> PictureJob<'_> { Box::new(move || subexperiment_comparison(magnitude, named, &options)) });
    for path in draw_all(&args.plots_directory, jobs.into())? {
        output::print(&format!("{}\n", path.display()))?;
    }
    Ok(exit::GOOD)
}

/// Names of the sub-experiments; equal names are preceded by their folder.
fn names(files: &[PathBuf]) -> Vec<String> {
    let short: Vec<String> = files.iter().map(|file| short_name(file)).collect();
    let twice = |name: &String| short.iter().filter(|other| *other == name).count() > 1;
    let name = |(file, name): (&PathBuf, &String)| match file.parent() {
        Some(folder) if twice(name) && !folder.as_os_str().is_empty() => format!("{}/{name}", folder.display()),
        _ => name.clone(),
    };
    files.iter().zip(&short).map(name).collect()
}

fn short_name(file: &Path) -> String {
    let stem = || file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    sub_experiment(file).map_or_else(stem, str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_by_their_folders() {
        let files = ["a/measurements_uds_summary.csv", "b/measurements_uds_summary.csv", "own.csv"].map(PathBuf::from);
        assert_eq!(names(&files), ["a/uds", "b/uds", "own"]);
    }
}
