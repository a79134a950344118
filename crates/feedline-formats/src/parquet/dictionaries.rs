//! The dictionaries of a row group, unpacked once for all of its pieces.
//!
//! The Arrow reader asks for a dictionary for each piece, and the strings of a piece point into it: 50 MB, which a writer
//! makes of a thousand strings of 50 KB before it gives up, would be there once for each piece that is decoded or waits.

use parquet::column::page::Page;
use parquet::errors::Result;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By leaf, each as soon as somebody wanted it.
#[derive(Default)]
pub struct Dictionaries(Mutex<HashMap<usize, Dictionary>>);

/// A dictionary, unpacked by the first who wants it while the others wait.
#[derive(Clone, Default)]
pub struct Dictionary(Arc<Mutex<Option<Page>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is whole: it is put there in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dictionaries {
    /// Bytes of those that are there.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        let of = |slot: &Dictionary| lock(&slot.0).as_ref().map_or(0, |page| page.buffer().len());
        lock(&self.0).values().map(of).sum()
    }
    pub fn of(&self, leaf: usize) -> Dictionary {
        lock(&self.0).entry(leaf).or_default().clone()
    }
}

impl Dictionary {
    /// What another piece has unpacked, or what `unpack` makes now.
    pub fn get(&self, unpack: impl FnOnce() -> Result<Page>) -> Result<Page> {
        let mut known = lock(&self.0);
        if let Some(page) = &*known {
            return Ok(page.clone());
        }
        let page = unpack()?;
        *known = Some(page.clone());
        Ok(page)
    }
}
