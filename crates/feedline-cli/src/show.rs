//! Rows for people, and as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use feedline::element::{B8, DType, Element, Spec, Tensor, Tree, Value, ragged_row};
use feedline_formats::example::{Entries, Stored};
use serde_json::{Value as Json, json};

/// How much of a value is shown.
#[derive(Clone, Copy)]
pub struct Limit {
    pub items: usize,
    pub text: usize,
}

impl Limit {
    pub const NONE: Limit = Limit { items: usize::MAX, text: usize::MAX };
    pub const SHORT: Limit = Limit { items: 8, text: 60 };
}

/// One row.
pub fn row(spec: &Spec, row: &Element, limit: Limit) -> Json {
    node(spec, &mut row.iter(), limit)
}

fn node<'a>(spec: &Spec, values: &mut impl Iterator<Item = &'a Value>, limit: Limit) -> Json {
    match spec {
        Tree::Leaf(_) => values.next().map_or(Json::Null, |v| value(v, limit)),
        Tree::Map { items, .. } => items.iter().map(|(name, t)| (name.to_string(), node(t, values, limit))).collect(),
        Tree::Tuple { items, .. } => items.iter().map(|t| node(t, values, limit)).collect(),
    }
}

fn value(value: &Value, limit: Limit) -> Json {
    match value {
        Value::Tensor(t) => tensor(t, limit),
        Value::Ragged(r) if r.splits.is_empty() => tensor(&r.values, limit),
        Value::Ragged(r) => list(r.rows(), limit, |i| self::value(&Value::Ragged(ragged_row(r, i).into()), limit)),
        Value::Sparse(s) => json!({ "indices": tensor(&s.indices, limit), "values": tensor(&s.values, limit) }),
        Value::Absent => Json::Null,
        Value::Dataset(_) => json!("a dataset"),
    }
}

/// A list, cut where it gets long.
pub fn list(len: usize, limit: Limit, item: impl Fn(usize) -> Json) -> Json {
    let mut items: Vec<Json> = (0..len.min(limit.items)).map(item).collect();
    if len > limit.items {
        items.push(json!(format!("… {len} in all")));
    }
    Json::Array(items)
}

fn tensor(t: &Tensor, limit: Limit) -> Json {
    if t.rank() > 0 {
        return list(t.shape()[0], limit, |i| tensor(&t.row(i), limit));
    }
    match t.dtype() {
        DType::String => text(t.str_at(0), limit),
        DType::Bool => t.item::<B8>().get().into(),
        DType::Int8 => t.item::<i8>().into(),
        DType::Int16 => t.item::<i16>().into(),
        DType::Int32 => t.item::<i32>().into(),
        DType::Int64 => t.item::<i64>().into(),
        DType::Uint8 => t.item::<u8>().into(),
        DType::Uint16 => t.item::<u16>().into(),
        DType::Uint32 => t.item::<u32>().into(),
        DType::Uint64 => t.item::<u64>().into(),
        DType::Float16 => float32(t.item::<half::f16>().to_f32()),
        DType::Bfloat16 => float32(t.item::<half::bf16>().to_f32()),
        DType::Float32 => float32(t.item::<f32>()),
        DType::Float64 => float(t.item::<f64>()),
    }
}

/// In its own shortest form: 0.1 is not 0.10000000149.
pub fn float32(x: f32) -> Json {
    float(if x.is_finite() { x.to_string().parse().unwrap_or(f64::from(x)) } else { f64::from(x) })
}

/// JSON has no infinities; protobuf's JSON form spells them.
pub fn float(x: f64) -> Json {
    match x {
        x if x.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        x => json!(x),
    }
}

/// What is JSON already.
pub fn json(value: &Json, limit: Limit) -> Json {
    match value {
        Json::String(text) => self::text(text.as_bytes(), limit),
        Json::Array(items) => list(items.len(), limit, |i| json(&items[i], limit)),
        Json::Object(fields) => fields.iter().map(|(name, v)| (name.clone(), json(v, limit))).collect(),
        other => other.clone(),
    }
}

/// Text as it is, other bytes in base64.
pub fn text(bytes: &[u8], limit: Limit) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.len() <= limit.text => text.into(),
        Ok(text) => {
            let cut: String = text.chars().take(limit.text).collect();
            format!("{cut}… {} bytes in all", bytes.len()).into()
        }
        Err(_) if bytes.len() <= limit.text => json!({ "base64": STANDARD.encode(bytes) }),
        Err(_) => json!({ "base64": format!("{}…", STANDARD.encode(&bytes[..limit.text / 4])), "bytes": bytes.len() }),
    }
}

/// An Example as an object: one value as it is, several as a list. `None` if the record is none.
pub fn example(record: &[u8], limit: Limit) -> Option<Json> {
    let mut fields = std::collections::BTreeMap::new();
    for entry in Entries::new(record) {
        let (name, feature) = entry.ok()?;
        let mut values: Vec<Json> = Vec::new();
        match feature.stored {
            Some(Stored::Bytes) => drop(feature.each_bytes(|b| values.push(text(b, limit))).ok()?),
            Some(Stored::Floats) => {
                let mut all = Vec::new();
                feature.floats_onto(&mut all).ok()?;
                values.extend(all.into_iter().map(float32));
            }
            Some(Stored::Ints) => {
                let mut all = Vec::new();
                feature.ints_onto(&mut all).ok()?;
                values.extend(all.into_iter().map(Json::from));
            }
            None => {}
        }
        let value = match values.len() {
            1 => values.remove(0),
            len => list(len, limit, |i| values[i].clone()),
        };
        fields.insert(std::str::from_utf8(name).ok()?.to_owned(), value);
    }
    (!fields.is_empty()).then(|| fields.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use feedline_formats::example_writer::{Values, put_example};

    #[test]
    fn examples_are_shown() {
        let mut record = Vec::new();
        let features: &[(&[u8], Values<'_>)] =
            &[(b"x", Values::Floats(&[0.1, f32::NAN])), (b"n", Values::Ints(&[-3])), (b"w", Values::Bytes(&[b"\xff"]))];
        put_example(&mut record, Some(features));
        let shown = example(&record, Limit::NONE).unwrap();
        assert_eq!(shown, json!({ "n": -3, "w": { "base64": "/w==" }, "x": [0.1, "NaN"] }));
        assert_eq!(example(b"\xff\xff", Limit::NONE), None);
        assert_eq!(example(b"", Limit::NONE), None);
    }

    #[test]
    fn long_values_are_cut() {
        let long = Tensor::from_items([20], &(0..20i64).collect::<Vec<_>>());
        assert_eq!(tensor(&long, Limit { items: 2, text: 5 }), json!([0, 1, "… 20 in all"]));
        assert_eq!(text("äöüäöüä".as_bytes(), Limit { items: 2, text: 2 }), json!("äö… 14 bytes in all"));
        assert_eq!(text(&[0xff; 50], Limit { items: 2, text: 8 }), json!({ "base64": "//8=…", "bytes": 50 }));
    }
}
