//! Compressed streams.

use crate::inflate::{Inflater, Wrap};

/// What comes of a stream must not depend on the pieces in which it is read and written.
pub fn inflate(bytes: &[u8]) {
    for wrap in [Wrap::Gzip, Wrap::Zlib] {
        let whole = inflated(wrap, bytes, usize::MAX, 1 << 16);
        for (piece, block) in [(1, 1 << 12), (7, 300), (64, 40_000)] {
            assert_eq!(inflated(wrap, bytes, piece, block), whole, "in pieces of {piece}, blocks of {block}");
        }
    }
}

/// The contents, of which there are at most a megabyte, and how they end.
fn inflated(wrap: Wrap, bytes: &[u8], piece: usize, block: usize) -> (Vec<u8>, Result<bool, String>) {
    let (mut inflater, mut all, mut out) = (Inflater::new(wrap), Vec::new(), vec![0; block]);
    let (mut used, mut filled, mut end) = (0, 0, piece.min(bytes.len()));
    loop {
        let ran = inflater.run(&bytes[used..end], &mut out, filled);
        all.extend_from_slice(&out[filled..filled + ran.made]);
        (used, filled) = (used + ran.used, (filled + ran.made) % block);
        let is_stuck = ran.used + ran.made == 0 && end == bytes.len();
        if ran.end != Ok(false) || is_stuck || all.len() >= 1 << 20 {
            all.truncate(1 << 20);
            let ends = if all.len() == 1 << 20 { Ok(false) } else { ran.end.map_err(|e| e.to_string()) };
            return (all, ends);
        }
        if used == end {
            end = end.saturating_add(piece).min(bytes.len());
        }
    }
}
