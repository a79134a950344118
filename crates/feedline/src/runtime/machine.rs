//! What this process may use of the machine: memory and cores, as the system and its control groups say.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What is added to the nice value of the process for its workers. A worker at 3 weighs half of a thread at 0: where two
/// workers and the loop that trains share two cores, the loop has one nearly for itself (0.98, against 0.67); and beside
/// another process that wants a core, a worker still has a third of it.
const NICE: libc::c_int = 3;

/// Lets the threads that train go first where cores are short. What the system does not allow is left as it is.
pub fn be_nice() {
    // Priorities of single threads are Linux's; elsewhere this would be the priority of the process.
    #[cfg(target_os = "linux")]
    // SAFETY: numbers in, a number out; no memory is touched.
    unsafe {
        let nice = |thread: libc::pid_t| libc::getpriority(libc::PRIO_PROCESS, thread as libc::id_t);
        // The first thread has the number of the process. A worker that another worker started has its value already.
        let wanted = (nice(libc::getpid()) + NICE).min(19);
        if nice(0) < wanted {
            libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as libc::id_t, wanted);
        }
    }
}

/// Bytes of memory that the machine has, or the control group allows if that is less.
pub fn memory() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES
        .get_or_init(|| group_memory(Path::new("/sys/fs/cgroup"), &own_groups()).unwrap_or(usize::MAX).min(physical()))
}

fn physical() -> usize {
    // SAFETY: asks for two numbers, changes nothing.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).ok().zip(usize::try_from(page).ok()).map_or(1 << 40, |(n, size)| n.saturating_mul(size))
}

/// The control groups of this process, as paths below the mount: the unified one, and that of the old kind.
fn own_groups() -> Vec<(bool, PathBuf)> {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let unified = controllers.is_empty();
        (unified || controllers.split(',').any(|c| c == "memory"))
            .then(|| (unified, PathBuf::from(path.trim_start_matches('/'))))
    };
    text.lines().filter_map(group).collect()
}

/// The least that a group or one around it allows. Inside of a container the own group may be the root of the mount.
fn group_memory(mount: &Path, groups: &[(bool, PathBuf)]) -> Option<usize> {
    let limit = |(unified, group): &(bool, PathBuf)| {
        let (base, file) = match unified {
            true => (mount.to_path_buf(), "memory.max"),
            false => (mount.join("memory"), "memory.limit_in_bytes"),
        };
        let read = |dir: &Path| std::fs::read_to_string(base.join(dir).join(file)).ok()?.trim().parse::<usize>().ok();
        group.ancestors().filter_map(read).min()
    };
    groups.iter().filter_map(limit).min()
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
    }
}
