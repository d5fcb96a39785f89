//! `tripmeter-archive`: results of Tripmeter as Parquet in a folder or an object store, and SQL over them.
#![forbid(unsafe_code)]

#[cfg(feature = "ballista")]
mod cluster;
mod error;
mod judge;
mod layout;
mod output;
mod push;
mod query;
mod results;
mod samples;
mod store;
mod tables;

use clap::{Parser, Subcommand};
use error::{ArchiveError, Result};
use std::process::ExitCode;
use tripmeter_model::exit;

/// Stack size of each thread: query plans are walked recursively.
const STACK_BYTES: usize = 16 << 20;

/// Archive results of Tripmeter as Parquet, and query figures and samples with SQL
#[derive(Debug, Parser)]
#[command(name = "tripmeter-archive", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write metrics and samples of results folders to an archive
    Push(push::PushArgs),
    /// Print the rows of an SQL query over an archive
    Query(query::QueryArgs),
    /// Find steps and drifts of figures over time, like `tripmeter history`
    History(judge::HistoryArgs),
    /// Make limits from many runs, like `tripmeter limits`
    Limits(judge::LimitsArgs),
    /// Run the scheduler of a Ballista cluster
    #[cfg(feature = "ballista")]
    Scheduler(cluster::SchedulerArgs),
    /// Run an executor of a Ballista cluster
    #[cfg(feature = "ballista")]
    Executor(cluster::ExecutorArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            // The reader of a pipe may have ended: not an error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let told = error.render().to_string();
            let is_help = |line: &str| line.starts_with("Usage:") || line.starts_with("For more information");
            let told: Vec<&str> = told.lines().take_while(|line| !is_help(line)).collect();
            return failed(&ArchiveError::new(
                exit::USAGE,
                told.join(" ").trim().replacen("error: ", "", 1) + "; see --help",
            ));
        }
    };
    match run(&cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => failed(&error),
    }
}

fn failed(error: &ArchiveError) -> ExitCode {
    eprintln!("tripmeter-archive: {error}");
    ExitCode::from(error.code)
}

fn run(command: &Command) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build();
    let runtime = runtime.map_err(|error| ArchiveError::failed("cannot start threads", error))?;
    let done = |()| exit::GOOD;
    runtime.block_on(async {
        match command {
            Command::Push(args) => push::push(args).await.map(done),
            Command::Query(args) => query::query(args).await.map(done),
            Command::History(args) => judge::history(args).await,
            Command::Limits(args) => judge::limits(args).await,
            #[cfg(feature = "ballista")]
            Command::Scheduler(args) => cluster::scheduler(args).await.map(done),
            #[cfg(feature = "ballista")]
            Command::Executor(args) => cluster::executor(args).await.map(done),
        }
    })
}
