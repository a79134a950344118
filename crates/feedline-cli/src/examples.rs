//! tf.train.Examples and rows: which features records have, rows out of Examples, Examples out of rows.

use crate::rows::Records;
use feedline::element::{B8, DType, Element, Leaf, Ragged, Spec, Tensor, Tree, Value};
use feedline::expr::{Attrs, Builder};
use feedline::save::column_names;
use feedline::{Dataset, Error, Result};
use feedline_formats::example::{Entries, Stored};
use feedline_formats::example_writer::{Values, put_example};
use feedline_formats::sequence_example::Lists;
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How many values a feature has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Always one: a scalar.
    One,
    Fixed(usize),
    Any,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    pub name: String,
    pub stored: Stored,
    pub length: Length,
}

/// As `--schema` has it: `int64`, `float32[4]`, `string[]`.
impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.stored.name())?;
        match self.length {
            Length::One => Ok(()),
            Length::Fixed(n) => write!(f, "[{n}]"),
            Length::Any => f.write_str("[]"),
        }
    }
}

/// The features that are read.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema(pub Vec<Feature>);

impl Schema {
    /// From the command line: `label: int64, x: float32[4]`, or the same as a JSON object.
    pub fn parse(text: &str) -> Result<Schema> {
        let pairs: Vec<(String, String)> = if text.trim_start().starts_with('{') {
            let map: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)
                .map_err(|e| Error::usage(format!("--schema is not the JSON object that it begins like: {e}")))?;
            map.into_iter().map(|(name, ty)| (name, ty.as_str().unwrap_or_default().to_owned())).collect()
        } else {
            let pair = |part: &str| part.rsplit_once(':').map(|(a, b)| (a.trim().to_owned(), b.trim().to_owned()));
            let parts = text.split([',', '\n']).filter(|part| !part.trim().is_empty());
            parts
                .map(|part| {
                    let why = || Error::usage(format!("--schema: {:?} is not \"name: type\"", part.trim()));
                    pair(part).filter(|(name, _)| !name.is_empty()).ok_or_else(why)
                })
                .collect::<Result<_>>()?
        };
        let mut features: Vec<Feature> = Vec::new();
        for (name, ty) in pairs {
            if features.iter().any(|f| f.name == name) {
                feedline::bail!(Usage, "--schema has the feature {name:?} twice");
            }
            features.push(Feature::parse(name, &ty)?);
        }
        match features.is_empty() {
            true => Err(Error::usage("--schema names no features")),
            false => Ok(Schema(features)),
        }
    }
}

impl Feature {
    fn parse(name: String, text: &str) -> Result<Feature> {
        let bad = || {
            Error::usage(format!(
                "--schema: {name:?} cannot be {text:?}; a type is int64, float32 or string, then nothing (one value), \
                 [4] (four) or [] (any number)"
            ))
        };
        let (dtype, length) = match text.split_once('[') {
            None => (text, Length::One),
            Some((dtype, "]")) => (dtype, Length::Any),
            Some((dtype, n)) => {
                (dtype, Length::Fixed(n.strip_suffix(']').and_then(|n| n.parse().ok()).ok_or_else(bad)?))
            }
        };
        let all = [Stored::Bytes, Stored::Floats, Stored::Ints];
        let stored = all.into_iter().find(|s| s.name() == dtype.trim()).ok_or_else(bad)?;
        Ok(Feature { name, stored, length })
    }
}

/// What some records tell of their features.
#[derive(Debug, Default)]
pub struct Inference {
    records: usize,
    /// Something was no Example.
    other: bool,
    sequences: bool,
    features: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    stored: Option<Stored>,
    /// Two types were seen.
    mixed: bool,
    shortest: usize,
    longest: usize,
    /// In how many records it was.
    times: usize,
}

impl Inference {
    pub fn records(&self) -> usize {
        self.records
    }
    pub fn record(&mut self, record: &[u8]) {
        self.records += 1;
        self.sequences |= Lists::new(record).next().is_some_and(|list| list.is_ok());
        self.other |= self.features_of(record).is_none();
    }
    /// `None` if it is no Example.
    fn features_of(&mut self, record: &[u8]) -> Option<()> {
        for entry in Entries::new(record) {
            let (name, feature) = entry.ok()?;
            let (name, count) = (std::str::from_utf8(name).ok()?, feature.count().ok()?);
            let new = Seen { stored: feature.stored, mixed: false, shortest: count, longest: count, times: 0 };
            let seen = self.features.entry(name.to_owned()).or_insert(new);
            seen.times += 1;
            seen.shortest = seen.shortest.min(count);
            seen.longest = seen.longest.max(count);
            seen.mixed |= seen.stored.is_some() && feature.stored.is_some() && seen.stored != feature.stored;
            seen.stored = seen.stored.or(feature.stored);
        }
        Some(())
    }
    /// Any bytes can happen to be read as a message: only records with features are Examples.
    pub fn finish(self) -> Result<Records> {
        if self.other || self.features.is_empty() || self.sequences {
            return Ok(Records::Bytes);
        }
        let mut features = Vec::new();
        for (name, seen) in self.features {
            if seen.mixed {
                feedline::bail!(Data, "the feature {name:?} has several types, so there is no schema for all records");
            }
            let length = match (seen.times == self.records, seen.shortest, seen.longest) {
                (true, 1, 1) => Length::One,
                (true, a, b) if a == b && a > 0 => Length::Fixed(a),
                _ => Length::Any,
            };
            // One that never has a value is of no type; bytes are as good as any.
            features.push(Feature { name, stored: seen.stored.unwrap_or(Stored::Bytes), length });
        }
        Ok(Records::Examples(Schema(features)))
    }
    /// Records with lists of features: SequenceExamples.
    pub fn has_sequences(&self) -> bool {
        self.sequences && !self.other
    }
}

/// Refuses records with features that the schema, which was learned from others, does not know: they would be lost.
pub fn only_known(records: &Dataset, schema: &Schema) -> Result<Dataset> {
    let names: HashSet<String> = schema.0.iter().map(|f| f.name.clone()).collect();
    records.map_fn(records.spec().clone(), move |row| {
        // What is no Example is said by whoever reads it.
        for (name, _) in Entries::new(row[0].tensor().str_at(0)).map_while(Result::ok) {
            if !std::str::from_utf8(name).is_ok_and(|name| names.contains(name)) {
                let name = String::from_utf8_lossy(name);
                return Err(Error::data(format!("the record has the feature {name:?}, and those before it have not")));
            }
        }
        Ok(row)
    })
}

/// Rows out of Examples.
pub fn parse(records: &Dataset, schema: &Schema) -> Result<Dataset> {
    let features: Vec<_> = schema
        .0
        .iter()
        .map(|f| {
            let (kind, shape) = match f.length {
                Length::One => ("fixed", vec![]),
                Length::Fixed(n) => ("fixed", vec![n]),
                Length::Any => ("sequence", vec![]),
            };
            let allow_missing = kind == "sequence";
            json!({ "name": f.name, "dtype": f.stored.name(), "kind": kind, "shape": shape, "default": null,
                    "allow_missing": allow_missing })
        })
        .collect();
    let mut builder = Builder::new(records.spec());
    let mut attrs = Attrs::default();
    attrs.0.insert("features".into(), features.into());
    let parts = builder.call_parts("io.parse_single_example", &[0], attrs)?;
    let items = schema.0.iter().zip(parts).map(|(f, node)| (f.name.as_str().into(), Tree::Leaf(node))).collect();
    records.map_graph(builder.finish(&Tree::Map { tag: None, items }))
}

/// Examples out of rows, and what is not the same in them.
pub fn make(rows: &Dataset) -> Result<(Dataset, Vec<String>)> {
    let names = column_names(rows.spec());
    let mut remarks = Vec::new();
    for (name, leaf) in names.iter().zip(rows.spec().leaves()) {
        match leaf {
            Leaf::Tensor { dtype: DType::Float64, .. } => {
                remarks.push(format!("{name} is float64; an Example stores float32"));
            }
            Leaf::Tensor { shape, .. } | Leaf::Ragged { shape, .. } if shape.rank().is_some_and(|rank| rank > 1) => {
                remarks.push(format!("{name} has the shape {shape}; an Example stores its values one after the other"));
            }
            Leaf::Tensor { .. } | Leaf::Ragged { .. } => {}
            other => feedline::bail!(Usage, "{name} is {other}, which an Example cannot store"),
        }
    }
    let made = rows.map_fn(Spec::scalar(DType::String), move |row| {
        let record = example(&names, &row)?;
        Ok([Tensor::string(&record).into()].into_iter().collect::<Element>())
    })?;
    Ok((made, remarks))
}

/// Values in the types that Examples store.
enum List<'a> {
    Bytes(Vec<&'a [u8]>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

fn list<'a>(name: &str, tensor: &'a Tensor) -> Result<List<'a>> {
    macro_rules! items {
        ($list:ident, $t:ty, $f:expr) => {
            List::$list(tensor.items::<$t>().iter().map($f).collect())
        };
    }
    Ok(match tensor.dtype() {
        DType::String => List::Bytes(tensor.strs().collect()),
        DType::Bool => items!(Ints, B8, |b| b.get().into()),
        DType::Int8 => items!(Ints, i8, |n| (*n).into()),
        DType::Int16 => items!(Ints, i16, |n| (*n).into()),
        DType::Int32 => items!(Ints, i32, |n| (*n).into()),
        DType::Int64 => items!(Ints, i64, |n| *n),
        DType::Uint8 => items!(Ints, u8, |n| (*n).into()),
        DType::Uint16 => items!(Ints, u16, |n| (*n).into()),
        DType::Uint32 => items!(Ints, u32, |n| (*n).into()),
        DType::Uint64 => {
            let fits = |n: &u64| {
                let n = *n;
                i64::try_from(n).map_err(|_| Error::data(format!("{name} is {n}, beyond the int64 of an Example")))
            };
            List::Ints(tensor.items::<u64>().iter().map(fits).collect::<Result<_>>()?)
        }
        DType::Float16 => items!(Floats, half::f16, |x| x.to_f32()),
        DType::Bfloat16 => items!(Floats, half::bf16, |x| x.to_f32()),
        DType::Float32 => items!(Floats, f32, |x| *x),
        DType::Float64 => items!(Floats, f64, |x| *x as f32),
    })
}

/// All values of a ragged row, one after the other.
fn flat(ragged: &Ragged) -> Tensor {
    let cut = |range: Range<usize>, splits: &Arc<[i64]>| splits[range.start] as usize..splits[range.end] as usize;
    match ragged.splits.is_empty() {
        true => ragged.values.clone(),
        false => ragged.values.slice(ragged.splits.iter().fold(0..ragged.rows(), cut)),
    }
}

fn example(names: &[String], row: &Element) -> Result<Vec<u8>> {
    let tensors = names.iter().zip(row).map(|(name, value)| match value {
        Value::Tensor(tensor) => Ok(tensor.clone()),
        Value::Ragged(ragged) => Ok(flat(ragged)),
        _ => Err(Error::data(format!("{name} is neither dense nor ragged, and an Example stores nothing else"))),
    });
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    let lists = names.iter().zip(&tensors).map(|(name, tensor)| list(name, tensor)).collect::<Result<Vec<_>>>()?;
    let features: Vec<(&[u8], Values<'_>)> = names
        .iter()
        .zip(&lists)
        .map(|(name, list)| {
            let values = match list {
                List::Bytes(all) => Values::Bytes(all),
                List::Floats(all) => Values::Floats(all),
                List::Ints(all) => Values::Ints(all),
            };
            (name.as_bytes(), values)
        })
        .collect();
    let mut out = Vec::new();
    put_example(&mut out, Some(&features));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(features: &[(&[u8], Values<'_>)]) -> Vec<u8> {
        let mut out = Vec::new();
        put_example(&mut out, Some(features));
        out
    }
    fn schema(records: &[Vec<u8>]) -> Option<String> {
        let mut inference = Inference::default();
        records.iter().for_each(|r| inference.record(r));
        match inference.finish().unwrap() {
            Records::Bytes => None,
            Records::Examples(schema) => {
                Some(schema.0.iter().map(|f| format!("{}: {f}", f.name)).collect::<Vec<_>>().join(", "))
            }
        }
    }

    #[test]
    fn schemas_are_learned_and_written() {
        let records = [
            record(&[(b"a", Values::Ints(&[1])), (b"x", Values::Floats(&[1.0, 2.0])), (b"w", Values::Bytes(&[b"q"]))]),
            record(&[(b"a", Values::Ints(&[2])), (b"x", Values::Floats(&[3.0, 4.0])), (b"w", Values::Bytes(&[]))]),
        ];
        let text = "a: int64, w: string[], x: float32[2]";
        assert_eq!(schema(&records).as_deref(), Some(text));
        let Schema(read) = Schema::parse(text).unwrap();
        assert_eq!(read.iter().map(|f| format!("{}: {f}", f.name)).collect::<Vec<_>>().join(", "), text);
        assert_eq!(Schema::parse("{\"a\": \"int64[]\"}").unwrap().0[0].length, Length::Any);
        for bad in
            ["", "a", "a: int32", "a: int64[x]", "a: int64, a: string", "{\"a\": 1}", "{", ": int64", "a: int64[3"]
        {
            assert_eq!(Schema::parse(bad).unwrap_err().kind(), feedline::Kind::Usage, "{bad}");
        }
    }

    #[test]
    fn ragged_rows_are_stored_flat() {
        let ragged = |splits: &[&[i64]]| Ragged {
            values: Tensor::from_items([6], &[0i64, 1, 2, 3, 4, 5]),
            splits: splits.iter().map(|s| (*s).into()).collect(),
            splits_dtype: DType::Int64,
        };
        let items = |splits: &[&[i64]]| flat(&ragged(splits)).items::<i64>().to_vec();
        assert_eq!(items(&[]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(items(&[&[1, 1, 4]]), [1, 2, 3]);
        assert_eq!(items(&[&[1, 2], &[0, 2, 5, 6]]), [2, 3, 4]);
    }

    #[test]
    fn other_records_are_bytes() {
        assert_eq!(schema(&[b"hello, this is some text".to_vec()]), None);
        assert_eq!(schema(&[vec![]]), None);
        assert_eq!(schema(&[]), None);
        assert_eq!(schema(&[record(&[(b"a", Values::Ints(&[1]))]), b"\xff\xff\xff".to_vec()]), None);
        let mut mixed = Inference::default();
        mixed.record(&record(&[(b"a", Values::Ints(&[1]))]));
        mixed.record(&record(&[(b"a", Values::Floats(&[1.0]))]));
        assert!(mixed.finish().err().unwrap().to_string().contains("several types"));
    }
}
