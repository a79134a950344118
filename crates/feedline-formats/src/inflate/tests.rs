use super::*;
use flate2::{Compression, Decompress, FlushDecompress, GzBuilder, Status};
use proptest::prelude::*;
use std::io::Write;

/// What came of a whole stream: its contents, and whether it ended well, in the middle, or in damage.
type Came = (Vec<u8>, Result<bool>);

/// By pieces of `piece` bytes into blocks of `block`.
fn inflated(wrap: Wrap, bytes: &[u8], piece: usize, block: usize) -> (Came, usize) {
    let (mut inflater, mut all, mut used) = (Inflater::new(wrap), Vec::new(), 0);
    let (mut out, mut filled) = (vec![0; block], 0);
    let mut end = piece.min(bytes.len());
    loop {
        let ran = inflater.run(&bytes[used..end], &mut out, filled);
        all.extend_from_slice(&out[filled..filled + ran.made]);
        (used, filled) = (used + ran.used, filled + ran.made);
        if filled == block {
            out.fill(0xee);
            filled = 0;
        }
        if ran.end != Ok(false) {
            return ((all, ran.end), used);
        }
        if ran.used + ran.made == 0 {
            if end == bytes.len() {
                return ((all, Ok(false)), used);
            }
            assert_eq!(used, end, "it did not take all");
        }
        if used == end {
            end = (end + piece).min(bytes.len());
        }
    }
}

/// The same by the library.
fn oracle(wrap: Wrap, bytes: &[u8]) -> (Vec<u8>, Option<bool>) {
    let mut inflater = if wrap == Wrap::Gzip { Decompress::new_gzip(15) } else { Decompress::new(true) };
    let (mut all, mut out) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let before = (inflater.total_in() as usize, inflater.total_out() as usize);
        let status = inflater.decompress(&bytes[before.0..], &mut out, FlushDecompress::None);
        let made = inflater.total_out() as usize - before.1;
        all.extend_from_slice(&out[..made]);
        match status {
            Ok(Status::StreamEnd) => return (all, Some(true)),
            Err(_) => return (all, None),
            Ok(_) if made == 0 && inflater.total_in() as usize == before.0 => return (all, Some(false)),
            Ok(_) => {}
        }
    }
}

fn packed(wrap: Wrap, bytes: &[u8], level: u32) -> Vec<u8> {
    let level = Compression::new(level);
    if wrap == Wrap::Gzip {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), level);
        out.write_all(bytes).unwrap();
        return out.finish().unwrap();
    }
    let mut out = flate2::write::ZlibEncoder::new(Vec::new(), level);
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// Bytes that compress in one way or another.
fn contents(kind: u8, len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes: Vec<u8> = Vec::new();
    while bytes.len() < len {
        let word = random();
        match kind {
            // Nothing to be had, and a lot of nothing.
            0 => bytes.push(word as u8),
            1 => bytes.resize(bytes.len() + 1 + word as usize % 1000, word as u8 & 1),
            // Few symbols, of which some are rare: long codes.
            2 => bytes.push((word.trailing_zeros() * 7 + (word as u32 >> 31)) as u8),
            // What was there before, near or far.
            3 if bytes.len() > 3 => {
                let back = 1 + (word >> 20) as usize % bytes.len().min(1 << (1 + word % 17));
                let more: Vec<u8> =
                    (0..3 + word as usize % 300).map(|i| bytes[bytes.len() - back + i % back]).collect();
                bytes.extend(more);
                bytes.push(word as u8);
            }
            // Records: what is the same in each, and numbers.
            _ => {
                bytes.extend_from_slice(b"\x0a\x0e\x0a\x02f1\x12\x08\x12\x06\x0a\x04");
                bytes.extend_from_slice(&(word as u32).to_le_bytes());
            }
        }
    }
    bytes.truncate(len);
    bytes
}

#[test]
fn whatever_was_packed_comes_out() {
    for wrap in [Wrap::Gzip, Wrap::Zlib] {
        for (kind, len) in (0..5).flat_map(|kind| [0, 1, 100, 70_000, 300_000].map(|len| (kind, len))) {
            let bytes = contents(kind, len, 7 + u64::from(kind));
            for level in [0, 1, 6, 9] {
                let packed = packed(wrap, &bytes, level);
                for (piece, block) in [(1 << 20, 1 << 20), (4096, 50_000), (1000, 300), (17, 1 << 18)] {
                    let ((all, end), used) = inflated(wrap, &packed, piece, block);
                    assert!(
                        all == bytes && end == Ok(true) && used == packed.len(),
                        "{wrap:?} {kind} {len} {level} {piece} {block}: {end:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn byte_by_byte() {
    for kind in 0..5 {
        let bytes = contents(kind, 3000, 99);
        for (wrap, level) in [(Wrap::Gzip, 6), (Wrap::Zlib, 1), (Wrap::Gzip, 0)] {
            let packed = packed(wrap, &bytes, level);
            for (piece, block) in [(1, 1), (1, 4000), (2, 7), (3, 1000), (5000, 1)] {
                let ((all, end), used) = inflated(wrap, &packed, piece, block);
                assert!(all == bytes && end == Ok(true) && used == packed.len(), "{wrap:?} {kind} {piece} {block}");
            }
        }
    }
}

#[test]
fn what_follows_a_stream_is_left() {
    for wrap in [Wrap::Gzip, Wrap::Zlib] {
        let one = packed(wrap, b"one and one and one", 6);
        let both = [one.clone(), packed(wrap, b"two", 6)].concat();
        for piece in [1, 3, 10, 1000] {
            let ((all, end), used) = inflated(wrap, &both, piece, 1000);
            assert_eq!((&all[..], end, used), (&b"one and one and one"[..], Ok(true), one.len()), "{wrap:?} {piece}");
        }
    }
    // A second stream does not see the first one, though it is in the same block.
    let mut inflater = Inflater::new(Wrap::Gzip);
    let (mut out, first) = ([0; 100], packed(Wrap::Gzip, b"abcabc", 6));
    let ran = inflater.run(&first, &mut out, 0);
    assert_eq!((ran.made, ran.end), (6, Ok(true)));
    inflater.reset();
    // Fixed codes: a match of three bytes, three back.
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let second = [&head[..], &[0x03, 0x22, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    let ran = inflater.run(&second, &mut out, 6);
    assert_eq!((ran.made, ran.end.is_err()), (0, true));
}

#[test]
fn headers_of_all_kinds() {
    let bytes = contents(4, 500, 3);
    let mut out = GzBuilder::new()
        .extra(vec![5; 300])
        .filename("a name")
        .comment("some words")
        .write(Vec::new(), Compression::default());
    out.write_all(&bytes).unwrap();
    let packed = out.finish().unwrap();
    for piece in [1, 13, 1000] {
        assert_eq!(inflated(Wrap::Gzip, &packed, piece, 1000).0, (bytes.clone(), Ok(true)));
    }
    // With a checksum of the header, which few write.
    let plain = super::tests::packed(Wrap::Gzip, &bytes, 6);
    let mut head = plain[..10].to_vec();
    head[3] = 2;
    let sum = crc32fast::hash(&head) as u16;
    let summed = |sum: u16| [&head[..], &sum.to_le_bytes(), &plain[10..]].concat();
    assert_eq!(inflated(Wrap::Gzip, &summed(sum), 7, 1000).0, (bytes.clone(), Ok(true)));
    assert!(inflated(Wrap::Gzip, &summed(sum ^ 1), 7, 1000).0.1.is_err());
    for at in [0, 1, 2, 3] {
        let mut wrong = plain.clone();
        wrong[at] ^= 0x80;
        assert!(inflated(Wrap::Gzip, &wrong, 1000, 1000).0.1.is_err(), "byte {at}");
    }
}

#[test]
fn checksums_and_lengths_are_checked() {
    for wrap in [Wrap::Gzip, Wrap::Zlib] {
        let packed = packed(wrap, &contents(4, 1000, 5), 6);
        let tail = if wrap == Wrap::Gzip { 8 } else { 4 };
        for at in packed.len() - tail..packed.len() {
            let mut wrong = packed.clone();
            wrong[at] ^= 1;
            let ((all, end), _) = inflated(wrap, &wrong, 100, 300);
            assert!(end.unwrap_err().to_string().contains("than it says") && all.len() == 1000);
        }
    }
}

proptest! {
    /// Bytes that are almost right: what the library makes of them, by whatever pieces.
    #[test]
    fn damage_is_seen_as_the_library_sees_it(
        (kind, len, level) in (0u8..5, 0usize..3000, 0u32..10),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        (piece, block) in (1usize..200, 1usize..4000),
        (gzip, cut) in (any::<bool>(), 0usize..40),
    ) {
        let wrap = if gzip { Wrap::Gzip } else { Wrap::Zlib };
        let mut bytes = packed(wrap, &contents(kind, len, len as u64), level);
        // Of ZLIB's header it says how far back a match may reach, and that is not looked at here.
        let first = if gzip { 0 } else { 2 };
        for (at, change) in changes {
            let at = first + at.index(bytes.len() - first);
            bytes[at] ^= change;
        }
        bytes.truncate(bytes.len().saturating_sub(cut.saturating_sub(20)));
        let (whole, came) = (oracle(wrap, &bytes), inflated(wrap, &bytes, piece, block).0);
        // What is no code needs fifteen bits to be one here: close to its end a stream may lack bytes in place of being wrong.
        prop_assert_eq!(whole.1 == Some(true), came.1 == Ok(true), "{:?} {:?}", whole.1, came.1);
        prop_assert!(whole.1.is_none() || came.1.is_ok());
        if whole.1.is_some() {
            prop_assert!(whole.0 == came.0);
        }
        prop_assert_eq!(&inflated(wrap, &bytes, 1 << 20, 1 << 20).0, &came);
    }
}
