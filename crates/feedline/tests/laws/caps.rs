//! Caps that are kept, not only reported: functions count how many calls there are at once, and how many were begun.

use super::calls::{Calls, How, consumer, doing, next, pass};
use super::*;
use feedline::runtime::{Settings, configure, free_cores};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const ROWS: i64 = 200;

/// A function that takes a moment, in which others can begin.
fn counted(input: Plan, calls: &Arc<Calls>, how: How) -> Plan {
    let calls = calls.clone();
    doing(input, how, move |x| calls.call(x, || std::thread::sleep(Duration::from_millis(1))))
}

fn at_once(n: i64) -> How {
    How { num_parallel_calls: Some(n), ..How::default() }
}

fn python(how: How) -> How {
    How { is_python: true, ..how }
}

/// The calls that there were at once at most in a pass.
fn most(how: How, options: Options, pool: &Arc<Pool>) -> usize {
    let calls = Calls::new();
    assert_eq!(pass(&counted(range(ROWS), &calls, how), options, pool).count(), ROWS as usize);
    calls.seen().most
}

#[test]
fn num_parallel_calls_caps_calls() {
    let pool = Pool::new(4);
    for order in [true, false] {
        let options = Options { deterministic: Some(order), ..Options::default() };
        for n in 1..=4 {
            assert_eq!(most(at_once(n), options.clone(), &pool), n as usize);
            assert_eq!(most(python(at_once(n)), options.clone(), &pool), n as usize);
        }
        // More than there are threads; the consumer, who helps, counts as one.
        assert_eq!(most(at_once(-1), options.clone(), &pool), 4);
        assert_eq!(most(at_once(9), options.clone(), &pool), 4);
        assert_eq!(most(python(at_once(-1)), options.clone(), &pool), 4);
        assert_eq!(most(python(How::default()), options, &pool), 1, "Python's are serial unless more is asked for");
    }
    pool.stop();
}

#[test]
fn a_pipelines_options_cap_its_workers() {
    let pool = Pool::new(4);
    for how in [at_once(-1), python(at_once(-1))] {
        for n in 1..=4 {
            let options = Options { cpu_budget: Some(n), ..Options::default() };
            assert_eq!(most(how, options, &pool), n);
        }
        assert_eq!(most(at_once(2), Options { cpu_budget: Some(3), ..Options::default() }, &pool), 2);
        let cores = free_cores(0);
        for leave in [0, cores - 1, cores + 3] {
            let free = cores.saturating_sub(leave).max(1);
            let options = Options { leave_cores: Some(leave), ..Options::default() };
            assert_eq!(most(how, options.clone(), &pool), free.min(4), "{cores} cores, {leave} left");
            let options = Options { cpu_budget: Some(2), ..options };
            assert_eq!(most(how, options, &pool), free.min(2));
        }
    }
    pool.stop();
}

/// Not those of each part of it that works ahead.
#[test]
fn a_pipelines_options_cap_all_of_it() {
    let pool = Pool::new(4);
    for (n, how) in [(1, at_once(-1)), (1, python(at_once(-1))), (2, at_once(-1)), (3, python(at_once(-1)))] {
        let calls = Calls::new();
        let first = batches(counted(range(ROWS), &calls, at_once(-1)));
        let options = Options { cpu_budget: Some(n), ..Options::default() };
        let plan = counted(first, &calls, how);
        // Another pipeline takes what this one leaves.
        let others = Calls::new();
        let beside = consumer(pass(&counted(range(ROWS), &others, at_once(-1)), Options::default(), &pool));
        assert_eq!(pass(&plan, options, &pool).count(), (ROWS as usize).div_ceil(3));
        assert_eq!(std::iter::from_fn(|| next(&beside)).count(), ROWS as usize);
        assert_eq!(calls.seen().most, n);
    }
    pool.stop();
}

/// Passes side by side share the threads of their pool.
#[test]
fn the_budget_of_a_pool_is_that_of_all_its_passes() {
    let (calls, pool) = (Calls::new(), Pool::new(3));
    let plan = batches(counted(range(ROWS), &calls, at_once(-1)));
    let plan = counted(plan, &calls, python(at_once(-1)));
    let passes = [(); 3].map(|()| consumer(pass(&plan, Options::default(), &pool)));
    for got in passes {
        assert_eq!(std::iter::from_fn(|| next(&got)).count(), (ROWS as usize).div_ceil(3));
    }
    assert_eq!(calls.seen().most, 3);
    pool.stop();
}

/// Chunks that lie ready at the end of a pipeline (`READY` in `runtime/build.rs`).
const READY: usize = 16;

/// Whoever takes one element and stops: so many are made besides, and no more.
#[test]
fn prefetch_bounds_what_is_begun() {
    let workers = 4;
    let pool = Pool::new(workers);
    for how in [at_once(-1), python(at_once(-1))] {
        for (size, prefetch) in [(1, None), (12, None), (1, Some(false)), (12, Some(false)), (3, Some(true))] {
            let calls = Calls::new();
            let plan = make("prefetch", json!({ "buffer_size": size }), vec![counted(range(ROWS), &calls, how)]);
            let mut iter = pass(&plan, Options { prefetch, ..Options::default() }, &pool);
            // Whoever asks for a queue ahead of the loop has it behind that one, and it is full, too.
            let ready = size + if prefetch == Some(true) { READY } else { 0 };
            for taken in [1, 2] {
                iter.next().unwrap().unwrap();
                let begun = calls.until_still();
                // Those that lie ready, and those that workers were at when the last of them came.
                let expected = taken + ready..taken + ready + workers;
                assert!(expected.contains(&begun), "prefetch({size}), {taken} taken: {begun}, not {expected:?}");
            }
        }
    }
    pool.stop();
}

/// Work that goes on while it is looked at.
struct Running {
    calls: Arc<Calls>,
    stop: Arc<std::sync::atomic::AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Running {
    fn new(iter: impl FnOnce(Plan) -> Iter, how: How) -> Running {
        let (calls, stop) = (Calls::new(), Arc::new(std::sync::atomic::AtomicBool::new(false)));
        let (mut iter, stopped) = (iter(counted(range(i64::MAX), &calls, how)), stop.clone());
        let thread = std::thread::spawn(move || while !stopped.load(Relaxed) && iter.next().is_some() {});
        Running { calls, stop, thread }
    }
    fn wait(&self, more: usize) {
        let begun = self.calls.begun();
        self.calls.until("more calls", |seen| seen.begun.len() >= begun + more);
    }
    /// The calls at once from now on, when those have ended that were there.
    fn most(&self) -> usize {
        self.wait(20);
        self.calls.forget_most();
        self.wait(200);
        self.calls.seen().most
    }
    fn stop(self) {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap();
    }
}

#[test]
fn a_budget_can_be_changed_while_work_runs() {
    for how in [at_once(-1), python(at_once(-1))] {
        let pool = Pool::new(4);
        let running = Running::new(|plan| pass(&plan, Options::default(), &pool), how);
        assert_eq!(running.most(), 4);
        for budget in [1, 3, 2, 4] {
            pool.set_budget(budget);
            assert_eq!(running.most(), budget);
        }
        running.stop();
        pool.stop();
    }
}

/// One thread stays, whatever they are: somebody has to give them work.
#[test]
fn processes_that_compute_count_among_the_threads() {
    let pool = Pool::new(4);
    let running = Running::new(|plan| pass(&plan, Options::default(), &pool), at_once(-1));
    for (change, most) in [(0, 4), (1, 3), (2, 1), (5, 1), (-6, 2), (-2, 4)] {
        pool.elsewhere(change);
        assert_eq!(running.most(), most, "{change} more");
    }
    running.stop();
    pool.stop();
}

#[test]
fn a_pool_follows_what_the_machine_allows() {
    static ALLOWED: AtomicUsize = AtomicUsize::new(4);
    let pool = Pool::following(|| ALLOWED.load(Relaxed));
    let running = Running::new(|plan| pass(&plan, Options::default(), &pool), at_once(-1));
    assert_eq!(running.most(), 4);
    for allowed in [1, 3] {
        ALLOWED.store(allowed, Relaxed);
        running.calls.until("another look", |_| pool.budget() == allowed);
        assert_eq!(running.most(), allowed);
    }
    running.stop();
    pool.stop();
}

/// Settings are those of a process: one of its own looks at them.
#[test]
fn settings_of_the_process_cap_its_pool() {
    const CHILD: &str = "FEEDLINE_LAWS_SETTINGS";
    if std::env::var_os(CHILD).is_none() {
        let test = [module_path!().split_once("::").unwrap().1, "settings_of_the_process_cap_its_pool"].join("::");
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let command = command.args([&test, "--exact", "--nocapture"]).env(CHILD, "").env("FEEDLINE_CPU_BUDGET", "3");
        let out = command.env_remove("FEEDLINE_LEAVE_CORES").output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        return;
    }
    let options = Options { chunk_rows: Some(1), ..Options::default() };
    let iter = |plan| Dataset::from_plan(plan).with_options(options).unwrap().iter().unwrap();
    let running = Running::new(iter, at_once(-1));
    assert_eq!(running.most(), 3);
    let budget = |n| Settings { cpu_budget: Some(n), ..Settings::default() };
    for n in [1, 4, 2] {
        configure(budget(n));
        assert_eq!(running.most(), n);
    }
    configure(budget(4));
    for leave in [free_cores(0) - 1, 0] {
        configure(Settings { leave_cores: Some(leave), ..Settings::default() });
        assert_eq!(running.most(), free_cores(leave).min(4), "{leave} left");
    }
    running.stop();
}
