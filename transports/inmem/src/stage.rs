//! Receiving end of a direction, where faults happen: a queue of parcels in, deliveries out.
//!
//! Without clock and thread: the real link and the scripted one both run it.

use crate::faults::Faults;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) buffer: u32,
    pub(crate) length: usize,
    /// Earliest time of delivery.
    pub(crate) due_ns: u64,
}

/// Source of parcels, and owner of their buffers.
pub(crate) trait Source {
    fn pull(&mut self) -> Option<Parcel>;
    /// True if the sender has closed; earlier parcels can still be pulled.
    fn has_ended(&self) -> bool;
    /// Announces that the buffer will be delivered, and returned, `times`.
    fn share(&mut self, buffer: u32, times: u32);
    fn give_back(&mut self, buffer: u32);
    fn bytes(&mut self, parcel: &Parcel) -> &mut [u8];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Deliver(Parcel),
    /// A delivery is due at this time, and none before.
    NotBefore(u64),
    Nothing,
    Ended,
}

/// Applies the faults of one direction, message by message.
pub(crate) struct Stage {
    faults: Faults,
    is_clean: bool,
    number: u64,
    /// In order of delivery: those behind the first wait for it.
    out: VecDeque<Parcel>,
    /// Held back, with the number of its deliveries.
    held: Option<(Parcel, u32)>,
}

impl Stage {
    pub(crate) fn new(faults: Faults) -> Self {
        let is_clean = faults.is_empty();
        Self { faults, is_clean, number: 0, out: VecDeque::with_capacity(8), held: None }
    }

    /// Next delivery. Calls `now_ns` only if a time matters.
    #[inline]
    pub(crate) fn next(&mut self, source: &mut impl Source, now_ns: impl Fn() -> u64) -> Next {
        if self.is_clean {
            let has_ended = source.has_ended();
            return match source.pull() {
                Some(parcel) if parcel.due_ns > 0 => self.queue_alone(parcel, now_ns),
                Some(parcel) => Next::Deliver(parcel),
                None if self.out.is_empty() && has_ended => Next::Ended,
                None => self.first_due(now_ns),
            };
        }
        self.next_faulty(source, now_ns)
    }

    pub(crate) fn delay_ns(&self) -> u64 {
        self.faults.delay_ns
    }

    fn queue_alone(&mut self, parcel: Parcel, now_ns: impl Fn() -> u64) -> Next {
        self.out.push_back(parcel);
        self.first_due(now_ns)
    }

    fn first_due(&mut self, now_ns: impl Fn() -> u64) -> Next {
        match self.out.front() {
            None => Next::Nothing,
            Some(parcel) if parcel.due_ns > 0 && parcel.due_ns > now_ns() => Next::NotBefore(parcel.due_ns),
            Some(parcel) => {
                let parcel = *parcel;
                self.out.pop_front();
                Next::Deliver(parcel)
            }
        }
    }

    fn next_faulty(&mut self, source: &mut impl Source, now_ns: impl Fn() -> u64) -> Next {
        while self.out.is_empty() {
            let has_ended = source.has_ended();
            match source.pull() {
                Some(parcel) => self.pass(source, parcel),
                None if has_ended && self.held.is_some() => self.let_go(),
                None if has_ended => return Next::Ended,
                None => return Next::Nothing,
            }
        }
        self.first_due(now_ns)
    }

    /// Loses, damages, stalls, duplicates or holds one parcel.
    fn pass(&mut self, source: &mut impl Source, mut parcel: Parcel) {
        self.number += 1;
        let (number, faults) = (self.number, &self.faults);
        if faults.lose.contains(number) {
            source.give_back(parcel.buffer);
            return;
        }
        self.damage(source, &parcel);
        parcel.due_ns += faults.stall_ns(number);
        let times = 1 + u32::from(faults.duplicate.contains(number));
        if times > 1 {
            source.share(parcel.buffer, times);
        }
        if faults.reorder.contains(number) && self.held.is_none() {
            self.held = Some((parcel, times));
            return;
        }
        self.deliver(parcel, times);
        self.let_go();
    }

    fn damage(&self, source: &mut impl Source, parcel: &Parcel) {
        let number = self.number;
        let bytes = source.bytes(parcel);
        let flip = 1 << (number % 8);
        if self.faults.damage.contains(number) && !bytes.is_empty() {
            let at = (number % 16) as usize % bytes.len();
            bytes[at] ^= flip;
        }
        if self.faults.damage_body.contains(number)
            && let Some(last) = bytes.last_mut()
        {
            *last ^= flip;
        }
    }

    fn deliver(&mut self, parcel: Parcel, times: u32) {
        (0..times).for_each(|_| self.out.push_back(parcel));
    }

    fn let_go(&mut self) {
        if let Some((parcel, times)) = self.held.take() {
            self.deliver(parcel, times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parcels in buffers numbered from 1, in order of sending.
    #[derive(Default)]
    struct Sent {
        left: VecDeque<Parcel>,
        bytes: [u8; 32],
        given_back: Vec<u32>,
        shared: Vec<(u32, u32)>,
        has_ended: bool,
    }

    impl Source for Sent {
        fn pull(&mut self) -> Option<Parcel> {
            self.left.pop_front()
        }
        fn has_ended(&self) -> bool {
            self.has_ended
        }
        fn share(&mut self, buffer: u32, times: u32) {
            self.shared.push((buffer, times));
        }
        fn give_back(&mut self, buffer: u32) {
            self.given_back.push(buffer);
        }
        fn bytes(&mut self, parcel: &Parcel) -> &mut [u8] {
            &mut self.bytes[..parcel.length]
        }
    }

    fn sent(count: u32) -> Sent {
        let parcel = |buffer| Parcel { buffer, length: 32, due_ns: 0 };
        Sent { left: (1..=count).map(parcel).collect(), ..Sent::default() }
    }

    fn stage(settings: &[(&str, &'static str)]) -> Stage {
        let get = |name: &str| settings.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| *value);
        let [faults, _] = Faults::parse(get).unwrap();
        Stage::new(faults)
    }

    fn deliveries(settings: &[(&str, &'static str)], source: &mut Sent) -> Vec<u32> {
        let mut stage = stage(settings);
        std::iter::from_fn(|| match stage.next(source, || 0) {
            Next::Deliver(parcel) => Some(parcel.buffer),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn without_faults_all_arrive() {
        assert_eq!(deliveries(&[], &mut sent(3)), [1, 2, 3]);
    }

    #[test]
    fn loss_and_duplication_are_exact() {
        let mut source = sent(6);
        assert_eq!(deliveries(&[("lose", "2,every:5"), ("duplicate", "3,5")], &mut source), [1, 3, 3, 4, 6]);
        assert_eq!((source.given_back, source.shared), (vec![2, 5], vec![(3, 2)]));
    }

    #[test]
    fn a_reordered_message_follows_the_next_one_delivered() {
        assert_eq!(deliveries(&[("reorder", "2")], &mut sent(4)), [1, 3, 2, 4]);
        assert_eq!(deliveries(&[("reorder", "2"), ("lose", "3")], &mut sent(4)), [1, 4, 2]);
        assert_eq!(deliveries(&[("reorder", "2"), ("duplicate", "2")], &mut sent(3)), [1, 3, 2, 2]);
        assert_eq!(deliveries(&[("reorder", "2,3")], &mut sent(4)), [1, 3, 2, 4]);
    }

    #[test]
    fn a_held_message_comes_at_the_end() {
        let mut source = sent(2);
        assert_eq!(deliveries(&[("reorder", "2")], &mut source), [1]);
        let mut source = Sent { has_ended: true, ..sent(2) };
        assert_eq!(deliveries(&[("reorder", "2")], &mut source), [1, 2]);
    }

    #[test]
    fn damage_is_one_bit() {
        for (setting, at) in [("damage", 9), ("damage_body", 31)] {
            let mut source = sent(12);
            assert_eq!(deliveries(&[(setting, "9")], &mut source).len(), 12);
            let mut expected = [0; 32];
            expected[at] = 1 << 1;
            assert_eq!(source.bytes, expected);
        }
    }

    #[test]
    fn a_stall_keeps_back_its_message_and_all_behind_it() {
        let (mut stage, mut source) = (stage(&[("stall", "2:50ns")]), sent(3));
        for parcel in &mut source.left {
            parcel.due_ns = 100;
        }
        let mut next = |now_ns| stage.next(&mut source, || now_ns);
        assert!(matches!(next(100), Next::Deliver(Parcel { buffer: 1, .. })));
        assert_eq!(next(149), Next::NotBefore(150));
        assert!(matches!(next(150), Next::Deliver(Parcel { buffer: 2, .. })));
        assert!(matches!(next(150), Next::Deliver(Parcel { buffer: 3, .. })));
        assert_eq!(next(150), Next::Nothing);
    }
}
