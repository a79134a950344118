//! The types a tensor's items can have.

use crate::error::{Error, Result};
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float16,
    Bfloat16,
    Float32,
    Float64,
    /// Byte strings of any length.
    String,
}

use DType::*;

impl DType {
    pub const ALL: [DType; 14] =
        [Bool, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float16, Bfloat16, Float32, Float64, String];

    pub fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            Int8 => "int8",
            Int16 => "int16",
            Int32 => "int32",
            Int64 => "int64",
            Uint8 => "uint8",
            Uint16 => "uint16",
            Uint32 => "uint32",
            Uint64 => "uint64",
            Float16 => "float16",
            Bfloat16 => "bfloat16",
            Float32 => "float32",
            Float64 => "float64",
            String => "string",
        }
    }

    pub fn parse(name: &str) -> Result<DType> {
        DType::ALL
            .into_iter()
            .find(|d| d.name() == name)
            .ok_or_else(|| Error::usage(format!("there is no dtype {name:?}; the dtypes are {}", names())))
    }

    /// Bytes per item in memory; 0 for strings, whose bytes lie elsewhere.
    pub fn size(self) -> usize {
        match self {
            Bool | Int8 | Uint8 => 1,
            Int16 | Uint16 | Float16 | Bfloat16 => 2,
            Int32 | Uint32 | Float32 => 4,
            Int64 | Uint64 | Float64 => 8,
            String => 0,
        }
    }
    pub fn is_float(self) -> bool {
        matches!(self, Float16 | Bfloat16 | Float32 | Float64)
    }
    pub fn is_int(self) -> bool {
        matches!(self, Int8 | Int16 | Int32 | Int64 | Uint8 | Uint16 | Uint32 | Uint64)
    }
    pub fn is_signed(self) -> bool {
        self.is_float() || matches!(self, Int8 | Int16 | Int32 | Int64)
    }
    pub fn is_numeric(self) -> bool {
        self.is_int() || self.is_float()
    }
}

fn names() -> std::string::String {
    DType::ALL.map(|d| d.name()).join(", ")
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A boolean item as it lies in memory: one byte, 0 is false. (Rust's own `bool` must never hold another byte.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
#[repr(transparent)]
pub struct B8(pub u8);

impl B8 {
    pub fn get(self) -> bool {
        self.0 != 0
    }
}
impl From<bool> for B8 {
    fn from(b: bool) -> B8 {
        B8(b as u8)
    }
}

/// A Rust type whose slices can stand for a tensor's memory.
///
/// # Safety
/// Every bit pattern of `size_of::<Self>() == DTYPE.size()` bytes is a valid value, and the type has no padding.
pub unsafe trait Item: Copy + Send + Sync + 'static + PartialEq + fmt::Debug + Default {
    const DTYPE: DType;
}

macro_rules! items {
    ($($t:ty => $d:ident),*) => { $(
        // SAFETY: a plain number (or one byte) without padding; any bit pattern is a value.
        unsafe impl Item for $t { const DTYPE: DType = DType::$d; }
    )* };
}
items!(B8 => Bool, i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u8 => Uint8, u16 => Uint16, u32 => Uint32,
       u64 => Uint64, f16 => Float16, bf16 => Bfloat16, f32 => Float32, f64 => Float64);

/// Runs `$body` with `$T` standing for the item type of a non-string dtype:
/// `with_item!(dtype, T => tensor.items::<T>().len(); String => 0)`.
#[macro_export]
macro_rules! with_item {
    ($dtype:expr, $T:ident => $body:expr; String => $string:expr) => {
        match $dtype {
            $crate::element::DType::Bool => {
                type $T = $crate::element::B8;
                $body
            }
            $crate::element::DType::Int8 => {
                type $T = i8;
                $body
            }
            $crate::element::DType::Int16 => {
                type $T = i16;
                $body
            }
            $crate::element::DType::Int32 => {
                type $T = i32;
                $body
            }
            $crate::element::DType::Int64 => {
                type $T = i64;
                $body
            }
            $crate::element::DType::Uint8 => {
                type $T = u8;
                $body
            }
            $crate::element::DType::Uint16 => {
                type $T = u16;
                $body
            }
            $crate::element::DType::Uint32 => {
                type $T = u32;
                $body
            }
            $crate::element::DType::Uint64 => {
                type $T = u64;
                $body
            }
            $crate::element::DType::Float16 => {
                type $T = half::f16;
                $body
            }
            $crate::element::DType::Bfloat16 => {
                type $T = half::bf16;
                $body
            }
            $crate::element::DType::Float32 => {
                type $T = f32;
                $body
            }
            $crate::element::DType::Float64 => {
                type $T = f64;
                $body
            }
            $crate::element::DType::String => $string,
        }
    };
}
