//! One process of a crew: whether it computes, and how it ended.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// After so much time of a worker it is looked at whether it computes.
pub const SOME_TIME: Duration = Duration::from_millis(2);

/// What a process had computed, and what its errands have taken since.
#[derive(Default)]
pub struct Spent {
    cpu: Duration,
    busy: Duration,
}

impl Spent {
    /// Nothing as yet.
    pub fn from_now(process: u32) -> Spent {
        Spent { cpu: cpu_time(process), busy: Duration::ZERO }
    }
    /// Whether it has computed for most of the time that its errands took. `None` until that was long enough to say so.
    pub fn computes(&mut self, process: u32, busy: Duration) -> Option<bool> {
        self.busy += busy;
        if self.busy < SOME_TIME {
            return None;
        }
        let before = std::mem::replace(self, Spent::from_now(process));
        Some(self.cpu.saturating_sub(before.cpu) * 2 >= before.busy)
    }
}

/// What another process has computed so far. Where the system does not say, as if it never waited.
fn cpu_time(process: u32) -> Duration {
    #[cfg(target_os = "linux")]
    // SAFETY: writes to what is here; there need be no such process.
    unsafe {
        let (mut clock, mut time) = (0, std::mem::zeroed());
        if libc::clock_getcpuclockid(process as libc::pid_t, &mut clock) == 0
            && libc::clock_gettime(clock, &mut time) == 0
        {
            return Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
        }
    }
    let _ = process;
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed()
}

/// Waits for a process; one that does not end in time is killed.
pub fn ended(child: &mut Child, grace: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            // Somebody else in this program waited for it (a handler of SIGCHLD).
            Err(_) => return None,
            Ok(None) if start.elapsed() < grace => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) => {
                let _ = child.kill();
                return child.wait().ok();
            }
        }
    }
}

/// How a process ended, in words.
pub fn described(status: Option<ExitStatus>) -> String {
    let Some(status) = status else { return "ended".into() };
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let hint = match signal {
                libc::SIGKILL => "; the system does that when memory runs out",
                libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGABRT => "; a compiled library may be at fault",
                _ => "",
            };
            format!("was killed by signal {signal} ({}){hint}", signal_name(signal))
        }
        (None, Some(code)) => format!("exited with code {code}"),
        (None, None) => "ended".into(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        libc::SIGTERM => "SIGTERM",
        libc::SIGINT => "SIGINT",
        libc::SIGHUP => "SIGHUP",
        libc::SIGPIPE => "SIGPIPE",
        _ => "unknown",
    }
}
