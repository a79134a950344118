//! What order costs and what it keeps, seen from outside: a function waits in the middle of a call, and the test looks at
//! what the others do meanwhile.

use super::calls::{Calls, How, consumer, doing, next, pass};
use super::*;

const ROWS: i64 = 1000;
/// As `ARCHITECTURE.md` has it: slots of a queue for each worker.
const WINDOW: usize = 64;

/// `range` through a function that waits at element 0 until it is released.
fn waiting(calls: &Arc<Calls>, how: How) -> Plan {
    let calls = calls.clone();
    doing(range(ROWS), how, move |x| {
        calls.call(x, || {
            if x == 0 {
                calls.until_released();
            }
        });
    })
}

/// Functions in Rust, and such as Python's of which several may run at once.
fn kinds() -> [How; 2] {
    let many = How { num_parallel_calls: Some(-1), ..How::default() };
    [many, How { is_python: true, ..many }]
}

#[test]
fn a_slow_element_does_not_hold_up_others_where_order_is_free() {
    let free = Options { deterministic: Some(false), ..Options::default() };
    for workers in [2, 4] {
        for how in kinds() {
            let said = How { deterministic: Some(false), ..how };
            for (how, options) in [(how, free.clone()), (said, Options::default())] {
                let (calls, pool) = (Calls::new(), Pool::new(workers));
                let iter = pass(&waiting(&calls, how), options, &pool);
                // A worker has it, and not the consumer, who could take nothing meanwhile.
                calls.until("element 0", |seen| seen.begun.contains(&0));
                let got = consumer(iter);
                let mut others: Vec<i64> = (1..ROWS).map(|_| next(&got).unwrap().unwrap()).collect();
                others.sort_unstable();
                assert_eq!(others, (1..ROWS).collect::<Vec<_>>());
                calls.release();
                assert_eq!(next(&got).unwrap().unwrap(), 0);
                assert!(next(&got).is_none());
                pool.stop();
            }
        }
    }
}

#[test]
fn others_go_on_up_to_the_window_where_order_is_kept() {
    for workers in [2, 4] {
        for how in kinds() {
            let (calls, pool) = (Calls::new(), Pool::new(workers));
            let iter = pass(&waiting(&calls, how), Options::default(), &pool);
            calls.until("element 0", |seen| seen.begun.contains(&0));
            let got = consumer(iter);
            assert_eq!(calls.until_still(), WINDOW * workers, "{workers} workers");
            assert!(got.try_recv().is_err(), "something came before element 0");
            calls.release();
            for x in 0..ROWS {
                assert_eq!(next(&got).unwrap().unwrap(), x);
            }
            assert!(next(&got).is_none());
            assert_eq!(calls.begun(), ROWS as usize);
            pool.stop();
        }
    }
}
