//! feedline: the input pipeline for training.

pub mod element;
mod error;
pub mod expr;

pub use error::{At, Error, Kind, Result};
