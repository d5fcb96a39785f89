//! Follower under pattern `rpc`: it answers the requests of all clients.

use super::follower::{Follower, setting};
use super::pool::{ThreadPool, Work};
use super::{Error, Result};
use crate::lanes::{Answering, AnyNode};
use crate::measure::callback::Inbox;
use crate::wire::Begin;
use std::sync::atomic::Ordering::Release;
use tripmeter_abi::Wait;

impl Follower {
    /// Answers the requests of all clients until the leader ends them or has gone; then reports the resource use. Under `poll`
    /// one thread polls all links in turns; else each has a thread. Arrivals are kept if the leader has memory for them.
    pub(super) fn answer_calls(
        &mut self,
        endpoint: &mut dyn AnyNode,
        inboxes: &[Box<Inbox>],
        begin: Begin,
    ) -> Result<()> {
        let Begin { first, most, arrivals, .. } = begin;
        let mut memory = arrivals.map(|place| self.arrivals(Some(place), most)).transpose()?;
        let logs = memory.as_mut().map_or_else(Vec::new, |memory| memory.logs(0));
        if !logs.is_empty() && logs.len() != inboxes.len() {
            return Err(Error::Failed(format!(
                "the leader has {} clients, here are {} links",
                logs.len(),
                inboxes.len()
            )));
        }
        let kept: Vec<_> = logs.into_iter().map(|log| (first, log)).collect();
        let pool = &ThreadPool::new(inboxes.len());
        let listening = || {
            pool.ready.fetch_add(1, Release);
        };
        let setup = self.setup();
        let settings = inboxes.iter().zip(&pool.shared).map(|(inbox, shared)| setting(setup, inbox, shared));
        let works: Vec<Work<'_, ()>> = if setup.options.wait == Wait::Poll {
            let (mut turns, mut settings) = (endpoint.in_turns(), settings);
            let Some(setting) = settings.next() else { return Err(Error::Failed("there is no link".to_owned())) };
            vec![Box::new(move || {
                listening();
                ((), turns.answer(setting, kept))
            })]
        } else {
            let kept = kept.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
            let works = endpoint.lanes().into_iter().zip(settings).zip(kept);
            let works = works.map(|((lane, setting), kept)| -> Work<'_, ()> {
                let answers = Answering { names_request: true, kept, ..Answering::default() };
                Box::new(move || ((), lane.answer(setting, answers, None, &mut || listening())))
            });
            works.collect()
        };
        let (taken, _) = self.in_pool(pool, works)?;
        self.send_arrivals(arrivals, memory)?;
        self.send_arrived(Vec::new(), taken)
    }
}
