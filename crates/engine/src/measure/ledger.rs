//! Records of the messages that a sink receives, from one stream or from several publishers.

use super::Shared;
use super::arrivals::Arrivals;
use super::notes::Notes;
use crate::clock::Clock;
use crate::message::{self, TouchLimit};
use crate::wire::Arrived;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::Message;

/// Record of every message that arrives over a link: a type of the loop, so that nothing is decided per message.
pub trait Ledger {
    /// Notes that a message has come, before anything is done with it.
    fn arrived(&mut self);

    /// Counts the message; `latest` reads the clock afterwards.
    fn count(&mut self, message: &Message, touch: TouchLimit, latest: impl FnOnce() -> u64);

    /// Counts of all streams so far.
    fn counts(&self) -> Arrived;

    /// True if every stream is complete up to its last message, whose number the leader has sent.
    fn is_complete(&self) -> bool;

    /// True if the last message of each stream, or a later one, has come.
    fn is_past(&self) -> bool;
}

pub struct Single<'a, N> {
    pub notes: N,
    arrivals: Arrivals,
    shared: &'a Shared,
}

impl<'a, N: Notes> Single<'a, N> {
    /// Ledger of a stream whose first message has number `first`; the number of its last message comes in `shared`.
    pub fn new(first: u64, shared: &'a Shared, notes: N) -> Self {
        Self { notes, arrivals: Arrivals::new(first), shared }
    }
}

impl<N: Notes> Ledger for Single<'_, N> {
    #[inline(always)]
    fn arrived(&mut self) {
        self.notes.arrived();
    }

    #[inline(always)]
    fn count(&mut self, message: &Message, touch: TouchLimit, latest: impl FnOnce() -> u64) {
        let came = self.arrivals.count(message, touch);
        self.arrivals.counts.latest = Some(latest());
        self.notes.counted(came);
    }

    fn counts(&self) -> Arrived {
        self.arrivals.counts
    }

    fn is_complete(&self) -> bool {
        self.arrivals.is_complete(self.shared.last.load(Relaxed))
    }

    fn is_past(&self) -> bool {
        self.arrivals.is_past(self.shared.last.load(Relaxed))
    }
}

/// Ledger of several publishers, distinguished by the index in our header.
pub struct SeveralPublishers<'a, C, N> {
    clock: C,
    now: u64,
    streams: Vec<(Arrivals, N)>,
    /// Counts of messages with unreadable headers, or from an unknown publisher.
    nobodys: Arrived,
    shared: &'a [Shared],
}

impl<'a, C: Clock, N: Notes> SeveralPublishers<'a, C, N> {
    /// Ledger of publishers whose messages count from `first`. `notes` and `shared` have an item for each; that in
    /// `shared` has the number of its last message.
    pub fn new(clock: C, first: u64, notes: impl IntoIterator<Item = N>, shared: &'a [Shared]) -> Self {
        let stream = |(publisher, notes)| (Arrivals::for_publisher(first, publisher), notes);
        let streams = (0..).zip(notes).map(stream).collect();
        Self { clock, now: 0, streams, nobodys: Arrived::default(), shared }
    }

    /// Counts of each publisher, and of messages from no known publisher.
    pub fn into_parts(self) -> (Vec<Arrived>, Arrived) {
        (self.streams.iter().map(|(arrivals, _)| arrivals.counts).collect(), self.nobodys)
    }

    /// Arrivals of each publisher, with the number of its last message.
    fn ends(&self) -> impl Iterator<Item = (&Arrivals, u64)> {
        self.streams.iter().zip(self.shared).map(|((arrivals, _), shared)| (arrivals, shared.last.load(Relaxed)))
    }
}

impl<C: Clock, N: Notes> Ledger for SeveralPublishers<'_, C, N> {
    #[inline(always)]
    fn arrived(&mut self) {
        if N::STAMPS {
            self.now = self.clock.now();
        }
    }

    #[inline(always)]
    fn count(&mut self, message: &Message, touch: TouchLimit, latest: impl FnOnce() -> u64) {
        let whose = message::header(message).and_then(|header| header.intact_of(message.length));
        match whose.and_then(|(_, publisher)| self.streams.get_mut(publisher as usize)) {
            Some((arrivals, notes)) => {
                let came = arrivals.count(message, touch);
                arrivals.counts.latest = Some(latest());
                notes.came_at(self.now);
                notes.counted(came);
            }
            None => {
                self.nobodys.damaged += 1;
                self.nobodys.latest = Some(latest());
            }
        }
    }

    fn counts(&self) -> Arrived {
        let mut sum = self.nobodys;
        self.streams.iter().for_each(|(arrivals, _)| sum.add(&arrivals.counts));
        sum
    }

    fn is_complete(&self) -> bool {
        let missing: u64 = self.ends().map(|(arrivals, last)| arrivals.missing(last)).sum();
        missing <= self.nobodys.damaged
    }

    fn is_past(&self) -> bool {
        self.ends().all(|(arrivals, last)| arrivals.is_past(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::notes::{AGAIN, Arrival, ArrivalMemory, NEVER, OVERTAKEN};
    use crate::message::{Header, Kind};
    use std::cell::Cell;
    use std::ptr::null_mut;
    use std::sync::atomic::AtomicU64;

    /// Clock that shows the number of the message just coming.
    #[derive(Clone, Copy)]
    struct Count<'a>(&'a AtomicU64);

    impl Clock for Count<'_> {
        fn now(&self) -> u64 {
            self.0.load(Relaxed)
        }
    }

    type Publishers<'a> = SeveralPublishers<'a, Count<'a>, Arrival<'a, Count<'a>>>;

    fn notes<'a>(memory: &'a mut ArrivalMemory, now: &'a AtomicU64, first: u64) -> Vec<Arrival<'a, Count<'a>>> {
        memory.logs(0).into_iter().map(|log| Arrival::new(Count(now), first, log)).collect()
    }

    fn come<'a>(ledger: &mut Publishers<'a>, now: &AtomicU64, header: Header, length: usize) {
        now.fetch_add(1, Relaxed);
        ledger.arrived();
        let message = Message { data: (&raw const header).cast(), length, token: null_mut() };
        ledger.count(&message, TouchLimit::NONE, || now.load(Relaxed));
    }

    fn memory(messages: &[u64]) -> ArrivalMemory {
        ArrivalMemory::create(messages.to_vec(), 1).unwrap()
    }

    #[test]
    fn each_publisher_has_numbers_counts_and_stamps_of_its_own() {
        let (now, shared) = (AtomicU64::new(0), [Shared::default(), Shared::default()]);
        let mut memory = memory(&[3, 4]);
        let mut ledger = SeveralPublishers::new(Count(&now), 11, notes(&mut memory, &now, 11), &shared);
        // Publisher 0: 12 is overtaken and 13 comes twice. Publisher 1: 12 is lost, and all else comes in order.
        for (publisher, sequence) in [(0, 11), (1, 11), (0, 13), (1, 13), (0, 12), (0, 13), (1, 14)] {
            come(&mut ledger, &now, Header::from_sender(sequence, Kind::Ping, 16, publisher), 16);
        }
        shared.iter().zip([13, 14]).for_each(|(shared, last)| shared.last.store(last, Relaxed));
        assert!(ledger.is_past() && !ledger.is_complete());
        // There is no publisher 2.
        come(&mut ledger, &now, Header::from_sender(11, Kind::Ping, 16, 2), 16);
        assert_eq!((ledger.is_complete(), ledger.counts().received, ledger.counts().latest), (true, 6, Some(8)));
        let (streams, nobodys) = ledger.into_parts();
        assert_eq!(nobodys, Arrived { damaged: 1, latest: Some(8), ..Arrived::default() });
        let [first, second] = &streams[..] else { panic!("two publishers") };
        assert_eq!((first.received, first.duplicated, first.reordered, first.damaged), (3, 1, 1, 0));
        assert_eq!((second.received, second.duplicated, second.reordered, second.damaged), (3, 0, 0, 0));
        assert_eq!([first, second].map(|stream| stream.latest), [Some(6), Some(7)]);
        let logs = memory.logs(0);
        assert_eq!((&*logs[0].ticks, &*logs[0].marks), (&[1, 5, 3][..], &[0, OVERTAKEN, AGAIN][..]));
        assert_eq!((&*logs[1].ticks, &*logs[1].marks), (&[2, NEVER, 4, 7][..], &[0; 4][..]));
    }

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    /// Clock that moves only when the test says so.
    #[derive(Clone, Copy)]
    struct Told;

    impl Clock for Told {
        fn now(&self) -> u64 {
            NOW.get()
        }
    }

    #[test]
    fn a_message_is_stamped_before_it_is_verified() {
        let shared = [Shared::default()];
        let mut memories = [memory(&[3]), memory(&[3])];
        let [one, other] = memories.each_mut().map(|memory| memory.logs(0));
        let mut single = Single::new(1, &shared[0], Arrival::new(Told, 1, one.into_iter().next().unwrap()));
        let mut several =
            SeveralPublishers::new(Told, 1, other.into_iter().map(|log| Arrival::new(Told, 1, log)), &shared);
        // The last one was overtaken, so it is verified off the fast path.
        for (index, sequence) in (0..).zip([1, 3, 2]) {
            let header = Header::new(sequence, Kind::Ping, 16);
            let message = Message { data: (&raw const header).cast(), length: 16, token: null_mut() };
            NOW.set(10 * index);
            single.arrived();
            several.arrived();
            // Time spent on verifying must not be in the stamp.
            NOW.set(1000);
            single.count(&message, TouchLimit::NONE, || NOW.get());
            assert_eq!(single.counts().latest, Some(1000));
            several.count(&message, TouchLimit::NONE, || NOW.get());
        }
        for memory in &mut memories {
            assert_eq!(memory.logs(0)[0].ticks, [0, 20, 10]);
        }
    }

    #[test]
    fn a_header_that_nobody_can_read_is_no_publishers_damage() {
        let (now, shared) = (AtomicU64::new(0), [Shared::default(), Shared::default()]);
        let mut memory = memory(&[1, 1]);
        let mut ledger = SeveralPublishers::new(Count(&now), 1, notes(&mut memory, &now, 1), &shared);
        come(&mut ledger, &now, Header::from_sender(1, Kind::Ping, 17, 1), 16);
        come(&mut ledger, &now, Header::from_sender(1, Kind::Ping, 16, 0), 16);
        let (streams, nobodys) = ledger.into_parts();
        assert_eq!((nobodys.damaged, streams[0].received, streams[1].damaged), (1, 1, 0));
    }
}
