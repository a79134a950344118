//! Short compressed strings as a whole: `decode_compressed`. (Files are streams: see `compress`.)

use crate::compress::Compression;
use feedline_io::{Error, Result};
use std::io::Read;

/// What one string may grow to. A record of a megabyte could hold a gigabyte of zeros, and a thousand of them more than
/// any memory.
pub const LIMIT_BYTES: u64 = 1 << 30;

/// The contents of compressed bytes, of at most `limit` bytes.
pub fn decompress(bytes: &[u8], kind: Compression, limit: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let read = match kind {
        Compression::None => bytes.take(limit + 1).read_to_end(&mut out),
        Compression::Gzip => flate2::read::MultiGzDecoder::new(bytes).take(limit + 1).read_to_end(&mut out),
        Compression::Zlib => flate2::read::ZlibDecoder::new(bytes).take(limit + 1).read_to_end(&mut out),
        Compression::Zstd => zstd::stream::read::Decoder::with_buffer(bytes)
            .and_then(|decoder| decoder.take(limit + 1).read_to_end(&mut out)),
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
