//! A source in memory that answers late and counts what it is asked, for the tests of readers.

use crate::source::{Hints, Source, Stat};
use crate::threads::read_in_background;
use crate::{Buf, Error, Result, Task};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(crate) struct Memory {
    bytes: Vec<u8>,
    hints: Hints,
    tells_len: AtomicBool,
    /// Each read takes its time, so that several are seen at once.
    slow: AtomicBool,
    /// Reads that fail: any that contains this byte.
    bad: Option<u64>,
    asked: AtomicUsize,
    now: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    bytes: usize,
    reads: usize,
    most_bytes: usize,
    most_reads: usize,
    all_reads: usize,
}

impl Memory {
    pub(crate) fn new(bytes: Vec<u8>, block: usize, ahead: usize) -> Arc<Memory> {
        Memory::with_bad_byte(bytes, block, ahead, None)
    }
    pub(crate) fn with_bad_byte(bytes: Vec<u8>, block: usize, ahead: usize, bad: Option<u64>) -> Arc<Memory> {
        let (tells_len, slow) = (AtomicBool::new(false), AtomicBool::new(false));
        let (asked, now) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Memory { bytes, hints: Hints { block, ahead }, tells_len, slow, bad, asked, now })
    }
    pub(crate) fn tell_len(&self) {
        self.tells_len.store(true, Relaxed);
    }
    pub(crate) fn slow(self: Arc<Self>) -> Arc<Memory> {
        self.slow.store(true, Relaxed);
        self
    }
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Relaxed)
    }
    pub(crate) fn most_on_its_way(&self) -> usize {
        self.now.lock().unwrap().most_bytes
    }
    pub(crate) fn most_reads(&self) -> usize {
        self.now.lock().unwrap().most_reads
    }
    pub(crate) fn all_reads(&self) -> usize {
        self.now.lock().unwrap().all_reads
    }
}

impl Source for Memory {
    fn name(&self) -> &str {
        "memory"
    }
    fn stat(self: Arc<Self>) -> Task<Result<Stat>> {
        Task::ready(Ok(Stat { len: self.bytes.len() as u64, version: "1".into() }))
    }
    fn known_len(&self) -> Option<u64> {
        self.tells_len.load(Relaxed).then_some(self.bytes.len() as u64)
    }
    fn hints(&self) -> Hints {
        self.hints
    }
    fn gap(&self) -> usize {
        64
    }
    fn read(self: Arc<Self>, at: u64, len: usize) -> Task<Result<Buf>> {
        self.asked.fetch_add(len, Relaxed);
        {
            let mut now = self.now.lock().unwrap();
            now.bytes += len;
            now.reads += 1;
            now.all_reads += 1;
            now.most_bytes = now.most_bytes.max(now.bytes);
            now.most_reads = now.most_reads.max(now.reads);
        }
        let (promise, task) = Task::promised(|| Err(Error::internal("lost")));
        read_in_background(move || {
            if self.slow.load(Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let from = usize::try_from(at).unwrap_or(usize::MAX).min(self.bytes.len());
            let part = &self.bytes[from..from.saturating_add(len).min(self.bytes.len())];
            let mut buf = Buf::new(part.len());
            buf.get_mut().unwrap().copy_from_slice(part);
            {
                let mut now = self.now.lock().unwrap();
                now.bytes -= len;
                now.reads -= 1;
            }
            promise.fulfil(match self.bad {
                Some(bad) if bad >= at && bad - at < len as u64 => Err(Error::loss("bad byte")),
                _ => Ok(buf),
            });
        });
        task
    }
}
