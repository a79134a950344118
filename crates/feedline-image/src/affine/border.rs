//! What lies outside of a picture. The modes mean what they mean in scipy.ndimage, and so in Keras.

use crate::{Error, Result};

/// What is read where a coordinate lies outside of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// A fixed value, from the centres of the outermost pixels on.
    Constant,
    /// The nearest pixel: `a a | a b c | c c`.
    Nearest,
    /// The picture in a mirror behind its outermost pixels: `b a | a b c | c b`.
    Reflect,
    /// The picture again. The last pixel and the first are the same place, so that `c` is left out: `a b | a b c | b c`.
    Wrap,
}

impl Border {
    pub fn parse(name: &str) -> Result<Border> {
        Ok(match name {
            "constant" => Border::Constant,
            "nearest" => Border::Nearest,
            "reflect" => Border::Reflect,
            "wrap" => Border::Wrap,
            _ => {
                return Err(Error::usage(format!(
                    "there is no fill mode {name:?}; there are \"constant\", \"nearest\", \"reflect\" and \"wrap\""
                )));
            }
        })
    }

    /// Where a coordinate is read along an axis of `len` pixels; `None` where the fixed value stands. The result lies in
    /// `-1.0..=len` at most: a mirror stands half a pixel outside.
    pub fn place(self, x: f64, len: usize) -> Option<f64> {
        let last = len as f64 - 1.0;
        if x >= 0.0 && x <= last {
            return Some(x);
        }
        let found = match self {
            Border::Constant => return None,
            Border::Nearest => x,
            Border::Reflect | Border::Wrap if len <= 1 => 0.0,
            Border::Wrap if x < 0.0 => x + last * ((-x / last).trunc() + 1.0),
            Border::Wrap => x - last * (x / last).trunc(),
            Border::Reflect => {
                let (len, period) = (len as f64, 2.0 * len as f64);
                if x < 0.0 {
                    let x = if x < -period { x + period * (-x / period).trunc() } else { x };
                    if x < -len { x + period } else { (-x).max(f64::EPSILON) - 1.0 }
                } else {
                    let x = x - period * (x / period).trunc();
                    if x >= len { period - x - 1.0 } else { x }
                }
            }
        };
        // Far outside the remainders above lose all their digits.
        Some(match self {
            Border::Reflect => found.clamp(-1.0, last + 1.0),
            _ => found.clamp(0.0, last),
        })
    }

    /// The pixel that a tap next to a coordinate reads, though it may lie outside.
    pub fn tap(self, i: i64, len: usize) -> usize {
        let len = len as i64;
        let inside = match self {
            _ if (0..len).contains(&i) => i,
            _ if len <= 1 => 0,
            Border::Nearest => i.clamp(0, len - 1),
            Border::Reflect => {
                let i = i.rem_euclid(2 * len);
                if i >= len { 2 * len - 1 - i } else { i }
            }
            // No taps of weight lie outside for the linear ones; the splines of these modes are mirrored at the last pixel.
            Border::Constant | Border::Wrap => {
                let period = 2 * len - 2;
                let i = i.rem_euclid(period);
                if i >= len { period - i } else { i }
            }
        };
        inside as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_outside() {
        let at = |mode: Border, x: f64| mode.place(x, 4);
        for mode in [Border::Constant, Border::Nearest, Border::Reflect, Border::Wrap] {
            assert_eq!([at(mode, 0.0), at(mode, 3.0), at(mode, 1.25)], [Some(0.0), Some(3.0), Some(1.25)]);
        }
        assert_eq!([at(Border::Constant, -0.1), at(Border::Constant, 3.1)], [None, None]);
        assert_eq!([at(Border::Nearest, -9.0), at(Border::Nearest, 9.0)], [Some(0.0), Some(3.0)]);
        assert_eq!([at(Border::Reflect, -1.25), at(Border::Reflect, 4.0)], [Some(0.25), Some(3.0)]);
        assert_eq!([at(Border::Reflect, -5.0), at(Border::Reflect, 9.0)], [Some(3.0), Some(1.0)]);
        assert_eq!([at(Border::Wrap, -0.5), at(Border::Wrap, 3.5)], [Some(2.5), Some(0.5)]);
    }

    #[test]
    fn far_away_is_still_inside() {
        for mode in [Border::Nearest, Border::Reflect, Border::Wrap] {
            for len in [1, 2, 5] {
                for x in [-1e300, -1e18, -77.7, 1e9, 3.3e17, 1e300] {
                    let x = mode.place(x, len).unwrap();
                    assert!((-1.0..=len as f64).contains(&x), "{mode:?} {len} {x}");
                }
            }
        }
    }

    #[test]
    fn taps_outside() {
        let taps = |mode: Border| [-2, -1, 0, 2, 3, 4].map(|i| mode.tap(i, 3));
        assert_eq!(taps(Border::Nearest), [0, 0, 0, 2, 2, 2]);
        assert_eq!(taps(Border::Reflect), [1, 0, 0, 2, 2, 1]);
        assert_eq!(taps(Border::Constant), [2, 1, 0, 2, 1, 0]);
        assert_eq!(Border::Wrap.tap(-7, 1), 0);
    }
}
