//! How many bytes the last queue holds ready for the consumer.
//!
//! A queue evens out times that differ from chunk to chunk, on both of its sides. What that takes shows in the queue
//! itself: how far it falls below its fullest (the *dip*) is the spread of the producer's and the consumer's times, added
//! up as they came. Where the producer has to wait for room half of the time and the dip is small, most of what lies ready
//! is never needed.
//!
//! 1. It begins with all that is allowed, and never holds more.
//! 2. It gives a quarter of it back at a time, down to what is needed: four dips, half a second of what the consumer takes
//!    (so that a pause of a disk is not felt), a chunk for each worker and one more, and a megabyte.
//! 3. A consumer that had to wait gets all of it back at once; and from then on it has twice what was too little. So it
//!    comes to rest after a few times, however rare the pauses are.

/// What was seen of a queue for some time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    pub ns: u64,
    /// Of that, the producer waited for room.
    pub room_ns: u64,
    /// Bytes that the consumer took, the largest chunk of them, and how far the queue fell below its fullest.
    pub taken: usize,
    pub chunk: usize,
    pub dip: usize,
    /// How often the consumer found nothing.
    pub waits: u64,
    /// Chunks that can be under way at once.
    pub calls: usize,
}

/// What a queue may hold, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depth {
    pub bytes: usize,
    /// Less has been too little before.
    least: usize,
    pub why: Ahead,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ahead {
    /// All that is allowed.
    #[default]
    Most,
    /// The producer is faster and both are steady.
    Steady,
    /// With less the consumer had to wait.
    Waited,
}

const DIPS: usize = 4;
/// Less is not worth saving.
const LEAST: usize = 1 << 20;
/// Nanoseconds of what the consumer takes.
const PAUSE_NS: u64 = 500_000_000;

impl Depth {
    pub fn new(bytes: usize) -> Depth {
        Depth { bytes, least: 0, why: Ahead::Most }
    }
    /// From what was seen, within `most`.
    pub fn next(self, pace: &Pace, most: usize) -> Depth {
        if pace.waits > 0 {
            return match self.bytes < most {
                true => Depth { bytes: most, least: self.bytes.saturating_mul(2).min(most), why: Ahead::Waited },
                false => self,
            };
        }
        if pace.room_ns.saturating_mul(2) < pace.ns {
            return self;
        }
        let pause = (pace.taken as f64 * PAUSE_NS as f64 / pace.ns.max(1) as f64) as usize;
        let chunks = pace.chunk.saturating_mul(pace.calls.max(1).saturating_add(1));
        let needed = pace.dip.saturating_mul(DIPS).max(pause).max(chunks).max(self.least).max(LEAST);
        // Little less is not worth a change.
        if needed.saturating_mul(5) / 4 >= self.bytes {
            return self;
        }
        Depth { bytes: needed.max(self.bytes - self.bytes / 4), why: Ahead::Steady, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;
    /// A second of a consumer that takes ten chunks of a megabyte.
    const SLOW: Pace =
        Pace { ns: 1_000_000_000, room_ns: 900_000_000, taken: 10 * MB, chunk: MB, dip: MB, waits: 0, calls: 1 };

    fn settle(from: Depth, pace: &Pace) -> Depth {
        (0..40).fold(from, |depth, _| depth.next(pace, 32 * MB))
    }

    #[test]
    fn a_slow_steady_consumer_needs_little_ahead() {
        let settled = settle(Depth::new(32 * MB), &SLOW);
        assert!((5 * MB..8 * MB).contains(&settled.bytes) && settled.why == Ahead::Steady, "{settled:?}");
        assert_eq!(settled.next(&SLOW, 32 * MB), settled, "it stands still");
        // At least two chunks, and one for each worker and one more.
        let rare = Pace { taken: 10_000, dip: 0, ..SLOW };
        assert!((2 * MB..4 * MB).contains(&settle(Depth::new(32 * MB), &rare).bytes));
        assert!(settle(Depth::new(32 * MB), &Pace { calls: 7, ..rare }).bytes >= 8 * MB);
    }

    #[test]
    fn it_stays_where_little_can_be_saved() {
        for pace in [
            // The producer hardly keeps up; both are fast; times differ a lot.
            Pace { room_ns: 400_000_000, ..SLOW },
            Pace { taken: 100 * MB, ..SLOW },
            Pace { dip: 8 * MB, ..SLOW },
            Pace { waits: 0, calls: 40, ..SLOW },
            // The consumer waits in any case.
            Pace { waits: 3, room_ns: 0, ..SLOW },
        ] {
            assert_eq!(settle(Depth::new(32 * MB), &pace), Depth::new(32 * MB), "{pace:?}");
        }
    }

    #[test]
    fn whoever_had_to_wait_gets_it_back_at_once_and_keeps_more() {
        let mut depth = settle(Depth::new(32 * MB), &SLOW);
        let mut before = depth.bytes;
        let mut waits = 0;
        while before < 32 * MB {
            depth = depth.next(&Pace { waits: 1, ..SLOW }, 32 * MB);
            assert_eq!((depth.bytes, depth.why), (32 * MB, Ahead::Waited));
            depth = settle(depth, &SLOW);
            assert!(depth.bytes >= (2 * before).min(25 * MB), "{depth:?}");
            waits += 1;
            before = if depth.bytes * 5 / 4 >= 32 * MB { 32 * MB } else { depth.bytes };
        }
        assert!(waits <= 4, "it comes to rest");
        // It gives back slowly.
        assert_eq!(Depth::new(32 * MB).next(&SLOW, 32 * MB).bytes, 24 * MB);
    }
}
