//! Short compressed strings as a whole: `decode_compressed`. (Files are streams: see `compress`.)

use crate::compress::Compression;
use crate::inflate::{Inflater, Ran, Wrap};
use feedline_io::{Buf, Error, Result};
use std::io::Read;

/// What one string may grow to. A record of a megabyte could hold a gigabyte of zeros, and a thousand of them more than
/// any memory.
pub const LIMIT_BYTES: u64 = 1 << 30;

/// More is not doubled to make room.
const LARGE: usize = 1 << 20;

/// Bytes that came out so far, and room for more: a block of the pool, so that it is counted and asked for as it grows.
struct Out {
    block: Buf,
    filled: usize,
    /// It never has more room.
    most: usize,
}

impl Out {
    /// All its memory; more than is filled.
    fn room(&mut self, first: usize) -> &mut [u8] {
        if self.filled == self.block.len() {
            let room = match self.filled {
                0 => first.max(64),
                n @ 1..LARGE => 2 * n,
                n => n + n / 2,
            };
            let mut larger = Buf::new(room.min(self.most));
            let bytes = larger.get_mut().expect("a new block has one holder");
            bytes[..self.filled].copy_from_slice(&self.block.as_slice()[..self.filled]);
            self.block = larger;
        }
        self.block.get_mut().expect("the only holder")
    }
}

/// The contents of compressed bytes, of at most `limit` bytes: the first ones of a block.
pub fn decompress(bytes: &[u8], kind: Compression, limit: u64) -> Result<(Buf, usize)> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1);
    let mut out = Out { block: Buf::new(0), filled: 0, most };
    let read = match kind {
        Compression::None => read_all(bytes, bytes.len().saturating_add(1), &mut out),
        Compression::Gzip => inflate(bytes, Wrap::Gzip, &mut out),
        Compression::Zlib => inflate(bytes, Wrap::Zlib, &mut out),
        Compression::Zstd => zstd::stream::read::Decoder::with_buffer(bytes)
            .map_err(|e| e.to_string())
            .and_then(|decoder| read_all(decoder, bytes.len().saturating_mul(4), &mut out)),
    };
    read.map_err(|e| {
        let (len, at) = (bytes.len(), out.filled);
        Error::data(format!("not valid {kind} data: {e}, after {at} bytes of contents (of {len} bytes compressed)"))
    })?;
    if out.filled as u64 > limit {
        let len = bytes.len();
        return Err(Error::data(format!(
            "{len} bytes of {kind} data hold more than the {limit} bytes that are allowed"
        )));
    }
    Ok((out.block, out.filled))
}

/// All that a reader has, or one byte more than the limit.
fn read_all(mut from: impl Read, first: usize, out: &mut Out) -> std::result::Result<(), String> {
    while out.filled < out.most {
        let filled = out.filled;
        match from.read(&mut out.room(first)[filled..]) {
            Ok(0) => break,
            Ok(n) => out.filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.to_string()),
        }
    }
    Ok(())
}

/// The same of what is wrapped as GZIP, of which there may be several in a row, or as ZLIB, whatever stands behind it.
fn inflate(mut bytes: &[u8], wrap: Wrap, out: &mut Out) -> std::result::Result<(), String> {
    let (mut inflater, first) = (Inflater::new(wrap), bytes.len().saturating_mul(4));
    loop {
        let filled = out.filled;
        let Ran { used, made, end } = inflater.run(bytes, out.room(first), filled);
        bytes = &bytes[used..];
        out.filled += made;
        match end {
            Err(damage) => return Err(damage.to_string()),
            Ok(_) if out.filled == out.most => return Ok(()),
            Ok(true) if bytes.is_empty() || wrap == Wrap::Zlib => return Ok(()),
            Ok(true) => inflater.reset(),
            Ok(false) if bytes.is_empty() && out.filled < out.block.len() => return Err("it ends too early".into()),
            Ok(false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn contents(bytes: &[u8], kind: Compression, limit: u64) -> Vec<u8> {
        let (block, len) = decompress(bytes, kind, limit).unwrap();
        block.as_slice()[..len].to_vec()
    }

    #[test]
    fn contents_come_out() {
        let text = b"some text, some text";
        assert_eq!(contents(text, Compression::None, 100), text);
        assert_eq!(contents(&gzip(text), Compression::Gzip, 20), text);
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        assert_eq!(contents(&encoder.finish().unwrap(), Compression::Zlib, 100), text);
        let packed = zstd::encode_all(&text[..], 1).unwrap();
        assert_eq!(contents(&packed, Compression::Zstd, 100), text);
        let long: Vec<u8> = (0..5_000_000u32).map(|i| (i >> 10) as u8).collect();
        assert!(contents(&gzip(&long), Compression::Gzip, 5_000_000) == long);
        assert!(contents(&zstd::encode_all(&long[..], 1).unwrap(), Compression::Zstd, 5_000_000) == long);
    }

    #[test]
    fn broken_and_hostile_data() {
        let bomb = gzip(&vec![0; 1 << 20]);
        let error = decompress(&bomb, Compression::Gzip, 1 << 16).unwrap_err().to_string();
        assert!(error.contains("more than the 65536 bytes"), "{error}");
        for kind in [Compression::Gzip, Compression::Zlib, Compression::Zstd] {
            assert!(decompress(b"no such thing", kind, 100).is_err());
        }
        let cut = &bomb[..bomb.len() / 2];
        assert!(decompress(cut, Compression::Gzip, 1 << 21).unwrap_err().to_string().contains("GZIP"));
    }
}
