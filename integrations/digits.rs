//! Small pictures of digits for the examples: 8 x 8, moved about, in shades, with noise.

use feedline::element::Tensor;
use feedline::{Dataset, Result};

/// Five columns by seven rows each; a row is five bits.
const SHAPES: [[u8; 7]; 10] = [
    [0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e],
    [0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e],
    [0x0e, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1f],
    [0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e],
    [0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02],
    [0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e],
    [0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e],
    [0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08],
    [0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e],
    [0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c],
];

/// Pictures (float32, 64) and their labels (int64), as elements.
pub fn digits(count: usize, seed: u64) -> Result<Dataset> {
    let mut state = seed;
    // splitmix64, as numbers from 0 up to 1.
    let mut random = move || {
        state = state.wrapping_add(0x9e3779b97f4a7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
    };
    let mut pixels = Vec::with_capacity(count * 64);
    let labels: Vec<i64> = (0..count).map(|i| (i % 10) as i64).collect();
    for label in &labels {
        let (left, top, ink) = ((random() * 4.0) as usize, (random() * 2.0) as usize, 0.6 + 0.4 * random());
        for y in 0..8 {
            for x in 0..8 {
                let inside = (left..left + 5).contains(&x) && (top..top + 7).contains(&y);
                let set = inside && SHAPES[*label as usize][y - top] >> (4 - (x - left)) & 1 == 1;
                pixels.push(if set { ink } else { 0.0 } + 0.2 * random());
            }
        }
    }
    Dataset::from_tensor_slices(vec![Tensor::from_items([count, 64], &pixels), Tensor::from_items([count], &labels)])
}
