//! Parquet and Arrow files.

use super::pieces::File;
use crate::arrow_ipc::ArrowFile;
use crate::columnar::Values;
use crate::parquet::numbers::{Numbers, Room};
use crate::parquet::pages::Pages;
use crate::parquet::{Group, ParquetFile};
use arrow_array::{Array, ArrayRef};
use feedline_io::{Buf, Result};
use parquet::basic::{Compression, ZstdLevel};
use std::ops::Range;
use std::sync::Arc;

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

/// Rows that two bytes choose, of so many.
fn chosen(first: u8, count: u8, rows: usize) -> Range<usize> {
    let first = usize::from(first).min(rows);
    first..first.saturating_add(count.into()).min(rows)
}

/// What is handed out is sound: nobody looks at offsets again.
fn sound(arrays: &[ArrayRef], rows: usize) {
    for array in arrays {
        assert_eq!(array.len(), rows);
        array.to_data().validate_full().expect("a sound array");
    }
}

/// An Arrow file or stream behind three bytes that say what is read of it. Rows that are cut out of a batch are those of the
/// whole batch.
pub fn arrow_file(bytes: &[u8]) {
    let Some((&[first, count, leave], bytes)) = bytes.split_first_chunk() else { return };
    let Ok(file) = ArrowFile::open(File::of(bytes)) else { return };
    let columns: Vec<usize> = (0..file.schema().fields().len()).filter(|&i| i != usize::from(leave)).collect();
    for batch in 0..file.batches().min(8) {
        let (rows, lies) = (chosen(first, count, file.batch_rows(batch)), file.body(batch));
        let body = Buf::copied(&bytes[lies.start as usize..lies.end as usize]);
        let cut = file.decode(batch, &columns, rows.clone(), None);
        let same = file.decode(batch, &columns, rows.clone(), Some(body));
        assert_eq!(cut.as_ref().err().map(|e| e.message()), same.as_ref().err().map(|e| e.message()));
        file.dictionary_bytes(batch);
        let whole = file.decode_whole(batch, &columns, None, usize::MAX);
        let cut = match cut {
            Ok(cut) => cut,
            Err(error) => {
                assert!(whole.is_err() || rows.is_empty(), "{error}");
                continue;
            }
        };
        sound(&cut, rows.len());
        let Ok(whole) = whole else { continue };
        sound(&whole, file.batch_rows(batch));
        for ((cut, same), whole) in cut.iter().zip(same.expect("as the first")).zip(whole) {
            assert_eq!(cut.to_data(), same.to_data());
            // Text is cut out as bytes.
            if cut.data_type() == whole.data_type() {
                assert_eq!(cut.to_data(), whole.slice(rows.start, rows.len()).to_data());
            }
        }
    }
}

/// A Parquet file behind three bytes that say what is read of it.
pub fn parquet_file(bytes: &[u8]) {
    let Some((&[first, count, keep], bytes)) = bytes.split_first_chunk() else { return };
    let Ok(file) = ParquetFile::open(File::of(bytes)) else { return };
    let fields: Vec<usize> = (0..file.schema().fields().len()).collect();
    let (projection, file) = (file.projection(&fields), Arc::new(file));
    for group in 0..file.groups().min(4) {
        let rows = chosen(first, count, file.group_rows(group) as usize);
        file.group_bytes(group, &projection);
        let read = file.ranges(group, &projection).into_iter();
        let read = read.map(|r| (r.start, Buf::copied(&bytes[r.start as usize..r.end as usize]))).collect();
        let group = Group::new(&file, group, &projection, read, usize::from(keep) * 64, 1 << 20);
        let Ok(values) = group.decode(rows.clone()) else { continue };
        for value in values {
            match value {
                Values::Numbers(buf) => assert!(buf.len().is_multiple_of(rows.len().max(1))),
                Values::Array(array) => sound(&[array], rows.len()),
            }
        }
    }
}
