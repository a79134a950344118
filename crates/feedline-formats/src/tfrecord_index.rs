//! Where the records of a TFRecord file lie: found once by hopping from header to header, kept beside the file, and valid
//! as long as the file is what it was made from (`side_index.rs`). Of a damaged file the whole records can be
//! found, too; that takes reading all of it, and is not kept.
//!
//! In the index file stands the offset of each record's header, a little-endian u64.

use crate::records::{Cut, Out, Records};
use crate::side_index::SideIndex;
use crate::tfrecord::{AfterBad, FOOTER, HEADER, Options, Reader, length};
use feedline_io::{Blocks, Buf, Error, Kind, Result, Source, Stat};
use std::ops::Range;
use std::sync::Arc;

/// The offsets of all records of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    offsets: Vec<u64>,
    file_len: u64,
    /// Where something is damaged, the end of each record, and its number if those that were left out count.
    around: Option<Vec<(u64, u64)>>,
}

impl Index {
    /// The number of records.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
    /// The bytes of a record with its frame.
    pub fn span(&self, record: usize) -> Range<u64> {
        let end = match &self.around {
            Some(around) => around[record].0,
            None => self.offsets.get(record + 1).copied().unwrap_or(self.file_len),
        };
        self.offsets[record]..end
    }
    /// The number of a record in the file, in which what is damaged counts.
    pub fn number(&self, record: usize) -> u64 {
        self.around.as_ref().map_or(record as u64, |around| around[record].1)
    }

    /// Finds the records of a file. Waits for its reads: not for threads that compute.
    pub fn scan(source: &Arc<dyn Source>, file_len: u64) -> Result<Index> {
        Index::scan_watched(source, file_len, &mut |_| feedline_io::wanted())
    }
    /// The same; `watch` hears now and then how far it is, and its error ends it.
    pub fn scan_watched(
        source: &Arc<dyn Source>,
        file_len: u64,
        watch: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Index> {
        let mut scan = Scan { source, window: Buf::new(0), base: 0, watch };
        Ok(Index { offsets: scan.offsets(file_len)?, file_len, around: None })
    }

    /// The index kept for this file, or a new one, which is then kept.
    pub fn of(source: &Arc<dyn Source>, stat: &Stat) -> Result<Index> {
        Index::kept_or(source, stat, || Index::scan(source, stat.len))
    }

    /// The same for whoever goes on behind damage: if the headers do not lead through the file, all of it is read, and only
    /// records that are whole are in the index. It is not kept: others would take it for that of a sound file, and what
    /// it leaves out should be said each time.
    pub fn around_damage(source: &Arc<dyn Source>, stat: &Stat, check: bool) -> Result<Index> {
        match Index::of(source, stat) {
            Err(error) if error.kind() == Kind::Loss => {}
            done => return done,
        }
        Index::of_whole_records(source, stat.len, check)
    }
    pub(crate) fn of_whole_records(source: &Arc<dyn Source>, file_len: u64, check: bool) -> Result<Index> {
        let mut reader = Reader::new(Options { check, after_bad: AfterBad::Resync }, Some(file_len));
        let mut blocks = Blocks::new(source.clone(), 0, None);
        let (mut offsets, mut around, mut damage) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let (first, mut found) = (reader.record(), Spans { base: reader.base(), spans: Vec::new() });
            match reader.cut(1024, &mut found) {
                Cut::Records(_) => {
                    offsets.extend(found.spans.iter().map(|span| span.start));
                    around.extend((first..).zip(&found.spans).map(|(number, span)| (span.end, number)));
                }
                Cut::Fail(error) => damage.push(error),
                Cut::More => match blocks.next_block() {
                    Some(block) => reader.feed(block?),
                    None => reader.finish(),
                },
                Cut::End => break,
            }
        }
        if let Some(error) = damage.first() {
            let error = error.clone().in_file(source.name(), None);
            log::warn!("left out of the index, as on_error says: {error} (one of {} damaged places)", damage.len());
        }
        Ok(Index { offsets, file_len, around: Some(around) })
    }
}

impl SideIndex for Index {
    const MAGIC: &'static [u8; 8] = b"FLIDX001";

    fn records(&self) -> u64 {
        self.offsets.len() as u64
    }
    fn put(&self, out: &mut Vec<u8>) {
        self.offsets.iter().for_each(|o| out.extend_from_slice(&o.to_le_bytes()));
    }
    fn get(contents: &[u8], records: u64, file_len: u64) -> Option<Index> {
        let (offsets, rest) = contents.as_chunks::<8>();
        if offsets.len() as u64 != records || !rest.is_empty() {
            return None;
        }
        let offsets: Vec<u64> = offsets.iter().map(|b| u64::from_le_bytes(*b)).collect();
        let rising = offsets.windows(2).all(|w| w[0] < w[1]) && offsets.last().is_none_or(|last| *last < file_len);
        rising.then_some(Index { offsets, file_len, around: None })
    }
}

/// Collects where records lie, with their frames.
struct Spans {
    /// The place in the file of the first byte of the block.
    base: u64,
    spans: Vec<Range<u64>>,
}

impl Out for Spans {
    fn view(&mut self, _: &Buf, range: Range<usize>) {
        self.spans.push(self.base + (range.start - HEADER) as u64..self.base + (range.end + FOOTER) as u64);
    }
    fn copy(&mut self, _: u64, _: &[u8]) {
        unreachable!("records lie in their blocks")
    }
}

struct Scan<'a> {
    source: &'a Arc<dyn Source>,
    window: Buf,
    /// The place in the file of the window's first byte.
    base: u64,
    watch: &'a mut dyn FnMut(u64) -> Result<()>,
}

impl Scan<'_> {
    fn offsets(&mut self, file_len: u64) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        let (mut at, mut last) = (0, 0u64);
        while at < file_len {
            // Headers that are far apart are read alone; otherwise everything is read, in long pieces.
            let header = self.header(at, if last > 64 << 10 { 4 << 10 } else { 1 << 20 })?;
            let bad = |text: String| {
                let text = format!(
                    "{text}, so that records behind it have no number; `feedline verify` lists the damage, and a dataset \
                     with on_error=\"skip\" leaves it out"
                );
                Error::loss(text).at_byte(at).at_record(offsets.len() as u64).in_file(self.source.name(), None)
            };
            let header = header.ok_or_else(|| bad("the file ends inside of a record header".into()))?;
            let len = length(&header).ok_or_else(|| bad("the checksum of a record's length is wrong".into()))?;
            let end = len.checked_add((HEADER + FOOTER) as u64).and_then(|n| n.checked_add(at));
            match end {
                Some(end) if end <= file_len => {
                    offsets.push(at);
                    (at, last) = (end, len);
                }
                _ => return Err(bad(format!("a record of {len} bytes ends beyond the file"))),
            }
        }
        Ok(offsets)
    }

    fn header(&mut self, at: u64, block: usize) -> Result<Option<[u8; HEADER]>> {
        let inside = |scan: &Self| {
            let from = usize::try_from(at.checked_sub(scan.base)?).ok()?;
            scan.window.as_slice().get(from..)?.first_chunk::<HEADER>().copied()
        };
        if let Some(header) = inside(self) {
            return Ok(Some(header));
        }
        (self.watch)(at)?;
        self.window = self.source.clone().read(at, block).wait()?;
        self.base = at;
        Ok(inside(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side_index::dated;
    use crate::tfrecord::frame;
    use std::path::{Path, PathBuf};

    fn file(dir: &Path, records: &[usize]) -> (Arc<dyn Source>, PathBuf) {
        let mut bytes = Vec::new();
        records.iter().for_each(|n| frame(&vec![7; *n], &mut bytes));
        let path = dir.join("a.tfrecord");
        std::fs::write(&path, bytes).unwrap();
        (feedline_io::open(path.to_str().unwrap()).unwrap(), path)
    }

    #[test]
    fn finds_small_and_large_records() {
        let dir = tempfile::tempdir().unwrap();
        let sizes = [0, 3, 100_000, 200_000, 70_000, 5, 3 << 20, 1, 0];
        let (source, path) = file(dir.path(), &sizes);
        let stat = source.clone().stat().wait().unwrap();
        let index = Index::of(&source, &stat).unwrap();
        let found: Vec<usize> =
            (0..index.len()).map(|i| (index.span(i).end - index.span(i).start) as usize - 16).collect();
        assert_eq!(found, sizes);
        // It is kept, and belongs to this file only as long as it does not change.
        let kept = dir.path().join("a.tfrecord.flidx");
        let bytes = std::fs::read(&kept).unwrap();
        assert_eq!(Index::read(&bytes, &dated(&source, &stat)), Some(index.clone()));
        assert_eq!(Index::read(&bytes, &Stat { version: "other".into(), ..stat.clone() }), None);
        let mut longer = std::fs::read(&path).unwrap();
        frame(b"more", &mut longer);
        std::fs::write(&path, longer).unwrap();
        let source = feedline_io::open(path.to_str().unwrap()).unwrap();
        let stat = source.clone().stat().wait().unwrap();
        assert_eq!(Index::of(&source, &stat).unwrap().len(), sizes.len() + 1);
    }

    #[test]
    fn other_contents_under_the_old_time_are_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (source, path) = file(dir.path(), &[10, 40]);
        let stat = source.clone().stat().wait().unwrap();
        assert_eq!(Index::of(&source, &stat).unwrap().span(0), 0..26);
        assert!(Index::kept(&source, &stat).is_some());
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        // The clock of file systems may tick slowly.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut bytes = Vec::new();
        [40, 10].iter().for_each(|n| frame(&vec![7; *n], &mut bytes));
        std::fs::write(&path, bytes).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert_eq!(source.clone().stat().wait().unwrap(), stat, "nothing else tells them apart");
        assert!(Index::kept(&source, &stat).is_none());
        assert_eq!(Index::of(&source, &stat).unwrap().span(0), 0..56);
    }

    #[test]
    fn damage_is_left_out_where_that_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let (_, path) = file(dir.path(), &[10; 20]);
        let sound = std::fs::read(&path).unwrap();
        // A length, contents, a record that was cut short, and the end of the file.
        let mut length = sound.clone();
        length[5 * 26 + 3] ^= 1;
        let mut both = length.clone();
        both[9 * 26 + 14] ^= 1;
        let short = [&sound[..5 * 26 + 20], &sound[6 * 26..]].concat();
        for (bytes, missing) in
            [(&length, &[5][..]), (&both, &[5, 9]), (&short, &[5]), (&sound[..19 * 26 + 3].to_vec(), &[19])]
        {
            std::fs::write(&path, bytes).unwrap();
            let source = feedline_io::open(path.to_str().unwrap()).unwrap();
            let stat = source.clone().stat().wait().unwrap();
            assert_eq!(Index::of(&source, &stat).unwrap_err().kind(), Kind::Loss);
            let index = Index::around_damage(&source, &stat, true).unwrap();
            let numbers: Vec<u64> = (0..index.len()).map(|i| index.number(i)).collect();
            assert_eq!(numbers, (0..20).filter(|i| !missing.contains(i)).collect::<Vec<_>>());
            for i in 0..index.len() {
                let span = index.span(i);
                let record = &bytes[span.start as usize..span.end as usize];
                assert_eq!(crate::tfrecord::unframe(record, true), Ok(12..22));
            }
            assert!(Index::kept(&source, &stat).is_none());
        }
    }

    #[test]
    fn damaged_indexes_are_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let (source, _) = file(dir.path(), &[1, 2, 3]);
        let stat = source.clone().stat().wait().unwrap();
        let bytes = Index::scan(&source, stat.len).unwrap().written(&stat);
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 0x10;
            assert_eq!(Index::read(&damaged, &stat), None, "byte {i}");
            assert_eq!(Index::read(&bytes[..i], &stat), None, "cut to {i}");
        }
    }

    #[test]
    fn damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (source, path) = file(dir.path(), &[10, 10]);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[26] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = Index::scan(&source, bytes.len() as u64).unwrap_err();
        assert!(error.to_string().contains("record 1") && error.at().byte == Some(26), "{error}");
        let error = Index::scan(&source, 20).unwrap_err();
        assert!(error.to_string().contains("beyond the file"), "{error}");
    }
}
