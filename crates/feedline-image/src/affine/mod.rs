//! Pictures turned, moved, sheared and zoomed by a matrix: what Keras's ImageDataGenerator does to them, with the pixels
//! of scipy.ndimage.
//!
//! A matrix says for each pixel of the result where it is read. Along a row of the result the place moves by a fixed
//! step, so it is found by one multiplication an axis, and the part of the row that needs no look at the border is found
//! once a row.

mod border;
mod spline;

pub use border::Border;

use crate::{Error, Result, Size};
use std::ops::Range;

/// Any number of channels.
const ANY: usize = 0;

/// Where the pixels of a result are read, and how.
#[derive(Clone, Copy, Debug)]
pub struct Affine {
    /// Of a row `r` and a column `c` of the result: it is read at row `m[0] r + m[1] c + m[2]` and column
    /// `m[3] r + m[4] c + m[5]`, which are counted from the centre of the first pixel.
    pub matrix: [f64; 6],
    /// Of the curve between pixels: 0 takes the nearest one, 1 draws straight lines, 2 to 5 are splines.
    pub order: u8,
    pub border: Border,
    /// What stands outside, for `Border::Constant`.
    pub value: f64,
}

/// An item of a picture.
pub trait Pixel: Copy {
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn of_f32(x: f32) -> Self;
    fn of_f64(x: f64) -> Self;
}

impl Pixel for f32 {
    fn to_f32(self) -> f32 {
        self
    }
    fn to_f64(self) -> f64 {
        self.into()
    }
    fn of_f32(x: f32) -> f32 {
        x
    }
    fn of_f64(x: f64) -> f32 {
        x as f32
    }
}

impl Pixel for u8 {
    fn to_f32(self) -> f32 {
        self.into()
    }
    fn to_f64(self) -> f64 {
        self.into()
    }
    // The conversions cut off below 0 and above 255.
    fn of_f32(x: f32) -> u8 {
        (x + 0.5) as u8
    }
    fn of_f64(x: f64) -> u8 {
        (x + 0.5) as u8
    }
}

impl Affine {
    /// Refuses what no picture could be made with.
    pub fn check(&self) -> Result<()> {
        if self.order > 5 {
            return Err(Error::usage(format!(
                "the order of interpolation must lie between 0 and 5, not {}",
                self.order
            )));
        }
        if !self.matrix.iter().all(|x| x.is_finite()) {
            return Err(Error::data(format!("the matrix {:?} has numbers that are not finite", self.matrix)));
        }
        Ok(())
    }

    /// Writes the moved picture, which has the size of the first. `to` must have its length.
    pub fn warp<T: Pixel>(&self, from: &[T], size: Size, to: &mut [T]) -> Result<()> {
        self.check()?;
        if from.len() != size.items() || to.len() != size.items() {
            return Err(Error::internal(format!("{} and {} items for a picture of {size:?}", from.len(), to.len())));
        }
        if size.items() == 0 {
            return Ok(());
        }
        if size.height.max(size.width) > i32::MAX as usize {
            return Err(Error::data(format!("a picture of {} x {} is too large", size.height, size.width)));
        }
        // With the number of channels written down the loops over them are unrolled.
        match (self.order, size.channels) {
            (0, 1) => self.nearest::<T, 1>(from, size, to),
            (0, 3) => self.nearest::<T, 3>(from, size, to),
            (0, _) => self.nearest::<T, ANY>(from, size, to),
            (1, 1) => self.linear::<T, 1>(from, size, to),
            (1, 3) => self.linear::<T, 3>(from, size, to),
            (1, _) => self.linear::<T, ANY>(from, size, to),
            _ => spline::warp(self, from, size, to),
        }
        Ok(())
    }

    fn nearest<T: Pixel, const C: usize>(&self, from: &[T], size: Size, to: &mut [T]) {
        let channels = if C == ANY { size.channels } else { C };
        let outside = T::of_f64(self.value);
        let stride = size.width * channels;
        for (r, row) in to.chunks_exact_mut(stride).enumerate() {
            let line = Line::new(&self.matrix, r);
            let inner = line.steps(size, 0);
            let (before, rest) = row.split_at_mut(inner.columns.start * channels);
            let (middle, after) = rest.split_at_mut(inner.columns.len() * channels);
            let (mut y, mut x) = (inner.y, inner.x);
            for (c, pixel) in inner.columns.clone().zip(middle.chunks_exact_mut(channels)) {
                let (mut top, mut left) = (Steps::whole(y), Steps::whole(x));
                if Steps::is_edge(y) || Steps::is_edge(x) {
                    (top, left) = ((line.y(c) + 0.5) as usize, (line.x(c) + 0.5) as usize);
                }
                let at = top * stride + left * channels;
                copy::<T, C>(&from[at..at + channels], pixel);
                (y, x) = (y.wrapping_add(inner.step_y), x.wrapping_add(inner.step_x));
            }
            let edge = |c: usize, pixel: &mut [T]| {
                let tap = |x: f64, len| Some(self.border.tap((self.border.place(x, len)? + 0.5).floor() as i64, len));
                match tap(line.y(c), size.height).zip(tap(line.x(c), size.width)) {
                    Some((y, x)) => copy::<T, C>(&from[y * stride + x * channels..][..channels], pixel),
                    None => pixel.fill(outside),
                }
            };
            before.chunks_exact_mut(channels).enumerate().for_each(|(c, pixel)| edge(c, pixel));
            after.chunks_exact_mut(channels).enumerate().for_each(|(c, pixel)| edge(inner.columns.end + c, pixel));
        }
    }

    fn linear<T: Pixel, const C: usize>(&self, from: &[T], size: Size, to: &mut [T]) {
        let channels = if C == ANY { size.channels } else { C };
        let outside = T::of_f64(self.value);
        let stride = size.width * channels;
        for (r, row) in to.chunks_exact_mut(stride).enumerate() {
            let line = Line::new(&self.matrix, r);
            let inner = line.steps(size, 1);
            let (before, rest) = row.split_at_mut(inner.columns.start * channels);
            let (middle, after) = rest.split_at_mut(inner.columns.len() * channels);
            let (mut y, mut x) = (inner.y, inner.x);
            for pixel in middle.chunks_exact_mut(channels) {
                let (down, right) = (Steps::part(y), Steps::part(x));
                let at = Steps::whole(y) * stride + Steps::whole(x) * channels;
                // The four pixels: two rows of two neighbours each.
                let upper = &from[at..at + 2 * channels];
                let lower = &from[at + stride..at + stride + 2 * channels];
                for k in 0..channels {
                    let mix = |pair: &[T]| {
                        let (a, b) = (pair[k].to_f32(), pair[k + channels].to_f32());
                        a + (b - a) * right
                    };
                    let (a, b) = (mix(upper), mix(lower));
                    pixel[k] = T::of_f32(a + (b - a) * down);
                }
                (y, x) = (y.wrapping_add(inner.step_y), x.wrapping_add(inner.step_x));
            }
            let edge = |c: usize, pixel: &mut [T]| {
                let place = |x: f64, len: usize| {
                    let x = self.border.place(x, len)?;
                    let first = x.floor() as i64;
                    Some((self.border.tap(first, len), self.border.tap(first + 1, len), (x - x.floor()) as f32))
                };
                let Some(((top, bottom, down), (left, right, across))) =
                    place(line.y(c), size.height).zip(place(line.x(c), size.width))
                else {
                    return pixel.fill(outside);
                };
                for (k, item) in pixel.iter_mut().enumerate() {
                    let mix = |row: usize| {
                        let at = |column: usize| from[row * stride + column * channels + k].to_f32();
                        at(left) + (at(right) - at(left)) * across
                    };
                    let (a, b) = (mix(top), mix(bottom));
                    *item = T::of_f32(a + (b - a) * down);
                }
            };
            before.chunks_exact_mut(channels).enumerate().for_each(|(c, pixel)| edge(c, pixel));
            after.chunks_exact_mut(channels).enumerate().for_each(|(c, pixel)| edge(inner.columns.end + c, pixel));
        }
    }
}

/// One pixel. A call of `memcpy` for a few bytes takes longer than all the rest.
#[inline(always)]
fn copy<T: Copy, const C: usize>(from: &[T], to: &mut [T]) {
    if C == ANY {
        return to.copy_from_slice(from);
    }
    (0..C).for_each(|k| to[k] = from[k]);
}

/// Where the pixels of one row of the result are read.
struct Line {
    /// Row and column: what the row of the result adds, the step from column to column, and the constant part.
    y: [f64; 3],
    x: [f64; 3],
}

impl Line {
    fn new(m: &[f64; 6], row: usize) -> Line {
        let row = row as f64;
        Line { y: [m[0] * row, m[1], m[2]], x: [m[3] * row, m[4], m[5]] }
    }
    // Summed in the order of scipy: at the very edge a last digit decides between a pixel and the fixed value.
    #[inline(always)]
    fn y(&self, column: usize) -> f64 {
        self.y[0] + self.y[1] * column as f64 + self.y[2]
    }
    #[inline(always)]
    fn x(&self, column: usize) -> f64 {
        self.x[0] + self.x[1] * column as f64 + self.x[2]
    }

    /// The columns that are read inside of the picture, and `reach` pixels further on too; with their places in whole
    /// numbers, which are quicker to step. Without a reach they are those of the nearest pixel.
    fn steps(&self, size: Size, reach: usize) -> Steps {
        let end = |len: usize| if reach > 0 { len as f64 - reach as f64 } else { (len as f64 - 1.0).next_up() };
        let y = within(|c| self.y(c), size.width, end(size.height));
        let x = within(|c| self.x(c), size.width, end(size.width));
        let start = y.start.max(x.start);
        let columns = start..y.end.min(x.end).max(start);
        let round = if reach > 0 { 0.0 } else { 0.5 };
        let fixed = |x: f64| (x * Steps::ONE).round() as i64;
        let mut steps = Steps {
            y: fixed(self.y(start) + round),
            x: fixed(self.x(start) + round),
            step_y: fixed(self.y[1]),
            step_x: fixed(self.x[1]),
            columns,
        };
        steps.shrink(size, reach);
        steps
    }
}

/// Places along a row as whole numbers: 32 bits in front of the point, 32 behind it. After a thousand steps they are off by
/// less than a millionth of a pixel.
struct Steps {
    columns: Range<usize>,
    /// Of the first column.
    y: i64,
    x: i64,
    step_y: i64,
    step_x: i64,
}

impl Steps {
    const ONE: f64 = (1u64 << 32) as f64;

    #[inline(always)]
    fn whole(x: i64) -> usize {
        (x >> 32) as usize
    }
    /// What is behind the point.
    #[inline(always)]
    fn part(x: i64) -> f32 {
        i64::from(x as u32) as f32 * (1.0 / Steps::ONE) as f32
    }
    /// Whether it is so close to a whole number that the lost digits may decide.
    #[inline(always)]
    fn is_edge(x: i64) -> bool {
        (x as u32).wrapping_add(1 << 12) < 1 << 13
    }
    /// Rounding may lead out of the picture at the ends: gives up columns there.
    fn shrink(&mut self, size: Size, reach: usize) {
        let inside = |at: i64, len: usize| at >= 0 && (at >> 32) + (reach as i64) < len as i64;
        let fits = |y: i64, x: i64| inside(y, size.height) && inside(x, size.width);
        while !self.columns.is_empty() && !fits(self.y, self.x) {
            self.columns.start += 1;
            (self.y, self.x) = (self.y.wrapping_add(self.step_y), self.x.wrapping_add(self.step_x));
        }
        let last = |steps: &Steps| {
            let n = steps.columns.len() as i64 - 1;
            let at = |first: i64, step: i64| first.wrapping_add(step.wrapping_mul(n));
            (at(steps.y, steps.step_y), at(steps.x, steps.step_x))
        };
        while let (false, (y, x)) = (self.columns.is_empty(), last(self))
            && !fits(y, x)
        {
            self.columns.end -= 1;
        }
    }
}

/// The columns `0..n` where a coordinate lies in `0.0..end`. It only grows or only falls along a row, rounding included.
fn within(at: impl Fn(usize) -> f64, n: usize, end: f64) -> Range<usize> {
    let (low, high): (&dyn Fn(f64) -> bool, &dyn Fn(f64) -> bool) = match at(0) <= at(n - 1) {
        true => (&|x| x < 0.0, &|x| x < end),
        false => (&|x| x >= end, &|x| x >= 0.0),
    };
    // The first column where the answer is no.
    let first = |yes: &dyn Fn(f64) -> bool| {
        let (mut from, mut to) = (0, n);
        while from < to {
            let middle = from.midpoint(to);
            if yes(at(middle)) { from = middle + 1 } else { to = middle }
        }
        from
    };
    let start = first(low);
    start..first(high).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MODES: [Border; 4] = [Border::Constant, Border::Nearest, Border::Reflect, Border::Wrap];

    fn warp<T: Pixel + Default + Clone>(from: &[T], size: Size, matrix: [f64; 6], order: u8, border: Border) -> Vec<T> {
        let mut to = vec![T::default(); size.items()];
        Affine { matrix, order, border, value: 9.0 }.warp(from, size, &mut to).unwrap();
        to
    }

    #[test]
    fn moves_by_whole_pixels() {
        let (size, from) = (Size::new(2, 3, 1), [1u8, 2, 3, 4, 5, 6]);
        let left = [1., 0., 0., 0., 1., 1.];
        for order in 0..=5 {
            assert_eq!(warp(&from, size, left, order, Border::Nearest), [2, 3, 3, 5, 6, 6], "{order}");
            assert_eq!(warp(&from, size, left, order, Border::Constant), [2, 3, 9, 5, 6, 9], "{order}");
        }
        let up = [1., 0., 1., 0., 1., 0.];
        assert_eq!(warp(&from, size, up, 1, Border::Reflect), [4, 5, 6, 4, 5, 6]);
        let turned = [-1., 0., 1., 0., -1., 2.];
        assert_eq!(warp(&from, size, turned, 1, Border::Wrap), [6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn halves_are_rounded_up_for_bytes() {
        let (size, half) = (Size::new(1, 3, 1), [1., 0., 0., 0., 1., 0.5]);
        assert_eq!(warp(&[0u8, 1, 255], size, half, 1, Border::Nearest), [1, 128, 255]);
        assert_eq!(warp(&[0f32, 1., 255.], size, half, 1, Border::Nearest), [0.5, 128., 255.]);
    }

    #[test]
    fn empty_pictures_and_wild_numbers() {
        let (size, one) = (Size::new(0, 3, 1), [1., 0., 0., 0., 1., 0.]);
        assert!(warp::<u8>(&[], size, one, 1, Border::Nearest).is_empty());
        let affine = Affine { matrix: [f64::NAN; 6], order: 1, border: Border::Nearest, value: 0.0 };
        assert!(affine.warp(&[0u8], Size::new(1, 1, 1), &mut [0]).unwrap_err().to_string().contains("finite"));
        assert!(Affine { order: 6, ..affine }.check().unwrap_err().to_string().contains("between 0 and 5"));
    }

    /// The meaning, pixel by pixel.
    fn plainly(from: &[f32], size: Size, m: &[f64; 6], order: u8, border: Border) -> Vec<f32> {
        let mut to = Vec::new();
        for (r, c) in (0..size.height).flat_map(|r| (0..size.width).map(move |c| (r as f64, c as f64))) {
            let y = border.place(m[0] * r + m[1] * c + m[2], size.height);
            let x = border.place(m[3] * r + m[4] * c + m[5], size.width);
            for k in 0..size.channels {
                let at = |y: f64, x: f64| {
                    let (y, x) = (border.tap(y as i64, size.height), border.tap(x as i64, size.width));
                    f64::from(from[y * size.stride() + x * size.channels + k])
                };
                to.push(match y.zip(x) {
                    None => 9.0,
                    Some((y, x)) if order == 0 => at((y + 0.5).floor(), (x + 0.5).floor()) as f32,
                    Some((y, x)) => {
                        let ((top, left), (b, a)) = ((y.floor(), x.floor()), (y - y.floor(), x - x.floor()));
                        let upper = at(top, left) * (1.0 - a) + at(top, left + 1.0) * a;
                        let lower = at(top + 1.0, left) * (1.0 - a) + at(top + 1.0, left + 1.0) * a;
                        (upper * (1.0 - b) + lower * b) as f32
                    }
                });
            }
        }
        to
    }

    proptest! {
        #[test]
        fn the_quick_way_is_the_plain_way(
            height in 1usize..9, width in 1usize..9, channels in 1usize..5, seed in 0usize..1000,
            matrix in prop::array::uniform6(-3.0f64..3.0), order in 0u8..2, mode in 0usize..4, whole in any::<bool>(),
        ) {
            let size = Size::new(height, width, channels);
            let from: Vec<f32> = (0..size.items()).map(|i| ((i * 7919 + seed) % 256) as f32).collect();
            let matrix = matrix.map(|x| if whole { x.round() } else { x });
            let (got, want) = (warp(&from, size, matrix, order, MODES[mode]), plainly(&from, size, &matrix, order, MODES[mode]));
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() < 1e-3, "{got} {want}");
            }
        }

        #[test]
        fn nothing_panics(
            height in 1usize..5, width in 1usize..5, order in 0u8..6, mode in 0usize..4,
            matrix in prop::array::uniform6(prop::sample::select(vec![0.0, 1.0, -1.0, 1e-300, 1e18, -1e300, f64::MAX, 0.5])),
        ) {
            let size = Size::new(height, width, 1);
            warp(&vec![7u8; size.items()], size, matrix, order, MODES[mode]);
        }
    }
}
