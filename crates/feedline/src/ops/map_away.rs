//! `map(function, workers=n)`: rows are sent to processes that call the function, and results come back in the order of
//! the rows. Who these processes are is known to the function alone (`expr/crew.rs`); how chunks wait for their answers
//! is the segment's business (`runtime/segment.rs`).

use super::map::Map;
use crate::element::{Chunk, Leaf, Slots, Spec};
use crate::error::{Error, Result};
use crate::expr::{Answer, Ask, Crew, Errand, Part, Reply};
use crate::op::Bound;
use crate::plan::Plan;
use crate::runtime::{BuildCx, Built, ChunkFn, Item, cores_for};
use feedline_io::Account;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// As many processes as a typing error might ask for are not started.
const MOST_WORKERS: i64 = 1024;

impl Map {
    pub(super) fn check_workers(&self, input: &Spec) -> Result<()> {
        match self.workers {
            Some(n) if n == 0 || !(-1..=MOST_WORKERS).contains(&n) => {
                crate::bail!(Usage, "workers must be between 1 and {MOST_WORKERS}, or AUTOTUNE (-1), not {n}")
            }
            _ => {}
        }
        if self.num_parallel_calls.is_some() || self.synchronous {
            crate::bail!(
                Usage,
                "workers says how many calls run at once; it excludes num_parallel_calls and synchronous"
            );
        }
        if self.function.0.only_host().is_none() {
            crate::bail!(Usage, "workers= is for functions that run as Python");
        }
        let mut leaves = input.leaves().into_iter().chain(self.function.spec().leaves());
        if leaves.any(|leaf| matches!(leaf, Leaf::Dataset(_))) {
            crate::bail!(Usage, "a dataset inside an element cannot go to another process; use flat_map on it first");
        }
        Ok(())
    }

    pub(super) fn build_away(&self, cx: &BuildCx, node: &Plan, workers: i64) -> Result<Built> {
        let workers = usize::try_from(workers).unwrap_or_else(|_| cores_for(&cx.run.options).min(cx.run.pool.budget()));
        let host = self.function.0.only_host().ok_or_else(|| Error::internal("a function that cannot be sent away"))?;
        let ask = Ask { workers, on_death: self.on_worker_death.unwrap_or_default(), anew: !cx.nested };
        let crew = host
            .crew(&ask)?
            .ok_or_else(|| Error::usage(format!("{} cannot be called in another process", host.name())))?;
        let ordered = self.deterministic.or(cx.run.options.deterministic).unwrap_or(true);
        cx.then_away(node, Arc::new(AwayFn { bound: self.function.bound(cx), crew }), workers, ordered)
    }
}

struct AwayFn {
    bound: Bound,
    crew: Arc<dyn Crew>,
}

impl ChunkFn for AwayFn {
    fn is_away(&self) -> bool {
        true
    }
    fn send(&self, chunk: Chunk, slots: Slots, reply: Box<dyn Reply>) {
        let columns = self.bound.graph.arguments(chunk.columns());
        let (rows, epoch, account) = (chunk.rows(), self.bound.epoch, Account::current());
        self.crew.send(Errand { columns, rows, epoch, pos: chunk.pos, slots, account }, reply);
    }
    /// Where it must not run ahead (inside of another operator's function), it waits. Answers need no thread of the pool,
    /// so nothing that it waits for waits for it.
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        let (sender, answers) = channel();
        let sent = chunk.clone();
        let most = Account::current().map_or(usize::MAX, |account| account.limit());
        self.send(chunk, Slots::new(), Box::new(Waiting { sender, most }));
        let parts = answers.recv().map_or_else(|_| vec![Part::Fail(Error::cancelled())], |answer| answer.parts);
        out.extend(Item::of_parts(parts, &sent));
    }
    fn keeps_rows(&self) -> bool {
        true
    }
    fn fills_slots(&self) -> bool {
        true
    }
}

struct Waiting {
    sender: Sender<Answer>,
    most: usize,
}

impl Reply for Waiting {
    fn is_wanted(&self) -> bool {
        true
    }
    fn most(&self) -> usize {
        self.most
    }
    fn give(self: Box<Self>, answer: Answer) {
        // Whoever waits cannot have gone.
        let _ = self.sender.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Dataset;
    use crate::element::{Column, DType, Element, Value};
    use crate::expr::{Graph, HostFn};
    use crate::op::Function;
    use crate::ops::check::shown;
    use crate::options::Options;
    use crate::runtime::Iter;

    /// Doubles numbers in threads of its own, late and out of order; some rows fail, and one (or all: -1) may be the end.
    #[derive(Clone, Debug, Default)]
    struct Threads {
        fails: Vec<i64>,
        dies: Option<i64>,
        /// The first numbers of what was sent.
        sent: Arc<std::sync::Mutex<Vec<u64>>>,
    }

    impl HostFn for Threads {
        fn name(&self) -> String {
            "threads".into()
        }
        fn call(&self, args: Element) -> Result<Element> {
            let x: i64 = args[0].tensor().item();
            if self.fails.contains(&x) {
                return Err(Error::func(format!("no {x}")));
            }
            Ok(smallvec::smallvec![Value::Tensor(crate::element::Tensor::scalar(x * 2))])
        }
        fn parallel(&self) -> bool {
            false
        }
        fn crew(&self, _ask: &Ask) -> Result<Option<Arc<dyn Crew>>> {
            Ok(Some(Arc::new(self.clone())))
        }
    }

    impl Crew for Threads {
        fn send(&self, errand: Errand, reply: Box<dyn Reply>) {
            let (own, first) = (self.clone(), errand.pos.at(0));
            // Who sends the first may lose the processor just then.
            std::thread::sleep(std::time::Duration::from_millis(if first == 0 { 20 } else { 0 }));
            self.sent.lock().unwrap().push(first);
            std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_micros(if first.is_multiple_of(3) { 900 } else { 100 }));
                let mut parts = Vec::new();
                for row in 0..errand.rows {
                    let args: Element = errand.columns.iter().map(|c| c.get(row)).collect();
                    if own.dies.is_some_and(|x| x == -1 || x == args[0].tensor().item::<i64>()) {
                        let error = Error::new(crate::error::Kind::Aborted, "gone");
                        return reply.give(Answer { parts: vec![Part::Fail(error)], busy_ns: 1, is_end: true });
                    }
                    parts.push(match own.call(args) {
                        Ok(out) => Part::Rows(1, out.into_iter().map(|v| Column::from_values(vec![v])).collect()),
                        Err(error) => Part::Fail(error),
                    });
                }
                reply.give(Answer { parts, busy_ns: 100_000 * errand.rows as u64, is_end: false });
            });
        }
    }

    fn mapped(input: &Dataset, crew: Threads, workers: i64, deterministic: Option<bool>) -> Dataset {
        let function = Function::new(Graph::host(input.spec(), Arc::new(crew), Spec::scalar(DType::Int64)));
        let map = Map {
            function,
            num_parallel_calls: None,
            deterministic,
            synchronous: false,
            workers: Some(workers),
            on_worker_death: None,
            on_error: None,
            layers: 1,
        };
        input.apply(map).unwrap()
    }

    #[test]
    fn results_come_in_order_whatever_the_chunks() {
        let input = Dataset::range(50).unwrap();
        let want = shown(&input.map_fn(Spec::scalar(DType::Int64), |e| Threads::default().call(e)).unwrap());
        for chunk_rows in [Some(1), Some(7), None] {
            for workers in [1, 3, -1] {
                let ds = mapped(&input, Threads::default(), workers, None);
                let ds = ds.with_options(Options { chunk_rows, ..Default::default() }).unwrap();
                assert_eq!(shown(&ds), want);
            }
        }
    }

    #[test]
    fn rows_are_sent_in_order() {
        let crew = Threads::default();
        let sent = crew.sent.clone();
        let ds = mapped(&Dataset::range(50).unwrap(), crew, 4, None);
        let ds = ds.with_options(Options { chunk_rows: Some(1), cpu_budget: Some(4), ..Default::default() }).unwrap();
        shown(&ds);
        let sent = sent.lock().unwrap();
        assert!(sent.len() == 50 && sent.is_sorted(), "{sent:?}");
    }

    #[test]
    fn errors_stand_in_the_place_of_their_rows() {
        let input = Dataset::range(6).unwrap();
        assert_eq!(
            shown(&mapped(&input, Threads { fails: vec![1, 4], ..Default::default() }, 2, None)),
            "0 ! 4 6 ! 10"
        );
    }

    #[test]
    fn out_of_order_all_come_once() {
        let input = Dataset::range(100).unwrap();
        let ds = mapped(&input, Threads::default(), 3, Some(false));
        let mut got: Vec<i64> = ds.iter().unwrap().map(|e| e.unwrap()[0].tensor().item()).collect();
        got.sort_unstable();
        assert!(got.iter().enumerate().all(|(i, x)| *x == 2 * i as i64) && got.len() == 100);
    }

    #[test]
    fn a_panic_in_front_of_it_is_an_error_and_the_end() {
        for at in [0, 50] {
            let input = Dataset::range(100).unwrap();
            let all = move |e: &Element| {
                assert!(e[0].tensor().item::<i64>() != at, "planted");
                Ok(true)
            };
            let ds = mapped(&input.take_while_fn(all).unwrap(), Threads::default(), 2, None);
            let ds = ds.with_options(Options { chunk_rows: Some(1), ..Options::default() }).unwrap();
            let mut got: Vec<Result<Element>> = ds.iter().unwrap().collect();
            let error = got.pop().unwrap().unwrap_err();
            assert!(error.message().contains("planted"), "{error}");
            let got: Vec<i64> = got.into_iter().map(|e| e.unwrap()[0].tensor().item()).collect();
            assert_eq!(got, (0..at).map(|x| x * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn workers_bound_what_it_can_reach() {
        let ds = mapped(&Dataset::range(200).unwrap(), Threads::default(), 3, None);
        assert_eq!(ds.iter().unwrap().count(), 200);
        let model = crate::plan::model(&ds.plan().runs().unwrap(), &ds.plan().meters().unwrap());
        // Each answer says that a row took 100 µs.
        let part = model.parts.iter().find(|p| p.name == "map").unwrap();
        assert!(part.away && !part.locks && part.cost_ns == 100_000.0, "{part:?}");
        let bounds = model.bounds();
        let bound = bounds.iter().find(|b| b.limit == crate::tune::Limit::Calls).unwrap();
        assert_eq!((bound.id, bound.ns), (part.id, 100_000.0 / 3.0));
    }

    #[test]
    fn an_end_is_the_end() {
        let ds = mapped(&Dataset::range(40).unwrap(), Threads { dies: Some(9), ..Default::default() }, 3, None);
        let ds = ds.with_options(Options { chunk_rows: Some(2), ..Default::default() }).unwrap();
        assert_eq!(shown(&ds), "0 2 4 6 8 10 12 14 !");
        let all_die = Threads { dies: Some(-1), ..Default::default() };
        let ds = mapped(&Dataset::range(40).unwrap(), all_die, 3, None);
        assert_eq!(shown(&ds.with_options(Options { chunk_rows: Some(2), ..Default::default() }).unwrap()), "!");
        let ds = mapped(&Dataset::range(40).unwrap(), Threads { dies: Some(9), ..Default::default() }, 3, None);
        assert!(ds.ignore_errors(false).unwrap().iter().unwrap().any(|e| e.is_err()), "it cannot be ignored");
    }

    #[test]
    fn inside_a_function_it_waits() {
        let ds = Dataset::range(4).unwrap();
        let inner = mapped(&ds, Threads::default(), 2, None);
        let flat = ds.flat_map_fn(inner.spec().clone(), move |_| Ok(inner.clone())).unwrap();
        assert_eq!(flat.iter().unwrap().count(), 16);
    }

    #[test]
    fn it_resumes_anywhere() {
        let input = Dataset::range(20).unwrap();
        let ds = |workers| {
            mapped(&input, Threads { fails: vec![3], ..Default::default() }, workers, None).batch(3, false).unwrap()
        };
        let rest = |iter: Iter| iter.map(|e| e.map_or("!".into(), |e| format!("{:?}", e[0]))).collect::<Vec<_>>();
        let bound = |ds: &Dataset| crate::plan::Bound { plan: ds.plan().clone(), env: Arc::new([]) };
        let all = rest(ds(2).iter().unwrap());
        for k in 0..=all.len() {
            let mut iter = ds(2).iter().unwrap();
            (0..k).for_each(|_| drop(iter.next()));
            let state = iter.state().unwrap();
            assert_eq!(rest(crate::iterate_from(&bound(&ds(3)), None, &state).unwrap()), all[k..], "after {k}");
        }
    }

    #[test]
    fn what_cannot_be_sent_away_is_refused() {
        let input = Dataset::range(3).unwrap();
        let traced = input.map(|b, x| b.call("add", &[x[0], x[0]], Default::default())).unwrap();
        let map = traced.plan().is::<Map>().unwrap();
        let with = |workers, calls| input.apply(Map { workers, num_parallel_calls: calls, ..map.clone() });
        assert!(with(Some(2), None).unwrap_err().to_string().contains("Python"));
        assert!(with(Some(0), None).is_err() && with(Some(-2), None).is_err() && with(Some(2), Some(2)).is_err());
    }
}
