//! Compressed streams.

use super::pieces::check_memory;
use crate::compress::{Compression, Inflate, Step};
use crate::decompress::decompress;
use crate::inflate::{Inflater, Wrap};
use feedline_io::Buf;

/// What is looked at of the contents: a few bytes can stand for any number.
const MOST: usize = 1 << 20;

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
        if ran.end != Ok(false) || is_stuck || all.len() >= MOST {
            all.truncate(MOST);
            let ends = if all.len() == MOST { Ok(false) } else { ran.end.map_err(|e| e.to_string()) };
            return (all, ends);
        }
        if used == end {
            end = end.saturating_add(piece).min(bytes.len());
        }
    }
}

/// A file that is compressed as a whole: streams behind each other, with zeros behind the last. The first byte says how.
pub fn compressed(bytes: &[u8]) {
    let Some((&how, file)) = bytes.split_first() else { return };
    let kind = [Compression::Gzip, Compression::Zlib, Compression::Zstd][usize::from(how % 3)];
    let whole = contents(kind, file, usize::MAX, 1 << 16);
    for (piece, block) in [(1, 1 << 12), (7, 300), (usize::from(how) + 1, 40_000)] {
        let (parts, ends) = contents(kind, file, piece, block);
        assert_eq!(ends.is_ok(), whole.1.is_ok(), "in pieces of {piece}, blocks of {block}: {ends:?}, {:?}", whole.1);
        // Where zstd finds damage it gives up a block of its own, or not, as its input comes.
        match kind == Compression::Zstd && ends.is_err() {
            true => assert!(parts.starts_with(&whole.0) || whole.0.starts_with(&parts)),
            false => assert!((parts, ends) == whole, "in pieces of {piece}, blocks of {block}"),
        }
    }
    // The same of a string as a whole; behind ZLIB there may be anything then, and no padding behind GZIP.
    if let Ok((block, len)) = decompress(file, kind, MOST as u64 - 1)
        && kind != Compression::Zlib
        && !file.is_empty()
    {
        assert!(whole.1.is_ok() && block.as_slice()[..len] == whole.0[..], "a string, not a file: {:?}", whole.1);
    }
}

/// The contents, of which there are at most a megabyte, and how they end.
fn contents(kind: Compression, file: &[u8], piece: usize, block: usize) -> (Vec<u8>, Result<(), String>) {
    let (mut inflate, mut at, mut all) = (Inflate::new(kind, block).expect("a kind of ours"), 0, Vec::new());
    loop {
        match inflate.next_block() {
            Step::Block(block) => {
                assert!(!block.is_empty(), "an empty block");
                all.extend_from_slice(block.as_slice());
                if all.len() >= MOST {
                    all.truncate(MOST);
                    return (all, Ok(()));
                }
            }
            Step::More => {
                let end = at + piece.min(file.len() - at);
                match end > at {
                    true => inflate.feed(Buf::copied(&file[at..end])),
                    false => inflate.finish(),
                }
                at = end;
                check_memory();
            }
            Step::End => return (all, Ok(())),
            Step::Fail(error) => return (all, Err(error.message().to_string())),
        }
    }
}
