//! Brightness, gamma, contrast.

use super::{TURN, byte, unit};
use feedline_io::wide;

/// Adds a number to every value.
pub fn brighten(items: &mut [f32], by: f32) {
    wide(|| items.iter_mut().for_each(|x| *x += by));
}
pub fn brighten_bytes(items: &mut [u8], by: f32) {
    wide(|| items.iter_mut().for_each(|x| *x = byte(unit(*x) + by)));
}

/// A costly function of single values, for bytes: it is asked once for each of the 256.
pub struct Curve([u8; 256]);

impl Curve {
    pub fn new(f: impl Fn(f32) -> f32) -> Curve {
        Curve(std::array::from_fn(|i| byte(f(unit(i as u8)))))
    }
    pub fn apply(&self, items: &mut [u8]) {
        items.iter_mut().for_each(|x| *x = self.0[usize::from(*x)]);
    }
}

/// Moves values away from the mean of their channel (or towards it, if the factor is below 1).
pub fn contrast(picture: &mut [f32], channels: usize, factor: f32) {
    if picture.is_empty() {
        return;
    }
    let pixels = (picture.len() / channels) as f64;
    let means: Vec<f32> = sums(picture, channels).into_iter().map(|sum| (sum / pixels) as f32).collect();
    if TURN.is_multiple_of(channels) {
        let means: [f32; TURN] = std::array::from_fn(|i| means[i % channels]);
        let (blocks, rest) = picture.as_chunks_mut::<TURN>();
        wide(|| {
            for block in blocks {
                (0..TURN).for_each(|i| block[i] = (block[i] - means[i]) * factor + means[i]);
            }
        });
        rest.iter_mut().zip(means).for_each(|(x, mean)| *x = (*x - mean) * factor + mean);
        return;
    }
    for pixel in picture.chunks_exact_mut(channels) {
        pixel.iter_mut().zip(&means).for_each(|(x, mean)| *x = (*x - mean) * factor + mean);
    }
}

/// The same for bytes.
pub fn contrast_bytes(picture: &mut [u8], channels: usize, factor: f32) {
    if picture.is_empty() {
        return;
    }
    let pixels = (picture.len() / channels) as f64;
    let mean = |sum: u64| (sum as f64 / (255.0 * pixels)) as f32;
    let means: Vec<f32> = byte_sums(picture, channels).into_iter().map(mean).collect();
    let moved = |x: u8, mean: f32| byte((unit(x) - mean) * factor + mean);
    // Long enough for a loop that is worth it, and a whole number of pixels.
    let line: Vec<f32> = means.iter().copied().cycle().take(channels * (512 / channels).max(1)).collect();
    wide(|| {
        for part in picture.chunks_mut(line.len()) {
            part.iter_mut().zip(&line).for_each(|(x, mean)| *x = moved(*x, *mean));
        }
    });
}

/// The sum of each channel, exactly.
fn byte_sums(picture: &[u8], channels: usize) -> Vec<u64> {
    let mut sums = vec![0u64; channels];
    if !TURN.is_multiple_of(channels) {
        for pixel in picture.chunks_exact(channels) {
            sums.iter_mut().zip(pixel).for_each(|(sum, x)| *sum += u64::from(*x));
        }
        return sums;
    }
    let (blocks, rest) = picture.as_chunks::<TURN>();
    // So many bytes fit into 32 bits.
    for blocks in blocks.chunks(1 << 24) {
        let mut lanes = [0u32; TURN];
        wide(|| blocks.iter().for_each(|block| (0..TURN).for_each(|i| lanes[i] += u32::from(block[i]))));
        lanes.iter().enumerate().for_each(|(i, lane)| sums[i % channels] += u64::from(*lane));
    }
    rest.iter().enumerate().for_each(|(i, x)| sums[i % channels] += u64::from(*x));
    sums
}

/// The sum of each channel. In double precision: millions of values must not lose the last ones.
fn sums(picture: &[f32], channels: usize) -> Vec<f64> {
    let mut sums = vec![0f64; channels];
    if !TURN.is_multiple_of(channels) {
        for pixel in picture.chunks_exact(channels) {
            sums.iter_mut().zip(pixel).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        return sums;
    }
    let mut lanes = [0f64; TURN];
    let (blocks, rest) = picture.as_chunks::<TURN>();
    wide(|| blocks.iter().for_each(|block| (0..TURN).for_each(|i| lanes[i] += f64::from(block[i]))));
    rest.iter().enumerate().for_each(|(i, x)| lanes[i] += f64::from(*x));
    lanes.iter().enumerate().for_each(|(i, lane)| sums[i % channels] += lane);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_their_function() {
        let mut all: Vec<u8> = (0..=255).collect();
        Curve::new(|x| x + 0.1).apply(&mut all);
        assert!((0..=255u8).all(|b| all[usize::from(b)] == byte(unit(b) + 0.1)));
        assert_eq!((all[0], all[230], all[255]), (25, 255, 255));
        let mut again: Vec<u8> = (0..=255).collect();
        brighten_bytes(&mut again, 0.1);
        assert_eq!(again, all);
    }

    #[test]
    fn contrast_keeps_the_mean_of_each_channel() {
        for channels in [1, 2, 3, 4, 5, 7] {
            let mut picture: Vec<f32> = (0..channels * 50).map(|i| (i * 31 % 97) as f32 / 97.0).collect();
            let before = sums(&picture, channels);
            let first = picture[0];
            contrast(&mut picture, channels, 2.0);
            for (a, b) in before.iter().zip(sums(&picture, channels)) {
                assert!((a - b).abs() < 1e-3, "{channels} channels: {a} {b}");
            }
            let mean = (before[0] / 50.0) as f32;
            assert!((picture[0] - (mean + 2.0 * (first - mean))).abs() < 1e-5);
        }
    }

    #[test]
    fn sums_are_exact() {
        for channels in [1, 3, 5] {
            let bytes: Vec<u8> = (0..channels * 1000).map(|i| (i * i % 253) as u8).collect();
            let want: Vec<u64> =
                (0..channels).map(|c| bytes[c..].iter().step_by(channels).map(|x| u64::from(*x)).sum()).collect();
            assert_eq!(byte_sums(&bytes, channels), want);
        }
    }

    #[test]
    fn bytes_and_floats_have_the_same_contrast() {
        for channels in [1, 3, 4, 5] {
            let bytes: Vec<u8> = (0..channels * 64).map(|i| (i * 37 + i / 3 * 11) as u8).collect();
            for factor in [0.0, 0.5, 1.0, 1.9, -1.0] {
                let mut floats: Vec<f32> = bytes.iter().map(|b| unit(*b)).collect();
                contrast(&mut floats, channels, factor);
                let mut own = bytes.clone();
                contrast_bytes(&mut own, channels, factor);
                for (a, b) in own.iter().zip(&floats) {
                    assert!(a.abs_diff(byte(*b)) <= 1, "{channels} channels, factor {factor}");
                }
            }
        }
    }
}
