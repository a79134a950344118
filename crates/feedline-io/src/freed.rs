//! What the C library keeps of memory that was freed: others' memory, NumPy's and that of decoders, which comes from it.
//!
//! 1. Large blocks are mappings of their own, and gone when they are freed; smaller ones lie in an arena for each thread,
//!    which keeps them. What counts as large grows, up to 32 MB, with each larger block that is freed: six threads that made
//!    arrays of 8 MB, or decoded progressive pictures, kept 100 MB that nobody used or counted.
//! 2. While a pipeline runs under a limit for which that is much, `SHARE` of the limit is large, and an arena keeps no more
//!    than twice that. Above 4 GB all is as the library has it.
//! 3. When no such pipeline is left it is what it grows to by itself. It never grows again: the library does not tell where
//!    it was.
//! 4. Where many small blocks were freed at once, all arenas give back the pages that nobody uses.
//! 5. Who set it from outside (`MALLOC_MMAP_THRESHOLD_`, for instance) has the last word.

use crate::Account;

/// Parts of the limit.
const SHARE: usize = 128;
/// What is large at first, and what it grows to.
const LEAST: usize = 128 << 10;
const MOST: usize = 32 << 20;

/// From how many bytes on a block is gone when it is freed, under the lowest limit of the pipelines that run.
fn large(limit: usize) -> usize {
    (limit / SHARE).clamp(LEAST, MOST)
}

/// Says the lowest limit of the pipelines that run; `usize::MAX` if there are none.
pub(crate) fn bound(limit: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::set(large(limit));
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = limit;
}

/// Parts of the limit: where so much was the library's, it gives back what it keeps of it.
const GIVEN_BACK: usize = 32;

/// So many bytes that are charged to this account, or to whoever this thread works for, were the library's and are free. It
/// costs some milliseconds to go through all arenas, which is little beside what was done in so much memory. Says whether it
/// was so much that it is done.
pub fn give_back(bytes: usize, account: Option<&Account>) -> bool {
    let limit = account.or(Account::current()).map_or(usize::MAX, |account| account.limit());
    let much = bytes > (limit / GIVEN_BACK).max(1 << 20);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if much {
        // SAFETY: takes the library's own locks, and gives back pages that nobody uses.
        unsafe { libc::malloc_trim(0) };
    }
    much
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// What was set last. At first the library's own way is as good as the most.
    static NOW: AtomicUsize = AtomicUsize::new(super::MOST);
    static IS_OURS: LazyLock<bool> = LazyLock::new(|| {
        let set = |name| std::env::var_os(name).is_some();
        let tunables = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
        let tuned =
            ["mmap_threshold", "trim_threshold"].iter().any(|n| tunables.contains(&format!("glibc.malloc.{n}")));
        !tuned && !set("MALLOC_MMAP_THRESHOLD_") && !set("MALLOC_TRIM_THRESHOLD_")
    });

    pub fn set(large: usize) {
        if NOW.swap(large, Relaxed) != large && *IS_OURS {
            // SAFETY: sets two numbers, under the library's own lock; other threads may allocate meanwhile.
            unsafe {
                libc::mallopt(libc::M_MMAP_THRESHOLD, large as libc::c_int);
                libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * large as libc::c_int);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_follows_the_limit() {
        assert_eq!([1, 64 << 20, 1 << 30, 4 << 30, usize::MAX].map(large), [128 << 10, 512 << 10, 8 << 20, MOST, MOST]);
    }
}
