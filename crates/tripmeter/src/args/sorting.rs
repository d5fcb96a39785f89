use clap::Args;
use tripmeter_report::Sort;

/// The order of the rows of tables.
#[derive(Args, Clone, Default)]
pub struct SortArgs {
    /// Sort rows by a column: p99, name; p99:desc
    ///
    /// With `:desc` the largest come first. A column is named by its head, as p99, 1k or '1k p99', by name or median,
    /// or by its identifier, as JSON and CSV have it. Rows without a value come last. A table without the column stays
    /// as it is.
    #[arg(long, value_name = "COLUMN")]
    pub sort: Option<Sort>,
}
