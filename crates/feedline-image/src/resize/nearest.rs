//! The nearest pixel, of any type.

use crate::Size;

/// Copies pixels from `src` of `size` to `out` of `to` rows and columns.
pub fn nearest<T: Copy>(src: &[T], size: Size, (height, width): (usize, usize), out: &mut [T]) {
    let pick = |o: usize, input: usize, output: usize| {
        let scale = input as f32 / output as f32;
        (((o as f32 + 0.5) * scale).floor() as usize).min(input - 1)
    };
    let channels = size.channels;
    let columns: Vec<usize> = (0..width).map(|x| pick(x, size.width, width) * channels).collect();
    for (y, row) in out.chunks_exact_mut(width * channels).enumerate() {
        let from = &src[pick(y, size.height, height) * size.stride()..][..size.stride()];
        for (pixel, &x) in row.chunks_exact_mut(channels).zip(&columns) {
            pixel.copy_from_slice(&from[x..x + channels]);
        }
    }
}
