//! What pixels are worth: brightness, contrast, hue, the colour spaces, and the way into a network.
//!
//! The rules are TensorFlow's. Values of a picture go from 0 to 1; bytes are `x / 255` on the way in and `x * 255.5`
//! without its fraction on the way out, so that each comes back as it was. What a function gives for bytes is exactly
//! that: in, the function of floats, out.

use feedline_io::wide;

mod light;
mod normalize;
mod spaces;

pub use light::{Curve, brighten, brighten_bytes, contrast, contrast_bytes};
pub use normalize::{Affine, Planes, standardize, standardize_bytes};
pub use spaces::{
    HSV_TO_RGB, Matrix, RGB_TO_HSV, RGB_TO_YIQ, RGB_TO_YUV, YIQ_TO_RGB, YUV_TO_RGB, gray, gray_bytes, hue, hue_bytes,
    pixels, saturation, saturation_bytes,
};

/// A byte as a value from 0 to 1.
#[inline(always)]
pub fn unit(byte: u8) -> f32 {
    f32::from(byte) * (1.0 / 255.0)
}

/// The inverse; what lies outside of 0 to 1 becomes 0 or 255, and NaN becomes 0.
#[inline(always)]
pub fn byte(unit: f32) -> u8 {
    // What `as u8` does by itself, in a form that becomes vector code: a float of the size of `WHOLE` has no bits left
    // for a fraction, so adding it rounds to the nearest whole number, which then stands in the lowest bits.
    const WHOLE: f32 = 8_388_608.0;
    let x = unit * 255.5;
    let x = if x > 0.0 { x } else { 0.0 };
    let x = if x < 255.0 { x } else { 255.0 };
    let near = x + WHOLE;
    (near.to_bits() - u32::from(near - WHOLE > x)) as u8
}

/// Bytes as values.
pub fn units(from: &[u8], to: &mut [f32]) {
    wide(|| to.iter_mut().zip(from).for_each(|(to, x)| *to = unit(*x)));
}

/// Values as bytes.
pub fn bytes(from: &[f32], to: &mut [u8]) {
    wide(|| to.iter_mut().zip(from).for_each(|(to, x)| *to = byte(*x)));
}

/// Numbers that belong to channels in turn are laid out to this length if it is a multiple of their count: a loop over
/// so many at once needs no instruction for the channels.
const TURN: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        assert!((0..=255).all(|b| byte(unit(b)) == b));
        let all: Vec<u8> = (0..=255).collect();
        let (mut there, mut back) = (vec![0.0; 256], vec![0; 256]);
        units(&all, &mut there);
        bytes(&there, &mut back);
        assert_eq!(back, all);
        for x in [f32::INFINITY, f32::NEG_INFINITY, -0.0, 1.0, 0.99999, 1e-30, 3e9, -3e9, 0.7] {
            assert_eq!(byte(x), (x * 255.5) as u8, "{x}");
        }
        assert_eq!([byte(-0.1), byte(1.1), byte(f32::NAN), byte(0.5)], [0, 255, 0, 127]);
    }
}
