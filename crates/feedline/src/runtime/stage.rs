//! A running operator. A stage is pulled: it gives some rows, an error in the place of one row, "not yet", or the end.

use super::given::Given;
use super::mark::{At, Mark};
use crate::element::{Chunk, Slots};
use crate::error::{Error, Result};
use crate::expr::{Part, Reply};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What a pull gives.
#[derive(Debug)]
pub enum Pull {
    /// Between one row and as many as were wanted.
    Rows(Chunk),
    /// This stands in the place of one element; the next pull goes on after it.
    Fail(Error),
    /// Nothing now; the waker in `Cx` is called when there is.
    Pending,
    End,
}

/// What travels through queues: rows or an error in the place of one.
#[derive(Debug)]
pub enum Item {
    Rows(Chunk),
    Fail(Error),
}

impl From<Item> for Pull {
    fn from(item: Item) -> Pull {
        match item {
            Item::Rows(chunk) => Pull::Rows(chunk),
            Item::Fail(error) => Pull::Fail(error),
        }
    }
}

impl Item {
    /// What came back from elsewhere, for the rows that were sent there.
    pub fn of_parts(parts: Vec<Part>, sent: &Chunk) -> Vec<Item> {
        let mut at = 0;
        let item = |part| match part {
            Part::Rows(rows, columns) => {
                at += rows;
                Item::Rows(Chunk::new(rows, sent.pos.slice(at - rows..at), columns))
            }
            Part::Fail(error) => {
                at += 1;
                Item::Fail(error.at_element(sent.pos.at(at - 1)).with_row(Arc::new(sent.element(at - 1))))
            }
        };
        parts.into_iter().map(item).collect()
    }
    /// How many rows it has or stands for.
    pub fn places(&self) -> usize {
        self.rows().map_or(1, Chunk::rows)
    }
    /// The rows, if it is no error.
    pub fn rows(&self) -> Option<&Chunk> {
        match self {
            Item::Rows(chunk) => Some(chunk),
            Item::Fail(_) => None,
        }
    }
    pub fn rows_mut(&mut self) -> Option<&mut Chunk> {
        match self {
            Item::Rows(chunk) => Some(chunk),
            Item::Fail(_) => None,
        }
    }
    pub fn nbytes(&self) -> usize {
        match self {
            Item::Rows(chunk) => chunk.nbytes() + chunk.pos.nbytes(),
            Item::Fail(_) => 256,
        }
    }
    /// What it keeps alive that would not be there otherwise.
    pub fn own_bytes(&self) -> usize {
        match self {
            Item::Rows(chunk) => chunk.own_bytes(),
            item => item.nbytes(),
        }
    }
}

/// What a segment stands still for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Rows of the segment below.
    Input,
    /// Bytes of a file or an object.
    Io,
    /// Room in its queue.
    Room,
}

/// Whoever wants to know that a stage may have something again.
pub trait Wake: Send + Sync {
    fn wake(&self);
}

/// What a pull carries along.
pub struct Cx<'a> {
    /// Called after `Pending`, when it is worth pulling again.
    pub waker: &'a Weak<dyn Wake>,
    /// True once the iterator is gone: long loops end with `Pull::End`.
    pub cancelled: &'a super::sync::atomic::AtomicBool,
    /// Time spent in the stages below, so that each stage is charged its own.
    pub inner_ns: u64,
    /// Time spent waiting for Python's lock by all stages together.
    pub lock_ns: u64,
    /// The node whose segment pulls; 0: the consumer does.
    pub place: u64,
    /// Why a stage gave `Pending`, if it is a wait.
    pub waits: Option<Wait>,
    /// After this, stages give `Pending` and are pulled again later: an operator that finds nothing for long (a filter
    /// that rejects everything) must not keep a thread from being interrupted, cancelled or used for other work.
    pub deadline: Instant,
    /// Where the node is noted that is being pulled, for whoever looks at the pass.
    pub at: Option<&'a std::sync::atomic::AtomicU64>,
    /// What the stage that is pulled has spent on files rather than on what is in them.
    pub files: FileTime,
    /// Nobody waits for this one in particular: what works ahead need not go on where there is no room.
    pub looks: bool,
}

/// Parts of the time of a reader; the rest is opening files and waiting for their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileTime {
    /// Making records of bytes, which other files with the same records would take as well.
    pub cut_ns: u64,
    /// Making plain bytes of compressed ones.
    pub unpack_ns: u64,
}

/// How long a pull may go on without giving anything.
const PATIENCE: Duration = Duration::from_millis(20);

impl<'a> Cx<'a> {
    pub fn new(waker: &'a Weak<dyn Wake>, cancelled: &'a super::sync::atomic::AtomicBool) -> Cx<'a> {
        let deadline = Instant::now() + PATIENCE;
        Cx {
            waker,
            cancelled,
            inner_ns: 0,
            lock_ns: 0,
            place: 0,
            waits: None,
            deadline,
            at: None,
            files: FileTime::default(),
            looks: false,
        }
    }

    /// The waker as futures want it.
    pub fn std_waker(&self) -> std::task::Waker {
        struct Woken(Weak<dyn Wake>);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Self>) {
                if let Some(waker) = self.0.upgrade() {
                    waker.wake();
                }
            }
        }
        Arc::new(Woken(self.waker.clone())).into()
    }

    /// Whether the pull has gone on for long enough. Then `Pending` is to be given: the waker has been called already.
    pub fn is_late(&self, now: Instant) -> bool {
        let late = now > self.deadline;
        if late && let Some(waker) = self.waker.upgrade() {
            waker.wake();
        }
        late
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(super::sync::atomic::Ordering::Relaxed)
    }
}

/// A running operator, pulled by one thread at a time.
pub trait Stage: Send {
    /// At most `want` (at least 1) rows. After `End` it must give `End` again.
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull;
    /// From where the next pull goes on. Asked only while it `is_settled`.
    fn mark(&mut self, out: &mut Mark);
    /// Goes to where a stage of the same plan was marked. One that works ahead is sent there before it has begun; all
    /// others can be sent anywhere, any time.
    fn seek(&mut self, at: &mut At<'_>) -> Result<()>;
    /// Goes on behind so many of its results, without making them and as if none of them failed; false if it cannot, and
    /// stays where it is. Asked of what is read again, and after `seek` of what stands on a `shard` that has another number
    /// of parts than before.
    fn pass(&mut self, _results: u64) -> bool {
        false
    }
    /// Bytes that are taken to make what it gives next, beyond what that has in the end. A segment asks for room for them
    /// before it pulls.
    fn needs(&self) -> usize {
        0
    }
    /// Begins to work ahead, if that is what it does.
    fn start(&self) {}
    /// Whether nothing is held that `mark` would leave out.
    fn is_settled(&self) -> bool {
        true
    }
    /// Finds out whether what is held has come to its end, and so whether it `is_settled`. Asked right before a pull of as many
    /// rows, which gives what was found.
    fn settle(&mut self, _cx: &mut Cx<'_>, _want: usize) {}
    /// Whether it is not settled at times: it is then marked at the last moment at which it was (`replay.rs`).
    fn replays(&self) -> bool {
        false
    }
}

/// A function of chunks without memory of earlier ones: any number of workers may run it at once.
pub trait ChunkFn: Send + Sync {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>);
    /// The same; results may be made in the slots, which have room for exactly these rows.
    fn run_into(&self, chunk: Chunk, _slots: Slots, out: &mut Vec<Item>) {
        self.run(chunk, out);
    }
    /// The same for the first of the rows at least: the others are left, and returned, where enough was made of those before
    /// (`MUCH`). For functions that keep rows and cannot be run again.
    fn run_some(&self, chunk: Chunk, out: &mut Vec<Item>) -> Option<Chunk> {
        self.run(chunk, out);
        None
    }
    /// Whether each row comes out, in its place, as one row or as an error.
    fn keeps_rows(&self) -> bool {
        false
    }
    /// Whether `run_into` makes results in the slots.
    fn fills_slots(&self) -> bool {
        false
    }
    /// Whether its results are those of an operator. Otherwise its time counts, as that of the operator before it.
    fn counts(&self) -> bool {
        true
    }
    /// Calls Python, or waits for something else that may take its time: a waiting consumer leaves it to workers.
    fn is_host(&self) -> bool {
        false
    }
    /// Whether running it twice on the same rows does no harm: where there is no room for its results it is run again.
    fn repeats(&self) -> bool {
        false
    }
    /// Whether rows are worked on elsewhere: `send` is called in place of `run`.
    fn is_away(&self) -> bool {
        false
    }
    /// Has rows worked on elsewhere. Does not wait: the reply is given later, from any thread.
    fn send(&self, _chunk: Chunk, _slots: Slots, _reply: Box<dyn Reply>) {}
}

/// Unwraps a pull to its rows; everything else is returned from the calling stage.
#[macro_export]
macro_rules! rows {
    ($pull:expr) => {
        match $pull {
            $crate::runtime::Pull::Rows(chunk) => chunk,
            other => return other,
        }
    };
}

/// Parts of the limit: functions that cannot be run again make no more of several rows at once, or one row more.
const MUCH: usize = 16;

/// What is much, under the limit of whoever this thread works for.
pub fn much() -> usize {
    feedline_io::Account::current().map_or(usize::MAX, |account| account.limit() / MUCH)
}

/// Runs a chunk function where it stands, in the order of the rows: for operators that must not run early.
pub struct Inline {
    pub input: Box<dyn Stage>,
    pub function: Arc<dyn ChunkFn>,
    pub ready: std::collections::VecDeque<Item>,
    /// Rows that the function has not seen yet: of those before enough was made.
    pub left: Option<Chunk>,
    /// How many operators it stands for. Each of several keeps rows.
    pub layers: usize,
    /// Results that were given before a state was taken, where these operators ran apart.
    pub drop: Given,
}

impl Inline {
    pub fn new(input: Box<dyn Stage>, function: Arc<dyn ChunkFn>, layers: usize) -> Inline {
        Inline { input, function, ready: Default::default(), left: None, layers, drop: Given::default() }
    }
}

impl Stage for Inline {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            if let Some(item) = pop_rows(&mut self.ready, self.drop.ask(want)) {
                let pull = item.into();
                if self.drop.takes(&pull) {
                    continue;
                }
                return pull;
            }
            if cx.is_cancelled() {
                return Pull::End;
            }
            let chunk = match self.left.take() {
                Some(chunk) => chunk,
                None => match self.input.next(cx, self.drop.ask(want)) {
                    Pull::Rows(chunk) => chunk,
                    fail if self.drop.takes(&fail) => continue,
                    other => return other,
                },
            };
            let mut out = Vec::new();
            self.left = self.function.run_some(chunk, &mut out);
            self.ready.extend(out);
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        // The first number is that of whoever replays it.
        (1..self.layers).for_each(|_| Given::default().mark(out));
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.ready.clear();
        (self.left, self.drop) = (None, Given::default());
        for _ in 1..self.layers {
            self.drop = self.drop.and(Given::read(at)?.through_functions());
        }
        let resharded = at.is_resharded();
        self.input.seek(at)?;
        match resharded && !self.drop.is_none() && !self.input.pass(std::mem::take(&mut self.drop).results()) {
            true => Err(super::mark::unfit()),
            false => Ok(()),
        }
    }
    fn pass(&mut self, results: u64) -> bool {
        self.function.keeps_rows() && self.is_settled() && self.input.pass(results)
    }
    fn is_settled(&self) -> bool {
        self.ready.is_empty() && self.left.is_none() && self.drop.is_none()
    }
    fn replays(&self) -> bool {
        true
    }
}

/// The next item of a queue, with at most `want` rows; the rest stays in front.
pub fn pop_rows(queue: &mut std::collections::VecDeque<Item>, want: usize) -> Option<Item> {
    match queue.front_mut()? {
        Item::Rows(chunk) if chunk.rows() > want => Some(Item::Rows(chunk.split_front(want))),
        _ => queue.pop_front(),
    }
}
