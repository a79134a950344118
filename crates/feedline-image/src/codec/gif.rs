//! GIF: frames, each drawn over what the one before left.

use super::{Body, Decoded, Frames, MOST_FRAME_BYTES, check_pixels};
use crate::{Error, Result, Size};
use gif::{ColorOutput, DecodeOptions, DisposalMethod, MemoryLimit};

pub fn decode(bytes: &[u8], channels: usize) -> Result<Decoded<'_>> {
    let bad = |e: gif::DecodingError| Error::data(format!("a broken GIF: {e}"));
    if !matches!(channels, 0 | 3) {
        return Err(Error::data(format!("a GIF has 3 channels, and {channels} were asked for; convert it afterwards")));
    }
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::RGBA);
    options.set_memory_limit(MemoryLimit::Bytes((MOST_FRAME_BYTES as u64).try_into().expect("not zero")));
    let mut decoder = options.read_info(bytes).map_err(bad)?;
    let size = Size::new(decoder.height().into(), decoder.width().into(), 3);
    check_pixels(size.height, size.width)?;
    if size.items() == 0 {
        return Err(Error::data("a GIF without pixels"));
    }
    let (mut canvas, mut frames) = (vec![0; size.items()], Frames::default());
    while let Some(frame) = decoder.read_next_frame().map_err(bad)? {
        if frames.len() + canvas.len() > MOST_FRAME_BYTES {
            return Err(Error::data(format!("a GIF whose frames take more than {MOST_FRAME_BYTES} bytes")));
        }
        let before = (frame.dispose == DisposalMethod::Previous).then(|| canvas.clone());
        let (top, left) = (usize::from(frame.top), usize::from(frame.left));
        let (rows, columns) = (usize::from(frame.height), usize::from(frame.width));
        let visible = columns.min(size.width.saturating_sub(left));
        let area = |y: usize| {
            let at = ((top + y) * size.width + left) * 3;
            (top + y < size.height && visible > 0).then_some(at..at + visible * 3)
        };
        for (y, row) in frame.buffer.chunks_exact(columns.max(1) * 4).enumerate() {
            let Some(area) = area(y) else { continue };
            for (pixel, out) in row.chunks_exact(4).zip(canvas[area].chunks_exact_mut(3)) {
                if pixel[3] != 0 {
                    out.copy_from_slice(&pixel[..3]);
                }
            }
        }
        frames.push(&canvas);
        match (frame.dispose, before) {
            (DisposalMethod::Background, _) => (0..rows).filter_map(area).for_each(|area| canvas[area].fill(0)),
            (_, Some(before)) => canvas = before,
            _ => {}
        }
    }
    match frames.len() / size.items() {
        0 => Err(Error::data("a GIF without a frame")),
        n => Ok((n, size, Body::Pixels(frames.finish()))),
    }
}
