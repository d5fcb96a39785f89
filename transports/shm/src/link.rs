//! A link: one segment, one ring per direction.

use crate::ring::{Consumer, Producer};
use crate::segment::{Geometry, Segment};
use std::thread;
use std::time::{Duration, Instant};
use tripmeter_abi::{Error, Link, Loan, Message, NodeOptions, Result, Role, Status, Wait};

/// Between two looks for the follower.
const CONNECT_STEP: Duration = Duration::from_micros(200);

/// One topic or client.
pub struct ShmLink {
    producer: Option<Producer>,
    consumer: Option<Consumer>,
    max_payload_bytes: usize,
    role: Role,
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
        let role = options.role;
        Ok(Self { producer: None, consumer: None, max_payload_bytes: 0, role, sleeps, name, segment })
    }

    fn attach(&mut self) {
        let Some(segment) = &self.segment else { return };
        let (write, read) = segment.rings(self.role);
        self.max_payload_bytes = segment.geometry().payload_bytes();
        // SAFETY: the segment lives as long as the link, and each role has its own end of each ring.
        unsafe {
            self.producer = write.map(|place| Producer::new(place));
            self.consumer = read.map(|place| Consumer::new(place));
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse_loan(&self, length: usize) -> Error {
        if self.producer.is_none() {
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
        let [peer] = peers else {
            let text = format!("system 'shm' connects 1 follower per leader, not {}", peers.len());
            return Err(Error::new(Status::Invalid, text));
        };
        if let Some(segment) = &self.segment {
            let (start, timeout) = (Instant::now(), Duration::from_nanos(timeout_ns));
            while !segment.is_connected() {
                if start.elapsed() >= timeout {
                    let text = format!("no follower opened shared memory '{}' within {timeout:?}", self.name);
                    return Err(Error::failed(text));
                }
                thread::sleep(CONNECT_STEP);
            }
        } else {
            self.name = String::from_utf8_lossy(peer).into_owned();
            self.segment = Some(Segment::join(&self.name, self.sleeps)?);
        }
        self.attach();
        Ok(())
    }

    #[inline(always)]
    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        match &self.producer {
            Some(producer) if length <= self.max_payload_bytes => Ok(producer.loan(length)),
            _ => Err(self.refuse_loan(length)),
        }
    }

    #[inline(always)]
    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
        Ok(self.producer.as_mut().is_some_and(|producer| producer.publish(loan.length, timeout_ns)))
    }

    #[inline(always)]
    fn discard(&mut self, _loan: Loan) {}

    #[inline(always)]
    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        Ok(self.consumer.as_mut().and_then(|consumer| consumer.take(timeout_ns)))
    }

    #[inline(always)]
    fn release(&mut self, message: Message) {
        if let Some(consumer) = &mut self.consumer {
            consumer.release(&message);
        }
    }
}
