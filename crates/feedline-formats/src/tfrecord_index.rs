//! Where the records of a TFRecord file lie: found once by hopping from header to header, kept beside the file, and valid
//! as long as the file's size and times of change are those it was made from. Of a damaged file the whole records can be
//! found, too; that takes reading all of it, and is not kept.
//!
//! The index file: `FLIDX001`, the CRC-32C of all that follows, the file's length, the number of records, the length of the
//! version text, that text, and the offset of each record's header; numbers are little-endian u64, the checksum is u32.

use crate::records::{Cut, Out, Records};
use crate::tfrecord::{AfterBad, FOOTER, HEADER, Options, Reader, length};
use feedline_io::{AtomicFile, Blocks, Buf, Error, INDEX_ENDING, Kind, Result, Sink, Source, Stat};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"FLIDX001";

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
        Index::scan_watched(source, file_len, &mut |_| Ok(()))
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

    /// The index kept for this file, or a new one, which is then kept: beside the file, or in the cache folder where
    /// that cannot be written.
    pub fn of(source: &Arc<dyn Source>, stat: &Stat) -> Result<Index> {
        if let Some((index, _)) = Index::kept(source, stat) {
            return Ok(index);
        }
        let index = Index::scan(source, stat.len)?;
        // An index that cannot be kept is made again next time.
        if let Err(error) = index.keep(source, stat) {
            log::info!("{error}");
        }
        Ok(index)
    }

    /// The same for whoever goes on behind damage: if the headers do not lead through the file, all of it is read, and only
    /// records that are whole are in the index. It is not kept: others would take it for that of a sound file, and what
    /// it leaves out should be said each time.
    pub fn around_damage(source: &Arc<dyn Source>, stat: &Stat, check: bool) -> Result<Index> {
        match Index::of(source, stat) {
            Err(error) if error.kind() == Kind::Loss => {}
            done => return done,
        }
        let mut reader = Reader::new(Options { check, after_bad: AfterBad::Resync }, Some(stat.len));
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
        Ok(Index { offsets, file_len: stat.len, around: Some(around) })
    }

    /// The index that is kept for this file, if it still belongs to it, and where it lies.
    pub fn kept(source: &Arc<dyn Source>, stat: &Stat) -> Option<(Index, PathBuf)> {
        let stat = &dated(source, stat);
        let read = |place: &PathBuf| std::fs::read(place).ok().and_then(|bytes| Index::read(&bytes, stat));
        places(source).into_iter().find_map(|place| read(&place).map(|index| (index, place)))
    }

    /// Keeps it in the first place that can be written: which one.
    pub fn keep(&self, source: &Arc<dyn Source>, stat: &Stat) -> Result<PathBuf> {
        let bytes = self.written(&dated(source, stat));
        let mut failed = None;
        for place in places(source) {
            match put(&place, &bytes) {
                Ok(()) => return Ok(place),
                Err(error) => failed = failed.or(Some((place, error))),
            }
        }
        let why = failed.map_or(String::new(), |(place, error)| format!(" ({}: {error})", place.display()));
        Err(Error::new(Kind::Io, format!("its index could not be kept anywhere{why}")).in_file(source.name(), None))
    }

    /// The index in these bytes, if it is whole and belongs to a file like this.
    pub fn read(bytes: &[u8], stat: &Stat) -> Option<Index> {
        let body = bytes.strip_prefix(MAGIC)?;
        let (crc, body) = body.split_first_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (numbers, rest) = body.split_first_chunk::<24>()?;
        let number = |i: usize| u64::from_le_bytes(numbers[i * 8..i * 8 + 8].try_into().expect("8 bytes"));
        let (file_len, count, version) =
            (number(0), usize::try_from(number(1)).ok()?, usize::try_from(number(2)).ok()?);
        let offsets = rest.get(version..)?;
        if file_len != stat.len
            || &rest[..version] != stat.version.as_bytes()
            || offsets.len() != count.checked_mul(8)?
        {
            return None;
        }
        let offsets: Vec<u64> = offsets.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
        let rising = offsets.windows(2).all(|w| w[0] < w[1]) && offsets.last().is_none_or(|last| *last < file_len);
        rising.then_some(Index { offsets, file_len, around: None })
    }

    pub fn written(&self, stat: &Stat) -> Vec<u8> {
        let mut body = Vec::with_capacity(24 + stat.version.len() + self.offsets.len() * 8);
        for number in [self.file_len, self.offsets.len() as u64, stat.version.len() as u64] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.extend_from_slice(stat.version.as_bytes());
        self.offsets.iter().for_each(|o| body.extend_from_slice(&o.to_le_bytes()));
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        bytes.extend(body);
        bytes
    }
}

/// With the time at which anything of the file was changed last: contents can be replaced under the old time of
/// change, as `cp -p` and `rsync` do, but not under this one. It is no part of the version of every file: a link or another
/// mode changes it, too, which is no harm for an index that is made again, but would be for a pass that reads the file.
fn dated(source: &Arc<dyn Source>, stat: &Stat) -> Stat {
    let changed = source.local_path().and_then(|path| std::fs::metadata(path).ok());
    let changed = changed.map_or(String::new(), |meta| format!("-{}.{:09}", meta.ctime(), meta.ctime_nsec()));
    Stat { len: stat.len, version: format!("{}{changed}", stat.version) }
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

/// Where the index of a file may lie, best first.
pub fn places(source: &Arc<dyn Source>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(path) = source.local_path() {
        let mut name = path.as_os_str().to_owned();
        name.push(INDEX_ENDING);
        places.push(PathBuf::from(name));
    }
    let cache = std::env::var_os("FEEDLINE_INDEX_DIR").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache"));
        Some(std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home)?.join("feedline").join("index"))
    });
    let name = match source.local_path().and_then(|p| std::fs::canonicalize(p).ok()) {
        Some(path) => path.to_string_lossy().into_owned(),
        None => source.name().to_owned(),
    };
    let (a, b) = (crc32c::crc32c(name.as_bytes()), crc32c::crc32c_append(0x5eed, name.as_bytes()));
    places.extend(cache.map(|dir| dir.join(format!("{a:08x}{b:08x}-{}{INDEX_ENDING}", name.len()))));
    places
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    if let Some(folder) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|e| Error::io(&e))?;
    }
    let mut file = AtomicFile::new(path.to_string_lossy(), path)?;
    file.write_all(bytes).map_err(|e| Error::io(&e))?;
    Box::new(file).commit()
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
                    "{text} (record {} of the file), so that those behind it have no number; `feedline verify` lists the \
                     damage, and a dataset with on_error=\"skip\" leaves it out",
                    offsets.len()
                );
                Error::loss(text).at_byte(at).in_file(self.source.name(), None)
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
    use crate::tfrecord::frame;

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
