//! What a picture costs on one core: decoded whole, in part, resized. `cargo bench -p feedline-image --features turbo`

use feedline_image::Size;
use feedline_image::codec::jpeg::{self, DECODER, Job, Options};
use feedline_image::geometry::Rect;
use feedline_image::resize::{Method, Resizer, Taps};
use std::hint::black_box;

/// Noise of several sizes, as dense as a photograph: about 100 KB as a JPEG.
fn photo(seed: u64) -> Vec<u8> {
    let size = Size::new(375, 500, 3);
    let noise = |x: usize, y: usize, c: usize, octave: usize| {
        let mut h =
            (x >> octave) as u64 ^ ((y >> octave) as u64) << 20 ^ (c as u64) << 40 ^ (octave as u64) << 44 ^ seed << 50;
        h = (h ^ h >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        h = (h ^ h >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (h >> 56) as f32 - 128.0
    };
    let mut pixels = Vec::with_capacity(size.items());
    for y in 0..size.height {
        for x in 0..size.width {
            for c in 0..3 {
                let grey =
                    [0.13, 0.15, 0.2, 0.3, 0.4].iter().enumerate().map(|(o, w)| w * noise(x, y, 3, o)).sum::<f32>();
                let tint = [0.02, 0.05, 0.1].iter().enumerate().map(|(o, w)| w * noise(x, y, c, o + 2)).sum::<f32>();
                pixels.push((128.0 + grey + tint).clamp(0.0, 255.0) as u8);
            }
        }
    }
    let how = jpeg::Encoding { quality: 92, ..Default::default() };
    jpeg::encode(&pixels, size, how).expect("a picture")
}

/// CPU time of this thread: other programs do not count.
fn cpu() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written, nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn measure(name: &str, mut f: impl FnMut(usize)) {
    let mut best = f64::MAX;
    for _ in 0..7 {
        let start = cpu();
        (0..40).for_each(&mut f);
        best = best.min((cpu() - start) / 40.0);
    }
    println!("{name:<42} {:8.1} us", best * 1e6);
}

fn main() {
    let photos: Vec<Vec<u8>> = (0..20).map(photo).collect();
    println!("{DECODER}, {} bytes", photos.iter().map(|p| p.len()).sum::<usize>() / photos.len());
    let options = Options { channels: 3, ..Options::default() };
    let job = |i: usize| Job::new(&photos[i % photos.len()], options).expect("a JPEG");
    let mut whole = vec![0; 375 * 500 * 3];
    measure("header", |i| {
        black_box(job(i));
    });
    measure("decode", |i| job(i).decode(&mut whole).expect("pixels"));
    let accurate = Options { accurate: true, ..options };
    measure("decode, accurate", |i| {
        Job::new(&photos[i % photos.len()], accurate).expect("a JPEG").decode(&mut whole).expect("pixels");
    });
    let rect = Rect { y: 40, x: 90, height: 245, width: 327 };
    measure("decode 245 x 327 of it", |i| drop(job(i).decode_window(rect)));
    let (mut resizer, mut out) = (Resizer::default(), vec![0.0; 224 * 224 * 3]);
    for (name, method, antialias) in [
        ("bilinear", Method::Bilinear, false),
        ("bilinear, antialias", Method::Bilinear, true),
        ("bicubic, antialias", Method::Bicubic, true),
        ("lanczos3, antialias", Method::Lanczos3, true),
    ] {
        measure(&format!("resize 245 x 327 to 224 x 224, {name}"), |_| {
            let (rows, columns) = (Taps::new(method, antialias, 245, 224), Taps::new(method, antialias, 327, 224));
            for (y, row) in out.chunks_exact_mut(224 * 3).enumerate() {
                resizer.row(&whole, 1500, 3, &rows, &columns, y, row);
            }
            black_box(&out);
        });
    }
}
