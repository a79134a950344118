//! What belongs to the process: its pool, and the settings of `configure` and the environment.

use super::Pool;
use crate::options::Options;
use feedline_io::{brief, in_child};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

/// Settings for everything in this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Threads that may run at once; by default the cores that this process may use.
    pub cpu_budget: Option<usize>,
    /// Cores that are left to others, such as the thread that trains.
    pub leave_cores: Option<usize>,
    /// Bytes that all pipelines together may hold, and each of them unless it says otherwise itself; by default three
    /// quarters of the memory that this process may use.
    pub memory_limit: Option<usize>,
    pub seed: Option<u64>,
    /// How long a consumer waits before it says so, unless its pipeline says otherwise.
    pub stall_seconds: Option<f64>,
}

static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);
/// Leaked once per process: after a fork the child makes its own, since none of the parent's threads came along.
static POOL: AtomicPtr<Arc<Pool>> = AtomicPtr::new(std::ptr::null_mut());

pub fn settings() -> Settings {
    let _brief = brief();
    let mut settings = SETTINGS.lock().unwrap_or_else(|e| e.into_inner());
    settings.get_or_insert_with(from_environment).clone()
}

/// What all pipelines together may hold.
pub fn memory_limit() -> usize {
    settings().memory_limit.unwrap_or_else(|| super::machine::memory() / 4 * 3)
}

/// Changes settings, also while pipelines run. Fields that are `None` stay as they are.
pub fn configure(change: Settings) {
    let before = settings();
    let Settings { cpu_budget, leave_cores, memory_limit, seed, stall_seconds } = change;
    let after = Settings {
        cpu_budget: cpu_budget.or(before.cpu_budget),
        leave_cores: leave_cores.or(before.leave_cores),
        memory_limit: memory_limit.or(before.memory_limit),
        seed: seed.or(before.seed),
        stall_seconds: stall_seconds.or(before.stall_seconds),
    };
    let brief = brief();
    *SETTINGS.lock().unwrap_or_else(|e| e.into_inner()) = Some(after);
    drop(brief);
    if let Some(pool) = existing() {
        pool.set_budget(self::cpu_budget());
    }
}

/// Threads that may run at once, as things are now: quotas and affinities may change while a process runs.
pub fn cpu_budget() -> usize {
    let Settings { cpu_budget, leave_cores, .. } = settings();
    // Asked in any case: threads follow where the process may run.
    let free = free_cores(leave_cores.unwrap_or(0));
    match (cpu_budget, leave_cores) {
        (Some(n), None) => n,
        (n, _) => n.unwrap_or(usize::MAX).min(free),
    }
}

/// Threads of this process that a pipeline with these options asks for at most.
pub fn cores_for(options: &Options) -> usize {
    let free = options.leave_cores.map_or(usize::MAX, free_cores);
    options.cpu_budget.unwrap_or(usize::MAX).min(free).max(1)
}

/// What the number of threads follows from.
pub fn cpu_budget_why() -> &'static str {
    match settings() {
        Settings { leave_cores: Some(_), .. } => {
            "what the machine allows, less leave_cores, or cpu_budget if that is less"
        }
        Settings { cpu_budget: Some(_), .. } => "cpu_budget asks for it",
        _ => "as many cores as this process may use",
    }
}

/// The cores that this process may use now, without so many, but at least one.
pub fn free_cores(leave: usize) -> usize {
    super::machine::cores().saturating_sub(leave).max(1)
}

fn from_environment() -> Settings {
    let number = |name: &str| {
        let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
        let n = crate::options::parse_bytes(&text);
        if n.is_none() {
            log::warn!("{name}={text:?} is not a number; it is not used");
        }
        n
    };
    let stall_seconds = std::env::var("FEEDLINE_STALL_SECONDS").ok().filter(|text| !text.is_empty()).and_then(|text| {
        let seconds: Option<f64> = text.trim().parse().ok().filter(|s| *s >= 0.0);
        if seconds.is_none() {
            log::warn!("FEEDLINE_STALL_SECONDS={text:?} is not a number of seconds; it is not used");
        }
        seconds
    });
    Settings {
        cpu_budget: number("FEEDLINE_CPU_BUDGET"),
        leave_cores: number("FEEDLINE_LEAVE_CORES"),
        memory_limit: number("FEEDLINE_MEMORY_LIMIT"),
        seed: None,
        stall_seconds,
    }
}

fn existing() -> Option<&'static Arc<Pool>> {
    // ORDER: acquire pairs with the release that published the pool.
    let ptr = POOL.load(Ordering::Acquire);
    // SAFETY: either null or a leaked box that is never freed.
    unsafe { ptr.as_ref() }
}

/// The pool of this process. Threads are started when work comes.
pub fn pool() -> Arc<Pool> {
    if let Some(pool) = existing() {
        return pool.clone();
    }
    in_child(forget_pool);
    let new = Box::into_raw(Box::new(Pool::following(cpu_budget)));
    // ORDER: release publishes the pool's contents; acquire sees another thread's.
    match POOL.compare_exchange(std::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: published and leaked, as above.
        Ok(_) => unsafe { (*new).clone() },
        Err(other) => {
            // SAFETY: `new` was never shared; `other` was published by another thread and is never freed.
            unsafe {
                drop(Box::from_raw(new));
                (*other).clone()
            }
        }
    }
}

/// Forgets the parent's pool, whose threads do not exist in the child.
fn forget_pool() {
    POOL.store(std::ptr::null_mut(), Ordering::Relaxed);
}
