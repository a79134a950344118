//! Writing `tf.train.Example` and `tf.train.SequenceExample`: the bytes that protobuf's deterministic serialisation
//! gives, in which maps are in the order of their keys. Everything is written once: lengths are computed first.

use crate::wire::{bytes_len, put_bytes, put_len, put_varint, varint_len};

/// The values of one feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'a> {
    /// Neither bytes nor floats nor integers.
    Unset,
    Bytes(&'a [&'a [u8]]),
    Floats(&'a [f32]),
    Ints(&'a [i64]),
}

impl Values<'_> {
    /// The number of its field in `Feature`.
    fn number(self) -> u32 {
        match self {
            Values::Unset | Values::Bytes(_) => 1,
            Values::Floats(_) => 2,
            Values::Ints(_) => 3,
        }
    }
    /// The length of the packed values.
    fn run_len(self) -> usize {
        match self {
            Values::Unset | Values::Bytes(_) => 0,
            Values::Floats(floats) => floats.len() * 4,
            Values::Ints(ints) => ints.iter().map(|&n| varint_len(n as u64)).sum(),
        }
    }
    fn list_len(self) -> usize {
        match self {
            Values::Bytes(list) => list.iter().map(|bytes| bytes_len(bytes.len())).sum(),
            Values::Floats([]) | Values::Ints([]) | Values::Unset => 0,
            packed => bytes_len(packed.run_len()),
        }
    }
    /// The length of the message `Feature`.
    fn len(self) -> usize {
        match self {
            Values::Unset => 0,
            set => bytes_len(set.list_len()),
        }
    }
    fn put(self, out: &mut Vec<u8>) {
        if self == Values::Unset {
            return;
        }
        put_len(out, self.number(), self.list_len());
        match self {
            Values::Bytes(list) => list.iter().for_each(|bytes| put_bytes(out, 1, bytes)),
            Values::Floats([]) | Values::Ints([]) | Values::Unset => {}
            Values::Floats(floats) => {
                put_len(out, 1, self.run_len());
                floats.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
            }
            Values::Ints(ints) => {
                put_len(out, 1, self.run_len());
                ints.iter().for_each(|&n| put_varint(out, n as u64));
            }
        }
    }
}

/// Something that stands in a map under a name.
trait Message {
    fn len(&self) -> usize;
    fn put(&self, out: &mut Vec<u8>);
}

impl Message for Values<'_> {
    fn len(&self) -> usize {
        Values::len(*self)
    }
    fn put(&self, out: &mut Vec<u8>) {
        Values::put(*self, out);
    }
}

impl Message for &[Values<'_>] {
    fn len(&self) -> usize {
        self.iter().map(|step| bytes_len(step.len())).sum()
    }
    fn put(&self, out: &mut Vec<u8>) {
        for step in *self {
            put_len(out, 1, step.len());
            step.put(out);
        }
    }
}

/// A map in the order of its keys; of equal ones the last counts.
fn sorted<'a, 'b, M>(map: &'b [(&'a [u8], M)]) -> Vec<&'b (&'a [u8], M)> {
    let mut entries: Vec<_> = map.iter().rev().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries.dedup_by_key(|(key, _)| *key);
    entries
}

fn entry_len<M: Message>((key, message): &(&[u8], M)) -> usize {
    bytes_len(key.len()) + bytes_len(message.len())
}

/// The message that holds a map, as field `number`.
fn put_map<M: Message>(out: &mut Vec<u8>, number: u32, map: &[(&[u8], M)]) {
    let entries = sorted(map);
    let len = entries.iter().map(|e| bytes_len(entry_len(e))).sum();
    out.reserve(bytes_len(len));
    put_len(out, number, len);
    for entry in entries {
        put_len(out, 1, entry_len(entry));
        put_bytes(out, 1, entry.0);
        put_len(out, 2, entry.1.len());
        entry.1.put(out);
    }
}

/// Features by name.
pub type Features<'a> = [(&'a [u8], Values<'a>)];
/// Lists of features by name.
pub type FeatureLists<'a> = [(&'a [u8], &'a [Values<'a>])];

/// Appends an Example. `None` differs from no features by two bytes, as an unset field of protobuf does from an empty one.
pub fn put_example(out: &mut Vec<u8>, features: Option<&Features<'_>>) {
    features.inspect(|map| put_map(out, 1, map));
}

/// Appends a SequenceExample: the features of its context, and its lists of features.
pub fn put_sequence_example(out: &mut Vec<u8>, context: Option<&Features<'_>>, lists: Option<&FeatureLists<'_>>) {
    context.inspect(|map| put_map(out, 1, map));
    lists.inspect(|map| put_map(out, 2, map));
}
