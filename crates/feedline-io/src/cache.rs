//! Far bytes kept on a disk of this machine, for the next epoch or the next process.
//!
//! 1. A source is kept in blocks of 1 MB, each a file named by a hash of the source's address, its version and the
//!    number of the block. Another version is another file: nothing goes stale.
//! 2. A file is written under a temporary name and renamed when it is whole, so a crash leaves no half of one. It holds
//!    its full key, its length and a checksum for every 64 KB; what does not agree counts as missing.
//! 3. The bytes of all files are counted in the file `lock`, under a lock that all processes share, before a file is
//!    written. What would exceed the limit makes room first: the files that were used longest ago go.
//! 4. All of it lies in a folder of its own, which is used only with our mark in it, and only files with names of our
//!    pattern are ever counted or removed.
//! 5. A disk that is full or fails stops the writing, with one line in the log; reading goes on.

use crate::fork::brief;
use crate::source::{Hints, Source, Stat};
use crate::task::Promise;
use crate::threads::spawn;
use crate::{Buf, Error, Result, Task};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

/// What one file holds of a source.
const BLOCK: usize = 1 << 20;
/// What one checksum is for: a small read checks no more than it needs.
const PAGE: usize = 64 << 10;
/// The head of a file: magic, checksum of the rest of the head, length of the data, length of the key, checksums, key.
const HEAD: usize = 4096;
const MAGIC: &[u8; 8] = b"flcache1";
const KEY_AT: usize = 20 + 4 * (BLOCK / PAGE);
/// Missing blocks that lie together are fetched together, up to this.
const FETCH: usize = 8 << 20;
/// A file is marked as used no more often than this.
const TOUCH: Duration = Duration::from_secs(60);
/// A temporary file of this age was left behind by a crash.
const ABANDONED: Duration = Duration::from_secs(3600);
/// The sub-folder, and our mark in it: backups know it and leave such folders out.
const FOLDER: &str = "feedline-cache-1";
const MARK: &str = "CACHEDIR.TAG";
const MARK_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# feedline keeps copies of far bytes here.\n";

/// A folder of kept bytes.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
    limit: u64,
    /// Nothing more is written: the disk is full, or the folder is not ours.
    stopped: AtomicBool,
    hits: AtomicU64,
    misses: AtomicU64,
}

type Caches = Mutex<HashMap<(PathBuf, u64), Arc<Cache>>>;

impl Cache {
    /// The cache in a folder, with at most `limit` bytes. The same for all who ask for the same.
    pub fn open(dir: &Path, limit: u64) -> Arc<Cache> {
        static OPEN: OnceLock<Caches> = OnceLock::new();
        let _brief = brief();
        let mut open = OPEN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let cache = || Cache {
            dir: dir.join(FOLDER),
            limit,
            stopped: AtomicBool::new(false),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        open.entry((dir.to_path_buf(), limit)).or_insert_with(|| Arc::new(cache())).clone()
    }

    /// Blocks that were found, and that were not.
    pub fn counts(&self) -> (u64, u64) {
        (self.hits.load(Relaxed), self.misses.load(Relaxed))
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{:032x}.block", hash(key.as_bytes())))
    }

    /// Fills `out` with the bytes from `offset` of a block of `len` bytes. False: they are not there.
    fn get(&self, key: &str, len: usize, offset: usize, out: &mut [u8]) -> bool {
        let found = self.find(key, len, offset, out).unwrap_or(false);
        if found { &self.hits } else { &self.misses }.fetch_add(1, Relaxed);
        found
    }

    fn find(&self, key: &str, len: usize, offset: usize, out: &mut [u8]) -> io::Result<bool> {
        let path = self.path(key);
        let file = match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        let mut head = [0; HEAD];
        let whole = file.read_exact_at(&mut head, 0).is_ok()
            && file.metadata()?.len() == (HEAD + len) as u64
            && Head { key, len }.agrees(&head);
        if !whole || !read_checked(&file, &head, len, offset, out)? {
            // Damaged, or another source with the same hash: a new one takes its place.
            let _ = fs::remove_file(&path);
            return Ok(false);
        }
        let now = SystemTime::now();
        if file.metadata()?.modified()?.checked_add(TOUCH).is_some_and(|then| then < now) {
            let _ = file.set_modified(now);
        }
        Ok(true)
    }

    /// Keeps a block, if that can be done.
    fn put(&self, key: &str, data: &[u8]) {
        if self.stopped.load(Relaxed) || KEY_AT + key.len() > HEAD || (HEAD + data.len()) as u64 > self.limit {
            return;
        }
        if let Err(e) = self.write(key, data)
            && !self.stopped.swap(true, Relaxed)
        {
            log::warn!("{}: far bytes are not kept any more: {e}", self.dir.display());
        }
    }

    fn write(&self, key: &str, data: &[u8]) -> io::Result<()> {
        let path = self.path(key);
        let temporary = path.with_extension(format!("{}.tmp", unique()));
        let Some(mut file) = self.reserve((HEAD + data.len()) as u64, &temporary)? else { return Ok(()) };
        let written = (|| {
            file.write_all(&Head { key, len: data.len() }.bytes(data))?;
            file.write_all(data)?;
            fs::rename(&temporary, &path)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Makes room for a file and makes it, of its full length: so others count it before it is written. `None` if there
    /// is no room beside those that are being written.
    fn reserve(&self, bytes: u64, temporary: &Path) -> io::Result<Option<File>> {
        self.prepare()?;
        let mut lock = Locked::new(&self.dir.join("lock"))?;
        let mut total = match lock.count() {
            Some(total) => total,
            None => self.files()?.iter().map(|file| file.len).sum(),
        };
        if total + bytes > self.limit {
            total = self.make_room(self.limit - bytes)?;
        }
        if total + bytes > self.limit {
            lock.set_count(total)?;
            return Ok(None);
        }
        let file = File::options().write(true).create_new(true).open(temporary)?;
        file.set_len(bytes)?;
        lock.set_count(total + bytes)?;
        Ok(Some(file))
    }

    /// The folder, with our mark in it.
    fn prepare(&self) -> io::Result<()> {
        let mark = self.dir.join(MARK);
        match fs::read(&mark) {
            Ok(text) if text == MARK_TEXT.as_bytes() => return Ok(()),
            Ok(_) => return Err(io::Error::other("its mark is not ours")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        fs::create_dir_all(&self.dir)?;
        // Another process may be a moment ahead with its lock, temporary mark or blocks, but nobody else's files.
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            if !is_ours(&name) && name != "lock" && !name.starts_with(MARK) {
                return Err(io::Error::other(format!("it has files that are not ours, such as {name}")));
            }
        }
        let temporary = self.dir.join(format!("{MARK}.{}", unique()));
        fs::write(&temporary, MARK_TEXT)?;
        fs::rename(&temporary, &mark)
    }

    fn files(&self) -> io::Result<Vec<Kept>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if !name.to_str().is_some_and(is_ours) {
                continue;
            }
            // Another process may have removed it.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_file() {
                let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push(Kept { used, len: meta.len(), path: entry.path() });
            }
        }
        Ok(files)
    }

    /// Removes what was used longest ago until nine tenths of `most` are left. The bytes that are left.
    fn make_room(&self, most: u64) -> io::Result<u64> {
        let mut files = self.files()?;
        files.sort_by(|a, b| a.used.cmp(&b.used).then_with(|| a.path.cmp(&b.path)));
        let mut total: u64 = files.iter().map(|file| file.len).sum();
        let goal = most - most / 10;
        let now = SystemTime::now();
        for file in files {
            let temporary = file.path.extension().is_some_and(|e| e == "tmp");
            let abandoned = file.used.checked_add(ABANDONED).is_some_and(|then| then < now);
            // A temporary file that is not old is being written.
            let goes = if temporary { abandoned } else { total > goal };
            if goes && fs::remove_file(&file.path).is_ok() {
                total -= file.len;
            }
        }
        Ok(total)
    }
}

/// `<process>-<number>`: nobody else has it.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed))
}

struct Kept {
    used: SystemTime,
    len: u64,
    path: PathBuf,
}

/// Whether a file of this name was written by us: `<32 hex>.block`, `<32 hex>.<process>-<number>.tmp`.
fn is_ours(name: &str) -> bool {
    let Some((hash, rest)) = name.split_at_checked(32) else { return false };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        && (rest == ".block"
            || rest
                .strip_prefix('.')
                .and_then(|rest| rest.strip_suffix(".tmp"))
                .and_then(|rest| rest.split_once('-'))
                .is_some_and(|(process, count)| number(process) && number(count)))
}

/// The count of bytes, held under a lock until it is dropped.
struct Locked(File);

impl Locked {
    fn new(path: &Path) -> io::Result<Locked> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        loop {
            // SAFETY: an open descriptor; the lock ends with it.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
                return Ok(Locked(file));
            }
            let e = io::Error::last_os_error();
            if e.kind() != io::ErrorKind::Interrupted {
                return Err(e);
            }
        }
    }
    fn count(&mut self) -> Option<u64> {
        let mut text = String::new();
        (&self.0).take(32).read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }
    fn set_count(&mut self, count: u64) -> io::Result<()> {
        // Of one length, so that no write leaves digits of the last.
        self.0.write_all_at(format!("{count:020}\n").as_bytes(), 0)
    }
}

/// What the head of a file says.
struct Head<'a> {
    key: &'a str,
    len: usize,
}

impl Head<'_> {
    fn bytes(&self, data: &[u8]) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(MAGIC);
        head[12..16].copy_from_slice(&(self.len as u32).to_le_bytes());
        head[16..20].copy_from_slice(&(self.key.len() as u32).to_le_bytes());
        for (page, sum) in data.chunks(PAGE).zip(head[20..KEY_AT].chunks_exact_mut(4)) {
            sum.copy_from_slice(&crc32c::crc32c(page).to_le_bytes());
        }
        head[KEY_AT..KEY_AT + self.key.len()].copy_from_slice(self.key.as_bytes());
        let sum = crc32c::crc32c(&head[12..]);
        head[8..12].copy_from_slice(&sum.to_le_bytes());
        head
    }
    fn agrees(&self, head: &[u8; HEAD]) -> bool {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        head[..8] == *MAGIC
            && word(8) == crc32c::crc32c(&head[12..])
            && word(12) as usize == self.len
            && word(16) as usize == self.key.len()
            && head[KEY_AT..].starts_with(self.key.as_bytes())
    }
}

/// Reads the pages that hold the bytes from `offset` on, checks them, and copies the bytes.
fn read_checked(file: &File, head: &[u8; HEAD], len: usize, offset: usize, out: &mut [u8]) -> io::Result<bool> {
    let first = offset / PAGE * PAGE;
    let last = (offset + out.len()).next_multiple_of(PAGE).min(len);
    let mut pages = Buf::new(last - first);
    let bytes = pages.get_mut().expect("a new block has one holder");
    file.read_exact_at(bytes, (HEAD + first) as u64)?;
    for (i, page) in bytes.chunks(PAGE).enumerate() {
        let at = 20 + 4 * (first / PAGE + i);
        if head[at..at + 4] != crc32c::crc32c(page).to_le_bytes() {
            return Ok(false);
        }
    }
    out.copy_from_slice(&bytes[offset - first..offset - first + out.len()]);
    Ok(true)
}

/// FNV-1a with 128 bits: it names files; the key in the file decides.
fn hash(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

/// A source whose bytes are kept.
#[derive(Debug)]
pub struct Cached {
    source: Arc<dyn Source>,
    cache: Arc<Cache>,
    /// The address in a hash: it may hold secrets.
    address: u128,
    stat: OnceLock<Stat>,
    fetching: Mutex<Fetching>,
}

/// Blocks that a read is fetching, with the reads that wait for them: nothing is fetched twice at once.
#[derive(Debug, Default)]
struct Fetching {
    blocks: HashMap<u64, Vec<Promise<()>>>,
    /// Whose reads they are: the child of a fork would wait for its parent's for ever.
    process: u32,
}

impl Cached {
    /// `address`: the whole of it. The name of a source may lack what is secret.
    pub fn new(source: Arc<dyn Source>, cache: Arc<Cache>, address: &str) -> Cached {
        let address = hash(address.as_bytes());
        Cached { source, cache, address, stat: OnceLock::new(), fetching: Mutex::default() }
    }

    async fn first_stat(&self) -> Result<&Stat> {
        if let Some(stat) = self.stat.get() {
            return Ok(stat);
        }
        let stat = self.source.clone().stat().await?;
        let _brief = brief();
        Ok(self.stat.get_or_init(|| stat))
    }

    async fn fetch(&self, at: u64, len: usize) -> Result<Buf> {
        let stat = self.first_stat().await?;
        if stat.version.is_empty() {
            // Without a version nobody could tell when a kept block is old.
            return self.source.clone().read(at, len).await;
        }
        let end = at.saturating_add(len as u64).min(stat.len);
        let mut out = Vec::new();
        let mut at = at;
        while at < end {
            // In pieces: the length that a server claims does not decide how much memory is taken.
            let piece = self.piece(stat, at, (end - at).min(FETCH as u64) as usize).await?;
            at += piece.len() as u64;
            out.push(piece);
        }
        Ok(joined(out))
    }

    fn key(&self, stat: &Stat, block: u64) -> String {
        format!("{:032x}\n{}\n{block}\n{}", self.address, stat.version, self.source.name())
    }

    /// At most `FETCH` bytes that are within the source: from the cache block by block, or where blocks are missing from
    /// the source.
    async fn piece(&self, stat: &Stat, at: u64, len: usize) -> Result<Buf> {
        let block_len = |block: u64| (stat.len - block * BLOCK as u64).min(BLOCK as u64) as usize;
        let mut buf = Buf::new(len);
        let mut filled = 0;
        // The block that was not found though it was said to be there.
        let mut missed = None;
        while filled < len {
            let from = at + filled as u64;
            let (block, offset) = (from / BLOCK as u64, (from % BLOCK as u64) as usize);
            let n = (block_len(block) - offset).min(len - filled);
            let out = buf.get_mut().expect("nobody else has it yet");
            if self.cache.get(&self.key(stat, block), block_len(block), offset, &mut out[filled..filled + n]) {
                filled += n;
                continue;
            }
            let last = (at + len as u64 - 1) / BLOCK as u64;
            let fetch = match self.claim(stat, block, last, missed != Some(block)) {
                Ok(fetch) => fetch,
                // Another read has it, or has had it, under way. It is in the cache, or else it is this one's turn.
                Err(other) => {
                    other.await;
                    missed = Some(block);
                    continue;
                }
            };
            let blocks = fetch.blocks.clone();
            let start = block * BLOCK as u64;
            let wanted = (blocks.end * BLOCK as u64).min(stat.len) - start;
            let read = self.source.clone().read(start, wanted as usize).await?;
            if (read.len() as u64) < wanted {
                let message = format!("ended after {} bytes of {}", start + read.len() as u64, stat.len);
                return Err(Error::loss(message).in_file(self.name(), Some(start + read.len() as u64)));
            }
            for (block, data) in blocks.zip(read.as_slice().chunks(BLOCK)) {
                self.cache.put(&self.key(stat, block), data);
            }
            drop(fetch);
            let n = (read.len() - offset).min(len - filled);
            let out = buf.get_mut().expect("nobody else has it yet");
            out[filled..filled + n].copy_from_slice(&read.as_slice()[offset..offset + n]);
            filled += n;
        }
        Ok(buf)
    }
}

impl Cached {
    /// To be held inside `brief()`.
    fn fetching(&self) -> MutexGuard<'_, Fetching> {
        let mut fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if fetching.process != std::process::id() {
            *fetching = Fetching { blocks: HashMap::new(), process: std::process::id() };
        }
        fetching
    }

    /// The right to fetch a block and those after it, up to `last` or to one that is there or under way already; or the
    /// end of somebody else's fetch of it. `look`: it may have come since it was missed.
    fn claim(&self, stat: &Stat, block: u64, last: u64, look: bool) -> Result<Fetch<'_>, Task<()>> {
        let _brief = brief();
        let mut fetching = self.fetching();
        let fetching = &mut fetching.blocks;
        // What is not kept is of no use to others.
        if !self.cache.stopped.load(Relaxed)
            && let Some(waiting) = fetching.get_mut(&block)
        {
            let (promise, task) = Task::promised(|| ());
            waiting.push(promise);
            return Err(task);
        }
        let is_kept = |block: u64| self.cache.path(&self.key(stat, block)).exists();
        if look && is_kept(block) {
            return Err(Task::ready(()));
        }
        let is_there = |block: &u64| fetching.contains_key(block) || is_kept(*block);
        let end = (block + 1..=last).find(is_there).unwrap_or(last + 1);
        for block in block..end {
            fetching.entry(block).or_default();
        }
        Ok(Fetch { cached: self, blocks: block..end })
    }
}

/// Blocks that a read is fetching. Those who wait for them go on when it is dropped.
struct Fetch<'a> {
    cached: &'a Cached,
    blocks: Range<u64>,
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        let waiting: Vec<_> = {
            let _brief = brief();
            let mut fetching = self.cached.fetching();
            self.blocks.clone().filter_map(|block| fetching.blocks.remove(&block)).collect()
        };
        // A promise that is dropped is kept.
        drop(waiting);
    }
}

fn joined(mut pieces: Vec<Buf>) -> Buf {
    if pieces.len() == 1 {
        return pieces.remove(0);
    }
    let mut all = Buf::new(pieces.iter().map(Buf::len).sum());
    let mut out = all.get_mut().expect("a new block has one holder");
    for piece in pieces {
        let (front, rest) = out.split_at_mut(piece.len());
        front.copy_from_slice(piece.as_slice());
        out = rest;
    }
    all
}

impl Source for Cached {
    fn name(&self) -> &str {
        self.source.name()
    }
    fn known_len(&self) -> Option<u64> {
        self.stat.get().map(|stat| stat.len)
    }
    fn known(&self) -> Option<Stat> {
        self.stat.get().cloned().or_else(|| self.source.known())
    }
    fn stat(self: Arc<Self>) -> Task<Result<Stat>> {
        self.source.clone().stat()
    }
    fn read(self: Arc<Self>, at: u64, len: usize) -> Task<Result<Buf>> {
        if len == 0 {
            return Task::ready(Ok(Buf::new(0)));
        }
        spawn(|| Err(Error::internal("an I/O thread ended early")), async move { self.fetch(at, len).await })
    }
    fn hints(&self) -> Hints {
        self.source.hints()
    }
    fn longest(&self) -> usize {
        self.source.longest()
    }
    fn gap(&self) -> usize {
        self.source.gap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Memory;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u32).flat_map(|x| x.wrapping_mul(2_654_435_761).to_le_bytes()).take(len).collect()
    }
    fn cached(dir: &Path, limit: u64, bytes: &[u8], address: &str) -> (Arc<Memory>, Arc<Cache>, Arc<Cached>) {
        let memory = Memory::new(bytes.to_vec(), 1 << 20, 8 << 20);
        let cache = Cache::open(dir, limit);
        (memory.clone(), cache.clone(), Arc::new(Cached::new(memory, cache, address)))
    }
    fn blocks(dir: &Path) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = fs::read_dir(dir.join(FOLDER))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "block"))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn what_was_read_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let all = bytes(3_500_000);
        let (memory, _, source) = cached(dir.path(), 1 << 30, &all, "a");
        for (at, len) in [(0, 100), (1_000_000, 2_000_000), (3_400_000, 500_000), (0, 1 << 40), (4_000_000, 1)] {
            let got = source.clone().read(at, len).wait().unwrap();
            let from = (at as usize).min(all.len());
            assert_eq!(got.as_slice(), &all[from..from.saturating_add(len).min(all.len())]);
        }
        assert_eq!(memory.asked(), all.len());
        // Another process, or the next one.
        let (memory, _, source) = cached(dir.path(), 1 << 30, &all, "a");
        assert_eq!(source.read(0, all.len()).wait().unwrap().as_slice(), all);
        assert_eq!(memory.asked(), 0);
        // Another address is another source.
        let (memory, _, source) = cached(dir.path(), 1 << 30, &bytes(1000), "b");
        assert_eq!(source.read(0, 1000).wait().unwrap().len(), 1000);
        assert_eq!(memory.asked(), 1000);
    }

    #[test]
    fn nothing_is_fetched_twice_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let all = bytes(5_000_000);
        let (memory, _, source) = cached(dir.path(), 1 << 30, &all, "a");
        let reads: Vec<_> = (0..50u64).map(|i| (i * 100_000, source.clone().read(i * 100_000, 100_000))).collect();
        for (at, read) in reads {
            assert_eq!(read.wait().unwrap().as_slice(), &all[at as usize..at as usize + 100_000]);
        }
        assert_eq!(memory.asked(), all.len());
        // A fetch that fails does not take the others with it for ever.
        let bad = Memory::with_bad_byte(all.clone(), 1 << 20, 8 << 20, Some(10));
        let source = Arc::new(Cached::new(bad, Cache::open(dir.path(), 1 << 30), "bad"));
        let reads: Vec<_> = (0..20u64).map(|i| source.clone().read(i, 100_000)).collect();
        assert!(reads.into_iter().all(|read| read.wait().is_err()));
        assert!(source.fetching().blocks.is_empty());
    }

    #[test]
    fn damage_is_found_and_mended() {
        let dir = tempfile::tempdir().unwrap();
        let all = bytes(1_000_000);
        let (_, _, source) = cached(dir.path(), 1 << 30, &all, "a");
        source.read(0, 10).wait().unwrap();
        let file = blocks(dir.path()).remove(0);
        let good = fs::read(&file).unwrap();
        type Harm = fn(&mut Vec<u8>);
        let harms: [Harm; 6] = [
            |b| b[HEAD + 5] ^= 1,
            |b| b[30] ^= 1,
            |b| b.truncate(500_000),
            |b| b.clear(),
            |b| b.push(0),
            |b| b[..8].copy_from_slice(b"flcache2"),
        ];
        for harm in harms {
            let mut bad = good.clone();
            harm(&mut bad);
            fs::write(&file, &bad).unwrap();
            let (memory, _, source) = cached(dir.path(), 1 << 30, &all, "a");
            assert_eq!(source.read(0, 100_000).wait().unwrap().as_slice(), &all[..100_000]);
            assert_eq!(memory.asked(), all.len());
            assert_eq!(fs::read(&file).unwrap(), good);
        }
    }

    #[test]
    fn the_limit_holds_and_only_ours_goes() {
        let dir = tempfile::tempdir().unwrap();
        let all = bytes(20 << 20);
        let limit = 5 * (BLOCK + HEAD) as u64;
        let (_, cache, source) = cached(dir.path(), limit, &all, "a");
        fs::create_dir(&cache.dir).unwrap();
        let left = cache.dir.join("0123456789abcdef0123456789abcdef.77-0.tmp");
        fs::write(&left, vec![0; 100]).unwrap();
        File::options().write(true).open(&left).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        source.clone().read(0, 10).wait().unwrap();
        let strange = ["notes.txt", "0123.block", "0123456789abcdef0123456789abcdef.block.old"];
        for name in strange {
            fs::write(cache.dir.join(name), vec![0; 3 << 20]).unwrap();
        }
        for at in (0..all.len()).step_by(BLOCK) {
            assert_eq!(source.clone().read(at as u64, 10).wait().unwrap().as_slice(), &all[at..at + 10]);
            let kept: u64 = cache.files().unwrap().iter().map(|file| file.len).sum();
            assert!(kept <= limit, "{kept} of {limit}");
        }
        assert!(blocks(dir.path()).len() >= 4);
        assert!(strange.iter().all(|name| cache.dir.join(name).exists()));
        assert!(!left.exists(), "what a crash left behind is removed");
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let all = bytes(8 << 20);
        let (memory, _, source) = cached(dir.path(), 5 * (BLOCK + HEAD) as u64, &all, "a");
        let block = |n: u64| source.clone().read(n * BLOCK as u64, 10).wait().unwrap();
        for n in 0..4 {
            block(n);
        }
        // All were used an hour ago, and then the first again.
        for path in blocks(dir.path()) {
            let hour_ago = SystemTime::now() - Duration::from_secs(3000);
            File::options().write(true).open(path).unwrap().set_modified(hour_ago).unwrap();
        }
        block(0);
        (4..6).for_each(|n| drop(block(n)));
        let asked = memory.asked();
        block(0);
        assert_eq!(memory.asked(), asked, "it was used last and must be there");
        block(1);
        assert_eq!(memory.asked(), asked + BLOCK);
    }

    #[test]
    fn a_disk_that_fails_costs_no_reads() {
        let dir = tempfile::tempdir().unwrap();
        let all = bytes(2_000_000);
        // A file where the folder should be.
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let (_, cache, source) = cached(&file, 1 << 30, &all, "a");
        assert_eq!(source.read(5, 1_500_000).wait().unwrap().as_slice(), &all[5..1_500_005]);
        assert!(cache.stopped.load(Relaxed));
        // Somebody else's folder.
        let theirs = dir.path().join(FOLDER);
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("thesis.txt"), "x").unwrap();
        let (_, cache, source) = cached(dir.path(), 1 << 30, &all, "a");
        assert_eq!(source.read(5, 10).wait().unwrap().as_slice(), &all[5..15]);
        assert!(cache.stopped.load(Relaxed));
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1);
        // A folder that vanishes while it is used comes back.
        let gone = tempfile::tempdir().unwrap();
        let (memory, cache, source) = cached(gone.path(), 1 << 30, &all, "a");
        source.clone().read(0, 10).wait().unwrap();
        fs::remove_dir_all(&cache.dir).unwrap();
        source.clone().read(0, 10).wait().unwrap();
        source.read(0, 10).wait().unwrap();
        assert_eq!(memory.asked(), 2 * BLOCK);
    }

    #[test]
    fn many_may_read_and_write_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let all = bytes(6 << 20);
        let limit = 3 * (BLOCK + HEAD) as u64;
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (all, dir) = (&all, dir.path());
                scope.spawn(move || {
                    // Each with a handle of its own, as in processes of their own.
                    let memory = Memory::new(all.to_vec(), 1 << 20, 8 << 20);
                    let cache = Cache {
                        dir: dir.join(FOLDER),
                        limit,
                        stopped: AtomicBool::new(false),
                        hits: AtomicU64::new(0),
                        misses: AtomicU64::new(0),
                    };
                    let source = Arc::new(Cached::new(memory, Arc::new(cache), "a"));
                    for i in 0..30u64 {
                        let at = (i * 7 + thread * 3) % 6 * BLOCK as u64 + i;
                        let got = source.clone().read(at, 5000).wait().unwrap();
                        assert_eq!(got.as_slice(), &all[at as usize..at as usize + 5000]);
                    }
                    assert!(!source.cache.stopped.load(Relaxed));
                });
            }
        });
        let kept: u64 = blocks(dir.path()).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        assert!(kept <= limit, "{kept} of {limit}");
    }

    #[test]
    fn names_of_ours_are_exact() {
        let hash = "0123456789abcdef0123456789abcdef";
        assert!(is_ours(&format!("{hash}.block")) && is_ours(&format!("{hash}.12-3.tmp")));
        for name in
            ["", "lock", MARK, hash, &format!("{hash}.block2"), &format!("{hash}.-3.tmp"), &format!("x{hash}.block")]
        {
            assert!(!is_ours(name), "{name}");
        }
        assert!(!is_ours(&format!("{}.block", hash.to_uppercase())));
        assert!(!is_ours("é".repeat(40).as_str()));
    }
}
