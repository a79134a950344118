//! PNG: 1 to 16 bits, grey or color, with alpha or a palette, as 8 or 16 bits of 1 to 4 channels.

use super::check_pixels;
use crate::{Error, Result, Size};
use feedline_io::Buf;
use png::{BitDepth, ColorType, Decoder, Limits, Reader, Transformations};
use std::io::Cursor;

/// A PNG whose header was read.
pub struct Opened<'a> {
    /// Of the result.
    pub size: Size,
    reader: Reader<Cursor<&'a [u8]>>,
    /// Channels and bytes a sample, as they come out of the reader.
    stored: (usize, usize),
}

fn bad(e: png::DecodingError) -> Error {
    Error::data(format!("a broken PNG: {e}"))
}

impl<'a> Opened<'a> {
    pub fn new(bytes: &'a [u8], channels: usize) -> Result<Opened<'a>> {
        if channels > 4 {
            return Err(Error::data(format!("a PNG has 1 to 4 channels, not {channels}")));
        }
        let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: super::MOST_FRAME_BYTES });
        // Palettes become colors, few bits 8 of them; the color that is marked as transparent stays a color.
        decoder.set_transformations(Transformations::EXPAND);
        let info = decoder.read_header_info().map_err(bad)?;
        let (height, width) = (info.height as usize, info.width as usize);
        check_pixels(height, width)?;
        let reader = decoder.read_info().map_err(bad)?;
        let (color, depth) = reader.output_color_type();
        let stored = match color {
            ColorType::Grayscale => 1,
            ColorType::GrayscaleAlpha => 2,
            ColorType::Rgb | ColorType::Indexed => 3,
            ColorType::Rgba => 4,
        };
        let sample = if depth == BitDepth::Sixteen { 2 } else { 1 };
        let channels = if channels == 0 { stored } else { channels };
        Ok(Opened { size: Size::new(height, width, channels), reader, stored: (stored, sample) })
    }
    fn pixels(&mut self, out: &mut [u8]) -> Result<()> {
        self.reader.next_frame(out).map_err(bad)?;
        // What follows may be broken too.
        self.reader.finish().map_err(bad)
    }
    /// The pixels as they are stored.
    fn raw(&mut self) -> Result<Buf> {
        let (stored, sample) = self.stored;
        let mut raw = Buf::new(self.size.height * self.size.width * stored * sample);
        self.pixels(raw.get_mut().expect("a new block has one holder"))?;
        Ok(raw)
    }
    /// As 8 bits: of 16, the high ones.
    pub fn read(mut self, out: &mut [u8]) -> Result<()> {
        let (stored, sample) = self.stored;
        if (stored, sample) == (self.size.channels, 1) {
            return self.pixels(out);
        }
        let channels = self.size.channels;
        let raw = self.raw()?;
        let pixels = raw.as_slice().chunks_exact(stored * sample).zip(out.chunks_exact_mut(channels));
        pixels
            .for_each(|(from, to)| convert(|c| from[c * sample].into(), stored, 255, |c, x| to[c] = x as u8, channels));
        Ok(())
    }
    /// As 16 bits: of 8, both bytes the same.
    pub fn read_wide(mut self, out: &mut [u16]) -> Result<()> {
        let (stored, sample) = self.stored;
        let channels = self.size.channels;
        let raw = self.raw()?;
        let pixels = raw.as_slice().chunks_exact(stored * sample).zip(out.chunks_exact_mut(channels));
        pixels.for_each(|(from, to)| {
            let at = |c: usize| match sample {
                2 => u16::from_be_bytes([from[c * 2], from[c * 2 + 1]]).into(),
                _ => u32::from(from[c]) * 257,
            };
            convert(at, stored, 65535, |c, x| to[c] = x as u16, channels);
        });
        Ok(())
    }
}

/// A pixel of `from` channels as one of `to`: alpha dropped or opaque, grey repeated, color weighed as TensorFlow asks libpng to.
fn convert(at: impl Fn(usize) -> u32, from: usize, opaque: u32, mut put: impl FnMut(usize, u32), to: usize) {
    let (colors, has_alpha) = if from > 2 { (3, from == 4) } else { (1, from == 2) };
    let (wanted, wants_alpha) = if to > 2 { (3, to == 4) } else { (1, to == 2) };
    match (colors, wanted) {
        (3, 1) => put(0, (9798 * at(0) + 19235 * at(1) + 3735 * at(2)) >> 15),
        (1, 3) => (0..3).for_each(|c| put(c, at(0))),
        _ => (0..wanted).for_each(|c| put(c, at(c))),
    }
    if wants_alpha {
        put(wanted, if has_alpha { at(colors) } else { opaque });
    }
}

/// 1 to 4 channels of 8 or 16 bits (big-endian bytes) as a PNG; compression from 0 (none) to 9, -1 is the usual.
pub fn encode(pixels: &[u8], size: Size, sixteen: bool, compression: i64) -> Result<Vec<u8>> {
    let bad = |e: png::EncodingError| Error::data(format!("the picture could not be written as a PNG: {e}"));
    let color = match size.channels {
        1 => ColorType::Grayscale,
        2 => ColorType::GrayscaleAlpha,
        3 => ColorType::Rgb,
        4 => ColorType::Rgba,
        n => return Err(Error::data(format!("a PNG has 1 to 4 channels, not {n}"))),
    };
    let (Ok(width), Ok(height)) = (u32::try_from(size.width), u32::try_from(size.height)) else {
        return Err(Error::data("a picture that is too large for a PNG"));
    };
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(color);
    encoder.set_depth(if sixteen { BitDepth::Sixteen } else { BitDepth::Eight });
    encoder.set_compression(match compression {
        0 => png::Compression::NoCompression,
        1..=3 => png::Compression::Fast,
        7..=9 => png::Compression::High,
        _ => png::Compression::Balanced,
    });
    let mut writer = encoder.write_header().map_err(bad)?;
    writer.write_image_data(pixels).map_err(bad)?;
    writer.finish().map_err(bad)?;
    Ok(out)
}
