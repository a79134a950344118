//! Pictures of a batch mixed with each other: each with the one before it, the first with the last.

use crate::Size;
use crate::geometry::Rect;

/// For each picture the number of the one that it is mixed with.
fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).map(move |i| (i, if i == 0 { count - 1 } else { i - 1 }))
}

/// `share` of each picture and the rest of the one before it.
pub fn blend<T: Copy + Into<f32>>(from: &[T], items: usize, share: f32, to: &mut [f32]) {
    if items == 0 {
        return;
    }
    let rest = 1.0 - share;
    for ((own, other), to) in pairs(from.len() / items).zip(to.chunks_exact_mut(items)) {
        let (own, other) = (&from[own * items..][..items], &from[other * items..][..items]);
        for ((to, &a), &b) in to.iter_mut().zip(own).zip(other) {
            *to = share * a.into() + rest * b.into();
        }
    }
}

/// Each picture with a rectangle of the one before it. The `channels` of the size count the bytes of a pixel; the
/// rectangle lies in the picture, or is empty.
pub fn paste(from: &[u8], size: Size, rect: Rect, to: &mut [u8]) {
    to.copy_from_slice(from);
    let (bytes, row) = (size.items(), rect.width * size.channels);
    if bytes == 0 || row == 0 {
        return;
    }
    for (own, other) in pairs(from.len() / bytes) {
        for y in rect.y..rect.y + rect.height {
            let at = y * size.stride() + rect.x * size.channels;
            to[own * bytes + at..][..row].copy_from_slice(&from[other * bytes + at..][..row]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_with_the_one_before() {
        let mut to = [0.0; 3];
        blend(&[0u8, 10, 20], 1, 0.75, &mut to);
        assert_eq!(to, [5.0, 7.5, 17.5]);
        let from: Vec<u8> = (0..18).collect();
        let mut to = vec![0; 18];
        paste(&from, Size::new(3, 3, 1), Rect::new(1, 1, 2, 1), &mut to);
        assert_eq!(to, [0, 1, 2, 3, 13, 5, 6, 16, 8, 9, 10, 11, 12, 4, 14, 15, 7, 17]);
    }

    #[test]
    fn nothing_to_mix() {
        blend::<f32>(&[], 0, 0.5, &mut []);
        blend::<f32>(&[], 4, 0.5, &mut []);
        paste(&[], Size::new(0, 3, 1), Rect::new(0, 0, 0, 3), &mut []);
        let mut to = [0; 2];
        paste(&[1, 2], Size::new(1, 1, 1), Rect::new(0, 0, 0, 1), &mut to);
        assert_eq!(to, [1, 2]);
    }
}
