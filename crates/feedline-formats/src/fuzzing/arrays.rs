//! Headers of `.npy` files.

use crate::npy;

pub fn npy(bytes: &[u8]) {
    if let Ok(header) = npy::parse(bytes) {
        assert!(header.start <= bytes.len());
        let _ = header.bytes();
    }
}
