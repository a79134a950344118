//! Crews of real processes: this test program itself, started again as a worker.

use super::process::SOME_TIME;
use super::*;
use crate::worker::{Worker, follow_parent};
use feedline::element::{Column, DType, Element, Pos, Slots, Tensor};
use std::os::fd::FromRawFd;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What a worker of these tests does with a number: doubles it. 7 is refused, 13 is deadly, and so is 14, once.
fn call(setup: &str, args: &Element) -> std::result::Result<Element, Told> {
    let x: i64 = args[0].tensor().item();
    let die = || {
        // SAFETY: ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    };
    match x {
        7 => return Err(Told { message: "seven".into(), exception: b"own".to_vec(), trace: "line 1".into() }),
        13 => die(),
        14 if std::fs::File::create_new(setup).is_ok() => die(),
        _ => {}
    }
    let begun = Instant::now();
    match setup {
        "sleep" => std::thread::sleep(5 * SOME_TIME),
        "compute" => while begun.elapsed() < 5 * SOME_TIME {},
        _ => {}
    }
    if setup == "grow" {
        return Ok(smallvec::smallvec![Tensor::from_items([x as usize], &vec![x; x as usize]).into()]);
    }
    Ok(smallvec::smallvec![Tensor::scalar(x * 2).into()])
}

/// Not a test: what the processes of the others run.
#[test]
fn as_a_worker() {
    let Ok(parent) = std::env::var("FEEDLINE_WORKER_OF") else { return };
    assert!(follow_parent(parent.parse().unwrap()));
    // SAFETY: standard input is the socket, and nobody else reads it.
    let socket = unsafe { UnixStream::from_raw_fd(0) };
    let mut worker = Worker::new(socket).unwrap();
    let Some((setup, _)) = worker.setup().unwrap() else { return };
    let setup = String::from_utf8(setup).unwrap();
    match setup.as_str() {
        "refuse" => {
            let told = Told { message: "not me".into(), exception: vec![], trace: String::new() };
            worker.refuse(&told).unwrap();
        }
        "exit" => std::process::exit(3),
        setup => worker.serve(&mut |args, _| call(setup, &args)).unwrap(),
    }
    std::process::exit(0);
}

fn start(setup: &str) -> Start {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_string();
    let args = ["crew::tests::as_a_worker", "--exact", "--nocapture"].map(String::from);
    Start {
        command: [program].into_iter().chain(args).collect(),
        defaults: vec![("OMP_NUM_THREADS", "1")],
        setup: setup.into(),
        outputs: vec![Leaf::scalar(DType::Int64)],
        name: "double".into(),
        seed: 0,
    }
}

fn ask(workers: usize, on_death: OnDeath) -> Ask {
    Ask { workers, on_death, anew: true }
}

struct Channel(usize, Sender<(usize, Answer)>);

impl Reply for Channel {
    fn is_wanted(&self) -> bool {
        true
    }
    fn give(self: Box<Self>, answer: Answer) {
        self.1.send((self.0, answer)).unwrap();
    }
}

/// Sends these numbers, `each` at a time.
fn sent(crew: &Arc<dyn Crew>, numbers: &[i64], each: usize) -> Receiver<(usize, Answer)> {
    let (sender, answers) = channel();
    for (n, part) in numbers.chunks(each).enumerate() {
        let column = Column::Dense(Tensor::from_items([part.len()], part));
        let errand = Errand {
            columns: vec![column],
            rows: part.len(),
            epoch: 0,
            pos: Pos::Run((n * each) as u64),
            slots: Slots::new(),
            account: None,
        };
        crew.send(errand, Box::new(Channel(n, sender.clone())));
    }
    answers
}

/// The answers in the order of the questions: numbers, `!` for an error, `.` for the end.
fn shown(answers: Receiver<(usize, Answer)>) -> String {
    let mut all: Vec<(usize, String)> = Vec::new();
    while let Ok((n, answer)) = answers.recv_timeout(Duration::from_secs(60)) {
        let mut text = Vec::new();
        for part in answer.parts {
            match part {
                Part::Rows(rows, columns) => {
                    text.extend((0..rows).map(|i| columns[0].get(i).tensor().item::<i64>().to_string()));
                }
                Part::Fail(_) => text.push("!".into()),
            }
        }
        text.extend(answer.is_end.then(|| ".".into()));
        all.push((n, text.join(" ")));
    }
    all.sort();
    all.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
}

#[test]
fn all_rows_are_answered() {
    let slot = Slot::default();
    let crew = slot.crew(&ask(2, OnDeath::Raise), || Ok(start("double"))).unwrap();
    let numbers: Vec<i64> = (20..120).collect();
    let want: Vec<String> = numbers.iter().map(|x| (x * 2).to_string()).collect();
    assert_eq!(shown(sent(&crew, &numbers, 7)), want.join(" "));
    assert_eq!(shown(sent(&crew, &[6, 7, 8], 3)), "12 ! 16");
    let again = slot.crew(&ask(2, OnDeath::Raise), || Ok(start("double"))).unwrap();
    assert!(Arc::ptr_eq(&crew, &again), "it is kept for the next pass");
    let other = slot.crew(&ask(2, OnDeath::Raise), || Ok(start("changed"))).unwrap();
    assert!(!Arc::ptr_eq(&crew, &other), "another function");
    let more = slot.crew(&ask(1, OnDeath::Raise), || Ok(start("changed"))).unwrap();
    assert!(!Arc::ptr_eq(&more, &other), "another number");
}

#[test]
fn those_that_compute_are_known_to_the_pool() {
    // The pool knows of other tests' as well. What is counted here is told under the same lock.
    let computing = |slot: &Slot| {
        let crew = lock(&slot.0).clone().unwrap();
        let state = lock(&crew.inner.state);
        assert!(process_pool().load().elsewhere >= state.computing);
        state.computing
    };
    let until_none = |inner: &Inner| {
        let until = Instant::now() + Duration::from_secs(60);
        while lock(&inner.state).computing > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(lock(&inner.state).computing, 0);
    };
    for (setup, most) in [("sleep", 0), ("compute", 2)] {
        let slot = Slot::default();
        let crew = slot.crew(&ask(2, OnDeath::Raise), || Ok(start(setup))).unwrap();
        let answers = sent(&crew, &(20..60).collect::<Vec<i64>>(), 1);
        assert_eq!(answers.iter().map(|_| computing(&slot)).max(), Some(most), "{setup}");
        until_none(&lock(&slot.0).clone().unwrap().inner);
    }
    // Those that end in the middle of it count no more.
    let slot = Slot::default();
    let crew = slot.crew(&ask(1, OnDeath::Raise), || Ok(start("compute"))).unwrap();
    assert_eq!(shown(sent(&crew, &[20, 21, 13], 1)).split(' ').next_back(), Some("."));
    let inner = lock(&slot.0).clone().unwrap().inner.clone();
    until_none(&inner);
    let answers = sent(&crew, &(20..1000).collect::<Vec<i64>>(), 1);
    while answers.recv().is_ok() && computing(&slot) == 0 {}
    drop((crew, slot));
    until_none(&inner);
}

#[test]
fn a_death_is_the_end_unless_it_is_to_be_tried_again() {
    let slot = Slot::default();
    let crew = slot.crew(&ask(1, OnDeath::Raise), || Ok(start("double"))).unwrap();
    assert_eq!(shown(sent(&crew, &[1, 2, 13, 3], 4)), "! .");
    assert_eq!(shown(sent(&crew, &[1, 2], 1)), "2 4", "another one has taken its place");
}

#[test]
fn rows_are_done_again() {
    let mark = std::env::temp_dir().join(format!("feedline-crew-{}", std::process::id()));
    let slot = Slot::default();
    let crew = slot.crew(&ask(2, OnDeath::Restart), || Ok(start(mark.to_str().unwrap()))).unwrap();
    assert_eq!(shown(sent(&crew, &[1, 14, 2, 3, 13, 4, 7], 3)), "2 28 4 6 ! 8 !");
    std::fs::remove_file(mark).unwrap();
}

#[test]
fn who_cannot_begin_says_why() {
    for (setup, why) in [("refuse", "not me"), ("exit", "exited with code 3")] {
        let slot = Slot::default();
        let crew = slot.crew(&ask(2, OnDeath::Restart), || Ok(start(setup))).unwrap();
        for _ in 0..2 {
            let (_, answer) = sent(&crew, &[1], 1).recv_timeout(Duration::from_secs(60)).unwrap();
            match &answer.parts[..] {
                [Part::Fail(error)] => assert!(error.to_string().contains(why) && answer.is_end, "{error}"),
                _ => panic!("an error"),
            }
        }
    }
}

#[test]
fn nobody_is_left_when_a_crew_is_dropped() {
    let slot = Slot::default();
    let crew = slot.crew(&ask(2, OnDeath::Raise), || Ok(start("double"))).unwrap();
    assert_eq!(shown(sent(&crew, &[1], 1)), "2");
    let inner = Arc::downgrade(&lock(&slot.0).as_ref().unwrap().inner);
    drop((crew, slot));
    let start = Instant::now();
    // The thread has the last reference, and lets it go when the processes have been waited for.
    while inner.strong_count() > 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whoever may have so much; the first that has no answer yet is awaited.
struct Limited {
    number: usize,
    most: usize,
    next: Arc<AtomicUsize>,
    answers: Sender<(usize, Answer)>,
}

impl Reply for Limited {
    fn is_wanted(&self) -> bool {
        true
    }
    fn is_awaited(&self) -> bool {
        self.next.load(SeqCst) == self.number
    }
    fn most(&self) -> usize {
        self.most
    }
    fn give(self: Box<Self>, answer: Answer) {
        self.answers.send((self.number, answer)).unwrap();
    }
}

/// What workers make of these numbers, in order: so many items, or why not. And what the account had at most.
fn grown(
    account: &'static Account,
    numbers: &[i64],
    workers: usize,
) -> (Vec<std::result::Result<usize, String>>, usize) {
    let slot = Slot::default();
    let outputs = vec![Leaf::tensor(DType::Int64, feedline::element::Dims::of([None]))];
    let crew = slot.crew(&ask(workers, OnDeath::Raise), || Ok(Start { outputs, ..start("grow") })).unwrap();
    let (sender, answers) = channel();
    let next = Arc::new(AtomicUsize::new(0));
    for (number, n) in numbers.iter().enumerate() {
        let columns = vec![Column::Dense(Tensor::from_items([1], &[*n]))];
        let (pos, slots, account) = (Pos::Run(number as u64), Slots::new(), Some(account));
        let errand = Errand { columns, rows: 1, epoch: 0, pos, slots, account };
        let (most, next, answers) = (account.map_or(0, Account::limit), next.clone(), sender.clone());
        crew.send(errand, Box::new(Limited { number, most, next, answers }));
    }
    drop(sender);
    let (mut waiting, mut out, mut peak) = (std::collections::BTreeMap::new(), vec![], 0);
    while out.len() < numbers.len() {
        if let Ok((number, answer)) = answers.recv_timeout(Duration::from_millis(1)) {
            waiting.insert(number, answer);
        }
        peak = peak.max(account.live());
        // They are taken in order, as a consumer does.
        while let Some(answer) = waiting.remove(&out.len()) {
            out.push(match &answer.parts[..] {
                [Part::Rows(1, columns)] => Ok(columns[0].get(0).tensor().len()),
                [Part::Fail(error)] => Err(error.to_string()),
                _ => panic!("one row"),
            });
            drop(answer);
            next.store(out.len(), SeqCst);
        }
    }
    (out, peak)
}

#[test]
fn what_is_shared_is_within_the_limit() {
    let account = Account::open(8 << 20, usize::MAX);
    // 1.6 MB each, a small one now and then, and one that takes half of it: where the worker leaves it, and here.
    let mut numbers: Vec<i64> = (0..30).map(|n| if n % 7 == 3 { 10 } else { 200_000 }).collect();
    numbers[20] = 250_000;
    let want: Vec<_> = numbers.iter().map(|n| Ok(*n as usize)).collect();
    let (got, peak) = grown(account, &numbers, 3);
    assert_eq!(got, want);
    assert!(peak <= account.limit() * 11 / 10, "{peak} bytes");
    assert_eq!(account.live(), 0, "all of it is given back");
    account.close();
}

#[test]
fn what_one_element_cannot_have_is_refused_with_the_numbers() {
    let account = Account::open(8 << 20, usize::MAX);
    let (got, _) = grown(account, &[10, 600_000, 20], 2);
    assert_eq!((&got[0], &got[2]), (&Ok(10), &Ok(20)));
    let error = got[1].as_ref().unwrap_err();
    for part in
        ["comes back of one element takes 4.8 MB", "as much again", "memory_limit of 8.4 MB", "raise it to 10.8 MB"]
    {
        assert!(error.contains(part), "{error}");
    }
    account.close();
    let account = Account::open(11 << 20, usize::MAX);
    assert_eq!(grown(account, &[600_000], 2).0, [Ok(600_000)], "what it says is enough");
    account.close();
}
