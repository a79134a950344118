//! JPEG. Two decoders stand behind one trait: libjpeg-turbo, the C library that TensorFlow, torchvision and DALI decode
//! with (feature `turbo`), and zune-jpeg, in Rust, where the C library cannot be built.

mod encode;
mod header;
#[cfg(feature = "turbo")]
mod turbo;
#[cfg(any(not(feature = "turbo"), test))]
mod zune;

pub use encode::{Encoding, encode};
pub use header::Header;

use crate::codec::check_pixels;
use crate::geometry::Rect;
use crate::{Error, Result, Size};

/// How a JPEG is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// 1, 3, or 0 for as many as it has; CMYK becomes 3.
    pub channels: usize,
    /// Each side becomes a 1st, 2nd, 4th or 8th of its length, rounded up.
    pub ratio: usize,
    /// Chroma is interpolated between its samples, not repeated.
    pub fancy_upscaling: bool,
    /// A file without an end is decoded as far as it goes.
    pub recover: bool,
    /// The exact inverse transform; else one that is off by a level or two, as TensorFlow's default is.
    pub accurate: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { channels: 0, ratio: 1, fancy_upscaling: true, recover: false, accurate: false }
    }
}

/// A picture that was looked at and can be decoded.
pub struct Job<'a> {
    pub bytes: &'a [u8],
    pub header: Header,
    pub options: Options,
    /// Of the result.
    pub size: Size,
}

impl<'a> Job<'a> {
    pub fn new(bytes: &'a [u8], options: Options) -> Result<Job<'a>> {
        let header = Header::read(bytes)?;
        let channels = match (options.channels, header.components) {
            (0, 4) => 3,
            (0, n) => n,
            (1, 4) => return Err(Error::data("a CMYK JPEG cannot be decoded to 1 channel; ask for 3")),
            (n @ (1 | 3), _) => n,
            (n, _) => return Err(Error::data(format!("a JPEG has 1 or 3 channels, not {n}"))),
        };
        if ![1, 2, 4, 8].contains(&options.ratio) {
            return Err(Error::data(format!("ratio must be 1, 2, 4 or 8, not {}", options.ratio)));
        }
        let (height, width) = (header.height.div_ceil(options.ratio), header.width.div_ceil(options.ratio));
        check_pixels(header.height, header.width)?;
        Ok(Job { bytes, header, options, size: Size { height, width, channels } })
    }
    fn check_end(&self) -> Result<()> {
        if !self.options.recover && !self.header.is_complete(self.bytes) {
            return Err(Error::data(
                "the JPEG is cut off: it has no end marker; try_recover_truncated=True decodes what is there",
            )
            .at_byte(self.bytes.len() as u64));
        }
        Ok(())
    }
    /// The pixels, into memory of exactly their size.
    pub fn decode(&self, out: &mut [u8]) -> Result<()> {
        self.check_end()?;
        with_decoder(|decoder| decoder.decode(self, out))
    }
    /// The pixels of a part of the picture, somewhere in `scratch`. They equal those of the whole picture.
    pub fn decode_window(&self, rect: Rect, scratch: &mut Vec<u8>) -> Result<Window> {
        self.check_end()?;
        if !rect.fits(self.size) {
            return Err(Error::data(format!(
                "a window of {} x {} at {}, {} does not lie in a picture of {} x {}",
                rect.height, rect.width, rect.y, rect.x, self.size.height, self.size.width
            )));
        }
        with_decoder(|decoder| decoder.decode_window(self, rect, scratch))
    }
}

/// Where in the scratch memory a window lies.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Its first item.
    pub offset: usize,
    /// Items from row to row.
    pub stride: usize,
}

/// What decodes: exchange it here.
trait Decoder: Default {
    fn decode(&mut self, job: &Job, out: &mut [u8]) -> Result<()>;

    fn decode_window(&mut self, job: &Job, rect: Rect, scratch: &mut Vec<u8>) -> Result<Window> {
        scratch.resize(job.size.items(), 0);
        self.decode(job, scratch)?;
        let stride = job.size.stride();
        Ok(Window { offset: rect.y * stride + rect.x * job.size.channels, stride })
    }
}

#[cfg(feature = "turbo")]
type Chosen = turbo::Turbo;
#[cfg(not(feature = "turbo"))]
type Chosen = zune::Zune;

/// The decoder in use, for people.
pub const DECODER: &str = if cfg!(feature = "turbo") { "libjpeg-turbo" } else { "zune-jpeg" };

fn with_decoder<R>(f: impl FnOnce(&mut Chosen) -> R) -> R {
    thread_local!(static DECODER: std::cell::RefCell<Chosen> = std::cell::RefCell::default());
    // It is not used again while it works: decoding calls nothing of ours.
    DECODER.with_borrow_mut(f)
}

/// CMYK to RGB, in place of the first three of four bytes; Adobe stores ink inverted.
fn cmyk_to_rgb(cmyk: &[u8], adobe: bool, out: &mut [u8]) {
    for (ink, rgb) in cmyk.chunks_exact(4).zip(out.chunks_exact_mut(3)) {
        let light = |ink: u8| u32::from(if adobe { ink } else { 255 - ink });
        rgb.iter_mut().zip(ink).for_each(|(out, &c)| *out = (light(c) * light(ink[3]) / 255) as u8);
    }
}
