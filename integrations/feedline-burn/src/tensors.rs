//! Tensors of feedline as burn's, in the memory in which the pipeline made them.
//!
//! burn's bytes may be shared with somebody else: it reads them where they lie, and copies them before it writes. The
//! pipeline uses memory again only when nobody holds it, so neither can change what the other has.

use burn::tensor::kind::Basic;
use burn::tensor::{AllocationProperty, BoolStore, Bytes, DType, Device, Tensor, TensorData};
use feedline::element::{DType as Ours, Tensor as Dense, Value};
use feedline::{Error, Result};

/// A tensor of feedline that burn holds.
struct Memory(Dense);

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// A component of an element as burn's data. Text, ragged and sparse tensors have no counterpart there.
pub fn tensor_data(value: &Value) -> Result<TensorData> {
    let dense = value.as_tensor().ok_or_else(|| {
        Error::usage("burn has dense tensors only; use padded_batch, or sparse.to_dense, in the pipeline")
    })?;
    let dtype = match dense.dtype() {
        Ours::Bool => DType::Bool(BoolStore::Native),
        Ours::Int8 => DType::I8,
        Ours::Int16 => DType::I16,
        Ours::Int32 => DType::I32,
        Ours::Int64 => DType::I64,
        Ours::Uint8 => DType::U8,
        Ours::Uint16 => DType::U16,
        Ours::Uint32 => DType::U32,
        Ours::Uint64 => DType::U64,
        Ours::Float16 => DType::F16,
        Ours::Bfloat16 => DType::BF16,
        Ours::Float32 => DType::F32,
        Ours::Float64 => DType::F64,
        Ours::String => return Err(Error::usage("burn has no tensors of text; make numbers of it in the pipeline")),
    };
    let bytes = bytes::Bytes::from_owner(Memory(dense.clone()));
    let bytes = Bytes::from_shared(bytes, AllocationProperty::Other);
    TensorData::try_from_bytes(bytes, dense.shape().to_vec(), dtype)
        .map_err(|e| Error::internal(format!("a tensor of feedline as burn's: {e}")))
}

/// The same as a tensor of rank `D` on a device. Its dtype is the device's default for its kind, as with all of burn's.
pub fn tensor<const D: usize, K: Basic>(value: &Value, device: &Device) -> Result<Tensor<D, K>> {
    let data = tensor_data(value)?;
    if data.shape().len() != D {
        return Err(Error::usage(format!("a tensor of rank {D} was asked for, but the shape is {:?}", data.shape())));
    }
    Ok(Tensor::from_data(data, device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Bool, Int};
    use feedline::Dataset;

    #[test]
    fn data_lies_where_the_pipeline_made_it() {
        let value: Value = Dense::from_items([2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).into();
        let data = tensor_data(&value).unwrap();
        assert_eq!(data.as_slice::<f32>().unwrap().as_ptr(), value.tensor().items::<f32>().as_ptr());
        assert_eq!(data.shape().as_slice(), [2, 3]);
    }

    #[test]
    fn what_burn_changes_is_its_own() {
        let value: Value = Dense::from_items([3], &[1f32, 2.0, 3.0]).into();
        let mut twice = tensor::<1, burn::tensor::Float>(&value, &Device::default()).unwrap();
        twice = twice.mul_scalar(2.0);
        assert_eq!(twice.into_data().try_to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
        assert_eq!(value.tensor().items::<f32>(), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn kinds_and_ranks() {
        let device = Device::default();
        let element = Dataset::range(6).unwrap().batch(6, false).unwrap().iter().unwrap().next().unwrap().unwrap();
        let numbers = tensor::<1, Int>(&element[0], &device).unwrap();
        assert_eq!(numbers.into_data().convert::<i64>().try_to_vec::<i64>().unwrap(), [0, 1, 2, 3, 4, 5]);
        let flags: Value = Dense::from_items([2], &[true, false].map(feedline::element::B8::from)).into();
        assert_eq!(tensor::<1, Bool>(&flags, &device).unwrap().to_data().dtype().size(), 1);
        let wrong = tensor::<2, Int>(&element[0], &device).unwrap_err();
        assert!(wrong.to_string().contains("rank 2"), "{wrong}");
        let text: Value = Dense::string(b"no number").into();
        assert!(tensor_data(&text).unwrap_err().to_string().contains("text"));
    }
}
