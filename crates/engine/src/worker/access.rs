//! Proof of refusal: peers that a secured transport must refuse try to join while the true pair is connected.

use super::leader::Leader;
use super::{BuiltIn, Error, OPEN_TIMEOUT, Result, find};
use crate::channel::send;
use crate::lanes::AnySystem;
use crate::wire::{AccessAttempt, FromLeader, ToWorker};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tripmeter_abi::raw::TM_UNAUTHORIZED_LEADS;
use tripmeter_abi::{Role, Status, UnauthorizedPeer};
use tripmeter_model::manifest::RefusalTrial;

/// Least time for an unauthorized peer to connect.
const LEAST_TIME: Duration = Duration::from_secs(2);
/// Time for an unauthorized peer, as a multiple of the true pair's time.
const PATIENCE: u32 = 3;
/// Time for a process to start and end, in addition to its attempt.
const PROCESS_TIME: Duration = Duration::from_secs(10);

/// Longest duration of one attempt: joining, and then connecting.
pub fn longest(attempt: &AccessAttempt) -> Duration {
    OPEN_TIMEOUT + PROCESS_TIME + Duration::from_nanos(attempt.timeout_ns).min(OPEN_TIMEOUT * PATIENCE)
}

/// Acts as an unauthorized peer, and sends the result to the supervisor at the other end of `stream`.
pub fn attempt_access(attempt: &AccessAttempt, mut stream: UnixStream, built_in: BuiltIn<'_>) -> Result<()> {
    let system = find(&attempt.system, attempt.plugin.as_deref(), built_in)?;
    let trial = attempted(&*system, attempt);
    send(&mut stream, &trial).map_err(|error| Error::failed("supervisor's channel", error))
}

fn attempted(system: &dyn AnySystem, attempt: &AccessAttempt) -> RefusalTrial {
    let begin = Instant::now();
    let result = connect(system, attempt);
    let (refused, why) = match result {
        Ok(()) => (Some(false), String::new()),
        Err(error) => (matches!(error.status, Status::Failed | Status::Closed).then_some(true), error.message.clone()),
    };
    RefusalTrial { kind: attempt.kind, refused, waited_ns: begin.elapsed().as_nanos() as u64, why }
}

fn connect(system: &dyn AnySystem, attempt: &AccessAttempt) -> tripmeter_abi::Result<()> {
    let inbox = [Box::default()];
    let mut endpoint = system.open(&attempt.options, &inbox)?;
    for lane in endpoint.lanes() {
        lane.link().address()?;
        lane.link().connect(std::slice::from_ref(&attempt.peer), attempt.timeout_ns)?;
    }
    Ok(())
}

/// Addresses of the connected true pair; with several followers, of the first one.
pub(super) struct TruePair {
    pub leader: Vec<u8>,
    pub follower: Vec<u8>,
    pub took: Duration,
}

/// Lets each kind of unauthorized peer try to join that the transport claims to refuse. The true pair is idle
/// meanwhile.
pub(super) fn prove_refusal(
    leader: &mut Leader,
    unauthorized_peers: u32,
    pair: &TruePair,
) -> Result<Vec<RefusalTrial>> {
    let kinds = UnauthorizedPeer::from_bits(unauthorized_peers);
    if kinds.is_empty() {
        return Ok(Vec::new());
    }
    leader.controls.set_phase("prove that unauthorized peers are refused");
    let leads = unauthorized_peers & TM_UNAUTHORIZED_LEADS != 0;
    let (role, peer) = if leads { (Role::Leader, &pair.follower) } else { (Role::Follower, &pair.leader) };
    let attempt = |kind| AccessAttempt {
        kind,
        system: leader.job.sub_experiment.transport.system.clone(),
        plugin: leader.job.plugin.clone(),
        options: tripmeter_abi::NodeOptions { unauthorized_peer: Some(kind), ..leader.node_options(role, 0) },
        peer: peer.clone(),
        timeout_ns: LEAST_TIME.max(pair.took * PATIENCE).as_nanos() as u64,
    };
    let attempts: Vec<AccessAttempt> = kinds.into_iter().map(attempt).collect();
    let time = attempts.iter().map(longest).sum::<Duration>() + PROCESS_TIME;
    leader.controls.report(&FromLeader::AttemptAccess(attempts));
    match leader.controls.recv_supervisor(time)? {
        ToWorker::AccessAttempted(trials) => Ok(trials),
        _ => Err(Error::Failed("the supervisor's messages are out of order".to_owned())),
    }
}
