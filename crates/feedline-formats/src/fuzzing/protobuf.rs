//! What the fuzz targets in `fuzz/` run, a function each: any bytes must give a result or an error, and what is read must
//! read the same after it is written again.

use crate::alike::Alike;
use crate::example::{Entries, Feature, Stored, Wanted};
use crate::example_writer::{Values, put_example, put_sequence_example};
use crate::json_example::put_json_example;
use crate::sequence_example::Lists;
use crate::tensor_proto::{self, Items};
use crate::wire::Result;
use std::collections::BTreeMap;

/// A feature by value; floats by their bits.
#[derive(Debug, PartialEq)]
enum Owned<'a> {
    Unset,
    Bytes(Vec<&'a [u8]>),
    Floats(Vec<f32>, Vec<u32>),
    Ints(Vec<i64>),
}

impl<'a> Owned<'a> {
    fn read(feature: Feature<'a>) -> Result<Owned<'a>> {
        let count = feature.count();
        let (read, owned) = match feature.stored {
            None => (0, Owned::Unset),
            Some(Stored::Bytes) => {
                let mut strings = Vec::new();
                (feature.each_bytes(|s| strings.push(s))?, Owned::Bytes(strings))
            }
            Some(Stored::Floats) => {
                let mut floats = Vec::new();
                let read = feature.floats_onto(&mut floats)?;
                let bits = floats.iter().map(|x| x.to_bits()).collect();
                floats.iter_mut().for_each(|x| *x = 0.0);
                assert_eq!(feature.floats_into(&mut floats), Ok(read));
                (read, Owned::Floats(floats, bits))
            }
            Some(Stored::Ints) => {
                let mut ints = Vec::new();
                let read = feature.ints_onto(&mut ints)?;
                let mut into = vec![0; read];
                assert_eq!(feature.ints_into(&mut into), Ok(read));
                assert_eq!(ints, into);
                (read, Owned::Ints(ints))
            }
        };
        assert_eq!(count, Ok(read));
        Ok(owned)
    }
    fn values(&self) -> Values<'_> {
        match self {
            Owned::Unset => Values::Unset,
            Owned::Bytes(strings) => Values::Bytes(strings),
            Owned::Floats(floats, bits) => {
                assert!(floats.iter().zip(bits).all(|(x, bits)| x.to_bits() == *bits));
                Values::Floats(floats)
            }
            Owned::Ints(ints) => Values::Ints(ints),
        }
    }
    /// The same, in a form in which NaN equals itself.
    fn exactly(&self) -> String {
        match self {
            Owned::Floats(_, bits) => format!("{bits:?}"),
            other => format!("{other:?}"),
        }
    }
}

type Map<'a> = BTreeMap<&'a [u8], Owned<'a>>;
type ListMap<'a> = BTreeMap<&'a [u8], Vec<Owned<'a>>>;

fn features(record: &[u8]) -> Result<Map<'_>> {
    Entries::new(record).map(|entry| entry.and_then(|(key, feature)| Ok((key, Owned::read(feature)?)))).collect()
}

fn lists(record: &[u8]) -> Result<ListMap<'_>> {
    let steps = |entry: Result<_>| -> Result<_> {
        let (key, list): (&[u8], crate::sequence_example::FeatureList<'_>) = entry?;
        Ok((key, list.steps().map(|step| Owned::read(step?)).collect::<Result<Vec<_>>>()?))
    };
    Lists::new(record).map(steps).collect()
}

fn values<'a>(map: &'a Map<'a>) -> Vec<(&'a [u8], Values<'a>)> {
    map.iter().map(|(key, owned)| (*key, owned.values())).collect()
}

fn same(a: &Map<'_>, b: &Map<'_>) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && a.exactly() == b.exactly())
}

/// Any bytes as an Example.
pub fn example(data: &[u8]) {
    let Ok(read) = features(data) else { return };
    changed(data, &read);
    let mut written = Vec::new();
    put_example(&mut written, Some(&values(&read)));
    let again = features(&written).expect("our own bytes");
    assert!(same(&read, &again));
    let mut twice = Vec::new();
    put_example(&mut twice, Some(&values(&again)));
    assert_eq!(written, twice);
}

/// A record that looks like the one before it reads as it would alone.
fn changed(data: &[u8], read: &Map<'_>) {
    let mut other = data.to_vec();
    if let Some(&first) = data.last() {
        other[usize::from(first) % data.len()] ^= 1;
    }
    let wanted = Wanted::new(read.keys().step_by(2));
    let exactly = |alike: &mut Alike| {
        let mut found = vec![None; wanted.len()];
        let done = wanted.read(&other, alike, &mut found);
        done.map(|()| found.into_iter().map(|f| f.map(|f| Owned::read(f).map(|o| o.exactly()))).collect::<Vec<_>>())
    };
    let mut alike = Alike::default();
    wanted.read(data, &mut alike, &mut vec![None; wanted.len()]).expect("it was read before");
    assert_eq!(exactly(&mut alike), exactly(&mut Alike::default()));
}

/// Any bytes as a SequenceExample.
pub fn sequence_example(data: &[u8]) {
    let (Ok(context), Ok(read)) = (features(data), lists(data)) else { return };
    let steps: Vec<(&[u8], Vec<Values<'_>>)> =
        read.iter().map(|(key, steps)| (*key, steps.iter().map(|step| step.values()).collect())).collect();
    let list_values: Vec<(&[u8], &[Values<'_>])> = steps.iter().map(|(key, steps)| (*key, &steps[..])).collect();
    let mut written = Vec::new();
    put_sequence_example(&mut written, Some(&values(&context)), Some(&list_values));
    assert!(same(&context, &features(&written).expect("our own bytes")));
    let again = lists(&written).expect("our own bytes");
    let exactly = |map: &ListMap<'_>| -> Vec<(Vec<u8>, Vec<String>)> {
        map.iter().map(|(key, steps)| (key.to_vec(), steps.iter().map(|s| s.exactly()).collect())).collect()
    };
    assert_eq!(exactly(&read), exactly(&again));
}

/// Any bytes as a TensorProto.
pub fn tensor_proto(data: &[u8]) {
    let Ok(tensor) = tensor_proto::read(data) else { return };
    let mut written = Vec::new();
    match &tensor.items {
        Items::Numbers(items) => tensor_proto::put_numbers(&mut written, tensor.dtype, &tensor.shape, items),
        Items::Strings(strings) => tensor_proto::put_strings(&mut written, &tensor.shape, strings.iter().copied()),
    }
    assert_eq!(tensor_proto::read(&written).expect("our own bytes"), tensor);
}

/// Any bytes as an Example in JSON.
pub fn json_example(data: &[u8]) {
    let mut written = Vec::new();
    if put_json_example(&mut written, data).is_ok() {
        features(&written).expect("our own bytes");
    }
}
