//! A file or object that is being written: it appears, whole, when it is committed.

use crate::error::{Error, Kind, Result};
use feedline_io::Sink;
use std::io::Write;

/// Bytes on their way to a name. Dropped without `commit`, nothing is left of them.
pub trait Output: Write + Send {
    /// What is to get its name, and its size.
    fn into_sink(self: Box<Self>) -> (Box<dyn Sink>, u64);
    /// Gives the file its name. Returns its size.
    fn commit(self: Box<Self>) -> Result<u64> {
        let (sink, bytes) = self.into_sink();
        sink.commit()?;
        Ok(bytes)
    }
}

/// A file or object of `feedline-io`, counted.
pub struct Staged {
    sink: Box<dyn Sink>,
    bytes: u64,
}

impl Staged {
    pub fn create(name: &str) -> Result<Staged> {
        Ok(Staged { sink: feedline_io::create(name)?, bytes: 0 })
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = self.sink.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }
}

impl Output for Staged {
    fn into_sink(self: Box<Self>) -> (Box<dyn Sink>, u64) {
        (self.sink, self.bytes)
    }
}

/// What is there already is not replaced unless that was asked for.
pub fn refuse_existing(name: &str) -> Result<()> {
    match feedline_io::exists(name)? {
        true => Err(Error::new(Kind::Io, "exists already; remove it, or say overwrite=True")
            .in_file(name, None)
            .with_source(std::sync::Arc::new(std::io::Error::from(std::io::ErrorKind::AlreadyExists)))),
        false => Ok(()),
    }
}
