//! feedline's elements as tensors of candle.
//!
//! candle's tensors own their memory, so each component is copied once, from where the pipeline made it to where candle
//! wants it; nothing is converted on the way.
//!
//! ```
//! use candle_core::Device;
//! use feedline::Dataset;
//!
//! let ds = Dataset::range(100)?.shuffle(None, Some(1), true)?.batch(32, false)?;
//! let mut rows = 0;
//! for batch in feedline_candle::batches(&ds, &Device::Cpu)? {
//!     rows += batch?[0].dims()[0];
//! }
//! assert_eq!(rows, 100);
//! # Ok::<(), feedline::Error>(())
//! ```

use candle_core::{Device, Tensor, WithDType};
use feedline::element::{B8, DType, Item, Tensor as Dense, Value};
use feedline::runtime::{Iter, State};
use feedline::{Dataset, Error, Result};

/// A pass over a dataset: for each element, the tensors of its structure in order.
pub fn batches(dataset: &Dataset, device: &Device) -> Result<Batches> {
    Ok(Batches { iter: dataset.iter()?, device: device.clone() })
}

/// The same from where another pass was when its [`Batches::state`] was taken.
pub fn batches_from(dataset: &Dataset, device: &Device, state: &State) -> Result<Batches> {
    Ok(Batches { iter: dataset.iter_from(state)?, device: device.clone() })
}

/// The elements of a pass. An error stands in the place of one of them.
pub struct Batches {
    iter: Iter,
    device: Device,
}

impl Batches {
    /// Where the pass is; small, and exact in the middle of an epoch.
    pub fn state(&mut self) -> Result<State> {
        self.iter.state()
    }
}

impl Iterator for Batches {
    type Item = Result<Vec<Tensor>>;

    fn next(&mut self) -> Option<Self::Item> {
        let element = self.iter.next()?;
        Some(element.and_then(|element| element.iter().map(|value| tensor(value, &self.device)).collect()))
    }
}

/// A component of an element as a tensor. bool becomes u8; text, ragged and sparse tensors, and dtypes that candle lacks, are
/// refused.
pub fn tensor(value: &Value, device: &Device) -> Result<Tensor> {
    let dense = value.as_tensor().ok_or_else(|| {
        Error::usage("candle has dense tensors only; use padded_batch, or sparse.to_dense, in the pipeline")
    })?;
    match dense.dtype() {
        DType::Bool => {
            let bytes: &[u8] = dense.bytes();
            made(Tensor::from_slice(bytes, dense.shape(), device))
        }
        DType::Uint8 => copied::<u8>(dense, device),
        DType::Uint32 => copied::<u32>(dense, device),
        DType::Int16 => copied::<i16>(dense, device),
        DType::Int32 => copied::<i32>(dense, device),
        DType::Int64 => copied::<i64>(dense, device),
        DType::Float16 => copied::<half::f16>(dense, device),
        DType::Bfloat16 => copied::<half::bf16>(dense, device),
        DType::Float32 => copied::<f32>(dense, device),
        DType::Float64 => copied::<f64>(dense, device),
        other => Err(Error::usage(format!("candle has no tensors of {other}; cast it in the pipeline"))),
    }
}

fn copied<T: Item + WithDType>(dense: &Dense, device: &Device) -> Result<Tensor> {
    made(Tensor::from_slice(dense.items::<T>(), dense.shape(), device))
}

fn made(tensor: candle_core::Result<Tensor>) -> Result<Tensor> {
    tensor.map_err(|e| Error::func(format!("candle: {e}")))
}

const _: () = assert!(size_of::<B8>() == 1, "a bool is a byte, 0 or 1");

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::DType as Theirs;

    fn numbers(batch: Result<Vec<Tensor>>) -> Vec<i64> {
        batch.unwrap()[0].to_vec1().unwrap()
    }

    #[test]
    fn dtypes_and_shapes() {
        let float: Value = Dense::from_items([2, 1], &[1.5f32, 2.0]).into();
        let made = tensor(&float, &Device::Cpu).unwrap();
        assert_eq!(made.to_vec2::<f32>().unwrap(), [[1.5], [2.0]]);
        let flags: Value = Dense::from_items([2], &[true, false].map(B8::from)).into();
        assert_eq!(tensor(&flags, &Device::Cpu).unwrap().to_vec1::<u8>().unwrap(), [1, 0]);
        let half: Value = Dense::from_items([1], &[half::bf16::from_f32(2.0)]).into();
        assert_eq!(tensor(&half, &Device::Cpu).unwrap().dtype(), Theirs::BF16);
        let scalar: Value = Dense::scalar(7i64).into();
        assert_eq!(tensor(&scalar, &Device::Cpu).unwrap().to_scalar::<i64>().unwrap(), 7);
    }

    #[test]
    fn what_candle_lacks_is_named() {
        let small: Value = Dense::scalar(7i8).into();
        assert!(tensor(&small, &Device::Cpu).unwrap_err().to_string().contains("int8"));
        let text: Value = Dense::string(b"text").into();
        assert!(tensor(&text, &Device::Cpu).unwrap_err().to_string().contains("string"));
    }

    #[test]
    fn a_pass_goes_on_where_another_was() {
        let ds = Dataset::range(50).unwrap().shuffle(Some(20), Some(1), true).unwrap().batch(4, false).unwrap();
        let mut pass = batches(&ds, &Device::Cpu).unwrap();
        for _ in 0..5 {
            pass.next().unwrap().unwrap();
        }
        let state = pass.state().unwrap();
        let rest: Vec<Vec<i64>> = pass.map(numbers).collect();
        let again = batches_from(&ds, &Device::Cpu, &state).unwrap();
        assert_eq!(again.map(numbers).collect::<Vec<_>>(), rest);
        assert_eq!(rest.len(), 8);
    }
}
