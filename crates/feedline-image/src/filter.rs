//! Blur, and rectangles wiped out.

use crate::Size;
use crate::geometry::Rect;

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

/// Blurs pictures with one curve along the rows and one along the columns. Half of a curve must be shorter than the
/// side along which it lies.
pub struct Blur {
    columns: Vec<f32>,
    rows: Vec<f32>,
    /// A row of the picture after the first pass, with its mirrored ends.
    line: Vec<f32>,
}

impl Blur {
    /// Curves of odd length: for neighbours above and below, and for those at the sides.
    pub fn new(columns: Vec<f32>, rows: Vec<f32>) -> Blur {
        Blur { columns, rows, line: Vec::new() }
    }
    /// The pixels that it looks at beyond each, along the height and along the width.
    pub fn reach(&self) -> (usize, usize) {
        (self.columns.len() / 2, self.rows.len() / 2)
    }
    /// Blurs a picture. `load` and `store` are the way from items to values and back.
    pub fn apply<T: Copy>(
        &mut self,
        from: &[T],
        size: Size,
        to: &mut [T],
        load: impl Fn(T) -> f32,
        store: impl Fn(f32) -> T,
    ) {
        let ((above, side), stride, n) = (self.reach(), size.stride(), size.channels);
        if size.items() == 0 {
            return;
        }
        assert!(above < size.height && side < size.width, "a curve longer than the picture");
        self.line.clear();
        self.line.resize(stride + 2 * side * n, 0.0);
        for (y, to) in to.chunks_exact_mut(stride).enumerate() {
            let line = &mut self.line[side * n..side * n + stride];
            line.fill(0.0);
            for (k, weight) in self.columns.iter().enumerate() {
                let row = mirrored((y + k) as isize - above as isize, size.height);
                let row = &from[row * stride..(row + 1) * stride];
                line.iter_mut().zip(row).for_each(|(sum, x)| *sum += weight * load(*x));
            }
            for k in 0..side {
                let (left, right) = (side - k, size.width - 2 - k);
                self.line.copy_within((side + left) * n..(side + left + 1) * n, k * n);
                self.line.copy_within((side + right) * n..(side + right + 1) * n, (side + size.width + k) * n);
            }
            // A few values at a time: their sums stay in registers.
            const SPAN: usize = 16;
            for (block, to) in to.chunks_mut(SPAN).enumerate() {
                let mut sums = [0f32; SPAN];
                let at = block * SPAN;
                for (k, weight) in self.rows.iter().enumerate() {
                    let part = &self.line[at + k * n..][..to.len()];
                    sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += weight * x);
                }
                to.iter_mut().zip(sums).for_each(|(to, sum)| *to = store(sum));
            }
        }
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
            Blur::new(columns.clone(), rows.clone()).apply(&from, size, &mut to, |x| x, |x| x);
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
