//! Queries on a Ballista cluster, and its scheduler and executor processes. They need the archive at the same path, or,
//! in a store, the same `AWS_*` variables.

use crate::error::{ArchiveError, Result};
use crate::output::note;
use crate::tables::{ResourceArgs, config, runtime};
use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::config::BALLISTA_CLIENT_GRPC_HTTP2_KEEPALIVE_INTERVAL_SECONDS;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service};
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion::error::DataFusionError;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tripmeter_model::exit;

/// How long a scheduler may take to accept a connection.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);
/// Interval at which an executor reports to its scheduler, and a waiting query checks that the scheduler is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Silence after which an executor is considered lost.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);
/// Longest wait of queries for a first executor.
const LONGEST_WITHOUT_EXECUTOR: Duration = Duration::from_secs(10);
/// End of Ballista's error message for a query that the scheduler cancelled.
const ENDED_BY_SCHEDULER: &str = "failed: Cancelled";

type Scheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// Arguments of `scheduler`.
#[derive(Debug, clap::Args)]
pub struct SchedulerArgs {
    /// Address to listen at
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050", value_parser = address)]
    pub bind: SocketAddr,
}

/// Arguments of `executor`.
#[derive(Debug, clap::Args)]
pub struct ExecutorArgs {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    pub scheduler: SocketAddr,
    /// Address to listen at; the next port is used too
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051", value_parser = address_of_two)]
    pub bind: SocketAddr,
    /// Tasks to run in parallel
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub tasks: usize,
    #[command(flatten)]
    pub resources: ResourceArgs,
}

/// Parses an address whose port is not 0: others must know it.
fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "write an IP address and a port, as 127.0.0.1:50050".to_owned())?;
    if address.port() == 0 { Err("port 0 is not allowed; name one from 1".to_owned()) } else { Ok(address) }
}

/// Parses an address whose next port exists too.
fn address_of_two(text: &str) -> std::result::Result<SocketAddr, String> {
    let address = address(text)?;
    match address.port() {
        u16::MAX => Err("the next port is used too; name one up to 65534".to_owned()),
        _ => Ok(address),
    }
}

/// A context whose queries run on the cluster of a scheduler.
///
/// # Errors
/// If the engine is not `ballista://HOST:PORT`, or the scheduler does not answer.
pub async fn remote(engine: &str, resources: &ResourceArgs) -> Result<SessionContext> {
    let address = engine.strip_prefix("ballista://").filter(|address| address.contains(':'));
    let address = address.ok_or_else(|| {
        ArchiveError::new(exit::USAGE, format!("--engine '{engine}' is neither local nor ballista://HOST:PORT"))
    })?;
    reach(address).await?;
    let state = SessionStateBuilder::new()
        .with_config(session_config())
        .with_runtime_env(runtime(resources)?)
        .with_default_features()
        .build();
    Ok(SessionContext::remote_with_state(&format!("df://{address}"), state).await?)
}

/// Checks that something listens at the address of a scheduler.
async fn reach(address: &str) -> Result<()> {
    let what = format!("the scheduler '{address}' cannot be reached");
    match timeout(LONGEST_CONNECT, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(ArchiveError::failed(what, error)),
        Err(_) => Err(ArchiveError::failed(what, format!("no answer in {} s", LONGEST_CONNECT.as_secs()))),
    }
}

fn session_config() -> SessionConfig {
    let seconds = HEARTBEAT.as_secs().to_string();
    config(SessionConfig::new_with_ballista()).set_str(BALLISTA_CLIENT_GRPC_HTTP2_KEEPALIVE_INTERVAL_SECONDS, &seconds)
}

/// Error of a failed query; if the scheduler cancelled it, with the remedy.
pub fn failed(engine: &str, error: DataFusionError) -> ArchiveError {
    let is_ended = error.strip_backtrace().contains(ENDED_BY_SCHEDULER);
    let Some(address) = engine.strip_prefix("ballista://").filter(|_| is_ended) else {
        let told = ArchiveError::from(error);
        return if engine == "local" { told } else { ArchiveError::new(told.code, format!("{engine}: {told}")) };
    };
    let why = format!(
        "no executor has connected for {} s; start one with `tripmeter-archive executor --scheduler {address}`",
        LONGEST_WITHOUT_EXECUTOR.as_secs()
    );
    ArchiveError::failed(format!("the scheduler '{address}' has cancelled the query"), why)
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
        executor_timeout_seconds: LONGEST_SILENCE.as_secs(),
        expire_dead_executor_interval_seconds: HEARTBEAT.as_secs(),
        override_config_producer: Some(Arc::new(session_config)),
        override_session_builder: Some(Arc::new(state)),
        ..SchedulerConfig::default()
    };
    let failed = |error| ArchiveError::failed(format!("cannot start a scheduler at {}", args.bind), error);
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(failed)?;
    let state = cluster.cluster_state();
    let scheduler: Scheduler = create_scheduler(cluster, Arc::new(config)).await.map_err(failed)?;
    let watched = scheduler.clone();
    tokio::spawn(async move {
        let mut last_seen = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if !state.executor_heartbeats().is_empty() {
                last_seen = Instant::now();
            } else if last_seen.elapsed() > LONGEST_WITHOUT_EXECUTOR {
                end_queries(&watched).await;
            }
        }
    });
    start_grpc_service(args.bind, scheduler).await.map_err(failed)
}

/// Cancels all queries: Ballista would let them wait forever for an executor.
async fn end_queries(scheduler: &Scheduler) {
    for query in scheduler.state.task_manager.get_running_job_cache().keys() {
        if let Err(error) = scheduler.cancel_job(query.clone()).await {
            note(&format!("query {query} cannot be cancelled: {error}"));
        }
    }
}

/// Runs an executor until it is killed.
///
/// # Errors
/// If it cannot listen, or its scheduler does not answer.
pub async fn executor(args: &ExecutorArgs) -> Result<()> {
    reach(&args.scheduler.to_string()).await?;
    let work = tempfile::Builder::new()
        .prefix("tripmeter-executor-")
        .tempdir_in(args.resources.spill.clone().unwrap_or_else(std::env::temp_dir));
    let work = work.map_err(|error| {
        ArchiveError::new(exit::CANNOT_CREATE, format!("no folder for results can be created: {error}"))
    })?;
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
        executor_heartbeat_interval_seconds: HEARTBEAT.as_secs(),
        // 0 tries once; with any other time, Ballista retries forever.
        scheduler_connect_timeout_seconds: 0,
        concurrent_tasks: args.tasks,
        work_dir: Some(work.path().display().to_string()),
        memory_pool_size: Some(args.resources.memory as u64),
        override_config_producer: Some(Arc::new(session_config)),
        override_runtime_producer: Some(Arc::new(environment)),
        ..ExecutorProcessConfig::default()
    };
    let failed = |error| ArchiveError::failed(format!("cannot start an executor at {}", args.bind), error);
    start_executor_process(Arc::new(config)).await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_needs_two_ports() {
        assert_eq!(address_of_two("127.0.0.1:65534").map(|address| address.port()), Ok(65534));
        assert!(address_of_two("127.0.0.1:65535").is_err_and(|told| told.contains("up to 65534")));
        assert_eq!(address("[::1]:65535").map(|address| address.port()), Ok(65535));
        for wrong in ["127.0.0.1:0", "127.0.0.1", "lab:50050", "127.0.0.1:65536"] {
            assert!(address(wrong).is_err() && address_of_two(wrong).is_err(), "{wrong}");
        }
    }
}
