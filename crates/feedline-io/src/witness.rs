//! Which files somebody's work has read, and how they were then: what is kept of its results is worth as much as they are
//! unchanged.
//!
//! 1. A thread works under the eyes of a `Witness` (`enter`), beside the account that it works for. Every file goes through
//!    `open`, every pattern through `glob`; both tell it. Nobody looks where nobody wants to know.
//! 2. A file is looked at before it is opened, so one that changes while it is read is known by what it was: it counts as
//!    changed afterwards.
//! 3. Files of this machine are all recorded: a look at one takes a microsecond. Of far ones it is a request: the first
//!    `MOST_FAR` are, by what their first answer said, so recording costs nothing. An address with a query is never
//!    recorded: it may hold a secret, and stops being valid.
//! 4. What is kept inside of what is kept tells the one around it, too.

use crate::fork::brief;
use crate::location::{Location, locate};
use crate::source::{Source, Stat, open};
use crate::{Result, Task};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Far files that are recorded: each is a request for whoever wants to know whether it changed.
#[cfg(feature = "remote")]
const MOST_FAR: usize = 1000;
/// Threads that look at files of this machine, each at so many at a time.
const LOOKERS: usize = 16;
const AT_ONCE: usize = 512;
const MISSING: &str = "missing";

thread_local! {
    static WITNESS: RefCell<Option<Arc<Witness>>> = const { RefCell::new(None) };
}

/// The files that were read so far.
#[derive(Debug, Default)]
pub struct Witness {
    around: Option<Arc<Witness>>,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    record: Record,
    far: HashMap<String, Arc<dyn Source>>,
}

/// Files by name with their length and version, and patterns with what they found, as text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub files: BTreeMap<String, String>,
    pub patterns: BTreeMap<String, String>,
}

impl Witness {
    pub fn new(around: Option<Arc<Witness>>) -> Arc<Witness> {
        Arc::new(Witness { around, found: Mutex::default() })
    }
    /// Who looks at what this thread does.
    pub fn current() -> Option<Arc<Witness>> {
        WITNESS.try_with(|current| current.borrow().clone()).ok().flatten()
    }
    /// Lets this thread's files be recorded there, or nowhere, until the result is dropped.
    pub fn enter(witness: Option<Arc<Witness>>) -> Watched {
        Watched { before: WITNESS.try_with(|current| current.replace(witness)).ok().flatten() }
    }
    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn each(&self, note: impl Fn(&mut Found)) {
        let _brief = brief();
        let mut witness = Some(self);
        while let Some(this) = witness {
            note(&mut this.lock());
            witness = this.around.as_deref();
        }
    }
    /// What was recorded elsewhere and counts here as well.
    pub fn extend(&self, record: &Record) {
        self.each(|found| found.record.extend(record));
    }
    /// All that is known of it by now.
    pub fn record(&self) -> Record {
        let _brief = brief();
        let found = self.lock();
        let mut record = found.record.clone();
        for (name, source) in &found.far {
            // One that never answered was not read.
            if let Some(stat) = source.known() {
                record.files.entry(name.clone()).or_insert_with(|| text(&stat));
            }
        }
        record
    }
}

/// As long as it lives the files of this thread are recorded.
#[must_use]
pub struct Watched {
    before: Option<Arc<Witness>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = WITNESS.try_with(|current| current.replace(self.before.take()));
    }
}

/// A file of this machine is about to be opened.
pub(crate) fn note_local(name: &str, path: &str) {
    let Some(witness) = Witness::current() else { return };
    let Some(now) = look_at(path) else { return };
    // The first look counts: what was read of it then is in the results.
    witness.each(|found| {
        found.record.files.entry(name.into()).or_insert_with(|| now.clone());
    });
}

#[cfg(feature = "remote")]
pub(crate) fn note_far(name: &str, source: &Arc<dyn Source>) {
    let Some(witness) = Witness::current() else { return };
    if is_secret(name) {
        return;
    }
    witness.each(|found| {
        if found.far.len() < MOST_FAR {
            found.far.entry(name.into()).or_insert_with(|| source.clone());
        }
    });
}

pub(crate) fn note_pattern(pattern: &str, files: &[String]) {
    let Some(witness) = Witness::current() else { return };
    if !is_secret(pattern) {
        witness.each(|found| {
            found.record.patterns.entry(pattern.into()).or_insert_with(|| summary(files));
        });
    }
}

fn is_secret(name: &str) -> bool {
    (name.starts_with("http://") || name.starts_with("https://")) && name.contains(['?', '#', '@'])
}

fn text(stat: &Stat) -> String {
    format!("{} {}", stat.len, stat.version)
}

/// The version of a file of this machine.
pub(crate) fn version(meta: &std::fs::Metadata) -> String {
    format!("{}.{:09}-{}", meta.mtime(), meta.mtime_nsec(), meta.ino())
}

/// How a file of this machine is; `None`: nobody can tell just now.
fn look_at(path: impl AsRef<Path>) -> Option<String> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match std::fs::metadata(path) {
        Ok(meta) => Some(text(&Stat { len: meta.len(), version: version(&meta) })),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Some(MISSING.into()),
        Err(_) => None,
    }
}

/// How many files a pattern found, and which.
fn summary(files: &[String]) -> String {
    let mut sum = 0;
    for name in files {
        sum = crc32c::crc32c_append(sum, name.as_bytes());
        sum = crc32c::crc32c_append(sum, &[0]);
    }
    format!("{} {sum:08x}", files.len())
}

impl Record {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.patterns.is_empty()
    }
    pub fn extend(&mut self, other: &Record) {
        for (mine, others) in [(&mut self.files, &other.files), (&mut self.patterns, &other.patterns)] {
            for (name, was) in others {
                mine.entry(name.clone()).or_insert_with(|| was.clone());
            }
        }
    }
    /// The first file that is not as it was, in words. What cannot be asked about, a store out of reach for instance, does
    /// not count.
    pub fn change(&self) -> Option<String> {
        let (mut here, mut far) = (Vec::new(), Vec::new());
        for (name, was) in &self.files {
            match locate(name) {
                Ok(Location::Local(path)) => here.push((name, path, was)),
                _ => far.push((name, was)),
            }
        }
        self.changed_pattern().or_else(|| changed_here(&here)).or_else(|| changed_far(&far))
    }
    fn changed_pattern(&self) -> Option<String> {
        // Whoever asks is not reading.
        let _watched = Witness::enter(None);
        let other = |pattern: &str, was: &str| crate::glob(pattern).is_ok_and(|files| summary(&files) != was);
        let (pattern, _) = self.patterns.iter().find(|(pattern, was)| other(pattern, was))?;
        Some(format!("other files match {pattern} now"))
    }
}

fn words(name: &str, was: &str, now: &str) -> Option<String> {
    match () {
        () if was == now => None,
        () if now == MISSING => Some(format!("{name} is not there any more")),
        () if was == MISSING => Some(format!("{name} was not there then")),
        () => Some(format!("{name} has changed")),
    }
}

fn changed_here(files: &[(&String, &str, &String)]) -> Option<String> {
    let other = |(name, path, was): &(&String, &str, &String)| words(name, was, &look_at(path)?);
    if files.len() <= AT_ONCE {
        return files.iter().find_map(other);
    }
    let lots: Vec<_> = files.chunks(AT_ONCE).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let look = || {
            let mut lots = std::iter::from_fn(|| lots.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)));
            lots.find_map(|lot| lot.iter().find_map(other))
        };
        let threads: Vec<_> = (0..LOOKERS.min(lots.len())).map(|_| scope.spawn(look)).collect();
        threads.into_iter().fold(None, |first, thread| first.or(thread.join().ok().flatten()))
    })
}

/// All are asked about at once: the store says how many requests it takes at a time.
fn changed_far(files: &[(&String, &String)]) -> Option<String> {
    let _watched = Witness::enter(None);
    let ask =
        |(name, was)| -> Option<(&String, &String, Task<Result<Stat>>)> { Some((name, was, open(name).ok()?.stat())) };
    let asked: Vec<_> = files.iter().copied().filter_map(ask).collect();
    asked.into_iter().find_map(|(name, was, stat)| match stat.wait() {
        Ok(stat) => words(name, was, &text(&stat)),
        Err(error) => match crate::exists(name) {
            Ok(false) => words(name, was, MISSING),
            _ => {
                log::warn!("{name} cannot be asked about; what was kept of it is taken to be right: {error}");
                None
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_is_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let name = |n: &str| dir.path().join(n).to_str().unwrap().to_string();
        ["a", "b", "c", "d"].iter().for_each(|n| std::fs::write(name(n), n).unwrap());
        let outer = Witness::new(None);
        let inner = Witness::new(Some(outer.clone()));
        let read = |n: &str| drop(open(&name(n)).unwrap());
        read("a");
        {
            let _watched = Witness::enter(Some(outer.clone()));
            read("b");
            let _inside = Witness::enter(Some(inner.clone()));
            read("c");
            read("not there");
            let _nobody = Witness::enter(None);
            read("d");
        }
        assert!(Witness::current().is_none());
        let names = |witness: &Witness| witness.record().files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&inner), [name("c"), name("not there")]);
        assert_eq!(names(&outer), [name("b"), name("c"), name("not there")]);
        let record = outer.record();
        assert_eq!(record.change(), None);
        std::fs::write(name("c"), "longer").unwrap();
        assert!(record.change().unwrap().ends_with("/c has changed"), "{:?}", record.change());
        std::fs::remove_file(name("b")).unwrap();
        assert!(record.change().unwrap().ends_with("/b is not there any more"));
    }

    #[test]
    fn what_appears_is_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let name = |n: &str| dir.path().join(n).to_str().unwrap().to_string();
        let witness = Witness::new(None);
        {
            let _watched = Witness::enter(Some(witness.clone()));
            drop(open(&name("a")));
            assert!(crate::glob(&name("*.txt")).unwrap().is_empty());
        }
        let record = witness.record();
        assert_eq!(record.change(), None);
        std::fs::write(name("b.txt"), "").unwrap();
        assert!(record.change().unwrap().contains("other files match"));
        std::fs::remove_file(name("b.txt")).unwrap();
        std::fs::write(name("a"), "").unwrap();
        assert!(record.change().unwrap().contains("was not there then"));
    }

    #[test]
    fn many_files_are_looked_at_side_by_side() {
        let dir = tempfile::tempdir().unwrap();
        let name = |n: usize| dir.path().join(n.to_string()).to_str().unwrap().to_string();
        let witness = Witness::new(None);
        for n in 0..3 * AT_ONCE {
            std::fs::write(name(n), "x").unwrap();
            let _watched = Witness::enter(Some(witness.clone()));
            drop(open(&name(n)).unwrap());
        }
        let record = witness.record();
        assert_eq!((record.files.len(), record.change()), (3 * AT_ONCE, None));
        std::fs::write(name(2 * AT_ONCE + 7), "other").unwrap();
        assert!(record.change().unwrap().contains(&format!("{} has changed", name(2 * AT_ONCE + 7))));
    }

    #[test]
    fn secrets_are_not_kept() {
        assert!(is_secret("https://h/a?sig=x") && is_secret("https://me:pw@h/a"));
        assert!(!is_secret("https://h/a") && !is_secret("s3://b/a?b"));
    }
}
