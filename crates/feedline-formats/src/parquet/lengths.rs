//! How large the strings of a page become that are stored by what they share with the one before (DELTA_BYTE_ARRAY): so
//! many bytes of that, and a rest of their own. A few kilobytes of them can be gigabytes, and the Arrow reader, which decodes
//! them, takes the memory for that, and for as many lengths as a page claims to have. So the lengths are gone through first.

use crate::wire::varint;
use std::ops::Range;

/// Whole numbers that are packed as differences (DELTA_BINARY_PACKED), as the Arrow reader understands them: blocks of so
/// many small blocks, each of which has a width in bits.
pub struct Lengths<'a> {
    blocks: &'a [u8],
    left: usize,
    shape: Shape,
    first: Option<i32>,
    last: i32,
    block: Block<'a>,
    /// The small block that is read: its bytes, its width, how many bits of it were read, how many numbers are left.
    small: (&'a [u8], usize, usize, usize),
}

#[derive(Clone, Copy)]
struct Shape {
    /// Small blocks of a block, and numbers of a small block.
    small_blocks: usize,
    numbers: usize,
}

/// What is left of a block.
#[derive(Default)]
struct Block<'a> {
    least: i32,
    widths: &'a [u8],
    packed: &'a [u8],
}

const SHORT: &str = "its lengths end early";
const MANY: &str = "it has more lengths than values";

impl Shape {
    /// Cuts off a block, of which so many numbers are wanted at most.
    fn cut<'a>(&self, rest: &mut &'a [u8], mut wanted: usize) -> Result<Block<'a>, &'static str> {
        let least = small(rest)?;
        let (widths, behind) = { *rest }.split_at_checked(self.small_blocks).ok_or(SHORT)?;
        let mut bytes = 0usize;
        for width in widths.iter().map(|width| usize::from(*width)) {
            // Behind the last number they may be anything.
            if wanted == 0 {
                break;
            }
            if width > 32 {
                return Err("a length has more than 32 bits");
            }
            bytes = (self.numbers / 8).checked_mul(width).and_then(|n| n.checked_add(bytes)).ok_or(SHORT)?;
            wanted = wanted.saturating_sub(self.numbers);
        }
        let (packed, behind) = behind.split_at_checked(bytes).ok_or(SHORT)?;
        *rest = behind;
        Ok(Block { least, widths, packed })
    }
}

impl<'a> Lengths<'a> {
    /// Those at the beginning of `data`, and what lies behind them. More than `most` are refused.
    pub fn new(data: &'a [u8], most: usize) -> Result<(Lengths<'a>, &'a [u8]), &'static str> {
        let mut rest = data;
        let mut number = || varint(&mut rest).ok().and_then(|n| usize::try_from(n).ok()).ok_or(SHORT);
        let (block, small_blocks, count) = (number()?, number()?, number()?);
        let first = small(&mut rest)?;
        if count > most {
            return Err(MANY);
        }
        let numbers = block.checked_div(small_blocks).unwrap_or(0);
        let can_be = block % 128 == 0 && numbers % 32 == 0 && numbers.checked_mul(small_blocks) == Some(block);
        if !can_be || small_blocks == 0 || (block == 0 && count > 1) {
            return Err("its lengths are packed as they cannot be");
        }
        let (blocks, shape) = (rest, Shape { small_blocks, numbers });
        let mut left = count.saturating_sub(1);
        while left > 0 {
            shape.cut(&mut rest, left)?;
            left = left.saturating_sub(block);
        }
        let (first, block, small) = (Some(first), Block::default(), (&data[..0], 0, 0, 0));
        Ok((Lengths { blocks, left: count, shape, first, last: 0, block, small }, rest))
    }
    pub fn left(&self) -> usize {
        self.left
    }
    /// The next one, of which there must be some left.
    fn next(&mut self) -> Result<usize, &'static str> {
        if let Some(first) = self.first.take() {
            self.last = first;
        } else {
            if self.small.3 == 0 {
                if self.block.widths.is_empty() {
                    self.block = self.shape.cut(&mut self.blocks, self.left)?;
                }
                let (width, widths) = self.block.widths.split_first().ok_or(SHORT)?;
                let (width, numbers) = (usize::from(*width), self.shape.numbers);
                let (bytes, packed) = self.block.packed.split_at_checked(numbers / 8 * width).ok_or(SHORT)?;
                (self.block.widths, self.block.packed) = (widths, packed);
                self.small = (bytes, width, 0, numbers);
            }
            let (bytes, width, bit, left) = &mut self.small;
            let more = bits(bytes, *bit, *width) as i32;
            (*bit, *left) = (*bit + *width, *left - 1);
            self.last = self.last.wrapping_add(self.block.least).wrapping_add(more);
        }
        self.left -= 1;
        usize::try_from(self.last).map_err(|_| "a length is negative")
    }
}

/// A number with its sign in the last bit.
fn small(rest: &mut &[u8]) -> Result<i32, &'static str> {
    let n = varint(rest).map_err(|_| SHORT)?;
    i32::try_from((n >> 1) as i64 ^ -((n & 1) as i64)).map_err(|_| "a length has more than 32 bits")
}

/// Up to 32 bits from some bit on.
fn bits(bytes: &[u8], bit: usize, width: usize) -> u64 {
    let from = &bytes[(bit / 8).min(bytes.len())..];
    let block = from.first_chunk::<8>().copied().unwrap_or_else(|| {
        let mut block = [0; 8];
        block[..from.len()].copy_from_slice(from);
        block
    });
    u64::from_le_bytes(block) >> (bit % 8) & ((1 << width) - 1)
}

/// Refuses a page whose two lists of lengths claim to have more than `most`, whatever else may be wrong with it.
pub fn check_count(data: &[u8], most: usize) -> Result<(), &'static str> {
    match Lengths::new(data, most).and_then(|(_, rest)| Lengths::new(rest, most)) {
        Err(MANY) => Err(MANY),
        _ => Ok(()),
    }
}

/// What the strings of a page take up when they are decoded.
#[derive(Debug, PartialEq)]
pub struct Sizes {
    pub values: usize,
    /// Bytes of all strings before every so many, and in the end of all.
    pub every: usize,
    pub before: Vec<u64>,
}

/// Steps of a page, at most.
const STEPS: usize = 64;

impl Sizes {
    /// Of the values of a page, of which there are `most` at most.
    pub fn of(data: &[u8], most: usize) -> Result<Sizes, &'static str> {
        let (mut shared, rest) = Lengths::new(data, most)?;
        let (mut own, rest) = Lengths::new(rest, most)?;
        let values = shared.left();
        if values != own.left() {
            return Err("it does not have two lengths for each string");
        }
        let (mut before, mut last, mut left, mut total) = (Vec::new(), 0usize, rest.len(), 0u64);
        let every = values.div_ceil(STEPS).max(1);
        for i in 0..values {
            if i % every == 0 {
                before.push(total);
            }
            let (shared, own) = (shared.next()?, own.next()?);
            if shared > last {
                return Err("a string shares more with the one before than that has");
            }
            left = left.checked_sub(own).ok_or("its strings end early")?;
            last = shared + own;
            total = total.saturating_add(last as u64);
        }
        before.push(total);
        Ok(Sizes { values, every, before })
    }
}

/// How large the strings of a column become, row by row, as far as it has such pages.
#[derive(Debug, Default)]
pub struct Grown {
    steps: Vec<Step>,
    total: u64,
}

/// So many bytes have the strings in front of some string. Those are all in rows before `behind`; it and those that follow it
/// are in row `from` or a later one.
#[derive(Debug)]
struct Step {
    behind: usize,
    from: usize,
    bytes: u64,
    /// Where in the file its page begins.
    page: u64,
}

impl Grown {
    /// Adds a page that begins with row `first`, a row for each of its levels. Values are fewer where there are nulls.
    pub fn flat(&mut self, sizes: &Sizes, first: usize, levels: usize, page: u64) {
        let nulls = levels - sizes.values;
        for (value, bytes) in (0..).step_by(sizes.every).zip(&sizes.before) {
            let from = first + value.min(sizes.values);
            let behind = if value == 0 { first } else { from + nulls };
            self.steps.push(Step { behind, from, bytes: self.total + bytes, page });
        }
        self.total = self.total.saturating_add(sizes.total());
    }
    /// Adds a page of items of lists: rows before `first` began before it. Which row an item is of is not looked at.
    pub fn listed(&mut self, sizes: &Sizes, first: usize, page: u64) {
        self.steps.push(Step { behind: first, from: first.saturating_sub(1), bytes: self.total, page });
        self.total = self.total.saturating_add(sizes.total());
    }
    pub fn total(&self) -> u64 {
        self.total
    }
    /// The strings of these rows have at most so many bytes; and where the page begins in which the first of them may be.
    pub fn most(&self, rows: &Range<usize>) -> (u64, u64) {
        let first = self.steps.partition_point(|step| step.behind <= rows.start).saturating_sub(1);
        let end = self.steps.partition_point(|step| step.from < rows.end);
        let Some(step) = self.steps.get(first) else { return (0, 0) };
        let end = self.steps.get(end).map_or(self.total, |step| step.bytes);
        let start = if step.behind <= rows.start { step.bytes } else { 0 };
        (end.saturating_sub(start), step.page)
    }
}

impl Sizes {
    fn total(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::put_varint;
    use proptest::prelude::*;

    /// Numbers packed in blocks of 128, one width for all of a block.
    pub fn packed(numbers: &[i32]) -> Vec<u8> {
        let (mut out, zigzag) = (Vec::new(), |n: i32| u64::from((n << 1 ^ n >> 31) as u32));
        [128, 4, numbers.len() as u64].iter().for_each(|n| put_varint(&mut out, *n));
        put_varint(&mut out, zigzag(numbers.first().copied().unwrap_or(0)));
        let differences: Vec<i32> = numbers.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
        for block in differences.chunks(128) {
            let least = *block.iter().min().unwrap();
            let rest: Vec<u32> = block.iter().map(|d| d.wrapping_sub(least) as u32).collect();
            let width = rest.iter().map(|n| 32 - n.leading_zeros()).max().unwrap();
            put_varint(&mut out, zigzag(least));
            out.extend([width as u8; 4]);
            let used = block.len().div_ceil(32) * 32;
            let mut bytes = vec![0u8; used / 8 * width as usize];
            for (i, n) in rest.iter().enumerate() {
                for bit in (0..width as usize).filter(|bit| n >> bit & 1 == 1) {
                    let at = i * width as usize + bit;
                    bytes[at / 8] |= 1 << (at % 8);
                }
            }
            out.extend(bytes);
        }
        out
    }
    fn page(shared: &[i32], own: &[i32], bytes: usize) -> Vec<u8> {
        [packed(shared), packed(own), vec![b'x'; bytes]].concat()
    }

    proptest! {
        #[test]
        fn lengths_come_back(numbers in prop::collection::vec(prop_oneof![0..100i32, 0..i32::MAX], 0..400), behind in 0..20usize) {
            let bytes = [packed(&numbers), vec![7; behind]].concat();
            let (mut lengths, rest) = Lengths::new(&bytes, numbers.len()).unwrap();
            prop_assert_eq!(rest, &vec![7; behind][..]);
            let found: Vec<usize> = (0..lengths.left()).map(|_| lengths.next().unwrap()).collect();
            prop_assert_eq!(found, numbers.iter().map(|n| *n as usize).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_lengths_or_not(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(128u8), any::<u8>()], 0..60)) {
            if let Ok(sizes) = Sizes::of(&bytes, 1000) {
                prop_assert!(sizes.values <= 1000 && sizes.before.is_sorted());
            }
        }
    }

    #[test]
    fn sizes_of_strings() {
        // "xxxxx", then that and one more each time.
        let shared: Vec<i32> = (0..200).map(|i| if i == 0 { 0 } else { 4 + i }).collect();
        let own: Vec<i32> = (0..200).map(|i| if i == 0 { 5 } else { 1 }).collect();
        let sizes = Sizes::of(&page(&shared, &own, 204), 200).unwrap();
        let total = |n: u64| (0..n).map(|i| 5 + i).sum::<u64>();
        assert_eq!((sizes.values, sizes.every, sizes.total()), (200, 4, total(200)));
        assert_eq!(sizes.before[10], total(40));
        // A page in front without such strings has ten rows.
        let mut grown = Grown::default();
        grown.flat(&sizes, 10, 200, 1000);
        grown.flat(&sizes, 210, 200, 2000);
        assert_eq!(grown.most(&(0..10)), (0, 1000));
        assert_eq!(grown.most(&(50..54)), (total(44) - total(40), 1000));
        assert_eq!(grown.most(&(51..52)), (total(44) - total(40), 1000), "a step is not cut");
        assert_eq!(grown.most(&(0..410)), (2 * total(200), 1000));
        assert_eq!(grown.most(&(210..410)).0, total(200));
        // Where some are null, a row may have any of as many values.
        let mut grown = Grown::default();
        grown.flat(&sizes, 0, 220, 0);
        assert!(grown.most(&(40..44)).0 >= total(44) - total(20) && grown.most(&(0..1)).0 < total(30));
        assert_eq!(grown.most(&(0..220)).0, total(200));
        let mut grown = Grown::default();
        grown.listed(&sizes, 0, 1);
        grown.listed(&sizes, 3, 2);
        grown.listed(&sizes, 3, 3);
        assert_eq!(grown.most(&(0..2)).0, total(200));
        assert_eq!(grown.most(&(2..3)).0, 3 * total(200), "the last row of the first page may go on");
        assert_eq!(Grown::default().most(&(0..9)), (0, 0));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let said = |shared: &[i32], own: &[i32], bytes| Sizes::of(&page(shared, own, bytes), 3).unwrap_err();
        assert_eq!(Sizes::of(&page(&[0, 2], &[2, 0], 2), 3).unwrap().total(), 4);
        assert!(said(&[0, 3], &[2, 0], 2).contains("shares more"));
        assert!(said(&[1], &[2], 2).contains("shares more"));
        assert!(said(&[0, -1], &[2, 0], 2).contains("negative"));
        assert!(said(&[0, 0], &[2, i32::MIN], 2).contains("negative"));
        assert!(said(&[0, 0], &[2, 1], 2).contains("end early"));
        assert!(said(&[0], &[2, 1], 3).contains("two lengths"));
        assert!(said(&[0; 4], &[0; 4], 0).contains("more lengths than values"));
        assert_eq!(check_count(&page(&[0; 3], &[0; 3], 0), 3), Ok(()));
        assert!(check_count(&page(&[0; 3], &[0; 4], 0), 3).is_err() && check_count(&page(&[0; 4], &[], 0), 3).is_err());
        assert_eq!(check_count(b"", 3), Ok(()));
        let mut many = Vec::new();
        [128, 4, u64::MAX >> 1].iter().for_each(|n| put_varint(&mut many, *n));
        assert!(Sizes::of(&many, usize::MAX).unwrap_err().contains("end early"));
        for head in [[0, 4, 2, 0], [128, 0, 2, 0], [100, 4, 2, 0], [128, 3, 2, 0], [128, 8, 2, 0]] {
            let mut bytes = Vec::new();
            head.iter().for_each(|n| put_varint(&mut bytes, *n));
            assert!(Sizes::of(&bytes, 3).unwrap_err().contains("cannot be"), "{head:?}");
        }
        // A width of 33 bits.
        assert!(
            Sizes::of(&[&[128, 1, 4, 2, 0, 0][..], &[33; 4], &[0; 200]].concat(), 3).unwrap_err().contains("32 bits")
        );
    }
}
