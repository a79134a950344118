//! BMP: rows of grey, BGR or BGRA, or of places in a palette; not compressed.

use super::{Body, Decoded, check_channels, check_pixels};
use crate::{Error, Result, Size};
use feedline_io::Buf;

pub fn decode(bytes: &[u8], channels: usize) -> Result<Decoded<'_>> {
    let cut = || Error::data("the BMP is cut off").at_byte(bytes.len() as u64);
    let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).ok_or_else(cut);
    let short = |at: usize| bytes.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]])).ok_or_else(cut);
    let (data, header) = (word(10)? as usize, word(14)? as usize);
    let (width, signed_height) = (word(18)? as i32, word(22)? as i32);
    let (bits, compression) = (short(28)?, word(30)?);
    let height = signed_height.unsigned_abs() as usize;
    if header < 40 || width <= 0 || height == 0 {
        return Err(Error::data(format!("a BMP of {height} x {width} with a header of {header} bytes cannot be read")));
    }
    // 3 says where the bits of a color are; what writers use with it is the usual order.
    if !(compression == 0 || (compression == 3 && bits == 32)) || !matches!(bits, 8 | 24 | 32) {
        return Err(Error::data(format!(
            "a BMP of {bits} bits with compression {compression} cannot be read; 8, 24 and 32 without can"
        )));
    }
    let width = width as usize;
    check_pixels(height, width)?;
    let stored = usize::from(bits / 8);
    let colors = match word(46)? as usize {
        0 => 256,
        n => n.min(256),
    };
    let palette = if stored == 1 { bytes.get(14 + header..14 + header + colors * 4).ok_or_else(cut)? } else { &[] };
    let is_grey = palette.chunks_exact(4).enumerate().all(|(i, c)| c[..3].iter().all(|&x| usize::from(x) == i));
    let has = if stored == 1 && !is_grey { 3 } else { stored };
    check_channels("BMP", channels, has)?;
    let pitch = (width * stored).next_multiple_of(4);
    let rows = bytes.get(data..).and_then(|b| b.get(..pitch.checked_mul(height)?)).ok_or_else(cut)?;
    let size = Size::new(height, width, has);
    let mut pixels = Buf::new(size.items());
    let mut out = pixels.get_mut().expect("a new block has one holder").iter_mut();
    let mut put = |row: &mut dyn Iterator<Item = u8>| row.zip(&mut out).for_each(|(from, to)| *to = from);
    for y in 0..height {
        // A positive height counts rows from below.
        let row = if signed_height > 0 { height - 1 - y } else { y };
        let row = &rows[row * pitch..][..width * stored];
        match (stored, has) {
            (1, 1) => put(&mut row.iter().copied()),
            (1, _) => {
                for &place in row {
                    let color = palette.get(usize::from(place) * 4..).filter(|c| c.len() >= 3);
                    let color = color.ok_or_else(|| Error::data(format!("a BMP with a color {place} of {colors}")))?;
                    put(&mut [color[2], color[1], color[0]].into_iter());
                }
            }
            (3, _) => put(&mut row.chunks_exact(3).flat_map(|p| [p[2], p[1], p[0]])),
            _ => put(&mut row.chunks_exact(4).flat_map(|p| [p[2], p[1], p[0], p[3]])),
        }
    }
    Ok((1, size, Body::Pixels(pixels)))
}
