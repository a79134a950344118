//! JPEG. Two decoders stand behind one trait: libjpeg-turbo, the C library that TensorFlow, torchvision and DALI decode
//! with (feature `turbo`), and zune-jpeg, in Rust, where the C library cannot be built.

mod encode;
mod header;
#[cfg(feature = "turbo")]
mod turbo;
mod zune;

pub use encode::{Encoding, encode};
pub use header::Header;

use crate::codec::check_pixels;
use crate::geometry::Rect;
use crate::{Error, Result, Size};
use feedline_io::Buf;

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
        let _scratch = feedline_io::scratch(self.header.scratch_bytes()).given_back();
        with_decoder(|decoder| decoder.decode(self, out))
    }
    /// The pixels of a part of the picture, somewhere in a block. They equal those of the whole picture.
    pub fn decode_window(&self, rect: Rect) -> Result<Window> {
        self.check_end()?;
        if !rect.fits(self.size) {
            return Err(Error::data(format!(
                "a window of {} x {} at {}, {} does not lie in a picture of {} x {}",
                rect.height, rect.width, rect.y, rect.x, self.size.height, self.size.width
            )));
        }
        let _scratch = feedline_io::scratch(self.header.scratch_bytes()).given_back();
        with_decoder(|decoder| decoder.decode_window(self, rect))
    }
}

/// A part of a picture, and some of what stands around it.
pub struct Window {
    block: Buf,
    /// Its first item.
    offset: usize,
    /// Items from row to row.
    pub stride: usize,
}

impl Window {
    /// All items from its first one on.
    pub fn items(&self) -> &[u8] {
        &self.block.as_slice()[self.offset..]
    }
}

/// Memory that `fill` fills: from the pool, so that it is counted, and asked for before it is taken.
fn filled(bytes: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Buf> {
    let mut block = Buf::new(bytes);
    fill(block.get_mut().expect("a new block has one holder"))?;
    Ok(block)
}

/// What decodes: exchange it here.
trait Decoder: Default {
    fn decode(&mut self, job: &Job, out: &mut [u8]) -> Result<()>;

    fn decode_window(&mut self, job: &Job, rect: Rect) -> Result<Window> {
        let block = filled(job.size.items(), |out| self.decode(job, out))?;
        let stride = job.size.stride();
        Ok(Window { block, offset: rect.y * stride + rect.x * job.size.channels, stride })
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

/// Decodes a file that is whole by each decoder there is: they may differ by rounding. Where chroma is subsampled they fill
/// it in differently, so only the luma is compared.
pub(crate) fn compare_decoders(bytes: &[u8]) {
    let subsampled = Header::read(bytes).expect("a JPEG").subsampled;
    let options = Options { accurate: true, channels: usize::from(subsampled), ..Options::default() };
    let job = Job::new(bytes, options).expect("a JPEG");
    let [mut ours, mut theirs] = [(); 2].map(|()| vec![0; job.size.items()]);
    with_decoder(|decoder| decoder.decode(&job, &mut ours)).expect("pixels");
    zune::Zune::default().decode(&job, &mut theirs).expect("pixels");
    let worst = ours.iter().zip(&theirs).map(|(a, b)| a.abs_diff(*b)).max();
    assert!(worst <= Some(4), "{worst:?} levels, for {:?}", job.size);
}

/// CMYK to RGB, in place of the first three of four bytes; Adobe stores ink inverted.
fn cmyk_to_rgb(cmyk: &[u8], adobe: bool, out: &mut [u8]) {
    for (ink, rgb) in cmyk.chunks_exact(4).zip(out.chunks_exact_mut(3)) {
        let light = |ink: u8| u32::from(if adobe { ink } else { 255 - ink });
        rgb.iter_mut().zip(ink).for_each(|(out, &c)| *out = (light(c) * light(ink[3]) / 255) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn picture(size: Size, seed: usize) -> Vec<u8> {
        (0..size.items()).map(|i| ((i * (seed % 97 + 3) / 5) % 256) as u8).collect()
    }

    proptest! {
        #[test]
        fn decoders_agree((height, width, seed) in (1usize..50, 1usize..50, any::<usize>()), grey: bool, chroma: bool,
                          progressive: bool, quality in 30u8..=100) {
            let size = Size::new(height, width, if grey { 1 } else { 3 });
            let how = Encoding { quality, progressive, optimize: seed % 2 == 0, chroma_downsampling: chroma };
            compare_decoders(&encode(&picture(size, seed), size, how).unwrap());
        }

        #[test]
        fn a_window_is_a_part_of_the_whole(seed: usize, grey: bool, chroma: bool, progressive: bool) {
            let size = Size::new(90, 110, if grey { 1 } else { 3 });
            let how = Encoding { progressive, chroma_downsampling: chroma, ..Default::default() };
            let bytes = encode(&picture(size, seed), size, how).unwrap();
            let job = Job::new(&bytes, Options::default()).unwrap();
            let mut whole = vec![0; size.items()];
            job.decode(&mut whole).unwrap();
            let (y, x) = (seed % 89, seed / 89 % 109);
            let rect = Rect { y, x, height: 1 + seed / 7 % (90 - y), width: 1 + seed / 11 % (110 - x) };
            let window = job.decode_window(rect).unwrap();
            for row in 0..rect.height {
                let items = rect.width * size.channels;
                let part = &window.items()[row * window.stride..][..items];
                let wanted = &whole[(y + row) * size.stride() + x * size.channels..][..items];
                prop_assert_eq!(part, wanted);
            }
        }
    }

    #[test]
    fn ratios_halve_sides() {
        let size = Size::new(33, 20, 3);
        let bytes = encode(&vec![120; size.items()], size, Encoding::default()).unwrap();
        for (ratio, height, width) in [(1, 33, 20), (2, 17, 10), (4, 9, 5), (8, 5, 3)] {
            let job = Job::new(&bytes, Options { ratio, ..Options::default() }).unwrap();
            assert_eq!(job.size, Size::new(height, width, 3));
            let mut out = vec![0; job.size.items()];
            job.decode(&mut out).unwrap();
            assert!(out.iter().all(|x| x.abs_diff(120) < 3), "{ratio}");
            assert!(job.decode_window(Rect { y: 1, x: 1, height: 3, width: 2 }).is_ok());
        }
        assert!(Job::new(&bytes, Options { ratio: 3, ..Options::default() }).is_err());
    }

    #[test]
    fn what_is_too_large_is_refused_before_memory_is_taken() {
        let size = Size::new(8, 8, 1);
        let mut bytes = encode(&[1; 64], size, Encoding::default()).unwrap();
        let frame = bytes.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
        bytes[frame + 5..frame + 9].fill(0xff);
        let error = Job::new(&bytes, Options::default()).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("larger than"), "{error}");
    }
}
