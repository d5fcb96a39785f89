//! Process of the follower: from its first message to its end.

use super::follower::{Follower, IDLE_TIMEOUT};
use super::links::Taken;
use super::pool::Window;
use super::{BuiltIn, Error, MANY_LINKS, OPEN_TIMEOUT, Result, agreed, find, probe};
use crate::core_to_core::Page;
use crate::lanes::{Answering, AnyNode, AnySystem, Lane};
use crate::measure::callback::Inbox;
use crate::measure::notes::ArrivalLog;
use crate::measure::stamped::StampLog;
use crate::os::{self, ForThisUser};
use crate::proof::{Baseline, Observer};
use crate::wire::{Begin, Follow, FromFollower, Report, TaskReply, ToFollower};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::Pattern;
use tripmeter_model::kernel_queue::QueueSide;
use tripmeter_model::plan::Instrument;

/// Follows the leader at the other end of `stream` until it ends. The leader names a system; `part` has the plugin
/// file. Errors have been reported to the leader.
pub fn follow(stream: UnixStream, part: &Follow, built_in: BuiltIn<'_>) -> Result<()> {
    let mut follower = Follower::start(stream, part.place.as_ref())?;
    if follower.setup().options.pattern == Pattern::Log {
        let result = follower.read_logs();
        return follower.pass_on(result);
    }
    let system = &follower.setup().system;
    let plugin = part.plugins.get(system).map(PathBuf::as_path);
    let result = find(system, plugin, built_in).and_then(|system| follower.run(&*system));
    follower.pass_on(result)
}

impl Follower {
    /// Opens the transport, connects it, and serves the leader's requests.
    pub fn run(&mut self, system: &dyn AnySystem) -> Result<()> {
        let page = self.setup().core_to_core.map(Page::open).transpose();
        let page = page.map_err(|error| Error::failed("page of the core-to-core probe", error))?;
        let baseline = Observer::baseline(self.setup().options.local_address);
        let links = self.setup().options.link_count;
        if links == 0 {
            return Err(Error::Failed("the leader asked for no link".to_owned()));
        }
        if links > MANY_LINKS {
            os::raise_file_limit();
        }
        let inboxes: Vec<Box<Inbox>> = (0..links).map(|_| Box::default()).collect();
        self.pin(!self.setup().own_threads)?;
        let for_this_user = ForThisUser::begin();
        if self.setup().options.local_address.is_some() {
            let ToFollower::Agreed(files) = self.control.receive(OPEN_TIMEOUT)? else {
                return Err(Error::Failed("the leader did not send its files".to_owned()));
            };
            agreed::write(&self.setup().options.scratch_dir, &files)?;
        }
        let mut endpoint =
            system.open(&self.setup().options, &inboxes).map_err(|error| Error::failed("open", error))?;
        self.connect(&mut endpoint.lanes(), &baseline, system)?;
        drop(for_this_user);
        self.serve(&mut *endpoint, &inboxes, page.as_ref(), &baseline)
    }

    fn connect(&mut self, lanes: &mut [&mut dyn Lane], baseline: &Baseline, system: &dyn AnySystem) -> Result<()> {
        let addresses: tripmeter_abi::Result<_> = lanes.iter_mut().map(|lane| lane.link().address()).collect();
        let addresses = addresses.map_err(|error| Error::failed("open", error))?;
        self.send(&FromFollower::Opened { addresses })?;
        let ToFollower::Connect(peers) = self.control.receive(OPEN_TIMEOUT)? else {
            return Err(Error::Failed("the leader did not send its address".to_owned()));
        };
        let timeout_ns = OPEN_TIMEOUT.as_nanos() as u64;
        // Each of our links gets one address of the leader; the only link gets the addresses of all publishers.
        let of_each = self.setup().options.publisher_count.max(1) as usize;
        for (lane, peers) in lanes.iter_mut().zip(peers.chunks(of_each)) {
            lane.link().connect(peers, timeout_ns).map_err(|error| Error::failed("connect", error))?;
        }
        self.pin(self.setup().own_threads)?;
        let memory_lock = os::lock_memory().map_or_else(|error| error.to_string(), |()| "locked".to_owned());
        let variant = system.description().variant(&self.setup().options.variant).map(|variant| variant.path);
        let queues = variant.map(|path| baseline.queues(QueueSide::Follower, path)).unwrap_or_default();
        self.send(&FromFollower::Connected { memory_lock, queues })
    }

    /// Serves the leader's requests until it ends.
    fn serve(
        &mut self,
        endpoint: &mut dyn AnyNode,
        inboxes: &[Box<Inbox>],
        page: Option<&Page>,
        baseline: &Baseline,
    ) -> Result<()> {
        loop {
            match self.control.receive(IDLE_TIMEOUT)? {
                ToFollower::CoreToCore => {
                    self.schedule()?;
                    self.send(&FromFollower::Ready)?;
                    page.ok_or_else(|| Error::Failed("there is no page of the core-to-core probe".to_owned()))?
                        .follow();
                }
                ToFollower::Clock => self.answer_clock()?,
                ToFollower::Begin(begin) if begin.observe => {
                    self.shared.is_alone.store(true, Relaxed);
                    probe::follow(self, endpoint, inboxes, baseline, &begin)?;
                }
                ToFollower::Begin(begin) => {
                    self.schedule()?;
                    self.serve_links(endpoint, inboxes, begin)?;
                }
                ToFollower::Bye => return Ok(()),
                ToFollower::Setup(_) | ToFollower::Agreed(_) | ToFollower::Connect(_) | ToFollower::End { .. } => {
                    return Err(Error::Failed("the leader's messages are out of order".to_owned()));
                }
            }
        }
    }

    /// Handles messages until the leader has sent all of them, and reports their counts.
    fn serve_links(&mut self, endpoint: &mut dyn AnyNode, inboxes: &[Box<Inbox>], begin: Begin) -> Result<()> {
        let Begin { task, arrivals, ref most, .. } = begin;
        self.shared.is_alone.store(!task.serves_all, Relaxed);
        let mut memory = arrivals.map(|place| self.arrivals(place, most.clone())).transpose()?;
        let logs = memory.as_mut().map_or_else(Vec::new, |memory| memory.logs(0));
        let taken = if task.serves_all {
            self.serve_all(endpoint, inboxes, &begin, logs)?
        } else {
            self.serve_first(endpoint, inboxes, &begin, logs)?
        };
        self.send_arrivals(arrivals, memory)?;
        let Taken { arrived, used, failure } = taken;
        let why = failure.map(|failure| format!("take messages: {failure}"));
        self.report(Report { arrived, used, failed: why.clone(), ..Report::default() })?;
        why.map_or(Ok(()), |why| Err(Error::Failed(why)))
    }

    /// Serves the first link in this thread.
    fn serve_first(
        &mut self,
        endpoint: &mut dyn AnyNode,
        inboxes: &[Box<Inbox>],
        begin: &Begin,
        mut logs: Vec<ArrivalLog<'_>>,
    ) -> Result<Taken> {
        let stamps = begin.instrument.filter(|instrument| *instrument == Instrument::Stamps);
        let stamps = stamps.and_then(|_| StampLog::new(begin.first, std::mem::take(&mut logs)));
        let log = logs.pop();
        self.ready()?;
        let is_counted = begin.instrument == Some(Instrument::Counters);
        self.cost.open(if is_counted { Window::counted() } else { Window::open() });
        let mut arrived = Vec::new();
        match begin.task.reply {
            TaskReply::Nothing { .. } => arrived.push(self.count(endpoint, inboxes, begin.first, log, None)?),
            TaskReply::Answer { names_request } => {
                let (follower, kept) = (self.number(), log.map(|log| (begin.first, log)));
                let delay_ns = self.setup().answer_delay_ns;
                let answers = Answering { names_request, follower, kept, delay_ns, stamps };
                self.answer(endpoint, inboxes, answers, None)?;
            }
            TaskReply::Lines { .. } => return Err(Error::Failed("the leader asked a transport for a log".to_owned())),
        }
        Ok(Taken { arrived, used: self.cost.close(), failure: None })
    }
}
