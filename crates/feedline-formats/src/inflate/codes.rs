//! The codes of a block, as tables to look them up in.

use super::Result;

/// Bits that the first lookup takes.
pub const LENGTH_BITS: u32 = 11;
pub const DISTANCE_BITS: u32 = 8;
/// The most entries that codes of 15 bits can need, second tables included, are 2342 and 402.
const LENGTH_ENTRIES: usize = 2400;
const DISTANCE_ENTRIES: usize = 512;

/// Bits 0 to 5 say how many bits it takes in all, 8 to 11 how many of them are the code, and from 16 on is what it stands
/// for: a byte, or the least length or distance, to which the bits behind the code are added.
pub type Entry = u32;
pub const LITERAL: Entry = 1 << 31;
/// One of the next two, or no code at all.
pub const OTHER: Entry = 1 << 15;
/// Leads to a second table: from 16 on is where that begins, 8 to 11 is how many bits it takes.
pub const FURTHER: Entry = 1 << 14;
/// The end of the block.
pub const END: Entry = 1 << 13;
/// No code begins like that. It takes as many bits as the longest code: with fewer nothing is certain.
const NONE: Entry = OTHER | 15;

pub fn code_bits(entry: Entry) -> u32 {
    entry >> 8 & 15
}
pub fn value(entry: Entry) -> usize {
    (entry >> 16 & 0x7fff) as usize
}
/// What is in the second table. `word` has the bits behind those of the first lookup.
#[inline]
pub fn further(table: &[Entry], entry: Entry, word: u64) -> Entry {
    let at = value(entry) + (word & ((1 << code_bits(entry)) - 1)) as usize;
    table.get(at).copied().unwrap_or(NONE)
}

pub struct Codes {
    pub lengths: [Entry; LENGTH_ENTRIES],
    pub distances: [Entry; DISTANCE_ENTRIES],
    /// The lengths of the codes that the lengths of codes are written in.
    pub order: [u8; 19],
    pub precode: [Entry; 1 << 7],
    /// The lengths of the codes of lengths, and behind them those of distances.
    pub code: [u8; 286 + 32],
    /// They are the fixed ones.
    fixed: bool,
}

impl Default for Codes {
    fn default() -> Codes {
        Codes {
            lengths: [NONE; LENGTH_ENTRIES],
            distances: [NONE; DISTANCE_ENTRIES],
            order: [0; 19],
            precode: [NONE; 1 << 7],
            code: [0; 286 + 32],
            fixed: false,
        }
    }
}

impl Codes {
    /// The codes that need not be told.
    pub fn fix(&mut self) {
        if !std::mem::replace(&mut self.fixed, true) {
            let mut code = [8u8; 288];
            code[144..256].fill(9);
            code[256..280].fill(7);
            build(&code, LENGTH_BITS, &mut self.lengths, length).expect("a whole code");
            build(&[5; 32], DISTANCE_BITS, &mut self.distances, distance).expect("a whole code");
        }
    }
    pub fn set_order(&mut self) -> Result<()> {
        build(&self.order, 7, &mut self.precode, |symbol| (symbol as Entry) << 16)?;
        match self.precode.contains(&NONE) {
            true => Err("codes are missing".into()),
            false => Ok(()),
        }
    }
    pub fn set(&mut self, lengths: usize, distances: usize) -> Result<()> {
        self.fixed = false;
        let (code, rest) = self.code.split_at(lengths);
        if code[256] == 0 {
            return Err("a block has no code for its end".into());
        }
        build(code, LENGTH_BITS, &mut self.lengths, length)?;
        build(&rest[..distances], DISTANCE_BITS, &mut self.distances, distance)
    }
}

/// Entries for symbols, in which the number of bits behind the code stands in the place of that of all bits.
fn length(symbol: usize) -> Entry {
    match symbol {
        0..=255 => LITERAL | (symbol as Entry) << 16,
        256 => OTHER | END,
        257..=264 => (symbol as Entry - 254) << 16,
        // In groups of four, each with one bit more than the one before.
        265..=284 => {
            let behind = (symbol as u32 - 261) / 4;
            let least = (((symbol as u32 - 261) % 4 + 4) << behind) + 3;
            least << 16 | behind
        }
        285 => 258 << 16,
        _ => NONE,
    }
}
fn distance(symbol: usize) -> Entry {
    match symbol {
        0..=3 => (symbol as Entry + 1) << 16,
        4..=29 => {
            let behind = (symbol as u32 - 2) / 2;
            let least = (((symbol as u32 - 2) % 2 + 2) << behind) + 1;
            least << 16 | behind
        }
        _ => NONE,
    }
}

/// Fills a table from the lengths of codes: shorter codes come first, those of one length in the order of their symbols.
/// Codes are written with their first bit lowest, so that they are looked up as they lie.
fn build(code: &[u8], first: u32, table: &mut [Entry], entry: fn(usize) -> Entry) -> Result<()> {
    let mut counts = [0u16; 16];
    code.iter().for_each(|bits| counts[usize::from(*bits & 15)] += 1);
    counts[0] = 0;
    // How much of all that can be said in so many bits no code stands for.
    let mut left = 1i32;
    for count in &counts[1..] {
        left = 2 * left - i32::from(*count);
        if left < 0 {
            return Err("there are more codes than their lengths allow".into());
        }
    }
    let used = counts.iter().sum::<u16>();
    if left > 0 && !(used == 0 || (used == 1 && counts[1] == 1)) {
        return Err("codes are missing".into());
    }
    let mut sorted = [0u16; 288];
    let mut starts = [0usize; 17];
    (1..16).for_each(|bits| starts[bits + 1] = starts[bits] + usize::from(counts[bits]));
    for (symbol, bits) in code.iter().enumerate().filter(|(_, bits)| **bits > 0) {
        let at = &mut starts[usize::from(*bits)];
        sorted[*at] = symbol as u16;
        *at += 1;
    }
    let mut symbols = sorted.iter().map(|symbol| usize::from(*symbol));
    let mut number = 0u32;
    // A table for codes of one bit more is twice the one before it, with the new codes in it.
    table[0] = NONE;
    for bits in 1..=first {
        table.copy_within(..1 << (bits - 1), 1 << (bits - 1));
        number <<= 1;
        for symbol in symbols.by_ref().take(usize::from(counts[bits as usize])) {
            table[first_lowest(number, bits)] = whole(entry(symbol), bits);
            number += 1;
        }
    }
    // The second table at hand: the bits that lead there, its place, and its bits.
    let (mut second, mut end) = ((usize::MAX, 0, 0), 1usize << first);
    for bits in first + 1..16 {
        number <<= 1;
        for (left, symbol) in (1..=counts[bits as usize]).rev().zip(symbols.by_ref()) {
            let code = first_lowest(number, bits);
            number += 1;
            let prefix = code & ((1 << first) - 1);
            if second.0 != prefix {
                // As many bits as the longest code that begins like this: codes of more bits follow until it is full.
                let (mut more, mut room, mut here) = (bits - first, 1i32 << (bits - first), i32::from(left));
                while first + more < 15 && room > here {
                    room = (room - here) * 2;
                    more += 1;
                    here = i32::from(counts[(first + more) as usize]);
                }
                second = (prefix, end, more);
                table[prefix] = OTHER | FURTHER | (end as Entry) << 16 | more << 8 | first;
                end += 1 << more;
            }
            let (_, start, more) = second;
            let places = table.get_mut(start..start + (1 << more)).ok_or("there are too many codes")?;
            let places = places.iter_mut().skip(code >> first).step_by(1 << (bits - first));
            places.for_each(|place| *place = whole(entry(symbol), bits));
        }
    }
    Ok(())
}

/// A code of so many bits as it is looked up: its first bit is the lowest.
fn first_lowest(code: u32, bits: u32) -> usize {
    (code.reverse_bits() >> (32 - bits)) as usize
}
/// An entry with the bits of its code. A symbol that does not exist stays one: whoever meets it has met no code.
fn whole(entry: Entry, bits: u32) -> Entry {
    if entry == NONE { NONE } else { (entry + bits) | (bits << 8) }
}
