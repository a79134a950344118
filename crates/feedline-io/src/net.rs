//! The network, hidden: a small tokio runtime and the clients of the stores, started when the first far byte is wanted.
//!
//! They belong to a process. After a fork the child has none of the threads, so it starts its own and leaves the
//! parent's alone: nothing of them may even be dropped.

use crate::location::Location;
use crate::settings::settings;
use crate::{Error, Kind, Result, Task};
use futures_util::{FutureExt, StreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, SemaphorePermit};

/// They copy and decrypt: two of them fill any network that a trainer has.
const THREADS: usize = 2;
/// How soon a read that nobody waits for any more is given up.
const UNWANTED: Duration = Duration::from_millis(250);
/// What is read of the body of a refusal.
const EXCUSE: usize = 4096;

pub(crate) struct Net {
    process: u32,
    runtime: Runtime,
    /// One for each read that may be under way.
    reads: Semaphore,
    /// The stores by what they were made from.
    stores: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    /// The clients for web addresses, one for each connect timeout and scheme: they share connections.
    web: Mutex<HashMap<(Duration, bool), HttpClient>>,
}

static NET: AtomicPtr<Net> = AtomicPtr::new(std::ptr::null_mut());

/// The network of this process. Without locks: a fork may come at any moment, and a child must not find one taken.
pub(crate) fn net() -> Result<&'static Net> {
    // ORDER: pairs with the exchange below, which makes a new one visible with all that is in it.
    let current = NET.load(Ordering::Acquire);
    // SAFETY: never freed once it is published.
    if let Some(net) = unsafe { current.as_ref() }
        && net.process == std::process::id()
    {
        return Ok(net);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("feedline-net")
        .enable_all()
        .build()
        .map_err(|e| Error::new(Kind::Io, format!("the threads for the network did not start: {e}")))?;
    let reads = Semaphore::new(settings().connections.min(Semaphore::MAX_PERMITS));
    let (process, stores, web) = (std::process::id(), Mutex::default(), Mutex::default());
    let made = Box::into_raw(Box::new(Net { process, runtime, reads, stores, web }));
    match NET.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: published just now, and never freed.
        Ok(_) => Ok(unsafe { &*made }),
        Err(_) => {
            // SAFETY: nobody else has seen it.
            unsafe { Box::from_raw(made) }.runtime.shutdown_background();
            net()
        }
    }
}

/// Runs work on the threads of the network of this process.
pub(crate) fn run<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Task<Result<T>> {
    match net() {
        Ok(net) => net.run(work),
        Err(error) => Task::ready(Err(error)),
    }
}

impl Net {
    /// Runs work on the threads of the network. It ends early when nobody waits for it any more; a panic in it is an
    /// error.
    fn run<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Task<Result<T>> {
        let (promise, task) = Task::promised(|| Err(Error::internal("a thread of the network ended early")));
        self.runtime.spawn(async move {
            let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
            loop {
                match tokio::time::timeout(UNWANTED, &mut work).await {
                    Ok(Ok(value)) => return promise.fulfil(value),
                    Ok(Err(_)) => return,
                    Err(_) if promise.is_unwanted() => return,
                    Err(_) => {}
                }
            }
        });
        task
    }

    /// Waits for its turn to read, which lasts until the result is dropped. First come, first served.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.reads.acquire().await.ok()
    }

    /// The store of a bucket, whose every request is made once (`patient` false: for reads, which are retried here), or
    /// as often as the settings say (for listing and writing).
    pub(crate) fn store(&self, key: &StoreKey, patient: bool) -> Result<Arc<dyn ObjectStore>> {
        let name = format!("{patient} {key:?}");
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(&name) {
            return Ok(store.clone());
        }
        // Building needs the runtime for its timers.
        let _inside = self.runtime.enter();
        let store = key.build(patient)?;
        stores.insert(name, store.clone());
        Ok(store)
    }

    /// The one object that a web address is, as a store with an empty path.
    pub(crate) fn page(&self, url: &str) -> Result<Arc<dyn ObjectStore>> {
        let wrong = |e: object_store::Error| Error::usage(format!("this address cannot be used: {}", chain(&e)));
        let (connect, plain) = (settings().connect_timeout, url.starts_with("http://"));
        let _inside = self.runtime.enter();
        let mut web = self.web.lock().unwrap_or_else(PoisonError::into_inner);
        let client = match web.get(&(connect, plain)) {
            Some(client) => client.clone(),
            None => {
                let options =
                    ClientOptions::new().with_allow_http(plain).with_connect_timeout(connect).with_timeout_disabled();
                let client = Watched::new(&options).map_err(wrong)?;
                web.entry((connect, plain)).or_insert(client).clone()
            }
        };
        let builder = HttpBuilder::new().with_url(url).with_retry(once()).with_http_connector(Shared(client));
        Ok(Arc::new(builder.build().map_err(wrong)?))
    }
}

/// What a store is made from: the same key, the same store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoreKey {
    scheme: String,
    bucket: String,
    connect: Duration,
    request: Duration,
    /// The variables of the environment that say how to reach it and as whom, in a hash.
    environment: u64,
}

impl StoreKey {
    /// `None` where the location is no object.
    pub(crate) fn new(location: &Location<'_>) -> Option<StoreKey> {
        let Location::Object { scheme, bucket, .. } = location else { return None };
        let mut vars: Vec<_> = std::env::vars_os()
            .filter(|(name, _)| {
                let name = name.to_string_lossy();
                ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix))
            })
            .collect();
        vars.sort();
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        vars.hash(&mut hasher);
        Some(StoreKey {
            scheme: scheme.to_string(),
            bucket: bucket.to_string(),
            connect: settings().connect_timeout,
            request: settings().read_timeout,
            environment: hasher.finish(),
        })
    }

    fn build(&self, patient: bool) -> Result<Arc<dyn ObjectStore>> {
        let url = format!("{}://{}", self.scheme, self.bucket);
        let retry = if patient { repeatedly() } else { once() };
        let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
        // What the environment says about clients holds, so options are set one by one.
        let options = [
            (ClientConfigKey::ConnectTimeout, milliseconds(self.connect)),
            (ClientConfigKey::Timeout, milliseconds(self.request)),
        ];
        macro_rules! build {
            ($builder:ty, $key:ident) => {{
                let mut builder = <$builder>::from_env().with_url(&url).with_retry(retry);
                for (key, value) in options {
                    builder = builder.with_config($key::Client(key), value);
                }
                if !patient {
                    builder = builder.with_http_connector(Watch);
                }
                builder.build().map(|store| Arc::new(store) as Arc<dyn ObjectStore>)
            }};
        }
        match self.scheme.as_str() {
            "s3" => build!(AmazonS3Builder, AmazonS3ConfigKey),
            "gs" => build!(GoogleCloudStorageBuilder, GoogleConfigKey),
            _ => build!(MicrosoftAzureBuilder, AzureConfigKey),
        }
        .map_err(|e| Error::usage(format!("the store {url} cannot be used: {}", chain(&e))))
    }
}

fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn repeatedly() -> RetryConfig {
    let settings = settings();
    RetryConfig {
        backoff: BackoffConfig { init_backoff: settings.backoff, max_backoff: settings.max_backoff, base: 2.0 },
        max_retries: settings.attempts.saturating_sub(1) as usize,
        retry_timeout: settings.deadline,
    }
}

/// An error and those below it, each said once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        below = error.source();
    }
    text
}

/// A server that answered, but not with what was asked for. `object_store` keeps the status to itself and reads the
/// whole body of a refusal, however long; this is what reads look for in its errors.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    /// When the server wants to be asked again.
    pub(crate) after: Option<Duration>,
    pub(crate) excuse: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {}", self.status)?;
        if self.excuse.is_empty() { Ok(()) } else { write!(f, " ({})", self.excuse) }
    }
}

impl std::error::Error for Refused {}

/// A client that makes `Refused` of refusals.
#[derive(Debug)]
struct Watched(HttpClient);

impl Watched {
    #[expect(clippy::new_ret_no_self, reason = "it is only ever used inside a client")]
    fn new(options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Watched(ReqwestConnector::default().connect(options)?)))
    }
}

#[async_trait::async_trait]
impl HttpService for Watched {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.0.execute(request).await?;
        let status = response.status();
        if !status.is_client_error() && !status.is_server_error() {
            // `object_store` adds one to the last byte.
            let range = response.headers().get("content-range").and_then(|v| v.to_str().ok());
            if range.is_some_and(|range| range.contains(&u64::MAX.to_string())) {
                let excuse = "a Content-Range that cannot be".into();
                let refused = Refused { status: status.as_u16(), after: None, excuse };
                return Err(HttpError::new(HttpErrorKind::Decode, refused));
            }
            return Ok(response);
        }
        let after = response.headers().get("retry-after").and_then(|v| v.to_str().ok()?.trim().parse().ok());
        let mut said = Vec::new();
        let mut body = response.into_body().bytes_stream();
        while let Some(Ok(piece)) = body.next().await {
            let room = EXCUSE - said.len();
            said.extend_from_slice(&piece[..piece.len().min(room)]);
            if said.len() == EXCUSE {
                break;
            }
        }
        let refused = Refused { status: status.as_u16(), after: after.map(Duration::from_secs), excuse: excuse(&said) };
        Err(HttpError::new(HttpErrorKind::Unknown, refused))
    }
}

/// The code and message of a store's XML, or the first line of a text; not whole pages.
pub(crate) fn excuse(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let inside = |tag: &str| {
        let from = text.find(&format!("<{tag}>"))? + tag.len() + 2;
        let len = text[from..].find(&format!("</{tag}>"))?;
        Some(text[from..from + len].trim().to_string())
    };
    if let Some(code) = inside("Code") {
        return inside("Message").map_or(code.clone(), |message| format!("{code}: {message}"));
    }
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    if line.starts_with('<') { String::new() } else { line.chars().take(200).collect() }
}

/// Makes a watched client for a store.
#[derive(Debug)]
struct Watch;

impl HttpConnector for Watch {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Watched::new(options)
    }
}

/// Gives out the same client to every store.
#[derive(Debug)]
struct Shared(HttpClient);

impl HttpConnector for Shared {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excuses_are_short() {
        let xml = b"<?xml?><Error><Code>NoSuchBucket</Code><Message>The bucket is not there</Message></Error>";
        assert_eq!(excuse(xml), "NoSuchBucket: The bucket is not there");
        assert_eq!(excuse(b"<html><body>long page"), "");
        assert_eq!(excuse(b"\n  busy \nmore"), "busy");
        assert_eq!(excuse(&[0xff; 1000]).chars().count(), 200);
    }

    #[test]
    fn unwanted_work_ends_and_panics_are_errors() {
        let net = net().unwrap();
        let (promise, ended) = Task::promised(|| true);
        let task = net.run(async move {
            // Dropped with the work, which nobody waits for.
            let _promise = promise;
            std::future::pending::<Result<()>>().await
        });
        drop(task);
        assert!(ended.wait());
        let task = net.run::<()>(async { std::panic::resume_unwind(Box::new("on purpose")) });
        assert_eq!(task.wait().unwrap_err().kind(), Kind::Internal);
    }
}
