//! A tensor as TensorFlow's protobuf message, there and back: what `io.serialize_tensor` gives and quarantines hold.

use super::dtype::{B8, DType};
use super::tensor::{Tensor, check_room};
use crate::error::Result;
use feedline_formats::tensor_proto::{self, Items};

impl Tensor {
    pub fn serialized(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.dtype() {
            DType::String => tensor_proto::put_strings(&mut out, self.shape(), self.strs()),
            dtype => tensor_proto::put_numbers(&mut out, dtype.name(), self.shape(), self.bytes()),
        }
        out
    }
    /// What `serialized` gave, here or in TensorFlow. Anything else is an error.
    pub fn parsed(bytes: &[u8]) -> Result<Tensor> {
        let tensor = tensor_proto::read(bytes).map_err(|e| e.within(bytes, "tensor"))?;
        let dtype = DType::parse(tensor.dtype)?;
        check_room(dtype, &tensor.shape)?;
        Ok(match tensor.items {
            Items::Strings(strings) => Tensor::strings(tensor.shape, &strings),
            Items::Numbers(bytes) => {
                let mut out = Tensor::new(dtype, tensor.shape);
                out.bytes_mut().copy_from_slice(&bytes);
                if dtype == DType::Bool {
                    out.items_mut::<B8>().iter_mut().for_each(|b| *b = b.get().into());
                }
                out
            }
        })
    }
}
