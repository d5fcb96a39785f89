//! `tripmeter eprosima compare`: compares an experiment with a reference.

use super::folder::ExperimentFolder;
use crate::args::EprosimaCompareArgs;
use crate::database::last_part;
use crate::error::CliError;
use crate::output;
use crate::plotting::{PictureJob, create_folder, draw_all};
use std::path::Path;
use tripmeter_eprosima::comparison::{Compared, by_threshold, comparison_csv};
use tripmeter_eprosima::verdict::Measured;
use tripmeter_model::exit;
use tripmeter_model::file::write_whole;
use tripmeter_model::verdict::FigureVerdict;
use tripmeter_report::document::{Block, Document};
use tripmeter_report::eprosima::{ExperimentComparison, SubExperimentComparison, comparison, side_by_side};
use tripmeter_report::plots::eprosima::{COMPARED, Named, experiment_comparison};

struct Side {
    folder: ExperimentFolder,
    measured: Vec<Measured>,
    /// Name in files and plots.
    name: String,
}

impl Side {
    fn read(path: &Path) -> Result<Self, CliError> {
        let mut folder = ExperimentFolder::open(path)?;
        folder.summarise()?;
        Ok(Self { measured: folder.measured()?, folder, name: last_part(path) })
    }

    fn find(&self, name: &str) -> Option<&Measured> {
        self.measured.iter().find(|one| one.name == name)
    }
}

pub fn compare(args: &EprosimaCompareArgs) -> Result<u8, CliError> {
    let threshold = args.fail_threshold;
    if !(threshold >= 0.0 && threshold.is_finite()) {
        let text = format!("threshold {threshold} must be 0 or more; 0.1 allows an increase of 10 %");
        return Err(CliError::new(exit::USAGE, text));
    }
    let sides = [Side::read(&args.reference)?, Side::read(&args.results)?];
    let made = compared(&sides, args)?;
    let files = match &args.plots_directory {
        Some(folder) => write(&sides, &made, folder, args)?,
        None => Vec::new(),
    };
    if args.print_summaries || args.debug {
        output::print_document(&summaries(&sides, &made))?;
        output::print("\n")?;
    }
    output::print_document(&comparison(&made, threshold, args.debug))?;
    if args.debug {
        files.iter().for_each(|file| output::say(&format!("wrote {file}")));
    }
    Ok(if made.passed() { exit::GOOD } else { exit::FINDING })
}

/// Compares the sub-experiments that both sides have, and names those that only one has.
fn compared(sides: &[Side; 2], args: &EprosimaCompareArgs) -> Result<ExperimentComparison, CliError> {
    let [reference, results] = sides;
    let mut made = ExperimentComparison::default();
    for one in &reference.measured {
        let name = one.name.clone();
        let Some(other) = results.find(&name) else {
            made.missing.push(name);
            continue;
        };
        let compared = by_threshold(&one.summary, &other.summary, args.fail_threshold);
        // Only the reference is checked for unfinished payloads: those that the results lack already fail.
        let of_reference = one.distrust.clone().or_else(|| reference.folder.unfinished(&name));
        let distrust = other.distrust.clone().or_else(|| of_reference.map(|why| format!("in the reference, {why}")));
        made.both.push(SubExperimentComparison { name, compared, distrust });
    }
    let is_new = |one: &&Measured| reference.find(&one.name).is_none();
    made.new = results.measured.iter().filter(is_new).map(|one| one.name.clone()).collect();
    let is_compared = |one: &Compared| one.outcome != FigureVerdict::New;
    if made.both.iter().flat_map(|one| &one.compared).any(is_compared) {
        return Ok(made);
    }
    let (one, other) = (args.reference.display(), args.results.display());
    let file = |name: &str| reference.folder.sources.iter().find(|source| source.name == name)?.file();
    let why = match made.both.first() {
        Some(first) => match file(&first.name) {
            Some(file) => format!("'{}' has no figures", file.display()),
            None => format!("'{one}' has no figures for '{}'", first.name),
        },
        None => format!("'{one}' and '{other}' have no sub-experiment in common"),
    };
    Err(CliError::new(exit::DATA, format!("nothing to compare: {why}")))
}

fn write(
    sides: &[Side; 2],
    made: &ExperimentComparison,
    folder: &Path,
    args: &EprosimaCompareArgs,
) -> Result<Vec<String>, CliError> {
    create_folder(folder)?;
    let options = args.plotting.options();
    let mut files = Vec::new();
    let mut jobs: Vec<PictureJob> = Vec::new();
    for one in &made.both {
        let Some((reference, result)) = sides[0].find(&one.name).zip(sides[1].find(&one.name)) else { continue };
        let labels = [format!("Reference: {}", sides[0].name), format!("Result: {}", sides[1].name)];
        let text = comparison_csv([(&labels[0], &reference.summary), (&labels[1], &result.summary)]);
        let file = folder.join(format!("{}_comparison.csv", one.name));
        write_whole(&file, &text)?;
        files.push(file.display().to_string());
        let named = [
            Named { name: &sides[0].name, summary: &reference.summary },
            Named { name: &sides[1].name, summary: &result.summary },
        ];
        for pair in COMPARED {
            jobs.push(Box::new(move || experiment_comparison(&one.name, pair, named, &options)));
        }
    }
    let pictures = draw_all(folder, jobs)?;
    files.extend(pictures.iter().map(|picture| picture.display().to_string()));
    Ok(files)
}

fn summaries(sides: &[Side; 2], made: &ExperimentComparison) -> Document {
    let tables = made.both.iter().filter_map(|one| {
        let (reference, result) = sides[0].find(&one.name).zip(sides[1].find(&one.name))?;
        let sides = [("reference", &reference.summary), ("result", &result.summary)];
        Some(Block::Table(side_by_side(&one.name, sides)))
    });
    Document { blocks: tables.collect() }
}
