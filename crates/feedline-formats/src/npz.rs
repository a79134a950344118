//! NumPy's .npz: a zip file of .npy files. Members that are only stored are found where they lie; compressed ones are
//! inflated as a whole.

use feedline_io::{Buf, Error, Result, Source};
use std::ops::Range;
use std::sync::Arc;

const END: &[u8; 4] = b"PK\x05\x06";
const END64: &[u8; 4] = b"PK\x06\x06";
const END64_PLACE: &[u8; 4] = b"PK\x06\x07";
const ENTRY: &[u8; 4] = b"PK\x01\x02";
const LOCAL: &[u8; 4] = b"PK\x03\x04";
/// The end of the directory with the longest comment, and what may stand in front of it in a large file.
const TAIL: u64 = 22 + 65535 + 20 + 56;
/// Names of a hundred thousand members fit in here.
const MAX_DIRECTORY: u64 = 64 << 20;
/// Deflate makes at most this many bytes of one.
const MOST_INFLATED: u64 = 1032;

/// A file in the archive.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub name: String,
    pub compressed: bool,
    /// Its bytes as they are stored.
    pub range: Range<u64>,
    /// Bytes when it is not compressed.
    pub size: u64,
    crc: u32,
}

fn u16_at(b: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes([b[at], b[at + 1]]))
}
fn u32_at(b: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]))
}
fn u64_at(b: &[u8], at: usize) -> u64 {
    u32_at(b, at) | u32_at(b, at + 4) << 32
}

fn exact(source: &Arc<dyn Source>, at: u64, len: u64) -> Result<Buf> {
    let len = usize::try_from(len).map_err(|_| Error::data("too large for this machine"))?;
    let buf = source.clone().read(at, len).wait()?;
    if buf.len() < len {
        return Err(Error::loss("the archive is cut off").in_file(source.name(), Some(at + buf.len() as u64)));
    }
    Ok(buf)
}

/// The members that are wanted, in the order of the directory, and the names of all. `len` is the size of the file.
/// Nothing is said of what others are like.
pub fn members(source: &Arc<dyn Source>, len: u64, want: &dyn Fn(&str) -> bool) -> Result<(Vec<Member>, Vec<String>)> {
    let tail_at = len.saturating_sub(TAIL);
    let tail = exact(source, tail_at, len - tail_at)?;
    let Directory { start, size, count, told_at } = directory(tail.as_slice(), tail_at)?;
    if size > MAX_DIRECTORY || start.checked_add(size).is_none_or(|end| end > len) {
        let text = format!("the directory claims to lie at byte {start} and to have {size} bytes; the file has {len}");
        return Err(Error::data(text).at_byte(told_at));
    }
    let directory = exact(source, start, size)?;
    let (found, names) = entries(directory.as_slice(), start, count, len, want)?;
    let members: Result<_> = found.into_iter().map(|(member, local)| placed(source, member, local, len)).collect();
    Ok((members?, names))
}

/// Where the directory begins, its size, how many members it has, and where that is told.
struct Directory {
    start: u64,
    size: u64,
    count: u64,
    told_at: u64,
}

fn directory(tail: &[u8], tail_at: u64) -> Result<Directory> {
    let missing = || Error::loss("is no zip archive, or its end is cut off: it has no directory");
    let last = tail.len().checked_sub(22).ok_or_else(missing)?;
    let at =
        (0..=last).rev().find(|&i| tail[i..].starts_with(END) && u16_at(tail, i + 20) as usize == tail.len() - i - 22);
    let at = at.ok_or_else(missing)?;
    let (end, told_at) = (&tail[at..], tail_at + at as u64);
    let (count, size, start) = (u16_at(end, 10), u32_at(end, 12), u32_at(end, 16));
    if count != 0xffff && size != 0xffff_ffff && start != 0xffff_ffff {
        return Ok(Directory { start, size, count, told_at });
    }
    let wrong = || Error::data("the directory of a large archive is damaged").at_byte(told_at);
    let place = at.checked_sub(20).filter(|&p| tail[p..].starts_with(END64_PLACE)).ok_or_else(wrong)?;
    let record =
        u64_at(tail, place + 8).checked_sub(tail_at).and_then(|r| usize::try_from(r).ok()).ok_or_else(wrong)?;
    let record = tail.get(record..).filter(|r| r.len() >= 56 && r.starts_with(END64)).ok_or_else(wrong)?;
    Ok(Directory { start: u64_at(record, 48), size: u64_at(record, 40), count: u64_at(record, 32), told_at })
}

/// Wanted entries of the directory with the places of their local headers, and the names of all.
#[allow(clippy::type_complexity)]
fn entries(
    bytes: &[u8],
    start: u64,
    count: u64,
    len: u64,
    want: &dyn Fn(&str) -> bool,
) -> Result<(Vec<(Member, u64)>, Vec<String>)> {
    let mut out: Vec<(Member, u64)> = Vec::new();
    let mut names = Vec::new();
    let mut at = 0;
    for _ in 0..count {
        let place = start + at as u64;
        let cut = || Error::data("the directory of the archive ends early").at_byte(place);
        let entry = bytes.get(at..).filter(|e| e.len() >= 46 && e.starts_with(ENTRY)).ok_or_else(cut)?;
        let (flags, method) = (u16_at(entry, 8), u16_at(entry, 10));
        let (name, extra, comment) = (u16_at(entry, 28), u16_at(entry, 30), u16_at(entry, 32));
        let end = 46 + (name + extra + comment) as usize;
        let entry = entry.get(..end).ok_or_else(cut)?;
        let name_end = 46 + name as usize;
        let name = String::from_utf8_lossy(&entry[46..name_end]).into_owned();
        names.push(name.clone());
        at += end;
        if !want(&name) {
            continue;
        }
        let mut numbers = [u32_at(entry, 24), u32_at(entry, 20), u32_at(entry, 42)];
        large(&entry[name_end..name_end + extra as usize], &mut numbers);
        let [size, stored, local] = numbers;
        let refused = |why: String| Err(Error::data(format!("member {name:?} {why}")).at_byte(place));
        if flags & 1 != 0 {
            return refused("is encrypted".into());
        }
        if method != 0 && method != 8 {
            return refused(format!("is compressed by method {method}; stored and deflated ones can be read"));
        }
        if stored > len || (method == 0 && size != stored) || size > stored.saturating_mul(MOST_INFLATED) + 64 {
            return refused(format!("claims {size} bytes out of {stored}"));
        }
        let crc = u32_at(entry, 16) as u32;
        let made = (Member { name, compressed: method == 8, range: 0..stored, size, crc }, local);
        // An archive that was added to may have a name again: as everywhere, the last one counts.
        match out.iter_mut().find(|(member, _)| member.name == made.0.name) {
            Some(older) => *older = made,
            None => out.push(made),
        }
    }
    Ok((out, names))
}

/// Numbers that were too large for their places stand in a field of their own, in this order.
fn large(mut extra: &[u8], numbers: &mut [u64; 3]) {
    while extra.len() >= 4 {
        let (id, size) = (u16_at(extra, 0), u16_at(extra, 2) as usize);
        let Some(body) = extra.get(4..4 + size) else { return };
        if id == 1 {
            let mut values = body.chunks_exact(8);
            for number in numbers.iter_mut().filter(|n| **n == 0xffff_ffff) {
                if let Some(value) = values.next() {
                    *number = u64_at(value, 0);
                }
            }
        }
        extra = &extra[4 + size..];
    }
}

/// Finds the bytes behind the local header, whose fields have lengths of their own.
fn placed(source: &Arc<dyn Source>, member: Member, local: u64, len: u64) -> Result<Member> {
    let wrong = || Error::data(format!("member {:?} is not where the directory says", member.name)).at_byte(local);
    if local.checked_add(30).is_none_or(|end| end > len) {
        return Err(wrong());
    }
    let head = exact(source, local, 30)?;
    let head = head.as_slice();
    if !head.starts_with(LOCAL) {
        return Err(wrong());
    }
    let start = local + 30 + u16_at(head, 26) + u16_at(head, 28);
    let end = start.checked_add(member.range.end).filter(|end| *end <= len).ok_or_else(wrong)?;
    Ok(Member { range: start..end, ..member })
}

/// The first `len` bytes of a compressed member, or all if it has fewer. `read` gives so many of its stored bytes.
pub fn inflated_head(member: &Member, len: usize, read: &dyn Fn(usize) -> Result<Buf>) -> Result<Vec<u8>> {
    let len = len.min(usize::try_from(member.size).unwrap_or(usize::MAX));
    // A code of deflate takes at most 15 bits, and what says the codes some hundred bytes.
    let stored = usize::try_from(member.range.end - member.range.start).unwrap_or(usize::MAX);
    let stored = read(stored.min(len.saturating_mul(2).saturating_add(4096)))?;
    let mut out = vec![0; len];
    let mut inflate = flate2::Decompress::new(false);
    let done = inflate.decompress(stored.as_slice(), &mut out, flate2::FlushDecompress::None);
    done.map_err(|_| Error::data("it cannot be decompressed: it is damaged").at_byte(member.range.start))?;
    out.truncate(inflate.total_out() as usize);
    Ok(out)
}

/// A compressed member as it was. `stored` are the bytes of its range.
pub fn inflated(member: &Member, stored: &[u8]) -> Result<Buf> {
    let here = |error: Error| error.at_byte(member.range.start);
    let wrong = |why: &str| here(Error::data(format!("member {:?} cannot be decompressed: {why}", member.name)));
    let size = usize::try_from(member.size).map_err(|_| wrong("it is too large for this machine"))?;
    let mut out = Buf::new(size);
    let bytes = out.get_mut().expect("a new block has one holder");
    let mut inflate = flate2::Decompress::new(false);
    let status =
        inflate.decompress(stored, bytes, flate2::FlushDecompress::Finish).map_err(|_| wrong("it is damaged"))?;
    if status != flate2::Status::StreamEnd || inflate.total_out() != member.size {
        return Err(wrong("its size is not the one in the directory"));
    }
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    if crc.sum() != member.crc {
        return Err(here(Error::loss(format!("member {:?} has a wrong checksum: it is damaged", member.name))));
    }
    Ok(out)
}

/// Compares the checksums of all members that are stored: rows of these are read where they lie, without. What is wrong with
/// each; `read` hears of the bytes that were read.
pub fn check_stored(source: &Arc<dyn Source>, len: u64, read: &mut dyn FnMut(u64) -> Result<()>) -> Result<Vec<Error>> {
    let mut wrong = Vec::new();
    for member in members(source, len, &|_| true)?.0.iter().filter(|m| !m.compressed) {
        let (mut crc, mut at) = (crc32fast::Hasher::new(), member.range.start);
        while at < member.range.end {
            let block = exact(source, at, (member.range.end - at).min(1 << 20))?;
            crc.update(block.as_slice());
            at += block.len() as u64;
            read(block.len() as u64)?;
        }
        if crc.finalize() != member.crc {
            let text = format!("member {:?} has a wrong checksum: it is damaged", member.name);
            wrong.push(Error::loss(text).at_byte(member.range.start));
        }
    }
    Ok(wrong)
}

/// Writes an archive of stored members: their names, sizes and checksums are known.
pub struct Writer<W> {
    out: W,
    at: u64,
    directory: Vec<u8>,
    count: u64,
}

impl<W: std::io::Write> Writer<W> {
    pub fn new(out: W) -> Writer<W> {
        Writer { out, at: 0, directory: Vec::new(), count: 0 }
    }
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }
    /// A member whose bytes are copied from `from`, all of them.
    pub fn member(&mut self, name: &str, size: u64, crc: u32, from: impl std::io::Read) -> std::io::Result<()> {
        let local = self.at;
        let mut head = LOCAL.to_vec();
        // Sizes always stand in the field for large ones; so that the items begin at a multiple of 64, a second field
        // fills up.
        let fixed = local + 30 + name.len() as u64 + 20 + 4;
        let pad = (fixed.next_multiple_of(64) - fixed) as u16;
        let common = |out: &mut Vec<u8>, extra: u16| {
            out.extend([45, 0, 0, 8, 0, 0, 0, 0, 0x21, 0]);
            out.extend(crc.to_le_bytes());
            out.extend([0xff; 8]);
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(extra.to_le_bytes());
        };
        common(&mut head, 24 + pad);
        head.extend(name.as_bytes());
        head.extend([1, 0, 16, 0]);
        head.extend(size.to_le_bytes());
        head.extend(size.to_le_bytes());
        head.extend([0xfe, 0xca]);
        head.extend(pad.to_le_bytes());
        head.resize(head.len() + usize::from(pad), 0);
        self.put(&head)?;
        let copied = std::io::copy(&mut from.take(size), &mut self.out)?;
        if copied != size {
            return Err(std::io::Error::other(format!("{name} has {copied} bytes, {size} were expected")));
        }
        self.at += size;
        let entry = &mut self.directory;
        entry.extend(ENTRY);
        entry.extend([45, 0]);
        common(entry, 28);
        entry.extend([0; 10]);
        entry.extend([0xff; 4]);
        entry.extend(name.as_bytes());
        entry.extend([1, 0, 24, 0]);
        entry.extend(size.to_le_bytes());
        entry.extend(size.to_le_bytes());
        entry.extend(local.to_le_bytes());
        self.count += 1;
        Ok(())
    }
    pub fn finish(mut self) -> std::io::Result<W> {
        let (start, directory) = (self.at, std::mem::take(&mut self.directory));
        self.put(&directory)?;
        let record = self.at;
        let size = directory.len() as u64;
        let mut end = END64.to_vec();
        end.extend(44u64.to_le_bytes());
        end.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        end.extend(self.count.to_le_bytes());
        end.extend(self.count.to_le_bytes());
        end.extend(size.to_le_bytes());
        end.extend(start.to_le_bytes());
        end.extend(END64_PLACE);
        end.extend(0u32.to_le_bytes());
        end.extend(record.to_le_bytes());
        end.extend(1u32.to_le_bytes());
        end.extend(END);
        end.extend([0; 4]);
        end.extend([0xff; 12]);
        end.extend([0; 2]);
        self.put(&end)?;
        Ok(self.out)
    }
}

/// The checksum that members have.
#[derive(Default)]
pub struct Checksum(flate2::Crc);

impl Checksum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    pub fn value(&self) -> u32 {
        self.0.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(dir: &tempfile::TempDir, members: &[(&str, &[u8])]) -> (Arc<dyn Source>, String) {
        let mut writer = Writer::new(Vec::new());
        for (name, bytes) in members {
            writer.member(name, bytes.len() as u64, crc32fast::hash(bytes), *bytes).unwrap();
        }
        let path = dir.path().join("a.npz").to_str().unwrap().to_owned();
        std::fs::write(&path, writer.finish().unwrap()).unwrap();
        (feedline_io::open(&path).unwrap(), path)
    }

    #[test]
    fn of_two_members_of_one_name_the_last_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (source, path) = archive(&dir, &[("x.npy", b"old"), ("y.npy", b"other"), ("x.npy", b"newer")]);
        let bytes = std::fs::read(path).unwrap();
        let (members, _) = members(&source, bytes.len() as u64, &|_| true).unwrap();
        let found: Vec<_> = members.iter().map(|m| &bytes[m.range.start as usize..m.range.end as usize]).collect();
        assert_eq!(found, [&b"newer"[..], b"other"]);
    }

    #[test]
    fn stored_members_have_checksums() {
        let dir = tempfile::tempdir().unwrap();
        let (source, path) = archive(&dir, &[("x.npy", &[1; 3_000_000]), ("y.npy", b"other")]);
        let mut bytes = std::fs::read(&path).unwrap();
        let (len, mut read) = (bytes.len() as u64, 0);
        let mut check = |source: &Arc<dyn Source>| {
            let wrong = check_stored(source, len, &mut |n| {
                read += n;
                Ok(())
            });
            wrong.unwrap()
        };
        assert!(check(&source).is_empty());
        bytes[2_000_000] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let wrong = check(&feedline_io::open(&path).unwrap());
        assert!(wrong.len() == 1 && wrong[0].message().contains("\"x.npy\" has a wrong checksum"), "{wrong:?}");
        assert_eq!(read, 2 * 3_000_005);
    }
}
