//! How far stores are read, and how patiently. One set of settings for the process: `configure` sets them; what was not
//! set comes from the environment, and what is not there from `Default`.

use crate::fork::brief;
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Sizes in the environment are bytes, or have a suffix of 1024s (`64M`, `2GB`, `512KiB`); times are seconds (`2.5`).
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How often a read is tried in all (`FEEDLINE_IO_ATTEMPTS`).
    pub attempts: u32,
    /// The time after which a failed read is not tried again (`FEEDLINE_IO_DEADLINE`).
    pub deadline: Duration,
    /// The pause after the first failure; it doubles with each, and a random half of it is left out
    /// (`FEEDLINE_IO_BACKOFF`).
    pub backoff: Duration,
    /// The longest pause (`FEEDLINE_IO_MAX_BACKOFF`).
    pub max_backoff: Duration,
    /// For a connection to be made (`FEEDLINE_IO_CONNECT_TIMEOUT`).
    pub connect_timeout: Duration,
    /// For the first byte of an answer, and for each piece that follows (`FEEDLINE_IO_IDLE_TIMEOUT`).
    pub idle_timeout: Duration,
    /// For one try of a read as a whole (`FEEDLINE_IO_READ_TIMEOUT`).
    pub read_timeout: Duration,
    /// Requests to read under way at once (`FEEDLINE_IO_CONNECTIONS`); set before the first.
    pub connections: usize,
    /// What one read of a far source asks for (`FEEDLINE_IO_BLOCK_BYTES`).
    pub block_bytes: usize,
    /// What all readers of the process together may have on its way or waiting to be used
    /// (`FEEDLINE_IO_AHEAD_BYTES`).
    pub ahead_bytes: usize,
    /// Wanted ranges of a far source that lie no further apart are read in one (`FEEDLINE_IO_GAP_BYTES`). With 64
    /// requests under way, a first byte after 20 ms and 100 MB/s, a request costs as much as 31 KB.
    pub gap_bytes: usize,
    /// The parts in which large objects are written (`FEEDLINE_IO_PART_BYTES`); S3 wants at least 5 MB.
    pub part_bytes: usize,
    /// Where far bytes are kept for the next time; `None`: nowhere (`FEEDLINE_CACHE_DIR`).
    pub cache_dir: Option<PathBuf>,
    /// How many of them at most (`FEEDLINE_CACHE_BYTES`).
    pub cache_bytes: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            attempts: 8,
            deadline: Duration::from_secs(180),
            backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(20),
            read_timeout: Duration::from_secs(120),
            connections: 64,
            block_bytes: 4 << 20,
            ahead_bytes: 64 << 20,
            gap_bytes: 64 << 10,
            part_bytes: 16 << 20,
            cache_dir: None,
            cache_bytes: 10 << 30,
        }
    }
}

impl Settings {
    /// The defaults, changed by what `get` finds under the names of the environment.
    pub fn from_vars(get: impl Fn(&str) -> Option<String>) -> Result<Settings> {
        let mut s = Settings::default();
        let bytes = |name: &str, into: &mut usize| -> Result<()> {
            if let Some(text) = get(name) {
                *into = parse_bytes(&text)
                    .and_then(|n| usize::try_from(n).ok())
                    .filter(|n| *n > 0)
                    .ok_or_else(|| Error::usage(format!("{name}={text}: expected a size such as 64M")))?;
            }
            Ok(())
        };
        let seconds = |name: &str, into: &mut Duration| -> Result<()> {
            if let Some(text) = get(name) {
                *into = text
                    .trim()
                    .parse()
                    .ok()
                    .and_then(|s| Duration::try_from_secs_f64(s).ok())
                    .ok_or_else(|| Error::usage(format!("{name}={text}: expected seconds such as 2.5")))?;
            }
            Ok(())
        };
        let count = |name: &str| -> Result<Option<u32>> {
            let Some(text) = get(name) else { return Ok(None) };
            let wrong = || Error::usage(format!("{name}={text}: expected a count from 1 on"));
            text.trim().parse().ok().filter(|n| *n > 0).ok_or_else(wrong).map(Some)
        };
        s.attempts = count("FEEDLINE_IO_ATTEMPTS")?.unwrap_or(s.attempts);
        s.connections = count("FEEDLINE_IO_CONNECTIONS")?.map_or(s.connections, |n| n as usize);
        seconds("FEEDLINE_IO_DEADLINE", &mut s.deadline)?;
        seconds("FEEDLINE_IO_BACKOFF", &mut s.backoff)?;
        seconds("FEEDLINE_IO_MAX_BACKOFF", &mut s.max_backoff)?;
        seconds("FEEDLINE_IO_CONNECT_TIMEOUT", &mut s.connect_timeout)?;
        seconds("FEEDLINE_IO_IDLE_TIMEOUT", &mut s.idle_timeout)?;
        seconds("FEEDLINE_IO_READ_TIMEOUT", &mut s.read_timeout)?;
        bytes("FEEDLINE_IO_BLOCK_BYTES", &mut s.block_bytes)?;
        bytes("FEEDLINE_IO_AHEAD_BYTES", &mut s.ahead_bytes)?;
        bytes("FEEDLINE_IO_GAP_BYTES", &mut s.gap_bytes)?;
        bytes("FEEDLINE_IO_PART_BYTES", &mut s.part_bytes)?;
        s.cache_dir = get("FEEDLINE_CACHE_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        if let Some(text) = get("FEEDLINE_CACHE_BYTES") {
            s.cache_bytes = parse_bytes(&text)
                .ok_or_else(|| Error::usage(format!("FEEDLINE_CACHE_BYTES={text}: expected a size such as 20G")))?;
        }
        Ok(s)
    }
}

/// `64M`, `64 MB`, `64MiB`, `67108864`: all the same.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

static CURRENT: RwLock<Option<Arc<Settings>>> = RwLock::new(None);

/// The settings of this process. A wrong variable of the environment is logged once, and the defaults hold.
pub fn settings() -> Arc<Settings> {
    let _brief = brief();
    if let Some(settings) = &*CURRENT.read().unwrap_or_else(PoisonError::into_inner) {
        return settings.clone();
    }
    let mut current = CURRENT.write().unwrap_or_else(PoisonError::into_inner);
    current
        .get_or_insert_with(|| {
            Arc::new(Settings::from_vars(|name| std::env::var(name).ok()).unwrap_or_else(|error| {
                log::warn!("the defaults are used for reading: {}", error.message());
                Settings::default()
            }))
        })
        .clone()
}

/// Sets them for what is opened from now on.
pub fn configure(settings: Settings) {
    let _brief = brief();
    *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(settings));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read() {
        for (text, bytes) in [("7", 7), ("64M", 64 << 20), (" 2 GB ", 2 << 30), ("512KiB", 512 << 10), ("1t", 1 << 40)]
        {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "99999999999T", "3 apples"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
        let vars = |name: &str| match name {
            "FEEDLINE_IO_ATTEMPTS" => Some("3".to_string()),
            "FEEDLINE_IO_IDLE_TIMEOUT" => Some("0.5".into()),
            "FEEDLINE_CACHE_DIR" => Some("/tmp/x".into()),
            _ => None,
        };
        let s = Settings::from_vars(vars).unwrap();
        assert_eq!((s.attempts, s.idle_timeout), (3, Duration::from_millis(500)));
        assert_eq!(s.cache_dir, Some("/tmp/x".into()));
        assert_eq!(s.ahead_bytes, Settings::default().ahead_bytes);
    }

    #[test]
    fn wrong_variables_are_named() {
        for (name, text) in [
            ("FEEDLINE_IO_ATTEMPTS", "0"),
            ("FEEDLINE_IO_CONNECTIONS", "many"),
            ("FEEDLINE_IO_DEADLINE", "-1"),
            ("FEEDLINE_IO_DEADLINE", "soon"),
            ("FEEDLINE_IO_BLOCK_BYTES", "0"),
            ("FEEDLINE_CACHE_BYTES", "much"),
        ] {
            let error = Settings::from_vars(|n| (n == name).then(|| text.to_string())).unwrap_err();
            assert!(error.message().contains(&format!("{name}={text}")), "{error}");
        }
    }
}
