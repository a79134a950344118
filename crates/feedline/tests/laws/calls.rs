//! Functions that tell how often they were called, and how many calls there are at once: what `order.rs` and `caps.rs` see of
//! the workers.

use super::*;
use feedline::element::Element;
use feedline::expr::HostFn;
use feedline::op::Function;
use feedline::ops::map::Map;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Whoever waits for longer than this hangs.
const LONG: Duration = Duration::from_secs(60);
/// What does not change for so long stands still.
const STILL: Duration = Duration::from_millis(300);

/// What was seen of some functions.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The elements, in the order in which they were begun.
    pub begun: Vec<i64>,
    pub inside: usize,
    /// Calls at once, at most.
    pub most: usize,
    pub released: bool,
}

#[derive(Default)]
pub struct Calls {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Calls {
    pub fn new() -> Arc<Calls> {
        Arc::default()
    }
    fn change(&self, f: impl FnOnce(&mut Seen)) {
        f(&mut self.seen.lock().unwrap());
        self.changed.notify_all();
    }
    /// Around what a function does.
    pub fn call(&self, element: i64, body: impl FnOnce()) {
        self.change(|seen| {
            seen.begun.push(element);
            seen.inside += 1;
            seen.most = seen.most.max(seen.inside);
        });
        body();
        self.change(|seen| seen.inside -= 1);
    }
    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }
    pub fn begun(&self) -> usize {
        self.seen.lock().unwrap().begun.len()
    }
    pub fn forget_most(&self) {
        self.change(|seen| seen.most = seen.inside);
    }
    /// Lets those go on that wait until `released`.
    pub fn release(&self) {
        self.change(|seen| seen.released = true);
    }
    pub fn until_released(&self) {
        self.until("released", |seen| seen.released);
    }
    pub fn until(&self, what: &str, is_so: impl Fn(&Seen) -> bool) {
        let (seen, late) =
            self.changed.wait_timeout_while(self.seen.lock().unwrap(), LONG, |seen| !is_so(seen)).unwrap();
        let seen = seen.clone();
        assert!(!late.timed_out(), "waited for {what}, and saw {seen:?}");
    }
    /// How many were begun when no more are.
    pub fn until_still(&self) -> usize {
        let (mut begun, mut since) = (self.begun(), Instant::now());
        while since.elapsed() < STILL {
            std::thread::sleep(STILL / 30);
            if self.begun() != begun {
                (begun, since) = (self.begun(), Instant::now());
            }
        }
        begun
    }
}

/// How a function is put into a plan.
#[derive(Clone, Copy, Default)]
pub struct How {
    pub num_parallel_calls: Option<i64>,
    pub deterministic: Option<bool>,
    /// Like one in Python: serial and in order unless more is asked for, and never run by a consumer that waits.
    pub is_python: bool,
}

struct Does<F>(F, bool);

impl<F> std::fmt::Debug for Does<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a function that is watched")
    }
}

impl<F: Fn(i64) + Send + Sync + 'static> HostFn for Does<F> {
    fn name(&self) -> String {
        format!("{self:?}")
    }
    fn call(&self, args: Element) -> feedline::Result<Element> {
        (self.0)(args[0].tensor().items::<i64>()[0]);
        Ok(args)
    }
    fn parallel(&self) -> bool {
        !self.1
    }
}

/// A `map` that does something, and gives its elements on as they are.
pub fn doing(input: Plan, how: How, f: impl Fn(i64) + Send + Sync + 'static) -> Plan {
    let How { num_parallel_calls, deterministic, is_python } = how;
    let function = Function::new(Graph::host(&input.spec, Arc::new(Does(f, is_python)), input.spec.clone()));
    let (synchronous, workers, on_worker_death, on_error, layers) = (false, None, None, None, 1);
    let map =
        Map { function, num_parallel_calls, deterministic, synchronous, workers, on_worker_death, on_error, layers };
    Plan::new(Arc::new(map), vec![input]).unwrap()
}

/// A pass with these options. Chunks have one row unless they say otherwise: a call is a step then.
pub fn pass(plan: &Plan, options: Options, pool: &Arc<Pool>) -> Iter {
    let options = Options { chunk_rows: options.chunk_rows.or(Some(1)), ..options };
    let ds = Dataset::from_plan(plan.clone()).with_options(options).unwrap();
    Iter::new(&Bound { plan: ds.plan().rewritten().unwrap().plan, env: Arc::new([]) }, 0, pool.clone()).unwrap()
}

/// A thread that takes all there is: what it got, one after the other. It has ended when the channel has.
pub fn consumer(iter: Iter) -> Receiver<Result<i64, feedline::Error>> {
    let (sender, got) = channel();
    std::thread::spawn(move || {
        for element in iter {
            if sender.send(element.map(|e| e[0].tensor().items::<i64>()[0])).is_err() {
                return;
            }
        }
    });
    got
}

/// The next of them, or the end.
pub fn next<T>(got: &Receiver<T>) -> Option<T> {
    match got.recv_timeout(LONG) {
        Ok(element) => Some(element),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
        Err(error) => panic!("nothing comes any more: {error}"),
    }
}
