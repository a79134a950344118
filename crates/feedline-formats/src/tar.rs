//! tar: ustar, GNU's long names, pax headers (path and size). Blocks in, members out, which point into the blocks.
//!
//! Only regular files are members: directories, links and devices are passed over, and links are never followed. Names
//! are made relative; one with `..` in it is an error in the place of the member. A damaged header is an error, and
//! reading goes on at the next place that is a header by its checksum.

use crate::records::Carry;
use feedline_io::{Buf, Error, Result};
use std::io::Write;
use std::ops::Range;

pub(crate) const BLOCK: usize = 512;
/// Headers that carry a name or attributes: longer ones are refused.
const MAX_EXTENSION_BYTES: u64 = 1 << 20;
/// A member longer than this is an error unless it is passed over.
pub const MAX_MEMBER_BYTES: u64 = 4 << 30;
/// Memory is taken ahead only up to here: what a header says may be wrong.
const TRUSTED_BYTES: u64 = 64 << 20;

/// Where a regular file lies in a tar file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Relative, without `.` and `..`; any bytes.
    pub name: Vec<u8>,
    /// The byte at which its (first) header begins.
    pub header: u64,
    /// The byte at which its contents begin.
    pub offset: u64,
    pub size: u64,
}

/// Bytes in a block.
#[derive(Clone, Debug)]
pub struct View {
    pub buf: Buf,
    pub range: Range<usize>,
}

impl View {
    pub fn bytes(&self) -> &[u8] {
        &self.buf.as_slice()[self.range.clone()]
    }
}

/// What a call of `Tar::next` came to.
#[derive(Debug)]
pub enum Step {
    /// A member, with its contents if they were wanted.
    Member(Member, Option<View>),
    /// This stands in the place of a member; reading goes on after it.
    Fail(Error),
    /// Feed the next block, or `finish`.
    More,
    End,
}

/// What lies behind the last header.
enum Ahead {
    Header,
    /// Bytes to pass over. They may be missing at the end of the file if they are only padding.
    Skip(u64, Padding),
    Name(u64),
    Attributes(u64),
    Contents(Member),
    Nothing,
}

#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Yes,
    No,
}

/// What headers before a member said of it.
#[derive(Default)]
struct Extension {
    /// Where the first of them began.
    start: Option<u64>,
    name: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: bool,
}

/// Reads a tar file.
pub struct Tar {
    carry: Carry,
    ahead: Ahead,
    extension: Extension,
    max_bytes: u64,
    /// After a damaged header: the next one that is whole is looked for.
    lost: bool,
    /// Empty blocks in a row; two are the end.
    empty: usize,
}

impl Default for Tar {
    fn default() -> Tar {
        let (carry, extension) = (Carry::default(), Extension::default());
        Tar { carry, ahead: Ahead::Header, extension, max_bytes: MAX_MEMBER_BYTES, lost: false, empty: 0 }
    }
}

impl Tar {
    /// Begins in the middle of a file, at the (first) header of a member.
    pub fn at(byte: u64) -> Tar {
        Tar { carry: Carry::at(byte), ..Tar::default() }
    }
    pub fn max_bytes(self, max_bytes: u64) -> Tar {
        Tar { max_bytes, ..self }
    }
    pub fn feed(&mut self, block: Buf) {
        self.carry.feed(block);
    }
    pub fn finish(&mut self) {
        self.carry.finish();
    }

    /// After the end: where the file ends, if the empty blocks are missing that mark the end. One that is cut between two
    /// members looks like this, and so do the files of writers that leave the mark out; nothing at all is an empty file.
    pub fn unmarked_end(&self) -> Option<u64> {
        let at = self.carry.offset() + self.carry.rest().len() as u64;
        Some(at).filter(|at| *at > 0 && self.empty == 0)
    }

    /// After `More`: where the block that is fed next must begin if it is not the one that follows, because more than `gap`
    /// bytes are to be passed over. Those of a member that ends beyond the `len` bytes of the file have to be fed.
    pub fn hop(&mut self, gap: u64, len: u64) -> Option<u64> {
        let Ahead::Skip(left, _) = self.ahead else { return None };
        let to = (self.carry.offset() + self.carry.rest().len() as u64).checked_add(left)?;
        if left <= gap || to > len {
            return None;
        }
        (self.carry, self.ahead) = (Carry::at(to), Ahead::Header);
        Some(to)
    }

    /// The next member. `wanted` says whether its contents are; what is not wanted is passed over and never collected.
    pub fn next(&mut self, wanted: &mut dyn FnMut(&Member) -> bool) -> Step {
        loop {
            let there = self.carry.rest().len() as u64;
            match std::mem::replace(&mut self.ahead, Ahead::Nothing) {
                Ahead::Nothing => return Step::End,
                Ahead::Header => match self.header(wanted) {
                    Some(step) => return step,
                    None => continue,
                },
                Ahead::Skip(left, _) if left <= there => {
                    self.carry.advance(left as usize);
                    self.ahead = Ahead::Header;
                }
                Ahead::Skip(left, padding) => {
                    self.carry.advance(there as usize);
                    let left = left - there;
                    if !self.carry.is_finished() {
                        self.ahead = Ahead::Skip(left, padding);
                        return Step::More;
                    }
                    return if padding == Padding::Yes { self.end() } else { self.cut_off(left) };
                }
                Ahead::Name(size) => match self.collected(size) {
                    Ok(view) => self.extension.name = Some(until_nul(view.bytes()).to_vec()),
                    Err(step) => return self.wait(step, Ahead::Name(size)),
                },
                Ahead::Attributes(size) => match self.collected(size) {
                    Ok(view) => {
                        if let Err(why) = self.extension.read(view.bytes()) {
                            let at = std::mem::take(&mut self.extension).start.unwrap_or(self.carry.offset());
                            return Step::Fail(Error::data(format!("{why} in a pax header")).at_byte(at));
                        }
                    }
                    Err(step) => return self.wait(step, Ahead::Attributes(size)),
                },
                Ahead::Contents(member) => match self.collected(member.size) {
                    Ok(view) => return Step::Member(member, Some(view)),
                    Err(step) => return self.wait(step, Ahead::Contents(member)),
                },
            }
        }
    }

    fn wait(&mut self, step: Step, ahead: Ahead) -> Step {
        if matches!(step, Step::More) {
            self.ahead = ahead;
        }
        step
    }
    fn cut_off(&mut self, missing: u64) -> Step {
        self.ahead = Ahead::Nothing;
        let end = self.carry.offset() + self.carry.rest().len() as u64;
        let text = format!("the tar file is cut: {missing} bytes of the last member are missing");
        Step::Fail(Error::loss(text).at_byte(end))
    }
    /// The end of the blocks. Headers that tell of a member have one behind them.
    fn end(&mut self) -> Step {
        match std::mem::take(&mut self.extension).start {
            Some(at) => {
                let text = "the tar file is cut: a member is announced by a header, and does not follow";
                Step::Fail(Error::loss(text).at_byte(at))
            }
            None => Step::End,
        }
    }
    /// That many bytes in one piece, and the padding behind them passed over.
    fn collected(&mut self, size: u64) -> std::result::Result<View, Step> {
        let there = self.carry.rest().len() as u64;
        if there < size {
            if self.carry.is_finished() {
                return Err(self.cut_off(size - there));
            }
            if size <= TRUSTED_BYTES {
                self.carry.need(size as usize);
            }
            return Err(Step::More);
        }
        let start = self.carry.start();
        let view = View { buf: self.carry.block().clone(), range: start..start + size as usize };
        self.carry.advance(size as usize);
        self.ahead = Ahead::Skip(padding(size), Padding::Yes);
        Ok(view)
    }

    /// Reads the header in front; `None` if there is nothing to say yet.
    fn header(&mut self, wanted: &mut dyn FnMut(&Member) -> bool) -> Option<Step> {
        let at = self.carry.offset();
        let rest = self.carry.rest();
        let Some(block) = rest.first_chunk::<BLOCK>() else {
            if !self.carry.is_finished() {
                self.ahead = Ahead::Header;
                return Some(Step::More);
            }
            // A file that ends without the two empty blocks is whole as far as anybody can tell.
            if rest.is_empty() || self.lost {
                return Some(self.end());
            }
            let packed = packed(at, rest).map_or(String::new(), |hint| format!("; {hint}"));
            let text = format!("the tar file is cut: {} bytes of a header are there{packed}", rest.len());
            return Some(Step::Fail(Error::loss(text).at_byte(at)));
        };
        if block.iter().all(|b| *b == 0) {
            self.carry.advance(BLOCK);
            // Where a header is searched for, they may be part of a member.
            self.empty += usize::from(!self.lost);
            self.ahead = if self.empty == 2 { Ahead::Nothing } else { Ahead::Header };
            return None;
        }
        self.empty = 0;
        let header = Header(*block);
        self.carry.advance(BLOCK);
        self.ahead = Ahead::Header;
        if !header.is_whole() {
            self.extension = Extension::default();
            let known = std::mem::replace(&mut self.lost, true);
            let hint = match packed(at, &header.0) {
                Some(hint) => format!("; {hint}"),
                None if at == 0 => "; is this a tar file, and of that compression?".into(),
                None => String::new(),
            };
            return (!known)
                .then(|| Step::Fail(Error::data(format!("the checksum of a tar header is wrong{hint}")).at_byte(at)));
        }
        self.lost = false;
        match self.meaning(&header, at, wanted) {
            Ok(None) => None,
            Ok(Some(step)) => Some(step),
            Err(error) => {
                self.extension = Extension::default();
                Some(Step::Fail(error.at_byte(at)))
            }
        }
    }

    /// What a whole header means. On an error, `ahead` says already where reading goes on.
    fn meaning(&mut self, header: &Header, at: u64, wanted: &mut dyn FnMut(&Member) -> bool) -> Result<Option<Step>> {
        let kind = header.0[156];
        let offset = self.carry.offset();
        let size = match self.extension.size {
            Some(size) => size,
            None => header.size().ok_or_else(|| {
                self.lost = true;
                Error::data("the size in a tar header is not a number")
            })?,
        };
        if size > u64::MAX / 4 {
            self.lost = true;
            feedline_io::bail!(Data, "a tar header claims a member of {size} bytes, more than any file has");
        }
        let padded = size + padding(size);
        // Where reading goes on unless the contents are looked at.
        self.ahead = Ahead::Skip(padded, Padding::No);
        match kind {
            b'L' | b'x' if size > MAX_EXTENSION_BYTES => {
                feedline_io::bail!(
                    Data,
                    "a tar header claims {size} bytes of names and attributes; {MAX_EXTENSION_BYTES} are the most"
                );
            }
            b'L' => {
                self.extension.start.get_or_insert(at);
                self.ahead = Ahead::Name(size);
                Ok(None)
            }
            b'x' => {
                self.extension.start.get_or_insert(at);
                self.ahead = Ahead::Attributes(size);
                Ok(None)
            }
            // A long link name, attributes of the file as a whole: of no use here.
            b'K' | b'g' => Ok(None),
            b'1'..=b'6' => {
                // Links, devices and directories have no contents, whatever their size says.
                self.ahead = Ahead::Header;
                self.extension = Extension::default();
                Ok(None)
            }
            b'0' | 0 | b'7' | b'S' => {
                let Extension { start, name, sparse, .. } = std::mem::take(&mut self.extension);
                let name = name.unwrap_or_else(|| header.name());
                if kind != b'7' && name.ends_with(b"/") {
                    return Ok(None);
                }
                if kind == b'S' || sparse {
                    self.lost = kind == b'S';
                    feedline_io::bail!(Data, "{} is a sparse file, which is not read; pack it plain", shown(&name));
                }
                let name = relative(&name)?;
                let member = Member { name, header: start.unwrap_or(at), offset, size };
                if !wanted(&member) {
                    return Ok(Some(Step::Member(member, None)));
                }
                if size > self.max_bytes {
                    feedline_io::bail!(
                        Data,
                        "{} has {size} bytes, more than the {} that one member may have",
                        shown(&member.name),
                        self.max_bytes
                    );
                }
                self.ahead = Ahead::Contents(member);
                Ok(None)
            }
            _ => {
                self.extension = Extension::default();
                Ok(None)
            }
        }
    }
}

impl Extension {
    /// Reads pax attributes: `length key=value\n`, where the length counts all of it.
    fn read(&mut self, mut text: &[u8]) -> std::result::Result<(), &'static str> {
        while !until_nul(text).is_empty() {
            let space = text.iter().position(|b| *b == b' ').ok_or("a length is missing")?;
            let length = std::str::from_utf8(&text[..space]).ok().and_then(|n| n.parse::<usize>().ok());
            let record = length.and_then(|n| text.get(space + 1..n)).ok_or("a length is wrong")?;
            let (equals, end) = (record.iter().position(|b| *b == b'='), record.last());
            let (Some(equals), Some(b'\n')) = (equals, end) else { return Err("an attribute is not key=value") };
            let (key, value) = (&record[..equals], &record[equals + 1..record.len() - 1]);
            match key {
                b"path" => self.name = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|n| n.parse().ok());
                    self.size = Some(size.ok_or("the size is not a number")?);
                }
                _ => self.sparse |= key.starts_with(b"GNU.sparse."),
            }
            text = &text[space + 1 + record.len()..];
        }
        Ok(())
    }
}

/// Whether bytes begin with a header whose checksum is right.
pub fn is_header(bytes: &[u8]) -> bool {
    bytes.first_chunk::<BLOCK>().is_some_and(|block| block.iter().any(|b| *b != 0) && Header(*block).is_whole())
}

/// What to do about a file that begins as compressed ones do.
fn packed(at: u64, bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        _ if at > 0 => None,
        [0x1f, 0x8b, ..] => Some("it looks like gzip: give compression_type=\"GZIP\""),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("it looks like zstd: give compression_type=\"ZSTD\""),
        [b'B', b'Z', b'h', ..] | [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            Some("it looks like bzip2 or xz, which are not read: unpack it first")
        }
        _ => None,
    }
}

struct Header([u8; BLOCK]);

impl Header {
    /// Whether the checksum is right, with bytes counted as unsigned, or signed as some old writers did.
    fn is_whole(&self) -> bool {
        let Some(sum) = octal(&self.0[148..156]) else { return false };
        let rest = || self.0[..148].iter().chain(&self.0[156..]);
        let spaces = 8 * u64::from(b' ');
        let unsigned = rest().map(|b| u64::from(*b)).sum::<u64>() + spaces;
        let signed = rest().map(|b| i64::from(*b as i8)).sum::<i64>() + spaces as i64;
        sum == unsigned || i64::try_from(sum) == Ok(signed)
    }
    /// The size: octal, or in binary behind a set bit (GNU, for 8 GiB and more).
    fn size(&self) -> Option<u64> {
        let field = &self.0[124..136];
        match field[0] {
            0x80 => field[1..].iter().try_fold(0u64, |n, b| n.checked_mul(256)?.checked_add(u64::from(*b))),
            0x81.. => None,
            _ => octal(field),
        }
    }
    fn name(&self) -> Vec<u8> {
        let name = until_nul(&self.0[..100]);
        // GNU's own format has other things where ustar has the prefix.
        let prefix = if &self.0[257..263] == b"ustar\0" { until_nul(&self.0[345..500]) } else { &[] };
        if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
    }
}

/// Octal digits between spaces, up to a NUL; nothing is 0.
fn octal(field: &[u8]) -> Option<u64> {
    let digits = until_nul(field).trim_ascii();
    digits.iter().try_fold(0u64, |n, b| match b {
        b'0'..=b'7' => n.checked_mul(8)?.checked_add(u64::from(b - b'0')),
        _ => None,
    })
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// What is missing to whole blocks.
fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64) - size
}

fn shown(name: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&name[..name.len().min(200)]))
}

/// A name without leading slashes and `.`; `..` is refused.
pub(crate) fn relative(name: &[u8]) -> Result<Vec<u8>> {
    let parts: Vec<&[u8]> = name.split(|b| *b == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&&b".."[..]) {
        return Err(Error::data(format!("the tar member {} has \"..\" in its name", shown(name))));
    }
    if parts.is_empty() {
        return Err(Error::data("a tar member has no name"));
    }
    Ok(parts.join(&b'/'))
}

/// Writes tar files: ustar, with pax headers where a name is too long or a file too large for it.
pub struct Writer<W: Write> {
    out: W,
    written: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W) -> Writer<W> {
        Writer { out, written: 0 }
    }
    /// Adds a regular file; `mtime` in seconds since 1970.
    pub fn append(&mut self, name: &[u8], contents: &[u8], mtime: u64) -> Result<()> {
        if relative(name)? != name || name.contains(&0) {
            return Err(Error::usage(format!("{} cannot be the name of a tar member", shown(name))));
        }
        self.put(&headers(name, contents.len() as u64, mtime))?;
        self.put(contents)?;
        self.put(&[0; BLOCK][..padding(contents.len() as u64) as usize])
    }
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|e| Error::io(&e))
    }
    pub fn written(&self) -> u64 {
        self.written
    }
    /// Writes the end.
    pub fn finish(mut self) -> Result<W> {
        self.put(&[0; 2 * BLOCK])?;
        Ok(self.out)
    }
}

/// All headers of a file.
fn headers(name: &[u8], size: u64, mtime: u64) -> Vec<u8> {
    let mut attributes = Vec::new();
    let fits = ustar_name(name);
    if fits.is_none() {
        attributes.extend(pax_record("path", name));
    }
    if size >= 1 << 33 {
        attributes.extend(pax_record("size", size.to_string().as_bytes()));
    }
    let mut out = Vec::new();
    if !attributes.is_empty() {
        out.extend(header((b"", b"pax_header"), attributes.len() as u64, b'x', mtime));
        let blocks = attributes.len().next_multiple_of(BLOCK);
        attributes.resize(blocks, 0);
        out.extend(attributes);
    }
    out.extend(header(fits.unwrap_or((b"", &name[..name.len().min(100)])), size, b'0', mtime));
    out
}

/// Prefix and name, if the name fits into the two.
fn ustar_name(name: &[u8]) -> Option<(&[u8], &[u8])> {
    if name.len() <= 100 {
        return Some((b"", name));
    }
    let cuts = name.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
    cuts.filter(|at| *at <= 155 && (1..=100).contains(&(name.len() - at - 1)))
        .map(|at| (&name[..at], &name[at + 1..]))
        .next()
}

fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    // The length counts its own digits.
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
}

fn header((prefix, name): (&[u8], &[u8]), size: u64, kind: u8, mtime: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name);
    put(345, prefix);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    // What does not fit stands in a pax header.
    put(124, format!("{:011o}\0", size & ((1 << 33) - 1)).as_bytes());
    put(136, format!("{:011o}\0", mtime & ((1 << 33) - 1)).as_bytes());
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// All members of a file in memory with their contents, for tests and tools.
pub fn collect<B: AsRef<[u8]>>(
    tar: &mut Tar,
    blocks: impl IntoIterator<Item = B>,
    wanted: &mut dyn FnMut(&Member) -> bool,
) -> Vec<Result<(Member, Option<Vec<u8>>)>> {
    let (mut all, mut blocks) = (Vec::new(), blocks.into_iter());
    loop {
        match tar.next(wanted) {
            Step::Member(member, view) => all.push(Ok((member, view.map(|v| v.bytes().to_vec())))),
            Step::Fail(error) => all.push(Err(error)),
            Step::More => match blocks.next() {
                Some(bytes) => tar.feed(Buf::copied(bytes.as_ref())),
                None => tar.finish(),
            },
            Step::End => return all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Files = Vec<(String, Vec<u8>)>;

    fn read(bytes: &[u8], block: usize) -> Vec<std::result::Result<(String, Vec<u8>), String>> {
        let all = collect(&mut Tar::default(), bytes.chunks(block), &mut |_| true);
        all.into_iter()
            .map(|m| {
                let (member, contents) = m.map_err(|e| e.to_string())?;
                let contents = contents.expect("all are wanted");
                // The index is right: the contents lie where it says.
                assert_eq!(&bytes[member.offset as usize..][..member.size as usize], contents);
                Ok((String::from_utf8(member.name).unwrap(), contents))
            })
            .collect()
    }
    fn ours(files: &Files) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        files.iter().for_each(|(name, contents)| writer.append(name.as_bytes(), contents, 7).unwrap());
        writer.finish().unwrap()
    }
    /// As the `tar` crate writes it: GNU headers and long names.
    fn theirs(files: &Files) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, contents) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(contents.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, &contents[..]).unwrap();
        }
        builder.into_inner().unwrap()
    }
    fn some() -> Files {
        vec![("a.txt".into(), b"one".to_vec()), ("d/b.bin".into(), vec![7; 1024]), ("c".into(), vec![])]
    }

    /// A header with whatever is wanted in it, and a right checksum.
    fn made(name: &str, kind: u8, size_field: &[u8]) -> [u8; BLOCK] {
        let mut block = header((b"", name.as_bytes()), 0, kind, 0);
        block[124..124 + size_field.len()].copy_from_slice(size_field);
        block[148..156].copy_from_slice(b"        ");
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }

    #[test]
    fn only_files_are_members() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        for (kind, name) in [
            (tar::EntryType::Directory, "d/"),
            (tar::EntryType::Symlink, "s"),
            (tar::EntryType::Link, "h"),
            (tar::EntryType::Fifo, "f"),
        ] {
            header.set_entry_type(kind);
            header.set_size(0);
            builder.append_link(&mut header, name, "/etc/passwd").unwrap();
        }
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(2);
        builder.append_data(&mut header, "x", &b"hi"[..]).unwrap();
        assert_eq!(read(&builder.into_inner().unwrap(), 100), [Ok(("x".into(), b"hi".to_vec()))]);
    }

    #[test]
    fn names_stay_inside() {
        for (name, expected) in [("/etc/passwd", Some("etc/passwd")), ("./a//b/.", Some("a/b")), ("a/../../b", None)] {
            let mut file = made(name, b'0', b"00000000001\0").to_vec();
            file.extend([1; BLOCK]);
            file.extend(made("next", b'0', b"00000000000\0"));
            let all = read(&file, 600);
            match expected {
                Some(expected) => assert_eq!(all[0].as_ref().unwrap().0, expected),
                None => assert!(all[0].as_ref().unwrap_err().contains("\"..\""), "{all:?}"),
            }
            assert_eq!(all[1].as_ref().unwrap().0, "next");
        }
        assert!(Writer::new(Vec::new()).append(b"../a", b"", 0).is_err());
    }

    #[test]
    fn a_name_that_leads_outside_is_said_with_its_byte() {
        let mut tar = Tar::default();
        tar.feed(Buf::copied(&[&ours(&some())[..1024], &made("../b", b'0', b"00000000000\0")[..]].concat()));
        assert!(matches!(tar.next(&mut |_| false), Step::Member(..)));
        let Step::Fail(error) = tar.next(&mut |_| false) else { panic!("it was read") };
        assert!(error.message().contains("\"..\"") && error.at().byte == Some(1024), "{error}");
    }

    #[test]
    fn compressed_files_are_recognised() {
        for (magic, word) in [(&b"\x1f\x8b"[..], "\"GZIP\""), (b"\x28\xb5\x2f\xfd", "\"ZSTD\"")] {
            // Shorter than a header, and longer.
            for len in [100, 600, 2000] {
                let file = [magic, &vec![0x55; len - magic.len()]].concat();
                let error = read(&file, 300)[0].clone().unwrap_err();
                assert!(error.contains("looks like") && error.contains(word), "{error}");
            }
        }
    }

    #[test]
    fn a_damaged_header_costs_its_member() {
        let mut file = ours(&some());
        file[3] ^= 1;
        for block in [7, 512, 100_000] {
            let all = read(&file, block);
            assert!(all[0].as_ref().unwrap_err().contains("(byte 0)"), "{all:?}");
            assert_eq!(all[1].as_ref().unwrap().0, "d/b.bin");
            assert_eq!(all.len(), 3);
        }
    }

    #[test]
    fn cut_files_are_data_loss() {
        let file = ours(&some());
        let failed = |cut: usize| read(&file[..cut], 300).last().unwrap().clone().unwrap_err();
        assert!(failed(514).contains("1 bytes of the last member are missing (byte 514)"), "{}", failed(514));
        assert!(failed(1100).contains("76 bytes of a header are there (byte 1024)"), "{}", failed(1100));
        // The padding and the end may be missing.
        assert_eq!(read(&file[..515], 300).len(), 1);
        assert_eq!(read(&file[..1024], 300).len(), 1);
    }

    #[test]
    fn a_missing_end_can_be_asked_for() {
        let file = ours(&some());
        let all = file.len();
        for (cut, at) in [(515, Some(515)), (1024, Some(1024)), (all - 1024, Some(all as u64 - 1024)), (0, None)] {
            let mut tar = Tar::default();
            collect(&mut tar, file[..cut].chunks(300), &mut |_| false);
            assert_eq!(tar.unmarked_end(), at, "{cut}");
        }
        for cut in [all - 512, all] {
            let mut tar = Tar::default();
            collect(&mut tar, file[..cut].chunks(300), &mut |_| false);
            assert_eq!(tar.unmarked_end(), None, "{cut}");
        }
    }

    #[test]
    fn hostile_sizes_cost_no_memory() {
        let huge = made("huge", b'0', b"\x80\0\0\0\x3f\xff\xff\xff\xff\xff\xff\xff");
        let error = read(&[&huge[..], &[0; 2048]].concat(), 512)[0].clone().unwrap_err();
        assert!(error.contains("more than"), "{error}");
        for size in [&b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..], b"99999999999\0"] {
            let all = read(&[&made("x", b'0', size)[..], &ours(&some())].concat(), 512);
            assert!(all[0].as_ref().unwrap_err().contains("not a number"), "{all:?}");
            assert_eq!(all.len(), 4);
        }
        let long = made("x", b'L', b"77777777777\0");
        assert!(read(&long, 512)[0].as_ref().unwrap_err().contains("are the most"));
        assert!(read(&made("x", b'S', b""), 512)[0].as_ref().unwrap_err().contains("sparse"));
        let small = &mut Tar::default().max_bytes(100);
        let all = collect(small, [ours(&some())], &mut |_| true);
        assert!(all[1].as_ref().unwrap_err().to_string().contains("1024 bytes, more than the 100"));
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn what_is_not_wanted_is_passed_over() {
        let file = ours(&some());
        let all = collect(&mut Tar::default(), file.chunks(100), &mut |m| m.name == b"c");
        let members: Vec<_> = all.into_iter().map(|m| m.unwrap()).collect();
        assert_eq!(members.iter().map(|(_, c)| c.is_some()).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(members[1].0, Member { name: b"d/b.bin".to_vec(), header: 1024, offset: 1536, size: 1024 });
    }

    #[test]
    fn a_file_that_ends_behind_a_long_name_is_cut() {
        let files: Files = vec![("a".into(), vec![1; 10]), ("n".repeat(150), vec![2; 10])];
        for file in [ours(&files), theirs(&files)] {
            // The first member takes 1,024 bytes; then come the header of the long name, the name, and the member.
            for cut in [1024 + 512 + 200, 2048] {
                for block in [100, 512, 4096] {
                    let all = read(&file[..cut], block);
                    let said = all[1].as_ref().unwrap_err();
                    assert!(said.contains("cut") && (cut < 2048 || said.contains("byte 1024")), "{said}");
                    assert_eq!((all.len(), all[0].is_ok()), (2, true));
                }
            }
            assert_eq!(read(&file[..1024], 512).len(), 1);
        }
    }

    #[test]
    fn contents_are_hopped_over() {
        let long = format!("{}/x.bin", "n".repeat(150));
        let files: Files = vec![
            (long, vec![1; 9000]),
            ("small".into(), vec![2; 300]),
            ("large".into(), vec![3; 20_000]),
            ("last".into(), vec![4; 700]),
        ];
        for file in [ours(&files), theirs(&files)] {
            for cut in [file.len(), file.len() - 1024, file.len() - 1024 - 500, file.len() - 1024 - 600] {
                let file = &file[..cut];
                let expected = collect(&mut Tar::default(), [file], &mut |_| false);
                let (mut tar, mut at, mut fed, mut found) = (Tar::default(), 0, 0, Vec::new());
                loop {
                    match tar.next(&mut |_| false) {
                        Step::Member(member, view) => found.push(Ok((member, view.map(|v| v.bytes().to_vec())))),
                        Step::Fail(error) => found.push(Err(error)),
                        Step::More => {
                            at = tar.hop(1000, file.len() as u64).map_or(at, |to| to as usize);
                            let block = &file[at..(at + 600).min(file.len())];
                            (at, fed) = (at + block.len(), fed + block.len());
                            if block.is_empty() { tar.finish() } else { tar.feed(Buf::copied(block)) }
                        }
                        Step::End => break,
                    }
                }
                let shown = |all: Vec<Result<_>>| format!("{:?}", all.into_iter().collect::<Vec<_>>());
                assert_eq!(shown(found), shown(expected));
                assert!(fed < 9000, "{fed} of {} bytes were read", file.len());
            }
        }
    }

    #[test]
    fn pax_attributes_are_checked() {
        for text in ["9 path=a\nx", "99 path=a\n", "path", "10 size=-1\n", "4 a\n", "0 =\n", "2 "] {
            assert!(Extension::default().read(text.as_bytes()).is_err(), "{text:?}");
        }
        let mut both = Extension::default();
        both.read(&[pax_record("path", b"x=y"), pax_record("size", b"123")].concat()).unwrap();
        assert_eq!((both.name.unwrap(), both.size), (b"x=y".to_vec(), Some(123)));
        // A length that gains a digit by counting itself.
        for n in 80..110 {
            let record = pax_record("path", &vec![b'a'; n]);
            assert!(record.starts_with(format!("{} ", record.len()).as_bytes()));
        }
    }

    proptest! {
        #[test]
        fn both_ways_with_another_implementation(
            files in prop::collection::vec(("[ab]{1,9}(/[ab]{1,60}){0,5}", prop::collection::vec(any::<u8>(), 0..1500)), 0..5),
            block in prop_oneof![1usize..700, Just(1_000_000)],
        ) {
            let expected: Vec<_> = files.iter().cloned().map(Ok).collect();
            prop_assert_eq!(&read(&ours(&files), block), &expected);
            prop_assert_eq!(&read(&theirs(&files), block), &expected);
            let mut archive = tar::Archive::new(std::io::Cursor::new(ours(&files)));
            let mut found = Vec::new();
            for entry in archive.entries().unwrap() {
                let mut entry = entry.unwrap();
                let mut contents = Vec::new();
                std::io::Read::read_to_end(&mut entry, &mut contents).unwrap();
                found.push((entry.path().unwrap().to_str().unwrap().to_owned(), contents));
            }
            prop_assert_eq!(found, files);
        }

        #[test]
        fn damage_never_panics(flips in prop::collection::vec((0usize..4000, any::<u8>()), 1..8), block in 1usize..900) {
            let mut file = theirs(&vec![("n".repeat(150), vec![1; 700]), ("b".into(), vec![2; 30])]);
            for (at, byte) in flips {
                let at = at % file.len();
                file[at] = byte;
            }
            let all = collect(&mut Tar::default(), file.chunks(block), &mut |_| true);
            prop_assert!(all.len() <= file.len() / BLOCK);
        }
    }
}
