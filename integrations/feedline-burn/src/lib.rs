//! feedline's pipelines in burn: batches for a training loop, elements by number, tensors without copies.
//!
//! ```
//! use burn::data::dataloader::DataLoader;
//! use burn::tensor::{Device, Int};
//! use feedline::Dataset;
//! use feedline_burn::{Loader, tensor};
//!
//! let ds = Dataset::range(100)?.shuffle(None, Some(1), true)?.batch(32, false)?;
//! let loader = Loader::new(ds, &Device::default(), |batch, device| tensor::<1, Int>(&batch[0], device));
//! assert_eq!(loader.num_items(), 4);
//! let rows: usize = loader.iter().map(|batch| batch.unwrap().dims()[0]).sum();
//! assert_eq!(rows, 100);
//! # Ok::<(), feedline::Error>(())
//! ```

mod loader;
mod rows;
mod tensors;

pub use loader::{Loader, Pass};
pub use rows::Rows;
pub use tensors::{tensor, tensor_data};

/// Rust's blocks of that page run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/frameworks.md")]
pub struct Page;
