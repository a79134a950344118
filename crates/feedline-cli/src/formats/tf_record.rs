//! TFRecord: checked at the speed of memory, in parts, side by side, and yet exactly.
//!
//! 1. A plain file is cut into parts of equal size. Nothing says where a record begins, so each part looks for its first
//!    header, and reads from there up to the first record that begins behind its end (`Part::read`).
//! 2. `join` goes through the parts in order. Where a part's first record begins just where the part before ended, it
//!    was read right. Where not (something inside of a record looked like a header, or damage), it is read again from
//!    the right place.
//! 3. So is a part with damage, now that the number of its first record is known.

use super::records::is_damage;
use super::{Checked, Format, Indexed, Kind, Scan, compressed, count_records, each_record, files_param, no_fill};
use crate::examples;
use crate::file::File;
use crate::session::Watch;
use crate::wanted::Wanted;
use feedline::Result;
use feedline_formats::records::{Cut, Out, Records};
use feedline_formats::tfrecord::{AfterBad, HEADER, Options, Reader, length};
use feedline_formats::tfrecord_index::Index;
use feedline_io::{Blocks, Buf};
use serde_json::{Value as Json, json};
use std::ops::Range;

pub static FORMAT: Format = Format {
    name: "tfrecord",
    about: "records with checksums, mostly tf.train.Examples",
    endings: &["tfrecord", "tfrecords", "tfrec"],
    likely: |head| head.first_chunk::<HEADER>().is_some_and(|h| length(h).is_some()).into(),
    op: "tf_record",
    params,
    writer: "tf_record",
    options: compressed,
    reader: Some(reader),
    check,
    count,
    index: Some(Indexed::new::<Index>()),
    kind: Kind::Records,
    show: None,
    prepare: |rows| examples::make(&rows),
};

const RESYNC: Options = Options { check: true, after_bad: AfterBad::Resync };
/// The size of a part: long beside what it takes to begin one.
const PART_BYTES: u64 = 32 << 20;
/// A part gives up if it finds no header in so many bytes: its records are long, and the part before goes through them.
const SEARCH_BYTES: u64 = 1 << 20;

fn params(files: &[File], wanted: &Wanted<'_>) -> Result<Json> {
    no_fill(files, wanted)?;
    Ok(json!({ "files": files_param(files)?, "compression_type": files[0].compression.name() }))
}

fn reader(file: &File) -> Result<Box<dyn Records>> {
    let len = file.is_plain().then_some(file.stat.len);
    Ok(Box::new(Reader::new(Options::default(), len)))
}

fn count(file: &File, watch: &Watch<'_>) -> Result<u64> {
    if file.is_plain() { <Index as Scan>::count(file, watch) } else { count_records(file, watch) }
}

impl Scan for Index {
    fn scan(file: &File, watch: &mut dyn FnMut(u64) -> Result<()>) -> Result<Index> {
        Index::scan_watched(&file.source, file.stat.len, watch)
    }
}

/// The whole file on one thread. Plain ones are better cut into `parts`.
fn check(file: &File, watch: &Watch<'_>) -> Result<Checked> {
    if file.is_plain() {
        return join(file, &[], watch);
    }
    let (mut checked, mut number) = (Checked::default(), 0);
    each_record(file, &mut Reader::new(RESYNC, None), watch, &mut |byte, record| {
        match record {
            Ok(_) => checked.good(byte - HEADER as u64),
            Err(error) => checked.bad(error, number),
        }
        number += 1;
    })?;
    Ok(checked)
}

/// A part of a file, read from its first header on.
pub struct Part {
    /// Where the first record begins.
    first: u64,
    /// Where the first record begins that is not of this part.
    end: u64,
    checked: Checked,
}

/// Where a file is cut; none if it is read in one go.
pub fn parts(file: &File) -> Vec<Range<u64>> {
    let len = file.stat.len;
    if !std::ptr::eq(file.format, &FORMAT) || !file.is_plain() || len < 2 * PART_BYTES {
        return vec![];
    }
    let cuts = (0..len.div_ceil(PART_BYTES)).map(|i| i * PART_BYTES);
    cuts.map(|from| from..(from + PART_BYTES).min(len)).collect()
}

impl Part {
    /// `None` if no header was found.
    pub fn read(file: &File, range: Range<u64>, watch: &Watch<'_>) -> Result<Option<Part>> {
        let mut reader = match range.start {
            0 => Reader::at(RESYNC, file.stat.len, 0, 0),
            at => Reader::from_anywhere(RESYNC, file.stat.len, at),
        };
        let mut feed = Feed::new(file, range.clone(), watch);
        while !reader.find_header() {
            if feed.at - range.start >= SEARCH_BYTES {
                return Ok(None);
            }
            feed.next(&mut reader)?;
        }
        let (first, mut checked) = (reader.offset(), Checked::default());
        read(&mut reader, &mut feed, &mut checked)?;
        Ok(Some(Part { first, end: reader.offset(), checked }))
    }
}

/// Brings a reader the blocks of a file from some place on, also beyond the end of the range if a record goes on there.
struct Feed<'a> {
    file: &'a File,
    blocks: Blocks,
    /// Where the next block begins.
    at: u64,
    end: u64,
    watch: &'a Watch<'a>,
}

impl<'a> Feed<'a> {
    fn new(file: &'a File, range: Range<u64>, watch: &'a Watch<'a>) -> Feed<'a> {
        let blocks = Blocks::new(file.source.clone(), range.start, None);
        Feed { file, blocks, at: range.start, end: range.end, watch }
    }
    fn next(&mut self, reader: &mut Reader) -> Result<()> {
        match self.blocks.next_block() {
            Some(block) => {
                let block = block.map_err(|e| e.in_file(&self.file.name, None))?;
                let before = self.at;
                self.at += block.len() as u64;
                // What lies behind the end is counted by the part it is of.
                self.watch.done(self.at.min(self.end).saturating_sub(before))?;
                reader.feed(block);
            }
            None => reader.finish(),
        }
        Ok(())
    }
}

/// Reads records that begin before the end of the range. False if the file ends there.
fn read(reader: &mut Reader, feed: &mut Feed<'_>, checked: &mut Checked) -> Result<bool> {
    while reader.is_lost() || reader.offset() < feed.end {
        // Beyond the end, one by one.
        let want = if feed.at <= feed.end { usize::MAX } else { 1 };
        let mut good = Good { base: reader.base(), checked };
        match reader.cut(want, &mut good) {
            Cut::Records(_) => {}
            Cut::Fail(error) => {
                debug_assert!(is_damage(&error));
                checked.bad(error.in_file(&feed.file.name, None), reader.record() - 1);
            }
            Cut::More => feed.next(reader)?,
            Cut::End => {
                checked.end(feed.file.stat.len);
                return Ok(false);
            }
        }
    }
    Ok(true)
}

struct Good<'a> {
    base: u64,
    checked: &'a mut Checked,
}

impl Out for Good<'_> {
    #[inline]
    fn view(&mut self, _: &Buf, range: Range<usize>) {
        self.checked.good(self.base + (range.start - HEADER) as u64);
    }
    fn copy(&mut self, _: u64, _: &[u8]) {
        unreachable!("records lie in their blocks")
    }
}

/// What the parts of a file tell together. Those that are missing are read here.
pub fn join(file: &File, parts: &[(Range<u64>, Option<Part>)], watch: &Watch<'_>) -> Result<Checked> {
    let len = file.stat.len;
    let whole = [(0..len, None)];
    let parts = if parts.is_empty() { &whole } else { parts };
    let mut all = Checked::default();
    let mut reader = Reader::at(RESYNC, len, 0, 0);
    for (range, part) in parts {
        // A long record, or damage, reached over all of it.
        if reader.offset() >= range.end {
            continue;
        }
        let (at, number) = (reader.offset(), reader.record());
        match part {
            Some(part) if part.first == at && part.checked.broken == 0 => {
                all.records += part.checked.records;
                reader = Reader::at(RESYNC, len, part.end, number + part.checked.records);
            }
            _ => {
                reader = Reader::at(RESYNC, len, at, number);
                let mut feed = Feed::new(file, at..range.end, watch);
                if !read(&mut reader, &mut feed, &mut all)? {
                    break;
                }
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Reading;
    use crate::session::{Session, Unit};
    use feedline_formats::tfrecord::frame;

    /// Checks in parts of any size and as a whole: both must tell the same.
    fn checked(bytes: &[u8], part_bytes: u64) -> (u64, Vec<(u64, u64, u64)>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tfrecord");
        std::fs::write(&path, bytes).unwrap();
        let reading = Reading { format: Some("tfrecord".into()), no_header: false };
        let file = File::open(path.to_str().unwrap(), &reading).unwrap();
        let mut poll = || false;
        let session = Session::new(false, true, Some(1), &mut poll);
        let watch = session.watch("checking", 0, Unit::Bytes);
        let told = |c: &Checked| {
            let damage = c.damage.iter().map(|d| (d.record, d.error.at().byte.unwrap(), d.lost_bytes)).collect();
            (c.records, damage)
        };
        let whole = check(&file, &watch).unwrap();
        let len = bytes.len() as u64;
        let parts: Vec<_> = (0..len.div_ceil(part_bytes))
            .map(|i| i * part_bytes..(i * part_bytes + part_bytes).min(len))
            .map(|range| (range.clone(), Part::read(&file, range, &watch).unwrap()))
            .collect();
        let joined = join(&file, &parts, &watch).unwrap();
        assert_eq!(told(&joined), told(&whole), "parts of {part_bytes} bytes");
        assert_eq!(joined.lost_bytes, whole.lost_bytes);
        let texts = |c: &Checked| c.damage.iter().map(|d| d.error.to_string()).collect::<Vec<_>>();
        assert_eq!(texts(&joined), texts(&whole));
        told(&joined)
    }

    fn file_of(lengths: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (i, len) in lengths.iter().enumerate() {
            frame(&vec![i as u8; *len], &mut bytes);
        }
        bytes
    }

    #[test]
    fn parts_of_any_size_tell_the_same() {
        let mut bytes = file_of(&[3, 0, 100, 5, 2000, 1, 7, 50, 900, 4]);
        // A record that holds records: what looks like a header inside is none.
        let inner = file_of(&[10, 20, 30]);
        frame(&inner, &mut bytes);
        frame(b"end", &mut bytes);
        for part_bytes in [20, 64, 100, 333, 1000, 5000] {
            assert_eq!(checked(&bytes, part_bytes), (12, vec![]));
        }
    }

    #[test]
    fn damage_is_found_in_any_part() {
        let bytes = file_of(&[30; 40]);
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let (records, damage) = checked(&damaged, 200);
            assert_eq!((records, damage.len()), (39, 1), "byte {at}");
            assert_eq!(damage[0], (at as u64 / 46, at as u64 / 46 * 46, 46));
        }
        for cut in [1, 45, 47, 500] {
            let (records, damage) = checked(&bytes[..bytes.len() - cut], 200);
            assert_eq!((records, damage.len()), (39 - cut as u64 / 46, 1), "{cut} bytes cut");
        }
        // A record of which 50 bytes were written costs these, and none of those behind it.
        let cut_short = [file_of(&[30; 5]), file_of(&[1001])[..50].to_vec(), file_of(&[30; 40])].concat();
        for part_bytes in [20, 200, 1000] {
            assert_eq!(checked(&cut_short, part_bytes), (45, vec![(5, 230, 50)]));
        }
        assert_eq!(checked(b"", 10), (0, vec![]));
        assert_eq!(checked(b"no records at all, only some text", 10).1.len(), 1);
    }
}
