//! Sorting of printed tables.

use crate::args::SortArgs;
use crate::error::CliError;
use crate::output;
use tripmeter_model::exit;
use tripmeter_report::document::Document;

impl SortArgs {
    /// Sorts the tables that have the column. If none has it, but there are other columns, the error names these.
    pub fn apply<'a>(&self, documents: impl IntoIterator<Item = &'a mut Document>) -> Result<(), CliError> {
        let Some(sort) = &self.sort else { return Ok(()) };
        let mut documents: Vec<&mut Document> = documents.into_iter().collect();
        let has_column = documents.iter_mut().filter_map(|one| sort.apply(one).then_some(())).count() > 0;
        if has_column {
            return Ok(());
        }
        let columns = tripmeter_report::sortable(documents.iter().map(|one| &**one));
        if columns.is_empty() {
            return Ok(());
        }
        let (column, there) = (&sort.column, columns.join(", "));
        Err(CliError::new(exit::USAGE, format!("no table has a column '{column}'; choose from {there} (--sort)")))
    }

    /// Sorts new results; an unknown column leaves them in their usual order, with a note.
    pub fn apply_or_say<'a>(&self, documents: impl IntoIterator<Item = &'a mut Document>) {
        if let Err(error) = self.apply(documents) {
            output::say(&format!("note: not sorted: {error}"));
        }
    }

    /// Fails if `--sort` is given together with `--json`, which prints no tables.
    pub fn refuse_with_json(&self, is_json: bool) -> Result<(), CliError> {
        match is_json && self.sort.is_some() {
            true => {
                Err(CliError::new(exit::USAGE, "--sort orders tables, but --json prints none; leave one of them out"))
            }
            false => Ok(()),
        }
    }
}
