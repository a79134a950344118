//! What becomes of a panic in a worker, which is a fault of feedline's: it ends the pass where it is, and nothing hangs.

use super::calls::{How, consumer, doing, next, pass};
use super::*;

const ROWS: i64 = 1000;

/// Where the function is that panics: run by workers, or in a serial stage.
fn panicking(stage: &str, at: i64) -> Plan {
    let planted = move |x: i64| assert!(x != at, "planted");
    match stage {
        "map" => doing(range(ROWS), calls(-1), planted),
        _ => {
            let all = move |e: &feedline::element::Element| {
                planted(e[0].tensor().item());
                Ok(true)
            };
            Dataset::range(ROWS).unwrap().take_while_fn(all).unwrap().into_plan()
        }
    }
}

fn calls(n: i64) -> How {
    How { num_parallel_calls: Some(n), ..How::default() }
}

/// A worker fails as none should: what was before it comes, it is said once and whose it is, and then there is the end, also
/// for whoever stands behind.
#[test]
fn a_panic_of_a_worker_is_one_error_in_its_place_and_then_the_end() {
    for stage in ["map", "take_while"] {
        for (chunk_rows, at) in [(Some(1), 0), (Some(1), 50), (Some(3), 50), (None, 0), (None, 50)] {
            // Other numbers of calls are other segments.
            let behind = doing(doing(panicking(stage, at), calls(3), |_| ()), calls(2), |_| ());
            let pool = Pool::new(4);
            let got = consumer(pass(&behind, Options { chunk_rows, ..Options::default() }, &pool));
            let mut before = 0;
            let error = loop {
                match next(&got).expect("an error") {
                    Ok(x) => assert_eq!(x, before),
                    Err(error) => break error,
                }
                before += 1;
            };
            // It is in the place of its chunk.
            let first = chunk_rows.map_or(0..=at, |rows| at / rows as i64 * rows as i64..=at);
            assert!(before == *first.start() || chunk_rows.is_none() && first.contains(&before), "{before}, {first:?}");
            assert_eq!(error.kind(), feedline::Kind::Internal);
            assert!(error.message().contains("planted"), "{error}");
            assert_eq!(error.at().op.as_deref(), Some(stage), "{error}");
            let behind: Vec<_> = std::iter::from_fn(|| next(&got)).collect();
            assert!(behind.is_empty(), "behind the panic at {at} of {stage}: {behind:?}");
            pool.stop();
        }
    }
}

#[test]
fn a_panic_is_not_that_of_the_operator_behind() {
    for stage in ["map", "take_while"] {
        let pool = Pool::new(4);
        let batched = batches(panicking(stage, 10));
        let error = pass(&batched, Options::default(), &pool).find_map(Result::err).unwrap();
        assert_eq!(error.at().op.as_deref(), Some(stage), "{error}");
        pool.stop();
    }
}

/// What others had made behind it is not lost to a state, and comes once.
#[test]
fn a_state_behind_a_panic_goes_on_behind_it() {
    let pool = Pool::new(4);
    let options = Options { chunk_rows: Some(1), ..Options::default() };
    let ds = Dataset::from_plan(doing(panicking("map", 50), calls(2), |_| ())).with_options(options).unwrap();
    let bound = Bound { plan: ds.plan().rewritten().unwrap().plan, env: Arc::new([]) };
    let mut iter = Iter::new(&bound, 0, pool.clone()).unwrap();
    assert_eq!(iter.by_ref().take_while(|e| e.is_ok()).count(), 50);
    let state = iter.state().unwrap();
    let rest = Iter::resume(&bound, &state, pool.clone()).unwrap();
    let rest: Vec<i64> = rest.map(|e| e.unwrap()[0].tensor().item()).collect();
    assert_eq!(rest, (51..ROWS).collect::<Vec<_>>());
    pool.stop();
}
