//! The pool, segments and iterators under explored schedules: `cargo test -p feedline --features shuttle --test shuttle`.
//!
//! Every lock, condition variable and atomic of `runtime` is shuttle's here, so each test runs under many interleavings
//! (random, and with priorities that change at chosen points) and fails on a deadlock, a lost wake-up or a wrong order.
#![cfg(feature = "shuttle")]

use feedline::element::{DType, Spec, Tensor, Value};
use feedline::plan::Bound;
use feedline::runtime::{Iter, Pool};
use feedline::save::Portions;
use feedline::{Dataset, Error, Options};
use std::sync::Arc;

fn explore(test: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(test.clone(), 300);
    shuttle::check_pct(test, 300, 3);
}

/// Runs a dataset on a pool of its own and ends the pool, so that a schedule has an end.
fn on_pool<R>(budget: usize, ds: &Dataset, f: impl FnOnce(&mut Iter) -> R) -> R {
    let pool = Pool::new(budget);
    let bound = Bound { plan: ds.plan().clone(), env: Arc::new([]) };
    let mut iter = Iter::new(&bound, 0, pool.clone()).unwrap();
    let result = f(&mut iter);
    drop(iter);
    pool.stop();
    result
}

fn add_one(ds: &Dataset) -> Dataset {
    ds.map_fn(Spec::scalar(DType::Int64), |e| {
        let x: i64 = e[0].tensor().item();
        if x == 3 {
            return Err(Error::data("three"));
        }
        Ok(smallvec::smallvec![Value::Tensor(Tensor::scalar(x + 1))])
    })
    .unwrap()
}

fn values(iter: &mut Iter) -> Vec<Option<i64>> {
    iter.map(|e| e.ok().map(|e| e[0].tensor().item::<i64>())).collect()
}

#[test]
fn order_and_errors_hold_for_any_schedule() {
    for budget in [1, 2, 3] {
        explore(move || {
            let options = Options { chunk_rows: Some(1), ..Default::default() };
            let ds = add_one(&Dataset::range(6).unwrap()).with_options(options).unwrap();
            let got = on_pool(budget, &ds, values);
            assert_eq!(got, [Some(1), Some(2), Some(3), None, Some(5), Some(6)]);
        });
    }
}

#[test]
fn two_segments_hand_over() {
    explore(|| {
        let options = Options { chunk_rows: Some(2), ..Default::default() };
        let ds = Dataset::range(7).unwrap();
        let ds = ds.map_fn(Spec::scalar(DType::Int64), Ok).unwrap().batch(2, false).unwrap();
        let ds = ds.with_options(options).unwrap();
        let sizes: Vec<usize> = on_pool(2, &ds, |it| it.map(|e| e.unwrap()[0].tensor().len()).collect());
        assert_eq!(sizes, [2, 2, 2, 1]);
    });
}

#[test]
fn unordered_segments_lose_nothing() {
    explore(|| {
        let options = Options { chunk_rows: Some(1), deterministic: Some(false), ..Default::default() };
        let ds = Dataset::range(5).unwrap();
        let ds = ds.map_fn(Spec::scalar(DType::Int64), Ok).unwrap().with_options(options).unwrap();
        let mut got = on_pool(2, &ds, values);
        got.sort();
        assert_eq!(got, [Some(0), Some(1), Some(2), Some(3), Some(4)]);
    });
}

#[test]
fn dropped_in_the_middle() {
    explore(|| {
        let options = Options { chunk_rows: Some(1), ..Default::default() };
        let ds = add_one(&Dataset::range(50).unwrap()).batch(2, false).unwrap().with_options(options).unwrap();
        on_pool(2, &ds, |it| assert!(it.next().unwrap().is_ok()));
    });
}

#[test]
fn a_panic_ends_the_pipeline_with_an_error() {
    explore(|| {
        let options = Options { chunk_rows: Some(1), ..Default::default() };
        let ds = Dataset::range(4).unwrap();
        let ds = ds.map_fn(Spec::scalar(DType::Int64), |e| {
            if e[0].tensor().item::<i64>() == 1 { panic!("planted") } else { Ok(e) }
        });
        let ds = ds.unwrap().with_options(options).unwrap();
        let got: Vec<_> = on_pool(2, &ds, |it| it.collect());
        assert!(got.iter().any(|e| matches!(e, Err(e) if e.to_string().contains("planted"))));
    });
}

/// Portions 0 to 5 for two writers in turn; those in `bad` fail.
fn portions(budget: usize, bad: &'static [usize], check: impl FnOnce(Portions<Vec<usize>>)) {
    let pool = Pool::new(budget);
    let portions = Portions::new(Some(pool.clone()), 2);
    let desks = [portions.add(vec![]), portions.add(vec![])];
    for n in 0..6 {
        portions.push(desks[n % 2], 1, move |list: &mut Vec<usize>| {
            list.push(n);
            if bad.contains(&n) { Err(Error::data(n.to_string())) } else { Ok(()) }
        });
        if bad.is_empty() {
            portions.wait(2, &mut || Ok(())).unwrap();
        }
    }
    check(portions);
    pool.stop();
}

#[test]
fn portions_of_two_writers_keep_their_order() {
    for budget in [1, 2, 3] {
        explore(move || {
            portions(budget, &[], |all| {
                all.settle(&mut || Ok(())).unwrap();
                assert_eq!(all.into_writers(), [[0, 2, 4], [1, 3, 5]]);
            });
        });
    }
}

#[test]
fn the_error_of_the_first_portion_is_said() {
    for budget in [1, 2, 3] {
        explore(move || {
            portions(budget, &[2, 3], |all| {
                assert_eq!(all.settle(&mut || Ok(())).unwrap_err().message(), "2");
                assert_eq!(all.into_writers()[0], [0, 2]);
            });
        });
    }
}

#[test]
fn portions_dropped_in_the_middle() {
    explore(|| portions(2, &[4], drop));
}
