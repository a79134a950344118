//! Targets in which some panics are caught where they belong. libFuzzer ends at every panic; here it does at those that come
//! out.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::{Mutex, Once, PoisonError};

pub fn run(target: impl FnOnce()) {
    static HOOK: Once = Once::new();
    static SAID: Mutex<String> = Mutex::new(String::new());
    HOOK.call_once(|| {
        set_hook(Box::new(|info| {
            *SAID.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string();
        }));
    });
    if catch_unwind(AssertUnwindSafe(target)).is_err() {
        eprintln!("{}", SAID.lock().unwrap_or_else(PoisonError::into_inner));
        std::process::abort();
    }
}
