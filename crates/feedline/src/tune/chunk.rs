//! How many rows travel together.
//!
//! A step should take long against its overhead (some microseconds) and short against a batch, and its results should
//! fit into the second-level cache. Cheap rows travel by the thousand; a picture travels alone.

const TARGET_NS: u64 = 200_000;
const CHUNK_BYTES: usize = 256 << 10;
const MAX_ROWS: usize = 1 << 16;

/// Rows for the next chunk, from what the last one took: `asked` rows wanted, `rows` had, `bytes` made in `ns`.
pub fn next_rows(asked: usize, rows: usize, bytes: usize, ns: u64) -> usize {
    // A chunk that came out short says nothing about a full one.
    let full = rows * 2 > asked;
    if full && ns < TARGET_NS / 2 && bytes * 2 <= CHUNK_BYTES && asked < MAX_ROWS {
        return asked * 2;
    }
    if asked > 1 && (ns > TARGET_NS * 2 || bytes > CHUNK_BYTES * 2) {
        return asked / 2;
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheap_rows_gather_and_dear_ones_part() {
        let mut rows = 1;
        for _ in 0..40 {
            rows = next_rows(rows, rows, rows * 8, rows as u64 * 2);
        }
        assert_eq!(rows * 8, CHUNK_BYTES);
        for _ in 0..40 {
            rows = next_rows(rows, rows, rows * 600_000, rows as u64 * 1_500_000);
        }
        assert_eq!(rows, 1);
    }

    #[test]
    fn it_stands_still_when_steady() {
        assert_eq!(next_rows(64, 64, 1000, TARGET_NS), 64);
        assert_eq!(next_rows(64, 1, 10, 10), 64);
    }
}
