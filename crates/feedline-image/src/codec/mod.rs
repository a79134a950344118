//! From bytes to pixels and back: a file a format. What a file is, its first bytes say, not its name.

mod bmp;
mod gif;
pub mod jpeg;
pub mod png;
mod webp;

use crate::{Error, Result, Size};
use feedline_io::Buf;

/// Frames, their size, their pixels.
type Decoded<'a> = (usize, Size, Body<'a>);

/// More pixels are refused before memory is taken for them.
pub const MOST_PIXELS: usize = 1 << 28;
/// The same for all frames of an animation.
const MOST_FRAME_BYTES: usize = 1 << 30;

fn check_pixels(height: usize, width: usize) -> Result<()> {
    match height.checked_mul(width) {
        Some(n) if n <= MOST_PIXELS => Ok(()),
        _ => {
            Err(Error::data(format!("a picture of {height} x {width} is larger than the {MOST_PIXELS} pixels allowed")))
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Jpeg,
    Png,
    Gif,
    Bmp,
    Webp,
}

impl Format {
    /// By the first bytes.
    pub fn of(bytes: &[u8]) -> Result<Format> {
        Ok(match bytes {
            [0xff, 0xd8, 0xff, ..] => Format::Jpeg,
            [0x89, b'P', b'N', b'G', ..] => Format::Png,
            [b'G', b'I', b'F', b'8', ..] => Format::Gif,
            [b'B', b'M', ..] => Format::Bmp,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Format::Webp,
            [] => return Err(Error::data("no bytes where a picture was expected")),
            first => {
                let shown = first[..first.len().min(8)].escape_ascii();
                return Err(Error::data(format!(
                    "not a picture: JPEG, PNG, GIF, BMP and WebP are known, and it begins with \"{shown}\""
                )));
            }
        })
    }
    /// Whether pictures of this format are lists of frames.
    pub fn is_animated(self) -> bool {
        matches!(self, Format::Gif | Format::Webp)
    }
}

/// A picture that was looked at: its size is known, and its pixels can be had.
pub struct Opened<'a> {
    pub format: Format,
    pub frames: usize,
    /// Of a frame.
    pub size: Size,
    body: Body<'a>,
}

enum Body<'a> {
    Jpeg(jpeg::Job<'a>),
    Png(Box<png::Opened<'a>>),
    /// The pixels of all frames.
    Pixels(Buf),
}

impl<'a> Opened<'a> {
    /// With as many channels as asked for; `options.channels` of 0 is as many as it has. The other options are for JPEG.
    pub fn new(bytes: &'a [u8], options: jpeg::Options) -> Result<Opened<'a>> {
        let format = Format::of(bytes)?;
        let channels = options.channels;
        let (frames, size, body) = match format {
            Format::Jpeg => {
                let job = jpeg::Job::new(bytes, options)?;
                (1, job.size, Body::Jpeg(job))
            }
            Format::Png => {
                let png = png::Opened::new(bytes, channels)?;
                (1, png.size, Body::Png(Box::new(png)))
            }
            Format::Gif => gif::decode(bytes, channels)?,
            Format::Bmp => bmp::decode(bytes, channels)?,
            Format::Webp => webp::decode(bytes, channels)?,
        };
        Ok(Opened { format, frames, size, body })
    }
    /// The pixels of the first frames: as many as `out` has room for.
    pub fn read(self, out: &mut [u8]) -> Result<()> {
        match self.body {
            Body::Jpeg(job) => job.decode(out),
            Body::Png(png) => png.read(out),
            Body::Pixels(pixels) => {
                out.copy_from_slice(&pixels.as_slice()[..out.len()]);
                Ok(())
            }
        }
    }
    /// The same with 16 bits; only a PNG can have more than 8 of them that count.
    pub fn read_wide(self, out: &mut [u16]) -> Result<()> {
        match self.body {
            Body::Png(png) => png.read_wide(out),
            body => {
                let mut narrow = Buf::new(out.len());
                Opened { body, ..self }.read(narrow.get_mut().expect("a new block has one holder"))?;
                out.iter_mut().zip(narrow.as_slice()).for_each(|(out, x)| *out = u16::from(*x) * 257);
                Ok(())
            }
        }
    }
}

/// Frames that are added one by one, in a block that grows: it is counted, and asked for.
struct Frames {
    block: Buf,
    filled: usize,
}

impl Default for Frames {
    fn default() -> Frames {
        Frames { block: Buf::new(0), filled: 0 }
    }
}

impl Frames {
    fn len(&self) -> usize {
        self.filled
    }
    fn push(&mut self, frame: &[u8]) {
        let end = self.filled + frame.len();
        if end > self.block.len() {
            let mut larger = Buf::new(end + self.filled / 2);
            let bytes = larger.get_mut().expect("a new block has one holder");
            bytes[..self.filled].copy_from_slice(&self.block.as_slice()[..self.filled]);
            self.block = larger;
        }
        self.block.get_mut().expect("the only holder")[self.filled..end].copy_from_slice(frame);
        self.filled = end;
    }
    fn finish(self) -> Buf {
        self.block
    }
}

/// A file whose channels cannot be changed.
fn check_channels(what: &str, asked: usize, has: usize) -> Result<()> {
    if asked == 0 || asked == has {
        return Ok(());
    }
    Err(Error::data(format!("this {what} has {has} channels, and {asked} were asked for; convert it afterwards")))
}
