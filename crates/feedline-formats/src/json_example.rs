//! An Example in protobuf's JSON form, as its bytes: `{"features": {"feature": {"x": {"floatList": {"value": [1.5]}}}}}`.
//!
//! Bytes are base64 there (with either alphabet), 64-bit integers may be strings, floats may be "NaN" or "Infinity", and
//! names may be written with underscores.

use crate::example_writer::{Values, put_example};
use feedline_io::{Error, Result};
use serde_json::{Map, Value as Json};

enum List {
    Unset,
    Bytes(Vec<Vec<u8>>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

/// Appends the bytes of an Example that is written in JSON.
pub fn put_json_example(out: &mut Vec<u8>, text: &[u8]) -> Result<()> {
    let json: Json = serde_json::from_slice(text).map_err(|e| Error::data(format!("not a JSON Example: {e}")))?;
    let example = Object::new(&json, "the Example", &[("features", "features")])?;
    let Some(features) = example.get(0) else { return Ok(()) };
    let features = Object::new(features, "features", &[("feature", "feature")])?;
    let empty = Map::new();
    let map = match features.get(0) {
        None => &empty,
        Some(Json::Object(map)) => map,
        Some(other) => return Err(wrong("feature", "an object", other)),
    };
    let lists = map.iter().map(|(name, json)| list(name, json)).collect::<Result<Vec<List>>>()?;
    let strings: Vec<Vec<&[u8]>> = lists
        .iter()
        .map(|list| match list {
            List::Bytes(strings) => strings.iter().map(|s| &s[..]).collect(),
            _ => vec![],
        })
        .collect();
    let values = lists.iter().zip(&strings).map(|(list, strings)| match list {
        List::Unset => Values::Unset,
        List::Bytes(_) => Values::Bytes(strings),
        List::Floats(floats) => Values::Floats(floats),
        List::Ints(ints) => Values::Ints(ints),
    });
    let features: Vec<(&[u8], Values<'_>)> = map.keys().map(|k| k.as_bytes()).zip(values).collect();
    put_example(out, Some(&features));
    Ok(())
}

/// A message in JSON: known fields only, of which null ones count as left out.
struct Object<'a>(Vec<Option<&'a Json>>);

impl<'a> Object<'a> {
    /// `names` are those of the fields, in both spellings.
    fn new(json: &'a Json, what: &str, names: &[(&str, &str)]) -> Result<Object<'a>> {
        let Json::Object(map) = json else { return Err(wrong(what, "an object", json)) };
        let mut fields = vec![None; names.len()];
        for (key, value) in map {
            let Some(at) = names.iter().position(|(a, b)| key == a || key == b) else {
                let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                return Err(Error::data(format!(
                    "not a JSON Example: {what} has a field {key:?}; it can have {known}"
                )));
            };
            fields[at] = Some(value).filter(|v| !v.is_null());
        }
        Ok(Object(fields))
    }
    fn get(&self, field: usize) -> Option<&'a Json> {
        self.0[field]
    }
}

fn wrong(what: &str, want: &str, have: &Json) -> Error {
    let mut have = have.to_string();
    if have.chars().count() > 40 {
        have = have.chars().take(40).chain(['…']).collect();
    }
    Error::data(format!("not a JSON Example: {what} must be {want}, not {have}"))
}

fn list(name: &str, json: &Json) -> Result<List> {
    let what = format!("feature {name:?}");
    if json.is_null() {
        return Ok(List::Unset);
    }
    let kinds = [("bytesList", "bytes_list"), ("floatList", "float_list"), ("int64List", "int64_list")];
    let feature = Object::new(json, &what, &kinds)?;
    let set: Vec<usize> = (0..kinds.len()).filter(|&k| feature.get(k).is_some()).collect();
    let kind = match set[..] {
        [] => return Ok(List::Unset),
        [kind] => kind,
        _ => return Err(Error::data(format!("not a JSON Example: {what} has lists of several types"))),
    };
    let list = Object::new(feature.get(kind).expect("it is set"), &what, &[("value", "value")])?;
    let empty = Vec::new();
    let values = match list.get(0) {
        None => &empty,
        Some(Json::Array(values)) => values,
        Some(other) => return Err(wrong(&what, "a list", other)),
    };
    Ok(match kind {
        0 => List::Bytes(read(values, |v| base64(v.as_str()?), &what, "base64 text")?),
        1 => List::Floats(read(values, float, &what, "a float32")?),
        _ => List::Ints(read(values, int, &what, "an int64")?),
    })
}

fn read<T>(values: &[Json], f: impl Fn(&Json) -> Option<T>, what: &str, want: &str) -> Result<Vec<T>> {
    values.iter().map(|v| f(v).ok_or_else(|| wrong(&format!("a value of {what}"), want, v))).collect()
}

fn float(json: &Json) -> Option<f32> {
    let number = match json {
        Json::Number(n) => n.as_f64()?,
        Json::String(s) => match &s[..] {
            "NaN" => return Some(f32::NAN),
            "Infinity" => return Some(f32::INFINITY),
            "-Infinity" => return Some(f32::NEG_INFINITY),
            number => number.parse::<f64>().ok().filter(|x| x.is_finite())?,
        },
        _ => return None,
    };
    Some(number as f32).filter(|x| x.is_finite())
}

fn int(json: &Json) -> Option<i64> {
    // A float that is a whole number is one, as protobuf has it.
    let whole = |x: f64| (x.fract() == 0.0 && (i64::MIN as f64..-(i64::MIN as f64)).contains(&x)).then_some(x as i64);
    match json {
        Json::Number(n) => n.as_i64().or_else(|| if n.is_u64() { None } else { whole(n.as_f64()?) }),
        Json::String(s) => s.parse().ok().or_else(|| whole(s.parse().ok()?)),
        _ => None,
    }
}

/// Bytes of base64 text: of the standard alphabet or the one for URLs, with or without padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0u32;
        for &digit in group {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' | b'-' => 62,
                b'/' | b'_' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * (4 - group.len());
        let [_, a, b, c] = bits.to_be_bytes();
        match group.len() {
            4 => out.extend([a, b, c]),
            3 => out.extend([a, b]),
            2 => out.push(a),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{Stored, Wanted};

    fn encoded(text: &str) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        put_json_example(&mut out, text.as_bytes())?;
        Ok(out)
    }

    #[test]
    fn every_type_of_value() {
        let bytes = encoded(
            r#"{"features": {"feature": {
                "s": {"bytesList": {"value": ["aGk=", "_wA", ""]}},
                "f": {"float_list": {"value": [1.5, "NaN", "-Infinity", "2"]}},
                "i": {"int64List": {"value": ["-9223372036854775808", 9223372036854775807, 3.0, "1e2"]}},
                "none": {}, "null": null, "empty": {"int64List": {}}
            }}}"#,
        )
        .unwrap();
        let mut found = [None; 6];
        Wanted::new(["s", "f", "i", "none", "null", "empty"])
            .read(&bytes, &mut Default::default(), &mut found)
            .unwrap();
        let mut strings = Vec::new();
        found[0].unwrap().each_bytes(|s| strings.push(s)).unwrap();
        assert_eq!(strings, [&b"hi"[..], b"\xff\0", b""]);
        let mut floats = Vec::new();
        found[1].unwrap().floats_onto(&mut floats).unwrap();
        assert!(floats[1].is_nan());
        assert_eq!((floats[0], floats[2], floats[3]), (1.5, f32::NEG_INFINITY, 2.0));
        let mut ints = Vec::new();
        found[2].unwrap().ints_onto(&mut ints).unwrap();
        assert_eq!(ints, [i64::MIN, i64::MAX, 3, 100]);
        assert_eq!(found[3].unwrap().stored, None);
        assert_eq!(found[4].unwrap().stored, None);
        assert_eq!(found[5].unwrap().stored, Some(Stored::Ints));
        assert_eq!(encoded("{}").unwrap(), b"");
        assert_eq!(encoded(r#"{"features": {}}"#).unwrap(), b"\x0a\x00");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("", "JSON"),
            ("[1]", "the Example must be an object"),
            (r#"{"feature": {}}"#, "it can have features"),
            (r#"{"features": {"feature": 3}}"#, "feature must be an object, not 3"),
            (
                r#"{"features": {"feature": {"x": {"floatList": {"value": [1e39]}}}}}"#,
                "feature \"x\" must be a float32",
            ),
            (r#"{"features": {"feature": {"x": {"int64List": {"value": [1.5]}}}}}"#, "an int64, not 1.5"),
            (r#"{"features": {"feature": {"x": {"int64List": {"value": [9223372036854775808]}}}}}"#, "an int64"),
            (r#"{"features": {"feature": {"x": {"bytesList": {"value": ["a"]}}}}}"#, "base64"),
            (r#"{"features": {"feature": {"x": {"bytesList": {"value": ["a*=="]}}}}}"#, "base64"),
            (r#"{"features": {"feature": {"x": {"bytesList": {"value": "ab"}}}}}"#, "a list"),
            (r#"{"features": {"feature": {"x": {"floatList": {}, "int64List": {}}}}}"#, "several types"),
        ] {
            let error = encoded(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let deep = "[".repeat(100_000);
        assert!(encoded(&deep).is_err());
    }
}
