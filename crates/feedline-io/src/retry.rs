//! Trying again: which failures of a far read may pass, how long to wait, and what to say when patience ends.

use crate::net::{Refused, chain};
use crate::settings::Settings;
use crate::{Error, Kind, Result};
use object_store::client::HttpError;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

/// Why one try failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It may pass: the store is busy, the network was cut. `after`: what the store asks us to wait.
    Passing { cause: String, after: Option<Duration> },
    /// An answer that makes no sense, such as another range than the one asked for. It may be one broken server of many.
    Nonsense(String),
    /// It will not pass.
    Final { kind: Kind, cause: String, status: Option<u16> },
}

/// A server that talks nonsense is not asked as often as one that is busy.
const NONSENSE: u32 = 3;

impl Trouble {
    pub(crate) fn passing(cause: impl Into<String>) -> Trouble {
        Trouble::Passing { cause: cause.into(), after: None }
    }
    pub(crate) fn nonsense(cause: impl Into<String>) -> Trouble {
        Trouble::Nonsense(cause.into())
    }
    /// The status of a refusal that will not pass.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Trouble::Final { status, .. } => *status,
            _ => None,
        }
    }
}

impl From<object_store::Error> for Trouble {
    fn from(error: object_store::Error) -> Trouble {
        if let Some(refused) = below::<Refused>(&error) {
            let cause = refused.to_string();
            return match refused.status {
                ..400 => Trouble::Nonsense(cause),
                408 | 429 | 500.. => Trouble::Passing { cause, after: refused.after },
                status => Trouble::Final { kind: Kind::Io, cause: advice(status, cause), status: Some(status) },
            };
        }
        if let Some(http) = below::<HttpError>(&error) {
            return Trouble::passing(chain(http));
        }
        use object_store::Error as E;
        match error {
            E::NotImplemented { .. } | E::InvalidPath { .. } | E::UnknownConfigurationKey { .. } => {
                Trouble::Final { kind: Kind::Usage, cause: chain(&error), status: None }
            }
            // What is left are headers that are missing or contradict each other, and ranges that were not asked for.
            _ => Trouble::Nonsense(chain(&error)),
        }
    }
}

/// A refusal as an error, with the cause that a file of this machine would have: whoever asks whether something is missing
/// need not know where it lies.
pub(crate) fn refusal(kind: Kind, text: String, status: Option<u16>) -> Error {
    let cause = match status {
        Some(404) => std::io::ErrorKind::NotFound,
        Some(401 | 403) => std::io::ErrorKind::PermissionDenied,
        _ => return Error::new(kind, text),
    };
    Error::new(kind, text).with_source(std::sync::Arc::new(std::io::Error::from(cause)))
}

fn advice(status: u16, cause: String) -> String {
    match status {
        401 | 403 => format!(
            "{cause}: access is refused; check the credentials (AWS_*, GOOGLE_*, AZURE_*), or for a public bucket \
             set AWS_SKIP_SIGNATURE=true or GOOGLE_SKIP_SIGNATURE=true"
        ),
        404 => format!("{cause}: there is no such object"),
        301 | 307 | 308 => format!("{cause}: the store is elsewhere; check AWS_REGION and the endpoint"),
        _ => cause,
    }
}

/// The first error of type `E` in the chain.
fn below<'a, E: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a E> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        current = error.source();
    }
    None
}

/// The tries of one read. `again` is called with each that failed, and pauses or gives up.
pub(crate) struct Patience<'a> {
    settings: &'a Settings,
    /// What errors say was tried.
    what: String,
    began: Instant,
    tries: u32,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(settings: &'a Settings, what: String) -> Patience<'a> {
        Patience { settings, what, began: Instant::now(), tries: 0 }
    }

    /// One try, cut off when it takes too long.
    pub(crate) async fn bounded<T>(&mut self, once: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
        self.tries += 1;
        let left = self.settings.deadline.saturating_sub(self.began.elapsed());
        let limit = self.settings.read_timeout.min(left.max(Duration::from_millis(1)));
        match tokio::time::timeout(limit, once).await {
            Ok(done) => done,
            Err(_) => Err(Trouble::passing(format!("not done after {:.1} s", limit.as_secs_f64()))),
        }
    }

    /// Waits before the next try; the error if there should be none.
    pub(crate) async fn again(&mut self, trouble: Trouble) -> Result<()> {
        let Patience { settings, what, began, tries } = self;
        let (cause, most, after) = match trouble {
            Trouble::Final { kind, cause, status } => return Err(refusal(kind, format!("{what}: {cause}"), status)),
            Trouble::Passing { cause, after } => (cause, settings.attempts, after),
            Trouble::Nonsense(cause) => (cause, settings.attempts.min(NONSENSE), None),
        };
        let pause = pause(settings, *tries).max(after.unwrap_or_default().min(settings.max_backoff));
        if *tries >= most || began.elapsed() + pause >= settings.deadline {
            let seconds = began.elapsed().as_secs_f64();
            let times = if *tries == 1 { "once" } else { &format!("{tries} times") };
            return Err(Error::new(Kind::Io, format!("{what}: {cause}; tried {times} in {seconds:.1} s")));
        }
        log::debug!("{what}: {cause}; trying again in {:.2} s", pause.as_secs_f64());
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// The pause after a number of failures: doubling, and between half and all of it, so that many readers that failed
/// together do not come back together.
fn pause(settings: &Settings, failures: u32) -> Duration {
    let full = settings.backoff.saturating_mul(1 << (failures - 1).min(20)).min(settings.max_backoff);
    let random = std::hash::RandomState::new().hash_one(failures) % 1000;
    full.mul_f64(0.5 + random as f64 / 2000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end() {
        let settings = Settings::default();
        for (failures, most) in [(1, 0.1), (2, 0.2), (5, 1.6), (30, 10.0), (u32::MAX, 10.0)] {
            let seconds = pause(&settings, failures).as_secs_f64();
            assert!(seconds >= most / 2.0 && seconds <= most, "{failures}: {seconds}");
        }
    }
}
