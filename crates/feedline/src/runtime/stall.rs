//! What a pass is doing at this moment, for whoever waits for it: the line that a long wait writes to the log, and the
//! whole picture that `debug` gives.
//!
//! 1. A consumer that waits looks at its watch every time it looks for interrupts. After `stall_seconds`, and again at
//!    twice that, four times and so on, it logs one line: which step, what is waited for, since when. The watch runs only
//!    while it waits inside of `next`.
//! 2. Segments note what their workers are at (`Busy`); reads that wait are noted by `feedline-io`.
//! 3. If no worker is at anything of this pass, none of its work is queued, and nothing is on its way from anywhere for
//!    `SILENCE`, nobody will ever wake the consumer. That cannot be, by design; if it is, the wait ends with an internal
//!    error that shows everything.

use super::build::Run;
use super::pool::Load;
use super::sync::lock;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::plan::time_text;
use feedline_io::reads_under_way;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a worker is at.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    /// Pulls the head; otherwise it runs the functions.
    pub head: bool,
    pub since: Instant,
}

/// A segment at this moment.
#[derive(Clone, Debug)]
pub struct SegmentNow {
    /// The operator that its head ends with, and its functions.
    pub head: &'static str,
    pub functions: Vec<&'static str>,
    /// The operator of the head that is being pulled.
    pub pulled: Option<&'static str>,
    pub depth: usize,
    pub chunks: usize,
    pub rows: usize,
    pub bytes: usize,
    /// Whether the first of the queue is there.
    pub ready: bool,
    /// The right to pull is with the pool or a worker.
    pub token: bool,
    /// Its head found nothing and was not woken since.
    pub starved: bool,
    pub done: bool,
    pub busy: Vec<Busy>,
}

impl SegmentNow {
    /// The operators that a worker is at.
    fn at(&self, busy: &Busy) -> String {
        match busy.head || self.functions.is_empty() {
            true => self.pulled.unwrap_or(self.head).into(),
            false => self.functions.join(" and "),
        }
    }
}

/// A pass at this moment.
#[derive(Clone, Debug)]
pub struct Now {
    pub delivered: u64,
    /// Since when the consumer waits, if it does.
    pub waiting: Option<Duration>,
    pub segments: Vec<SegmentNow>,
    pub pool: Load,
    /// Reads of the whole process that are on their way.
    pub reads: Vec<feedline_io::Read>,
    /// Results of other kinds that somebody has promised.
    pub promised: usize,
}

impl Now {
    pub fn of(run: &Run) -> Now {
        let segments: Vec<_> = lock(&run.segments).iter().filter_map(|s| s.upgrade()).collect();
        let segments = segments.iter().map(|s| s.now(&run.names)).collect();
        let consumer = *lock(&run.consumer);
        let delivered = run.meters.delivered.load(std::sync::atomic::Ordering::Relaxed);
        Now {
            delivered: consumer.waiting.map_or(delivered, |_| consumer.delivered),
            waiting: consumer.waiting.map(|since| since.elapsed()),
            segments,
            pool: run.pool.load(),
            reads: reads_under_way(),
            promised: feedline_io::promised(),
        }
    }
    /// What is waited for, in words; `None` if there is nothing that could ever end the wait.
    pub fn cause(&self) -> Option<String> {
        let busy = self.segments.iter().flat_map(|s| s.busy.iter().map(move |b| (s, b)));
        if let Some((segment, busy)) = busy.min_by_key(|(_, b)| b.since) {
            let mut text = format!("{} has been at work for {}", segment.at(busy), ago(busy.since));
            if let Some(read) = self.reads.first().filter(|r| r.since < busy.since) {
                text += &format!("; the oldest read under way is of {}, for {}", read.name, ago(read.since));
            }
            return Some(text);
        }
        let starved = self.segments.iter().find(|s| s.starved && !s.done).map_or("a reader", |s| s.head);
        if let Some(read) = self.reads.first() {
            let (name, at, len) = (&read.name, read.at, read.len);
            if len == 0 {
                return Some(format!("{starved} asked what {name} is {} ago, and has no answer", ago(read.since)));
            }
            return Some(format!(
                "{starved} waits for {len} bytes of {name} at byte {at}, asked for {} ago",
                ago(read.since)
            ));
        }
        if self.segments.iter().any(|s| s.token && !s.done) {
            let Load { running, budget, elsewhere, queued, .. } = self.pool;
            return Some(format!(
                "its work waits for a free worker: {} of {budget} are busy elsewhere, {queued} steps are queued",
                running + elsewhere
            ));
        }
        (self.promised > 0).then(|| format!("{starved} waits for a job in the background (listing, opening, indexing)"))
    }
}

fn ago(since: Instant) -> String {
    time_text(since.elapsed().as_nanos() as u64)
}

impl fmt::Display for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.waiting {
            Some(waiting) => {
                let cause = self.cause().unwrap_or_else(|| "nothing that could end the wait".into());
                writeln!(f, "step {} waits since {}: {cause}", self.delivered, time_text(waiting.as_nanos() as u64))?;
            }
            None => writeln!(f, "step {}; the consumer is not waiting", self.delivered)?,
        }
        let Load { threads, running, budget, elsewhere, queued } = self.pool;
        write!(f, "pool: {running} of {budget} workers at work, ")?;
        if elsewhere > 0 {
            write!(f, "{elsewhere} processes, ")?;
        }
        writeln!(f, "{threads} threads, {queued} steps queued")?;
        for s in &self.segments {
            let flags = [(s.ready, "front ready"), (s.token, "token held"), (s.starved, "starved"), (s.done, "done")];
            let flags: Vec<&str> = flags.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
            let names = std::iter::once(s.head).chain(s.functions.iter().copied()).collect::<Vec<_>>().join(" > ");
            write!(
                f,
                "segment {names} (depth {}): {} chunks, {} rows, {} bytes queued",
                s.depth, s.chunks, s.rows, s.bytes
            )?;
            writeln!(f, "{}{}", if flags.is_empty() { "" } else { "; " }, flags.join(", "))?;
            for busy in &s.busy {
                writeln!(f, "  a worker is at {} for {}", s.at(busy), ago(busy.since))?;
            }
        }
        for read in &self.reads {
            writeln!(f, "read of {} at byte {}, {} bytes, for {}", read.name, read.at, read.len, ago(read.since))?;
        }
        write!(f, "{} results promised", self.promised)
    }
}

/// Whether the consumer of a pass waits, and for which step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consumer {
    delivered: u64,
    waiting: Option<Instant>,
}

/// The watch of a consumer that waits.
pub struct Watch {
    run: Arc<Run>,
    since: Instant,
    next: Duration,
    /// Since when nothing has been going on.
    silent: Option<Instant>,
}

/// So long nothing may go on before it is a fault.
const SILENCE: Duration = Duration::from_secs(5);

impl Watch {
    /// It runs from now on, for the step behind so many.
    pub fn new(run: &Arc<Run>, delivered: u64) -> Watch {
        let since = Instant::now();
        *lock(&run.consumer) = Consumer { delivered, waiting: Some(since) };
        Watch { run: run.clone(), since, next: run.stall, silent: None }
    }
    /// Looks at it: logs a line if it is time to. An error if nothing will ever happen again.
    pub fn look(&mut self) -> Result<()> {
        let waited = self.since.elapsed();
        if waited < self.next {
            return Ok(());
        }
        let now = Now::of(&self.run);
        let Some(cause) = now.cause() else {
            let silent = *self.silent.get_or_insert_with(Instant::now);
            if silent.elapsed() < SILENCE {
                return Ok(());
            }
            return Err(Error::internal(format!(
                "nothing is going on that could give the next element; this is a fault of feedline, please report it\n{now}"
            )));
        };
        self.silent = None;
        self.next = waited.saturating_mul(2);
        log::warn!(
            "step {} has waited for {}: {cause} (next report after {})",
            now.delivered,
            time_text(waited.as_nanos() as u64),
            time_text(self.next.as_nanos() as u64)
        );
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&self.run.consumer).waiting = None;
    }
}

/// How long a consumer may wait before it says so.
pub fn threshold(options: &Options) -> Duration {
    let seconds = options.stall_seconds.or(super::settings().stall_seconds).unwrap_or(10.0);
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(head: &'static str, functions: &[&'static str]) -> SegmentNow {
        SegmentNow {
            head,
            functions: functions.to_vec(),
            pulled: None,
            depth: 1,
            chunks: 0,
            rows: 0,
            bytes: 0,
            ready: false,
            token: false,
            starved: true,
            done: false,
            busy: vec![],
        }
    }
    fn now(segments: Vec<SegmentNow>) -> Now {
        let pool = Load { threads: 2, running: 2, budget: 2, elsewhere: 0, queued: 1 };
        Now { delivered: 7, waiting: Some(Duration::from_secs(12)), segments, pool, reads: vec![], promised: 0 }
    }

    #[test]
    fn the_cause_is_what_has_been_going_on_for_longest() {
        let since = Instant::now();
        let mut decode = segment("tf_record", &["map", "map"]);
        decode.busy.push(Busy { head: false, since });
        let mut reader = segment("shuffle", &[]);
        reader.pulled = Some("from_generator");
        reader.busy.push(Busy { head: true, since: since - Duration::from_secs(3) });
        let cause = now(vec![decode.clone(), reader]).cause().unwrap();
        assert!(cause.starts_with("from_generator has been at work for 3"), "{cause}");
        let cause = now(vec![decode]).cause().unwrap();
        assert!(cause.starts_with("map and map has been at work"), "{cause}");
    }

    #[test]
    fn reads_workers_and_promises_are_waited_for() {
        let read = |len| feedline_io::Read { name: "s3://b/x".into(), at: 5, len, since: Instant::now() };
        let mut all = now(vec![segment("tf_record", &["map"])]);
        all.promised = 1;
        assert!(all.cause().unwrap().contains("tf_record waits for a job"));
        all.segments[0].token = true;
        assert!(all.cause().unwrap().contains("2 of 2 are busy elsewhere"));
        all.reads = vec![read(10)];
        assert!(all.cause().unwrap().contains("10 bytes of s3://b/x at byte 5"));
        all.reads = vec![read(0)];
        assert!(all.cause().unwrap().contains("no answer"));
        let text = all.to_string();
        assert!(text.contains("step 7 waits since 12") && text.contains("segment tf_record > map (depth 1)"), "{text}");
    }

    #[test]
    fn nothing_at_all_is_a_fault() {
        let all = now(vec![segment("tf_record", &["map"])]);
        assert_eq!(all.cause(), None);
        assert!(all.to_string().contains("nothing that could end the wait"));
    }
}
