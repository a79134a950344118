//! DEFLATE (RFC 1951) in the wrapping of GZIP (RFC 1952) or ZLIB (RFC 1950), a piece at a time.
//!
//! Written here because this is where the time goes when compressed records are read, and no library that was found is both
//! fast and takes pieces.
//!
//! 1. Bits come from a word that is filled from the input, eight bytes at once where there are so many.
//! 2. A code is looked up by its first bits (`codes.rs`). The entry says how many bits it takes, those that follow it
//!    included, and what it stands for; longer codes lead to a second table.
//! 3. While there is plenty of input and of room, symbols are decoded without asking for either (`quickly`). Near the end of
//!    one of them a symbol is decoded in one go if all of its bits are there, and not at all if they are not (`carefully`).
//! 4. Results are written where they belong; the last 32 KiB of a block that is full are kept for the next.

mod codes;
#[cfg(test)]
mod tests;
mod wrap;

use codes::{Codes, DISTANCE_BITS, END, Entry, FURTHER, LENGTH_BITS, LITERAL, OTHER, code_bits, further, value};
use std::borrow::Cow;
use std::fmt;
use wrap::{Head, Sum, Tail};

pub use wrap::Wrap;

/// What came of a call.
#[derive(Debug)]
pub struct Ran {
    /// Bytes of the input that were used.
    pub used: usize,
    /// Bytes of results.
    pub made: usize,
    /// Whether the stream is whole, and its checksum right; or what is wrong behind these results.
    pub end: Result<bool>,
}

/// What is wrong with the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage(pub Cow<'static, str>);

impl From<&'static str> for Damage {
    fn from(text: &'static str) -> Damage {
        Damage(text.into())
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub type Result<T> = std::result::Result<T, Damage>;

/// How far back a match can reach.
const WINDOW: usize = 32 << 10;
/// The longest match, and what copying in words may write behind it.
const ROOM: usize = 258 + 16;
/// Bytes of input that one round of the fast loop may look at.
const AHEAD: usize = 16;
/// The order in which a block tells the lengths of the codes that its own codes' lengths are written in.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

pub struct Inflater {
    wrap: Wrap,
    step: Step,
    bits: Bits,
    /// This is the last block.
    last: bool,
    codes: Box<Codes>,
    /// What came before the block of results at hand; the last byte is the newest.
    window: Vec<u8>,
    /// Bytes of this stream so far: no match reaches further back.
    made: u64,
    sum: Sum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Head(Head),
    /// A block begins.
    Block,
    /// A block that is not compressed, of which so many bytes are left.
    Stored(usize),
    /// So many lengths of the codes for lengths are read, of `order`.
    Order {
        at: usize,
        order: usize,
        lengths: usize,
        distances: usize,
    },
    /// So many lengths of codes are read.
    Code {
        at: usize,
        lengths: usize,
        distances: usize,
    },
    Symbols,
    /// A match of which there is still so much to be copied.
    Match {
        left: usize,
        distance: usize,
    },
    Tail(Tail),
    End,
}

/// How a step ended.
#[derive(Debug, PartialEq)]
enum Flow {
    /// There may be more to do.
    On,
    /// Too few bits are left.
    Input,
    /// There is no more room.
    Room,
}

/// The input, and what is taken of it: the next bits, the first of them the lowest, and how many there are. All above them
/// are zero, but in the fast loop.
#[derive(Default)]
struct Bits {
    word: u64,
    count: u32,
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The block of results, of which the first `at` bytes are there.
struct Output<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

impl Bits {
    /// Fills up to at least so many bits, if there are so many.
    #[inline]
    fn fill(&mut self, bits: u32, input: &mut Input<'_>) {
        while self.count < bits
            && let Some(byte) = input.bytes.get(input.at)
        {
            self.word |= u64::from(*byte) << self.count;
            self.count += 8;
            input.at += 1;
        }
    }
    #[inline]
    fn pass(&mut self, bits: u32) {
        self.word >>= bits;
        self.count -= bits;
    }
    /// Takes so many bits, at most 32, if they are there.
    fn take(&mut self, bits: u32, input: &mut Input<'_>) -> Option<u32> {
        self.fill(bits, input);
        let taken = (self.word & low(bits)) as u32;
        (self.count >= bits).then(|| {
            self.pass(bits);
            taken
        })
    }
    /// Drops what is left of a byte.
    fn align(&mut self) {
        self.pass(self.count % 8);
    }
    /// Whole bytes go back to the input.
    fn give_back(&mut self, input: &mut Input<'_>) {
        let whole = (self.count / 8).min(input.at as u32);
        input.at -= whole as usize;
        self.count -= whole * 8;
        self.word &= low(self.count);
    }
    /// Fills up to 56 bits or more. Above them may then be bits of the byte that is next in the input.
    #[inline(always)]
    fn refill(&mut self, input: &mut Input<'_>) {
        if let Some(next) = input.bytes.get(input.at..).and_then(|rest| rest.first_chunk()) {
            let count = self.count & 63;
            self.word |= u64::from_le_bytes(*next) << count;
            input.at += (63 - count as usize) / 8;
            self.count = count | 56;
        }
    }
    /// Passes over an entry. In the fast loop only the lowest six bits of the count say anything.
    #[inline(always)]
    fn skip(&mut self, entry: Entry) {
        self.word >>= entry & 63;
        self.count = self.count.wrapping_sub(entry);
    }
    /// Writes a literal, and looks up what comes next.
    #[inline(always)]
    fn literal(&mut self, entry: Entry, out: &mut [u8], at: &mut usize, codes: &Codes) -> Entry {
        out[*at] = (entry >> 16) as u8;
        *at += 1;
        self.skip(entry);
        codes.lengths[self.look(LENGTH_BITS)]
    }
    #[inline(always)]
    fn look(&self, bits: u32) -> usize {
        (self.word & low(bits)) as usize
    }
    /// Takes an entry with what stands behind its code, and gives its value.
    #[inline(always)]
    fn take_value(&mut self, entry: Entry) -> usize {
        let behind = (self.word & low(entry & 63)) >> code_bits(entry);
        self.skip(entry);
        value(entry) + behind as usize
    }
}

impl Inflater {
    pub fn new(wrap: Wrap) -> Inflater {
        Inflater {
            wrap,
            step: Step::Head(Head::default()),
            bits: Bits::default(),
            last: false,
            codes: Box::default(),
            window: Vec::new(),
            made: 0,
            sum: Sum::new(wrap),
        }
    }
    /// Begins another stream. The results so far stay where they are.
    pub fn reset(&mut self) {
        (self.step, self.bits, self.last, self.made) = (Step::Head(Head::default()), Bits::default(), false, 0);
        self.sum = Sum::new(self.wrap);
    }

    /// Decodes as much of `input` as there is room for in `out`, of which the first `filled` bytes are there already. It must
    /// be the same one, with what was made in it, until it is full. If nothing comes of it, it needs more input.
    pub fn run(&mut self, input: &[u8], out: &mut [u8], filled: usize) -> Ran {
        let (mut input, mut output) = (Input { bytes: input, at: 0 }, Output { bytes: out, at: filled });
        let flow = loop {
            let before = output.at;
            let flow = self.advance(&mut input, &mut output);
            let new = &output.bytes[before..output.at];
            if !new.is_empty() {
                self.sum.add(new);
                self.made += new.len() as u64;
            }
            if flow != Ok(Flow::On) || self.step == Step::End {
                break flow;
            }
        };
        if flow != Ok(Flow::Input) {
            // Whoever comes next finds them in the input. They are all of this one: when bits were too few for a step and
            // had to be kept, the step takes them all, and some of the next input.
            self.bits.give_back(&mut input);
        }
        if output.at == output.bytes.len() {
            self.keep(output.bytes);
        }
        Ran { used: input.at, made: output.at - filled, end: flow.map(|_| self.step == Step::End) }
    }

    /// Remembers the end of a block that is full.
    fn keep(&mut self, block: &[u8]) {
        let new = &block[block.len().saturating_sub(WINDOW)..];
        let more = (self.window.len() + new.len()).saturating_sub(WINDOW);
        self.window.drain(..more);
        self.window.extend_from_slice(new);
    }

    fn advance(&mut self, input: &mut Input<'_>, output: &mut Output<'_>) -> Result<Flow> {
        match self.step {
            Step::Head(mut head) => {
                while let Some(byte) = self.bits.take(8, input) {
                    if head.take(self.wrap, byte as u8, &mut self.sum)? {
                        (self.step, self.sum) = (Step::Block, Sum::new(self.wrap));
                        return Ok(Flow::On);
                    }
                    self.step = Step::Head(head);
                }
                Ok(Flow::Input)
            }
            Step::Block => self.block(input),
            Step::Stored(left) => Ok(self.stored(left, input, output)),
            Step::Order { at, order, lengths, distances } => self.order(at, order, lengths, distances, input),
            Step::Code { at, lengths, distances } => self.code(at, lengths, distances, input),
            Step::Symbols => {
                if self.quickly(input, output)? {
                    return Ok(self.end_block());
                }
                self.carefully(input, output)
            }
            Step::Match { left, distance } => {
                let left = self.copy(left, distance, output)?;
                self.step = if left > 0 { Step::Match { left, distance } } else { Step::Symbols };
                Ok(if left > 0 { Flow::Room } else { Flow::On })
            }
            Step::Tail(mut tail) => {
                while let Some(byte) = self.bits.take(8, input) {
                    if tail.take(self.wrap, byte as u8, &self.sum, self.made)? {
                        self.step = Step::End;
                        return Ok(Flow::On);
                    }
                    self.step = Step::Tail(tail);
                }
                Ok(Flow::Input)
            }
            Step::End => Ok(Flow::On),
        }
    }

    fn block(&mut self, input: &mut Input<'_>) -> Result<Flow> {
        self.bits.fill(3, input);
        if self.bits.count < 3 {
            return Ok(Flow::Input);
        }
        match self.bits.look(3) >> 1 {
            0 => {
                // All in one go, or not at all: what is left of the byte, and the length twice.
                let whole = 3 + (self.bits.count - 3) % 8;
                self.bits.fill(whole + 32, input);
                if self.bits.count < whole + 32 {
                    return Ok(Flow::Input);
                }
                self.last = self.bits.look(1) == 1;
                self.bits.pass(whole);
                let lengths = self.bits.look(32);
                self.bits.pass(32);
                let left = lengths & 0xffff;
                if left != !(lengths >> 16) & 0xffff {
                    return Err("the length of a stored block is wrong".into());
                }
                self.bits.give_back(input);
                self.step = Step::Stored(left);
            }
            1 => {
                self.last = self.bits.look(1) == 1;
                self.bits.pass(3);
                self.codes.fix();
                self.step = Step::Symbols;
            }
            2 => {
                self.bits.fill(17, input);
                if self.bits.count < 17 {
                    return Ok(Flow::Input);
                }
                self.last = self.bits.look(1) == 1;
                self.bits.pass(3);
                let counts = self.bits.look(14);
                self.bits.pass(14);
                let (lengths, distances) = (257 + (counts & 31), 1 + (counts >> 5 & 31));
                if lengths > 286 || distances > 30 {
                    return Err("a block has too many codes".into());
                }
                self.codes.order = [0; 19];
                self.step = Step::Order { at: 0, order: 4 + (counts >> 10), lengths, distances };
            }
            _ => return Err("a block is of no known kind".into()),
        }
        Ok(Flow::On)
    }

    fn end_block(&mut self) -> Flow {
        self.step = Step::Block;
        if self.last {
            self.bits.align();
            self.step = Step::Tail(Tail::default());
        }
        Flow::On
    }

    fn stored(&mut self, left: usize, input: &mut Input<'_>, output: &mut Output<'_>) -> Flow {
        let (from, to) = (&input.bytes[input.at..], &mut output.bytes[output.at..]);
        let some = left.min(from.len()).min(to.len());
        to[..some].copy_from_slice(&from[..some]);
        (input.at, output.at) = (input.at + some, output.at + some);
        self.step = Step::Stored(left - some);
        match left - some {
            0 => self.end_block(),
            _ if output.at == output.bytes.len() => Flow::Room,
            _ => Flow::Input,
        }
    }

    fn order(
        &mut self,
        at: usize,
        order: usize,
        lengths: usize,
        distances: usize,
        input: &mut Input<'_>,
    ) -> Result<Flow> {
        for (at, place) in ORDER.iter().enumerate().take(order).skip(at) {
            let Some(bits) = self.bits.take(3, input) else {
                self.step = Step::Order { at, order, lengths, distances };
                return Ok(Flow::Input);
            };
            self.codes.order[*place] = bits as u8;
        }
        self.codes.set_order()?;
        self.step = Step::Code { at: 0, lengths, distances };
        Ok(Flow::On)
    }

    /// The lengths of the codes of a block, themselves in a code.
    fn code(&mut self, mut at: usize, lengths: usize, distances: usize, input: &mut Input<'_>) -> Result<Flow> {
        let all = lengths + distances;
        while at < all {
            // A code and what follows it have at most 14 bits; what is none has 15.
            self.bits.fill(15, input);
            let entry = self.codes.precode[self.bits.look(7)];
            let code = entry & 15;
            let (behind, least) = match value(entry) {
                16 => (2, 3),
                17 => (3, 3),
                18 => (7, 11),
                _ => (0, 1),
            };
            if self.bits.count < code + behind {
                self.step = Step::Code { at, lengths, distances };
                return Ok(Flow::Input);
            }
            if entry & OTHER != 0 {
                return Err(NO_CODE.into());
            }
            self.bits.pass(code);
            let times = least + self.bits.look(behind);
            self.bits.pass(behind);
            let length = match value(entry) {
                16 if at == 0 => return Err("a repeated length without one before it".into()),
                16 => self.codes.code[at - 1],
                17 | 18 => 0,
                length => length as u8,
            };
            if times > all - at {
                return Err("too many lengths of codes".into());
            }
            self.codes.code[at..at + times].fill(length);
            at += times;
        }
        self.codes.set(lengths, distances)?;
        self.step = Step::Symbols;
        Ok(Flow::On)
    }

    /// Decodes symbols while there is plenty of input and room. True if the block ended.
    fn quickly(&mut self, input: &mut Input<'_>, output: &mut Output<'_>) -> Result<bool> {
        if !is_plenty(input, output) {
            return Ok(false);
        }
        // A tenth faster.
        feedline_io::wide(|| self.quickly_here(input, output))
    }
    #[inline(always)]
    fn quickly_here(&mut self, input: &mut Input<'_>, output: &mut Output<'_>) -> Result<bool> {
        let codes = &*self.codes;
        let (last_in, last_out) = (input.bytes.len() - AHEAD, output.bytes.len() - ROOM);
        // Where this stream begins in the block, if it does.
        let begin = (output.at as u64).saturating_sub(self.made) as usize;
        // In registers while it runs.
        let (mut bits, mut from, mut at) = (std::mem::take(&mut self.bits), Input { ..*input }, output.at);
        let out = &mut *output.bytes;
        bits.refill(&mut from);
        let mut entry = codes.lengths[bits.look(LENGTH_BITS)];
        let ended = loop {
            if entry & LITERAL != 0 {
                // Up to four, of at most eleven bits each.
                entry = bits.literal(entry, out, &mut at, codes);
                if entry & LITERAL != 0 {
                    entry = bits.literal(entry, out, &mut at, codes);
                    if entry & LITERAL != 0 {
                        entry = bits.literal(entry, out, &mut at, codes);
                        if entry & LITERAL != 0 {
                            entry = bits.literal(entry, out, &mut at, codes);
                        }
                    }
                }
                bits.refill(&mut from);
                if entry & LITERAL != 0 {
                    if from.at > last_in || at > last_out {
                        break Ok(false);
                    }
                    continue;
                }
            }
            if entry & OTHER != 0 {
                if entry & FURTHER != 0 {
                    entry = further(&codes.lengths, entry, bits.word >> LENGTH_BITS);
                }
                if entry & OTHER != 0 {
                    bits.skip(entry);
                    break if entry & END != 0 { Ok(true) } else { Err(NO_CODE.into()) };
                }
                if entry & LITERAL != 0 {
                    entry = bits.literal(entry, out, &mut at, codes);
                    bits.refill(&mut from);
                    if from.at > last_in || at > last_out {
                        break Ok(false);
                    }
                    continue;
                }
            }
            let length = bits.take_value(entry);
            entry = codes.distances[bits.look(DISTANCE_BITS)];
            if entry & OTHER != 0 {
                if entry & FURTHER != 0 {
                    entry = further(&codes.distances, entry, bits.word >> DISTANCE_BITS);
                }
                if entry & OTHER != 0 {
                    break Err(NO_CODE.into());
                }
            }
            let distance = bits.take_value(entry);
            // What comes next is looked up while the match is copied.
            bits.refill(&mut from);
            entry = codes.lengths[bits.look(LENGTH_BITS)];
            if distance > at - begin {
                if let Err(damage) =
                    before(&self.window, self.made + (at - output.at) as u64, out, at, length, distance)
                {
                    break Err(damage);
                }
            } else if distance >= 16 {
                repeat::<16>(out, at, length, distance);
            } else if distance >= 8 {
                repeat::<8>(out, at, length, distance);
            } else if distance == 1 {
                let byte = out[at - 1];
                out[at..at + length].fill(byte);
            } else {
                (at..at + length).for_each(|to| out[to] = out[to - distance]);
            }
            at += length;
            if from.at > last_in || at > last_out {
                break Ok(false);
            }
        };
        bits.count &= 63;
        bits.word &= low(bits.count);
        (self.bits, input.at, output.at) = (bits, from.at, at);
        ended
    }

    /// Decodes symbols as long as all bits of the next one are there.
    fn carefully(&mut self, input: &mut Input<'_>, output: &mut Output<'_>) -> Result<Flow> {
        loop {
            if output.at == output.bytes.len() {
                return Ok(Flow::Room);
            }
            // A length and a distance have at most 48 bits together.
            self.bits.fill(48, input);
            let Bits { word, count } = self.bits;
            let mut entry = self.codes.lengths[self.bits.look(LENGTH_BITS)];
            if entry & FURTHER != 0 {
                entry = further(&self.codes.lengths, entry, word >> LENGTH_BITS);
            }
            if count < entry & 63 {
                return Ok(Flow::Input);
            }
            if entry & LITERAL != 0 {
                output.bytes[output.at] = value(entry) as u8;
                output.at += 1;
                self.bits.pass(entry & 63);
            } else if entry & OTHER != 0 {
                self.bits.pass(entry & 15);
                return if entry & END != 0 { Ok(self.end_block()) } else { Err(NO_CODE.into()) };
            } else {
                let rest = word >> (entry & 63);
                let mut second = self.codes.distances[(rest & low(DISTANCE_BITS)) as usize];
                if second & FURTHER != 0 {
                    second = further(&self.codes.distances, second, rest >> DISTANCE_BITS);
                }
                if count < (entry & 63) + (second & 63) {
                    return Ok(Flow::Input);
                }
                if second & OTHER != 0 {
                    return Err(NO_CODE.into());
                }
                let (left, distance) = (self.bits.take_value(entry), self.bits.take_value(second));
                self.bits.count &= 63;
                self.step = Step::Match { left, distance };
                return Ok(Flow::On);
            }
            if is_plenty(input, output) {
                return Ok(Flow::On);
            }
        }
    }

    /// Copies as much of a match as there is room for, and says what is left.
    fn copy(&mut self, length: usize, distance: usize, output: &mut Output<'_>) -> Result<usize> {
        let some = length.min(output.bytes.len() - output.at);
        if distance as u64 > self.made || distance > output.at {
            before(&self.window, self.made, output.bytes, output.at, some, distance)?;
        } else {
            (output.at..output.at + some).for_each(|to| output.bytes[to] = output.bytes[to - distance]);
        }
        output.at += some;
        Ok(length - some)
    }
}

const NO_CODE: &str = "a code that is none";

/// Whether there is as much input and room as one round of the fast loop may take.
fn is_plenty(input: &Input<'_>, output: &Output<'_>) -> bool {
    input.bytes.len() - input.at >= AHEAD && output.bytes.len() - output.at >= ROOM
}

/// Copies a match in words of N bytes, which the distance is not less than.
#[inline(always)]
fn repeat<const N: usize>(out: &mut [u8], at: usize, length: usize, distance: usize) {
    let mut to = at;
    loop {
        let word: [u8; N] = out[to - distance..][..N].try_into().expect("N of them");
        out[to..][..N].copy_from_slice(&word);
        to += N;
        if to >= at + length {
            return;
        }
    }
}

/// Copies a match that begins before the block at hand.
#[cold]
fn before(window: &[u8], made: u64, out: &mut [u8], at: usize, length: usize, distance: usize) -> Result<usize> {
    let back = distance.saturating_sub(at);
    if back > window.len() || distance as u64 > made {
        return Err("a match begins before the data does".into());
    }
    let from = &window[window.len() - back..];
    let some = length.min(back);
    out[at..at + some].copy_from_slice(&from[..some]);
    (at + some..at + length).for_each(|to| out[to] = out[to - distance]);
    Ok(length)
}
