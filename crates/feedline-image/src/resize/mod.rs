//! Pictures in another size, by the rules of `tf.image.resize`.
//!
//! 1. `Taps` say for one axis which items of the source each item of the result is made of, and with what weights.
//! 2. A row of the result is made in two passes: the rows of the source that it is made of are added up into one line
//!    (their items lie side by side, so that is fast), then each pixel is made of pixels of that line.
//! 3. Only what is asked for is touched. A caller that needs a part of the result makes the taps of that part, and learns
//!    from them which part of the source is needed.
//!
//! Results do not depend on the machine: products and sums are made in one order and never fused.

mod nearest;
mod rows;
mod taps;

pub use nearest::nearest;
pub use rows::{Resizer, Sample};
pub use taps::{Method, Taps};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    fn resize(src: &[u8], size: Size, to: (usize, usize), method: Method, antialias: bool) -> Vec<f32> {
        let rows = Taps::new(method, antialias, size.height, to.0);
        let columns = Taps::new(method, antialias, size.width, to.1);
        let mut resizer = Resizer::default();
        let mut out = vec![0.0; to.0 * to.1 * size.channels];
        for (y, row) in out.chunks_exact_mut(to.1 * size.channels).enumerate() {
            resizer.row(src, size.stride(), size.channels, &rows, &columns, y, row);
        }
        out
    }

    #[test]
    fn constants_stay_and_sizes_that_stay_are_copies() {
        let all = [
            Method::Bilinear,
            Method::Bicubic,
            Method::Area,
            Method::Lanczos3,
            Method::Lanczos5,
            Method::Gaussian,
            Method::MitchellCubic,
        ];
        for method in all {
            for antialias in [false, true] {
                for (size, to) in
                    [(Size::new(7, 5, 3), (3, 9)), (Size::new(1, 2, 4), (5, 1)), (Size::new(4, 4, 1), (4, 4))]
                {
                    let out = resize(&vec![77; size.items()], size, to, method, antialias);
                    assert!(out.iter().all(|x| (x - 77.0).abs() < 1e-3), "{method:?} {antialias} {out:?}");
                }
            }
        }
        let size = Size::new(3, 4, 3);
        let src: Vec<u8> = (0..36).map(|i| i * 7).collect();
        let same: Vec<f32> = src.iter().map(|x| f32::from(*x)).collect();
        for method in [Method::Bilinear, Method::Bicubic, Method::Area] {
            assert_eq!(resize(&src, size, (3, 4), method, false), same, "{method:?}");
        }
    }

    #[test]
    fn a_part_of_the_result_equals_that_part() {
        let size = Size::new(40, 50, 3);
        let src: Vec<u8> = (0..size.items()).map(|i| (i * 37 % 251) as u8).collect();
        for (method, antialias) in [(Method::Bilinear, false), (Method::Bilinear, true), (Method::Lanczos3, true)] {
            let whole = resize(&src, size, (21, 33), method, antialias);
            let mut rows = Taps::part(method, antialias, 40, 21, 5..12);
            let mut columns = Taps::part(method, antialias, 50, 33, 7..20);
            let (down, across) = (rows.source(), columns.source());
            rows.rebase(down.start);
            columns.rebase(across.start);
            // Only the part of the source that is needed.
            let cut: Vec<u8> = down
                .clone()
                .flat_map(|y| src[(y * 50 + across.start) * 3..(y * 50 + across.end) * 3].to_vec())
                .collect();
            let mut resizer = Resizer::default();
            let mut out = vec![0.0; 13 * 3];
            for y in 0..7 {
                resizer.row(&cut, across.len() * 3, 3, &rows, &columns, y, &mut out);
                assert_eq!(out, whole[((y + 5) * 33 + 7) * 3..][..39]);
            }
        }
    }

    #[test]
    fn mirrored_columns_are_the_mirrored_row() {
        let size = Size::new(9, 14, 3);
        let src: Vec<u8> = (0..size.items()).map(|i| (i * 31 % 253) as u8).collect();
        let (rows, mut columns) = (Taps::new(Method::Bilinear, true, 9, 4), Taps::new(Method::Bilinear, true, 14, 6));
        let mut resizer = Resizer::default();
        let (mut plain, mut mirrored) = (vec![0.0; 18], vec![0.0; 18]);
        resizer.row(&src, 42, 3, &rows, &columns, 1, &mut plain);
        columns.mirror();
        resizer.row(&src, 42, 3, &rows, &columns, 1, &mut mirrored);
        let back: Vec<f32> = plain.chunks_exact(3).rev().flatten().copied().collect();
        assert_eq!(mirrored, back);
    }
}
