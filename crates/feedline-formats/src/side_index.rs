//! Indexes that are kept beside files: where one lies, whether it still belongs to its file, how it is read and written.
//! What is in it is the matter of its format (`tfrecord_index.rs`, `tar_index.rs`).
//!
//! The index file: eight bytes that name the format and its version, the CRC-32C of all that follows, the length of the
//! file that it is of, the number of records, the length of the version text, that text, and what the format writes;
//! numbers are little-endian u64, the checksum is u32.

use feedline_io::{AtomicFile, Error, INDEX_ENDING, Kind, Result, Sink, Source, Stat};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the three numbers behind the checksum.
const NUMBERS: usize = 24;
/// An index is never longer than its file is, but for its head: what is longer is none, and not read.
const HEAD_BYTES: u64 = 64 << 10;

/// An index that can be kept beside its file.
pub trait SideIndex: Sized {
    /// What the index file begins with: its format, and the version of that.
    const MAGIC: &'static [u8; 8];

    /// How many records it has.
    fn records(&self) -> u64;
    /// Writes what it has to say, behind what all indexes say.
    fn put(&self, out: &mut Vec<u8>);
    /// The same read, for a file of so many bytes. `None` for anything that cannot be: it may come from anybody.
    fn get(contents: &[u8], records: u64, file_len: u64) -> Option<Self>;

    /// The index kept for this file, or a new one, which is then kept: beside the file, or in the cache folder where
    /// that cannot be written.
    fn kept_or(source: &Arc<dyn Source>, stat: &Stat, make: impl FnOnce() -> Result<Self>) -> Result<Self> {
        if let Some((index, _)) = Self::kept(source, stat) {
            return Ok(index);
        }
        let index = make()?;
        // An index that cannot be kept is made again next time.
        if let Err(error) = index.keep(source, stat) {
            log::info!("{error}");
        }
        Ok(index)
    }

    /// The index that is kept for this file, if it still belongs to it, and where it lies.
    fn kept(source: &Arc<dyn Source>, stat: &Stat) -> Option<(Self, PathBuf)> {
        if stat.version.is_empty() {
            return None;
        }
        let stat = &dated(source, stat);
        let read = |place: &Path| bytes_of(place, stat).and_then(|bytes| Self::read(&bytes, stat));
        places(source).into_iter().find_map(|place| read(&place).map(|index| (index, place)))
    }

    /// Keeps it in the first place that can be written: which one.
    fn keep(&self, source: &Arc<dyn Source>, stat: &Stat) -> Result<PathBuf> {
        let failed = |why: String| {
            let text = format!("its index could not be kept anywhere{why}");
            Err(Error::new(Kind::Io, text).in_file(source.name(), None))
        };
        if stat.version.is_empty() {
            return failed(" (nobody says when it changes: it has neither an ETag nor a time)".into());
        }
        let bytes = self.written(&dated(source, stat));
        let mut first = None;
        for place in places(source) {
            match put(&place, &bytes) {
                Ok(()) => return Ok(place),
                Err(error) => first = first.or(Some((place, error))),
            }
        }
        failed(first.map_or(String::new(), |(place, error)| format!(" ({}: {error})", place.display())))
    }

    /// The index in these bytes, if it is whole and belongs to a file like this.
    fn read(bytes: &[u8], stat: &Stat) -> Option<Self> {
        let body = bytes.strip_prefix(Self::MAGIC)?;
        let (crc, body) = body.split_first_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (numbers, rest) = body.split_first_chunk::<NUMBERS>()?;
        let number = |i: usize| u64::from_le_bytes(numbers[i * 8..i * 8 + 8].try_into().expect("8 bytes"));
        let (version, contents) = rest.split_at_checked(usize::try_from(number(2)).ok()?)?;
        if number(0) != stat.len || version != stat.version.as_bytes() {
            return None;
        }
        Self::get(contents, number(1), stat.len)
    }

    fn written(&self, stat: &Stat) -> Vec<u8> {
        let mut bytes = [&Self::MAGIC[..], &[0; 4]].concat();
        for number in [stat.len, self.records(), stat.version.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(stat.version.as_bytes());
        self.put(&mut bytes);
        let crc = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// With the time at which anything of the file was changed last: contents can be replaced under the old time of
/// change, as `cp -p` and `rsync` do, but not under this one. It is no part of the version of every file: a link or another
/// mode changes it, too, which is no harm for an index that is made again, but would be for a pass that reads the file.
pub(crate) fn dated(source: &Arc<dyn Source>, stat: &Stat) -> Stat {
    let changed = source.local_path().and_then(|path| std::fs::metadata(path).ok());
    let changed = changed.map_or(String::new(), |meta| format!("-{}.{:09}", meta.ctime(), meta.ctime_nsec()));
    Stat { len: stat.len, version: format!("{}{changed}", stat.version) }
}

/// Where the index of a file may lie, best first.
fn places(source: &Arc<dyn Source>) -> Vec<PathBuf> {
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

/// What lies there, unless it cannot be an index of this file: something else may have its name.
fn bytes_of(place: &Path, stat: &Stat) -> Option<Vec<u8>> {
    let meta = std::fs::metadata(place).ok()?;
    let can_be = meta.is_file() && meta.len() <= stat.len.saturating_add(HEAD_BYTES);
    can_be.then(|| std::fs::read(place).ok()).flatten()
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    if let Some(folder) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|e| Error::io(&e))?;
    }
    // What one that was killed has left.
    feedline_io::sweep(&[path.to_string_lossy().into_owned()]);
    let mut file = AtomicFile::new(path.to_string_lossy(), path)?;
    file.write_all(bytes).map_err(|e| Error::io(&e))?;
    Box::new(file).commit()
}
