//! `feedline verify` and `feedline index` in GB/s, from the page cache, beside what memory does: `cargo bench -p
//! feedline-cli`. A number behind `--` is the size of the file in MB.

use feedline_formats::tfrecord::frame;
use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const RUNS: usize = 5;

/// The best of some runs, in GB/s: others share the machine.
fn best(bytes: usize, mut run: impl FnMut() -> f64) -> f64 {
    let seconds = (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min);
    bytes as f64 / 1e9 / seconds
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Copies memory to memory on that many threads.
fn memcpy(from: &[u8], to: &mut [u8], threads: usize) {
    let part = from.len().div_ceil(threads);
    std::thread::scope(|scope| {
        for (from, to) in from.chunks(part).zip(to.chunks_mut(part)) {
            scope.spawn(move || black_box(to).copy_from_slice(black_box(from)));
        }
    });
}

/// Reads a file through a buffer that stays in the cache of the CPU.
fn read(path: &Path) {
    let (mut file, mut buffer) = (std::fs::File::open(path).unwrap(), vec![0; 256 << 10]);
    while file.read(&mut buffer).unwrap() > 0 {
        black_box(&buffer);
    }
}

/// What the command itself says that it took.
fn command(words: &[&str], path: &Path) -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_feedline"));
    let output = command.args(words).arg("--json").arg(path).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{words:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    json["seconds"].as_f64().unwrap()
}

fn main() {
    let megabytes = std::env::args().filter_map(|word| word.parse::<usize>().ok()).next().unwrap_or(1000);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let dir = tempfile::tempdir().unwrap();
    let mut file = Vec::with_capacity((megabytes + 1) * 1_000_000);
    for record_bytes in [300, 100_000] {
        file.clear();
        let record: Vec<u8> = (0..record_bytes).map(|n| (n * n / 7) as u8).collect();
        while file.len() < megabytes * 1_000_000 {
            frame(&record, &mut file);
        }
        let path = dir.path().join("a.tfrecord");
        std::fs::write(&path, &file).unwrap();
        let mut copy = vec![0; file.len()];
        println!("{megabytes} MB, records of {record_bytes} bytes, {threads} CPUs, best of {RUNS}, GB/s:");
        println!("  memcpy, 1 thread    {:6.2}", best(file.len(), || timed(|| memcpy(&file, &mut copy, 1))));
        println!(
            "  memcpy, {threads} threads   {:6.2}",
            best(file.len(), || timed(|| memcpy(&file, &mut copy, threads)))
        );
        drop(copy);
        println!("  read, 1 thread      {:6.2}", best(file.len(), || timed(|| read(&path))));
        println!("  verify, 1 thread    {:6.2}", best(file.len(), || command(&["verify", "--threads", "1"], &path)));
        println!("  verify              {:6.2}", best(file.len(), || command(&["verify"], &path)));
        println!("  index               {:6.2}", best(file.len(), || command(&["index", "--force"], &path)));
    }
}
