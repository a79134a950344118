//! How long an Example takes to read, beside `prost`: `cargo bench -p feedline-formats --bench example`.

#[allow(dead_code)]
#[path = "../tests/protobuf/oracle.rs"]
mod oracle;

use feedline_formats::alike::Alike;
use feedline_formats::example::{Feature, Wanted};
use feedline_formats::example_writer::{Values, put_example};
use oracle::proto;
use prost::Message;
use std::hint::black_box;
use std::time::Instant;

/// The best time of many, per record, in ns.
fn time(what: &str, records: &[Vec<u8>], mut f: impl FnMut(&[Vec<u8>])) {
    let mut best = f64::MAX;
    let begin = Instant::now();
    while begin.elapsed().as_millis() < 500 {
        let start = Instant::now();
        f(records);
        best = best.min(start.elapsed().as_nanos() as f64 / records.len() as f64);
    }
    let bytes = records.iter().map(Vec::len).sum::<usize>() / records.len();
    println!("{what:48} {best:9.1} ns/record of {bytes} bytes");
}

/// A click: five features.
fn small(i: i64) -> Vec<u8> {
    let x: Vec<f32> = (0..16).map(|k| (i * k) as f32).collect();
    let name = format!("user-{i}");
    let mut out = Vec::new();
    put_example(
        &mut out,
        Some(&[
            (b"id", Values::Ints(&[i * 1000])),
            (b"label", Values::Ints(&[i % 10])),
            (b"name", Values::Bytes(&[name.as_bytes()])),
            (b"weight", Values::Floats(&[0.5])),
            (b"x", Values::Floats(&x)),
        ]),
    );
    out
}

/// Ten numbers and a label: records that differ in their values alone.
fn numbers(i: i64) -> Vec<u8> {
    let names: Vec<String> = (0..10).map(|k| format!("f{k}")).collect();
    let values: Vec<[f32; 1]> = (0..10).map(|k| [(i * k) as f32]).collect();
    let label = [i % 10];
    let floats = names.iter().zip(&values).map(|(name, value)| (name.as_bytes(), Values::Floats(value)));
    let features: Vec<(&[u8], Values<'_>)> = floats.chain([(&b"label"[..], Values::Ints(&label))]).collect();
    let mut out = Vec::new();
    put_example(&mut out, Some(&features));
    out
}

/// Forty features with a few values each.
fn wide(i: i64) -> Vec<u8> {
    let names: Vec<String> = (0..40).map(|k| format!("feature_{k:02}")).collect();
    let ints: Vec<i64> = (0..4).map(|k| i * k).collect();
    let features: Vec<(&[u8], Values<'_>)> = names.iter().map(|n| (n.as_bytes(), Values::Ints(&ints))).collect();
    let mut out = Vec::new();
    put_example(&mut out, Some(&features));
    out
}

fn main() {
    const ROWS: usize = 1024;
    let records: Vec<Vec<u8>> = (0..ROWS as i64).map(small).collect();
    let wanted = Wanted::new(["id", "label", "name", "weight", "x"]);
    let (mut ids, mut labels) = (vec![0i64; ROWS], vec![0i64; ROWS]);
    let (mut weights, mut xs) = (vec![0f32; ROWS], vec![0f32; ROWS * 16]);
    let mut names: Vec<(usize, usize)> = Vec::with_capacity(ROWS);
    time("5 features: find them", &records, |records| {
        let (mut found, mut alike): ([Option<Feature>; 5], _) = ([None; 5], Alike::default());
        for record in records {
            wanted.read(record, &mut alike, &mut found).unwrap();
            black_box(&found);
        }
    });
    time("5 features: into columns", &records, |records| {
        let (mut found, mut alike): ([Option<Feature>; 5], _) = ([None; 5], Alike::default());
        names.clear();
        for (i, record) in records.iter().enumerate() {
            wanted.read(record, &mut alike, &mut found).unwrap();
            assert_eq!(found[0].unwrap().ints_into(&mut ids[i..i + 1]), Ok(1));
            assert_eq!(found[1].unwrap().ints_into(&mut labels[i..i + 1]), Ok(1));
            assert_eq!(found[2].unwrap().each_bytes(|b| names.push((b.as_ptr() as usize, b.len()))), Ok(1));
            assert_eq!(found[3].unwrap().floats_into(&mut weights[i..i + 1]), Ok(1));
            assert_eq!(found[4].unwrap().floats_into(&mut xs[i * 16..(i + 1) * 16]), Ok(16));
        }
        black_box((&ids, &labels, &names, &weights, &xs));
    });
    time("5 features: prost", &records, |records| {
        for record in records {
            black_box(proto::Example::decode(&record[..]).unwrap());
        }
    });
    let records: Vec<Vec<u8>> = (0..ROWS as i64).map(numbers).collect();
    let wanted = Wanted::new((0..10).map(|k| format!("f{k}")).chain(["label".into()]));
    for (what, remember) in [("", true), (", each for itself", false)] {
        time(&format!("10 floats and an integer{what}"), &records, |records| {
            let (mut found, mut alike): ([Option<Feature>; 11], _) = ([None; 11], Alike::default());
            let (mut float, mut int) = ([0.], [0]);
            for record in records {
                if !remember {
                    alike = Alike::default();
                }
                wanted.read(record, &mut alike, &mut found).unwrap();
                found[..10].iter().for_each(|f| assert_eq!(black_box(f).unwrap().floats_into(&mut float), Ok(1)));
                assert_eq!(black_box(&found)[10].unwrap().ints_into(&mut int), Ok(1));
                black_box((&float, &int));
            }
        });
    }
    let records: Vec<Vec<u8>> = (0..ROWS as i64).map(wide).collect();
    for count in [3, 40] {
        let wanted = Wanted::new((0..count).map(|k| format!("feature_{:02}", k * 13 % 40)));
        time(&format!("40 features, {count} wanted: into columns"), &records, |records| {
            let (mut found, mut alike): (Vec<Option<Feature>>, _) = (vec![None; count], Alike::default());
            let mut ints = [0; 4];
            for record in records {
                wanted.read(record, &mut alike, &mut found).unwrap();
                for feature in &found {
                    assert_eq!(feature.unwrap().ints_into(&mut ints), Ok(4));
                    black_box(&ints);
                }
            }
        });
    }
    time("40 features: prost", &records, |records| {
        for record in records {
            black_box(proto::Example::decode(&record[..]).unwrap());
        }
    });
}
