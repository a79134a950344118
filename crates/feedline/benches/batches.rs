//! What large batches cost: `cargo bench -p feedline --bench batches [batch_size]`. Pictures of bytes become floats,
//! then batches of tens of megabytes, made by several workers.

use feedline::Dataset;
use feedline::element::{Tensor, Value};
use std::time::Instant;

const PICTURES: usize = 256;
const PASSES: i64 = 12;

fn main() -> feedline::Result<()> {
    let size: i64 = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(64);
    let pictures = Tensor::from_items([PICTURES, 224, 224, 3], &vec![7u8; PICTURES * 224 * 224 * 3]);
    let ds = Dataset::from_tensor_slices(pictures)?.repeat(Some(PASSES))?;
    let ds = ds.map(|b, x| {
        let float =
            b.call("cast", &[x[0]], serde_json::from_value(serde_json::json!({"dtype": "float32"})).unwrap())?;
        let scale = b.constant(Value::Tensor(Tensor::scalar(255f32)))?;
        b.call("truediv", &[float, scale], Default::default())
    })?;
    let ds = ds.batch(size, true)?;
    for _ in 0..3 {
        let (wall, cpu) = (Instant::now(), cpu_ms());
        let batches = ds.iter()?.map(|b| b.map(drop)).collect::<feedline::Result<Vec<_>>>()?.len();
        let (wall, cpu) = (wall.elapsed().as_secs_f64() * 1e3, cpu_ms() - cpu);
        let each = batches as f64;
        println!("{batches} batches of {size}: {:.2} ms wall, {:.2} ms of CPU a batch", wall / each, cpu / each);
    }
    Ok(())
}

/// CPU time of this process so far.
fn cpu_ms() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one struct of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 * 1e3 + t.tv_nsec as f64 / 1e6
}
