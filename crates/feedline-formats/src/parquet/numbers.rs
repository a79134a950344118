//! Columns of numbers without nulls, from pages straight into the memory in which they will be used.
//!
//! Most columns of a training table are this: fixed-size items, plain or by a dictionary. The Arrow reader makes indices,
//! levels and values in buffers of their own, each cleared first; here an index is looked up when it is unpacked, and the
//! item goes to its place. Reading 40 columns in row groups of 25,000 rows takes two thirds of the CPU time. Everything else
//! (nulls, other encodings, strings, lists) is left to the Arrow reader.
//!
//! A page of a large row group has the rows of many pieces (half a million, where a writer packs places into a megabyte):
//! it is unpacked once, not once a piece.

use super::pages::{Contents, Kind, PLAIN, PLAIN_DICTIONARY, Page, Pages, RLE, RLE_DICTIONARY};
use crate::wire::varint;
use feedline_io::{Error, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

/// As many pages as this are remembered of any chunk, and of a long one as many as it has if they are not smaller than
/// that on the average: what is remembered of a page takes some hundred bytes, its header as few as ten.
const FEW_PAGES: usize = 256;
const SMALL_PAGE: usize = 1024;

/// How many pages of a chunk of so many bytes are remembered.
pub fn most_pages(bytes: u64) -> usize {
    FEW_PAGES + usize::try_from(bytes).unwrap_or(usize::MAX) / SMALL_PAGE
}

/// A column chunk, whose rows are read in pieces, by any thread and in any order. A page that reaches into the next piece
/// is kept as it was unpacked until all its rows were read, and so is a dictionary, as far as there is room.
pub struct Numbers {
    is_optional: bool,
    dictionaries: Vec<Held>,
    pages: Vec<Held>,
    /// Why there are no more of them: damage, maybe in front of rows that nobody wants.
    end: Option<Error>,
}

/// A page, and what it was unpacked to.
struct Held {
    page: Page,
    /// Its first row.
    first: usize,
    /// Whose places it has.
    dictionary: Option<usize>,
    kept: Mutex<Kept>,
    /// Whether it has no nulls, once that was looked at.
    is_full: OnceLock<bool>,
}

#[derive(Default)]
struct Kept {
    /// Rows that were not read so far; of a dictionary, those of all its pages.
    left: usize,
    contents: Option<Contents>,
}

/// Bytes that unpacked pages may take up between two pieces, shared by the columns of a row group.
pub struct Room {
    most: usize,
    taken: AtomicUsize,
}

impl Room {
    pub fn new(most: usize) -> Room {
        Room { most, taken: AtomicUsize::new(0) }
    }
    pub fn most(&self) -> usize {
        self.most
    }
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }
    fn take(&self, bytes: usize) -> bool {
        let add = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= self.most);
        self.taken.fetch_update(Relaxed, Relaxed, add).is_ok()
    }
    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Relaxed);
    }
}

impl Numbers {
    /// Reads the headers of the pages. `None` if they are too many to be remembered.
    pub fn new(mut chunk: Pages, is_optional: bool) -> Option<Numbers> {
        let most = most_pages(chunk.left());
        let mut numbers = Numbers { is_optional, dictionaries: vec![], pages: vec![], end: None };
        let mut row = 0usize;
        loop {
            let page = match chunk.next() {
                Ok(Some(page)) => page,
                Ok(None) => return Some(numbers),
                Err(error) => {
                    numbers.end = Some(error);
                    return Some(numbers);
                }
            };
            if numbers.pages.len() + numbers.dictionaries.len() == most {
                return None;
            }
            let (kind, values) = (page.kind, page.values);
            let held = |dictionary, left| Held {
                page,
                first: row,
                dictionary,
                kept: Mutex::new(Kept { left, contents: None }),
                is_full: OnceLock::new(),
            };
            match kind {
                Kind::Dictionary => numbers.dictionaries.push(held(None, 0)),
                Kind::Data { .. } | Kind::DataV2 { .. } => {
                    if let Some(dictionary) = numbers.dictionaries.last_mut() {
                        let kept = dictionary.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
                        kept.left = kept.left.saturating_add(values);
                    }
                    numbers.pages.push(held(numbers.dictionaries.len().checked_sub(1), values));
                    row = row.saturating_add(values);
                }
                Kind::Other => {}
            }
        }
    }
    /// Fills `out` with the items of these rows. `false`: they are none that can be read here.
    pub fn read<const N: usize>(&self, rows: Range<usize>, out: &mut [[u8; N]], room: &Room) -> Result<bool> {
        let mut out = &mut out[..rows.len()];
        let from = self.pages.partition_point(|held| held.end() <= rows.start);
        let mut pages = self.pages[from..].iter();
        while !out.is_empty() {
            let Some(held) = pages.next() else {
                let too_few = || Error::data("a column has fewer rows than it says");
                return Err(self.end.clone().unwrap_or_else(too_few));
            };
            let skip = rows.start.saturating_sub(held.first);
            let here;
            (here, out) = out.split_at_mut((held.page.values - skip).min(out.len()));
            if !self.read_page(held, skip, here, room)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
    fn read_page<const N: usize>(&self, held: &Held, skip: usize, out: &mut [[u8; N]], room: &Room) -> Result<bool> {
        let page = &held.page;
        let Some(contents) = held.contents(out.len(), room)? else { return Ok(false) };
        let mut values = &contents.bytes[..];
        if self.is_optional {
            let levels = match (page.kind, &contents.levels) {
                (_, Some(levels)) => &levels[..],
                (Kind::Data { levels: RLE, .. }, None) => {
                    cut_levels(&mut values).ok_or_else(|| page.damaged("its levels are longer than it is"))?
                }
                _ => return Ok(false),
            };
            if !held.is_full.get_or_init(|| all_set(levels, page.values)) {
                return Ok(false);
            }
        }
        match page.encoding {
            PLAIN => {
                let items = values.as_chunks::<N>().0.get(skip..).and_then(|items| items.get(..out.len()));
                out.copy_from_slice(items.ok_or_else(|| page.damaged("it has fewer values than it says"))?);
            }
            PLAIN_DICTIONARY | RLE_DICTIONARY => {
                let Some(dictionary) = held.dictionary.map(|i| &self.dictionaries[i]) else {
                    return Err(page.damaged("it has places in a dictionary, and there is none"));
                };
                if !matches!(dictionary.page.encoding, PLAIN | PLAIN_DICTIONARY) {
                    return Ok(false);
                }
                let Some(unpacked) = dictionary.contents(out.len(), room)? else { return Ok(false) };
                let (items, count) = (unpacked.bytes.as_chunks::<N>().0, dictionary.page.values);
                let items = items.get(..count).ok_or_else(|| {
                    dictionary.page.damaged(&format!("a dictionary has {} values of {count}", items.len()))
                })?;
                look_up(items, values, skip, out).map_err(|why| page.damaged(why))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Held {
    /// The row behind its last one.
    fn end(&self) -> usize {
        self.first.saturating_add(self.page.values)
    }
    /// Unpacks it, or waits for whoever does. With `rows` more of it read, it is kept for those that are left.
    fn contents(&self, rows: usize, room: &Room) -> Result<Option<Contents>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.left = kept.left.saturating_sub(rows);
        if let Some(contents) = &kept.contents {
            let contents = contents.clone();
            if kept.left == 0 {
                kept.contents = None;
                room.give_back(contents.taken);
            }
            return Ok(Some(contents));
        }
        let Some(contents) = self.page.contents()? else { return Ok(None) };
        if kept.left > 0 && room.take(contents.taken) {
            kept.contents = Some(contents.clone());
        }
        Ok(Some(contents))
    }
}

/// Levels that stand in front of values, with their length.
pub fn cut_levels<'a>(values: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = values.split_first_chunk::<4>()?;
    let (levels, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *values = rest;
    Some(levels)
}

/// Whether so many levels of one bit are all 1. Levels that end early or are damaged are not.
fn all_set(mut levels: &[u8], mut left: usize) -> bool {
    while left > 0 {
        let Some(run) = Run::next(&mut levels, 1) else { return false };
        let (count, set) = match run {
            Run::Same { count, index } => (count.min(left), index == 1),
            Run::Packed { bytes, count } => {
                let count = count.min(left);
                let rest = count % 8;
                let last = rest == 0 || bytes[count / 8].trailing_ones() as usize >= rest;
                (count, last && bytes[..count / 8].iter().all(|byte| *byte == 0xff))
            }
        };
        if !set {
            return false;
        }
        left -= count;
    }
    true
}

/// How many of so many levels are 0. `None` if they end early.
pub fn zeros(mut levels: &[u8], width: usize, mut left: usize) -> Option<usize> {
    let mut found = 0;
    while left > 0 {
        let (count, zeros) = match Run::next(&mut levels, width)? {
            Run::Same { count: 0, .. } | Run::Packed { count: 0, .. } => return None,
            Run::Same { count, index } => (count.min(left), if index == 0 { count.min(left) } else { 0 }),
            Run::Packed { bytes, count } => {
                let bit = |i: usize| bytes[i / 8] >> (i % 8) & 1;
                let is_zero = |i: &usize| (i * width..(i + 1) * width).all(|i| bit(i) == 0);
                (count.min(left), (0..count.min(left)).filter(is_zero).count())
            }
        };
        (found, left) = (found + zeros, left - count);
    }
    Some(found)
}

/// Whether there are so many levels.
pub fn are_there(mut levels: &[u8], width: usize, mut left: usize) -> bool {
    while left > 0 {
        let count = match Run::next(&mut levels, width) {
            // To the Arrow reader this is the end, which some writers fill up.
            None | Some(Run::Same { count: 0, .. }) => return false,
            Some(Run::Same { count, .. } | Run::Packed { count, .. }) => count,
        };
        left = left.saturating_sub(count);
    }
    true
}

/// Places in a dictionary, or levels: runs of one of them, and runs of packed ones.
pub enum Run<'a> {
    Same { count: usize, index: u32 },
    Packed { bytes: &'a [u8], count: usize },
}

impl<'a> Run<'a> {
    pub fn next(rest: &mut &'a [u8], width: usize) -> Option<Run<'a>> {
        let header = usize::try_from(varint(rest).ok()?).ok()?;
        let count = header >> 1;
        // Others count in 32 bits, and would begin again at 0.
        if u32::try_from(if header & 1 == 0 { count } else { count.checked_mul(8)? }).is_err() {
            return None;
        }
        if header & 1 == 0 {
            let (value, behind) = rest.split_at_checked(width.div_ceil(8))?;
            *rest = behind;
            let index = value.iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte));
            return Some(Run::Same { count, index });
        }
        if width == 0 {
            return Some(Run::Same { count: count.checked_mul(8)?, index: 0 });
        }
        // Some writers cut the last run off behind its last value.
        let (bytes, behind) = rest.split_at(count.checked_mul(width)?.min(rest.len()));
        *rest = behind;
        Some(Run::Packed { bytes, count: (count.checked_mul(8)?).min(bytes.len() * 8 / width) })
    }
}

/// Items by their places in the dictionary, which stand in `bytes` behind their width. The first `skip` are passed over.
fn look_up<const N: usize>(
    dictionary: &[[u8; N]],
    bytes: &[u8],
    mut skip: usize,
    mut out: &mut [[u8; N]],
) -> Result<(), &'static str> {
    const OUTSIDE: &str = "it has a place that the dictionary does not have";
    let (&width, mut rest) = bytes.split_first().ok_or("it is empty")?;
    if width > 32 {
        return Err("its places have more than 32 bits");
    }
    let width = usize::from(width);
    while !out.is_empty() {
        let run = Run::next(&mut rest, width).ok_or("it has fewer values than it says")?;
        let (Run::Same { count, .. } | Run::Packed { count, .. }) = run;
        let passed = skip.min(count);
        skip -= passed;
        let here;
        (here, out) = out.split_at_mut((count - passed).min(out.len()));
        match run {
            Run::Same { .. } if here.is_empty() => {}
            Run::Same { index, .. } => here.fill(*dictionary.get(index as usize).ok_or(OUTSIDE)?),
            Run::Packed { bytes, .. } => unpack(dictionary, bytes, width, passed, here).ok_or(OUTSIDE)?,
        }
    }
    Ok(())
}

/// Eight places take up `width` bytes; the last of them begins in byte 28 at most, and is read as eight bytes.
const BLOCK: usize = 40;

/// Items by packed places, from place `first` on. `None`: one lies outside of the dictionary.
fn unpack<const N: usize>(
    dictionary: &[[u8; N]],
    packed: &[u8],
    width: usize,
    first: usize,
    out: &mut [[u8; N]],
) -> Option<()> {
    macro_rules! by_width {
        ($($w:literal)*) => {
            match width {
                $($w => unpack_by::<N, $w>(dictionary, packed, first, out),)*
                _ => None,
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
}

fn unpack_by<const N: usize, const W: usize>(
    dictionary: &[[u8; N]],
    packed: &[u8],
    first: usize,
    mut out: &mut [[u8; N]],
) -> Option<()> {
    let mut packed = &packed[first / 8 * W..];
    // Only a part of the first eight is wanted.
    if !first.is_multiple_of(8) {
        let here;
        (here, out) = out.split_at_mut((8 - first % 8).min(out.len()));
        let eight = last_eight::<N, W>(dictionary, packed, first % 8 + here.len())?;
        here.copy_from_slice(&eight[first % 8..][..here.len()]);
        packed = &packed[W.min(packed.len())..];
    }
    let (groups, rest) = out.as_chunks_mut::<8>();
    let fast = packed.len().checked_sub(BLOCK).map_or(0, |n| n / W + 1).min(groups.len());
    let (groups, slow) = groups.split_at_mut(fast);
    for (i, group) in groups.iter_mut().enumerate() {
        *group = eight::<N, W>(dictionary, packed[i * W..].first_chunk()?, 8)?;
    }
    packed = &packed[fast * W..];
    for group in slow {
        *group = last_eight::<N, W>(dictionary, packed, 8)?;
        packed = &packed[W.min(packed.len())..];
    }
    if !rest.is_empty() {
        rest.copy_from_slice(&last_eight::<N, W>(dictionary, packed, rest.len())?[..rest.len()]);
    }
    Some(())
}

/// The same where fewer than `BLOCK` bytes follow.
fn last_eight<const N: usize, const W: usize>(
    dictionary: &[[u8; N]],
    packed: &[u8],
    count: usize,
) -> Option<[[u8; N]; 8]> {
    let (mut block, have) = ([0; BLOCK], packed.len().min(W));
    block[..have].copy_from_slice(&packed[..have]);
    eight::<N, W>(dictionary, &block, count)
}

/// Up to eight items. Places behind `count` are not looked at.
#[inline(always)]
fn eight<const N: usize, const W: usize>(
    dictionary: &[[u8; N]],
    block: &[u8; BLOCK],
    count: usize,
) -> Option<[[u8; N]; 8]> {
    let mut items = [[0; N]; 8];
    for (i, item) in items.iter_mut().enumerate().take(count) {
        let bit = i * W;
        let bytes = block[bit / 8..].first_chunk::<8>()?;
        let place = u64::from_le_bytes(*bytes) >> (bit % 8) & ((1 << W) - 1);
        *item = *dictionary.get(place as usize)?;
    }
    Some(items)
}
