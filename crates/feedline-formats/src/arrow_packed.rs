//! Buffers of compressed record batches of Arrow files, each unpacked once into a block of ours for all pieces of its batch.
//!
//! A batch is as large as its writer liked. The Arrow crate unpacks all of it into vectors before anybody can ask whether
//! there is room; here it is one buffer after the other, each after a look at what it claims to become.

use arrow_buffer::Buffer;
use arrow_ipc::CompressionType;
use feedline_io::{Buf, Error, Kind, Result};
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was unpacked of a batch, by the numbers of its buffers, each as soon as a piece wanted it.
pub struct Unpacked {
    buffers: Mutex<HashMap<usize, Slot>>,
    /// Bytes that all of them may have, the packed ones of one included.
    most: usize,
    taken: Mutex<usize>,
}

/// A buffer, unpacked by the first who wants it while the others wait.
type Slot = Arc<Mutex<Option<Buffer>>>;

/// What stands in front of a buffer: how long it will be. A negative one has what follows as it is.
const PREFIX: usize = 8;
/// Buffers may take this much, whatever the limit.
const LEAST_BYTES: usize = 8 << 20;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is whole: it is put there in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unpacked {
    pub fn new(most: usize) -> Unpacked {
        Unpacked { buffers: Mutex::default(), most: most.max(LEAST_BYTES), taken: Mutex::new(0) }
    }
    /// Bytes that may be taken for all of a batch.
    pub fn most(&self) -> usize {
        self.most
    }
    /// A buffer, of which `packed` has the bytes: those that were read for it count, and how many these are.
    pub fn get(
        &self,
        number: usize,
        kind: CompressionType,
        packed: impl FnOnce() -> Result<(Buffer, usize)>,
    ) -> Result<Buffer> {
        let slot = lock(&self.buffers).entry(number).or_default().clone();
        let mut slot = lock(&slot);
        if let Some(buffer) = &*slot {
            return Ok(buffer.clone());
        }
        let (packed, read) = packed()?;
        let buffer = match size_of(&packed, packed.len() as u64, kind).map_err(Error::data)? {
            Size::Empty => Buffer::default(),
            Size::Plain => {
                self.take(read)?;
                packed.slice(PREFIX)
            }
            Size::Becomes(size) => {
                self.room_for(size.saturating_add(read))?;
                self.take(size)?;
                let mut buf = Buf::new(size);
                unpack(&packed[PREFIX..], kind, buf.get_mut().expect("a new block has one holder"))?;
                crate::columnar::to_buffer(buf)
            }
        };
        *slot = Some(buffer.clone());
        Ok(buffer)
    }
    fn take(&self, bytes: usize) -> Result<()> {
        self.room_for(bytes)?;
        *lock(&self.taken) += bytes;
        Ok(())
    }
    fn room_for(&self, bytes: usize) -> Result<()> {
        check_room(lock(&self.taken).saturating_add(bytes), self.most)
    }
}

/// Refuses what takes more than there is room for.
pub fn check_room(bytes: usize, most: usize) -> Result<()> {
    if bytes <= most {
        return Ok(());
    }
    let mega = |bytes: usize| format!("{:.1} MB", bytes as f64 / 1e6);
    let text = format!(
        "it is compressed, and takes {} or more to unpack; memory_limit leaves {} for that: raise it to {} or more, or write \
         the file with fewer rows in a batch, or without compression",
        mega(bytes),
        mega(most),
        mega(bytes.saturating_mul(2).saturating_add(100_000)),
    );
    Err(Error::new(Kind::Budget, text))
}

/// Of a batch that has to be read as a whole, of which there is no room for so many bytes.
pub fn too_large_to_read(bytes: usize, most: usize) -> Error {
    let mega = |bytes: usize| format!("{:.1} MB", bytes as f64 / 1e6);
    let text = format!(
        "it has a dictionary or a rare type, so that all of its {} are read at once; memory_limit leaves {} for that: raise \
         it to {} or more, or write the file with fewer rows in a batch, or with plain types",
        mega(bytes),
        mega(most),
        mega(bytes.saturating_mul(2).saturating_add(100_000)),
    );
    Error::new(Kind::Budget, text)
}

/// What a buffer claims to become.
pub enum Size {
    Empty,
    /// It is not compressed.
    Plain,
    Becomes(usize),
}

/// Of a buffer of so many bytes, whose first ones these are. Refuses what cannot be, before memory is taken for it.
pub fn size_of(stored: &[u8], len: u64, kind: CompressionType) -> std::result::Result<Size, String> {
    let Some(claim) = stored.first_chunk::<PREFIX>() else { return Ok(Size::Empty) };
    let claim = i64::from_le_bytes(*claim);
    // LZ4 makes at most 255 bytes of one, zstd blocks of 128 KB of four.
    let times = if kind == CompressionType::LZ4_FRAME { 255 } else { (128 << 10) / 4 };
    match (claim, usize::try_from(claim)) {
        (-1, _) => Ok(Size::Plain),
        (0, _) => Ok(Size::Empty),
        (_, Ok(size)) if size as u64 <= len.saturating_mul(times).saturating_add(64) => Ok(Size::Becomes(size)),
        _ => Err(format!("a buffer of {len} bytes claims to become {claim}")),
    }
}

/// Fills `out`, which is as long as the buffer said.
fn unpack(packed: &[u8], kind: CompressionType, out: &mut [u8]) -> Result<()> {
    let damaged = |why: &dyn std::fmt::Display| Error::data(format!("a buffer cannot be unpacked: {why}"));
    let size = out.len();
    if kind != CompressionType::LZ4_FRAME {
        return match zstd::bulk::decompress_to_buffer(packed, out) {
            Ok(n) if n == size => Ok(()),
            Ok(n) => Err(damaged(&format!("it becomes {n} bytes and claims {size}"))),
            Err(why) => Err(damaged(&why)),
        };
    }
    let mut frame = lz4_flex::frame::FrameDecoder::new(packed);
    frame.read_exact(out).map_err(|why| damaged(&why))?;
    match frame.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(damaged(&format!("it becomes more than the {size} bytes that it claims"))),
        Err(why) => Err(damaged(&why)),
    }
}
