//! What this process may use of the machine: memory and cores, as the system and its control groups say.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Where control groups are told.
const GROUPS: &str = "/sys/fs/cgroup";

/// What is added to the nice value of the process for its workers. A worker at 3 weighs half of a thread at 0: where two
/// workers and the loop that trains share two cores, the loop has one nearly for itself (0.98, against 0.67); and beside
/// another process that wants a core, a worker still has a third of it.
const NICE: libc::c_int = 3;

/// Lets the threads that train go first where cores are short: those of this process, or of the one that it works for. What
/// the system does not allow is left as it is.
pub fn be_nice(process: u32) {
    // Priorities of single threads are Linux's; elsewhere this would be the priority of the process.
    #[cfg(not(target_os = "linux"))]
    let _ = process;
    #[cfg(target_os = "linux")]
    // SAFETY: numbers in, a number out; no memory is touched.
    unsafe {
        let nice = |thread: libc::id_t| libc::getpriority(libc::PRIO_PROCESS, thread);
        // The first thread has the number of the process. A worker that another worker started has its value already.
        let wanted = (nice(process) + NICE).min(19);
        if nice(0) < wanted {
            libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as libc::id_t, wanted);
        }
    }
}

/// Cores that this process may use now: those on which its first thread may run, whichever thread asks, and no more than
/// control groups allow. Where that thread was given others since, ours get the same: to the user they are one process.
pub fn cores() -> usize {
    let cores = asked_cores();
    KNOWN.store(cores, Relaxed);
    cores
}

/// The same as it was when somebody asked last, which is a second ago where there is work.
pub fn known_cores() -> usize {
    match KNOWN.load(Relaxed) {
        0 => cores(),
        known => known,
    }
}

static KNOWN: AtomicUsize = AtomicUsize::new(0);

fn asked_cores() -> usize {
    #[cfg(target_os = "linux")]
    if let Some(cores) = affinity::follow() {
        return cores.min(group_cores(Path::new(GROUPS), &own_groups("cpu")).unwrap_or(usize::MAX)).max(1);
    }
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

#[cfg(target_os = "linux")]
mod affinity {
    use libc::{CPU_COUNT, CPU_EQUAL, cpu_set_t, pid_t};
    use std::sync::{Mutex, PoisonError};

    /// On which cores the first thread could run when somebody asked last.
    static SEEN: Mutex<Option<cpu_set_t>> = Mutex::new(None);

    fn of(thread: pid_t) -> Option<cpu_set_t> {
        // SAFETY: a set of plain bits, of which zero is the empty one; the call writes at most as many bytes as it has.
        unsafe {
            let mut set: cpu_set_t = std::mem::zeroed();
            (libc::sched_getaffinity(thread, size_of::<cpu_set_t>(), &mut set) == 0).then_some(set)
        }
    }

    /// How many they are. `None` if the system does not say, as where there are more than a set has room for.
    pub fn follow() -> Option<usize> {
        let now = of(libc::pid_t::try_from(std::process::id()).ok()?)?;
        // A fork must not find it held.
        let _brief = feedline_io::brief();
        let before = SEEN.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        // SAFETY: compares and counts bits.
        let (changed, cores) = unsafe { (before.is_some_and(|set| !CPU_EQUAL(&set, &now)), CPU_COUNT(&now)) };
        if changed {
            move_threads(&now);
        }
        usize::try_from(cores).ok()
    }

    /// Lets our threads run on these cores only. One that is ending, or is not allowed to, stays where it is.
    fn move_threads(cores: &cpu_set_t) {
        for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let thread = task.file_name().to_str().and_then(|number| number.parse().ok());
            if let Some(thread) = thread.filter(|_| name.starts_with("feedline-")) {
                // SAFETY: reads the set; concerns a thread of this process.
                unsafe { libc::sched_setaffinity(thread, size_of::<cpu_set_t>(), cores) };
            }
        }
    }
}

/// Bytes of memory that the machine has, or the control group allows if that is less.
pub fn memory() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    let group = || group_memory(Path::new(GROUPS), &own_groups("memory")).unwrap_or(usize::MAX);
    *BYTES.get_or_init(|| group().min(physical()))
}

fn physical() -> usize {
    // SAFETY: asks for two numbers, changes nothing.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).ok().zip(usize::try_from(page).ok()).map_or(1 << 40, |(n, size)| n.saturating_mul(size))
}

/// The control groups of this process, as paths below the mount: the unified one, and that of the old kind.
fn own_groups(controller: &str) -> Vec<(bool, PathBuf)> {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let unified = controllers.is_empty();
        (unified || controllers.split(',').any(|c| c == controller))
            .then(|| (unified, PathBuf::from(path.trim_start_matches('/'))))
    };
    text.lines().filter_map(group).collect()
}

fn group_memory(mount: &Path, groups: &[(bool, PathBuf)]) -> Option<usize> {
    let number = |dir: PathBuf, file: &str| std::fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok();
    least(groups, |unified, group| match unified {
        true => number(mount.join(group), "memory.max"),
        false => number(mount.join("memory").join(group), "memory.limit_in_bytes"),
    })
}

/// Whole cores that quotas stand for.
fn group_cores(mount: &Path, groups: &[(bool, PathBuf)]) -> Option<usize> {
    let numbers = |dir: &Path, file: &str| -> Option<Vec<usize>> {
        std::fs::read_to_string(dir.join(file)).ok()?.split_whitespace().map(|word| word.parse().ok()).collect()
    };
    least(groups, |unified, group| {
        let times = match unified {
            true => numbers(&mount.join(group), "cpu.max")?,
            false => {
                let dir = mount.join("cpu").join(group);
                [numbers(&dir, "cpu.cfs_quota_us")?, numbers(&dir, "cpu.cfs_period_us")?].concat()
            }
        };
        let [quota, period] = times[..] else { return None };
        Some(quota.checked_div(period)?.max(1))
    })
}

/// The least that a group or one around it allows. Inside of a container the own group may be the root of the mount.
fn least(groups: &[(bool, PathBuf)], read: impl Fn(bool, &Path) -> Option<usize>) -> Option<usize> {
    let read = &read;
    groups.iter().flat_map(|(unified, group)| group.ancestors().filter_map(move |dir| read(*unified, dir))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_counts() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let unified = vec![(true, PathBuf::from("a/b"))];
        assert_eq!(group_memory(dir.path(), &unified), None);
        write("a/b/memory.max", "max\n");
        assert_eq!(group_memory(dir.path(), &unified), None);
        write("a/memory.max", "5000\n");
        write("memory.max", "6000\n");
        assert_eq!(group_memory(dir.path(), &unified), Some(5000));
        write("memory/memory.limit_in_bytes", "4000\n");
        assert_eq!(group_memory(dir.path(), &[(false, PathBuf::from("gone"))]), Some(4000));
        assert!(memory() > 1 << 20);
        // Of cores there are quotas: so many microseconds in every so many.
        assert_eq!(group_cores(dir.path(), &unified), None);
        write("a/b/cpu.max", "max 100000\n");
        write("a/cpu.max", "350000 100000\n");
        assert_eq!(group_cores(dir.path(), &unified), Some(3));
        write("cpu.max", "50000 100000\n");
        assert_eq!(group_cores(dir.path(), &unified), Some(1));
        let old = [(false, PathBuf::from("c"))];
        write("cpu/c/cpu.cfs_quota_us", "-1\n");
        write("cpu/c/cpu.cfs_period_us", "100000\n");
        assert_eq!(group_cores(dir.path(), &old), None);
        write("cpu/c/cpu.cfs_quota_us", "200000\n");
        assert_eq!(group_cores(dir.path(), &old), Some(2));
        write("cpu/c/cpu.cfs_period_us", "0\n");
        assert_eq!(group_cores(dir.path(), &old), None);
    }

    #[test]
    fn as_many_cores_as_the_standard_library_says() {
        // Nobody has changed what the threads of this process may use.
        assert_eq!(cores(), std::thread::available_parallelism().unwrap().get());
    }
}
