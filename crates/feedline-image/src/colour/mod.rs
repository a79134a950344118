//! What pixels are worth: brightness, contrast, hue, the colour spaces, and the way into a network.
//!
//! The rules are TensorFlow's. Values of a picture go from 0 to 1; bytes are `x / 255` on the way in and `x * 255.5`
//! without its fraction on the way out, so that each comes back as it was. What a function gives for bytes is exactly
//! that: in, the function of floats, out.

mod light;
mod normalize;
mod spaces;

pub use light::{Curve, contrast, contrast_bytes};
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

/// The inverse; what lies outside of 0 to 1 becomes 0 or 255, and so does NaN (0).
#[inline(always)]
pub fn byte(unit: f32) -> u8 {
    (unit * 255.5) as u8
}

/// Numbers that belong to channels in turn are laid out to this length if it is a multiple of their count: a loop over
/// so many at once needs no instruction for the channels.
const TURN: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        assert!((0..=255).all(|b| byte(unit(b)) == b));
        assert_eq!([byte(-0.1), byte(1.1), byte(f32::NAN), byte(0.5)], [0, 255, 0, 127]);
    }
}
