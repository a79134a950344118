//! Many numbers in few characters: columns of differences, as variable-length bytes, as base64.

/// A table, given row by row: each column is the differences from row to row, which are small where rows are alike.
pub fn table(rows: usize, width: usize, items: &[u64], out: &mut Vec<u8>) {
    number(rows as u64, out);
    number(width as u64, out);
    for column in 0..width {
        let mut last = 0u64;
        for &item in items[column..].iter().step_by(width) {
            number(zigzag(item.wrapping_sub(last) as i64), out);
            last = item;
        }
    }
}

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
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
    pub fn table(&mut self) -> Option<Vec<Vec<u64>>> {
        let rows = self.count()?;
        let width = usize::try_from(self.number()?).ok()?;
        if rows.checked_mul(width)? > self.0.len() {
            return None;
        }
        let mut table = vec![vec![0; width]; rows];
        for column in 0..width {
            let mut last = 0u64;
            for row in &mut table {
                let n = self.number()?;
                last = last.wrapping_add(((n >> 1) as i64 ^ -((n & 1) as i64)) as u64);
                row[column] = last;
            }
        }
        Some(table)
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 without padding.
pub fn to_text(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    let digits = |[a, b, c]: [u8; 3]| {
        let word = u32::from_be_bytes([0, a, b, c]);
        [18, 12, 6, 0].map(|shift| DIGITS[(word >> shift) as usize & 63])
    };
    let (groups, rest) = bytes.as_chunks::<3>();
    groups.iter().for_each(|group| text.extend_from_slice(&digits(*group)));
    if let [a, rest @ ..] = rest {
        let b = rest.first().copied().unwrap_or(0);
        text.extend_from_slice(&digits([*a, b, 0])[..rest.len() + 2]);
    }
    String::from_utf8(text).expect("digits are ASCII")
}

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
                prop_assert_eq!(unpack.table(), Some(rows));
                prop_assert_eq!(unpack.number(), Some(tail));
                prop_assert!(unpack.0.is_empty());
            }
        }

        #[test]
        fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..50), text in ".{0,20}") {
            let _ = (Unpack(&bytes).table(), from_text(&text));
        }
    }
}
