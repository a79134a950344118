//! More files than a process begins with: a test of its own, because the limit is that of the process.

use std::sync::Arc;

#[test]
fn a_process_asks_for_as_many_files_as_it_may_have() {
    let dir = tempfile::tempdir().unwrap();
    let path = |i: u8| dir.path().join(i.to_string());
    (0..200).for_each(|i| std::fs::write(path(i), [i]).unwrap());
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a struct of ours.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    if limit.rlim_max < 300 {
        return; // nothing to ask for
    }
    limit.rlim_cur = 64;
    // SAFETY: the same.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let opened: Vec<Arc<dyn feedline_io::Source>> = (0..200)
        .map(|i| {
            let source = feedline_io::open(path(i).to_str().unwrap()).unwrap();
            assert_eq!(source.clone().stat().wait().unwrap().len, 1);
            source
        })
        .collect();
    for (i, source) in opened.into_iter().enumerate() {
        assert_eq!(source.read(0, 10).wait().unwrap().as_slice(), [i as u8]);
    }
}
