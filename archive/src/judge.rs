//! `tripmeter-archive history` and `limits`: the verdicts of `tripmeter history` and `limits`, from the tables of runs and
//! metrics.

use crate::error::{ArchiveError, Result};
use crate::output::{note, print, print_line};
use crate::results::{MetricRow, put};
use crate::store::Archive;
use crate::tables::{self, ResourceArgs, literal};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use std::collections::HashMap;
use std::path::PathBuf;
use tripmeter_analysis::flags::{ChangeArgs, FiguresArgs};
use tripmeter_analysis::history::History;
use tripmeter_analysis::limits::{DerivedLimits, LimitRun, refuse_other_workloads};
use tripmeter_analysis::{JudgedResults, MetricTable, Selection};
use tripmeter_model::exit;
use tripmeter_model::file::write_named;
use tripmeter_model::metric::Interval;
use tripmeter_report::document::Document;
use tripmeter_report::render::Text;

/// Arguments that select the results to judge.
#[derive(Debug, clap::Args)]
pub struct JudgedArgs {
    /// The archive: a folder or s3://BUCKET/PREFIX
    #[arg(value_name = "DEST")]
    pub dest: String,
    /// Machine whose results are used; required if the archive has several
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    #[command(flatten)]
    pub figures: FiguresArgs,
    /// Use results with damaged messages too
    #[arg(long)]
    pub allow_damage: bool,
    #[command(flatten)]
    pub resources: ResourceArgs,
}

/// Arguments of `history`.
#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub judged: JudgedArgs,
    #[command(flatten)]
    pub changes: ChangeArgs,
}

/// Arguments of `limits`.
#[derive(Debug, clap::Args)]
pub struct LimitsArgs {
    #[command(flatten)]
    pub judged: JudgedArgs,
    /// File for the limits; an existing one is replaced
    #[arg(short, long, value_name = "FILE", default_value = "limits.csv")]
    pub output: PathBuf,
    /// Percentile of the runs, 0 to 100
    #[arg(long, value_name = "P", default_value_t = 99.0, allow_negative_numbers = true)]
    pub percentile: f64,
}

/// Prints steps and slow drifts; returns the exit code.
///
/// # Errors
/// If the archive cannot be read, or a mark names no experiment in it.
pub async fn history(args: &HistoryArgs) -> Result<u8> {
    let (all, selection) = judged(&args.judged).await?;
    let mut history = History::default();
    all.iter().for_each(|(name, results)| history.add(name, results, &selection));
    if history.series.is_empty() {
        return Err(ArchiveError::new(exit::DATA, format!("'{}' has no figures", args.judged.dest)));
    }
    let [steps, drifts] = args.changes.marks(&history).map_err(|why| ArchiveError::new(exit::USAGE, why))?;
    let options = args.changes.options();
    let found = history.changes(&steps, &drifts, &options);
    let (found, series) = found.map_err(|why| ArchiveError::new(exit::DATA, why))?;
    print(&text_of(&tripmeter_report::changes(&found, series, &history.reach(&steps, &options))))?;
    let environment = history.changes_of_machine().into_iter().chain(history.changes_of_plans());
    for line in history.gaps().into_iter().chain(environment) {
        print_line(&line)?;
    }
    let is_changed = found.iter().any(|change| change.is_new());
    Ok(if args.changes.fail_on_change && is_changed { exit::FINDING } else { exit::GOOD })
}

/// Writes and prints limits.
///
/// # Errors
/// If the archive cannot be read, or its runs have no limits in common.
pub async fn limits(args: &LimitsArgs) -> Result<u8> {
    if !(0.0..=100.0).contains(&args.percentile) {
        let text = format!("percentile {} is not between 0 and 100", args.percentile);
        return Err(ArchiveError::new(exit::USAGE, text));
    }
    let (all, selection) = judged(&args.judged).await?;
    let wrong = |why: String| ArchiveError::new(exit::DATA, why);
    if let Some((first, known)) = all.first() {
        for (name, results) in &all {
            refuse_other_workloads([(first.as_str(), known), (name.as_str(), results)]).map_err(wrong)?;
        }
    }
    let runs: Vec<LimitRun> =
        all.iter().flat_map(|(name, results)| LimitRun::from_results(name, results, &selection)).collect();
    let derived = DerivedLimits::from_runs(&runs, args.percentile / 100.0).map_err(wrong)?;
    if derived.limits.rows.is_empty() {
        return Err(wrong(format!("no figures in any of {} runs", runs.len())));
    }
    for gap in &derived.gaps {
        note(&format!("'{}' is missing in {} of {} runs", gap.what, gap.missing_in.len(), runs.len()));
    }
    write_named(&args.output, &derived.limits.to_csv())?;
    print(&text_of(&tripmeter_report::limits(&derived.limits)))?;
    print(&format!("\nwrote '{}': percentile {} over {} runs\n", args.output.display(), args.percentile, runs.len()))?;
    Ok(exit::GOOD)
}

fn text_of(document: &Document) -> String {
    Text { has_intervals: true, has_help: true, ..Text::default() }.render(document)
}

/// Results of one machine with their folder names, oldest first; and the selection.
async fn judged(args: &JudgedArgs) -> Result<(Vec<(String, JudgedResults)>, Selection)> {
    let archive = Archive::open(&args.dest).await?;
    let context = tables::local(&args.resources)?;
    tables::register(&context, &archive).await?;
    let machine = machine(&context, args).await?;
    let mut all = runs(&context, &machine).await?;
    add_metrics(&context, &machine, &mut all).await?;
    let judged = all.into_iter().map(|run| {
        let mut manifest = run.manifest;
        for cell in manifest.sub_experiments.iter_mut().flat_map(|result| &mut result.cells) {
            cell.trials.sort_by_key(|trial| trial.number);
        }
        (run.folder, JudgedResults { manifest, allows_damage: args.allow_damage })
    });
    let judged: Vec<(String, JudgedResults)> = judged.collect();
    for (name, results) in &judged {
        results.reservations(name).iter().for_each(|line| note(line));
    }
    let tables: Vec<MetricTable> = judged.iter().map(|(_, results)| results.table()).collect();
    let selection = Selection::named(&args.figures.figures, &tables.iter().collect::<Vec<_>>());
    let selection = selection.map_err(|why| ArchiveError::new(exit::USAGE, format!("{why} (--figures)")))?;
    Ok((judged, selection))
}

/// Machine named by `--machine`, or else the only one in the archive.
async fn machine(context: &SessionContext, args: &JudgedArgs) -> Result<String> {
    let mut names = Vec::new();
    each(context, "SELECT DISTINCT machine FROM runs ORDER BY machine", |batch| {
        names.extend((0..batch.num_rows()).map(|row| text(batch, 0, row)));
        Ok(())
    })
    .await?;
    let told = || names.join(", ");
    match (&args.machine, names.as_slice()) {
        (_, []) => Err(ArchiveError::new(exit::DATA, format!("'{}' has no runs; push results first", args.dest))),
        (Some(name), names) if names.contains(name) => Ok(name.clone()),
        (Some(name), _) => {
            let text = format!("there is no machine '{name}' in '{}'; it has {}", args.dest, told());
            Err(ArchiveError::new(exit::USAGE, text))
        }
        (None, [only]) => Ok(only.clone()),
        (None, _) => {
            let text = format!(
                "'{}' has several machines, and machines are not compared: name one of {} (--machine)",
                args.dest,
                told()
            );
            Err(ArchiveError::new(exit::USAGE, text))
        }
    }
}

struct Run {
    run: String,
    folder: String,
    manifest: tripmeter_model::manifest::Manifest,
}

async fn runs(context: &SessionContext, machine: &str) -> Result<Vec<Run>> {
    let mut all = Vec::new();
    let sql = format!(
        "SELECT run, folder, manifest FROM runs WHERE machine = {} ORDER BY started, folder, run",
        literal(machine)
    );
    each(context, &sql, |batch| {
        for row in 0..batch.num_rows() {
            let (run, folder) = (text(batch, 0, row), text(batch, 1, row));
            let manifest = serde_json::from_str(&text(batch, 2, row)).map_err(|error| {
                ArchiveError::new(exit::DATA, format!("the manifest of run {run} cannot be read: {error}"))
            })?;
            all.push(Run { run, folder, manifest });
        }
        Ok(())
    })
    .await?;
    Ok(all)
}

async fn add_metrics(context: &SessionContext, machine: &str, all: &mut [Run]) -> Result<()> {
    let places: HashMap<String, usize> = all.iter().enumerate().map(|(place, run)| (run.run.clone(), place)).collect();
    let sql = format!(
        "SELECT run, sub_experiment, offered_load, stream, figure, statistic, round, trial, payload_bytes, value, low, high \
         FROM metrics WHERE machine = {}",
        literal(machine)
    );
    each(context, &sql, |batch| {
        for row in 0..batch.num_rows() {
            let texts: [String; 6] = std::array::from_fn(|column| text(batch, column, row));
            let [run, sub_experiment, load, stream, figure, statistic] = texts;
            let whole = |column: usize| batch.column(column).as_primitive::<Int64Type>().value(row);
            let real = |column: usize| {
                let column = batch.column(column).as_primitive::<Float64Type>();
                column.is_valid(row).then(|| column.value(row))
            };
            let (Some(place), Ok(load), Ok(stream), Ok(figure), Ok(statistic)) =
                (places.get(&run), load.parse(), stream.parse(), figure.parse(), statistic.parse())
            else {
                // A newer version wrote this figure.
                continue;
            };
            let row = MetricRow {
                round: whole(6) as u32,
                trial: whole(7) as u32,
                payload_bytes: whole(8) as u64,
                load,
                stream,
                figure,
                statistic,
                value: real(9).unwrap_or(f64::NAN),
                within: real(10).zip(real(11)).map(|(low, high)| Interval { low, high }),
            };
            put(&mut all[*place].manifest, &sub_experiment, &row);
        }
        Ok(())
    })
    .await
}

/// Calls `take` with each batch of a query's rows.
async fn each(context: &SessionContext, sql: &str, mut take: impl FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
    let mut rows = context.sql(sql).await?.execute_stream().await?;
    while let Some(batch) = rows.next().await {
        take(&batch?)?;
    }
    Ok(())
}

fn text(batch: &RecordBatch, column: usize, row: usize) -> String {
    let column = batch.column(column);
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        _ => cast(&column.slice(row, 1), &DataType::Utf8)
            .map(|one| one.as_string::<i32>().value(0).to_owned())
            .unwrap_or_default(),
    }
}
