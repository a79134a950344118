//! zune-jpeg: JPEG in Rust, where libjpeg-turbo cannot be built. It decodes whole pictures only, and chroma of
//! subsampled files differs by some levels.

use super::{Decoder, Job, cmyk_to_rgb};
use crate::{Error, Result};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

#[derive(Default)]
pub struct Zune {
    whole: Vec<u8>,
}

impl Decoder for Zune {
    fn decode(&mut self, job: &Job, out: &mut [u8]) -> Result<()> {
        let (header, cmyk) = (&job.header, job.header.components == 4);
        let space = match (cmyk, job.size.channels) {
            (true, _) => ColorSpace::CMYK,
            (false, 1) => ColorSpace::Luma,
            (false, _) => ColorSpace::RGB,
        };
        let options = DecoderOptions::default()
            .set_max_height(header.height)
            .set_max_width(header.width)
            .jpeg_set_max_scans(500)
            .jpeg_set_out_colorspace(space);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(job.bytes), options);
        let bad = |e| Error::data(format!("a broken JPEG: {e}"));
        decoder.decode_headers().map_err(bad)?;
        let direct = !cmyk && job.options.ratio == 1;
        let channels = if cmyk { 4 } else { job.size.channels };
        if decoder.output_buffer_size() != Some(header.height * header.width * channels) {
            return Err(Error::data("a broken JPEG: its headers disagree"));
        }
        if direct {
            return decoder.decode_into(out).map_err(bad);
        }
        self.whole.resize(header.height * header.width * channels, 0);
        decoder.decode_into(&mut self.whole).map_err(bad)?;
        if cmyk {
            let mut rgb = vec![0; header.height * header.width * 3];
            cmyk_to_rgb(&self.whole, header.adobe, &mut rgb);
            self.whole = rgb;
        }
        average(&self.whole, (header.height, header.width), job.size.channels, job.options.ratio, out);
        Ok(())
    }
}

/// The mean of squares of `ratio` pixels, in place of a decoder that scales.
fn average(whole: &[u8], (height, width): (usize, usize), channels: usize, ratio: usize, out: &mut [u8]) {
    let mut out = out.iter_mut();
    for y in (0..height).step_by(ratio) {
        for x in (0..width).step_by(ratio) {
            let (rows, columns) = (y..height.min(y + ratio), x..width.min(x + ratio));
            let count = rows.len() * columns.len();
            for c in 0..channels {
                let at = |y: usize, x: usize| usize::from(whole[(y * width + x) * channels + c]);
                let sum: usize = rows.clone().map(|y| columns.clone().map(|x| at(y, x)).sum::<usize>()).sum();
                if let Some(item) = out.next() {
                    *item = ((sum + count / 2) / count) as u8;
                }
            }
        }
    }
}
