//! Pages of Parquet files.

use crate::parquet::numbers::{Numbers, Room};
use crate::parquet::pages::Pages;
use feedline_io::Result;
use parquet::basic::{Compression, ZstdLevel};
use std::ops::Range;

/// A column chunk behind four bytes that say how it is read. What is read of some rows must be what is read of all.
pub fn parquet_pages(bytes: &[u8]) {
    let Some((&[how, first, count, keep], chunk)) = bytes.split_first_chunk() else { return };
    let compression = match how & 3 {
        0 | 1 => Compression::UNCOMPRESSED,
        2 => Compression::SNAPPY,
        _ => Compression::ZSTD(ZstdLevel::default()),
    };
    let pages = Pages::new(chunk.to_vec().into(), 0, compression);
    let Some(numbers) = Numbers::new(pages, how & 4 > 0) else { return };
    let (room, is_short) = (Room::new(usize::from(keep) * 64), how & 8 > 0);
    let items = |rows| items(&numbers, is_short, rows, &room);
    let (first, count) = (usize::from(first), usize::from(count));
    let some = items(first..first + count);
    // Pages that are passed over may be damaged; but what can be read as a whole can be read in part.
    if let Ok(Some(all)) = items(0..first + count) {
        let some = some.expect("a part of it").expect("a part of it");
        assert_eq!(all[all.len() - some.len()..], some[..]);
        // Pages that were kept are what they were.
        assert_eq!(items(0..first).expect("a part of it").expect("a part of it")[..], all[..all.len() - some.len()]);
    }
}

fn items(numbers: &Numbers, is_short: bool, rows: Range<usize>, room: &Room) -> Result<Option<Vec<u8>>> {
    let mut out = vec![0; rows.len() * if is_short { 4 } else { 8 }];
    let is_read = match is_short {
        true => numbers.read::<4>(rows, out.as_chunks_mut().0, room),
        false => numbers.read::<8>(rows, out.as_chunks_mut().0, room),
    };
    Ok(is_read?.then_some(out))
}
