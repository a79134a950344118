//! Objects of stores and pages of the web, read range by range. Whatever a server says is checked against what was asked:
//! bytes that are handed on are those of the range, of one version of the object, and all of them.

use crate::flights::Flight;
use crate::fork::brief;
use crate::location::{Location, without_secrets};
use crate::net::{StoreKey, net, run};
use crate::retry::{Patience, Trouble, refusal};
use crate::settings::{Settings, settings};
use crate::source::{Hints, Source, Stat};
use crate::{Buf, Error, Kind, Result, Task, bail};
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A read takes so much memory before its bytes arrive; beyond, it grows with them. A length that somebody claims, in a
/// damaged file or in an answer, does not decide how much memory is taken.
const AT_ONCE: usize = 16 << 20;
/// From a server that cannot give ranges the whole is taken, if it is no longer than this.
const WHOLE: u64 = 64 << 20;

/// An object or a page.
#[derive(Debug)]
pub struct Remote {
    /// What errors call it.
    name: String,
    place: Place,
    settings: Arc<Settings>,
    /// What the first answer said of version and length; later ones must agree.
    first: OnceLock<(String, u64)>,
    /// The server answered a ranged read with the whole.
    no_ranges: AtomicBool,
}

#[derive(Debug)]
enum Place {
    Page(String),
    Object(StoreKey, Path),
}

impl Remote {
    pub(crate) fn new(name: &str, location: &Location<'_>) -> Result<Remote> {
        let place = match (location, StoreKey::new(location)) {
            (Location::Object { key, .. }, Some(store)) => Place::Object(store, object_path(name, key)?),
            (Location::Http(url), _) => Place::Page(page_url(url)?),
            _ => bail!(Internal, "{name} is not far"),
        };
        Ok(Remote {
            name: without_secrets(name),
            place,
            settings: settings(),
            first: OnceLock::new(),
            no_ranges: AtomicBool::new(false),
        })
    }

    fn store(&self) -> Result<(Arc<dyn ObjectStore>, Path)> {
        match &self.place {
            Place::Page(url) => Ok((net()?.page(url)?, Path::ROOT)),
            Place::Object(key, path) => Ok((net()?.store(key, false)?, path.clone())),
        }
    }

    /// Without what is secret: some errors of clients repeat the whole URL.
    fn scrub(&self, error: Error) -> Error {
        let Place::Page(url) = &self.place else { return error };
        let Some((_, secret)) = url.split_once('?').filter(|(_, secret)| !secret.is_empty()) else { return error };
        let Some(message) = error.message().contains(secret).then(|| error.message().replace(secret, "...")) else {
            return error;
        };
        let scrubbed = Error::new(error.kind(), message);
        match error.cause() {
            Some(cause) => scrubbed.with_source(cause.clone()),
            None => scrubbed,
        }
    }

    async fn fetch(&self, at: u64, len: usize) -> Result<Buf> {
        let (store, path) = self.store()?;
        // Kept while it pauses after a failure, too: a store that is busy is asked less.
        let _turn = net()?.turn().await;
        let mut patience = Patience::new(&self.settings, format!("read of {len} bytes"));
        loop {
            match patience.bounded(self.part(&*store, &path, at, len)).await {
                Ok(buf) => return Ok(buf),
                // A range that begins at the end or behind it.
                Err(trouble) if trouble.status() == Some(416) => {
                    return match self.first.get().filter(|(_, len)| at < *len) {
                        None => Ok(Buf::new(0)),
                        Some((_, len)) => {
                            let text =
                                format!("it changed while it was read: of {len} bytes, those from {at} on are gone");
                            Err(Error::loss(text).in_file(&self.name, Some(at)))
                        }
                    };
                }
                Err(trouble) => {
                    let is_missing = trouble.status() == Some(404);
                    if let Err(e) = patience.again(trouble).await {
                        let e = if is_missing { self.or_folder(e, &*store, &path).await } else { e };
                        return Err(self.scrub(e).in_file(&self.name, Some(at)));
                    }
                }
            }
        }
    }

    /// What to say of an object that is not there: perhaps it is the name of a folder.
    async fn or_folder(&self, error: Error, store: &dyn ObjectStore, path: &Path) -> Error {
        let Place::Object(..) = self.place else { return error };
        let below = tokio::time::timeout(self.settings.idle_timeout, store.list_with_delimiter(Some(path))).await;
        match below {
            Ok(Ok(list)) if !list.objects.is_empty() || !list.common_prefixes.is_empty() => {
                let text =
                    format!("{}; there are objects below it: name it {}/ to read those", error.message(), self.name);
                refusal(error.kind(), text, Some(404))
            }
            _ => error,
        }
    }

    /// One try of a read.
    async fn part(&self, store: &dyn ObjectStore, path: &Path, at: u64, len: usize) -> Result<Buf, Trouble> {
        if !self.no_ranges.load(Relaxed) {
            let read = self.range(store, path, at, len).await;
            if !self.no_ranges.load(Relaxed) {
                return read;
            }
        }
        self.whole_part(store, path, at, len).await
    }

    async fn range(&self, store: &dyn ObjectStore, path: &Path, at: u64, len: usize) -> Result<Buf, Trouble> {
        let range = at..at.saturating_add(len as u64);
        let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        let result = match self.answer(store.get_opts(path, options)).await {
            Err(object_store::Error::NotSupported { source }) => {
                if !self.no_ranges.swap(true, Relaxed) {
                    log::warn!("{} is on a server without ranged reads: each read begins at its start", self.name);
                }
                return Err(Trouble::nonsense(format!("the server gives no ranges: {source}")));
            }
            result => result?,
        };
        self.is_same(&result.meta)?;
        let wanted = range.start..range.end.min(result.meta.size);
        if result.range != wanted {
            return Err(Trouble::nonsense(format!("the answer is bytes {:?} instead of {wanted:?}", result.range)));
        }
        self.body(result, 0, wanted.end - wanted.start).await
    }

    /// The part from an answer that is the whole object.
    async fn whole_part(&self, store: &dyn ObjectStore, path: &Path, at: u64, len: usize) -> Result<Buf, Trouble> {
        let result = self.answer(store.get_opts(path, GetOptions::default())).await?;
        self.is_same(&result.meta)?;
        let size = result.meta.size;
        if size > WHOLE {
            let cause = format!(
                "its server gives no ranges, and {size} bytes are too many to fetch for each read; copy it to a disk \
                 or to a store"
            );
            return Err(Trouble::Final { kind: Kind::Io, cause, status: None });
        }
        let at = at.min(size);
        self.body(result, at, (size - at).min(len as u64)).await
    }

    /// Waits for the head of an answer.
    async fn answer(
        &self,
        answer: impl Future<Output = object_store::Result<GetResult>>,
    ) -> object_store::Result<GetResult> {
        let limit = self.settings.idle_timeout;
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(silence(limit)),
        }
    }

    /// `len` bytes of the body after its first `skip`.
    async fn body(&self, result: GetResult, skip: u64, len: u64) -> Result<Buf, Trouble> {
        let whole = result.range.end - result.range.start;
        let len = usize::try_from(len).map_err(|_| Trouble::nonsense("the answer is larger than any memory"))?;
        let limit = self.settings.idle_timeout;
        let mut stream = result.into_stream();
        let mut buf = Buf::new(len.min(AT_ONCE));
        let mut filled = 0usize;
        let mut passed = 0u64;
        loop {
            let piece = match tokio::time::timeout(limit, stream.next()).await {
                Ok(Some(piece)) => piece?,
                Ok(None) => break,
                Err(_) => return Err(silence(limit).into()),
            };
            let first = skip.saturating_sub(passed).min(piece.len() as u64) as usize;
            passed += piece.len() as u64;
            let rest = &piece[first..];
            let rest = &rest[..rest.len().min(len - filled)];
            if filled + rest.len() > buf.len() {
                buf = grown(&buf, filled, (buf.len() * 2).max(filled + rest.len()).min(len));
            }
            buf.get_mut().expect("nobody else has it yet")[filled..filled + rest.len()].copy_from_slice(rest);
            filled += rest.len();
            if passed > whole {
                return Err(Trouble::nonsense(format!("the body is longer than the {whole} bytes it says it is")));
            }
            // What is left of a whole object is not worth its time.
            if filled == len && passed < whole {
                break;
            }
        }
        if filled < len {
            return Err(Trouble::passing(format!("the body ended after {passed} of {whole} bytes")));
        }
        Ok(buf)
    }

    fn remember(&self, now: &(String, u64)) -> &(String, u64) {
        let _brief = brief();
        self.first.get_or_init(|| now.clone())
    }

    /// Remembers what the first answer said of the object, and checks the others against it.
    fn is_same(&self, meta: &ObjectMeta) -> Result<(), Trouble> {
        let now = (version(meta), meta.size);
        let first = self.remember(&now);
        if *first != now {
            let ((old, len), (new, now)) = (first, now);
            let cause =
                format!("it changed while it was read (from {len} bytes, {old} to {now} bytes, {new}); open it anew");
            return Err(Trouble::Final { kind: Kind::Loss, cause, status: None });
        }
        Ok(())
    }

    /// A look at what is there now; `None`: nothing.
    async fn look(&self) -> Result<Option<Stat>> {
        let (store, path) = self.store()?;
        let mut patience = Patience::new(&self.settings, "look at it".into());
        loop {
            match patience.bounded(self.meta(&*store, &path)).await {
                Ok(meta) => return Ok(Some(Stat { len: meta.size, version: version(&meta) })),
                Err(trouble) if trouble.status() == Some(404) => return Ok(None),
                Err(trouble) => patience.again(trouble).await.map_err(|e| self.scrub(e).in_file(&self.name, None))?,
            }
        }
    }

    /// Whether there is such an object.
    pub(crate) fn exists(self: Arc<Self>) -> Task<Result<bool>> {
        run(async move { Ok(self.look().await?.is_some()) })
    }

    /// One try of a look.
    async fn meta(&self, store: &dyn ObjectStore, path: &Path) -> Result<ObjectMeta, Trouble> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        let trouble = match self.answer(store.get_opts(path, options)).await {
            Ok(result) => return Ok(result.meta),
            Err(error) => Trouble::from(error),
        };
        // Signed addresses allow only what they were signed for, and some servers know no HEAD: a byte says as much.
        let no_head = matches!(trouble, Trouble::Nonsense(_)) || matches!(trouble.status(), Some(400 | 403 | 405));
        if !matches!(self.place, Place::Page(_)) || !no_head {
            return Err(trouble);
        }
        let options = GetOptions { range: Some(GetRange::Bounded(0..1)), ..GetOptions::default() };
        match self.answer(store.get_opts(path, options)).await {
            Ok(result) => Ok(result.meta),
            Err(_) => Err(trouble),
        }
    }
}

impl Source for Remote {
    fn name(&self) -> &str {
        &self.name
    }
    fn known_len(&self) -> Option<u64> {
        self.first.get().map(|(_, len)| *len)
    }
    fn known(&self) -> Option<Stat> {
        self.first.get().map(|(version, len)| Stat { len: *len, version: version.clone() })
    }
    fn stat(self: Arc<Self>) -> Task<Result<Stat>> {
        let flight = Flight::begin(&self.name, 0, 0);
        run(async move {
            let _flight = flight;
            let Some(stat) = self.look().await? else {
                let missing = refusal(Kind::Io, "there is no such object".into(), Some(404));
                let (store, path) = self.store()?;
                return Err(self.or_folder(missing, &*store, &path).await.in_file(&self.name, None));
            };
            // Not checked against what was read first: this is what is there now.
            self.remember(&(stat.version.clone(), stat.len));
            Ok(stat)
        })
    }
    fn read(self: Arc<Self>, at: u64, len: usize) -> Task<Result<Buf>> {
        // No object reaches beyond what a signed offset can say.
        let end = self.known_len().unwrap_or(i64::MAX as u64);
        if len == 0 || at >= end {
            return Task::ready(Ok(Buf::new(0)));
        }
        let flight = Flight::begin(&self.name, at, len);
        run(async move {
            let _flight = flight;
            self.fetch(at, len).await
        })
    }
    fn hints(&self) -> Hints {
        Hints { block: self.settings.block_bytes, ahead: self.settings.ahead_bytes }
    }
    fn gap(&self) -> usize {
        self.settings.gap_bytes
    }
}

/// What changes when the object does. Empty where a server says nothing of the kind.
fn version(meta: &ObjectMeta) -> String {
    match (&meta.e_tag, meta.last_modified.timestamp_millis()) {
        (Some(tag), _) => tag.trim_start_matches("W/").trim_matches('"').to_string(),
        (None, 0) => String::new(),
        (None, time) => format!("{time}-{}", meta.size),
    }
}

/// As an error of the store, so that all failures of a request take one path.
fn silence(limit: Duration) -> object_store::Error {
    use object_store::client::{HttpError, HttpErrorKind};
    let message = format!("nothing came for {:.1} s", limit.as_secs_f64());
    let source = HttpError::new(HttpErrorKind::Timeout, std::io::Error::new(std::io::ErrorKind::TimedOut, message));
    object_store::Error::Generic { store: "network", source: Box::new(source) }
}

fn grown(buf: &Buf, filled: usize, len: usize) -> Buf {
    let mut larger = Buf::new(len);
    let out = larger.get_mut().expect("a new block has one holder");
    out[..filled].copy_from_slice(&buf.as_slice()[..filled]);
    larger
}

pub(crate) fn object_path(name: &str, key: &str) -> Result<Path> {
    Path::parse(key).map_err(|e| Error::usage(format!("{name} cannot be the name of an object here: {e}")))
}

/// A web address as it is asked for: without a fragment, and without a user, whose password would be logged.
fn page_url(url: &str) -> Result<String> {
    let url = url.split('#').next().unwrap_or(url);
    let host = url.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?']).next().unwrap_or(""));
    if host.contains('@') {
        bail!(Usage, "user and password in a web address are not supported; use an address that is signed");
    }
    if host.is_empty() {
        bail!(Usage, "{} names no host", without_secrets(url));
    }
    Ok(url.to_string())
}
