//! What flows: tensors and other values, the specs that describe them, and chunks of rows.

mod chunk;
mod dtype;
mod gather;
mod keep;
mod packed;
mod pos;
mod serialized;
mod slot;
mod spec;
mod tensor;
mod value;
mod values;
mod written;

pub use chunk::{Chunk, Column, Element, check_rows, ragged_row, stack_values, unstack};
pub use dtype::{B8, DType, Item};
pub use feedline_io::{ALIGN, Buf, kept_bytes, release_kept};
pub use gather::{RowRef, gather};
pub use keep::Run;
pub use packed::Packed;
pub use pos::{Origin, Pos, RowSource, Traced};
pub use slot::{Slot, Slots};
pub use spec::{Dims, Leaf, Spec, Tree};
pub(crate) use tensor::is_waste;
pub use tensor::{IntoShape, Shape, Strings, StringsBuilder, Tensor, check_room, count};
pub use value::{Nested, NestedDataset, READ_NESTED, Ragged, Sparse, Value};
pub use values::Values;
pub use written::{Attachments, Reader, attach, attach_live, attach_value, attached, is_compared, with_attachments};
