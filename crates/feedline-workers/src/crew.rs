//! The processes of one function, and the thread that looks after them.
//!
//! 1. `send` puts an errand into the queue and gives errands out while there is a worker that has less than two. The
//!    thread does the same after each answer.
//! 2. Whoever dies is replaced at once. What it had not begun goes back to the front of the queue. What it was at is,
//!    by policy, an error and the end of its pipeline, or done again row by row: a row that kills its worker a second
//!    time is an error in its place.
//! 3. A worker that dies or refuses before it is ready is no use to replace: the crew is broken, all that wait are told
//!    why, and the next pass asks for a new crew.
//! 4. Nobody is told anything while the lock is held.
//! 5. Where a pass has no room for what an errand or an answer takes (`pages.rs`), the errand waits in the queue, or the worker
//!    for leave to write. Who waits is looked at after each answer, and again and again in between: a consumer that takes
//!    results makes room without telling anybody here. An errand that is awaited waits for nothing, one at a time, and so
//!    the pass goes on. Where several passes share a crew nobody waits: who holds a worker would stop the others.
//! 6. Workers that compute count among the threads that may run (`runtime/pool.rs`), those that wait for a disk or a server
//!    do not: the clock of the process says which they are.

mod apart;
mod process;

use self::apart::one_by_one;
use self::process::{Spent, described, ended};
use crate::link::{Inbox, Kind, Outbox};
use crate::pages::Pages;
use crate::wire::{Told, read_answer, read_told, too_large, write_errand};
use feedline::element::Leaf;
use feedline::expr::{Answer, Ask, Crew, Errand, OnDeath, Part, Reply};
use feedline::runtime::{mix, process_pool};
use feedline::{Error, Kind as ErrorKind, Result};
use feedline_io::{Account, Scratch, Spare, brief, in_child, keeps_spare, small_share, taken};
use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Messages that a worker has at once: the memory that both sides write to is made for two.
const DEPTH: usize = 2;
/// How long a crew that no iterator uses is kept for the next one.
const LINGER: Duration = Duration::from_secs(10);
/// How long a worker may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);
/// How often the thread looks whether it is still needed.
const LOOK: Duration = Duration::from_millis(500);
/// How soon it looks again while somebody waits for room; the second time after twice as long.
const SOON: Duration = Duration::from_millis(1);
const LATER: Duration = Duration::from_millis(64);

/// How a worker is started, and what it is to do.
pub struct Start {
    /// The program and its arguments. It finds its end of the socket as its standard input.
    pub command: Vec<String>,
    /// Variables that are set in its environment, unless they are there.
    pub defaults: Vec<(&'static str, &'static str)>,
    /// The function, as a worker understands it.
    pub setup: Vec<u8>,
    /// What it returns.
    pub outputs: Vec<Leaf>,
    /// What messages call it.
    pub name: String,
    /// Seeds of elements depend on it.
    pub seed: u64,
}

/// Where a function keeps its crew between passes.
#[derive(Default)]
pub struct Slot(Arc<Mutex<Option<Arc<Processes>>>>);

impl Slot {
    /// The crew that is there, if it still is what is wanted; otherwise a new one. `start` says how to make it.
    pub fn crew(&self, ask: &Ask, start: impl FnOnce() -> Result<Start>) -> Result<Arc<dyn Crew>> {
        let there = self.usable(ask);
        if let Some(crew) = there.as_ref().filter(|_| !ask.anew) {
            return Ok(crew.clone());
        }
        let start = start()?;
        if let Some(crew) = there.filter(|crew| crew.inner.start.setup == start.setup) {
            return Ok(crew);
        }
        let crew = Processes::new(start, ask, Arc::downgrade(&self.0))?;
        let _brief = brief();
        let old = lock(&self.0).replace(crew.clone());
        drop(old);
        Ok(crew)
    }
    fn usable(&self, ask: &Ask) -> Option<Arc<Processes>> {
        let _brief = brief();
        let there = lock(&self.0).clone()?;
        let same = (there.inner.workers, there.inner.on_death) == (ask.workers, ask.on_death);
        let fit = there.pid == std::process::id() && same && lock(&there.inner.state).broken.is_none();
        fit.then_some(there)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle on a crew: with the last one it ends.
struct Processes {
    inner: Arc<Inner>,
    /// The process that made it: after a fork the child must leave it alone.
    pid: u32,
}

struct Inner {
    start: Start,
    workers: usize,
    on_death: OnDeath,
    state: Mutex<State>,
    /// A byte written here wakes the thread.
    bell: UnixStream,
}

struct State {
    queue: VecDeque<Job>,
    seats: Vec<Seat>,
    broken: Option<Error>,
    stop: bool,
    /// When something was last asked for or answered.
    used: Instant,
    /// Somebody waits for room.
    waits: bool,
    /// Workers that compute, as the pool knows them.
    computing: usize,
}

/// What is known of a worker to those who send.
#[derive(Default)]
struct Seat {
    /// `None` while there is nobody.
    outbox: Option<Outbox>,
    ready: bool,
    under_way: VecDeque<Job>,
    /// What its first errand asks for: bytes of the row that comes next, and with those before it.
    asked: Option<(usize, usize)>,
    /// What lies in memory for every other errand.
    places: [Place; 2],
    /// Whether its time goes by computing, by what its last errands were like.
    computes: bool,
}

/// The memory of an errand and of its answer.
#[derive(Default)]
struct Place {
    sent: Pages,
    came: Pages,
}

impl Place {
    fn let_go(&mut self) {
        self.sent.let_go();
        self.came.let_go();
    }
    fn give_back(&mut self) {
        self.sent.give_back();
        self.came.give_back();
    }
}

struct Job {
    errand: Errand,
    reply: Box<dyn Reply>,
    /// Workers that died of it.
    deaths: u32,
    /// Which place it has.
    place: usize,
    /// It waits for nothing.
    passes: bool,
    /// Room for a copy of the answer.
    promise: Option<Scratch>,
}

impl Job {
    fn new(errand: Errand, reply: Box<dyn Reply>, deaths: u32) -> Job {
        Job { errand, reply, deaths, place: 0, passes: false, promise: None }
    }
    /// The same as if it had never been sent.
    fn anew(self) -> Job {
        Job::new(self.errand, self.reply, self.deaths)
    }
    /// Whether its pass has room for so many bytes, and as many again, or half of the limit, for those that are awaited; or it
    /// is awaited itself.
    /// Or another is that stands `behind` it.
    fn may_take(&mut self, bytes: usize, crowd: &mut Crowd, behind: bool) -> bool {
        let Some(account) = self.errand.account.filter(|_| !crowd.is_mixed && !self.passes) else { return true };
        if account.has_room(bytes.saturating_add(bytes.max(account.limit() / 2))) || !self.reply.is_wanted() {
            return true;
        }
        self.passes = !crowd.one_passes && (behind || self.reply.is_awaited());
        crowd.one_passes |= self.passes;
        self.passes
    }
}

/// Who is here.
struct Crowd {
    /// Several passes.
    is_mixed: bool,
    /// An errand that waits for nothing.
    one_passes: bool,
}

impl Crowd {
    fn of(state: &State) -> Crowd {
        let under_way = || state.seats.iter().flat_map(|seat| &seat.under_way);
        let mut accounts = under_way().chain(&state.queue).map(|job| job.errand.account.map(std::ptr::from_ref));
        let first = accounts.next();
        let is_mixed = accounts.any(|account| Some(account) != first);
        Crowd { is_mixed, one_passes: under_way().any(|job| job.passes) }
    }
}

/// What is to be said once the lock is free.
type Due = Vec<(Box<dyn Reply>, Answer)>;

fn say(due: Due) {
    due.into_iter().for_each(|(reply, answer)| reply.give(answer));
}

fn end_with(error: &Error) -> Answer {
    Answer { parts: vec![Part::Fail(error.clone())], busy_ns: 0, is_end: true }
}

/// Crews whose threads run, so that they can be ended with the program.
static CREWS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Ends all crews, and waits until their processes are gone.
pub fn end_all() {
    let crews: Vec<_> = {
        let _brief = brief();
        lock(&CREWS).iter().filter_map(Weak::upgrade).collect()
    };
    crews.iter().for_each(|inner| inner.stop());
    let start = Instant::now();
    while THREADS.load(SeqCst) > 0 && start.elapsed() < 3 * GRACE {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The threads stayed in the parent.
fn forget() {
    lock(&CREWS).clear();
    THREADS.store(0, SeqCst);
}

impl Processes {
    fn new(start: Start, ask: &Ask, home: Weak<Mutex<Option<Arc<Processes>>>>) -> Result<Arc<Processes>> {
        let (bell, rings) = UnixStream::pair().map_err(|e| no_start(&e))?;
        in_child(forget);
        let seats = (0..ask.workers).map(|_| Seat::default()).collect();
        let (queue, used) = (VecDeque::new(), Instant::now());
        let state = Mutex::new(State { queue, seats, broken: None, stop: false, used, waits: false, computing: 0 });
        let inner = Arc::new(Inner { start, workers: ask.workers, on_death: ask.on_death, state, bell });
        {
            let _brief = brief();
            let mut crews = lock(&CREWS);
            crews.retain(|crew| crew.strong_count() > 0);
            crews.push(Arc::downgrade(&inner));
        }
        let spare: Arc<dyn Spare> = inner.clone();
        keeps_spare(Arc::downgrade(&spare));
        let keeper = Keeper { inner: inner.clone(), rings, hands: vec![], home };
        THREADS.fetch_add(1, SeqCst);
        let thread = std::thread::Builder::new().name("feedline-workers".into()).spawn(move || {
            keeper.run();
            THREADS.fetch_sub(1, SeqCst);
        });
        if let Err(error) = thread {
            THREADS.fetch_sub(1, SeqCst);
            return Err(no_start(&error));
        }
        Ok(Arc::new(Processes { inner, pid: std::process::id() }))
    }
}

fn no_start(error: &io::Error) -> Error {
    Error::new(ErrorKind::Aborted, format!("worker processes cannot be started: {error}"))
}

impl Drop for Processes {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            self.inner.stop();
        }
    }
}

impl Crew for Processes {
    fn send(&self, errand: Errand, reply: Box<dyn Reply>) {
        let mut due = Due::new();
        {
            let mut state = lock(&self.inner.state);
            match (&state.broken, state.stop) {
                (Some(error), _) => due.push((reply, end_with(error))),
                (None, true) => due.push((reply, end_with(&Error::cancelled()))),
                (None, false) => {
                    state.queue.push_back(Job::new(errand, reply, 0));
                    state.used = Instant::now();
                    let waited = state.waits;
                    self.inner.give_out(&mut state, &mut due);
                    if state.waits && !waited {
                        // It sleeps for long as yet.
                        self.inner.ring();
                    }
                }
            }
        }
        say(due);
    }
}

impl Inner {
    fn stop(&self) {
        lock(&self.state).stop = true;
        self.ring();
    }
    fn ring(&self) {
        // A thread that does not listen any more needs no bell.
        let _ = io::Write::write(&mut &self.bell, &[1]);
    }
    /// Gives errands to those who have room for one, and leave to write to those who asked.
    fn give_out(&self, state: &mut State, due: &mut Due) {
        let mut crowd = Crowd::of(state);
        state.waits = false;
        for seat in &mut state.seats {
            state.waits |= !seat.hear(&mut crowd);
        }
        self.send_some(state, &mut crowd, due);
        state.count();
    }
    fn send_some(&self, state: &mut State, crowd: &mut Crowd, due: &mut Due) {
        loop {
            let State { queue, seats, .. } = state;
            let free = seats.iter_mut().filter(|s| s.ready && s.under_way.len() < DEPTH);
            let Some(seat) = free.min_by_key(|s| s.under_way.len()) else { return };
            let Some(mut job) = queue.pop_front() else { return };
            if !job.reply.is_wanted() {
                due.push((job.reply, end_with(&Error::cancelled())));
                continue;
            }
            let bytes = job.errand.nbytes();
            let most = job.errand.account.map_or(usize::MAX, |_| job.reply.most());
            if bytes.saturating_mul(2) > most && job.errand.rows > 1 {
                apart(job, queue);
                continue;
            }
            if bytes.saturating_mul(2) > most {
                let limit = job.errand.account.map_or(most, Account::limit);
                let parts = vec![Part::Fail(too_large("is sent of one element", bytes, most, limit))];
                due.push((job.reply, Answer { parts, busy_ns: 0, is_end: false }));
                continue;
            }
            if bytes > self.unasked(&job) && !job.may_take(bytes, crowd, false) {
                queue.push_front(job);
                state.waits = true;
                return;
            }
            let Some(outbox) = &mut seat.outbox else { return };
            job.place = outbox.turn();
            let place = &mut seat.places[job.place];
            // What the last answer left there may be written to by the next one, as far as there is room for a copy of it.
            let mut allowed = self.unasked(&job);
            let ready = place.came.bytes();
            if ready > allowed {
                match job.may_take(ready.saturating_mul(2), crowd, false) {
                    true => {
                        job.promise = Some(taken(ready, job.errand.account));
                        allowed = ready;
                    }
                    false => place.came.give_back(),
                }
            }
            place.sent.hold(bytes, job.errand.account);
            place.came.hold(0, job.errand.account);
            let key = mix(self.start.seed, job.errand.epoch.wrapping_add(1));
            match write_errand(outbox, &job.errand, key) {
                // One that cannot be sent to is dead, which the thread will notice: it sees to the errand.
                Ok(()) => {
                    if let Some(file) = outbox.file() {
                        place.sent.lie_in(file);
                        place.sent.hold(outbox.len(), job.errand.account);
                    }
                    drop(outbox.send(Kind::Work, allowed as u64));
                }
                Err(error) => {
                    let error = Error::new(ErrorKind::Aborted, format!("rows cannot be sent to a worker: {error}"));
                    place.let_go();
                    due.push((job.reply, end_with(&error)));
                    continue;
                }
            }
            seat.under_way.push_back(job);
        }
    }
    /// What may come back for an errand unasked.
    fn unasked(&self, job: &Job) -> usize {
        job.errand.account.map_or(usize::MAX, |account| small_share(account.limit(), DEPTH * self.workers))
    }
}

impl State {
    /// Tells the pool how many compute.
    fn count(&mut self) {
        let computing = self.seats.iter().filter(|seat| seat.computes && !seat.under_way.is_empty()).count();
        let before = std::mem::replace(&mut self.computing, computing);
        if computing != before {
            process_pool().elsewhere(computing as isize - before as isize);
        }
    }
}

impl Seat {
    /// Answers what its worker asked, if that can be answered by now.
    fn hear(&mut self, crowd: &mut Crowd) -> bool {
        let Some((row, all)) = self.asked else { return true };
        // It may have come here after another one died of it.
        let behind = self.under_way.iter().skip(1).any(|job| job.reply.is_awaited());
        let (Some(job), Some(outbox)) = (self.under_way.front_mut(), &self.outbox) else { return true };
        let account = job.errand.account;
        let most = account.map_or(usize::MAX, |_| job.reply.most());
        let said = if row.saturating_mul(2) > most {
            outbox.signal(Kind::Denied, most as u64, 0)
        } else {
            job.promise = None;
            let came = &mut self.places[job.place].came;
            let more = all.saturating_sub(came.bytes());
            if !job.may_take(more.saturating_add(all), crowd, behind) {
                return false;
            }
            came.hold(all, account);
            job.promise = Some(taken(all, account));
            outbox.signal(Kind::Granted, all as u64, 0)
        };
        // One that cannot be sent to is dead.
        drop(said);
        self.asked = None;
        true
    }
}

impl Spare for Inner {
    fn give_back(&self) {
        // Whoever has it is about to need memory, or to let go of some: both see to that themselves.
        if let Ok(mut state) = self.state.try_lock() {
            state.seats.iter_mut().flat_map(|seat| &mut seat.places).for_each(Place::give_back);
        }
    }
}

/// The thread of a crew.
struct Keeper {
    inner: Arc<Inner>,
    rings: UnixStream,
    hands: Vec<Hand>,
    /// Where the function keeps the crew.
    home: Weak<Mutex<Option<Arc<Processes>>>>,
}

/// A process, as the thread has it.
struct Hand {
    child: Child,
    inbox: Inbox,
    spent: Spent,
}

impl Keeper {
    fn run(mut self) {
        for number in 0..self.inner.workers {
            match self.start(number) {
                Ok(hand) => self.hands.push(hand),
                Err(error) => {
                    self.give_up(no_start(&error));
                    break;
                }
            }
        }
        let mut patience = SOON;
        loop {
            let waits = {
                let state = lock(&self.inner.state);
                if state.stop {
                    break;
                }
                state.waits
            };
            let said = self.wait(if waits { patience } else { LOOK });
            patience = if said.is_empty() { (patience * 2).min(LATER) } else { SOON };
            if said.is_empty() {
                self.look_for_dead();
                self.leave_if_unused();
                if waits {
                    let mut due = Due::new();
                    self.inner.give_out(&mut lock(&self.inner.state), &mut due);
                    say(due);
                }
            }
            for number in said {
                self.listen(number);
            }
        }
        self.end();
    }

    /// Starts a process. It belongs to this thread: when the thread is gone, so is the process.
    fn start(&self, number: usize) -> io::Result<Hand> {
        let start = &self.inner.start;
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&start.command[0]);
        command.args(&start.command[1..]).stdin(Stdio::from(OwnedFd::from(theirs)));
        // Ctrl-C at a terminal goes to a whole group of processes: this one decides what it means.
        command.process_group(0);
        for (name, value) in &start.defaults {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        command.env("FEEDLINE_WORKER_OF", std::process::id().to_string());
        let child = command.spawn()?;
        let mut outbox = Outbox::new(ours.try_clone()?);
        outbox.put(&start.setup)?;
        // One that cannot be sent to has died; its end is noticed like any other.
        let (bytes, file) = (outbox.len(), outbox.file().cloned());
        let _ = outbox.send(Kind::Setup, number as u64);
        let mut state = lock(&self.inner.state);
        let seat = &mut state.seats[number];
        if let Some(file) = file {
            // It lies where the second errand will.
            seat.places[0].sent.lie_in(&file);
            seat.places[0].sent.hold(bytes, None);
        }
        seat.outbox = Some(outbox);
        drop(state);
        Ok(Hand { child, inbox: Inbox::new(ours), spent: Spent::default() })
    }

    /// The workers that have something to say.
    fn wait(&mut self, time: Duration) -> Vec<usize> {
        let poll = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let sockets = self.hands.iter().map(|hand| hand.inbox.socket().as_raw_fd());
        let mut fds: Vec<_> = std::iter::once(self.rings.as_raw_fd()).chain(sockets).map(poll).collect();
        // SAFETY: the list outlives the call, and the descriptors in it are open.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as _, time.as_millis() as _) };
        if fds[0].revents != 0 {
            let _ = io::Read::read(&mut &self.rings, &mut [0; 64]);
        }
        (0..self.hands.len()).filter(|i| fds[i + 1].revents != 0).collect()
    }

    /// A dead worker's socket ends with it, unless a process that was forked just then holds a copy of it.
    fn look_for_dead(&mut self) {
        let dead = |hand: &mut Hand| matches!(hand.child.try_wait(), Ok(Some(_)));
        let dead: Vec<usize> = (0..self.hands.len()).filter(|&i| dead(&mut self.hands[i])).collect();
        for number in dead {
            if number < self.hands.len() {
                self.bury(number, None);
            }
        }
    }

    /// Takes one message of a worker.
    fn listen(&mut self, number: usize) {
        // All were let go after what another one said.
        let Some(hand) = self.hands.get_mut(number) else { return };
        let inner = &*self.inner;
        let message = match hand.inbox.receive() {
            Ok(Some(message)) => message,
            Ok(None) => return self.bury(number, None),
            Err(error) => return self.bury(number, Some(error.to_string())),
        };
        match message.kind {
            Kind::Ready => {
                hand.spent = Spent::from_now(hand.child.id());
                let mut due = Due::new();
                {
                    let mut state = lock(&inner.state);
                    let seat = &mut state.seats[number];
                    seat.ready = true;
                    // The function is there: nobody needs what it lay in.
                    seat.places[0].let_go();
                    inner.give_out(&mut state, &mut due);
                }
                say(due);
            }
            Kind::Refused => {
                let error = match read_told(message.body) {
                    Ok(told) => refused(&inner.start.name, told),
                    Err(error) => error,
                };
                self.give_up(error);
            }
            Kind::Ask => {
                let mut due = Due::new();
                {
                    let mut state = lock(&inner.state);
                    state.seats[number].asked = Some((message.other as usize, message.number as usize));
                    inner.give_out(&mut state, &mut due);
                }
                say(due);
            }
            Kind::Done => {
                // It counts as under way until it is read: then its memory is free for the next but one.
                let (rows, slots, account) = {
                    let mut state = lock(&inner.state);
                    let Seat { under_way, places, .. } = &mut state.seats[number];
                    under_way.front_mut().map_or_else(Default::default, |job| {
                        if let Some(file) = message.piece {
                            let came = &mut places[job.place].came;
                            came.lie_in(file);
                            came.hold(message.body.len(), job.errand.account);
                        }
                        job.promise = None;
                        (job.errand.rows, std::mem::take(&mut job.errand.slots), job.errand.account)
                    })
                };
                let limit = account.map_or(usize::MAX, Account::limit);
                let entered = Account::enter(account);
                let parts = read_answer(message.body, rows, &inner.start.outputs, slots, limit);
                drop(entered);
                let busy_ns = message.number;
                let computes = hand.spent.computes(hand.child.id(), Duration::from_nanos(busy_ns));
                let mut due = Due::new();
                {
                    let mut state = lock(&inner.state);
                    state.used = Instant::now();
                    let seat = &mut state.seats[number];
                    seat.computes = computes.unwrap_or(seat.computes);
                    if let Some(job) = seat.under_way.pop_front() {
                        seat.places[job.place].let_go();
                        let answer = match parts {
                            Ok(parts) => Answer { parts, busy_ns, is_end: false },
                            Err(error) => end_with(&error),
                        };
                        due.push((job.reply, answer));
                    }
                }
                say(due);
                // Afterwards: whoever was next may be awaited now.
                let mut due = Due::new();
                inner.give_out(&mut lock(&inner.state), &mut due);
                say(due);
            }
            Kind::Setup | Kind::Work | Kind::Granted | Kind::Denied => {
                self.bury(number, Some("it sent what only it should get".into()))
            }
        }
    }

    /// A worker is dead, or must be, since nobody understands it.
    fn bury(&mut self, number: usize, why: Option<String>) {
        let hand = &mut self.hands[number];
        let _ = hand.inbox.socket().shutdown(Shutdown::Both);
        let id = hand.child.id();
        let status = ended(&mut hand.child, if why.is_some() { Duration::ZERO } else { GRACE });
        let how = why.unwrap_or_else(|| described(status));
        let name = &self.inner.start.name;
        let mut due = Due::new();
        let begun = {
            let mut state = lock(&self.inner.state);
            let seat = std::mem::take(&mut state.seats[number]);
            let mut jobs = seat.under_way;
            let first = jobs.pop_front();
            jobs.into_iter().rev().for_each(|job| state.queue.push_front(job.anew()));
            if let Some(job) = first {
                let text = format!("worker {number} of {name} (process {id}) {how}");
                self.mourn(job, &text, &mut state, &mut due);
            }
            state.count();
            seat.ready
        };
        say(due);
        if !begun {
            let text = format!("a worker of {name} (process {id}) {how} before it was ready");
            return self.give_up(Error::new(ErrorKind::Aborted, text));
        }
        log::warn!("worker {number} of {name} (process {id}) {how}; another one takes its place");
        match self.start(number) {
            Ok(hand) => self.hands[number] = hand,
            Err(error) => self.give_up(no_start(&error)),
        }
    }

    /// What becomes of the errand that a worker died of.
    fn mourn(&self, mut job: Job, text: &str, state: &mut State, due: &mut Due) {
        job.deaths += 1;
        match self.inner.on_death {
            OnDeath::Raise => {
                let text = format!(
                    "{text}; this ends the pipeline. With on_worker_death=\"restart\" another worker does its rows again"
                );
                due.push((job.reply, end_with(&Error::new(ErrorKind::Aborted, text))));
            }
            OnDeath::Restart if job.errand.rows > 1 => apart(job, &mut state.queue),
            OnDeath::Restart if job.deaths < 2 => state.queue.push_front(job.anew()),
            OnDeath::Restart => {
                let parts = vec![Part::Fail(Error::func(format!("{text}, and so did the one that tried before it")))];
                due.push((job.reply, Answer { parts, busy_ns: 0, is_end: false }));
            }
        }
    }

    /// Nobody can work any more: all who wait are told why.
    fn give_up(&mut self, error: Error) {
        let jobs = {
            let mut state = lock(&self.inner.state);
            state.broken = Some(error.clone());
            self.inner.take_all(&mut state)
        };
        say(jobs.into_iter().map(|job| (job.reply, end_with(&error))).collect());
        self.let_go();
    }

    /// Ends all processes.
    fn let_go(&mut self) {
        for hand in &self.hands {
            // Also if a process that was forked holds the same socket.
            let _ = hand.inbox.socket().shutdown(Shutdown::Both);
        }
        let until = Instant::now() + GRACE;
        for mut hand in self.hands.drain(..) {
            ended(&mut hand.child, until.saturating_duration_since(Instant::now()));
        }
    }

    fn end(mut self) {
        let jobs = self.inner.take_all(&mut lock(&self.inner.state));
        // Replies that are dropped say that there is no answer.
        drop(jobs);
        self.let_go();
    }

    /// Lets go of a crew that nobody has used for a while, unless an iterator holds it.
    fn leave_if_unused(&self) {
        let Some(home) = self.home.upgrade() else { return };
        let idle = {
            let state = lock(&self.inner.state);
            let busy = !state.queue.is_empty() || state.seats.iter().any(|s| !s.under_way.is_empty());
            !busy && state.used.elapsed() >= LINGER
        };
        if !idle {
            return;
        }
        let _brief = brief();
        let mut kept = lock(&home);
        let ours = |crew: &mut Arc<Processes>| Arc::ptr_eq(&crew.inner, &self.inner) && Arc::strong_count(crew) == 1;
        let gone = kept.take_if(ours);
        drop(kept);
        drop(gone);
    }
}

impl Inner {
    fn take_all(&self, state: &mut State) -> Vec<Job> {
        let mut jobs: Vec<Job> = state.queue.drain(..).collect();
        for seat in &mut state.seats {
            jobs.extend(std::mem::take(seat).under_way);
        }
        state.count();
        jobs
    }
}

fn refused(name: &str, told: Told) -> Error {
    let text = format!("a worker could not take over {name}: {}", told.message);
    Error::new(ErrorKind::Aborted, text).with_source(Arc::new(told))
}

/// Has the rows of an errand done one by one, next.
fn apart(job: Job, queue: &mut VecDeque<Job>) {
    let Job { errand, reply, deaths, .. } = job;
    for (row, reply) in one_by_one(reply, errand.rows).into_iter().enumerate().rev() {
        queue.push_front(Job::new(errand.row(row), reply, deaths));
    }
}

#[cfg(test)]
mod tests;
