//! The locks and threads of this room: std's, or shuttle's when schedules are explored (`--features shuttle`).

#[cfg(not(feature = "shuttle"))]
pub use std::sync::atomic;
#[cfg(not(feature = "shuttle"))]
pub use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(feature = "shuttle")]
pub use shuttle::sync::atomic;
#[cfg(feature = "shuttle")]
pub use shuttle::sync::{Condvar, Mutex, MutexGuard};

/// Locks, also after a panic elsewhere: whoever panicked has been turned into an error by then.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Waits for a notification, or a while.
pub fn wait<'a, T>(cv: &Condvar, guard: MutexGuard<'a, T>, _at_most: std::time::Duration) -> MutexGuard<'a, T> {
    #[cfg(not(feature = "shuttle"))]
    return cv.wait_timeout(guard, _at_most).unwrap_or_else(|e| e.into_inner()).0;
    #[cfg(feature = "shuttle")]
    return cv.wait(guard).unwrap_or_else(|e| e.into_inner());
}

/// Starts a worker thread.
pub fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    #[cfg(not(feature = "shuttle"))]
    std::thread::Builder::new().name(name).spawn(f)?;
    #[cfg(feature = "shuttle")]
    {
        let _ = name;
        shuttle::thread::spawn(f);
    }
    Ok(())
}

/// A short pause in a spinning loop.
pub fn spin() {
    #[cfg(not(feature = "shuttle"))]
    std::hint::spin_loop();
    #[cfg(feature = "shuttle")]
    shuttle::thread::yield_now();
}
