//! How many rows travel together.
//!
//! A step should take long against its overhead (up to 15 us where a thread has to be woken for its results) and short
//! against a batch, and its results should fit into the second-level cache. Cheap rows travel by the thousand; a picture
//! travels alone. If a batch stands behind it and is not too large, a chunk may grow to a whole one: `batch` then only gives
//! it another shape. Parts of larger batches gain nothing by being large, since they are made side by side
//! (`runtime/batches.rs`).

const TARGET_NS: u64 = 1_000_000;
/// A step that holds Python's lock hands it over when it ends, which costs whoever gets it a wake-up, and side by side they gain
/// nothing. After that time the interpreter would have it handed over anyway.
const LOCKED_NS: u64 = 5_000_000;
const CHUNK_BYTES: usize = 256 << 10;
const BATCH_NS: u64 = 2_000_000;
const BATCH_BYTES: usize = 4 << 20;
const MAX_ROWS: usize = 1 << 16;

/// What bounds a chunk besides its cost.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// The rows of a batch that stands behind it; 1 if there is none.
    pub grain: usize,
    /// Where memory is short: its bytes.
    pub room: usize,
    /// Its step holds Python's lock.
    pub locks: bool,
}

impl Around {
    fn target_ns(&self) -> u64 {
        if self.locks { LOCKED_NS } else { TARGET_NS }
    }
}

/// Rows for the next chunk, from what the last one took: `asked` rows wanted, `rows` had, `bytes` made in `ns`.
pub fn next_rows(asked: usize, rows: usize, bytes: usize, ns: u64, around: Around) -> usize {
    let Around { grain, room, .. } = around;
    // A chunk that came out short says nothing about a full one.
    let full = rows * 2 > asked;
    let per_batch = |n: u64| (n / rows.max(1) as u64).saturating_mul(grain as u64);
    let fits = per_batch(ns) <= 2 * BATCH_NS && per_batch(bytes as u64) <= 2 * BATCH_BYTES as u64;
    let most = |in_batch: bool| match in_batch && fits {
        true => (BATCH_NS.max(around.target_ns()), BATCH_BYTES.min(room)),
        false => (around.target_ns(), CHUNK_BYTES.min(room)),
    };
    let (most_ns, most_bytes) = most(asked < grain);
    if full && ns * 2 < most_ns && bytes * 2 <= most_bytes && asked < MAX_ROWS {
        return if asked < grain { (asked * 2).min(grain) } else { asked * 2 };
    }
    let (most_ns, most_bytes) = most(asked <= grain);
    if asked > 1 && (ns > most_ns * 2 || bytes > most_bytes * 2) {
        return asked / 2;
    }
    asked
}

/// Why chunks have the number of rows that they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Because {
    /// It has not been found yet.
    #[default]
    Growing,
    /// It was asked for.
    Fixed,
    /// They are whole batches.
    Batch,
    /// A step takes long enough.
    Time,
    /// The results of a step would not fit into the processor's cache, or into memory.
    Bytes,
    /// The input gives no more at a time.
    Input,
    /// There are never more.
    Most,
    /// They are messages to another process.
    Message,
}

/// Why the next chunk has `asked` rows, after a step like this: see `next_rows`.
pub fn because(asked: usize, rows: usize, bytes: usize, ns: u64, around: Around) -> Because {
    let Around { grain, room, .. } = around;
    let each = asked as f64 / rows.max(1) as f64;
    let (ns, bytes) = ((ns as f64 * each) as u64, (bytes as f64 * each) as usize);
    if asked == grain && grain > 1 {
        Because::Batch
    } else if bytes * 2 > CHUNK_BYTES.min(room) {
        Because::Bytes
    } else if ns * 2 >= around.target_ns() {
        Because::Time
    } else if rows * 2 <= asked {
        Because::Input
    } else if asked >= MAX_ROWS {
        Because::Most
    } else {
        Because::Growing
    }
}

/// `want` rows or some fewer, so that a batch of `grain` rows, of which `begun` are there, ends where the chunk does:
/// those behind it are then cut out of chunks without a copy, at addresses that NumPy takes.
pub fn whole_batches(want: usize, begun: usize, grain: usize) -> usize {
    if want < grain || grain < 2 { want } else { want - (begun + want) % grain }
}

/// A message to another process costs some tens of microseconds, and a wake-up on each side.
const MESSAGE_NS: u64 = 4_000_000;
const MESSAGE_BYTES: usize = 4 << 20;

/// The same for rows that travel to another process, where a message is to have `most` bytes.
pub fn next_rows_away(asked: usize, rows: usize, bytes: usize, ns: u64, most: usize) -> usize {
    let (full, most) = (rows * 2 > asked, MESSAGE_BYTES.min(most));
    if full && ns * 2 < MESSAGE_NS && bytes * 2 <= most && asked < MAX_ROWS {
        return asked * 2;
    }
    if asked > 1 && (ns > MESSAGE_NS * 2 || bytes > most * 2) {
        return asked / 2;
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(grain: usize) -> Around {
        Around { grain, room: usize::MAX, locks: false }
    }
    fn settle_in(row_bytes: usize, row_ns: u64, around: Around) -> usize {
        (0..40).fold(1, |rows, _| next_rows(rows, rows, rows * row_bytes, rows as u64 * row_ns, around))
    }
    fn settle(row_bytes: usize, row_ns: u64, grain: usize) -> usize {
        settle_in(row_bytes, row_ns, before(grain))
    }

    #[test]
    fn cheap_rows_gather_and_dear_ones_travel_alone() {
        assert_eq!(settle(8, 2, 1) * 8, CHUNK_BYTES);
        assert_eq!(settle(600_000, 1_500_000, 1), 1);
        assert_eq!(settle(600_000, 1_500_000, 64), 1);
    }

    #[test]
    fn a_batch_is_made_at_once_where_it_can_be() {
        assert_eq!(settle(3136, 500, 128), 128);
        assert_eq!(settle(3136, 500, 100), 100);
        assert_eq!(settle(100_000, 500, 20), 20);
        assert!(settle(100_000, 500, 1000) <= 2 * CHUNK_BYTES / 100_000, "a part of a large batch");
    }

    #[test]
    fn the_lock_is_held_for_some_milliseconds() {
        let settle = |row_bytes, row_ns, grain| settle_in(row_bytes, row_ns, Around { locks: true, ..before(grain) });
        // More than a batch, where that takes less.
        assert_eq!([settle(8, 65_000, 1), settle(8, 65_000, 16), settle(8, 65_000, 48)], [64, 64, 48]);
        assert_eq!([settle(8, 10_000_000, 1), settle(8, 10_000_000, 16)], [1, 1]);
        assert_eq!(settle(64 << 10, 65_000, 1), 4, "its results fit into the cache nevertheless");
    }

    #[test]
    fn chunks_end_where_batches_do() {
        for grain in [1, 2, 96, 128, 1000] {
            let mut row = 0;
            for doubled in 0..14 {
                let want = 1 << doubled;
                let rows = whole_batches(want, row % grain, grain);
                assert!((1..=want).contains(&rows) && want - rows < grain);
                row += rows;
                assert!(want < grain || row.is_multiple_of(grain), "{rows} rows, up to {row}");
            }
        }
    }

    #[test]
    fn a_message_takes_some_milliseconds() {
        let settle = |row_bytes: usize, row_ns: u64| {
            let next = |rows, most| next_rows_away(rows, rows, rows * row_bytes, rows as u64 * row_ns, most);
            [usize::MAX, 1 << 20].map(|most| (0..40).fold(1, |rows, _| next(rows, most)))
        };
        assert_eq!(settle(8, 200_000), [16, 16]);
        assert_eq!(settle(10 << 20, 200_000), [1, 1]);
        assert_eq!(settle(8, 50_000_000), [1, 1]);
        assert_eq!(settle(256 << 10, 1000), [16, 4]);
    }

    #[test]
    fn it_is_known_why() {
        let why = |row_bytes: usize, row_ns: u64, grain: usize| {
            let rows = settle(row_bytes, row_ns, grain);
            because(rows, rows, rows * row_bytes, rows as u64 * row_ns, before(grain))
        };
        assert_eq!(why(8, 2, 1), Because::Bytes);
        assert_eq!(why(8, 10_000, 1), Because::Time);
        assert_eq!(why(3136, 500, 128), Because::Batch);
        assert_eq!(why(1, 1, 1), Because::Most);
        assert_eq!(because(64, 4, 100, 100, before(1)), Because::Input);
        assert_eq!(because(2, 2, 16, 100, before(1)), Because::Growing);
    }

    #[test]
    fn it_stands_still_when_steady() {
        assert_eq!(next_rows(64, 64, 1000, TARGET_NS, before(1)), 64);
        assert_eq!(next_rows(64, 1, 10, 10, before(1)), 64);
    }

    #[test]
    fn where_memory_is_short_chunks_are() {
        assert_eq!(settle_in(1000, 1, Around { room: 10_000, ..before(1) }), 8);
    }
}
