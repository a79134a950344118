//! Compressed streams: GZIP and ZLIB as TensorFlow wraps whole files in them, and zstd.

use crate::inflate::{Damage, Inflater, Ran, Wrap};
use feedline_io::{Buf, Error, Result};
use std::fmt;

/// How a file as a whole is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Zlib,
    Zstd,
}

impl Compression {
    /// By TensorFlow's names.
    pub fn parse(name: &str) -> Result<Compression> {
        Ok(match name {
            "" => Compression::None,
            "GZIP" => Compression::Gzip,
            "ZLIB" => Compression::Zlib,
            "ZSTD" => Compression::Zstd,
            other => {
                let upper = other.to_ascii_uppercase();
                let hint = match upper.as_str() {
                    "GZIP" | "ZLIB" | "ZSTD" => format!("; write {upper:?}"),
                    _ => String::new(),
                };
                return Err(Error::usage(format!(
                    "compression_type must be \"\", \"GZIP\", \"ZLIB\" or \"ZSTD\", not {other:?}{hint}"
                )));
            }
        })
    }
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => "GZIP",
            Compression::Zlib => "ZLIB",
            Compression::Zstd => "ZSTD",
        }
    }
    /// What the ending of a file's name says.
    pub fn of_name(name: &str) -> Compression {
        match name.rsplit('.').next() {
            Some("gz" | "gzip" | "tgz") => Compression::Gzip,
            Some("zz" | "zlib") => Compression::Zlib,
            Some("zst" | "zstd") => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a step of decompression came to.
#[derive(Debug)]
pub enum Step {
    Block(Buf),
    /// Feed the next block of the file, or `finish`.
    More,
    End,
    Fail(Error),
}

/// Blocks of a compressed file in, blocks of its contents out. Several streams in a row count as one, as `cat a.gz b.gz`
/// makes them. What is in a stream is bounded by whoever uses it; memory here is bounded by the size of a block.
pub struct Inflate {
    engine: Engine,
    kind: Compression,
    input: Buf,
    /// The first byte of `input` that is not used.
    at: usize,
    /// The place in the file of byte 0 of `input`.
    base: u64,
    out: Option<Buf>,
    /// What of `out` is filled.
    filled: usize,
    block: usize,
    finished: bool,
    /// Inside of a stream: the file must not end here.
    inside: bool,
    /// A stream was there, so that what follows may be padding.
    any: bool,
    /// What is wrong behind what is filled.
    damage: Option<String>,
    ended: bool,
}

enum Engine {
    Deflate(Box<Inflater>),
    Zstd(Box<zstd::stream::raw::Decoder<'static>>),
}

impl Inflate {
    /// Of that kind, which is not `None`, in blocks of `block` bytes.
    pub fn new(kind: Compression, block: usize) -> Result<Inflate> {
        let engine = Engine::new(kind)?;
        Ok(Inflate {
            engine,
            kind,
            input: Buf::new(0),
            at: 0,
            base: 0,
            out: None,
            filled: 0,
            block: block.max(1),
            finished: false,
            inside: false,
            any: false,
            damage: None,
            ended: false,
        })
    }
    pub fn feed(&mut self, block: Buf) {
        self.base += self.input.len() as u64;
        self.input = block;
        self.at = 0;
    }
    pub fn finish(&mut self) {
        self.finished = true;
    }
    /// Whether something is wrong behind the blocks that were given.
    pub fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    /// The next block of the contents.
    pub fn next_block(&mut self) -> Step {
        if self.ended {
            return Step::End;
        }
        match self.step() {
            Ok(step) => step,
            Err(message) => {
                self.ended = true;
                Step::Fail(Error::loss(message).at_byte(self.base + self.at as u64))
            }
        }
    }

    fn step(&mut self) -> std::result::Result<Step, String> {
        loop {
            if let Some(damage) = &self.damage {
                // What came before it is given out first.
                let damage = damage.clone();
                return self.take().map(Step::Block).ok_or(damage);
            }
            if self.at == self.input.len() && !self.finished {
                return Ok(Step::More);
            }
            if self.at == self.input.len() && !self.inside {
                self.ended = true;
                return Ok(self.take().map_or(Step::End, Step::Block));
            }
            if !self.inside {
                let padding = self.engine.padding(&self.input.as_slice()[self.at..]);
                if self.any && padding > 0 {
                    self.at += padding;
                    continue;
                }
                self.engine.reset().map_err(|e| e.to_string())?;
                (self.inside, self.any) = (true, true);
            }
            let mut out = self.out.take().unwrap_or_else(|| Buf::new(self.block));
            let block = out.get_mut().expect("not handed out yet");
            let Ran { used, made, end } = self.engine.run(&self.input.as_slice()[self.at..], block, self.filled);
            self.out = Some(out);
            self.at += used;
            self.filled += made;
            self.damage = end.as_ref().err().map(|damage| {
                format!("the {} data is damaged: {damage}; or it is compressed in another way", self.kind.name())
            });
            if self.damage.is_some() {
                continue;
            }
            let end = end == Ok(true);
            self.inside = !end;
            if self.filled == self.block {
                return Ok(Step::Block(self.take().expect("a full block")));
            }
            if used == 0 && made == 0 && !end {
                if self.finished && self.at == self.input.len() {
                    self.ended = true;
                    // What came before the cut is given out first.
                    if let Some(block) = self.take() {
                        self.ended = false;
                        return Ok(Step::Block(block));
                    }
                    return Err(format!("the {} data ends too early; the file was cut", self.kind.name()));
                }
                if self.at < self.input.len() {
                    return Err(format!("the {} data does not go on", self.kind.name()));
                }
            }
        }
    }

    fn take(&mut self) -> Option<Buf> {
        let filled = std::mem::take(&mut self.filled);
        let out = self.out.take()?;
        (filled > 0).then(|| out.truncated(filled))
    }
}

impl Engine {
    fn new(kind: Compression) -> Result<Engine> {
        Ok(match kind {
            Compression::Gzip => Engine::Deflate(Box::new(Inflater::new(Wrap::Gzip))),
            Compression::Zlib => Engine::Deflate(Box::new(Inflater::new(Wrap::Zlib))),
            Compression::Zstd => Engine::Zstd(Box::new(zstd_decoder().map_err(|e| Error::io(&e))?)),
            Compression::None => return Err(Error::internal("nothing to decompress")),
        })
    }
    fn reset(&mut self) -> std::io::Result<()> {
        match self {
            Engine::Deflate(d) => d.reset(),
            Engine::Zstd(d) => **d = zstd_decoder()?,
        }
        Ok(())
    }
    /// Zeros behind a stream, which tape programs leave there, are no stream: none begins with a zero. How many there are.
    fn padding(&self, input: &[u8]) -> usize {
        match self {
            Engine::Deflate(_) => input.iter().take_while(|b| **b == 0).count(),
            Engine::Zstd(_) => 0,
        }
    }
    /// Decodes into a block, of which so much is filled.
    fn run(&mut self, input: &[u8], block: &mut [u8], filled: usize) -> Ran {
        match self {
            Engine::Deflate(d) => d.run(input, block, filled),
            Engine::Zstd(d) => {
                use zstd::stream::raw::Operation;
                match d.run_on_buffers(input, &mut block[filled..]) {
                    Ok(s) => Ran { used: s.bytes_read, made: s.bytes_written, end: Ok(s.remaining == 0) },
                    Err(e) => Ran { used: 0, made: 0, end: Err(Damage(e.to_string().into())) },
                }
            }
        }
    }
}

fn zstd_decoder() -> std::io::Result<zstd::stream::raw::Decoder<'static>> {
    let mut decoder = zstd::stream::raw::Decoder::new()?;
    // The memory that a stream may ask for: 128 MB, zstd's own limit.
    decoder.set_parameter(zstd::stream::raw::DParameter::WindowLogMax(27))?;
    Ok(decoder)
}

/// Compresses what is written through it.
pub enum Deflate<W: std::io::Write> {
    None(W),
    Gzip(flate2::write::GzEncoder<W>),
    Zlib(flate2::write::ZlibEncoder<W>),
    Zstd(Box<zstd::Encoder<'static, W>>),
}

impl<W: std::io::Write> Deflate<W> {
    /// At that level; the format's own default if none is given.
    pub fn new(out: W, kind: Compression, level: Option<i32>) -> Result<Deflate<W>> {
        let range = if kind == Compression::Zstd { 1..=22 } else { 0..=9 };
        if let Some(level) = level.filter(|l| !range.contains(l)) {
            return Err(Error::usage(format!(
                "the compression level must be {} to {}, not {level}",
                range.start(),
                range.end()
            )));
        }
        let flate = level.map_or(flate2::Compression::default(), |l| flate2::Compression::new(l as u32));
        Ok(match kind {
            Compression::None => Deflate::None(out),
            Compression::Gzip => Deflate::Gzip(flate2::write::GzEncoder::new(out, flate)),
            Compression::Zlib => Deflate::Zlib(flate2::write::ZlibEncoder::new(out, flate)),
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(out, level.unwrap_or(0)).map_err(|e| Error::io(&e))?;
                // So that damage is found when it is read.
                encoder.include_checksum(true).map_err(|e| Error::io(&e))?;
                Deflate::Zstd(Box::new(encoder))
            }
        })
    }
    /// Ends the stream and gives the writer below back.
    pub fn finish(self) -> std::io::Result<W> {
        match self {
            Deflate::None(out) => Ok(out),
            Deflate::Gzip(out) => out.finish(),
            Deflate::Zlib(out) => out.finish(),
            Deflate::Zstd(out) => out.finish(),
        }
    }
}

impl<W: std::io::Write> std::io::Write for Deflate<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Deflate::None(out) => out.write(bytes),
            Deflate::Gzip(out) => out.write(bytes),
            Deflate::Zlib(out) => out.write(bytes),
            Deflate::Zstd(out) => out.write(bytes),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Deflate::None(out) => out.flush(),
            Deflate::Gzip(out) => out.flush(),
            Deflate::Zlib(out) => out.flush(),
            Deflate::Zstd(out) => out.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(kind: Compression, bytes: &[u8]) -> Vec<u8> {
        let mut out = Deflate::new(Vec::new(), kind, None).unwrap();
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }
    fn unpacked(kind: Compression, bytes: &[u8], block: usize, out: usize) -> (Vec<u8>, Option<Error>) {
        let mut inflate = Inflate::new(kind, out).unwrap();
        let mut blocks = bytes.chunks(block);
        let mut all = Vec::new();
        loop {
            match inflate.next_block() {
                Step::Block(b) => {
                    assert!(b.len() <= out);
                    all.extend_from_slice(b.as_slice());
                }
                Step::More => match blocks.next() {
                    Some(b) => inflate.feed(Buf::copied(b)),
                    None => inflate.finish(),
                },
                Step::End => return (all, None),
                Step::Fail(e) => {
                    assert!(matches!(inflate.next_block(), Step::End));
                    return (all, Some(e));
                }
            }
        }
    }
    const KINDS: [Compression; 3] = [Compression::Gzip, Compression::Zlib, Compression::Zstd];

    #[test]
    fn any_block_size_gives_the_same() {
        let bytes: Vec<u8> = (0..50_000u32).map(|x| (x * x / 7) as u8).collect();
        for kind in KINDS {
            let mut twice = packed(kind, &bytes[..20_000]);
            twice.extend(packed(kind, &bytes[20_000..]));
            for (block, out) in [(1, 100), (10, 7), (1000, 1000), (1 << 20, 1 << 20), (100, 20_000)] {
                let (all, error) = unpacked(kind, &twice, block, out);
                assert!(error.is_none(), "{kind} {block} {out}: {error:?}");
                assert!(all == bytes, "{kind} {block} {out}");
            }
        }
    }

    #[test]
    fn cut_and_damaged_streams_say_so() {
        let bytes: Vec<u8> = (0..20_000u32).map(|x| (x * x / 7) as u8).collect();
        for kind in KINDS {
            let whole = packed(kind, &bytes);
            let (all, error) = unpacked(kind, &whole[..whole.len() / 2], 100, 64);
            assert!(bytes.starts_with(&all) && error.is_some());
            assert!(error.unwrap().to_string().contains("too early"));
            let mut damaged = whole.clone();
            let middle = damaged.len() / 2;
            damaged[middle..middle + 8].iter_mut().for_each(|b| *b ^= 0x55);
            assert!(unpacked(kind, &damaged, 100, 64).1.is_some(), "{kind}");
            assert!(unpacked(kind, b"plain text, not packed at all", 100, 64).1.is_some(), "{kind}");
            assert_eq!(unpacked(kind, b"", 10, 10).0, b"");
        }
    }

    #[test]
    fn zeros_between_streams_count_the_same_in_any_blocks() {
        for kind in [Compression::Gzip, Compression::Zlib] {
            let bytes = [packed(kind, b"one, "), vec![0; 20], packed(kind, b"two"), vec![0; 5]].concat();
            for block in [1, 7, 30, 1000] {
                let (all, error) = unpacked(kind, &bytes, block, 64);
                assert!(all == b"one, two" && error.is_none(), "{kind} {block}: {error:?}");
                let (all, error) = unpacked(kind, &[&bytes[..], b"more"].concat(), block, 64);
                assert!(all == b"one, two" && error.is_some(), "{kind} {block}");
            }
            assert!(unpacked(kind, &[0; 20], 7, 64).1.is_some(), "{kind}: a file of zeros is none");
        }
    }

    #[test]
    fn names() {
        assert_eq!(Compression::parse("ZSTD").unwrap(), Compression::Zstd);
        let text = Compression::parse("gzip").unwrap_err().to_string();
        assert!(text.contains("write \"GZIP\""), "{text}");
        assert_eq!(Compression::of_name("a/b.jsonl.gz"), Compression::Gzip);
    }
}
