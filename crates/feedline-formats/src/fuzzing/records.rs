//! TFRecord files and their indexes.

use crate::records::{Records, collect};
use crate::{tfrecord, tfrecord_index};
use feedline_io::{Error, Stat};

type Cut = Vec<Result<Vec<u8>, String>>;

fn plain(all: Vec<Result<Vec<u8>, Error>>) -> Cut {
    all.into_iter().map(|r| r.map_err(|e| e.to_string())).collect()
}

/// The records of a file, which must not depend on the size of its blocks.
fn same_by_blocks(bytes: &[u8], mut reader: impl FnMut() -> Box<dyn Records>) -> Cut {
    let whole = plain(collect(&mut *reader(), [bytes]));
    for block in [1, 7, 512] {
        // Byte by byte is slow where there are many.
        if block > 1 || bytes.len() < 4096 {
            assert_eq!(plain(collect(&mut *reader(), bytes.chunks(block))), whole, "in blocks of {block}");
        }
    }
    whole
}

pub fn tfrecord_file(bytes: &[u8]) {
    for after_bad in [tfrecord::AfterBad::End, tfrecord::AfterBad::Resync] {
        for check in [true, false] {
            let options = tfrecord::Options { check, after_bad };
            let all = same_by_blocks(bytes, || Box::new(tfrecord::Reader::new(options, Some(bytes.len() as u64))));
            let held: usize = all.iter().flatten().map(|r| r.len() + 16).sum();
            assert!(held <= bytes.len(), "more bytes came out than went in");
        }
    }
    let _ = tfrecord::unframe(bytes, true);
}

pub fn index(bytes: &[u8]) {
    // The index itself says which file it belongs to, so that more than its first check is reached.
    let len = bytes.get(12..20).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("8 bytes")));
    let version = bytes.get(36..).map_or(String::new(), |b| String::from_utf8_lossy(&b[..b.len().min(8)]).into_owned());
    if let Some(index) = tfrecord_index::Index::read(bytes, &Stat { len, version }) {
        assert!((0..index.len()).all(|i| index.span(i).start < index.span(i).end && index.span(i).end <= len));
    }
}
