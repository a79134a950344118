//! Many numbers in few characters: columns of differences, as variable-length bytes, as base64.

/// How far back a column is compared with others, and on how many rows.
const BACK: usize = 5;
const SAMPLE: usize = 256;
/// Few bytes can say that a table has many zeros: so many numbers are read of any bytes, and so many for each of them.
const ITEMS: usize = 1 << 22;
const ITEMS_A_BYTE: usize = 16;

/// A table, given row by row: each column is the differences from row to row, which are small where rows are alike. Where
/// a column goes up as another one does, it is the differences from that one's differences: mostly zeros, of which many in
/// a row take two bytes.
pub fn table(rows: usize, width: usize, items: &[u64], out: &mut Vec<u8>) {
    number(rows as u64, out);
    number(width as u64, out);
    for column in 0..width {
        let back = (0..=column.min(BACK)).min_by_key(|back| sampled(items, width, column, *back)).unwrap_or(0);
        number(back as u64, out);
        let (mut last, mut zeros) = ((0, 0), 0);
        for row in items.chunks_exact(width) {
            match zigzag(step(row, &mut last, column, back)) {
                0 => zeros += 1,
                n => {
                    put_zeros(&mut zeros, out);
                    number(n, out);
                }
            }
        }
        put_zeros(&mut zeros, out);
    }
}

/// How far a column went up, less how far the one that is so many places in front of it did.
fn step(row: &[u64], last: &mut (u64, u64), column: usize, back: usize) -> u64 {
    let now = (row[column], if back > 0 { row[column - back] } else { 0 });
    let (from, other) = std::mem::replace(last, now);
    now.0.wrapping_sub(from).wrapping_sub(now.1.wrapping_sub(other))
}

/// How many bits the steps of some rows take.
fn sampled(items: &[u64], width: usize, column: usize, back: usize) -> u32 {
    let every = (items.len() / width).div_ceil(SAMPLE).max(2);
    let pairs = items.chunks(width * every).filter(|rows| rows.len() >= 2 * width);
    let bits = pairs.map(|rows| {
        let mut last = (0, 0);
        step(rows, &mut last, column, back);
        u64::BITS - zigzag(step(&rows[width..], &mut last, column, back)).leading_zeros()
    });
    bits.sum()
}

fn put_zeros(zeros: &mut u64, out: &mut Vec<u8>) {
    if *zeros > 0 {
        number(0, out);
        number(std::mem::take(zeros) - 1, out);
    }
}

fn zigzag(n: u64) -> u64 {
    let n = n as i64;
    ((n << 1) ^ (n >> 63)) as u64
}

/// Rising numbers: as steps, or as bits where these are fewer bytes.
pub fn rising(items: &[u32], out: &mut Vec<u8>) {
    let bits = items.last().map_or(0, |last| *last as usize + 1).div_ceil(8);
    if bits < items.len() {
        number((bits as u64) << 1 | 1, out);
        let first = out.len();
        out.resize(first + bits, 0);
        items.iter().for_each(|item| out[first + *item as usize / 8] |= 1 << (item % 8));
        return;
    }
    number((items.len() as u64) << 1, out);
    let mut last = 0;
    for item in items {
        number(u64::from(item - last), out);
        last = *item;
    }
}

/// Numbers up to `most`, each in as many bits as that needs.
pub fn dense(items: &[u32], most: u32, out: &mut Vec<u8>) {
    let width = u32::BITS - most.leading_zeros();
    let (mut word, mut filled) = (0u64, 0);
    out.reserve(items.len() * width as usize / 8 + 8);
    for item in items {
        word |= u64::from(*item) << filled;
        filled += width;
        if filled >= 32 {
            out.extend_from_slice(&(word as u32).to_le_bytes());
            word >>= 32;
            filled -= 32;
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
pub fn number(mut n: u64, out: &mut Vec<u8>) {
    while n >= 128 {
        out.push(n as u8 | 128);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Reads numbers back. `None` where the bytes cannot be what was written.
pub struct Unpack<'a>(pub &'a [u8]);

impl Unpack<'_> {
    /// How many numbers may be in tables of so many bytes.
    pub fn room(bytes: usize) -> usize {
        bytes.saturating_mul(ITEMS_A_BYTE).max(ITEMS)
    }
    pub fn number(&mut self) -> Option<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            n |= u64::from(byte & 127).checked_shl(shift)?;
            if byte & 128 == 0 {
                return Some(n);
            }
        }
        None
    }
    /// A count of things that take up a byte at least.
    pub fn count(&mut self) -> Option<usize> {
        let n = usize::try_from(self.number()?).ok()?;
        (n <= self.0.len()).then_some(n)
    }
    /// A table of at most so many rows, and of at most `room` numbers, which it takes up.
    pub fn table(&mut self, most: usize, room: &mut usize) -> Option<Vec<Vec<u64>>> {
        let rows = usize::try_from(self.number()?).ok().filter(|n| *n <= most)?;
        let width = self.count()?;
        *room = room.checked_sub(rows.checked_mul(width)?)?;
        let mut table = vec![vec![0u64; width]; rows];
        for column in 0..width {
            let back = usize::try_from(self.number()?).ok().filter(|n| *n <= column)?;
            let mut zeros = 0u64;
            for row in 0..rows {
                let n = match zeros.checked_sub(1) {
                    Some(left) => {
                        zeros = left;
                        0
                    }
                    None => match self.number()? {
                        0 => {
                            zeros = self.number()?;
                            0
                        }
                        n => n,
                    },
                };
                let step = ((n >> 1) as i64 ^ -((n & 1) as i64)) as u64;
                let before = |column: usize| if row > 0 { table[row - 1][column] } else { 0 };
                let other = match back {
                    0 => 0,
                    back => table[row][column - back].wrapping_sub(before(column - back)),
                };
                table[row][column] = before(column).wrapping_add(step).wrapping_add(other);
            }
            if zeros > 0 {
                return None;
            }
        }
        Some(table)
    }
    /// Rising numbers below `most`.
    pub fn rising(&mut self, most: u32) -> Option<Vec<u32>> {
        let head = usize::try_from(self.number()?).ok()?;
        if head & 1 == 1 {
            let (bits, rest) = self.0.split_at_checked(head >> 1)?;
            self.0 = rest;
            let bit = |at: &u32| bits[*at as usize / 8] >> (at % 8) & 1 == 1;
            let all = u32::try_from(bits.len()).ok()?.checked_mul(8)?;
            return Some((0..all).filter(bit).collect()).filter(|items: &Vec<u32>| items.last() < Some(&most));
        }
        let count = Some(head >> 1).filter(|n| *n <= self.0.len())?;
        let (mut last, mut items) = (0u32, Vec::with_capacity(count));
        for i in 0..count {
            let step = self.number().and_then(|n| u32::try_from(n).ok()).filter(|n| i == 0 || *n > 0)?;
            last = last.checked_add(step).filter(|n| *n < most)?;
            items.push(last);
        }
        Some(items)
    }
    /// So many numbers up to `most`.
    pub fn dense(&mut self, count: usize, most: u32) -> Option<Vec<u32>> {
        let width = u32::BITS - most.leading_zeros();
        let (bytes, rest) = self.0.split_at_checked(count.checked_mul(width as usize)?.div_ceil(8))?;
        self.0 = rest;
        let (mut word, mut filled, mut bytes) = (0u64, 0, bytes.iter());
        let next = |_| {
            while filled < width {
                word |= u64::from(*bytes.next()?) << filled;
                filled += 8;
            }
            let item = (word & ((1 << width) - 1)) as u32;
            word >>= width;
            filled -= width;
            (item <= most).then_some(item)
        };
        (0..count).map(next).collect()
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 without padding.
pub fn to_text(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    let digits = |[a, b, c]: [u8; 3]| {
        let word = u32::from_be_bytes([0, a, b, c]) as usize;
        let [[a, b], [c, d]] = [PAIRS[word >> 12], PAIRS[word & 4095]];
        [a, b, c, d]
    };
    let (groups, rest) = bytes.as_chunks::<3>();
    groups.iter().for_each(|group| text.extend_from_slice(&digits(*group)));
    if let [a, rest @ ..] = rest {
        let b = rest.first().copied().unwrap_or(0);
        text.extend_from_slice(&digits([*a, b, 0])[..rest.len() + 2]);
    }
    String::from_utf8(text).expect("digits are ASCII")
}

/// Two digits at once.
static PAIRS: [[u8; 2]; 4096] = {
    let (mut pairs, mut i) = ([[0; 2]; 4096], 0);
    while i < 4096 {
        pairs[i] = [DIGITS[i >> 6], DIGITS[i & 63]];
        i += 1;
    }
    pairs
};

pub fn from_text(text: &str) -> Option<Vec<u8>> {
    let mut value = [255u8; 256];
    DIGITS.iter().enumerate().for_each(|(i, d)| value[*d as usize] = i as u8);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        let mut word = 0u32;
        for (i, digit) in group.iter().enumerate() {
            let digit = value[*digit as usize];
            if digit == 255 {
                return None;
            }
            word |= u32::from(digit) << (18 - 6 * i);
        }
        let whole = group.len().checked_sub(1).filter(|n| *n > 0)?;
        bytes.extend_from_slice(&word.to_be_bytes()[1..=whole]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_packed_comes_back(
            rows in (0usize..5).prop_flat_map(|w| prop::collection::vec(prop::collection::vec(any::<u64>(), w), 0..20)),
            tail in any::<u64>(),
        ) {
            let mut bytes = Vec::new();
            table(rows.len(), rows.first().map_or(0, Vec::len), &rows.concat(), &mut bytes);
            number(tail, &mut bytes);
            let text = to_text(&bytes);
            prop_assert_eq!(from_text(&text), Some(bytes.clone()));
            let mut unpack = Unpack(&bytes);
            if rows.first().is_none_or(|r| !r.is_empty()) {
                prop_assert_eq!(unpack.table(rows.len(), &mut 1000), Some(rows));
                prop_assert_eq!(unpack.number(), Some(tail));
                prop_assert!(unpack.0.is_empty());
            }
        }

        #[test]
        fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..50), text in ".{0,20}") {
            let _ = (Unpack(&bytes).table(9, &mut 1000), Unpack(&bytes).rising(900), Unpack(&bytes).dense(9, 999), from_text(&text));
        }

        #[test]
        fn tables_that_go_up_are_short(steps in prop::collection::vec((0u64..3, 1u64..1 << 20), 1..50)) {
            let mut at = (0, 0);
            let rows: Vec<u64> = steps.iter().flat_map(|(few, many)| {
                at = (at.0 + few, at.1 + many);
                [at.0 + 7, 3, 1, at.1, at.0]
            }).collect();
            let mut bytes = Vec::new();
            table(steps.len(), 5, &rows, &mut bytes);
            prop_assert!(bytes.len() <= 24 + 5 * steps.len(), "{} for {}", bytes.len(), steps.len());
            prop_assert_eq!(Unpack(&bytes).table(50, &mut 250).map(|t| t.concat()), Some(rows));
            prop_assert_eq!(Unpack(&bytes).table(steps.len() - 1, &mut 250), None);
        }

        #[test]
        fn places_come_back(places in prop::collection::btree_set(0u32..2000, 0..300), more in 0u32..9) {
            let places: Vec<u32> = places.into_iter().collect();
            let mut bytes = Vec::new();
            rising(&places, &mut bytes);
            prop_assert!(bytes.len() <= 2 + 2 * places.len().min(125));
            prop_assert_eq!(Unpack(&bytes).rising(2000), Some(places.clone()));
            if let Some(last) = places.last() {
                prop_assert_eq!(Unpack(&bytes).rising(*last), None);
            }
            let (most, mut bytes) = (places.last().map_or(0, |last| last + more), Vec::new());
            dense(&places, most, &mut bytes);
            prop_assert_eq!(Unpack(&bytes).dense(places.len(), most), Some(places));
        }
    }
}
