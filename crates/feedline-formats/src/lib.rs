//! How bytes become records. Each format is a file: a reader that is handed blocks and owns no I/O, a writer where the
//! format has a standard one, and what is needed to reach records by number. Knows nothing of plans.

#[cfg(feature = "columnar")]
pub mod arrow_ipc;
#[cfg(feature = "columnar")]
pub mod columnar;
pub mod npy;
pub mod npz;
#[cfg(feature = "columnar")]
pub mod parquet;
pub mod records;

/// Entries for fuzzers: any bytes, no panic.
#[doc(hidden)]
pub mod fuzzing {
    pub fn npy(bytes: &[u8]) {
        if let Ok(header) = crate::npy::parse(bytes) {
            assert!(header.start <= bytes.len());
            let _ = header.bytes();
        }
    }
}
