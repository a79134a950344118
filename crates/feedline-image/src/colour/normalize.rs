//! From pixels to what a network wants: `(x * scale - mean) / deviation`, for each channel or for the whole picture.

use super::TURN;
use feedline_io::wide;

/// A factor and a term for each channel. `x * factor + term` is `(x * scale - mean) / deviation` with one rounding less.
#[derive(Clone, Debug)]
pub struct Affine {
    factors: Vec<f32>,
    terms: Vec<f32>,
}

/// How the channels of the result lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planes {
    /// Pixel after pixel, as in the source.
    Together,
    /// All pixels of one channel, then those of the next.
    Apart,
}

impl Affine {
    /// The means and deviations of the channels, one for each.
    pub fn new(scale: f64, means: &[f64], deviations: &[f64]) -> Affine {
        Affine {
            factors: deviations.iter().map(|d| (scale / d) as f32).collect(),
            terms: means.iter().zip(deviations).map(|(m, d)| (-m / d) as f32).collect(),
        }
    }
    pub fn channels(&self) -> usize {
        self.factors.len()
    }
    /// The factor and the term of each channel.
    pub fn parts(&self) -> (&[f32], &[f32]) {
        (&self.factors, &self.terms)
    }
    /// The pixels of a picture, written to `to` as floats.
    pub fn apply<T: Copy + Into<f32>>(&self, from: &[T], planes: Planes, to: &mut [f32]) {
        let channels = self.channels();
        if planes == Planes::Apart && channels > 1 {
            let pixels = from.len() / channels;
            match channels {
                3 => self.apart_3(from.as_chunks::<3>().0, to),
                _ if pixels == 0 => {}
                _ => {
                    for (c, plane) in to.chunks_exact_mut(pixels).enumerate() {
                        let from = from[c..].iter().step_by(channels);
                        plane.iter_mut().zip(from).for_each(|(to, x)| *to = self.one(c, (*x).into()));
                    }
                }
            }
            return;
        }
        if !TURN.is_multiple_of(channels) {
            for (from, to) in from.chunks_exact(channels).zip(to.chunks_exact_mut(channels)) {
                (0..channels).for_each(|c| to[c] = self.one(c, from[c].into()));
            }
            return;
        }
        let (factors, terms) = self.turns();
        let ((blocks, rest), (to, last)) = (from.as_chunks::<TURN>(), to.as_chunks_mut::<TURN>());
        wide(|| {
            for (from, to) in blocks.iter().zip(to) {
                (0..TURN).for_each(|i| to[i] = from[i].into() * factors[i] + terms[i]);
            }
        });
        last.iter_mut().zip(rest).enumerate().for_each(|(i, (to, x))| *to = (*x).into() * factors[i] + terms[i]);
    }
    /// The same for floats in their own place.
    pub fn apply_in_place(&self, items: &mut [f32]) {
        let channels = self.channels();
        if !TURN.is_multiple_of(channels) {
            for pixel in items.chunks_exact_mut(channels) {
                (0..channels).for_each(|c| pixel[c] = self.one(c, pixel[c]));
            }
            return;
        }
        let (factors, terms) = self.turns();
        let (blocks, rest) = items.as_chunks_mut::<TURN>();
        wide(|| blocks.iter_mut().for_each(|b| (0..TURN).for_each(|i| b[i] = b[i] * factors[i] + terms[i])));
        rest.iter_mut().enumerate().for_each(|(i, x)| *x = *x * factors[i] + terms[i]);
    }
    #[inline(always)]
    fn one(&self, channel: usize, x: f32) -> f32 {
        x * self.factors[channel] + self.terms[channel]
    }
    fn turns(&self) -> ([f32; TURN], [f32; TURN]) {
        let laid = |list: &[f32]| std::array::from_fn(|i| list[i % list.len()]);
        (laid(&self.factors), laid(&self.terms))
    }
    fn apart_3<T: Copy + Into<f32>>(&self, from: &[[T; 3]], to: &mut [f32]) {
        let (red, rest) = to.split_at_mut(from.len());
        let (green, blue) = rest.split_at_mut(from.len());
        let blue = &mut blue[..from.len()];
        // Not `wide`: three times as slow, since AVX2 has no good way to take every third value.
        for (i, pixel) in from.iter().enumerate() {
            red[i] = self.one(0, pixel[0].into());
            green[i] = self.one(1, pixel[1].into());
            blue[i] = self.one(2, pixel[2].into());
        }
    }
}

/// What is divided by: the deviation, but not less than that of noise in a picture of so many values.
fn divisor(variance: f64, items: usize) -> f32 {
    variance.max(0.0).sqrt().max(1.0 / (items as f64).sqrt()) as f32
}

/// Sums are taken in blocks of this length, and the blocks in double precision (or whole numbers).
const BLOCK: usize = 4096;
const LANES: usize = 8;

/// The sum of a function of each item.
fn total(items: &[f32], f: impl Fn(f32) -> f64) -> f64 {
    let mut lanes = [0f64; LANES];
    let (blocks, rest) = items.as_chunks::<LANES>();
    wide(|| blocks.iter().for_each(|block| (0..LANES).for_each(|i| lanes[i] += f(block[i]))));
    rest.iter().enumerate().for_each(|(i, x)| lanes[i] += f(*x));
    lanes.iter().sum()
}

/// Mean 0 and deviation 1 over all values of a picture.
pub fn standardize(items: &mut [f32]) {
    if items.is_empty() {
        return;
    }
    let n = items.len() as f64;
    let mean = total(items, f64::from) / n;
    let variance = total(items, |x| (f64::from(x) - mean).powi(2)) / n;
    let (mean, divisor) = (mean as f32, divisor(variance, items.len()));
    wide(|| items.iter_mut().for_each(|x| *x = (*x - mean) / divisor));
}

/// The same for bytes. The sums are exact.
pub fn standardize_bytes(items: &[u8], to: &mut [f32]) {
    if items.is_empty() {
        return;
    }
    let (mut sum, mut squares) = (0u64, 0u64);
    wide(|| {
        for block in items.chunks(BLOCK) {
            sum += u64::from(block.iter().map(|x| u32::from(*x)).sum::<u32>());
            squares += u64::from(block.iter().map(|x| u32::from(*x) * u32::from(*x)).sum::<u32>());
        }
    });
    let n = items.len() as f64;
    let mean = sum as f64 / n;
    let (divisor, mean) = (divisor(squares as f64 / n - mean * mean, items.len()), mean as f32);
    wide(|| to.iter_mut().zip(items).for_each(|(to, x)| *to = (f32::from(*x) - mean) / divisor));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_are_those_of_the_definition(channels in 1..9usize, pixels in 0..70usize, apart: bool, seed: u64) {
            let value = |i: usize| (seed.wrapping_mul(i as u64 * 2 + 1) >> 40) as u8;
            let bytes: Vec<u8> = (0..channels * pixels).map(value).collect();
            let means: Vec<f64> = (0..channels).map(|c| 0.4 + c as f64 / 50.0).collect();
            let deviations: Vec<f64> = (0..channels).map(|c| 0.2 + c as f64 / 70.0).collect();
            let affine = Affine::new(1.0 / 255.0, &means, &deviations);
            let planes = if apart { Planes::Apart } else { Planes::Together };
            let mut to = vec![f32::NAN; bytes.len()];
            affine.apply(&bytes, planes, &mut to);
            for (i, x) in bytes.iter().enumerate() {
                let (pixel, c) = (i / channels, i % channels);
                let at = if apart { c * pixels + pixel } else { i };
                let want = (f64::from(*x) / 255.0 - means[c]) / deviations[c];
                prop_assert!((f64::from(to[at]) - want).abs() < 1e-6, "{} {}", to[at], want);
            }
            let floats: Vec<f32> = bytes.iter().map(|x| f32::from(*x)).collect();
            let mut again = vec![f32::NAN; bytes.len()];
            affine.apply(&floats, planes, &mut again);
            prop_assert_eq!(&again, &to);
            if !apart {
                again.copy_from_slice(&floats);
                affine.apply_in_place(&mut again);
                prop_assert_eq!(&again, &to);
            }
        }
    }

    #[test]
    fn standard_pictures_have_mean_0_and_deviation_1() {
        let bytes: Vec<u8> = (0..30_000u32).map(|i| (i * i + 3 * i) as u8).collect();
        let mut of_bytes = vec![0f32; bytes.len()];
        standardize_bytes(&bytes, &mut of_bytes);
        let mut of_floats: Vec<f32> = bytes.iter().map(|x| f32::from(*x)).collect();
        standardize(&mut of_floats);
        assert!(of_bytes.iter().zip(&of_floats).all(|(a, b)| (a - b).abs() < 1e-5));
        let n = bytes.len() as f64;
        assert!((total(&of_bytes, f64::from) / n).abs() < 1e-5);
        assert!((total(&of_bytes, |x| f64::from(x).powi(2)) / n - 1.0).abs() < 1e-4);
    }

    #[test]
    fn a_flat_picture_becomes_zeros() {
        let mut to = [1f32; 4];
        standardize_bytes(&[7; 4], &mut to);
        assert_eq!(to, [0.0; 4]);
        standardize(&mut []);
    }
}
