//! The command `feedline`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(signal: libc::c_int) {
    STOP.store(true, Relaxed);
    // Whoever asks a second time does not want to wait for tidying up.
    // SAFETY: `signal` may be called in a handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn main() -> ExitCode {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler does nothing but what is allowed in one.
        unsafe { libc::signal(signal, stop as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
    ExitCode::from(feedline_cli::run(std::env::args_os(), &mut || STOP.load(Relaxed)))
}
