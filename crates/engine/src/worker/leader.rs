//! State and helpers of a leader.

use super::attempts::Attempts;
use super::controls::Controls;
use super::{Error, Result};
use crate::core_to_core::Page;
use crate::files::Files;
use crate::lanes::{Lane, LoopSetting};
use crate::measure::Shared;
use crate::measure::callback::Inbox;
use crate::measure::interrupter::Interrupter;
use crate::measure::notes::ArrivalMemory;
use crate::node_options::node_options;
use crate::os;
use crate::resolve::real_time::library_sched;
use crate::wire::{ArrivalPlace, FromLeader, Job, PROTOCOL, Setup, Task, TaskReply, ToFollower};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_abi::{Description, NodeOptions, Role, Variant, Wait};
use tripmeter_model::interference::Sched;
use tripmeter_model::manifest::CoreToCoreProbe;

pub struct Leader {
    pub(super) job: Job,
    pub(super) shared: Arc<Shared>,
    pub(super) files: Files,
    pub(super) attempts: Attempts,
    pub(super) controls: Controls,
    pub(super) interrupter: Interrupter,
    pub(super) variant: Variant,
    pub(super) description: Description,
}

/// Resources for measuring, over all payloads.
pub(super) struct Session<'a> {
    /// Lane of each topic, publisher or client.
    pub lanes: Vec<&'a mut dyn Lane>,
    pub inboxes: &'a [Box<Inbox>],
    /// Page of the core-to-core probe; `None` between hosts.
    pub page: Option<Page>,
    pub packet_bytes: u64,
    pub sequence: u64,
    /// Sequence number of the round trip under way when an earlier payload's time was over; 0 if none was.
    pub abandoned: u64,
}

impl Leader {
    /// True if leader and followers are threads of one process.
    pub(super) fn is_same_process(&self) -> bool {
        self.variant.same_process
    }

    /// True if all followers are on this host.
    pub(super) fn is_on_one_host(&self) -> bool {
        self.job.hosts.local_address.is_none()
    }

    /// True if a core-to-core probe is possible: one host, a CPU for each side, and messages between them.
    pub(super) fn has_core_to_core(&self) -> bool {
        if !self.is_on_one_host() || self.job.sub_experiment.workload.is_log() {
            return false;
        }
        let shared_cpu = self.job.cpus.leader.is_some() && self.job.cpus.leader == self.job.cpus.followers[0];
        !shared_cpu && self.job.cpus.all.len() != 1 && crate::os::online_cpus() > 1
    }

    /// Probes with the first follower. `None` if both sides share a CPU, where the probe would wait for the scheduler.
    pub(super) fn core_to_core(&mut self, session: &Session<'_>) -> Result<Option<CoreToCoreProbe>> {
        let Some(page) = session.page.as_ref().filter(|_| self.has_core_to_core()) else { return Ok(None) };
        self.controls.ask(0, &ToFollower::CoreToCore)?;
        Ok(page.lead(&self.job.timebase))
    }

    /// Place where followers keep arrivals: in `memory` on this host, else in their own.
    pub(super) fn arrival_place(&self, memory: &ArrivalMemory) -> ArrivalPlace {
        if self.is_on_one_host() {
            return ArrivalPlace::Leader(memory.place());
        }
        self.controls.expect_arrivals(memory.part_bytes());
        ArrivalPlace::Follower
    }

    /// Moves the previous attempt's results out of the way. Must be called before results of this one are written.
    pub(super) fn make_room(&mut self) -> Result<()> {
        if self.attempts.is_written() {
            // A kill from here on leaves a payload that does not count, instead of a mixture of two attempts.
            self.controls.report(&FromLeader::Replacing);
            self.controls.await_noted()?;
        }
        self.attempts.make_room(&mut self.files)
    }

    /// Interrupts overdue blocking calls from now on.
    pub(super) fn arm(&self) {
        if self.job.sub_experiment.wait == Wait::Block {
            self.interrupter.set(Some(Duration::from_nanos(self.job.loss_timeout_ns) / 2));
        }
    }

    /// Interrupts blocking calls every 2 ms from now on, so that none waits for long.
    pub(super) fn arm_briefly(&self) {
        if self.job.sub_experiment.wait == Wait::Block {
            self.interrupter.set(Some(Duration::from_millis(2)));
        }
    }

    pub(super) fn disarm(&self) {
        self.interrupter.set(None);
    }

    /// Fails if the user has asked to stop.
    pub(super) fn check_stop(&self) -> Result<()> {
        if self.shared.stop.swap(false, Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Options of the leader's node, or of the node of `follower`.
    pub(super) fn node_options(&self, role: Role, follower: u32) -> NodeOptions {
        NodeOptions {
            run_id: self.job.run_id.clone(),
            scratch_dir: self.job.scratch_dir.clone(),
            follower_index: follower,
            local_address: self.job.hosts.local_address,
            ..node_options(&self.job.sub_experiment, role)
        }
    }

    pub(super) fn setup(&self, page: Option<&Page>, follower: u32) -> Setup {
        Setup {
            protocol: PROTOCOL,
            tripmeter: env!("CARGO_PKG_VERSION").to_owned(),
            system: self.job.sub_experiment.transport.system.clone(),
            options: self.node_options(Role::Follower, follower),
            touch: self.job.sub_experiment.touch,
            sched: self.job.sub_experiment.sched,
            library_sched: self.library_sched(),
            cpu: self.job.cpus.followers[follower as usize],
            cpus: self.job.cpus.all.clone(),
            own_threads: self.variant.own_threads,
            interrupt: self.variant.interrupt,
            timebase: self.job.timebase,
            answer_delay_ns: self.job.sub_experiment.answer_delay_ns,
            core_to_core: page.map(Page::place),
            loss_timeout_ns: self.job.loss_timeout_ns,
        }
    }

    /// Task of followers that answer.
    pub(super) fn answer_task(&self) -> Task {
        let plan = &self.job.sub_experiment;
        let names_request = plan.allowed().is_some_and(|allowed| allowed.names_request);
        // A single client is served in the thread of the control messages, unless it names its requests.
        Task { reply: TaskReply::Answer { names_request }, serves_all: names_request || plan.workload.links() > 1 }
    }

    pub(super) fn setting<'a>(&self, inbox: &'a Inbox, shared: &'a Shared) -> LoopSetting<'a> {
        let (plan, loss_timeout_ns) = (&self.job.sub_experiment, self.job.loss_timeout_ns);
        let (timebase, touch) = (self.job.timebase, plan.touch.into());
        LoopSetting { timebase, touch, wait: plan.wait, loss_timeout_ns, inbox, shared }
    }

    fn library_sched(&self) -> Sched {
        library_sched(&self.job.sub_experiment, &self.variant)
    }

    /// Applies the planned scheduling to this process, once its measuring threads exist.
    pub(super) fn schedule(&self) -> Result<()> {
        let sched = self.job.sub_experiment.sched;
        if sched.is_other() {
            return Ok(());
        }
        os::schedule_process(sched, self.library_sched())
            .map_err(|error| self.controls.failed(&format!("real-time scheduling: {error}")))
    }

    /// Lets the supervisor read the work of the background load, if any, when a payload begins or ends.
    pub(super) fn mark_load(&mut self, begins: bool) -> Result<()> {
        if self.job.sub_experiment.background.is_none() {
            return Ok(());
        }
        self.controls.report(&FromLeader::LoadMark { begins });
        self.controls.await_noted()
    }

    pub(super) fn pin(&self, now: bool) -> Result<()> {
        match self.job.cpus.leader {
            Some(cpu) if now => {
                os::pin_thread(cpu).map_err(|error| self.controls.failed(&format!("CPU {cpu} cannot be used: {error}")))
            }
            _ => Ok(()),
        }
    }
}
