//! A link: one segment, one ring per direction.
#![expect(unsafe_code, reason = "memory that is lent or shared")]

use crate::fan::Fan;
use crate::ring::{Consumer, Producer};
use crate::segment::{Geometry, Segment};
use std::thread;
use std::time::{Duration, Instant};
use tripmeter_abi::{Error, Link, Loan, Message, NodeOptions, Result, Role, Status, Wait};

/// Interval at which the leader checks for followers.
const CONNECT_STEP: Duration = Duration::from_micros(200);

pub struct ShmLink {
    producer: Option<Producer>,
    consumer: Option<Consumer>,
    /// Replaces the two rings in a leader with several followers.
    fan: Option<Box<Fan>>,
    max_payload_bytes: usize,
    role: Role,
    followers: u32,
    follower: u32,
    sleeps: bool,
    name: String,
    /// Dropped last: the rings point into it.
    segment: Option<Segment>,
}

// SAFETY: the rings point into the segment, which moves along; one thread at a time uses a link.
unsafe impl Send for ShmLink {}

impl ShmLink {
    pub(crate) fn open(options: &NodeOptions, geometry: Geometry, index: u32) -> Result<Self> {
        let name = format!("{}-{index}", options.run_id);
        let sleeps = options.wait == Wait::Block;
        let segment = match options.role {
            Role::Leader => Some(Segment::create(&name, geometry, sleeps)?),
            Role::Follower => None,
        };
        let (role, followers, follower) = (options.role, options.follower_count.max(1), options.follower_index);
        let (producer, consumer, fan, max_payload_bytes) = (None, None, None, 0);
        Ok(Self { producer, consumer, fan, max_payload_bytes, role, followers, follower, sleeps, name, segment })
    }

    fn attach(&mut self) {
        let Some(segment) = &self.segment else { return };
        self.max_payload_bytes = segment.geometry().payload_bytes();
        let ends = |follower| {
            let (write, read) = segment.rings(self.role, follower);
            // SAFETY: the segment lives as long as the link, and each role has its own end of each ring.
            unsafe { (write.map(|place| Producer::new(place)), read.map(|place| Consumer::new(place))) }
        };
        if self.role == Role::Leader && self.followers > 1 {
            let (producers, consumers): (Vec<_>, Vec<_>) = (0..self.followers).map(ends).unzip();
            let fan = Fan::new(producers.into_iter().flatten().collect(), consumers.into_iter().flatten().collect());
            self.fan = Some(Box::new(fan));
        } else {
            (self.producer, self.consumer) = ends(self.follower);
        }
    }

    #[inline(never)]
    fn loan_for_all(&self, length: usize) -> Result<Loan> {
        match &self.fan {
            Some(fan) if length <= self.max_payload_bytes => Ok(fan.loan(length)),
            _ => Err(self.refuse_loan(length)),
        }
    }

    #[inline(never)]
    fn publish_to_all(&mut self, length: usize, timeout_ns: u64) -> bool {
        self.fan.as_mut().is_some_and(|fan| fan.publish(length, timeout_ns))
    }

    #[inline(never)]
    fn take_of_any(&mut self, timeout_ns: u64) -> Option<Message> {
        self.fan.as_mut().and_then(|fan| fan.take(timeout_ns))
    }

    #[inline(never)]
    fn release_of_any(&mut self) {
        if let Some(fan) = &mut self.fan {
            fan.release();
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse_loan(&self, length: usize) -> Error {
        if self.producer.is_none() && self.fan.is_none() {
            return Error::new(Status::Invalid, "this side of the link does not send, or is not connected");
        }
        let limit = self.max_payload_bytes;
        Error::new(Status::Limit, format!("a message of {length} bytes is longer than the chunk of {limit} bytes"))
    }
}

impl Link for ShmLink {
    fn address(&mut self) -> Result<Vec<u8>> {
        Ok(match self.role {
            Role::Leader => self.name.clone().into_bytes(),
            Role::Follower => Vec::new(),
        })
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let expected = if self.role == Role::Leader { self.followers as usize } else { 1 };
        let Some(peer) = peers.first().filter(|_| peers.len() == expected) else {
            let text = format!("this end connects {expected} peer(s), not {}", peers.len());
            return Err(Error::new(Status::Invalid, text));
        };
        if let Some(segment) = &self.segment {
            let (start, timeout) = (Instant::now(), Duration::from_nanos(timeout_ns));
            while segment.connected() < u64::from(self.followers) {
                if start.elapsed() >= timeout {
                    let (count, all) = (segment.connected(), self.followers);
                    let text =
                        format!("{count} of {all} followers opened shared memory '{}' within {timeout:?}", self.name);
                    return Err(Error::failed(text));
                }
                thread::sleep(CONNECT_STEP);
            }
        } else {
            self.name = String::from_utf8_lossy(peer).into_owned();
            self.segment = Some(Segment::join(&self.name, self.sleeps, self.follower, self.followers.into())?);
        }
        self.attach();
        Ok(())
    }

    #[inline(always)]
    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        match &self.producer {
            Some(producer) if length <= self.max_payload_bytes => Ok(producer.loan(length)),
            _ => self.loan_for_all(length),
        }
    }

    #[inline(always)]
    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
        Ok(match &mut self.producer {
            Some(producer) => producer.publish(loan.length, timeout_ns),
            None => self.publish_to_all(loan.length, timeout_ns),
        })
    }

    #[inline(always)]
    fn discard(&mut self, _loan: Loan) {}

    #[inline(always)]
    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        Ok(match &mut self.consumer {
            Some(consumer) => consumer.take(timeout_ns),
            None => self.take_of_any(timeout_ns),
        })
    }

    #[inline(always)]
    fn release(&mut self, _message: Message) {
        match &mut self.consumer {
            Some(consumer) => consumer.release(),
            None => self.release_of_any(),
        }
    }
}
