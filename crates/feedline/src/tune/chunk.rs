//! How many rows travel together.
//!
//! A step should take long against its overhead (some microseconds) and short against a batch, and its results should
//! fit into the second-level cache. Cheap rows travel by the thousand; a picture travels alone. Up to the size of the
//! batch behind it a chunk may be larger and take longer: a whole batch that is computed at once is written where it
//! belongs, and `batch` only gives it another shape.

const TARGET_NS: u64 = 200_000;
const CHUNK_BYTES: usize = 256 << 10;
const BATCH_NS: u64 = 2_000_000;
const BATCH_BYTES: usize = 4 << 20;
const MAX_ROWS: usize = 1 << 16;

/// Rows for the next chunk, from what the last one took: `asked` rows wanted, `rows` had, `bytes` made in `ns`. A
/// batch of `grain` rows (1 if there is none) stands behind it.
pub fn next_rows(asked: usize, rows: usize, bytes: usize, ns: u64, grain: usize) -> usize {
    // A chunk that came out short says nothing about a full one.
    let full = rows * 2 > asked;
    let (most_ns, most_bytes) = if asked < grain { (BATCH_NS, BATCH_BYTES) } else { (TARGET_NS, CHUNK_BYTES) };
    if full && ns * 2 < most_ns && bytes * 2 <= most_bytes && asked < MAX_ROWS {
        return if asked < grain { (asked * 2).min(grain) } else { asked * 2 };
    }
    let (most_ns, most_bytes) = if asked <= grain { (BATCH_NS, BATCH_BYTES) } else { (TARGET_NS, CHUNK_BYTES) };
    if asked > 1 && (ns > most_ns * 2 || bytes > most_bytes * 2) {
        return asked / 2;
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(row_bytes: usize, row_ns: u64, grain: usize) -> usize {
        (0..40).fold(1, |rows, _| next_rows(rows, rows, rows * row_bytes, rows as u64 * row_ns, grain))
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
        assert!(settle(100_000, 500, 1000) <= 2 * BATCH_BYTES / 100_000);
    }

    #[test]
    fn it_stands_still_when_steady() {
        assert_eq!(next_rows(64, 64, 1000, TARGET_NS, 1), 64);
        assert_eq!(next_rows(64, 1, 10, 10, 1), 64);
    }
}
