use super::measure::ShownArgs;
use super::parsers::words_of;
use super::sorting::SortArgs;
use clap::Args;
use std::path::PathBuf;
use tripmeter_model::experiment::TableKind;

/// Tables by their word in `--tables`.
const TABLES: [(&str, TableKind); 6] = [
    ("iceperf", TableKind::Iceperf),
    ("ecal", TableKind::Ecal),
    ("aimrt", TableKind::Aimrt),
    ("screen", TableKind::Screen),
    ("all", TableKind::All),
    ("figures", TableKind::Figures),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Columns of text.
    Text,
    Markdown,
    /// Numbers in the units of their figures, with intervals and marks.
    Json,
    /// Like `Json`, one row per table row.
    Csv,
}

/// Print the tables of results folders
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter show results/2026-01-31_12-00-00 --wide
  tripmeter show results/* --tables iceperf")]
#[command(after_long_help = "Examples:
  tripmeter show results/2026-01-31_12-00-00
  tripmeter show results/2026-01-31_12-00-00 --wide
  tripmeter show results/* --tables iceperf
  tripmeter show results/a results/b --tables ecal
  tripmeter show results/a --sort p99

The table `ecal` takes its columns from all folders given, and names the folder
of each. `tripmeter export` writes the same tables as CSV, JSON or Markdown.

Exit codes: 0 good, 64 wrong usage, 65 wrong data, 66 no such folder.")]
pub struct ShowArgs {
    /// Results folders
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Tables [default: the tables of the run's preset, else screen]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = words_of(&TABLES))]
    pub tables: Vec<TableKind>,
    #[command(flatten)]
    pub sorting: SortArgs,
    #[command(flatten)]
    pub shown: ShownArgs,
}

/// Write results as one HTML page with charts
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter report results/2026-01-31_12-00-00
  tripmeter report results/monday results/tuesday -o report.html")]
#[command(after_long_help = "Examples:
  tripmeter report results/2026-01-31_12-00-00
  tripmeter report results/2026-01-31_12-00-00 --limits limits.csv
  tripmeter report results/monday results/tuesday -o report.html

The page is one file that works from disk and contacts no server. Several
folders are compared with the first, the reference. Measuring commands write the
same page into their results folder, unless --no-report is given. With --limits,
the page shows what `tripmeter check` finds, without effect on the exit code.
The page of an `ab` has the verdicts of its ab.json.

Exit codes: 0 good, 64 wrong usage, 65 wrong data, 66 no such folder, 73 cannot
create.")]
pub struct ReportArgs {
    /// Results folders
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// The file, - for standard output [default: `report.html` in the results folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Limits to check the results against, as written by `tripmeter limits`
    #[arg(long, value_name = "FILE")]
    pub limits: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Tables for other programs and for pages.
    Table(TableFormat),
    Plots(tripmeter_report::plots::Format),
    Exchange(ExchangeFormat),
}

/// Format of other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeFormat {
    Junit,
    /// Workflow commands and a job summary.
    Github,
    /// Bencher Metric Format.
    Bencher,
    OpenMetrics,
    /// Figures and samples as Parquet.
    Parquet,
}

/// Write results for other programs, as tables or as plots
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter export results/new --format csv > new.csv
  tripmeter export results/new --format svg -o plots")]
#[command(after_long_help = "Examples:
  tripmeter export results/new --format csv > new.csv
  tripmeter export results/new --format json --tables iceperf
  tripmeter export results/new --format markdown --tables all
  tripmeter export results/new --format svg -o plots
  tripmeter export results/monday results/tuesday --format png -o plots --log
  tripmeter check results/new --limits limits.csv --json > verdict.json
  tripmeter export results/new --format junit --verdict verdict.json -o junit.xml

csv, json and markdown are tables, by default `figures`: every figure by its
address. Several folders or tables make one JSON array of objects with
`folder`, `table` and `blocks`. CSV is one table of one folder, or `figures` of
several folders with a column `folder`.

For other programs (docs/formats.md, docs/ci.md):
  junit        JUnit XML: a suite for each sub-experiment; a test case for each
               figure of --verdict, or for each payload without it
  github       annotations of GitHub Actions on standard output, and a summary
               in Markdown in -o FILE, or appended to $GITHUB_STEP_SUMMARY
  bencher      Bencher Metric Format (JSON)
  openmetrics  OpenMetrics text, with addresses as labels
  parquet      DIR/figures.parquet, and of one folder DIR/samples/*.parquet
               (-o DIR; needs `tripmeter install parquet`)

png and svg are plots. Each file begins with the figure that it shows, e.g.
rtt_half or response; the payload or sub-experiment ends it:
  ..._by_payload        how does it grow with size? (of one payload: ..._BYTES)
  ..._percentiles_BYTES how long is the tail?
  ..._rounds_BYTES      do rounds agree?
  ..._time_NAME_BYTES   was it steady? (needs samples)
  ..._by_rate_BYTES     what happens under load?
  ..._ratio_BYTES       where do two folders, or both sides of `ab`, differ?
  ..._cost_BYTES        what does speed cost in CPU time?
  loss, verdicts        what was lost; folders against the first
and for patterns publish, call and log, as AimRT publishes them:
  channel_latency_by_size...     average one-way latency (service time) over payloads
  channel_latency_by_topics...   the same over numbers of topics
  rpc_latency_by_size...         average round trip (service time) over payloads
  rpc_latency_by_clients...      the same over numbers of clients
  rpc_qps_by_size...             calls per second in a closed loop over payloads
  log_latency_by_size            average time of a call of the logger over payloads (logarithmic)
For several rounds they show medians, from six rounds on with intervals.
Measuring commands draw AimRT's plots into `plots` in their results folder
where the table `aimrt` is printed.

Exit codes: 0 good, 64 wrong usage, 65 wrong data or nothing to write, 66 no
such folder, 69 no program for Parquet, 73 cannot create.")]
pub struct ExportArgs {
    /// Results folders
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// What to write
    #[arg(long, value_name = "FORMAT", required = true,
        value_parser = words_of(&[("csv", ExportFormat::Table(TableFormat::Csv)),
            ("json", ExportFormat::Table(TableFormat::Json)), ("markdown", ExportFormat::Table(TableFormat::Markdown)),
            ("junit", ExportFormat::Exchange(ExchangeFormat::Junit)),
            ("github", ExportFormat::Exchange(ExchangeFormat::Github)),
            ("bencher", ExportFormat::Exchange(ExchangeFormat::Bencher)),
            ("openmetrics", ExportFormat::Exchange(ExchangeFormat::OpenMetrics)),
            ("parquet", ExportFormat::Exchange(ExchangeFormat::Parquet)),
            ("png", ExportFormat::Plots(tripmeter_report::plots::Format::Png)),
            ("svg", ExportFormat::Plots(tripmeter_report::plots::Format::Svg))]))]
    pub format: ExportFormat,
    /// The file [default: -, standard output], or the folder of plots [default: `plots` in the results folder] or Parquet
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Tables [default: figures]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = words_of(&TABLES))]
    pub tables: Vec<TableKind>,
    /// For junit and github: the verdict printed by `check`, `compare`, `history` or `ab` with --json
    #[arg(long, value_name = "FILE")]
    pub verdict: Option<PathBuf>,
    #[command(flatten)]
    pub sorting: SortArgs,
    /// Draw charts on a logarithmic axis if all their values are above 0
    #[arg(long)]
    pub log: bool,
}
