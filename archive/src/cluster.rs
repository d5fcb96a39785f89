//! Queries on a Ballista cluster, and the processes of one. Its scheduler and executors find the files of the archive as this
//! program does: in the same folder, or in the store of their own `AWS_*` variables.

use crate::error::{ArchiveError, Result};
use crate::tables::{ResourceArgs, config, runtime};
use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::error::DataFusionError;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tripmeter_model::exit;

/// How long a scheduler may take to accept a connection.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);

/// What `scheduler` does.
#[derive(Debug, clap::Args)]
pub struct SchedulerArgs {
    /// Address to listen at
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    pub bind: SocketAddr,
}

/// What `executor` does.
#[derive(Debug, clap::Args)]
pub struct ExecutorArgs {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    pub scheduler: SocketAddr,
    /// Address to listen at; the port after it is used, too
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    pub bind: SocketAddr,
    /// Tasks at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub tasks: usize,
    #[command(flatten)]
    pub resources: ResourceArgs,
}

/// A context whose queries run on the cluster of a scheduler.
///
/// # Errors
/// If the engine is no `ballista://HOST:PORT`, or the scheduler does not answer.
pub async fn remote(engine: &str, resources: &ResourceArgs) -> Result<SessionContext> {
    let address = engine.strip_prefix("ballista://").filter(|address| address.contains(':'));
    let address = address.ok_or_else(|| {
        ArchiveError::new(exit::USAGE, format!("--engine '{engine}' is neither local nor ballista://HOST:PORT"))
    })?;
    let what = format!("the scheduler '{address}' cannot be reached");
    match timeout(LONGEST_CONNECT, TcpStream::connect(address)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(ArchiveError::failed(what, error)),
        Err(_) => return Err(ArchiveError::failed(what, format!("no answer in {} s", LONGEST_CONNECT.as_secs()))),
    }
    let state = SessionStateBuilder::new()
        .with_config(session_config())
        .with_runtime_env(runtime(resources)?)
        .with_default_features()
        .build();
    Ok(SessionContext::remote_with_state(&format!("df://{address}"), state).await?)
}

fn session_config() -> SessionConfig {
    config(SessionConfig::new_with_ballista())
}

/// Runs a scheduler until it is killed.
///
/// # Errors
/// If it cannot listen.
pub async fn scheduler(args: &SchedulerArgs) -> Result<()> {
    let resources = ResourceArgs { memory: 1 << 30, spill: None };
    let state = move |config: SessionConfig| -> datafusion::error::Result<SessionState> {
        let runtime = runtime(&resources).map_err(|error| DataFusionError::Execution(error.to_string()))?;
        Ok(SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features().build())
    };
    let config = SchedulerConfig {
        bind_host: args.bind.ip().to_string(),
        bind_port: args.bind.port(),
        external_host: args.bind.ip().to_string(),
        override_config_producer: Some(Arc::new(session_config)),
        override_session_builder: Some(Arc::new(state)),
        ..SchedulerConfig::default()
    };
    let failed = |error| ArchiveError::failed(format!("no scheduler at {}", args.bind), error);
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(failed)?;
    start_server(cluster, args.bind, Arc::new(config)).await.map_err(failed)
}

/// Runs an executor until it is killed.
///
/// # Errors
/// If it cannot listen, or its scheduler does not answer.
pub async fn executor(args: &ExecutorArgs) -> Result<()> {
    let work = tempfile::Builder::new()
        .prefix("tripmeter-executor-")
        .tempdir_in(args.resources.spill.clone().unwrap_or_else(std::env::temp_dir));
    let work =
        work.map_err(|error| ArchiveError::new(exit::CANNOT_CREATE, format!("no folder for results: {error}")))?;
    let resources = args.resources.clone();
    let environment =
        move |_: &SessionConfig| runtime(&resources).map_err(|error| DataFusionError::Execution(error.to_string()));
    let config = ExecutorProcessConfig {
        bind_host: args.bind.ip().to_string(),
        external_host: Some(args.bind.ip().to_string()),
        port: args.bind.port(),
        grpc_port: args.bind.port() + 1,
        scheduler_host: args.scheduler.ip().to_string(),
        scheduler_port: args.scheduler.port(),
        scheduler_connect_timeout_seconds: LONGEST_CONNECT.as_secs() as u16,
        concurrent_tasks: args.tasks,
        work_dir: Some(work.path().display().to_string()),
        memory_pool_size: Some(args.resources.memory as u64),
        override_config_producer: Some(Arc::new(session_config)),
        override_runtime_producer: Some(Arc::new(environment)),
        ..ExecutorProcessConfig::default()
    };
    let failed = |error| ArchiveError::failed(format!("no executor at {}", args.bind), error);
    start_executor_process(Arc::new(config)).await.map_err(failed)
}
