//! Splines of order 2 to 5 through the pixels. (Unser, Aldroubi and Eden, "B-spline signal processing", 1993.)
//!
//! 1. A plane of coefficients is made from a channel by a recursive filter along rows and columns.
//! 2. A value between pixels is a sum of `order + 1` coefficients along each axis, weighted by the B-spline.

use super::border::Border;
use super::{Affine, Line, Pixel};
use crate::Size;

/// Taps along an axis, at most.
const TAPS: usize = 6;

/// The roots inside of the unit circle of the filter that undoes the B-spline.
fn poles(order: u8) -> &'static [f64] {
    match order {
        2 => &[-0.171_572_875_253_809_9],
        3 => &[-0.267_949_192_431_122_7],
        4 => &[-0.361_341_225_900_220_2, -0.013_725_429_297_339_13],
        5 => &[-0.430_575_347_099_973_8, -0.043_096_288_203_264_65],
        _ => &[],
    }
}

/// The weights of the taps for a place between knots, from `0.0` to `1.0`: degree by degree, as Cox and de Boor do.
fn weights(u: f64, order: u8) -> [f64; TAPS] {
    let mut weights = [0.0; TAPS];
    weights[0] = 1.0;
    for degree in 1..=usize::from(order) {
        let d = degree as f64;
        for j in (0..=degree).rev() {
            let left = if j > 0 { (u + d - j as f64) * weights[j - 1] } else { 0.0 };
            let right = if j < degree { (j as f64 + 1.0 - u) * weights[j] } else { 0.0 };
            weights[j] = (left + right) / d;
        }
    }
    weights
}

/// One line of a plane: every `step`-th item from `start` on.
struct Strand {
    start: usize,
    step: usize,
    len: usize,
}

/// Turns values into coefficients, along one line. `mirror` says how the line goes on behind its end: around the last
/// item, or with the last item twice.
fn coefficients(c: &mut [f64], line: &Strand, order: u8, mirror: bool) {
    let n = line.len;
    if n < 2 {
        return;
    }
    let at = |i: usize| line.start + i * line.step;
    let gain: f64 = poles(order).iter().map(|z| (1.0 - z) * (1.0 - 1.0 / z)).product();
    (0..n).for_each(|i| c[at(i)] *= gain);
    for &z in poles(order) {
        let first = c[at(0)];
        let sum = |to: usize, far: f64| {
            let mut power = z;
            let mut sum = first + far * c[at(n - 1)];
            for i in 1..to {
                sum += power * (c[at(i)] + far * c[at(n - 1 - i)]);
                power *= z;
            }
            sum
        };
        c[at(0)] = if mirror {
            let far = z.powi(n as i32 - 1);
            sum(n - 1, far) / (1.0 - far * far)
        } else {
            let far = z.powi(n as i32);
            sum(n, far) * z / (1.0 - far * far) + first
        };
        (1..n).for_each(|i| c[at(i)] += z * c[at(i - 1)]);
        c[at(n - 1)] =
            if mirror { (z * c[at(n - 2)] + c[at(n - 1)]) * z / (z * z - 1.0) } else { c[at(n - 1)] * z / (z - 1.0) };
        (0..n - 1).rev().for_each(|i| c[at(i)] = z * (c[at(i + 1)] - c[at(i)]));
    }
}

/// A channel as coefficients. Where outside is the nearest pixel, some of it belongs to the plane: no recursion has that
/// for its end.
struct Plane {
    items: Vec<f64>,
    height: usize,
    width: usize,
    margin: usize,
}

impl Plane {
    fn new(size: Size, border: Border) -> Plane {
        // After that many pixels the largest pole has faded to one part in 20,000.
        let margin = if border == Border::Nearest { 12 } else { 0 };
        let (height, width) = (size.height + 2 * margin, size.width + 2 * margin);
        Plane { items: vec![0.0; height * width], height, width, margin }
    }

    fn fill<T: Pixel>(&mut self, from: &[T], size: Size, channel: usize, order: u8, border: Border) {
        let inside = |i: usize, len: usize| i.saturating_sub(self.margin).min(len - 1);
        for (y, row) in self.items.chunks_exact_mut(self.width).enumerate() {
            let start = inside(y, size.height) * size.stride() + channel;
            for (x, item) in row.iter_mut().enumerate() {
                *item = from[start + inside(x, size.width) * size.channels].to_f64();
            }
        }
        let mirror = matches!(border, Border::Constant | Border::Wrap);
        for x in 0..self.width {
            let line = Strand { start: x, step: self.width, len: self.height };
            coefficients(&mut self.items, &line, order, mirror);
        }
        for y in 0..self.height {
            let line = Strand { start: y * self.width, step: 1, len: self.width };
            coefficients(&mut self.items, &line, order, mirror);
        }
    }

    fn value(&self, y: f64, x: f64, order: u8, border: Border) -> Option<f64> {
        let margin = self.margin as f64;
        let y = Taps::new(border.place(y + margin, self.height)?, self.height, order, border);
        let x = Taps::new(border.place(x + margin, self.width)?, self.width, order, border);
        let taps = usize::from(order) + 1;
        let mut sum = 0.0;
        for (row, wy) in y.places[..taps].iter().zip(y.weights) {
            let row = &self.items[row * self.width..][..self.width];
            let along: f64 = x.places[..taps].iter().zip(x.weights).map(|(&at, wx)| row[at] * wx).sum();
            sum += along * wy;
        }
        Some(sum)
    }
}

/// What is read along one axis, and how much it counts.
struct Taps {
    places: [usize; TAPS],
    weights: [f64; TAPS],
}

impl Taps {
    fn new(x: f64, len: usize, order: u8, border: Border) -> Taps {
        // The knots of even orders lie between pixels.
        let x = if order % 2 == 1 { x } else { x + 0.5 };
        let first = x.floor() as i64 - i64::from(order / 2);
        let mut places = [0; TAPS];
        places.iter_mut().zip(first..).for_each(|(place, i)| *place = border.tap(i, len));
        Taps { places, weights: weights(x - x.floor(), order) }
    }
}

/// The picture moved, channel by channel.
pub fn warp<T: Pixel>(affine: &Affine, from: &[T], size: Size, to: &mut [T]) {
    let mut plane = Plane::new(size, affine.border);
    let outside = T::of_f64(affine.value);
    for channel in 0..size.channels {
        plane.fill(from, size, channel, affine.order, affine.border);
        for (r, row) in to.chunks_exact_mut(size.stride()).enumerate() {
            let line = Line::new(&affine.matrix, r);
            for (c, pixel) in row.chunks_exact_mut(size.channels).enumerate() {
                let value = plane.value(line.y(c), line.x(c), affine.order, affine.border);
                pixel[channel] = value.map_or(outside, T::of_f64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_the_b_spline() {
        for order in 1..=5 {
            for u in [0.0, 0.3, 0.5, 0.99] {
                let w = weights(u, order);
                assert!((w.iter().sum::<f64>() - 1.0).abs() < 1e-12 && w.iter().all(|w| *w >= 0.0), "{order} {u}");
            }
        }
        let [a, b, c, d, ..] = weights(0.0, 3);
        assert!([a - 1.0 / 6.0, b - 4.0 / 6.0, c - 1.0 / 6.0, d].iter().all(|e| e.abs() < 1e-12));
    }

    #[test]
    fn the_poles_are_roots() {
        // The B-spline at whole places, as a polynomial in z.
        for (order, row) in [(2, &[1., 6., 1.][..]), (3, &[1., 4., 1.]), (4, &[1., 76., 230., 76., 1.])] {
            for z in poles(order) {
                assert!(row.iter().rev().fold(0.0, |sum, k| sum * z + k).abs() < 1e-12, "{order}");
            }
        }
        for z in poles(5) {
            assert!([1., 26., 66., 26., 1.].iter().fold(0.0, |sum, k| sum * z + k).abs() < 1e-12);
        }
    }

    #[test]
    fn the_curve_goes_through_the_pixels() {
        let size = Size::new(4, 5, 2);
        let from: Vec<f32> = (0..size.items()).map(|i| ((i * 37) % 101) as f32).collect();
        for order in 2..=5 {
            for border in [Border::Constant, Border::Nearest, Border::Reflect, Border::Wrap] {
                let affine = Affine { matrix: [1., 0., 0., 0., 1., 0.], order, border, value: 0.0 };
                let mut to = vec![0.0; size.items()];
                warp(&affine, &from, size, &mut to);
                let most = from.iter().zip(&to).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(most < 1e-3, "{order} {border:?} {most}");
            }
        }
    }
}
