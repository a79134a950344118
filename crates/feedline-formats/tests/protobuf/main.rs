//! Reading and writing of TensorFlow's messages against `prost`, on random messages and on bytes that were damaged.

mod oracle;

use oracle::proto;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

fn feature() -> impl Strategy<Value = proto::Feature> {
    let bytes = vec(vec(any::<u8>(), 0..20), 0..4);
    let floats = vec(any::<u32>().prop_map(f32::from_bits), 0..20);
    let ints = vec(prop_oneof![any::<i64>(), -3i64..300], 0..20);
    prop_oneof![
        Just(None),
        bytes.prop_map(|value| Some(proto::Kind::Bytes(proto::BytesList { value }))),
        floats.prop_map(|value| Some(proto::Kind::Floats(proto::FloatList { value }))),
        ints.prop_map(|value| Some(proto::Kind::Ints(proto::Int64List { value }))),
    ]
    .prop_map(|kind| proto::Feature { kind })
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..30), "[a-c]{0,2}".prop_map(String::into_bytes)]
}

fn features() -> impl Strategy<Value = proto::Features> {
    let entry = (key(), proptest::option::of(feature())).prop_map(|(key, value)| proto::FeatureEntry { key, value });
    vec(entry, 0..6).prop_map(|feature| proto::Features { feature })
}

fn example() -> impl Strategy<Value = Vec<u8>> {
    proptest::option::of(features()).prop_map(|features| proto::Example { features }.encode_to_vec())
}

fn sequence_example() -> impl Strategy<Value = Vec<u8>> {
    let entry = (key(), proptest::option::of(vec(feature(), 0..5))).prop_map(|(key, value)| proto::FeatureListEntry {
        key,
        value: value.map(|feature| proto::FeatureList { feature }),
    });
    let lists = vec(entry, 0..4).prop_map(|feature_list| proto::FeatureLists { feature_list });
    (proptest::option::of(features()), proptest::option::of(lists))
        .prop_map(|(context, feature_lists)| proto::SequenceExample { context, feature_lists }.encode_to_vec())
}

/// One change of the bytes; places are fractions of the length.
#[derive(Clone, Debug)]
enum Damage {
    Set(f64, u8),
    Cut(f64),
    Remove(f64),
    Insert(f64, Vec<u8>),
    /// Everything once more: messages merge.
    Twice,
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    // Bytes that mean something to the format are likelier.
    let byte = || {
        prop_oneof![
            any::<u8>(),
            proptest::sample::select(vec![0x0au8, 0x12, 0x1a, 0x08, 0x0d, 0x0b, 0x0c, 0x80, 0, 1, 2])
        ]
    };
    let one = prop_oneof![
        (0.0..1.0, byte()).prop_map(|(at, b)| Damage::Set(at, b)),
        (0.0..1.0).prop_map(Damage::Cut),
        (0.0..1.0).prop_map(Damage::Remove),
        (0.0..1.0, vec(byte(), 1..4)).prop_map(|(at, b)| Damage::Insert(at, b)),
        Just(Damage::Twice),
    ];
    vec(one, 0..4)
}

fn damaged(mut bytes: Vec<u8>, damage: &[Damage]) -> Vec<u8> {
    for one in damage {
        let len = bytes.len();
        let place = |at: &f64| (len as f64 * at) as usize;
        match one {
            Damage::Set(at, b) if !bytes.is_empty() => bytes[place(at)] = *b,
            Damage::Remove(at) if !bytes.is_empty() => drop(bytes.remove(place(at))),
            Damage::Cut(at) => bytes.truncate(place(at)),
            Damage::Insert(at, more) => {
                let at = place(at);
                drop(bytes.splice(at..at, more.iter().copied()));
            }
            Damage::Twice => bytes.extend_from_within(..),
            _ => {}
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn examples_read_as_prost_reads_them(bytes in example(), damage in damage()) {
        oracle::example(&damaged(bytes, &damage));
    }
    #[test]
    fn records_that_look_alike_read_as_each_alone(bytes in example(), some in vec(damage(), 1..4)) {
        let others: Vec<Vec<u8>> = some.iter().map(|damage| damaged(bytes.clone(), damage)).collect();
        let records: Vec<&[u8]> = others.iter().flat_map(|other| [&bytes[..], other]).collect();
        oracle::examples(&records);
    }
    #[test]
    fn sequence_examples_read_as_prost_reads_them(bytes in sequence_example(), damage in damage()) {
        oracle::sequence_example(&damaged(bytes, &damage));
    }
    #[test]
    fn one_read_as_the_other(bytes in example(), other in sequence_example(), damage in damage()) {
        oracle::example(&damaged(other, &damage));
        oracle::sequence_example(&damaged(bytes, &damage));
    }
    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..60)) {
        oracle::example(&bytes);
        oracle::sequence_example(&bytes);
        feedline_formats::fuzzing::run("tensor_proto", &bytes);
        feedline_formats::fuzzing::run("json_example", &bytes);
    }
}

/// A message of fields with bytes in them.
fn fields(parts: &[(u8, &[u8])]) -> Vec<u8> {
    parts.iter().flat_map(|(n, b)| [n << 3 | 2, b.len() as u8].into_iter().chain(b.iter().copied())).collect()
}

#[test]
fn pieces_are_put_together() {
    let floats = |x: f32| fields(&[(2, &fields(&[(1, &x.to_le_bytes())]))]);
    let int = |n: u8| fields(&[(3, &[0x08, n])]);
    let joined = |parts: &[Vec<u8>]| parts.concat();
    // Two lists of a type in a feature are one; another type replaces it.
    for feature in [
        joined(&[floats(1.0), floats(2.0)]),
        joined(&[int(1), floats(1.0), floats(2.0)]),
        joined(&[floats(1.0), int(3), floats(2.0)]),
        joined(&[int(1), int(2), vec![0x20, 0x05]]),
        vec![],
    ] {
        for entry in [
            fields(&[(1, b"k"), (2, &feature)]),
            fields(&[(2, &feature), (1, b"k")]),
            fields(&[(1, b"no"), (2, &feature), (1, b"k"), (2, &feature)]),
            fields(&[(1, b"k"), (2, &floats(7.0)), (2, &feature)]),
            fields(&[(2, &feature)]),
            fields(&[(1, b"k")]),
        ] {
            let features = fields(&[(1, &entry)]);
            oracle::example(&fields(&[(1, &features)]));
            oracle::example(&fields(&[(1, &features), (1, &features), (7, b"unknown")]));
            oracle::sequence_example(&fields(&[(2, &features), (1, &features), (2, &features)]));
        }
    }
    // Packed runs, single values, both, in unusual tags.
    for list in [&[0x0a, 2, 5, 6, 0x08, 7, 0x0a, 1, 8][..], &[0x88, 0x80, 0x00, 9], &[0x08, 0x85, 0x01, 0x10, 1]] {
        let feature = fields(&[(3, list)]);
        oracle::example(&fields(&[(1, &fields(&[(1, &fields(&[(1, b"k"), (2, &feature)]))]))]));
    }
}

/// What fuzzing found worth keeping reads as `prost` reads it.
#[test]
fn the_corpus_replays() {
    type Run = fn(&[u8]);
    let targets: [(&str, Run); 2] = [("example", oracle::example), ("sequence_example", oracle::sequence_example)];
    for (target, run) in targets {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let inputs: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!inputs.is_empty(), "{}", folder.display());
        inputs.iter().for_each(|input| run(&std::fs::read(input).unwrap()));
    }
}
