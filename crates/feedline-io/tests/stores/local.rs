//! Files, and the cache over them.

use crate::conform::{bytes, conforms};
use feedline_io::{Cache, Cached, open};
use std::sync::Arc;

#[test]
fn files_conform() {
    let dir = tempfile::tempdir().unwrap();
    for len in [0, 1, 4096, 3_000_001] {
        let path = dir.path().join(len.to_string());
        std::fs::write(&path, bytes(len)).unwrap();
        for name in [path.to_str().unwrap().to_string(), format!("file://{}", path.display())] {
            conforms(|| open(&name).unwrap(), &bytes(len));
        }
    }
}

#[test]
fn cached_files_conform() {
    let dir = tempfile::tempdir().unwrap();
    for len in [0, 1, 1 << 20, 5_000_001] {
        let path = dir.path().join(len.to_string());
        std::fs::write(&path, bytes(len)).unwrap();
        let name = path.to_str().unwrap();
        let cache = Cache::open(dir.path(), 4 << 20);
        conforms(|| Arc::new(Cached::new(open(name).unwrap(), cache.clone(), name)), &bytes(len));
    }
}
