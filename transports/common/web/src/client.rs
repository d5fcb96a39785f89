//! The leader's end of a link with a call per message.

use crate::call_task::{Call, CallTask, Connection, poll_waiting};
use crate::driver::Driver;
use crate::host::{Body, untakable};
use crate::opening::{Caller, unconnected};
use crate::settings::WebSettings;
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use tripmeter_abi::blocks::Blocks;
use tripmeter_abi::{Callback, Error, Link, Loan, Message, Result};

pub(crate) struct Client<C: Connection> {
    // Dropped before the runtime.
    waiting: Vec<Call<C::Answer>>,
    /// Answers that arrived while a call waited for its turn.
    early: VecDeque<Result<Option<C::Answer>>>,
    connection: Option<C>,
    held: Option<C::Answer>,
    /// Under wait `callback` the host handles answers, and the task owns the connection.
    callback: Option<Callback>,
    calls: Option<CallTask>,
    caller: Option<Caller>,
    settings: WebSettings,
    blocks: Blocks,
    driver: Driver,
}

impl<C: Connection> Client<C> {
    pub(crate) fn new(driver: Driver, caller: Caller, settings: WebSettings, callback: Option<Callback>) -> Self {
        Self {
            waiting: Vec::with_capacity(settings.in_flight),
            early: VecDeque::new(),
            connection: None,
            held: None,
            callback,
            calls: None,
            caller: Some(caller),
            settings,
            blocks: Blocks::new(settings.max_payload_bytes),
            driver,
        }
    }

    /// Waits until another call may begin; `false` after the time-out.
    fn make_room(&mut self, timeout_ns: u64) -> Result<bool> {
        let (waiting, early, most) = (&mut self.waiting, &mut self.early, self.settings.in_flight);
        let has_room = waiting.len() < most;
        if C::IS_LAZY {
            let poll = |context: &mut Context<'_>| poll_waiting(waiting, context).map(|answer| early.push_back(answer));
            return Ok(has_room || self.driver.sleep(timeout_ns, poll).is_some());
        }
        let connection = self.connection.as_mut().ok_or_else(unconnected)?;
        if has_room && connection.is_ready() {
            return Ok(true);
        }
        let room = self.driver.sleep(timeout_ns, |context| {
            while waiting.len() >= most {
                early.push_back(ready!(poll_waiting(waiting, context)));
            }
            connection.poll_ready(context)
        });
        room.transpose().map(|room| room.is_some())
    }
}

impl<C: Connection> Link for Client<C> {
    fn address(&mut self) -> Result<Vec<u8>> {
        self.caller.as_ref().ok_or_else(unconnected)?.address()
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let caller = self.caller.take().ok_or_else(unconnected)?;
        let connection = self.driver.finish(timeout_ns, "a connection to the follower", caller.connect::<C>(peers))?;
        match self.callback {
            Some(callback) => {
                self.calls = Some(CallTask::start(&self.driver, connection, self.settings.in_flight, callback));
            }
            None => self.connection = Some(connection),
        }
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        self.blocks.lend(length)
    }

    fn publish(&mut self, _loan: Loan, timeout_ns: u64) -> Result<bool> {
        let body = Bytes::from_owner(self.blocks.give()?);
        if let Some(calls) = &self.calls {
            return calls.send(&self.driver, body, timeout_ns);
        }
        if !self.make_room(timeout_ns)? {
            return Ok(false);
        }
        if self.settings.is_one_way {
            self.early.drain(..).try_for_each(|answer| answer.map(drop))?;
        }
        let connection = self.connection.as_mut().ok_or_else(unconnected)?;
        if C::IS_LAZY {
            let mut call = connection.call(body);
            // Polled here, so that calls begin in order.
            match self.driver.turn(poll_fn(|context| Poll::Ready(call.as_mut().poll(context)))) {
                Poll::Ready(answer) => self.early.push_back(answer),
                Poll::Pending => self.waiting.push(call),
            }
        } else {
            self.driver.turn(async { self.waiting.push(connection.call(body)) });
        }
        Ok(true)
    }

    fn discard(&mut self, _loan: Loan) {
        self.blocks.discard();
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        if self.callback.is_some() {
            return Err(untakable());
        }
        let waiting = &mut self.waiting;
        let answer = match self.early.pop_front() {
            None => self.driver.wait(timeout_ns, |context| poll_waiting(waiting, context)),
            early => early,
        };
        match answer.transpose()?.flatten() {
            Some(answer) => {
                let message = answer.message()?;
                self.held = Some(answer);
                Ok(Some(message))
            }
            None if !C::IS_LAZY
                && self.waiting.is_empty()
                && self.connection.as_ref().is_none_or(Connection::is_closed) =>
            {
                Err(Error::closed("the connection to the follower has ended"))
            }
            None => Ok(None),
        }
    }

    fn release(&mut self, _message: Message) {
        self.held = None;
    }
}
