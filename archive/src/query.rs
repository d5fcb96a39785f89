//! `tripmeter-archive query`: SQL over the tables of an archive.

use crate::error::{ArchiveError, Result};
use crate::output::{self, Data, note, print};
use crate::store::Archive;
use crate::tables::{self, ResourceArgs};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv::{Writer as CsvWriter, WriterBuilder};
use datafusion::arrow::json::ArrayWriter;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use std::io::{BufWriter, Stdout, Write};
use tripmeter_model::exit;

/// Most rows of a text table.
const ROWS_SHOWN: usize = 1000;

/// Arguments of `query`.
#[derive(Debug, clap::Args)]
pub struct QueryArgs {
    /// The archive: a folder or s3://BUCKET/PREFIX
    #[arg(value_name = "DEST")]
    pub dest: String,
    /// A query over the tables runs, metrics and samples
    #[arg(value_name = "SQL")]
    pub sql: String,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print JSON: an array of objects
    #[arg(long)]
    pub json: bool,
    /// Engine that runs the query: local, or ballista://HOST:PORT
    #[arg(long, value_name = "ENGINE", default_value = "local")]
    pub engine: String,
    #[command(flatten)]
    pub resources: ResourceArgs,
}

/// Runs a query and prints its rows.
///
/// # Errors
/// If the query is wrong or needs too much memory, or the archive cannot be read.
pub async fn query(args: &QueryArgs) -> Result<()> {
    let archive = Archive::open(&args.dest).await?;
    let context = context(args).await?;
    tables::register(&context, &archive).await?;
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let frame = context.sql_with_options(&args.sql, options).await?;
    let schema = frame.schema().inner().clone();
    let mut output = Output::new(args);
    let mut rows = frame.execute_stream().await?;
    while let Some(batch) = rows.next().await {
        output.write(batch.map_err(|error| failed(args, error))?)?;
    }
    output.finish(&schema)
}

#[cfg(feature = "ballista")]
async fn context(args: &QueryArgs) -> Result<SessionContext> {
    match args.engine.as_str() {
        "local" => tables::local(&args.resources),
        engine => crate::cluster::remote(engine, &args.resources).await,
    }
}

#[cfg(feature = "ballista")]
fn failed(args: &QueryArgs, error: DataFusionError) -> ArchiveError {
    crate::cluster::failed(&args.engine, error)
}

#[cfg(not(feature = "ballista"))]
fn failed(_: &QueryArgs, error: DataFusionError) -> ArchiveError {
    error.into()
}

#[cfg(not(feature = "ballista"))]
async fn context(args: &QueryArgs) -> Result<SessionContext> {
    if args.engine == "local" {
        return tables::local(&args.resources);
    }
    let text = format!("--engine '{}': this build knows only local; build it with --features ballista", args.engine);
    Err(ArchiveError::new(exit::USAGE, text))
}

/// Writer of rows as they arrive; a text table stops at [`ROWS_SHOWN`].
enum Output {
    Csv(Box<CsvWriter<BufWriter<Data<Stdout>>>>),
    Json(ArrayWriter<BufWriter<Data<Stdout>>>),
    Table { batches: Vec<RecordBatch>, shown: usize, all: usize },
}

impl Output {
    fn new(args: &QueryArgs) -> Self {
        let out = BufWriter::new(Data::stdout());
        match (args.csv, args.json) {
            (true, _) => Output::Csv(Box::new(WriterBuilder::new().with_header(true).build(out))),
            (_, true) => Output::Json(ArrayWriter::new(out)),
            _ => Output::Table { batches: Vec::new(), shown: 0, all: 0 },
        }
    }

    fn write(&mut self, batch: RecordBatch) -> Result<()> {
        match self {
            Output::Csv(csv) => csv.write(&batch).map_err(ArchiveError::output),
            Output::Json(json) => json.write(&batch).map_err(ArchiveError::output),
            Output::Table { batches, shown, all } => {
                *all += batch.num_rows();
                let more = batch.num_rows().min(ROWS_SHOWN - *shown);
                *shown += more;
                batches.extend((more > 0).then(|| batch.slice(0, more)));
                Ok(())
            }
        }
    }

    fn finish(self, schema: &datafusion::arrow::datatypes::SchemaRef) -> Result<()> {
        match self {
            Output::Csv(mut csv) => {
                // Without rows, the header is still written.
                csv.write(&RecordBatch::new_empty(schema.clone())).map_err(ArchiveError::output)?;
                csv.into_inner().flush().map_err(ArchiveError::output)
            }
            Output::Json(mut json) => {
                json.finish().map_err(ArchiveError::output)?;
                let mut out = json.into_inner();
                out.write_all(b"\n").and_then(|()| out.flush()).map_err(ArchiveError::output)
            }
            Output::Table { batches, shown, all } => {
                let table = output::table(schema, &batches);
                let table = table.map_err(|error| ArchiveError::new(exit::SOFTWARE, error.to_string()))?;
                print(&format!("{table}\n"))?;
                if shown < all {
                    note(&format!("the first {shown} of {all} rows; --csv and --json print all"));
                }
                Ok(())
            }
        }
    }
}
