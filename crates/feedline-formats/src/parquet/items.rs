//! How many items the rows of a column of lists have, before anything is taken for them.
//!
//! A few bytes of levels stand for any number of equal items: a page of some kilobytes may be 64 million, of a thousand rows or
//! of one. The Arrow reader takes memory for all items of the rows that are wanted, beside their levels. So the levels that say
//! where rows begin are gone through first, in which long runs cost nothing, and some places are remembered.

use super::numbers::Run;
use std::ops::Range;

/// Places are this many items apart, or a row, or so far that there are no more than so many of them.
const APART: u64 = 4 << 10;
const PLACES: u64 = 64 << 10;

/// What was seen of a column.
#[derive(Debug)]
pub struct Items {
    apart: u64,
    /// The level of items that follow another one in the innermost list.
    deepest: u32,
    /// Rows that have begun, what was seen so far, and what of that is in front of the row that began last.
    rows: usize,
    seen: Count,
    before_last: Count,
    /// Rows in rising order, and what is in front of each. Between two of them is one row, or are a few items.
    places: Vec<(usize, Count)>,
}

/// Items, and the innermost lists that they are in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    pub items: u64,
    pub lists: u64,
}

impl Items {
    /// Of a column that has so many items, in lists of lists of … so deep.
    pub fn new(total: u64, deepest: u32) -> Items {
        let (seen, before_last) = <(Count, Count)>::default();
        Items { apart: APART.max(total / PLACES), deepest, rows: 0, seen, before_last, places: vec![] }
    }
    /// Adds a page of so many items, by their levels of lists. `None` if these end early.
    pub fn page(&mut self, mut levels: &[u8], mut left: usize) -> Option<()> {
        let width = (u32::BITS - self.deepest.leading_zeros()) as usize;
        while left > 0 {
            let run = Run::next(&mut levels, width)?;
            let (Run::Same { count, .. } | Run::Packed { count, .. }) = run;
            let count = count.min(left);
            if count == 0 {
                return None;
            }
            left -= count;
            match run {
                Run::Same { index: 0, .. } => self.short_rows(count as u64),
                Run::Same { index, .. } => self.more(count as u64, index),
                Run::Packed { bytes, .. } => {
                    for i in 0..count {
                        let bit = |at: usize| u32::from(bytes[at / 8] >> (at % 8) & 1);
                        match (i * width..(i + 1) * width).rev().fold(0, |level, at| level << 1 | bit(at)) {
                            0 => self.short_rows(1),
                            level => self.more(1, level),
                        }
                    }
                }
            }
        }
        Some(())
    }
    /// As many rows as items.
    fn short_rows(&mut self, mut count: u64) {
        self.row();
        count -= 1;
        while count > 0 {
            let far = self.places.last().map_or(0, |(_, before)| before.items) + self.apart;
            let n = far.saturating_sub(self.seen.items).clamp(1, count);
            // All but the last of these begin and end without a place.
            self.rows += n as usize - 1;
            self.more(n - 1, 0);
            self.before_last = Count { items: self.seen.items - 1, lists: self.seen.lists - 1 };
            self.row();
            count -= n;
        }
    }
    /// Items of one level.
    fn more(&mut self, count: u64, level: u32) {
        self.seen.items += count;
        self.seen.lists += if level < self.deepest { count } else { 0 };
    }
    /// A row begins with an item.
    fn row(&mut self) {
        self.end_row();
        if self.seen.items - self.places.last().map_or(0, |(_, before)| before.items) >= self.apart {
            self.places.push((self.rows, self.seen));
        }
        (self.rows, self.before_last) = (self.rows + 1, self.seen);
        self.more(1, 0);
    }
    /// A long row has a place of its own: those in front of it are not taken for as long.
    fn end_row(&mut self) {
        let last = self.places.last().map(|(row, _)| *row);
        let is_long = self.seen.items - self.before_last.items >= self.apart;
        if self.rows > 0 && is_long && last < Some(self.rows - 1) {
            self.places.push((self.rows - 1, self.before_last));
        }
    }
    /// There are no more pages.
    pub fn finish(mut self) -> Items {
        self.end_row();
        self.places.shrink_to_fit();
        self
    }
    /// How many items these rows have, at most: all that there may be between two places.
    pub fn most(&self, rows: &Range<usize>) -> Count {
        let first = self.places.partition_point(|(row, _)| *row <= rows.start).checked_sub(1);
        let end = self.places.partition_point(|(row, _)| *row < rows.end);
        let before = first.map_or(Count::default(), |first| self.places[first].1);
        let end = self.places.get(end).map_or(self.seen, |(_, before)| *before);
        Count { items: end.items.saturating_sub(before.items), lists: end.lists.saturating_sub(before.lists) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::put_varint;
    use proptest::prelude::*;

    /// Levels of rows of these lengths, each of which has at least one: in runs, or packed.
    fn levels(lengths: &[usize], is_packed: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let bits: Vec<bool> = lengths.iter().flat_map(|n| (0..*n).map(|i| i > 0)).collect();
        if is_packed {
            put_varint(&mut out, (bits.len().div_ceil(8) as u64) << 1 | 1);
            // The first of eight is the lowest bit.
            let byte = |eight: &[bool]| eight.iter().enumerate().map(|(i, bit)| u8::from(*bit) << i).sum::<u8>();
            out.extend(bits.chunks(8).map(byte));
            return out;
        }
        for same in bits.chunk_by(|a, b| a == b) {
            put_varint(&mut out, (same.len() as u64) << 1);
            out.push(u8::from(same[0]));
        }
        out
    }

    proptest! {
        #[test]
        fn a_bound_is_never_too_low_and_a_long_row_is_alone(
            lengths in prop::collection::vec(prop_oneof![8 => 1..4usize, 2 => 100..3000usize, 1 => 5000..20_000usize], 1..60),
            cut in 0..1000usize,
            is_packed: bool,
        ) {
            let total: usize = lengths.iter().sum();
            let mut items = Items::new(total as u64, 1);
            // Two pages, of which the second may begin inside of a row.
            let cut = cut * total / 1000;
            let all: Vec<bool> = lengths.iter().flat_map(|n| (0..*n).map(|i| i > 0)).collect();
            for page in [&all[..cut], &all[cut..]] {
                let lengths: Vec<usize> = page.chunk_by(|_, next| *next).map(<[_]>::len).collect();
                let mut own = levels(&lengths, is_packed);
                if page.first() == Some(&true) {
                    // It goes on with a row.
                    own.clear();
                    put_varint(&mut own, (lengths[0] as u64) << 1);
                    own.push(1);
                    own.extend(levels(&lengths[1..], is_packed));
                }
                prop_assert!(items.page(&own, page.len()).is_some());
            }
            let items = items.finish();
            prop_assert_eq!(items.rows, lengths.len());
            prop_assert_eq!(items.most(&(0..lengths.len())), Count { items: total as u64, lists: lengths.len() as u64 });
            for (row, length) in lengths.iter().map(|n| *n as u64).enumerate() {
                let most = items.most(&(row..row + 1)).items;
                prop_assert!(most >= length);
                prop_assert!(most < length + 2 * APART, "row {} of {} has at most {}", row, length, most);
            }
        }
    }

    #[test]
    fn long_runs_cost_little() {
        let mut items = Items::new(3 << 30, 1);
        let mut page = Vec::new();
        for (count, level) in [(1u64 << 30, 0u8), (1 << 30, 1), (1 << 30, 0)] {
            put_varint(&mut page, count << 1);
            page.push(level);
        }
        items.page(&page, 3 << 30).unwrap();
        let items = items.finish();
        assert!(items.places.len() as u64 <= PLACES + 2, "{}", items.places.len());
        let long = (1 << 30) - 1;
        assert_eq!(items.most(&(long..long + 1)), Count { items: (1 << 30) + 1, lists: 1 });
        for row in [long - 1, long + 1] {
            assert!(items.most(&(row..row + 1)).items <= items.apart);
        }
        assert!(Items::new(1, 1).page(&[], 1).is_none() && Items::new(1, 1).page(&[0, 0], 1).is_none());
    }

    #[test]
    fn lists_in_lists_are_counted() {
        // A row of two lists, of three items and one; a row of one: 0 2 2 1 | 0, in two bits each.
        for page in [&[3, 0b01_10_10_00, 0, 0][..], &[2, 0, 4, 2, 2, 1, 2, 0]] {
            let mut items = Items::new(5, 2);
            items.page(page, 5).unwrap();
            let items = items.finish();
            assert_eq!((items.rows, items.most(&(0..2))), (2, Count { items: 5, lists: 3 }));
        }
    }
}
