//! What Parquet and Arrow files share: the Arrow crates (one door to them for the crates above), memory that is handed over
//! without a copy, and their errors in our words.

pub use arrow_array as array;
pub use arrow_buffer as buffer;
pub use arrow_cast as cast;
pub use arrow_data as data;
pub use arrow_schema as schema;

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use bytes::Bytes;
use feedline_io::{Buf, Error, Scratch, scratch};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

/// Some rows of a column.
pub enum Values {
    /// Items of the field's type, none of which is null.
    Numbers(Buf),
    Array(ArrayRef),
}

/// A block as the type that the decoders take, on the same memory.
pub fn to_bytes(buf: Buf) -> Bytes {
    struct Owner(Buf);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            self.0.as_slice()
        }
    }
    Bytes::from_owner(Owner(buf))
}

/// A block as Arrow's memory, on the same memory.
pub fn to_buffer(buf: Buf) -> Buffer {
    Buffer::from(to_bytes(buf))
}

/// Arrow's memory as a block, on the same memory. If nobody else holds it, whoever gets the block may write it. Otherwise it is
/// a part of what was read, all of which is gone with the last of its parts: it is not there anyway, as the user's arrays are.
pub fn from_buffer(buffer: Buffer) -> Buf {
    match buffer.into_mutable() {
        Ok(mut own) => {
            let (ptr, len) = (own.as_mut_ptr(), own.len());
            // SAFETY: `own` is the only holder of this memory, and moves into the block with it.
            unsafe { Buf::adopted(ptr, len, Box::new(own)) }
        }
        Err(shared) => {
            let (ptr, len, all) = (shared.as_ptr(), shared.len(), shared.capacity());
            // SAFETY: the buffer keeps its memory alive, and nobody writes memory that is shared.
            let part = unsafe { Buf::foreign(ptr, len, Box::new(shared)) };
            part.claim(all.max(len));
            part
        }
    }
}

/// The same for memory that a decoder made and others may hold, too: it counts for whoever this thread works for as long as
/// the block is there.
pub fn from_decoded(buffer: Buffer) -> Buf {
    let (ptr, len) = (buffer.as_ptr(), buffer.len());
    // SAFETY: the buffer keeps its memory alive, and nobody writes memory that is shared.
    unsafe { Buf::foreign(ptr, len, Box::new((buffer, scratch(len)))) }
}

/// An array that a decoder made in memory of its own, which counts from now on, for whoever this thread works for, as long
/// as somebody has it.
pub fn counted(array: &dyn Array) -> ArrayRef {
    struct Counted(Buffer, #[allow(dead_code)] Scratch);
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    fn of(data: ArrayData) -> ArrayData {
        let counted = |b: &Buffer| Buffer::from(Bytes::from_owner(Counted(b.clone(), scratch(b.capacity()))));
        let buffers = data.buffers().iter().map(counted).collect();
        let children = data.child_data().iter().cloned().map(of).collect();
        let builder = data.into_builder().buffers(buffers).child_data(children);
        // SAFETY: the same bytes as before, in the same places.
        unsafe { builder.build_unchecked() }
    }
    make_array(of(array.to_data()))
}

thread_local! {
    /// Whether a panic of this thread becomes an error: then nothing is printed of it.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Lets the hook that is there print all panics but those that become errors.
fn be_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                before(panic);
            }
        }));
    });
}

/// Runs a decoder on bytes that may be damaged: neither its errors nor its panics are more than an error here.
pub fn guarded<T>(what: &str, decode: impl FnOnce() -> Result<T, String>) -> Result<T, Error> {
    be_quiet();
    let around = GUARDED.replace(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(around);
    match decoded {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(message)) => Err(Error::data(format!("{what}: {message}"))),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(Error::data(format!("{what}: the contents are damaged ({text})")))
        }
    }
}

/// The words of an Arrow error, without the name of its kind.
pub fn words(error: &ArrowError) -> String {
    let text = error.to_string();
    text.split_once(": ").map_or(text.clone(), |(_, rest)| rest.to_string())
}

/// The field without dictionaries: what its values are once they are decoded.
pub fn decoded(field: &Field) -> Field {
    replaced(field, &|data_type| match data_type {
        DataType::Dictionary(_, values) => Some((**values).clone()),
        _ => None,
    })
}

/// The field with strings that are views: they point to where they were read, and a string of a dictionary is there once,
/// in however many rows it stands.
pub fn viewed(field: &Field) -> Field {
    replaced(field, &|data_type| match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => Some(DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary => Some(DataType::BinaryView),
        _ => None,
    })
}

/// The field with other types in the places of some.
fn replaced(field: &Field, other: &dyn Fn(&DataType) -> Option<DataType>) -> Field {
    let list = |f: &Arc<Field>| Arc::new(replaced(f, other));
    if let Some(data_type) = other(field.data_type()) {
        return field.clone().with_data_type(data_type);
    }
    let data_type = match field.data_type() {
        DataType::List(f) => DataType::List(list(f)),
        DataType::LargeList(f) => DataType::LargeList(list(f)),
        DataType::FixedSizeList(f, n) => DataType::FixedSizeList(list(f), *n),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(list).collect::<Fields>()),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_what_was_read_are_not_there_anyway() {
        let read = to_buffer(Buf::zeroed(1000));
        let part = from_buffer(read.slice_with_length(100, 300));
        drop(read);
        assert!(part.is_frozen() && !part.is_kept());
        assert_eq!((part.len(), part.held_bytes()), (300, 1000));
    }
}
