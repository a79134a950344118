//! The operations of AutoAugment, RandAugment and TrivialAugment on pictures of bytes, with the pixels of Pillow: one
//! entry for all of them, so that which one it is can be drawn for each picture.

use crate::{Error, Result, Size};

/// What is done to a picture. The magnitude is that of torchvision's policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Identity,
    /// Columns by which each row is moved against the row above it.
    ShearX,
    /// Rows by which each column is moved against the column to its left.
    ShearY,
    /// Whole columns to the right.
    TranslateX,
    /// Whole rows down.
    TranslateY,
    /// Degrees, against the clock.
    Rotate,
    /// What is added to a factor of 1; so are the next three.
    Brightness,
    Color,
    Contrast,
    Sharpness,
    /// Bits that are kept.
    Posterize,
    /// The value from which on a pixel is inverted.
    Solarize,
    AutoContrast,
    Equalize,
    Invert,
}

impl Op {
    /// All of them: a number of an operation is its place here.
    pub const ALL: [Op; 15] = [
        Op::Identity,
        Op::ShearX,
        Op::ShearY,
        Op::TranslateX,
        Op::TranslateY,
        Op::Rotate,
        Op::Brightness,
        Op::Color,
        Op::Contrast,
        Op::Sharpness,
        Op::Posterize,
        Op::Solarize,
        Op::AutoContrast,
        Op::Equalize,
        Op::Invert,
    ];

    pub fn number(n: i64) -> Result<Op> {
        let found = usize::try_from(n).ok().and_then(|n| Op::ALL.get(n));
        found.copied().ok_or_else(|| {
            Error::data(format!("there is no operation {n}; they are numbered from 0 to {}", Op::ALL.len() - 1))
        })
    }

    /// Writes the changed picture to `to`. What was outside has the values of `outside`, one a channel.
    pub fn apply(self, magnitude: f64, from: &[u8], size: Size, outside: &[u8], to: &mut [u8]) -> Result<()> {
        if !matches!(size.channels, 1 | 3) {
            return Err(Error::data(format!("expects pictures of 1 or 3 channels, not {}", size.channels)));
        }
        if from.len() != size.items() || to.len() != size.items() || outside.len() != size.channels {
            return Err(Error::internal(format!("{} and {} items for a picture of {size:?}", from.len(), to.len())));
        }
        if !magnitude.is_finite() {
            return Err(Error::data(format!("the magnitude must be a finite number, not {magnitude}")));
        }
        let factor = (1.0 + magnitude) as f32;
        let (width, height) = (size.width as f64, size.height as f64);
        let warp = |matrix: [f64; 6], to: &mut [u8]| warp(from, size, matrix, outside, to);
        match self {
            Op::Identity => to.copy_from_slice(from),
            Op::ShearX => warp([1.0, magnitude, 0.0, 0.0, 1.0, 0.0], to),
            Op::ShearY => warp([1.0, 0.0, 0.0, magnitude, 1.0, 0.0], to),
            Op::TranslateX => warp([1.0, 0.0, -magnitude.trunc(), 0.0, 1.0, 0.0], to),
            Op::TranslateY => warp([1.0, 0.0, 0.0, 0.0, 1.0, -magnitude.trunc()], to),
            Op::Rotate => {
                let (sin, cos) = magnitude.to_radians().sin_cos();
                // A quarter turn is one to the last digit, as Pillow's.
                let [sin, cos] = [sin, cos].map(|x| (x * 1e15).round() / 1e15);
                let (x, y) = (width / 2.0, height / 2.0);
                warp([cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y], to);
            }
            Op::Brightness => tones(from, size, to, |_| std::array::from_fn(|v| blend(0, v as u8, factor))),
            Op::Contrast => {
                let mean = mean_luma(from, size);
                tones(from, size, to, |_| std::array::from_fn(|v| blend(mean, v as u8, factor)));
            }
            Op::Color if size.channels == 1 => to.copy_from_slice(from),
            Op::Color => {
                for (pixel, to) in from.as_chunks::<3>().0.iter().zip(to.as_chunks_mut::<3>().0) {
                    let grey = luma(*pixel);
                    *to = pixel.map(|v| blend(grey, v, factor));
                }
            }
            Op::Sharpness => sharpen(from, size, factor, to),
            Op::Posterize => {
                let bits = magnitude.trunc().clamp(0.0, 8.0) as u32;
                let mask = !(0xffu16 >> bits) as u8;
                tones(from, size, to, |_| std::array::from_fn(|v| v as u8 & mask));
            }
            Op::Solarize => {
                let table = std::array::from_fn(|v| if (v as f64) < magnitude { v as u8 } else { 255 - v as u8 });
                tones(from, size, to, |_| table);
            }
            Op::AutoContrast => tones(from, size, to, |channel| stretched(&histogram(from, size, channel))),
            Op::Equalize => tones(from, size, to, |channel| equalized(&histogram(from, size, channel))),
            Op::Invert => from.iter().zip(to).for_each(|(v, to)| *to = 255 - v),
        }
        Ok(())
    }
}

/// Each value by a table of its channel.
fn tones(from: &[u8], size: Size, to: &mut [u8], table: impl Fn(usize) -> [u8; 256]) {
    if size.channels == 3 {
        let [r, g, b] = std::array::from_fn(table);
        for (v, to) in from.as_chunks::<3>().0.iter().zip(to.as_chunks_mut::<3>().0) {
            *to = [r[usize::from(v[0])], g[usize::from(v[1])], b[usize::from(v[2])]];
        }
    } else {
        let table = table(0);
        from.iter().zip(to).for_each(|(v, to)| *to = table[usize::from(*v)]);
    }
}

/// From one value (factor 0) through the other (factor 1) and beyond, cut off at the ends.
fn blend(from: u8, to: u8, factor: f32) -> u8 {
    let (from, to) = (f32::from(from), f32::from(to));
    (from + factor * (to - from)) as u8
}

/// Brightness as the eye has it (ITU-R 601), in Pillow's whole numbers.
fn luma([r, g, b]: [u8; 3]) -> u8 {
    ((u32::from(r) * 19595 + u32::from(g) * 38470 + u32::from(b) * 7471 + 0x8000) >> 16) as u8
}

fn mean_luma(from: &[u8], size: Size) -> u8 {
    let (sum, n) = match size.channels {
        1 => (from.iter().map(|v| u64::from(*v)).sum::<u64>(), from.len()),
        _ => {
            let pixels = from.as_chunks::<3>().0;
            (pixels.iter().map(|p| u64::from(luma(*p))).sum(), pixels.len())
        }
    };
    (sum as f64 / n.max(1) as f64 + 0.5) as u8
}

fn histogram(from: &[u8], size: Size, channel: usize) -> [u64; 256] {
    let mut counts = [0; 256];
    from.iter().skip(channel).step_by(size.channels).for_each(|v| counts[usize::from(*v)] += 1);
    counts
}

/// The darkest value becomes 0, the brightest 255.
fn stretched(counts: &[u64; 256]) -> [u8; 256] {
    let plain = std::array::from_fn(|v| v as u8);
    let (Some(low), Some(high)) = (counts.iter().position(|n| *n > 0), counts.iter().rposition(|n| *n > 0)) else {
        return plain;
    };
    if high <= low {
        return plain;
    }
    let scale = 255.0 / (high - low) as f64;
    let offset = -(low as f64) * scale;
    std::array::from_fn(|v| (v as f64 * scale + offset) as u8)
}

/// All values become about equally frequent.
fn equalized(counts: &[u64; 256]) -> [u8; 256] {
    let total: u64 = counts.iter().sum();
    let last = counts.iter().rev().find(|n| **n > 0).copied().unwrap_or(0);
    let step = (total - last) / 255;
    if step == 0 {
        return std::array::from_fn(|v| v as u8);
    }
    let mut below = step / 2;
    std::array::from_fn(|v| {
        let value = (below / step).min(255) as u8;
        below += counts[v];
        value
    })
}

/// Away from (or towards) the picture in which each pixel is mixed with its neighbours; those at the rim stay.
fn sharpen(from: &[u8], size: Size, factor: f32, to: &mut [u8]) {
    let (stride, channels) = (size.stride(), size.channels);
    to.copy_from_slice(from);
    if size.height < 3 || size.width < 3 {
        return;
    }
    let rows = (1..size.height - 1).zip(to.chunks_exact_mut(stride).skip(1));
    for (y, to) in rows {
        let [above, row, below] = [y - 1, y, y + 1].map(|y| &from[y * stride..][..stride]);
        for x in channels..stride - channels {
            let sum3 = |row: &[u8]| u32::from(row[x - channels]) + u32::from(row[x]) + u32::from(row[x + channels]);
            let sum = sum3(above) + sum3(row) + sum3(below) + 4 * u32::from(row[x]);
            to[x] = blend(((2 * sum + 13) / 26) as u8, row[x], factor);
        }
    }
}

/// Takes for each pixel the one that a matrix leads to, in steps of 1/65536 as Pillow does. The matrix is that of x and
/// y, which are counted from the corner of the first pixel.
fn warp(from: &[u8], size: Size, matrix: [f64; 6], outside: &[u8], to: &mut [u8]) {
    if size.items() == 0 {
        return;
    }
    let [a, b, c, d, e, f] = matrix;
    let fixed = |x: f64| (x * 65536.0 + 0.5).floor() as i64;
    let (a, b, c) = (fixed(a), fixed(b), fixed(c + a * 0.5 + b * 0.5));
    let (d, e, f) = (fixed(d), fixed(e), fixed(f + d * 0.5 + e * 0.5));
    let (width, height, channels) = (size.width as i64, size.height as i64, size.channels);
    for (y, row) in (0..).zip(to.chunks_exact_mut(size.stride())) {
        // Wild magnitudes may run over: wherever that leads to, it is outside or a pixel.
        let mut at_x = c.wrapping_add(b.wrapping_mul(y));
        let mut at_y = f.wrapping_add(e.wrapping_mul(y));
        for pixel in row.chunks_exact_mut(channels) {
            let (x, y) = (at_x >> 16, at_y >> 16);
            if (0..width).contains(&x) && (0..height).contains(&y) {
                pixel.copy_from_slice(&from[(y * width + x) as usize * channels..][..channels]);
            } else {
                pixel.copy_from_slice(outside);
            }
            at_x = at_x.wrapping_add(a);
            at_y = at_y.wrapping_add(d);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(op: Op, magnitude: f64, width: usize, from: &[u8]) -> Vec<u8> {
        let mut to = vec![1; from.len()];
        op.apply(magnitude, from, Size::new(from.len() / width, width, 1), &[9], &mut to).unwrap();
        to
    }

    #[test]
    fn pixels_that_move() {
        let from = [1, 2, 3, 4, 5, 6, 7, 8, 10];
        assert_eq!(grey(Op::TranslateX, 1.9, 3, &from), [9, 1, 2, 9, 4, 5, 9, 7, 8]);
        assert_eq!(grey(Op::TranslateY, -1.0, 3, &from), [4, 5, 6, 7, 8, 10, 9, 9, 9]);
        assert_eq!(grey(Op::Rotate, 90.0, 3, &from), [3, 6, 10, 2, 5, 8, 1, 4, 7]);
        assert_eq!(grey(Op::Rotate, 180.0, 3, &from), [10, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(grey(Op::ShearX, 1.0, 3, &from), [2, 3, 9, 6, 9, 9, 9, 9, 9]);
        assert_eq!(grey(Op::ShearY, 1.0, 3, &from), [4, 8, 9, 7, 9, 9, 9, 9, 9]);
    }

    #[test]
    fn values_that_change() {
        let from = [0, 50, 100, 200];
        assert_eq!(grey(Op::Identity, 5.0, 2, &from), from);
        assert_eq!(grey(Op::Brightness, 0.5, 2, &from), [0, 75, 150, 255]);
        assert_eq!(grey(Op::Contrast, -1.0, 2, &from), [88; 4]);
        assert_eq!(grey(Op::Posterize, 2.0, 2, &from), [0, 0, 64, 192]);
        assert_eq!(grey(Op::Posterize, 0.0, 2, &from), [0; 4]);
        assert_eq!(grey(Op::Posterize, 8.0, 2, &from), from);
        assert_eq!(grey(Op::Solarize, 100.0, 2, &from), [0, 50, 155, 55]);
        assert_eq!(grey(Op::AutoContrast, 0.0, 2, &[10, 20, 30, 60]), [0, 51, 102, 255]);
        assert_eq!(grey(Op::AutoContrast, 0.0, 2, &[7; 4]), [7; 4]);
        assert_eq!(grey(Op::Invert, 0.0, 2, &from), [255, 205, 155, 55]);
        assert_eq!(grey(Op::Sharpness, -1.0, 3, &[0, 0, 0, 0, 26, 0, 0, 0, 0]), [0, 0, 0, 0, 10, 0, 0, 0, 0]);
    }

    #[test]
    fn colour_goes_to_grey() {
        let mut to = [0; 3];
        Op::Color.apply(-1.0, &[255, 0, 0], Size::new(1, 1, 3), &[0; 3], &mut to).unwrap();
        assert_eq!(to, [76; 3]);
    }

    #[test]
    fn wild_input() {
        for op in Op::ALL {
            for magnitude in [1e300, -1e300, 1e17, -7.0, 0.0] {
                grey(op, magnitude, 2, &[1, 2, 3, 4]);
                grey(op, magnitude, 1, &[]);
            }
            let size = Size::new(1, 1, 1);
            assert!(op.apply(f64::NAN, &[1], size, &[0], &mut [0]).is_err());
            assert!(op.apply(0.0, &[1; 2], Size::new(1, 1, 2), &[0; 2], &mut [0; 2]).is_err());
        }
        assert!(Op::number(15).is_err() && Op::number(-1).is_err());
        assert_eq!(Op::number(14).unwrap(), Op::Invert);
    }
}
