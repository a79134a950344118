//! Colour spaces, and what is done to hue and saturation. Pixels have three values here.
// Constants have the digits that TensorFlow has, though not all of them count.
#![allow(clippy::excessive_precision)]

use super::{byte, unit};
use feedline_io::wide;

/// Pixels are taken apart into planes of this many values, on which a function of one pixel becomes vector code.
const BLOCK: usize = 64;

/// A function of each pixel, in place. `load` and `store` are the way from items to values and back.
#[inline(always)]
fn each<T: Copy>(items: &mut [T], load: impl Fn(T) -> f32, store: impl Fn(f32) -> T, f: impl Fn([f32; 3]) -> [f32; 3]) {
    wide(|| each_block(items, load, store, f));
}

#[inline(always)]
fn each_block<T: Copy>(
    items: &mut [T],
    load: impl Fn(T) -> f32,
    store: impl Fn(f32) -> T,
    f: impl Fn([f32; 3]) -> [f32; 3],
) {
    let mut values = [0f32; 3 * BLOCK];
    let mut planes = [[0f32; BLOCK]; 3];
    for block in items.chunks_mut(3 * BLOCK) {
        values.iter_mut().zip(&*block).for_each(|(value, x)| *value = load(*x));
        let [first, second, third] = &mut planes;
        let pixels = values.as_chunks_mut::<3>().0;
        for (i, pixel) in pixels.iter().enumerate() {
            (first[i], second[i], third[i]) = (pixel[0], pixel[1], pixel[2]);
        }
        for ((a, b), c) in first.iter_mut().zip(&mut *second).zip(&mut *third) {
            [*a, *b, *c] = f([*a, *b, *c]);
        }
        for (i, pixel) in pixels.iter_mut().enumerate() {
            *pixel = [first[i], second[i], third[i]];
        }
        block.iter_mut().zip(&values).for_each(|(x, value)| *x = store(*value));
    }
}

#[inline(always)]
fn largest([r, g, b]: [f32; 3]) -> f32 {
    r.max(g).max(b)
}
#[inline(always)]
fn smallest([r, g, b]: [f32; 3]) -> f32 {
    r.min(g).min(b)
}

/// The hue from 0 up to 1, where the largest and the distance to the smallest value are known.
#[inline(always)]
fn hue_of([r, g, b]: [f32; 3], most: f32, range: f32) -> f32 {
    let norm = 1.0 / (6.0 * range);
    let of_blue = norm * (r - g) + 4.0 / 6.0;
    let of_green = norm * (b - r) + 2.0 / 6.0;
    let of_red = norm * (g - b);
    let hue = if r == most {
        of_red
    } else if g == most {
        of_green
    } else {
        of_blue
    };
    let hue = if range > 0.0 { hue } else { 0.0 };
    if hue < 0.0 { hue + 1.0 } else { hue }
}

/// How much of the range each channel has at a hue.
#[inline(always)]
fn shares(hue: f32) -> [f32; 3] {
    let six = hue * 6.0;
    let within = |x: f32| x.clamp(0.0, 1.0);
    [within((six - 3.0).abs() - 1.0), within(2.0 - (six - 2.0).abs()), within(2.0 - (six - 4.0).abs())]
}

#[inline(always)]
fn rgb_to_hsv(rgb: [f32; 3]) -> [f32; 3] {
    let value = largest(rgb);
    let range = value - smallest(rgb);
    let saturation = if value > 0.0 { range / value } else { 0.0 };
    [hue_of(rgb, value, range), saturation, value]
}

#[inline(always)]
fn hsv_to_rgb([hue, saturation, value]: [f32; 3]) -> [f32; 3] {
    shares(hue).map(|share| (1.0 - saturation + saturation * share) * value)
}

/// The hue turned by a part of the circle that lies in 0 to 1. Brightest and darkest value stay as they are.
#[inline(always)]
fn turned(rgb: [f32; 3], by: f32) -> [f32; 3] {
    let (most, least) = (largest(rgb), smallest(rgb));
    let range = most - least;
    let hue = hue_of(rgb, most, range) + by;
    shares(if hue >= 1.0 { hue - 1.0 } else { hue }).map(|share| least + range * share)
}

/// The saturation times a factor, at most 1. That leaves the hue alone: each value only moves along its distance to the
/// largest, so the hue need not be computed.
#[inline(always)]
fn saturated(rgb: [f32; 3], factor: f32) -> [f32; 3] {
    let value = largest(rgb);
    let range = value - smallest(rgb);
    let limit = if value > 0.0 && range > 0.0 { value / range } else { 0.0 };
    // Not `clamp`, which panics for the NaN of a broken picture.
    let factor = factor.max(0.0).min(limit);
    rgb.map(|x| value + (x - value) * factor)
}

/// Turns the hue: 1 is the whole circle.
pub fn hue(items: &mut [f32], delta: f32) {
    let by = delta - delta.floor();
    each(items, |x| x, |x| x, |pixel| turned(pixel, by));
}
pub fn hue_bytes(items: &mut [u8], delta: f32) {
    let by = delta - delta.floor();
    each(items, unit, byte, |pixel| turned(pixel, by));
}

/// Multiplies the saturation.
pub fn saturation(items: &mut [f32], factor: f32) {
    each(items, |x| x, |x| x, |pixel| saturated(pixel, factor));
}
pub fn saturation_bytes(items: &mut [u8], factor: f32) {
    each(items, unit, byte, |pixel| saturated(pixel, factor));
}

/// A way from one colour space to another.
pub enum Matrix {
    /// Each value of the source adds a row of it to the result.
    Linear([[f32; 3]; 3]),
    ToHsv,
    OfHsv,
}

pub const RGB_TO_HSV: Matrix = Matrix::ToHsv;
pub const HSV_TO_RGB: Matrix = Matrix::OfHsv;
// NTSC's and PAL's colours.
pub const RGB_TO_YIQ: Matrix =
    Matrix::Linear([[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]]);
pub const YIQ_TO_RGB: Matrix =
    Matrix::Linear([[1.0, 1.0, 1.0], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]);
pub const RGB_TO_YUV: Matrix = Matrix::Linear([
    [0.299, -0.14714119, 0.61497538],
    [0.587, -0.28886916, -0.51496512],
    [0.114, 0.43601035, -0.10001026],
]);
pub const YUV_TO_RGB: Matrix =
    Matrix::Linear([[1.0, 1.0, 1.0], [0.0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0.0]]);

/// Converts pixels to another colour space.
pub fn pixels(items: &mut [f32], matrix: &Matrix) {
    match matrix {
        Matrix::Linear(m) => {
            each(items, |x| x, |x| x, |[a, b, c]| std::array::from_fn(|j| a * m[0][j] + b * m[1][j] + c * m[2][j]))
        }
        Matrix::ToHsv => each(items, |x| x, |x| x, rgb_to_hsv),
        Matrix::OfHsv => each(items, |x| x, |x| x, hsv_to_rgb),
    }
}

#[inline(always)]
fn brightness([r, g, b]: [f32; 3]) -> f32 {
    0.2989 * r + 0.587 * g + 0.114 * b
}

/// One value for each pixel: how bright it is.
pub fn gray(items: &[f32], to: &mut [f32]) {
    wide(|| to.iter_mut().zip(items.as_chunks::<3>().0).for_each(|(to, pixel)| *to = brightness(*pixel)));
}
pub fn gray_bytes(items: &[u8], to: &mut [u8]) {
    let pixels = items.as_chunks::<3>().0;
    wide(|| to.iter_mut().zip(pixels).for_each(|(to, pixel)| *to = byte(brightness(pixel.map(unit)))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: &[f32], b: &[f32]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4)
    }

    proptest! {
        #[test]
        fn ways_back_lead_back(items in proptest::collection::vec(0f32..1.0, 3..400)) {
            let items = &items[..items.len() / 3 * 3];
            let pairs = [(RGB_TO_HSV, HSV_TO_RGB), (RGB_TO_YIQ, YIQ_TO_RGB), (RGB_TO_YUV, YUV_TO_RGB)];
            for (there, back) in &pairs {
                let mut own = items.to_vec();
                pixels(&mut own, there);
                pixels(&mut own, back);
                prop_assert!(close(&own, items), "{:?} {:?}", own, items);
            }
        }

        /// The short forms against their definition: to HSV, change, and back.
        #[test]
        fn hue_and_saturation_are_what_hsv_says(
            items in proptest::collection::vec(0f32..1.0, 3..400), delta in -1f32..1.0, factor in 0f32..3.0
        ) {
            let items = &items[..items.len() / 3 * 3];
            let by_hsv = |f: &dyn Fn([f32; 3]) -> [f32; 3]| -> Vec<f32> {
                items.as_chunks::<3>().0.iter().flat_map(|p| hsv_to_rgb(f(rgb_to_hsv(*p)))).collect()
            };
            let mut own = items.to_vec();
            hue(&mut own, delta);
            prop_assert!(close(&own, &by_hsv(&|[h, s, v]| [(h + delta).rem_euclid(1.0), s, v])));
            let mut own = items.to_vec();
            saturation(&mut own, factor);
            prop_assert!(close(&own, &by_hsv(&|[h, s, v]| [h, (s * factor).clamp(0.0, 1.0), v])));
        }
    }

    #[test]
    fn neutral_changes_leave_bytes_alone() {
        let bytes: Vec<u8> = (0..3000u32).map(|i| (i * i * 7 + i) as u8).collect();
        for change in [|b: &mut [u8]| saturation_bytes(b, 1.0), |b: &mut [u8]| hue_bytes(b, 0.0)] {
            let mut own = bytes.clone();
            change(&mut own);
            assert_eq!(own, bytes);
        }
        let mut grey = bytes.clone();
        saturation_bytes(&mut grey, 0.0);
        assert!(grey.as_chunks::<3>().0.iter().all(|p| p[0] == p[1] && p[1] == p[2]));
    }

    #[test]
    fn grey_weighs_the_channels() {
        let mut to = [0u8; 2];
        gray_bytes(&[255, 255, 255, 0, 83, 166], &mut to);
        assert_eq!(to, [255, 67]);
    }
}
