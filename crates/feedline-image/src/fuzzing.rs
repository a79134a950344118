//! What fuzzing runs: functions of any bytes, which must neither panic nor take memory that a picture may not take.

use crate::Size;
use crate::codec::Opened;
use crate::codec::jpeg::{self, Encoding, Job, Options};
use crate::geometry::Rect;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// Every target. Adding one: its function, and a file in `fuzz/fuzz_targets`.
pub static TARGETS: &[(&str, Target)] =
    &[("jpeg_decoders", jpeg_decoders), ("jpeg_window", jpeg_window), ("picture", picture)];

/// Runs a target by its name.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(n, _)| *n == name).expect("a target of the table");
    target(bytes);
}

/// Larger pictures are right too, but slow.
const PIXELS: usize = 1 << 20;

/// Any bytes as a picture of any format.
fn picture(bytes: &[u8]) {
    for channels in [0, 1, 3, 4] {
        for recover in [false, true] {
            let options = Options { channels, recover, ..Options::default() };
            let Ok(opened) = Opened::new(bytes, options) else { continue };
            if opened.frames * opened.size.height * opened.size.width <= PIXELS {
                let mut out = vec![0; opened.frames * opened.size.items()];
                let _ = opened.read(&mut out);
            }
        }
    }
}

/// A part of a JPEG; four bytes say which.
fn jpeg_window(bytes: &[u8]) {
    let Some(([y, x, h, w], bytes)) = bytes.split_first_chunk::<4>() else { return };
    let options = Options { channels: 3, recover: true, ..Options::default() };
    let Ok(job) = Job::new(bytes, options) else { return };
    if job.size.height * job.size.width > PIXELS {
        return;
    }
    let at = |n: u8, side: usize| usize::from(n) * side / 256;
    let (y, x) = (at(*y, job.size.height), at(*x, job.size.width));
    let rect = Rect { y, x, height: 1 + at(*h, job.size.height - y), width: 1 + at(*w, job.size.width - x) };
    if let Ok(window) = job.decode_window(rect) {
        let last = (rect.height - 1) * window.stride + rect.width * job.size.channels;
        assert!(last <= window.items().len(), "{rect:?} in {:?}", job.size);
    }
}

/// Bytes as pixels, written as a JPEG: the decoders must agree on it. Three bytes say how.
fn jpeg_decoders(bytes: &[u8]) {
    let Some(([width, how, quality], pixels)) = bytes.split_first_chunk::<3>() else { return };
    let (channels, width) = (if how & 1 == 0 { 3 } else { 1 }, usize::from(*width % 64) + 1);
    let size = Size::new((pixels.len() / (width * channels)).min(64), width, channels);
    if size.height == 0 {
        return;
    }
    let encoding = Encoding {
        quality: quality % 101,
        progressive: how & 2 != 0,
        optimize: how & 4 != 0,
        chroma_downsampling: how & 8 != 0,
    };
    let jpeg = jpeg::encode(&pixels[..size.items()], size, encoding).expect("any pixels can be written");
    jpeg::compare_decoders(&jpeg);
}
