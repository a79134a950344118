//! How many rows travel together.
//!
//! A step should take long against its overhead (some microseconds) and short against a batch, and its results should
//! fit into the second-level cache. Cheap rows travel by the thousand; a picture travels alone. If a batch stands behind
//! it and is not too large, a chunk may grow to a whole one: `batch` then only gives it another shape. Parts of larger
//! batches gain nothing by being large, since they are made side by side (`runtime/batches.rs`).

const TARGET_NS: u64 = 200_000;
const CHUNK_BYTES: usize = 256 << 10;
const BATCH_NS: u64 = 2_000_000;
const BATCH_BYTES: usize = 4 << 20;
const MAX_ROWS: usize = 1 << 16;

/// Rows for the next chunk, from what the last one took: `asked` rows wanted, `rows` had, `bytes` made in `ns`. A
/// batch of `grain` rows (1 if there is none) stands behind it. Where memory is short a chunk has at most `room` bytes.
pub fn next_rows(asked: usize, rows: usize, bytes: usize, ns: u64, grain: usize, room: usize) -> usize {
    // A chunk that came out short says nothing about a full one.
    let full = rows * 2 > asked;
    let per_batch = |n: u64| (n / rows.max(1) as u64).saturating_mul(grain as u64);
    let fits = per_batch(ns) <= 2 * BATCH_NS && per_batch(bytes as u64) <= 2 * BATCH_BYTES as u64;
    let most = |in_batch: bool| match in_batch && fits {
        true => (BATCH_NS, BATCH_BYTES.min(room)),
        false => (TARGET_NS, CHUNK_BYTES.min(room)),
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
pub fn because(asked: usize, rows: usize, bytes: usize, ns: u64, grain: usize, room: usize) -> Because {
    let each = asked as f64 / rows.max(1) as f64;
    let (ns, bytes) = ((ns as f64 * each) as u64, (bytes as f64 * each) as usize);
    if asked == grain && grain > 1 {
        Because::Batch
    } else if bytes * 2 > CHUNK_BYTES.min(room) {
        Because::Bytes
    } else if ns * 2 >= TARGET_NS {
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

    fn settle(row_bytes: usize, row_ns: u64, grain: usize) -> usize {
        (0..40).fold(1, |rows, _| next_rows(rows, rows, rows * row_bytes, rows as u64 * row_ns, grain, usize::MAX))
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
            because(rows, rows, rows * row_bytes, rows as u64 * row_ns, grain, usize::MAX)
        };
        assert_eq!(why(8, 2, 1), Because::Bytes);
        assert_eq!(why(8, 10_000, 1), Because::Time);
        assert_eq!(why(3136, 500, 128), Because::Batch);
        assert_eq!(why(1, 1, 1), Because::Most);
        assert_eq!(because(64, 4, 100, 100, 1, usize::MAX), Because::Input);
        assert_eq!(because(2, 2, 16, 100, 1, usize::MAX), Because::Growing);
    }

    #[test]
    fn it_stands_still_when_steady() {
        assert_eq!(next_rows(64, 64, 1000, TARGET_NS, 1, usize::MAX), 64);
        assert_eq!(next_rows(64, 1, 10, 10, 1, usize::MAX), 64);
    }

    #[test]
    fn where_memory_is_short_chunks_are() {
        let settled = (0..40).fold(1, |rows, _| next_rows(rows, rows, rows * 1000, rows as u64, 1, 10_000));
        assert_eq!(settled, 8);
    }
}
