//! A file as commands see it: named on the command line, opened, and recognised by its first bytes.

use crate::formats::{self, Format};
use crate::saved;
use crate::session::{Session, Unit, Watch};
use clap::Args;
use feedline::{Error, Kind, Result};
use feedline_formats::compress::{Compression, Inflate, Step};
use feedline_io::{Blocks, Buf, Source, Stat};
use std::sync::Arc;

/// What a file is recognised by.
const HEAD_BYTES: usize = 64 << 10;

/// The files of a command line.
#[derive(Args)]
pub struct Inputs {
    /// Files, folders, patterns ("data/*.tfrecord") or addresses
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,
    #[command(flatten)]
    pub reading: Reading,
}

#[derive(Args, Clone)]
pub struct Reading {
    /// What the files are, where their contents and names do not tell
    #[arg(long, value_name = "FORMAT", value_parser = formats::names())]
    pub format: Option<String>,
    /// CSV files do not begin with a line of names; columns are called c0, c1, …
    #[arg(long)]
    pub no_header: bool,
}

pub struct File {
    pub name: String,
    pub source: Arc<dyn Source>,
    pub stat: Stat,
    pub compression: Compression,
    pub format: &'static Format,
    /// The first bytes of its contents, unpacked.
    pub head: Vec<u8>,
    /// A CSV file begins with names.
    pub header: bool,
}

impl File {
    pub fn open(name: &str, reading: &Reading) -> Result<File> {
        File::look(name, reading).map_err(|e| e.in_file(name, None))
    }

    fn look(name: &str, reading: &Reading) -> Result<File> {
        let source = feedline_io::open(name)?;
        let stat = source.clone().stat().wait()?;
        let packed = source.clone().read(0, HEAD_BYTES).wait()?;
        let (compression, head) = unpacked(packed.as_slice());
        let format = match &reading.format {
            Some(asked) => formats::find(asked)?,
            None => formats::recognise(name, &head).ok_or_else(|| {
                let what = match stat.len {
                    0 => "it is empty, and its name does not say",
                    _ => "neither its contents nor its name says",
                };
                Error::usage(format!("{what} what it is; --format does"))
            })?,
        };
        let header = !reading.no_header;
        Ok(File { name: name.into(), source, stat, compression, format, head, header })
    }

    /// What is in it, from front to back, unpacked.
    pub fn contents<'a>(&self, watch: &'a Watch<'a>) -> Result<Contents<'a>> {
        let inflate = match self.compression {
            Compression::None => None,
            kind => Some(Inflate::new(kind, 256 << 10)?),
        };
        Ok(Contents { blocks: Blocks::new(self.source.clone(), 0, None), inflate, watch })
    }

    /// It is not on this machine.
    pub fn is_far(&self) -> bool {
        self.name.contains("://") && !self.name.starts_with("file://")
    }
    pub fn is_plain(&self) -> bool {
        self.compression == Compression::None
    }
}

/// Blocks of a file's contents. Its watch hears of the bytes that were read.
pub struct Contents<'a> {
    blocks: Blocks,
    inflate: Option<Inflate>,
    watch: &'a Watch<'a>,
}

impl Contents<'_> {
    fn read(&mut self) -> Option<Result<Buf>> {
        let block = self.blocks.next_block()?;
        Some(block.and_then(|block| self.watch.done(block.len() as u64).map(|()| block)))
    }
}

impl Iterator for Contents<'_> {
    type Item = Result<Buf>;

    fn next(&mut self) -> Option<Result<Buf>> {
        if self.inflate.is_none() {
            return self.read();
        }
        loop {
            match self.inflate.as_mut()?.next_block() {
                Step::Block(block) => return Some(Ok(block)),
                Step::End => return None,
                Step::Fail(error) => return Some(Err(error)),
                Step::More => match self.read() {
                    Some(Ok(block)) => self.inflate.as_mut()?.feed(block),
                    Some(Err(error)) => return Some(Err(error)),
                    None => self.inflate.as_mut()?.finish(),
                },
            }
        }
    }
}

/// How the beginning of a file is compressed, and what is in it.
fn unpacked(packed: &[u8]) -> (Compression, Vec<u8>) {
    let kind = match packed {
        [0x1f, 0x8b, 8, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
        // Two bytes of text can look like this, too: what follows must be what it says.
        [0x78, second, ..] if (0x7800 + u16::from(*second)).is_multiple_of(31) => Compression::Zlib,
        _ => return (Compression::None, packed.to_vec()),
    };
    let inflated = Inflate::new(kind, HEAD_BYTES).map(|mut inflate| {
        inflate.feed(Buf::copied(packed));
        let mut step = inflate.next_block();
        if matches!(step, Step::More) {
            // It was all there, or a full block would have come out; what is missing at the end is of no interest here.
            inflate.finish();
            step = inflate.next_block();
        }
        match step {
            Step::Block(block) if kind != Compression::Zlib || !inflate.is_damaged() => Some(block.as_slice().to_vec()),
            Step::End => Some(Vec::new()),
            _ => None,
        }
    });
    match (kind, inflated) {
        (_, Ok(Some(head))) => (kind, head),
        (Compression::Zlib, _) => (Compression::None, packed.to_vec()),
        _ => (kind, Vec::new()),
    }
}

/// A file to be opened.
struct Job {
    name: String,
    /// In a folder, or by a pattern: the user did not name it.
    found: bool,
    missing: Option<Error>,
}

impl Job {
    fn named(name: &str) -> Job {
        Job { name: name.into(), found: false, missing: None }
    }
    fn found(given: &str, found: Result<String>) -> Job {
        match found {
            Ok(name) => Job { name, found: true, missing: None },
            Err(error) => {
                let name = error.at().file.as_deref().unwrap_or(given).to_owned();
                Job { name, found: true, missing: Some(error) }
            }
        }
    }
}

/// Opens what the command line names. A file that was found in a folder or by a pattern and is no data is left out.
pub fn open_each(session: &Session<'_>, inputs: &Inputs) -> Result<Vec<(String, Result<File>)>> {
    let mut jobs = Vec::new();
    for given in &inputs.files {
        session.go_on()?;
        match feedline_io::expand_each(given) {
            Ok(found) if matches!(found.as_slice(), [Ok(name)] if name == given) => jobs.push(Job::named(given)),
            Ok(found) => {
                let names: Vec<String> = found.iter().flatten().cloned().collect();
                match saved::data_files(given, &names) {
                    Ok(Some(saved)) => jobs.extend(saved.iter().map(|name| Job::named(name))),
                    Ok(None) => jobs.extend(found.into_iter().map(|found| Job::found(given, found))),
                    Err(error) if error.kind() == Kind::Usage => return Err(error),
                    Err(error) => jobs.push(Job { missing: Some(error), ..Job::named(given) }),
                }
            }
            Err(error) => jobs.push(Job { missing: Some(error), ..Job::named(given) }),
        }
    }
    let watch = session.watch("looking", 0, Unit::Bytes);
    let opened = session.each_waiting(&jobs, |job| {
        watch.done(0)?;
        match &job.missing {
            Some(error) => Err(error.clone()),
            None => File::open(&job.name, &inputs.reading),
        }
    });
    watch.finish();
    session.go_on()?;
    let mut files = Vec::new();
    for (Job { name, found, .. }, file) in jobs.into_iter().zip(opened) {
        match file {
            Err(error) if found && error.kind() == Kind::Usage => session.remark(format!("left out: {error}")),
            file => files.push((name, file)),
        }
    }
    if files.is_empty() {
        feedline::bail!(Usage, "no data was found under {}", inputs.files.join(" "));
    }
    Ok(files)
}

/// The same where one file at least must be there.
pub fn open_some(session: &Session<'_>, inputs: &Inputs) -> Result<Vec<(String, Result<File>)>> {
    let files = open_each(session, inputs)?;
    match files.iter().find_map(|(_, file)| file.as_ref().err()) {
        Some(error) if files.iter().all(|(_, file)| file.is_err()) => Err(error.clone()),
        _ => Ok(files),
    }
}

/// The same where every file must be there.
pub fn open_all(session: &Session<'_>, inputs: &Inputs) -> Result<Vec<File>> {
    open_each(session, inputs)?.into_iter().map(|(_, file)| file).collect()
}

/// How a compression is called here.
pub fn compression_name(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Gzip => "gzip",
        Compression::Zlib => "zlib",
        Compression::Zstd => "zstd",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use feedline_formats::compress::Deflate;
    use std::io::Write;

    #[test]
    fn compression_is_recognised() {
        let text = b"{\"a\": 1}\n".repeat(20_000);
        for kind in [Compression::Gzip, Compression::Zlib, Compression::Zstd] {
            let mut out = Deflate::new(Vec::new(), kind, None).unwrap();
            out.write_all(&text).unwrap();
            let packed = out.finish().unwrap();
            let (found, head) = unpacked(&packed[..packed.len().min(HEAD_BYTES)]);
            assert_eq!(found, kind);
            assert!(!head.is_empty() && text.starts_with(&head), "{kind}");
        }
        for plain in [&b"x^2 is a text that begins like zlib does"[..], b"", b"x", &text[..100]] {
            assert_eq!(unpacked(plain), (Compression::None, plain.to_vec()));
        }
    }
}
