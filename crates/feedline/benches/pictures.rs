//! JPEG to batch: what the kernels do alone in a loop on some threads, and what a pipeline makes of them. Pictures are
//! those of the benchmark, if they were made, else noise. `cargo bench -p feedline --features turbo --bench pictures`

mod training;

use feedline::Options;
use feedline::element::{Tensor, Value};
use feedline::expr::RowAt;
use std::time::Instant;
use training::{photos, source, train};

/// Pictures a second.
fn rate(pictures: usize, run: impl Fn()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    pictures as f64 / best
}

fn main() {
    let photos = photos();
    let chain = train().with_picture_chains().expect("one call");
    let source = source(&photos);
    let mut alone = Vec::new();
    for threads in [1, 2] {
        let loops = rate(photos.len(), || {
            std::thread::scope(|scope| {
                for part in photos.chunks(photos.len().div_ceil(threads)) {
                    let chain = &chain;
                    scope.spawn(move || {
                        for (pos, photo) in part.iter().enumerate() {
                            let element = smallvec::smallvec![Value::Tensor(Tensor::string(photo))];
                            let made = chain.eval_one(&element, &[], RowAt { epoch: 0, pos: pos as u64 });
                            std::hint::black_box(made.expect("a picture"));
                        }
                    });
                }
            });
        });
        let pipeline = source.map_graph(train()).and_then(|ds| ds.batch(64, false)).expect("a pipeline");
        let options = Options { cpu_budget: Some(threads), ..Options::default() };
        let pipeline = pipeline.with_options(options).expect("options");
        let piped = rate(photos.len(), || {
            pipeline.iter().expect("an iterator").for_each(|batch| drop(std::hint::black_box(batch.expect("a batch"))));
        });
        println!(
            "{threads} threads: {loops:7.0} pictures/s in a loop, {piped:7.0} by a pipeline ({:.2})",
            piped / loops
        );
        alone.push((loops, piped));
    }
    println!("from 1 to 2: {:.2} in a loop, {:.2} by a pipeline", alone[1].0 / alone[0].0, alone[1].1 / alone[0].1);
}
