//! Pages of Parquet files.

use crate::parquet::numbers;
use crate::parquet::pages::Pages;
use feedline_io::Result;
use parquet::basic::{Compression, ZstdLevel};
use std::ops::Range;

/// A column chunk behind four bytes that say how it is read. What is read of some rows must be what is read of all.
pub fn parquet_pages(bytes: &[u8]) {
    let Some((&[how, first, count, _], chunk)) = bytes.split_first_chunk() else { return };
    let (first, count) = (usize::from(first), usize::from(count));
    let some = items(chunk, how, first..first + count);
    // Pages that are passed over may be damaged; but what can be read as a whole can be read in part.
    if let Ok(Some(all)) = items(chunk, how, 0..first + count) {
        let some = some.expect("a part of it").expect("a part of it");
        assert_eq!(all[all.len() - some.len()..], some[..]);
    }
}

/// Items of some rows, read as the bits of `how` say.
fn items(chunk: &[u8], how: u8, rows: Range<usize>) -> Result<Option<Vec<u8>>> {
    let compression = match how & 3 {
        0 | 1 => Compression::UNCOMPRESSED,
        2 => Compression::SNAPPY,
        _ => Compression::ZSTD(ZstdLevel::default()),
    };
    let (pages, is_optional, is_short) = (Pages::new(chunk, 0, compression), how & 4 > 0, how & 8 > 0);
    let mut out = vec![0; rows.len() * if is_short { 4 } else { 8 }];
    let is_read = match is_short {
        true => numbers::read::<4>(pages, is_optional, rows, out.as_chunks_mut().0),
        false => numbers::read::<8>(pages, is_optional, rows, out.as_chunks_mut().0),
    };
    Ok(is_read?.then_some(out))
}
