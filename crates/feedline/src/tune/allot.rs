//! How much of what is allowed each part may take.

/// Bytes that one segment's queue may hold unless a memory limit says less: two batches of 64 pictures for training.
const SEGMENT_BYTES: usize = 32 << 20;

/// Bytes for the queue of one segment. A pipeline rarely has more than four that are full at once.
pub fn segment_bytes(memory_limit: usize) -> usize {
    (memory_limit / 4).clamp(1, SEGMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_shared_out() {
        assert_eq!(segment_bytes(usize::MAX), SEGMENT_BYTES);
        assert_eq!(segment_bytes(1000), 250);
        assert_eq!(segment_bytes(0), 1);
    }
}
