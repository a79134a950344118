//! What every source must do.

use feedline_io::{Blocks, Ranges, Source};
use std::sync::Arc;

/// Bytes in which every place is different from its neighbours.
pub fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).flat_map(|x| x.wrapping_mul(2_654_435_761).to_le_bytes()).take(len).collect()
}

fn part(bytes: &[u8], at: u64, len: usize) -> &[u8] {
    let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    &bytes[from..from.saturating_add(len).min(bytes.len())]
}

/// `open` gives a source with these bytes each time it is called.
pub fn conforms(open: impl Fn() -> Arc<dyn Source>, bytes: &[u8]) {
    let len = bytes.len() as u64;
    let places = [
        (0, 0),
        (0, 1),
        (0, bytes.len()),
        (0, bytes.len() + 1),
        (1, 1000),
        (len / 2, 100_000),
        (len.saturating_sub(1), 1),
        (len.saturating_sub(1), 100),
        (len, 0),
        (len, 1),
        (len + 1, 10),
        (len + (1 << 40), 10),
        (u64::MAX, 1),
        (u64::MAX - 5, usize::MAX),
        // A length out of a damaged file takes no memory.
        (0, 1 << 60),
        (len / 2, usize::MAX),
    ];
    // One by one, each from a source that was asked nothing before.
    for (at, wanted) in places {
        let got = open().read(at, wanted).wait().unwrap_or_else(|e| panic!("{wanted} bytes at {at}: {e}"));
        assert_eq!(got.as_slice(), part(bytes, at, wanted), "{wanted} bytes at {at}");
    }
    // All at once, some of them dropped; with and without a look first.
    for look in [false, true] {
        let source = open();
        if look {
            let stat = source.clone().stat().wait().unwrap();
            assert_eq!(stat.len, len);
            assert_eq!(source.clone().stat().wait().unwrap(), stat);
        }
        let tasks: Vec<_> = places.iter().map(|&(at, wanted)| source.clone().read(at, wanted)).collect();
        for (i, (task, (at, wanted))) in tasks.into_iter().zip(places).enumerate() {
            if i % 3 != 1 {
                assert_eq!(task.wait().unwrap().as_slice(), part(bytes, at, wanted), "{wanted} bytes at {at}");
            }
        }
        if let Some(known) = source.known_len() {
            assert_eq!(known, len);
        }
    }
    // From front to back.
    for (at, block) in [(0, None), (0, Some(10_000)), (len / 3, None), (len, None), (len + 10, Some(7))] {
        let mut blocks = Blocks::new(open(), at, block);
        let mut all = Vec::new();
        while let Some(block) = blocks.next_block() {
            all.extend_from_slice(block.unwrap().as_slice());
        }
        assert_eq!(all, part(bytes, at, usize::MAX));
    }
    // In any order.
    let wanted: Vec<(u64, usize)> = (0..200u64).map(|i| (i * 7919 % (len + 50), (i * i % 3000) as usize)).collect();
    let mut ranges = Ranges::new(open(), wanted.clone());
    for (at, wanted) in wanted {
        assert_eq!(&*ranges.next_range().unwrap().unwrap(), part(bytes, at, wanted));
    }
    assert!(ranges.next_range().is_none());
}
