//! Blur, and rectangles wiped out.

use crate::Size;
use crate::geometry::Rect;
use feedline_io::wide;

/// The weights of a Gaussian curve around its middle, which sum up to 1: torchvision's.
pub fn gaussian(taps: usize, sigma: f64) -> Vec<f32> {
    let middle = (taps as f64 - 1.0) / 2.0;
    let curve: Vec<f64> = (0..taps).map(|i| (-0.5 * ((i as f64 - middle) / sigma).powi(2)).exp()).collect();
    let sum: f64 = curve.iter().sum();
    curve.into_iter().map(|x| (x / sum) as f32).collect()
}

/// A place beyond the edge, mirrored back without the outermost pixel.
fn mirrored(at: isize, n: usize) -> usize {
    let last = n as isize - 1;
    let at = at.abs();
    (if at > last { 2 * last - at } else { at }) as usize
}

/// A type of items that can be blurred.
pub trait Blurred: Copy {
    fn value(self) -> f32;
    /// The nearest item; `value` is a mean of others.
    fn near(value: f32) -> Self;
}
impl Blurred for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }
    #[inline(always)]
    fn near(value: f32) -> f32 {
        value
    }
}
impl Blurred for u8 {
    #[inline(always)]
    fn value(self) -> f32 {
        f32::from(self)
    }
    #[inline(always)]
    fn near(value: f32) -> u8 {
        // A float of this size has no bits left for a fraction: adding it rounds, to even, and the lowest bits are the
        // whole number.
        const WHOLE: f32 = 8_388_608.0;
        (value + WHOLE).to_bits() as u8
    }
}

/// Blurs pictures with one curve along the rows and one along the columns. Half of a curve must be shorter than the
/// side along which it lies.
pub struct Blur {
    columns: Vec<f32>,
    rows: Vec<f32>,
    /// A row of the picture after the first pass, with its mirrored ends.
    line: Vec<f32>,
    /// Where the rows begin that are part of a row of the result.
    taps: Vec<usize>,
}

/// So many values are computed at a time: their sums stay in registers.
const SPAN: usize = 32;

impl Blur {
    /// Curves of odd length: for neighbours above and below, and for those at the sides.
    pub fn new(columns: Vec<f32>, rows: Vec<f32>) -> Blur {
        Blur { columns, rows, line: Vec::new(), taps: Vec::new() }
    }
    pub fn apply<T: Blurred>(&mut self, from: &[T], size: Size, to: &mut [T]) {
        let (above, side) = (self.columns.len() / 2, self.rows.len() / 2);
        if size.items() == 0 {
            return;
        }
        assert!(above < size.height && side < size.width, "a curve longer than the picture");
        let (stride, n) = (size.stride(), size.channels);
        self.line.clear();
        self.line.resize(stride + 2 * side * n, 0.0);
        for (y, to) in to.chunks_exact_mut(stride).enumerate() {
            self.taps.clear();
            let row = |k: usize| mirrored((y + k) as isize - above as isize, size.height) * stride;
            self.taps.extend((0..self.columns.len()).map(row));
            let Blur { columns, rows, line, taps } = self;
            wide(|| weigh(columns, |k| &from[taps[k]..], &mut line[side * n..side * n + stride], |sum| sum));
            for k in 0..side {
                let (left, right) = (2 * side - k, side + size.width - 2 - k);
                line.copy_within(left * n..(left + 1) * n, k * n);
                line.copy_within(right * n..(right + 1) * n, (side + size.width + k) * n);
            }
            wide(|| weigh(rows, |k| &line[k * n..], to, T::near));
        }
    }
}

/// For each place the sum of what the sources have there, each source with its weight.
#[inline(always)]
fn weigh<'a, T: Blurred + 'a, U>(
    weights: &[f32],
    source: impl Fn(usize) -> &'a [T],
    to: &mut [U],
    store: impl Fn(f32) -> U,
) {
    let (blocks, rest) = to.as_chunks_mut::<SPAN>();
    let done = blocks.len() * SPAN;
    for (i, block) in blocks.iter_mut().enumerate() {
        let mut sums = [0f32; SPAN];
        for (k, weight) in weights.iter().enumerate() {
            let part: &[T; SPAN] = source(k)[i * SPAN..].first_chunk().expect("sources are as long as the result");
            (0..SPAN).for_each(|j| sums[j] += weight * part[j].value());
        }
        (0..SPAN).for_each(|j| block[j] = store(sums[j]));
    }
    for (i, to) in rest.iter_mut().enumerate() {
        let sum = weights.iter().enumerate().fold(0f32, |sum, (k, weight)| sum + weight * source(k)[done + i].value());
        *to = store(sum);
    }
}

/// Overwrites a rectangle with a pixel. It must fit.
pub fn erase(picture: &mut [u8], size: Size, rect: Rect, pixel: &[u8]) {
    if rect.width * pixel.len() == 0 {
        return;
    }
    for row in picture.chunks_exact_mut(size.stride()).skip(rect.y).take(rect.height) {
        let part = &mut row[rect.x * size.channels..(rect.x + rect.width) * size.channels];
        part.chunks_exact_mut(pixel.len()).for_each(|to| to.copy_from_slice(pixel));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Both passes at once, pixel by pixel, in double precision.
        #[test]
        fn blur_is_a_weighted_mean(
            (h, w, c) in (3..12usize, 3..30usize, 1..5usize), reach in (0..3usize, 0..3usize), sigma in 0.2f64..3.0, seed: u64
        ) {
            let size = Size::new(h, w, c);
            let from: Vec<f32> = (0..size.items()).map(|i| (seed.wrapping_mul(i as u64 * 2 + 1) >> 48) as f32).collect();
            let (columns, rows) = (gaussian(2 * reach.0 + 1, sigma), gaussian(2 * reach.1 + 1, sigma * 1.5));
            let mut to = vec![0f32; from.len()];
            Blur::new(columns.clone(), rows.clone()).apply(&from, size, &mut to);
            for (i, got) in to.iter().enumerate() {
                let (y, x, k) = (i / c / w, i / c % w, i % c);
                let mut want = 0f64;
                for (dy, a) in columns.iter().enumerate() {
                    for (dx, b) in rows.iter().enumerate() {
                        let y = mirrored((y + dy) as isize - reach.0 as isize, h);
                        let x = mirrored((x + dx) as isize - reach.1 as isize, w);
                        want += f64::from(*a) * f64::from(*b) * f64::from(from[(y * w + x) * c + k]);
                    }
                }
                prop_assert!((f64::from(*got) - want).abs() < 0.1, "{} {}", got, want);
            }
        }
    }

    #[test]
    fn bytes_are_rounded_to_even() {
        for (value, want) in [(0.0, 0), (0.49, 0), (0.5, 0), (1.5, 2), (2.5, 2), (254.51, 255), (255.0, 255)] {
            assert_eq!(u8::near(value), want, "{value}");
        }
    }

    #[test]
    fn curves_sum_up_to_one() {
        for (taps, sigma) in [(1, 0.5), (3, 0.1), (5, 2.0), (23, 7.0)] {
            let curve = gaussian(taps, sigma);
            assert!((curve.iter().sum::<f32>() - 1.0).abs() < 1e-6);
            assert!((0..taps).all(|i| curve[i] == curve[taps - 1 - i]));
        }
    }

    #[test]
    fn only_the_rectangle_is_erased() {
        let mut picture = vec![1u8; 4 * 5 * 2];
        erase(&mut picture, Size::new(4, 5, 2), Rect::new(1, 2, 2, 3), &[8, 9]);
        let pixels = picture.as_chunks::<2>().0;
        for (i, pixel) in pixels.iter().enumerate() {
            let inside = (1..3).contains(&(i / 5)) && i % 5 >= 2;
            assert_eq!(*pixel, if inside { [8, 9] } else { [1, 1] });
        }
    }
}
