//! Readers driven as pipelines drive them: in blocks of any size, from the middle of a file on, and over gaps. What comes
//! out must be the same.

use crate::records::{Copies, Cut, Hop, Records};
use feedline_io::{Buf, Result, Source, Stat, Task};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A record, whose parts follow each other, or what is said in its place.
pub type Record = std::result::Result<Vec<Vec<u8>>, String>;

/// How a file is read.
#[derive(Clone, Copy)]
pub struct Way {
    pub block: usize,
    /// Records that are asked for at once.
    pub want: usize,
    /// Parts of a record.
    pub parts: usize,
}

/// Where a new reader could go on, and how many records lie before it.
type Place = (u64, usize);

/// The memory that readers may hold: what a few bytes claim is believed up to some size.
const BELIEVED_BYTES: usize = 160 << 20;
/// Whether this process does nothing else: tests run side by side and would see each other's memory.
pub static IS_ALONE: AtomicBool = AtomicBool::new(false);

pub fn check_memory() {
    let is_fine = !IS_ALONE.load(Relaxed) || feedline_io::live_bytes() <= BELIEVED_BYTES;
    assert!(is_fine, "a few bytes made it take much memory");
}

/// All records from byte `from` on.
fn records(reader: &mut dyn Records, file: &[u8], from: usize, way: Way) -> (Vec<Record>, Vec<Place>) {
    let (mut all, mut places, mut at) = (Vec::new(), Vec::new(), from);
    loop {
        let mut some = Copies::default();
        match reader.cut(way.want, &mut some) {
            Cut::Records(n) => {
                assert!(n >= 1 && n <= way.want && some.0.len() == n * way.parts, "a reader miscounted");
                all.extend(some.0.chunks(way.parts).map(|parts| Ok(parts.to_vec())));
            }
            Cut::Fail(error) => all.push(Err(error.to_string())),
            Cut::More => {
                let end = at.saturating_add(way.block).min(file.len());
                match end > at {
                    true => reader.feed(Buf::copied(&file[at..end])),
                    false => reader.finish(),
                }
                at = end;
                check_memory();
                continue;
            }
            Cut::End => return (all, places),
        }
        places.extend(reader.place().map(|byte| (byte, all.len())));
    }
}

/// The records of a file. They are the same in blocks of any size, and from any place on from which a reader says that
/// another one could go on.
pub fn same_in_pieces(
    file: &[u8],
    block: usize,
    parts: usize,
    reader: &mut dyn FnMut() -> Box<dyn Records>,
) -> Vec<Record> {
    let (whole, _) = records(&mut *reader(), file, 0, Way { block: usize::MAX, want: 3, parts });
    for (block, want) in [(block.max(1), 2), (1, 1000), (7, 1), (512, 4)] {
        // Byte by byte is slow where there are many.
        if file.len() / block > 1024 {
            continue;
        }
        let way = Way { block, want, parts };
        let (cut, places) = records(&mut *reader(), file, 0, way);
        assert_eq!(cut, whole, "in blocks of {block}");
        for &(byte, before) in places.iter().step_by(places.len() / 4 + 1) {
            let mut again = reader();
            if again.start_at(byte, before as u64) {
                let (rest, _) = records(&mut *again, file, byte as usize, way);
                assert_eq!(rest, whole[before..], "from byte {byte} on, in blocks of {block}");
            }
        }
    }
    whole
}

/// Passes over as many of the records as it can, and reads the rest, which must be what follows them in `whole`.
pub fn same_behind_a_hop(file: &[u8], skip: u64, gap: u64, reader: &mut dyn Records, whole: &[Record]) {
    let (mut at, mut left, mut passed, mut got) = (0, skip, 0, Vec::new());
    loop {
        if left > 0
            && let Some(Hop { records, to }) = reader.hop(left, gap)
        {
            assert!(records >= 1 && records <= left);
            (left, passed) = (left - records, passed + records as usize);
            at = to.map_or(at, |to| usize::try_from(to).expect("inside of the file"));
            continue;
        }
        let mut one = Copies::default();
        match reader.cut(1, &mut one) {
            Cut::Records(_) => got.push(Ok(one.0)),
            Cut::Fail(error) => got.push(Err(error.to_string())),
            Cut::More => {
                let end = at.saturating_add(40).min(file.len());
                match end > at {
                    true => reader.feed(Buf::copied(&file[at..end])),
                    false => reader.finish(),
                }
                at = end;
                continue;
            }
            Cut::End => break,
        }
        // What has to be cut is passed over like the rest.
        if left > 0 {
            got.pop();
            (left, passed) = (left - 1, passed + 1);
        }
    }
    assert_eq!(got, whole[passed.min(whole.len())..], "behind {passed} records");
}

/// A file in memory.
#[derive(Debug)]
pub struct File(Vec<u8>);

impl File {
    pub fn of(bytes: &[u8]) -> Arc<dyn Source> {
        Arc::new(File(bytes.to_vec()))
    }
}

impl Source for File {
    fn name(&self) -> &str {
        "fuzzed"
    }
    fn stat(self: Arc<Self>) -> Task<Result<Stat>> {
        Task::ready(Ok(Stat { len: self.0.len() as u64, version: "1".into() }))
    }
    fn read(self: Arc<Self>, at: u64, len: usize) -> Task<Result<Buf>> {
        assert!(len <= self.0.len() + (1 << 20), "a read of {len} bytes of a file of {}", self.0.len());
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(self.0.len());
        Task::ready(Ok(Buf::copied(&self.0[from..from.saturating_add(len).min(self.0.len())])))
    }
}
