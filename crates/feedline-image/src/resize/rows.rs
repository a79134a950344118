//! The two passes, written so that compilers make them of wide instructions.

use super::Taps;

/// What pixels can be made of.
pub trait Sample: Copy + Send + Sync {
    fn to_f32(self) -> f32;
}

macro_rules! samples {
    ($($t:ty => $f:expr),*) => { $(impl Sample for $t {
        #[inline(always)]
        fn to_f32(self) -> f32 {
            let f: fn($t) -> f32 = $f;
            f(self)
        }
    })* };
}

samples!(u8 => f32::from, i8 => f32::from, u16 => f32::from, i16 => f32::from, f32 => |x| x,
         i32 => |x| x as f32, u32 => |x| x as f32, i64 => |x| x as f32, u64 => |x| x as f32, f64 => |x| x as f32);

/// Makes rows; holds the memory for it.
#[derive(Default)]
pub struct Resizer {
    line: Vec<f32>,
}

impl Resizer {
    /// Row `y` of the result: `columns.len()` pixels of `channels`. Rows of the source are `stride` items apart.
    #[allow(clippy::too_many_arguments)]
    pub fn row<S: Sample>(
        &mut self,
        src: &[S],
        stride: usize,
        channels: usize,
        rows: &Taps,
        columns: &Taps,
        y: usize,
        out: &mut [f32],
    ) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { row_avx2(&mut self.line, src, stride, channels, rows, columns, y, out) };
        }
        row(&mut self.line, src, stride, channels, rows, columns, y, out);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[allow(clippy::too_many_arguments)]
unsafe fn row_avx2<S: Sample>(
    line: &mut Vec<f32>,
    src: &[S],
    stride: usize,
    channels: usize,
    rows: &Taps,
    columns: &Taps,
    y: usize,
    out: &mut [f32],
) {
    row(line, src, stride, channels, rows, columns, y, out);
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn row<S: Sample>(
    line: &mut Vec<f32>,
    src: &[S],
    stride: usize,
    channels: usize,
    rows: &Taps,
    columns: &Taps,
    y: usize,
    out: &mut [f32],
) {
    let needed = columns.source();
    let (start, len) = (needed.start * channels, needed.len() * channels);
    // Pixels of three are read as four.
    if line.len() < len + 1 {
        line.resize(len + 1, 0.0);
    }
    let (first, weights) = rows.at(y);
    let source = |k: usize| &src[(first + k) * stride + start..][..len];
    add_rows(source, weights, &mut line[..len]);
    match channels {
        1 => mix::<1>(line, needed.start, columns, out),
        3 => mix_three(line, needed.start, columns, out),
        4 => mix::<4>(line, needed.start, columns, out),
        _ => mix_any(line, needed.start, columns, channels, out),
    }
}

/// The weighted sum of rows.
#[inline(always)]
fn add_rows<'a, S: Sample + 'a>(source: impl Fn(usize) -> &'a [S], weights: &[f32], line: &mut [f32]) {
    let mut k = 0;
    // Weights of zero stand where the source ends.
    while k < weights.len() && weights[k] == 0.0 {
        k += 1;
    }
    let end = weights.len() - weights.iter().rev().take_while(|w| **w == 0.0).count();
    let mut begun = false;
    while k < end {
        match end - k {
            1 => {
                let (a, u) = (source(k), weights[k]);
                if begun {
                    line.iter_mut().zip(a).for_each(|(o, a)| *o += a.to_f32() * u);
                } else {
                    line.iter_mut().zip(a).for_each(|(o, a)| *o = a.to_f32() * u);
                }
                k += 1;
            }
            _ => {
                let ((a, u), (b, v)) = ((source(k), weights[k]), (source(k + 1), weights[k + 1]));
                let pairs = line.iter_mut().zip(a.iter().zip(b));
                if begun {
                    pairs.for_each(|(o, (a, b))| *o = (*o + a.to_f32() * u) + b.to_f32() * v);
                } else {
                    pairs.for_each(|(o, (a, b))| *o = a.to_f32() * u + b.to_f32() * v);
                }
                k += 2;
            }
        }
        begun = true;
    }
    if !begun {
        line.fill(0.0);
    }
}

/// Pixels of three channels, read and written as four: what is written too much, the next pixel is written over. Left to
/// itself the compiler makes three computations of it; this is twice as fast.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn mix_three(line: &[f32], start: usize, columns: &Taps, out: &mut [f32]) {
    use std::arch::x86_64::{_mm_add_ps, _mm_loadu_ps, _mm_mul_ps, _mm_set1_ps, _mm_storeu_ps};
    let (first, weights) = columns.all();
    let per = columns.per();
    let Some(before_last) = first.len().checked_sub(1) else { return };
    // All pixels that are read lie in the line, with one item behind them; all that are written lie in the row.
    assert!(start == columns.source().start && line.len() > columns.source().len() * 3);
    assert!(out.len() == first.len() * 3 && weights.len() == first.len() * per);
    for i in 0..=before_last {
        let at = (first[i] as usize - start) * 3;
        // SAFETY: `at / 3 + per` is at most the length of the source, which is in pixels what `line` has in items, and
        // `line` has one item more. Writing four items at `3 i` stays in the row for all but the last pixel, which is
        // written by itself. Weights are `per` to an item. SSE is a part of x86-64.
        unsafe {
            let weight = weights.as_ptr().add(i * per);
            let mut sum = _mm_mul_ps(_mm_loadu_ps(line.as_ptr().add(at)), _mm_set1_ps(*weight));
            for k in 1..per {
                let pixel = _mm_loadu_ps(line.as_ptr().add(at + 3 * k));
                sum = _mm_add_ps(sum, _mm_mul_ps(pixel, _mm_set1_ps(*weight.add(k))));
            }
            if i < before_last {
                _mm_storeu_ps(out.as_mut_ptr().add(i * 3), sum);
            } else {
                let mut last = [0.0; 4];
                _mm_storeu_ps(last.as_mut_ptr(), sum);
                out[i * 3..].copy_from_slice(&last[..3]);
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn mix_three(line: &[f32], start: usize, columns: &Taps, out: &mut [f32]) {
    mix::<3>(line, start, columns, out);
}

/// Pixels of `C` channels.
#[inline(always)]
fn mix<const C: usize>(line: &[f32], start: usize, columns: &Taps, out: &mut [f32]) {
    let (first, weights) = columns.all();
    let pixel = |i: usize| -> [f32; C] { *line[i * C..].first_chunk().expect("the line is long enough") };
    let (places, _) = out.as_chunks_mut::<C>();
    for ((out, first), weights) in places.iter_mut().zip(first).zip(weights.chunks_exact(columns.per())) {
        let at = *first as usize - start;
        *out = pixel(at).map(|x| x * weights[0]);
        for (k, w) in weights.iter().enumerate().skip(1) {
            let next = pixel(at + k);
            *out = std::array::from_fn(|c| out[c] + next[c] * w);
        }
    }
}

#[inline(always)]
fn mix_any(line: &[f32], start: usize, columns: &Taps, channels: usize, out: &mut [f32]) {
    for (i, out) in out.chunks_exact_mut(channels).enumerate() {
        let (first, weights) = columns.at(i);
        out.fill(0.0);
        for (k, w) in weights.iter().enumerate() {
            let pixel = &line[(first - start + k) * channels..][..channels];
            out.iter_mut().zip(pixel).for_each(|(o, x)| *o += x * w);
        }
    }
}
