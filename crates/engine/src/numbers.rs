//! Record of the sequence numbers that have arrived. It alone decides which are missing, reordered or duplicated.

/// Largest number of gaps. Beyond it, the oldest half is dropped; numbers in dropped gaps count as duplicated.
const MOST_GAPS: usize = 1 << 16;

/// Number of gaps with room from the start.
const USUAL_GAPS: usize = 256;

/// Missing numbers, as ranges in ascending order.
#[derive(Debug, Default)]
pub struct Gaps(Vec<(u64, u64)>);

impl Gaps {
    pub fn with_room() -> Self {
        Self(Vec::with_capacity(USUAL_GAPS))
    }

    /// Adds the numbers from `first` to `last`, which are larger than all missing ones.
    pub fn add(&mut self, first: u64, last: u64) {
        match self.0.last_mut() {
            Some(gap) if gap.1 + 1 == first => gap.1 = last,
            _ => {
                self.make_room();
                self.0.push((first, last));
            }
        }
    }

    /// Removes a number; false if it was not missing.
    pub fn fill(&mut self, number: u64) -> bool {
        let Some(place) = self.find(number) else { return false };
        let (first, last) = self.0[place];
        match (first == number, last == number) {
            (true, true) => drop(self.0.remove(place)),
            (true, false) => self.0[place].0 += 1,
            (false, true) => self.0[place].1 -= 1,
            (false, false) => {
                self.make_room();
                // Making room may have moved or dropped the gap.
                if let Some(place) = self.find(number) {
                    self.0[place].0 = number + 1;
                    self.0.insert(place, (first, number - 1));
                }
            }
        }
        true
    }

    fn find(&self, number: u64) -> Option<usize> {
        let place = self.0.partition_point(|(_, last)| *last < number);
        self.0.get(place).is_some_and(|(first, _)| *first <= number).then_some(place)
    }

    fn make_room(&mut self) {
        if self.0.len() + 1 >= MOST_GAPS {
            self.0.drain(..MOST_GAPS / 2);
        }
    }
}

/// Position of a number relative to the earlier arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Smaller than the first number of the sequence.
    Earlier,
    /// Larger than all numbers before it.
    Ahead,
    /// New, but smaller than a number that arrived before.
    Overtaken,
    /// Arrived before: a duplicate.
    Again,
}

#[derive(Debug)]
pub struct Numbers {
    first: u64,
    /// Largest arrived number plus one.
    next: u64,
    gaps: Gaps,
}

impl Numbers {
    pub fn new(first: u64) -> Self {
        Self { first, next: first, gaps: Gaps::with_room() }
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number that comes next if nothing goes wrong.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Records the arrival of [`Numbers::next`], and returns it.
    #[inline(always)]
    pub fn advance(&mut self) -> u64 {
        let number = self.next;
        self.next = number.saturating_add(1);
        number
    }

    /// Records the arrival of a number, and returns its place.
    pub fn add(&mut self, number: u64) -> Place {
        if number < self.first {
            Place::Earlier
        } else if number >= self.next {
            if number > self.next {
                self.gaps.add(self.next, number - 1);
            }
            // A damaged number may be the largest possible one.
            self.next = number.saturating_add(1);
            Place::Ahead
        } else if self.gaps.fill(number) {
            Place::Overtaken
        } else {
            Place::Again
        }
    }

    /// True if the number has arrived, or its gap was dropped.
    pub fn contains(&self, number: u64) -> bool {
        (self.first..self.next).contains(&number) && self.gaps.find(number).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn any_order_with_repetition_is_judged_as_by_a_set() {
        const FIRST: u64 = 11;
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let (mut numbers, mut seen) = (Numbers::new(FIRST), BTreeSet::new());
            for _ in 0..400 {
                let number = random.u64(FIRST - 3..FIRST + 200);
                let highest = seen.last().copied();
                let expected = match number {
                    _ if number < FIRST => Place::Earlier,
                    _ if !seen.insert(number) => Place::Again,
                    _ if highest.is_some_and(|highest| number < highest) => Place::Overtaken,
                    _ => Place::Ahead,
                };
                assert_eq!(numbers.add(number), expected, "{number}");
                assert!((FIRST - 3..FIRST + 210).all(|other| numbers.contains(other) == seen.contains(&other)));
            }
            assert_eq!(numbers.next(), seen.last().map_or(FIRST, |last| last + 1));
        }
    }

    #[test]
    fn the_next_number_advances_without_a_gap() {
        let mut numbers = Numbers::new(5);
        assert_eq!((numbers.advance(), numbers.advance(), numbers.next()), (5, 6, 7));
        assert_eq!((numbers.add(6), numbers.add(7)), (Place::Again, Place::Ahead));
        assert!(numbers.gaps.0.is_empty() && numbers.gaps.0.capacity() <= USUAL_GAPS);
    }

    #[test]
    fn the_last_number_there_is_ends_nothing() {
        const MOST: u64 = u64::MAX;
        let mut numbers = Numbers::new(5);
        assert_eq!((numbers.add(MOST), numbers.next()), (Place::Ahead, MOST));
        assert_eq!((numbers.advance(), numbers.next()), (MOST, MOST));
        assert_eq!(
            [MOST - 1, 5, 7, 7].map(|number| numbers.add(number)),
            [Place::Overtaken, Place::Overtaken, Place::Overtaken, Place::Again]
        );
        assert!(numbers.add(MOST) == Place::Ahead && numbers.contains(7) && !numbers.contains(6));
    }

    #[test]
    fn neighbours_are_one_gap() {
        let mut gaps = Gaps::default();
        gaps.add(3, 3);
        gaps.add(4, 4);
        gaps.add(6, 6);
        assert_eq!(gaps.0, [(3, 4), (6, 6)]);
    }

    #[test]
    fn of_more_gaps_than_room_the_oldest_are_forgotten() {
        let mut numbers = Numbers::new(11);
        for index in 0..MOST_GAPS as u64 + 10 {
            assert_eq!(numbers.add(12 + 2 * index), Place::Ahead);
        }
        assert!(numbers.gaps.0.len() < MOST_GAPS && numbers.gaps.0.capacity() <= MOST_GAPS);
        assert_eq!(numbers.add(11), Place::Again, "its gap is forgotten");
        assert_eq!(numbers.add(12 + 2 * MOST_GAPS as u64 - 1), Place::Overtaken);
        // Splitting a gap needs room, too.
        let mut gaps = Gaps::default();
        (0..MOST_GAPS as u64 - 1).for_each(|index| gaps.add(10 * index, 10 * index + 5));
        assert!(gaps.fill(3), "forgotten while room is made");
        let last = 10 * (MOST_GAPS as u64 - 2);
        assert!(gaps.fill(last + 3) && gaps.0.ends_with(&[(last, last + 2), (last + 4, last + 5)]));
    }
}
