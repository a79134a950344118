//! The messages of TensorFlow's example.proto and feature.proto for `prost`, and checks that our reader sees in any bytes
//! exactly what `prost` sees, or fails where it fails. Also what the fuzz targets run.

use feedline_formats::alike::Alike;
use feedline_formats::example::{Entries, Feature, Stored, Wanted};
use feedline_formats::example_writer::{Values, put_example, put_sequence_example};
use feedline_formats::sequence_example::{FeatureList, Lists};
use feedline_formats::wire::Malformed;
use prost::Message;
use std::collections::BTreeMap;

pub mod proto {
    //! Maps are written as the repeated entries that they are on the wire: names that are no UTF-8 stay visible.

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Example {
        #[prost(message, optional, tag = "1")]
        pub features: Option<Features>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct SequenceExample {
        #[prost(message, optional, tag = "1")]
        pub context: Option<Features>,
        #[prost(message, optional, tag = "2")]
        pub feature_lists: Option<FeatureLists>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Features {
        #[prost(message, repeated, tag = "1")]
        pub feature: Vec<FeatureEntry>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct FeatureEntry {
        #[prost(bytes = "vec", tag = "1")]
        pub key: Vec<u8>,
        #[prost(message, optional, tag = "2")]
        pub value: Option<Feature>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct FeatureLists {
        #[prost(message, repeated, tag = "1")]
        pub feature_list: Vec<FeatureListEntry>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct FeatureListEntry {
        #[prost(bytes = "vec", tag = "1")]
        pub key: Vec<u8>,
        #[prost(message, optional, tag = "2")]
        pub value: Option<FeatureList>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct FeatureList {
        #[prost(message, repeated, tag = "1")]
        pub feature: Vec<Feature>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Feature {
        #[prost(oneof = "Kind", tags = "1, 2, 3")]
        pub kind: Option<Kind>,
    }
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Kind {
        #[prost(message, tag = "1")]
        Bytes(BytesList),
        #[prost(message, tag = "2")]
        Floats(FloatList),
        #[prost(message, tag = "3")]
        Ints(Int64List),
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct BytesList {
        #[prost(bytes = "vec", repeated, tag = "1")]
        pub value: Vec<Vec<u8>>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct FloatList {
        #[prost(float, repeated, tag = "1")]
        pub value: Vec<f32>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Int64List {
        #[prost(int64, repeated, tag = "1")]
        pub value: Vec<i64>,
    }
}

/// A feature by value. Floats are compared by their bits.
#[derive(Clone, Debug, PartialEq)]
pub enum Owned {
    Unset,
    Bytes(Vec<Vec<u8>>),
    Floats(Vec<u32>),
    Ints(Vec<i64>),
}

pub type Map = BTreeMap<Vec<u8>, Owned>;
pub type ListMap = BTreeMap<Vec<u8>, Vec<Owned>>;

impl From<&proto::Feature> for Owned {
    fn from(feature: &proto::Feature) -> Owned {
        match &feature.kind {
            None => Owned::Unset,
            Some(proto::Kind::Bytes(list)) => Owned::Bytes(list.value.clone()),
            Some(proto::Kind::Floats(list)) => Owned::Floats(list.value.iter().map(|x| x.to_bits()).collect()),
            Some(proto::Kind::Ints(list)) => Owned::Ints(list.value.clone()),
        }
    }
}

/// A feature of ours, by value; all ways to read it must agree.
fn owned(feature: Feature<'_>) -> Result<Owned, Malformed> {
    let (mut strings, mut floats, mut ints) = (Vec::new(), vec![1f32], vec![1i64]);
    let (read, result) = match feature.stored {
        None => (0, Owned::Unset),
        Some(Stored::Bytes) => {
            let read = feature.each_bytes(|b| strings.push(b.to_vec()))?;
            (read, Owned::Bytes(strings))
        }
        Some(Stored::Floats) => {
            let read = feature.floats_onto(&mut floats)?;
            let mut into = vec![0f32; read];
            assert_eq!(feature.floats_into(&mut into), Ok(read));
            assert_eq!(feature.floats_into(&mut []), Ok(read));
            let bits: Vec<u32> = into.iter().map(|x| x.to_bits()).collect();
            assert_eq!(bits, floats[1..].iter().map(|x| x.to_bits()).collect::<Vec<_>>());
            (read, Owned::Floats(bits))
        }
        Some(Stored::Ints) => {
            let read = feature.ints_onto(&mut ints)?;
            let mut into = vec![0i64; read];
            assert_eq!(feature.ints_into(&mut into), Ok(read));
            assert_eq!(feature.ints_into(&mut []), Ok(read));
            assert_eq!(into, ints[1..]);
            (read, Owned::Ints(into))
        }
    };
    assert_eq!(feature.count(), Ok(read));
    Ok(result)
}

fn steps(list: FeatureList<'_>) -> Result<Vec<Owned>, Malformed> {
    list.steps().map(|step| owned(step?)).collect()
}

/// All features of an Example as we read it.
fn ours(record: &[u8]) -> Result<Map, Malformed> {
    Entries::new(record).map(|entry| entry.and_then(|(key, feature)| Ok((key.to_vec(), owned(feature)?)))).collect()
}

fn our_lists(record: &[u8]) -> Result<ListMap, Malformed> {
    Lists::new(record).map(|entry| entry.and_then(|(key, list)| Ok((key.to_vec(), steps(list)?)))).collect()
}

fn theirs(features: &Option<proto::Features>) -> Map {
    let entries = features.iter().flat_map(|f| &f.feature);
    entries.map(|e| (e.key.clone(), e.value.as_ref().map_or(Owned::Unset, Owned::from))).collect()
}

fn their_lists(lists: &Option<proto::FeatureLists>) -> ListMap {
    let entries = lists.iter().flat_map(|l| &l.feature_list);
    entries.map(|e| (e.key.clone(), e.value.iter().flat_map(|list| &list.feature).map(Owned::from).collect())).collect()
}

/// Fails alike, but for groups: `prost` counts the messages around them as depth, too.
fn fails_alike(ours: &Result<impl std::fmt::Debug, Malformed>, theirs: &prost::DecodeError) {
    if !theirs.to_string().contains("recursion limit") {
        assert!(ours.is_err(), "prost: {theirs}; ours: {ours:?}");
    }
}

/// Any bytes as an Example.
pub fn example(record: &[u8]) {
    let ours = ours(record);
    let theirs = match proto::Example::decode(record) {
        Ok(message) => theirs(&message.features),
        Err(error) => return fails_alike(&ours, &error),
    };
    let ours = ours.unwrap_or_else(|e| panic!("{}", e.within(record, "Example")));
    assert_eq!(ours, theirs);
    // Some of the names, some others.
    let names: Vec<&[u8]> = theirs.keys().map(|k| &k[..]).step_by(2).chain([&b"not there"[..], b""]).collect();
    let wanted = Wanted::new(&names);
    let mut found = vec![None; names.len()];
    wanted.read(record, &mut Alike::default(), &mut found).unwrap();
    for (name, found) in names.iter().zip(&found).take(theirs.len().div_ceil(2)) {
        assert_eq!(found.map(|f| owned(f).unwrap()).as_ref(), theirs.get(*name), "{name:?}");
    }
    rewritten(&ours, &theirs_message(&theirs));
}

/// Records one after the other: each reads as it would alone.
pub fn examples(records: &[&[u8]]) {
    let keys = |record| ours(record).map(|map| map.into_keys().collect::<Vec<_>>()).unwrap_or_default();
    let wanted = Wanted::new(records.iter().flat_map(|record| keys(record)).step_by(2).chain([b"f1".to_vec()]));
    let mut alike = Alike::default();
    for record in records {
        let read = |alike: &mut Alike| {
            let mut found = vec![None; wanted.len()];
            let done = wanted.read(record, alike, &mut found);
            done.map(|()| found.into_iter().map(|f| f.map(owned)).collect::<Vec<_>>())
        };
        assert_eq!(read(&mut alike), read(&mut Alike::default()));
    }
}

/// Any bytes as a SequenceExample.
pub fn sequence_example(record: &[u8]) {
    let ours = ours(record).and_then(|context| Ok((context, our_lists(record)?)));
    let (context, lists) = match proto::SequenceExample::decode(record) {
        Ok(message) => (theirs(&message.context), their_lists(&message.feature_lists)),
        Err(error) => return fails_alike(&ours, &error),
    };
    let ours = ours.unwrap_or_else(|e| panic!("{}", e.within(record, "SequenceExample")));
    assert_eq!(ours, (context, lists));
    let (context, lists) = ours;
    let names: Vec<&[u8]> = lists.keys().map(|k| &k[..]).collect();
    let wanted = Wanted::new(&names);
    let mut found = vec![None; names.len()];
    wanted.read_lists(record, &mut found).unwrap();
    for (name, found) in names.iter().zip(&found) {
        assert_eq!(&steps(found.unwrap()).unwrap(), &lists[*name]);
    }
    let mut bytes = Vec::new();
    with_values(&context, |context| {
        let parts: Vec<Parts<'_>> = lists.values().map(|steps| steps.iter().map(parts).collect()).collect();
        let values: Vec<Vec<Values<'_>>> = lists
            .values()
            .zip(&parts)
            .map(|(steps, parts)| steps.iter().zip(parts).map(|(step, parts)| values(step, parts)).collect())
            .collect();
        let lists: Vec<(&[u8], &[Values<'_>])> = lists.keys().zip(&values).map(|(k, v)| (&k[..], &v[..])).collect();
        put_sequence_example(&mut bytes, Some(context), Some(&lists));
    });
    let message = proto::SequenceExample {
        context: theirs_message(&context).features,
        feature_lists: Some(proto::FeatureLists {
            feature_list: lists
                .iter()
                .map(|(key, steps)| proto::FeatureListEntry {
                    key: key.clone(),
                    value: Some(proto::FeatureList { feature: steps.iter().map(message).collect() }),
                })
                .collect(),
        }),
    };
    assert_same_bytes(&bytes, &message.encode_to_vec(), lists.keys().chain(context.keys()));
    assert_eq!((self::ours(&bytes).unwrap(), our_lists(&bytes).unwrap()), (context, lists));
}

fn message(feature: &Owned) -> proto::Feature {
    let kind = match feature {
        Owned::Unset => None,
        Owned::Bytes(value) => Some(proto::Kind::Bytes(proto::BytesList { value: value.clone() })),
        Owned::Floats(bits) => {
            let value = bits.iter().map(|&b| f32::from_bits(b)).collect();
            Some(proto::Kind::Floats(proto::FloatList { value }))
        }
        Owned::Ints(value) => Some(proto::Kind::Ints(proto::Int64List { value: value.clone() })),
    };
    proto::Feature { kind }
}

fn theirs_message(map: &Map) -> proto::Example {
    let entry =
        |(key, value): (&Vec<u8>, &Owned)| proto::FeatureEntry { key: key.clone(), value: Some(message(value)) };
    proto::Example { features: Some(proto::Features { feature: map.iter().map(entry).collect() }) }
}

/// Strings and floats as the writer wants them.
type Parts<'a> = Vec<(Vec<&'a [u8]>, Vec<f32>)>;

fn parts(feature: &Owned) -> (Vec<&[u8]>, Vec<f32>) {
    match feature {
        Owned::Bytes(list) => (list.iter().map(|b| &b[..]).collect(), vec![]),
        Owned::Floats(bits) => (vec![], bits.iter().map(|&b| f32::from_bits(b)).collect()),
        _ => (vec![], vec![]),
    }
}

fn values<'a>(feature: &'a Owned, (strings, floats): &'a (Vec<&'a [u8]>, Vec<f32>)) -> Values<'a> {
    match feature {
        Owned::Unset => Values::Unset,
        Owned::Bytes(_) => Values::Bytes(strings),
        Owned::Floats(_) => Values::Floats(floats),
        Owned::Ints(ints) => Values::Ints(ints),
    }
}

/// The features as the writer wants them.
fn with_values(map: &Map, f: impl FnOnce(&[(&[u8], Values<'_>)])) {
    let parts: Parts<'_> = map.values().map(parts).collect();
    let features: Vec<(&[u8], Values<'_>)> =
        map.iter().zip(&parts).map(|((k, v), parts)| (&k[..], values(v, parts))).rev().collect();
    f(&features);
}

/// What our writer makes of it is what `prost` makes of it, and reads as what it was.
fn rewritten(map: &Map, message: &proto::Example) {
    let mut bytes = Vec::new();
    with_values(map, |features| put_example(&mut bytes, Some(features)));
    assert_same_bytes(&bytes, &message.encode_to_vec(), map.keys());
    assert_eq!(&ours(&bytes).unwrap(), map);
}

/// As plain bytes fields, `prost` leaves out empty keys, which maps of protobuf write.
fn assert_same_bytes<'a>(ours: &[u8], theirs: &[u8], mut keys: impl Iterator<Item = &'a Vec<u8>>) {
    if keys.all(|k| !k.is_empty()) {
        assert_eq!(ours, theirs);
    }
}
