//! How bytes become records. Each format is a file: a reader that is handed blocks and owns no I/O, a writer where the
//! format has a standard one, and what is needed to reach records by number. Knows nothing of plans.

pub mod alike;
#[cfg(feature = "columnar")]
pub mod arrow_ipc;
#[cfg(feature = "columnar")]
pub mod arrow_packed;
#[cfg(feature = "columnar")]
pub mod columnar;
pub mod compress;
pub mod csv;
pub mod decompress;
pub mod example;
pub mod example_writer;
pub mod fixed;
#[doc(hidden)]
pub mod fuzzing;
mod inflate;
pub mod json_example;
pub mod jsonl;
pub mod lines;
pub mod npy;
pub mod npz;
#[cfg(feature = "columnar")]
pub mod parquet;
pub mod records;
pub mod sequence_example;
pub mod side_index;
pub mod tar;
pub mod tar_index;
pub mod tensor_proto;
pub mod tfrecord;
pub mod tfrecord_index;
pub mod webdataset;
pub mod wire;
