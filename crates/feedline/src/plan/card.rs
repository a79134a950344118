//! How many elements a dataset has, as far as is known without running it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    Known(u64),
    Infinite,
    Unknown,
}

use Card::*;

impl Card {
    /// tf.data's numbers: -1 infinite, -2 unknown.
    pub fn as_i64(self) -> i64 {
        match self {
            Known(n) => i64::try_from(n).unwrap_or(i64::MAX),
            Infinite => -1,
            Unknown => -2,
        }
    }
    /// Applies a function to a known number; the others pass.
    pub fn map(self, f: impl FnOnce(u64) -> u64) -> Card {
        match self {
            Known(n) => Known(f(n)),
            other => other,
        }
    }
    pub fn known(self) -> Option<u64> {
        match self {
            Known(n) => Some(n),
            _ => None,
        }
    }
}

impl std::fmt::Display for Card {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Known(n) => n.fmt(f),
            Infinite => f.write_str("infinite"),
            Unknown => f.write_str("unknown"),
        }
    }
}
