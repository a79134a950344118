//! WebP: stills and animations, as frames of RGB or RGBA.

use super::{Body, Decoded, Frames, MOST_FRAME_BYTES, check_channels, check_pixels};
use crate::{Error, Result, Size};
use feedline_io::Buf;
use image_webp::WebPDecoder;
use std::io::Cursor;

pub fn decode(bytes: &[u8], channels: usize) -> Result<Decoded<'_>> {
    let bad = |e: image_webp::DecodingError| Error::data(format!("a broken WebP: {e}"));
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(bad)?;
    let (width, height) = decoder.dimensions();
    let size = Size::new(height as usize, width as usize, if decoder.has_alpha() { 4 } else { 3 });
    check_pixels(size.height, size.width)?;
    check_channels("WebP", channels, size.channels)?;
    let frames = if decoder.is_animated() { decoder.num_frames().max(1) as usize } else { 1 };
    let all = size.items().checked_mul(frames).filter(|n| *n <= MOST_FRAME_BYTES && *n > 0);
    let Some(all) = all else {
        return Err(Error::data(format!("a WebP of {frames} frames of {height} x {width} is empty or too large")));
    };
    decoder.set_memory_limit(MOST_FRAME_BYTES);
    // The decoder has the picture in its own colours beside this.
    let _charged = feedline_io::scratch(size.items()).given_back();
    if !decoder.is_animated() {
        let mut pixels = Buf::new(all);
        decoder.read_image(pixels.get_mut().expect("a new block has one holder")).map_err(bad)?;
        return Ok((1, size, Body::Pixels(pixels)));
    }
    // Frames are added as they come: a header that claims many costs nothing.
    let (mut out, mut frame) = (Frames::default(), vec![0; size.items()]);
    for _ in 0..frames {
        decoder.read_frame(&mut frame).map_err(bad)?;
        out.push(&frame);
    }
    Ok((frames, size, Body::Pixels(out.finish())))
}
