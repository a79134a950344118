//! The pool, segments and iterators under explored schedules: `cargo test -p feedline --features shuttle --test shuttle`.
//!
//! Every lock, condition variable and atomic of `runtime` is shuttle's here, so each test runs under many interleavings
//! (random, and with priorities that change at chosen points) and fails on a deadlock, a lost wake-up or a wrong order.
#![cfg(feature = "shuttle")]

use feedline::element::{DType, Spec, Tensor, Value};
use feedline::plan::Bound;
use feedline::runtime::{Iter, Pool, Share, Work};
use feedline::save::Portions;
use feedline::{Dataset, Error, Options};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

fn explore(test: impl Fn() + Send + Sync + Clone + 'static) {
    explore_more(300, test);
}
/// For what takes many turns of one thread in a row.
fn explore_more(times: usize, test: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(test.clone(), times);
    shuttle::check_pct(test, times, 3);
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

#[test]
fn a_pipeline_that_asks_for_one_thread_goes_on_beside_others() {
    explore(|| {
        let pool = Pool::new(2);
        let pass = |cpu_budget| {
            let options = Options { chunk_rows: Some(1), cpu_budget, ..Default::default() };
            let ds = add_one(&Dataset::range(4).unwrap()).with_options(options).unwrap();
            Iter::new(&Bound { plan: ds.plan().clone(), env: Arc::new([]) }, 0, pool.clone()).unwrap()
        };
        let (mut own, mut beside) = (pass(Some(1)), pass(None));
        let beside = shuttle::thread::spawn(move || values(&mut beside));
        let expected = [Some(1), Some(2), Some(3), None];
        assert_eq!(values(&mut own), expected);
        assert_eq!(beside.join().unwrap(), expected);
        pool.stop();
    });
}

#[test]
fn processes_may_begin_and_end_meanwhile() {
    explore(|| {
        let pool = Pool::new(2);
        let changes = pool.clone();
        let changes = shuttle::thread::spawn(move || [2, -1, -1].map(|change| changes.elsewhere(change)));
        let options = Options { chunk_rows: Some(1), ..Default::default() };
        let ds = add_one(&Dataset::range(4).unwrap()).batch(2, false).unwrap().with_options(options).unwrap();
        let mut iter = Iter::new(&Bound { plan: ds.plan().clone(), env: Arc::new([]) }, 0, pool.clone()).unwrap();
        assert_eq!(iter.by_ref().count(), 2);
        changes.join().unwrap();
        drop(iter);
        pool.stop();
    });
}

/// A step that is left to workers, of a pipeline that asks for few threads.
struct Shared {
    share: Arc<Share>,
    left: shuttle::sync::atomic::AtomicUsize,
    done: shuttle::sync::Mutex<usize>,
    all_done: shuttle::sync::Condvar,
}

impl Work for Shared {
    fn step(self: Arc<Self>) {
        assert_eq!(self.left.fetch_sub(1, Relaxed), 1, "one at a time");
        self.left.fetch_add(1, Relaxed);
        *self.done.lock().unwrap() += 1;
        self.all_done.notify_one();
    }
    fn is_host(&self) -> bool {
        true
    }
    fn cost_ns(&self) -> u64 {
        0
    }
    fn share(&self) -> Option<Arc<Share>> {
        Some(self.share.clone())
    }
}

#[test]
fn what_waits_for_the_share_of_its_pipeline_is_not_forgotten() {
    explore_more(10_000, || {
        let pool = Pool::new(2);
        let work = Arc::new(Shared {
            share: Arc::new(Share::new(|| 1)),
            left: shuttle::sync::atomic::AtomicUsize::new(1),
            done: Default::default(),
            all_done: Default::default(),
        });
        // Nobody else takes it: what is submitted while another step runs has to be thought of when that ends.
        (0..3).for_each(|_| pool.submit(0, work.clone()));
        let mut done = work.done.lock().unwrap();
        while *done < 3 {
            done = work.all_done.wait(done).unwrap();
        }
        drop(done);
        pool.stop();
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
