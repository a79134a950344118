//! EXIF's eight orientations: which corner of the stored picture is the upper left one.

use crate::Size;

/// The size of the picture when it stands upright.
pub fn turned(size: Size, orientation: u8) -> Size {
    let Size { height, width, channels } = size;
    if orientation >= 5 { Size::new(width, height, channels) } else { size }
}

/// The stored picture, of `size`, upright.
pub fn turn<T: Copy>(src: &[T], size: Size, orientation: u8, out: &mut [T]) {
    let upright = turned(size, orientation);
    let channels = size.channels;
    for (i, pixel) in out.chunks_exact_mut(channels).enumerate() {
        let (y, x) = (i / upright.width, i % upright.width);
        let (bottom, right) = (size.height - 1, size.width - 1);
        let (y, x) = match orientation {
            2 => (y, right - x),
            3 => (bottom - y, right - x),
            4 => (bottom - y, x),
            5 => (x, y),
            6 => (bottom - x, y),
            7 => (bottom - x, right - y),
            8 => (x, right - y),
            _ => (y, x),
        };
        pixel.copy_from_slice(&src[(y * size.width + x) * channels..][..channels]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_orientation() {
        // 1 2 3
        // 4 5 6
        let stored = [1, 2, 3, 4, 5, 6];
        let wanted = [
            [1, 2, 3, 4, 5, 6],
            [3, 2, 1, 6, 5, 4],
            [6, 5, 4, 3, 2, 1],
            [4, 5, 6, 1, 2, 3],
            [1, 4, 2, 5, 3, 6],
            [4, 1, 5, 2, 6, 3],
            [6, 3, 5, 2, 4, 1],
            [3, 6, 2, 5, 1, 4],
        ];
        for (orientation, wanted) in (1..).zip(wanted) {
            let mut out = [0; 6];
            turn(&stored, Size::new(2, 3, 1), orientation, &mut out);
            assert_eq!(out, wanted, "{orientation}");
        }
    }
}
