//! TFRecord files, and the indexes of files.

use super::pieces::{File, Record, same_behind_a_hop, same_in_pieces};
use crate::records::Records;
use crate::side_index::SideIndex;
use crate::tar_index;
use crate::tfrecord::{AfterBad, FOOTER, HEADER, Options, Reader, frame, masked_crc, unframe};
use crate::tfrecord_index::Index;
use feedline_io::{Kind, Stat};

/// Stands where a checksum belongs: nobody guesses one.
const SEAL: &[u8; 4] = b"****";

/// The file with right checksums in the places that are marked: of lengths, and of data of such lengths.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    let marks: Vec<usize> = (8..file.len().saturating_sub(3)).filter(|&i| &file[i..i + 4] == SEAL).collect();
    let mut footers = Vec::new();
    for at in marks {
        let length = *file[at - 8..].first_chunk::<8>().expect("8 bytes in front");
        let data = at + 4;
        let end = usize::try_from(u64::from_le_bytes(length)).ok().and_then(|n| data.checked_add(n));
        if let Some(end) = end.filter(|end| file.get(*end..).is_some_and(|rest| rest.starts_with(SEAL))) {
            footers.push(data..end);
        }
        // What reaches to the end of the file and beyond is sealed, too: such lengths have to be refused.
        let crc = masked_crc(&length);
        file[at..data].copy_from_slice(&crc.to_le_bytes());
    }
    // From the back, so that what is inside of other records is there when those are summed up.
    for data in footers.into_iter().rev() {
        let crc = masked_crc(&file[data.clone()]);
        file[data.end..data.end + FOOTER].copy_from_slice(&crc.to_le_bytes());
    }
    file
}

/// A file, plain or as the contents of a compressed one, whose size nobody knows. The first byte says how it is read.
pub fn tfrecord_file(bytes: &[u8]) {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let file = sealed(bytes);
    let len = file.len() as u64;
    let after_bad = if how & 8 == 8 { AfterBad::Resync } else { AfterBad::End };
    let options = Options { check: how & 4 == 4, after_bad };
    // It may also have been cut or have grown since it was asked.
    let file_len = [Some(len), None, Some(len + 20), Some(len / 2)][usize::from(how & 3)];
    let mut reader = || -> Box<dyn Records> { Box::new(Reader::new(options, file_len)) };
    let all = same_in_pieces(&file, 40, 1, &mut reader);
    let held: usize = all.iter().flatten().map(|r| r[0].len() + HEADER + FOOTER).sum();
    assert!(held <= file.len(), "more bytes came out than went in");
    if !options.check && file_len == Some(len) {
        for (skip, gap) in [(1, 0), (3, 20), (u64::MAX, 5)] {
            same_behind_a_hop(&file, skip, gap, &mut *reader(), &all);
        }
    }
    if file.len() > 1 {
        let mut reader = Reader::from_anywhere(Options::default(), len, len / 3);
        reader.feed(feedline_io::Buf::copied(&file[file.len() / 3..]));
        reader.finish();
        assert!(reader.find_header());
    }
    if let Ok(data) = unframe(&file, true) {
        let mut again = Vec::new();
        frame(&file[data], &mut again);
        assert_eq!(again, file);
    }
}

/// The index of a file, which says of it what reading says, also where it is damaged.
pub fn tfrecord_index(bytes: &[u8]) {
    let file = sealed(bytes);
    let len = file.len() as u64;
    let source = File::of(&file);
    let records = |check, after_bad| -> Vec<Record> {
        let mut reader = Reader::new(Options { check, after_bad }, Some(len));
        let all = crate::records::collect(&mut reader, [&file]);
        all.into_iter().map(|r| r.map(|r| vec![r]).map_err(|e| e.to_string())).collect()
    };
    let spans = |index: &Index, check: bool| -> Vec<Vec<u8>> {
        let record = |i| &file[index.span(i).start as usize..index.span(i).end as usize];
        let data = |i| unframe(record(i), check).map(|data| record(i)[data].to_vec()).expect("a whole record");
        (0..index.len()).map(data).collect()
    };
    let plain = records(false, AfterBad::End);
    match Index::scan(&source, len) {
        Ok(index) => {
            let whole: Vec<Vec<u8>> = plain.into_iter().map(|r| r.expect("a sound file")[0].clone()).collect();
            assert_eq!(spans(&index, false), whole);
            let stat = Stat { len, version: "1".into() };
            assert_eq!(Index::read(&index.written(&stat), &stat), Some(index));
        }
        Err(error) => {
            assert!(plain.iter().any(Result::is_err), "{error}");
            assert_eq!(error.kind(), Kind::Loss, "{error}");
            for check in [true, false] {
                let index = Index::of_whole_records(&source, len, check).expect("damage is left out");
                let kept = records(check, AfterBad::Resync);
                let numbers = kept.iter().enumerate().filter(|(_, r)| r.is_ok()).map(|(i, _)| i as u64);
                assert!(numbers.eq((0..index.len()).map(|i| index.number(i))));
                let kept: Vec<Vec<u8>> = kept.into_iter().flatten().map(|r| r[0].clone()).collect();
                assert_eq!(spans(&index, check), kept);
            }
        }
    }
}

/// Any bytes as the file of an index.
pub fn index(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if bytes.get(8..12) == Some(&SEAL[..]) {
        let crc = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    // The index itself says which file it belongs to, so that more than its first check is reached.
    let number = |at: usize| bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("8 bytes")));
    let (len, version) = (number(12), usize::try_from(number(28)).unwrap_or(0));
    let version = bytes.get(36..).and_then(|rest| rest.get(..version)).unwrap_or_default();
    let stat = Stat { len, version: String::from_utf8_lossy(version).into_owned() };
    if let Some(index) = Index::read(&bytes, &stat) {
        assert!((0..index.len()).all(|i| index.span(i).start < index.span(i).end && index.span(i).end <= len));
        assert_eq!(index.written(&stat), bytes);
    }
}

/// What stands in the index of a tar file, without the checksum in front, which nobody guesses: the length of the file and
/// the number of samples, a byte each, then the contents.
pub fn tar_index(bytes: &[u8]) {
    let _ = tar_index::Index::read(bytes, &Stat { len: 1 << 20, version: String::new() });
    let [len, records, contents @ ..] = bytes else { return };
    let len = u64::from(*len) << 9;
    let Some(index) = tar_index::Index::get(contents, u64::from(*records), len) else { return };
    let mut at = 0;
    for sample in (0..index.len()).map(|i| index.sample(i)) {
        assert!(sample.header >= at && !sample.key.is_empty() && !sample.fields.is_empty());
        for (_, place) in &sample.fields {
            assert!(place.start >= sample.header && place.start >= at && place.end >= place.start);
            at = place.end;
        }
    }
    assert!(at <= len, "behind the end of the file");
    let mut again = Vec::new();
    index.put(&mut again);
    assert_eq!(tar_index::Index::get(&again, index.records(), len), Some(index));
}
