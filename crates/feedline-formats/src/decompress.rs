//! Short compressed strings as a whole: `decode_compressed`. (Files are streams: see `compress`.)

use crate::compress::Compression;
use crate::inflate::{Inflater, Ran, Wrap};
use feedline_io::{Error, Result};
use std::io::Read;

/// What one string may grow to. A record of a megabyte could hold a gigabyte of zeros, and a thousand of them more than
/// any memory.
pub const LIMIT_BYTES: u64 = 1 << 30;

/// The contents of compressed bytes, of at most `limit` bytes.
pub fn decompress(bytes: &[u8], kind: Compression, limit: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let read = match kind {
        Compression::None => read_all(bytes, limit, &mut out),
        Compression::Gzip => inflate(bytes, Wrap::Gzip, limit, &mut out),
        Compression::Zlib => inflate(bytes, Wrap::Zlib, limit, &mut out),
        Compression::Zstd => zstd::stream::read::Decoder::with_buffer(bytes)
            .map_err(|e| e.to_string())
            .and_then(|decoder| read_all(decoder, limit, &mut out)),
    };
    read.map_err(|e| {
        let (len, at) = (bytes.len(), out.len());
        Error::data(format!("not valid {kind} data: {e}, after {at} bytes of contents (of {len} bytes compressed)"))
    })?;
    if out.len() as u64 > limit {
        let len = bytes.len();
        return Err(Error::data(format!(
            "{len} bytes of {kind} data hold more than the {limit} bytes that are allowed"
        )));
    }
    Ok(out)
}

/// All that a reader has, or one byte more than the limit.
fn read_all(from: impl Read, limit: u64, out: &mut Vec<u8>) -> std::result::Result<(), String> {
    from.take(limit + 1).read_to_end(out).map(drop).map_err(|e| e.to_string())
}

/// The same of what is wrapped as GZIP, of which there may be several in a row, or as ZLIB, whatever stands behind it.
fn inflate(mut bytes: &[u8], wrap: Wrap, limit: u64, out: &mut Vec<u8>) -> std::result::Result<(), String> {
    let (mut inflater, mut filled) = (Inflater::new(wrap), 0);
    let most = usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1);
    loop {
        if filled == out.len() {
            let room = if filled == 0 { bytes.len().saturating_mul(4).max(64) } else { filled.saturating_mul(2) };
            out.resize(room.min(most), 0);
        }
        let Ran { used, made, end } = inflater.run(bytes, out, filled);
        bytes = &bytes[used..];
        filled += made;
        let stop = match end {
            Err(damage) => Some(Err(damage.to_string())),
            Ok(_) if filled == most => Some(Ok(())),
            Ok(true) if bytes.is_empty() || wrap == Wrap::Zlib => Some(Ok(())),
            Ok(true) => {
                inflater.reset();
                None
            }
            Ok(false) if bytes.is_empty() && filled < out.len() => Some(Err("it ends too early".into())),
            Ok(false) => None,
        };
        if let Some(result) = stop {
            out.truncate(filled);
            return result;
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

    #[test]
    fn contents_come_out() {
        let text = b"some text, some text";
        assert_eq!(decompress(text, Compression::None, 100).unwrap(), text);
        assert_eq!(decompress(&gzip(text), Compression::Gzip, 20).unwrap(), text);
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        assert_eq!(decompress(&encoder.finish().unwrap(), Compression::Zlib, 100).unwrap(), text);
        let packed = zstd::encode_all(&text[..], 1).unwrap();
        assert_eq!(decompress(&packed, Compression::Zstd, 100).unwrap(), text);
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
