//! TFRecord: each record is its length (8 bytes), the masked CRC-32C of these 8 bytes, the data, and the masked CRC-32C of
//! the data. There is no header, no footer and no index; `index` makes one.

use crate::records::{Carry, Cut, Hop, Longest, Out, Records};
use feedline_io::{Buf, Error};
use std::collections::HashSet;

/// Length and its checksum.
pub const HEADER: usize = 12;
/// The checksum of the data.
pub const FOOTER: usize = 4;
/// What a record may have at most where the size of the file is not known (in a compressed stream).
const MAX_RECORD: u64 = 1 << 30;
/// Headers inside of a damaged record that lead nowhere, before no more are looked at: only a file that was made for it has
/// so many.
const MOST_ASTRAY: usize = 1 << 16;
/// Memory is taken ahead for a record of that size at most there: what its length says may be wrong.
const TRUSTED_BYTES: usize = 64 << 20;

/// CRC-32C as the format stores it: rotated and shifted, so that a checksum of data with checksums stays good.
pub fn masked_crc(bytes: &[u8]) -> u32 {
    masked(crc32c::crc32c(bytes))
}

/// The checksum of bytes that come piece by piece, before it is masked: begun with 0.
pub fn crc_of_more(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

pub fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The length in a header, if its checksum is right.
pub fn length(header: &[u8; HEADER]) -> Option<u64> {
    let (length, crc) = header.split_at(8);
    let good = masked_crc(length) == u32::from_le_bytes(crc.try_into().expect("4 bytes"));
    good.then(|| u64::from_le_bytes(length.try_into().expect("8 bytes")))
}

/// What to do after a record that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AfterBad {
    /// Give up the rest of the file, as tf.data does.
    #[default]
    End,
    /// Search the next header whose checksum is right and go on there.
    Resync,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Compare the checksum of the data. That of the length always is.
    pub check: bool,
    pub after_bad: AfterBad,
}

impl Default for Options {
    fn default() -> Options {
        Options { check: true, after_bad: AfterBad::End }
    }
}

/// Cuts records out of blocks.
pub struct Reader {
    carry: Carry,
    options: Options,
    /// The size of the file, where it is known: no record can be longer.
    file_len: Option<u64>,
    record: u64,
    state: State,
    /// The bytes of records whose data was damaged.
    damaged: u64,
    longest: Longest,
    /// Bytes to pass over: of a record that was too long.
    passing: u64,
}

#[derive(PartialEq)]
enum State {
    Reading,
    /// Looking for a header after damage.
    Lost,
    Ended,
}

impl Reader {
    pub fn new(options: Options, file_len: Option<u64>) -> Reader {
        let (carry, longest, state) = (Carry::default(), Longest::default(), State::Reading);
        Reader { carry, options, file_len, record: 0, state, damaged: 0, longest, passing: 0 }
    }
    /// Longer records are passed over, with an error in the place of each.
    pub fn longest(self, longest: Longest) -> Reader {
        Reader { longest, ..self }
    }
    /// Passes over what is left of a record that was too long. False if more bytes are needed.
    fn pass(&mut self) -> bool {
        let there = self.passing.min(self.carry.rest().len() as u64);
        self.carry.advance(there as usize);
        self.passing -= there;
        if self.passing > 0 && self.carry.is_finished() {
            (self.passing, self.state) = (0, State::Ended);
        }
        self.passing == 0
    }
    /// Starts in the middle of a file, where record number `record` begins.
    pub fn at(options: Options, file_len: u64, offset: u64, record: u64) -> Reader {
        Reader { carry: Carry::at(offset), record, ..Reader::new(options, Some(file_len)) }
    }
    /// Starts anywhere in a file: looks for a header first, and counts records from there.
    pub fn from_anywhere(options: Options, file_len: u64, offset: u64) -> Reader {
        Reader { state: State::Lost, ..Reader::at(options, file_len, offset, 0) }
    }
    /// The place in the file of what is read next: the header of a record, unless one is being looked for.
    pub fn offset(&self) -> u64 {
        self.carry.offset()
    }
    /// The number of the next record. One that is damaged counts as one, whatever it was.
    pub fn record(&self) -> u64 {
        self.record
    }
    /// Whether the next header is still being looked for.
    pub fn is_lost(&self) -> bool {
        self.state == State::Lost
    }
    /// Looks for a header in what was fed so far. False if more of the file is needed for it.
    pub fn find_header(&mut self) -> bool {
        self.state != State::Lost || self.resync()
    }

    fn bad(&mut self, message: String) -> Cut {
        let error = Error::loss(message).at_byte(self.carry.offset()).at_record(self.record);
        self.record += 1;
        self.state = match self.options.after_bad {
            AfterBad::End => State::Ended,
            AfterBad::Resync => State::Lost,
        };
        Cut::Fail(error)
    }

    /// How many bytes a record at the front may have.
    fn limit(&self) -> u64 {
        self.limit_behind(0)
    }
    /// How many bytes a record may have that begins so far behind the front.
    fn limit_behind(&self, bytes: u64) -> u64 {
        let before = self.carry.offset().saturating_add(bytes + (HEADER + FOOTER) as u64);
        self.file_len.map_or(MAX_RECORD, |len| len.saturating_sub(before))
    }
    /// Whether a record of so many bytes has its neighbour where its length says: a header, or the end of the file. `None`
    /// if more bytes are needed to tell.
    fn ends_where_it_says(&self, whole: usize) -> Option<bool> {
        let behind = self.carry.rest().get(whole..)?;
        match behind.first_chunk().map(length) {
            Some(next) => Some(next.is_some_and(|n| n <= self.limit_behind(whole as u64))),
            None => self.carry.is_finished().then_some(behind.is_empty()),
        }
    }
    /// How far to go to be behind a record whose data is damaged: to its end if it has one, or to records inside of it that
    /// lead there; else it was cut short, and what follows is searched for inside of it. Each record that is found there may
    /// be as long as the rest of the file and be damaged again: what such a file can cost is bounded.
    fn behind_damage(&mut self, whole: usize, ends: bool) -> usize {
        // What is not there costs nothing, whatever its length says.
        self.damaged = self.damaged.saturating_add(whole.min(self.carry.rest().len()) as u64);
        let worth = (self.carry.offset() + whole as u64).saturating_mul(4).saturating_add(64 << 20);
        match () {
            () if self.damaged > worth => whole,
            () if ends => self.followers(whole).unwrap_or(whole),
            () => HEADER,
        }
    }
    /// Where records begin inside of a damaged one of so many bytes, each behind the other, up to the very byte at which it
    /// says that it ends: then the file has lost bytes of this one, and they are its followers.
    ///
    /// A record may also hold records, a file of them for instance. Its own frame is the one to believe: behind what it
    /// holds stands its checksum, so they end four bytes before it does. Where what it holds was itself cut by four bytes,
    /// that checksum stands in the place of another; so the last of them has to be right as a whole.
    ///
    /// Each byte is looked at once, and headers that lead nowhere are remembered.
    fn followers(&self, whole: usize) -> Option<usize> {
        let record = self.carry.rest().get(..whole)?;
        let header = |at: usize| -> Option<usize> {
            let bytes = record.get(at..)?.first_chunk::<HEADER>()?;
            let (number, _) = bytes.split_first_chunk()?;
            // Most that is no length is far too long: that is seen without a checksum.
            let most = (whole - at).checked_sub(HEADER + FOOTER)?;
            let fits = u64::from_le_bytes(*number) <= most as u64;
            fits.then(|| length(bytes)).flatten().map(|length| length as usize)
        };
        let (mut astray, mut path) = (HashSet::new(), Vec::new());
        let mut worth = whole.saturating_mul(4);
        for first in HEADER..whole {
            let mut at = first;
            while let Some(length) = header(at).filter(|_| !astray.contains(&at)) {
                let end = at + HEADER + length + FOOTER;
                path.push(at);
                if end == whole {
                    worth = worth.checked_sub(length)?;
                    if unframe(&record[at..end], true).is_ok() {
                        return Some(first);
                    }
                    break;
                }
                at = end;
            }
            astray.extend(path.drain(..));
            if astray.len() > MOST_ASTRAY {
                return None;
            }
        }
        None
    }

    /// Moves to the next header that could be one. False if more bytes are needed.
    fn resync(&mut self) -> bool {
        loop {
            let limit = self.limit();
            match self.carry.rest().first_chunk::<HEADER>() {
                Some(header) if length(header).is_some_and(|n| n <= limit) => {
                    self.state = State::Reading;
                    return true;
                }
                Some(_) => self.carry.advance(1),
                None => {
                    if self.carry.is_finished() {
                        self.state = State::Ended;
                    }
                    return self.state == State::Ended;
                }
            }
        }
    }

    fn cut_off(&mut self, what: &str) -> Cut {
        let missing = self.carry.rest().len();
        let cut = self.bad(format!(
            "the file ends inside of a record {what} ({missing} bytes of it are there); it was not written to its end, or cut since"
        ));
        self.state = State::Ended;
        cut
    }
}

impl Records for Reader {
    fn feed(&mut self, block: Buf) {
        self.carry.feed(block);
    }
    fn finish(&mut self) {
        self.carry.finish();
    }
    fn base(&self) -> u64 {
        self.carry.base()
    }
    fn place(&self) -> Option<u64> {
        (self.state == State::Reading).then(|| self.carry.offset() + self.passing)
    }
    fn go_to(&mut self, byte: u64, record: u64) -> bool {
        let there = self.state == State::Reading && self.carry.reach(byte);
        if there {
            (self.record, self.passing) = (record, 0);
        }
        there
    }
    fn missing(&self) -> usize {
        self.carry.missing()
    }
    fn hop(&mut self, most: u64, gap: u64) -> Option<Hop> {
        let (mut records, mut to) = (0, None);
        while self.state == State::Reading && self.passing == 0 && records < most && to.is_none() {
            let rest = self.carry.rest();
            // What is wrong with a header is said where it is cut.
            let Some(length) = rest.first_chunk().and_then(length).filter(|n| *n <= self.limit()) else { break };
            let whole = length + (HEADER + FOOTER) as u64;
            match whole.saturating_sub(rest.len() as u64) {
                0 => self.carry.advance(whole as usize),
                beyond if beyond > gap && self.file_len.is_some() => {
                    self.carry = Carry::at(self.carry.offset() + whole);
                    to = Some(self.carry.offset());
                }
                _ => break,
            }
            self.record += 1;
            records += 1;
        }
        (records > 0).then_some(Hop { records, to })
    }
    fn start_at(&mut self, byte: u64, record: u64) -> bool {
        (self.carry, self.record, self.passing) = (Carry::at(byte), record, 0);
        true
    }
    fn cut(&mut self, want: usize, out: &mut dyn Out) -> Cut {
        let (mut cut, mut last) = (0, 0);
        while cut < want {
            if self.passing > 0 && !self.pass() {
                break;
            }
            if self.state == State::Lost && !self.resync() {
                break;
            }
            if self.state == State::Ended {
                return if cut > 0 { Cut::Records(cut) } else { Cut::End };
            }
            let rest = self.carry.rest();
            let Some(header) = rest.first_chunk::<HEADER>() else {
                match (self.carry.is_finished(), rest.is_empty()) {
                    (false, _) => break,
                    (true, true) => self.state = State::Ended,
                    (true, false) if cut > 0 => break,
                    (true, false) => return self.cut_off("header"),
                }
                continue;
            };
            // What goes wrong is said when it is the first thing to say.
            let length = length(header);
            let Some(length) = length.filter(|&n| n <= self.limit()) else {
                if cut > 0 {
                    break;
                }
                return match length {
                    Some(n) => {
                        let limit = self.limit();
                        let cut = self.bad(match self.file_len {
                            Some(_) => format!(
                                "a record claims to have {n} bytes, and the file has {limit} more: it was not written to \
                                 its end, or cut since, or the length is wrong"
                            ),
                            None => format!("a record claims to have {n} bytes; {limit} are the most"),
                        });
                        // Nothing of the file can be trusted to follow a length that is wrong under a right checksum.
                        if self.file_len.is_some() && self.options.after_bad == AfterBad::Resync {
                            self.carry.advance(HEADER);
                        }
                        cut
                    }
                    None => {
                        let text = match self.carry.offset() {
                            0 => {
                                "the checksum of the first length is wrong: not a TFRecord file, or a compressed one \
                                  (give compression_type)"
                            }
                            _ => "the checksum of a record's length is wrong",
                        };
                        let cut = self.bad(text.into());
                        if self.options.after_bad == AfterBad::Resync {
                            self.carry.advance(1);
                        }
                        cut
                    }
                };
            };
            if let Err(error) = self.longest.check(length) {
                if cut > 0 {
                    break;
                }
                let error = error.at_byte(self.carry.offset()).at_record(self.record);
                (self.record, self.passing) = (self.record + 1, length + (HEADER + FOOTER) as u64);
                return Cut::Fail(error);
            }
            let length = length as usize;
            let whole = HEADER + length + FOOTER;
            if rest.len() < whole {
                if self.carry.is_finished() {
                    if cut > 0 {
                        break;
                    }
                    let failed = self.cut_off("data");
                    if self.options.after_bad == AfterBad::Resync {
                        // In a compressed stream, a record in the middle can look as if it were the last.
                        self.state = State::Lost;
                        let by = self.behind_damage(whole, false);
                        self.carry.advance(by);
                    }
                    return failed;
                }
                if self.file_len.is_some() || whole <= TRUSTED_BYTES {
                    self.carry.need(whole);
                }
                break;
            }
            let data = &rest[HEADER..HEADER + length];
            if self.options.check {
                let stored = u32::from_le_bytes(rest[HEADER + length..whole].try_into().expect("4 bytes"));
                if masked_crc(data) != stored {
                    if cut > 0 {
                        break;
                    }
                    let by = match self.options.after_bad {
                        AfterBad::End => 0,
                        AfterBad::Resync => {
                            let Some(ends) = self.ends_where_it_says(whole) else {
                                self.carry.need(whole + HEADER);
                                break;
                            };
                            self.behind_damage(whole, ends)
                        }
                    };
                    let failed = self.bad(format!("the checksum of a record's data ({length} bytes) is wrong"));
                    self.carry.advance(by);
                    return failed;
                }
            }
            let start = self.carry.start() + HEADER;
            out.view(self.carry.block(), start..start + length);
            self.carry.advance(whole);
            self.record += 1;
            cut += 1;
            last = whole;
        }
        self.carry.let_go(last);
        if cut > 0 { Cut::Records(cut) } else { Cut::More }
    }
}

/// A record with its frame around it, appended to `out`.
pub fn frame(record: &[u8], out: &mut Vec<u8>) {
    let length = (record.len() as u64).to_le_bytes();
    out.reserve(HEADER + record.len() + FOOTER);
    out.extend_from_slice(&length);
    out.extend_from_slice(&masked_crc(&length).to_le_bytes());
    out.extend_from_slice(record);
    out.extend_from_slice(&masked_crc(record).to_le_bytes());
}

/// Where the data lies in the bytes of exactly one record; otherwise what is wrong with them.
pub fn unframe(bytes: &[u8], check: bool) -> Result<std::ops::Range<usize>, String> {
    let header = bytes.first_chunk::<HEADER>().ok_or("the file ends inside of a record header")?;
    let length = length(header).ok_or("the checksum of a record's length is wrong")?;
    if bytes.len().checked_sub(HEADER + FOOTER).is_none_or(|n| n as u64 != length) {
        return Err(format!("a record of {length} bytes where the index has another; the file changed since"));
    }
    let (data, stored) = bytes[HEADER..].split_at(length as usize);
    if check && masked_crc(data) != u32::from_le_bytes(stored.try_into().expect("4 bytes")) {
        return Err(format!("the checksum of a record's data ({length} bytes) is wrong"));
    }
    Ok(HEADER..HEADER + data.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::collect;

    fn file(records: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        records.iter().for_each(|r| frame(r, &mut out));
        out
    }
    fn read(bytes: &[u8], block: usize, options: Options) -> Vec<Result<Vec<u8>, Error>> {
        collect(&mut Reader::new(options, Some(bytes.len() as u64)), bytes.chunks(block))
    }
    #[test]
    fn a_record_that_is_too_long_is_passed_over() {
        let bytes = file(&[b"one", &[b'x'; 1000], b"three", &[b'y'; 2000]]);
        let longest = Longest { bytes: 500, limit: 1000 };
        for block in [1, 100, 5000] {
            let mut reader = Reader::new(Options::default(), Some(bytes.len() as u64)).longest(longest);
            let all = collect(&mut reader, bytes.chunks(block));
            assert_eq!(all.len(), 4);
            assert_eq!((all[0].as_ref().unwrap(), all[2].as_ref().unwrap()), (&b"one".to_vec(), &b"three".to_vec()));
            let error = all[1].as_ref().unwrap_err();
            assert_eq!((error.kind(), error.at().byte), (feedline_io::Kind::Budget, Some(19)));
            assert_eq!(error.at().record, Some(1), "{error}");
        }
        // What was collected of it is never more than a block.
        let mut reader = Reader::new(Options::default(), Some(bytes.len() as u64)).longest(longest);
        let mut out = crate::records::Copies::default();
        reader.feed(Buf::copied(&bytes[..100]));
        assert!(matches!(reader.cut(9, &mut out), Cut::Records(1)) && matches!(reader.cut(9, &mut out), Cut::Fail(_)));
        assert!(matches!(reader.cut(9, &mut out), Cut::More) && reader.missing() == 0);
        assert_eq!(reader.place(), Some(19 + 1016), "a new reader goes on behind it");
        // Cut short, it was too long all the same, and the file ends there.
        let mut reader = Reader::new(Options::default(), Some(bytes.len() as u64)).longest(longest);
        assert_eq!(collect(&mut reader, [&bytes[..500]]).len(), 2);
    }
    fn show(all: &[Result<Vec<u8>, Error>]) -> String {
        let one = |r: &Result<Vec<u8>, Error>| match r {
            Ok(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Err(e) => format!("!{}", e.at().byte.unwrap()),
        };
        all.iter().map(one).collect::<Vec<_>>().join(" ")
    }
    const RESYNC: Options = Options { check: true, after_bad: AfterBad::Resync };

    #[test]
    fn the_bytes_are_those_of_tensorflow() {
        // From a file that TensorFlow wrote: the record "abc".
        let abc = [3, 0, 0, 0, 0, 0, 0, 0, 176, 153, 73, 14, 97, 98, 99, 110, 87, 241, 33];
        assert_eq!(file(&[b"abc"]), abc);
    }

    #[test]
    fn any_block_size_gives_the_same() {
        let bytes = file(&[b"", b"abc", &[7; 300], b"defg", &[8; 5000], b"x"]);
        let whole = read(&bytes, usize::MAX, Options::default());
        assert_eq!(whole.len(), 6);
        for block in [1, 2, 11, 12, 13, 100, 4096] {
            let parts = read(&bytes, block, Options::default());
            assert!(whole.iter().zip(&parts).all(|(a, b)| a.as_ref().unwrap() == b.as_ref().unwrap()));
            assert_eq!(parts.len(), 6);
        }
    }

    #[test]
    fn a_length_in_a_compressed_stream_takes_no_memory() {
        let mut header = (MAX_RECORD - 1).to_le_bytes().to_vec();
        header.extend(masked_crc(&header.clone()).to_le_bytes());
        let mut reader = Reader::new(Options::default(), None);
        reader.feed(Buf::copied(&header));
        assert!(matches!(reader.cut(1, &mut crate::records::Copies::default()), Cut::More));
        assert_eq!(reader.missing(), 0, "nothing is taken ahead");
    }

    #[test]
    fn lengths_beyond_a_compressed_stream_cost_no_records() {
        let header = |n: u64| [&n.to_le_bytes()[..], &masked_crc(&n.to_le_bytes()).to_le_bytes()].concat();
        let mut bytes = [header(MAX_RECORD - 1), header(1000)].concat();
        frame(b"abc", &mut bytes);
        let all = collect(&mut Reader::new(RESYNC, None), bytes.chunks(10));
        assert_eq!(show(&all), "!0 !12 abc");
    }

    #[test]
    fn records_that_are_passed_over_are_not_read() {
        let records: Vec<Vec<u8>> = (0..30u8).map(|i| vec![i; if i % 4 == 0 { 900 } else { usize::from(i) }]).collect();
        let bytes = file(&records.iter().map(|r| &r[..]).collect::<Vec<_>>());
        let len = bytes.len() as u64;
        for (block, gap, skip) in (0..200u64).map(|i| (1 + i * 37 % 400, i * 13 % 300, i % 31)) {
            let mut reader = Reader::new(Options::default(), Some(len));
            let (mut at, mut left, mut read, mut got) = (0, skip, 0, vec![]);
            loop {
                if let Some(Hop { records, to }) = (left > 0).then(|| reader.hop(left, gap)).flatten() {
                    left -= records;
                    at = to.unwrap_or(at);
                    continue;
                }
                let mut some = crate::records::Copies::default();
                match reader.cut(if left > 0 { left as usize } else { 3 }, &mut some) {
                    Cut::Records(n) if left > 0 => left -= n as u64,
                    Cut::Records(_) => got.extend(some.0),
                    Cut::More if at == len => reader.finish(),
                    Cut::More => {
                        let end = len.min(at + block);
                        reader.feed(Buf::copied(&bytes[at as usize..end as usize]));
                        (read, at) = (read + end - at, end);
                    }
                    Cut::Fail(e) => panic!("{e}"),
                    Cut::End => break,
                }
            }
            assert_eq!(got, records[skip as usize..], "blocks of {block}, gap {gap}");
            assert!(read < len || skip == 0 || block + gap > 800, "blocks of {block}, gap {gap}, {skip} passed over");
        }
        let mut reader = Reader::new(Options::default(), Some(len));
        reader.feed(Buf::copied(&bytes[..1000]));
        // The second record begins at byte 916, and the sixth is not there yet.
        assert!(reader.go_to(916, 1) && !reader.go_to(0, 0) && !reader.go_to(1001, 5));
        assert_eq!((reader.offset(), reader.record()), (916, 1));
    }

    #[test]
    fn cut_files_say_so() {
        let bytes = file(&[b"abc", b"de"]);
        for len in 0..bytes.len() {
            let all = read(&bytes[..len], 5, Options::default());
            let whole = [0, 19].contains(&len);
            assert_eq!(all.last().is_some_and(|r| r.is_err()), !whole, "cut to {len} bytes");
            assert_eq!(all.iter().filter(|r| r.is_ok()).count(), usize::from(len >= 19));
        }
    }

    #[test]
    fn damage_costs_a_record_or_the_rest() {
        let bytes = file(&[b"abc", b"defg", b"hi", b"jkl"]);
        for block in [1, 7, 1000] {
            let mut data = bytes.clone();
            data[19 + 12] ^= 1;
            assert_eq!(show(&read(&data, block, Options::default())), "abc !19");
            assert_eq!(show(&read(&data, block, RESYNC)), "abc !19 hi jkl");
            assert_eq!(show(&read(&data, block, Options { check: false, ..RESYNC })), "abc eefg hi jkl");
            let mut length = bytes.clone();
            length[20] ^= 1;
            assert_eq!(show(&read(&length, block, Options::default())), "abc !19");
            assert_eq!(show(&read(&length, block, RESYNC)), "abc !19 hi jkl");
        }
    }

    #[test]
    fn records_behind_one_that_was_cut_short_are_found() {
        let small: Vec<String> = (0..20).map(|i| format!("small{i}")).collect();
        let rest: Vec<&[u8]> = small.iter().map(|r| r.as_bytes()).chain([&[b'C'; 800][..], b"last"]).collect();
        let all = format!("first !21 {} {} last", small.join(" "), "C".repeat(800));
        let cut = |length: usize, left: usize| {
            [file(&[b"first"]), file(&[&vec![b'B'; length]])[..left].to_vec(), file(&rest)].concat()
        };
        for (length, left) in [(1000, 50), (1000, 12), (1000, 13), (1000, 1000), (1250, 50), (1260, 12)] {
            let bytes = cut(length, left);
            for block in [1, 7, 12, 13, 100, 511, usize::MAX] {
                assert_eq!(show(&read(&bytes, block, RESYNC)), all, "{left} of {length} bytes, blocks of {block}");
                // In a compressed stream nobody knows where the file ends.
                let blocks = bytes.chunks(block);
                assert_eq!(show(&collect(&mut Reader::new(RESYNC, None), blocks)), all, "blocks of {block}");
            }
        }
        // The last record has nothing behind it, and is damaged only in its data.
        let mut bytes = file(&[b"one", b"two"]);
        bytes[19 + 12] ^= 1;
        for block in [1, 38, 100] {
            assert_eq!(show(&read(&bytes, block, RESYNC)), "one !19");
        }
    }

    #[test]
    fn records_are_found_also_where_one_says_that_it_ends_behind_them() {
        let small: Vec<String> = (0..20).map(|i| format!("small{i}")).collect();
        let rest: Vec<&[u8]> = small.iter().map(|r| r.as_bytes()).chain([&[b'C'; 800][..], b"last"]).collect();
        let all = format!("first !21 {} {} last", small.join(" "), "C".repeat(800));
        // What is missing of the record is as long as so many of its followers: its end is a header, or that of the file.
        for followers in [1, 3, 20, 21, 22] {
            let lost = file(&rest[..followers]).len();
            let long = file(&[&vec![b'B'; 1300]]);
            let bytes = [file(&[b"first"]), long[..long.len() - lost].to_vec(), file(&rest)].concat();
            for block in (1..40).chain([100, 511, 1300, 1316, 1328, usize::MAX]) {
                assert_eq!(show(&read(&bytes, block, RESYNC)), all, "{followers} followers, blocks of {block}");
                let blocks = bytes.chunks(block);
                assert_eq!(show(&collect(&mut Reader::new(RESYNC, None), blocks)), all, "blocks of {block}");
            }
            // Of the followers one is damaged, too: it costs itself.
            let mut twice = bytes.clone();
            let at = bytes.len() - file(&rest).len() + HEADER;
            twice[at] ^= 1;
            let expected = all.replace("small0", &format!("!{}", at - HEADER));
            let expected =
                if followers == 1 { "first !21 ".to_string() + all.split_once("small0 ").unwrap().1 } else { expected };
            assert_eq!(show(&read(&twice, 7, RESYNC)), expected, "{followers} followers");
        }
    }

    #[test]
    fn records_inside_of_a_damaged_one_stay_inside() {
        let inner = file(&[b"inner", b"more"]);
        // The second was cut before it was put into a record: whatever stands behind it is not its checksum.
        for inner in [&inner[..], &inner[..inner.len() - FOOTER]] {
            for flipped in 0..inner.len() {
                for ending in [&b"two"[..], &[]] {
                    let mut bytes =
                        [file(&[b"one", inner]), if ending.is_empty() { vec![] } else { file(&[ending]) }].concat();
                    bytes[19 + HEADER + flipped] ^= 1;
                    let expected = if ending.is_empty() { "one !19" } else { "one !19 two" };
                    for block in 1..=bytes.len() {
                        assert_eq!(show(&read(&bytes, block, RESYNC)), expected, "byte {flipped}, blocks of {block}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_search_inside_of_a_record_takes_no_time() {
        // Headers without number, each of a record up to the same end, and each wrong only in its data.
        let (records, tail) = (20_000, 1 << 20);
        let len = records * HEADER + tail;
        let mut data = Vec::with_capacity(len + FOOTER);
        for i in 0..records {
            let length = ((len - i * HEADER - HEADER) as u64).to_le_bytes();
            data.extend_from_slice(&length);
            data.extend_from_slice(&masked_crc(&length).to_le_bytes());
        }
        data.resize(len, 7);
        let mut bytes = file(&[&data, b"next"]);
        bytes[HEADER + len - 1] ^= 1;
        let mut reader = Reader::new(RESYNC, Some(bytes.len() as u64));
        assert_eq!(show(&collect(&mut reader, [&bytes])), "!0 next");
        // It looked at some of them.
        assert!(reader.damaged < 2 * len as u64);
    }

    #[test]
    fn a_hostile_file_takes_no_time() {
        // Each record is said to end where the file does, so that one in front of it is never the right one to go to.
        let (records, tail) = (40_000, 4 << 20);
        let len = records * HEADER + tail;
        let mut bytes = Vec::with_capacity(len);
        for i in 0..records {
            let length = ((len - i * HEADER - HEADER - FOOTER - 1) as u64).to_le_bytes();
            bytes.extend_from_slice(&length);
            bytes.extend_from_slice(&masked_crc(&length).to_le_bytes());
        }
        bytes.resize(len, 7);
        let failed = read(&bytes, 1 << 20, RESYNC).len();
        assert!(failed < 100, "{failed} records of the length of the file were looked at");
    }

    #[test]
    fn reading_can_start_anywhere() {
        let bytes = file(&[b"abc", b"defg", b"hi", b"jkl"]);
        let from = |mut reader: Reader, at: usize| {
            let found = collect(&mut reader, bytes[at..].chunks(7));
            (show(&found), reader.record())
        };
        let len = bytes.len() as u64;
        assert_eq!(from(Reader::at(RESYNC, len, 19, 1), 19), ("defg hi jkl".into(), 4));
        for at in 1..=19 {
            assert_eq!(from(Reader::from_anywhere(RESYNC, len, at as u64), at), ("defg hi jkl".into(), 3));
        }
        let mut reader = Reader::from_anywhere(RESYNC, len, 5);
        reader.feed(Buf::copied(&bytes[5..25]));
        assert!(!reader.find_header() && reader.is_lost());
        reader.feed(Buf::copied(&bytes[25..]));
        assert!(reader.find_header() && !reader.is_lost());
        assert_eq!(reader.offset(), 19);
    }

    #[test]
    fn a_hostile_length_takes_no_memory() {
        let mut bytes = file(&[b"ok"]);
        let length = (1u64 << 50).to_le_bytes();
        bytes.extend_from_slice(&length);
        bytes.extend_from_slice(&masked_crc(&length).to_le_bytes());
        bytes.extend_from_slice(b"abc");
        bytes.extend_from_slice(&file(&[b"later"]));
        assert_eq!(show(&read(&bytes, 10, Options::default())), "ok !18");
        assert_eq!(show(&read(&bytes, 10, RESYNC)), "ok !18 later");
        // Also where the size of the file is not known.
        let unknown = collect(&mut Reader::new(Options::default(), None), bytes.chunks(10));
        assert_eq!(show(&unknown), "ok !18");
    }

    #[test]
    fn other_files_are_recognised() {
        let all = read(b"this is not a record file at all\n", 100, Options::default());
        assert!(all[0].as_ref().unwrap_err().to_string().contains("not a TFRecord file"), "{all:?}");
        assert_eq!(all.len(), 1);
    }
}
