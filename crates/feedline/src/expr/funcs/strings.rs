//! Byte strings, item by item.

use super::super::{Attrs, Func, Made, arity, dense};
use super::broadcast::{Elementwise, Tensors, broadcast_dims, broadcast_shape, check_room, room};
use super::cast::cast;
use super::farmhash::fingerprint64;
use super::lead::{Lead, View, axis_in, axis_of, broadcast_to, check_axis, check_integers, integers};
use super::number::numbers;
use super::printf::Style;
use crate::element::{B8, DType, Dims, Item, Leaf, Shape, StringsBuilder, Tensor};
use crate::error::{Error, Result};
use feedline_io::Counted;
use regex::bytes::Regex;
use std::fmt::Write;

pub static FUNCS: &[Func] = &[
    Func {
        name: "strings.length",
        doc: "The length in bytes, or in characters with unit=\"UTF8_CHAR\", as int32.",
        make: make_length,
        pure: true,
    },
    Func {
        name: "strings.upper",
        doc: "In capitals: ASCII letters, or all with encoding=\"utf-8\".",
        make: |args, attrs| make_case(args, attrs, true),
        pure: true,
    },
    Func {
        name: "strings.lower",
        doc: "In small letters: ASCII letters, or all with encoding=\"utf-8\".",
        make: |args, attrs| make_case(args, attrs, false),
        pure: true,
    },
    Func {
        name: "strings.strip",
        doc: "Without white space at both ends.",
        make: |args, _| to_strings(args, |s, out| out.extend_from_slice(trim(s))),
        pure: true,
    },
    Func {
        name: "strings.join",
        doc: "Strings of several tensors joined, with a separator between them.",
        make: make_join,
        pure: true,
    },
    Func {
        name: "strings.reduce_join",
        doc: "Strings along axes joined, with a separator between them.",
        make: make_reduce_join,
        pure: true,
    },
    Func {
        name: "strings.substr",
        doc: "`len` bytes (or characters) from `pos`, which may count from the end; fewer if the string ends.",
        make: make_substr,
        pure: true,
    },
    Func {
        name: "strings.to_number",
        doc: "The number that a string spells; other strings fail.",
        make: make_to_number,
        pure: true,
    },
    Func {
        name: "strings.as_string",
        doc: "Numbers as text, as C's printf writes them.",
        make: make_as_string,
        pure: true,
    },
    Func {
        name: "strings.regex_replace",
        doc: "Replaces matches of a pattern; \\1 to \\9 in the rewrite stand for groups, \\0 for the match.",
        make: make_replace,
        pure: true,
    },
    Func {
        name: "strings.regex_full_match",
        doc: "Whether a pattern matches the whole string.",
        make: make_full_match,
        pure: true,
    },
    Func {
        name: "strings.to_hash_bucket_fast",
        doc: "FarmHash's Fingerprint64 modulo the number of buckets, as in TensorFlow.",
        make: make_bucket,
        pure: true,
    },
];

fn string_arg(args: &[Leaf], i: usize) -> Result<&Dims> {
    match dense(args, i)? {
        (DType::String, shape) => Ok(shape),
        (dtype, _) => Err(Error::usage(format!("expects strings, not {dtype}; convert them with strings.as_string"))),
    }
}

/// White space as C's isspace has it.
pub(super) fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}
fn trim(mut s: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = s
        && is_space(*first)
    {
        s = rest;
    }
    while let [rest @ .., last] = s
        && is_space(*last)
    {
        s = rest;
    }
    s
}

/// The unit in which positions count: true for characters.
pub(super) fn by_chars(attrs: &Attrs) -> Result<bool> {
    match attrs.str("unit")?.unwrap_or("BYTE") {
        "BYTE" => Ok(false),
        "UTF8_CHAR" => Ok(true),
        unit => Err(Error::usage(format!("unit must be \"BYTE\" or \"UTF8_CHAR\", not {unit:?}"))),
    }
}
/// A byte that does not begin a character belongs to the one before.
fn begins_char(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

fn to_strings(args: &[Leaf], f: impl Fn(&[u8], &mut Counted<u8>) + Send + Sync + 'static) -> Result<Made> {
    arity::<1>(args)?;
    let shape = string_arg(args, 0)?;
    let kernel = Elementwise::new(move |t: Tensors| {
        let mut out = StringsBuilder::with_capacity(t[0].len());
        let mut text = Counted::new();
        for s in t[0].strs() {
            text.clear();
            f(s, &mut text);
            out.push(&text);
        }
        Ok(out.tensor(t[0].shape()))
    });
    Made::new(Leaf::tensor(DType::String, shape.clone()), kernel)
}

fn to_items<U: Item>(args: &[Leaf], f: impl Fn(&[u8]) -> Result<U> + Send + Sync + 'static) -> Result<Made> {
    arity::<1>(args)?;
    let shape = string_arg(args, 0)?;
    let kernel = Elementwise::new(move |t: Tensors| {
        let mut out = room(U::DTYPE, t[0].shape())?;
        for (o, s) in out.items_mut::<U>().iter_mut().zip(t[0].strs()) {
            *o = f(s)?;
        }
        Ok(out)
    });
    Made::new(Leaf::tensor(U::DTYPE, shape.clone()), kernel)
}

fn make_length(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    match by_chars(attrs)? {
        false => to_items(args, |s| Ok(s.len() as i32)),
        true => to_items(args, |s| Ok(s.iter().filter(|b| begins_char(**b)).count() as i32)),
    }
}

fn make_case(args: &[Leaf], attrs: &Attrs, upper: bool) -> Result<Made> {
    let unicode = match attrs.str("encoding")?.unwrap_or("") {
        "" => false,
        "utf-8" => true,
        other => return Err(Error::usage(format!("encoding must be \"\" or \"utf-8\", not {other:?}"))),
    };
    to_strings(args, move |s, out| match (unicode.then(|| std::str::from_utf8(s)), upper) {
        (Some(Ok(s)), true) => out.extend_from_slice(s.to_uppercase().as_bytes()),
        (Some(Ok(s)), false) => out.extend_from_slice(s.to_lowercase().as_bytes()),
        (_, true) => out.extend(s.iter().map(u8::to_ascii_uppercase)),
        (_, false) => out.extend(s.iter().map(u8::to_ascii_lowercase)),
    })
}

fn make_join(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    if args.is_empty() {
        return Err(Error::usage("needs at least one tensor of strings"));
    }
    let separator = attrs.str("separator")?.unwrap_or("").as_bytes().to_vec();
    let mut dims = string_arg(args, 0)?.clone();
    for i in 1..args.len() {
        dims = broadcast_dims(&dims, string_arg(args, i)?)?;
    }
    let kernel = Elementwise::new(move |t: Tensors| {
        let shape = t.iter().try_fold(Shape::new(), |s, t| broadcast_shape(&s, t.shape()));
        let shape = shape.ok_or_else(|| {
            let shapes: Vec<_> = t.iter().map(|t| t.shape()).collect();
            Error::data(format!("shapes {shapes:?} do not broadcast"))
        })?;
        check_room(DType::String, &shape)?;
        // A single string stands for all places; others are laid out.
        let spread = |t: &Tensor| if t.len() == 1 { Ok(t.clone()) } else { broadcast_to(t, &shape) };
        let parts: Vec<Tensor> = t.iter().map(spread).collect::<Result<_>>()?;
        let n = shape.iter().product();
        let mut out = StringsBuilder::with_capacity(n);
        for i in 0..n {
            let part = |t| -> &[u8] { Tensor::str_at(t, if t.len() == 1 { 0 } else { i }) };
            let first = parts.iter().take(1).map(part);
            out.push_parts(first.chain(parts.iter().skip(1).flat_map(|t| [&separator[..], part(t)])));
        }
        Ok(out.tensor(shape))
    });
    Made::new(Leaf::tensor(DType::String, dims), kernel)
}

fn make_reduce_join(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let shape = string_arg(args, 0)?;
    let separator = attrs.str("separator")?.unwrap_or("").as_bytes().to_vec();
    let keep = attrs.bool("keepdims")?.unwrap_or(false);
    let axes = attrs.i64s("axis")?;
    for &axis in axes.iter().flatten() {
        check_axis(axis, shape)?;
    }
    let dims = match (shape.dims(), &axes) {
        (_, None) if !keep => Dims::scalar(),
        (None, _) => Dims::unknown(),
        (Some(d), axes) => {
            let gone = |i: usize| axes.as_ref().is_none_or(|a| a.iter().any(|a| axis_of(*a, d.len()) == Some(i)));
            let kept = d.iter().enumerate().filter(|(i, _)| keep || !gone(*i));
            Dims::of(kept.map(|(i, d)| if gone(i) { Some(1) } else { *d }))
        }
    };
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let joined: Vec<usize> = match &axes {
            None => (lead..t.rank()).collect(),
            Some(axes) => axes.iter().map(|a| axis_in(*a, t, lead)).collect::<Result<_>>()?,
        };
        if (1..joined.len()).any(|i| joined[..i].contains(&joined[i])) {
            return Err(Error::data("an axis is named twice"));
        }
        let mut view = View::of(t);
        let all = view.axes.clone();
        let kept = (0..t.rank()).filter(|i| !joined.contains(i));
        view.axes = kept.chain(joined.iter().copied()).map(|i| all[i]).collect();
        let n: usize = joined.iter().map(|i| t.shape()[*i]).product();
        let shape: Shape = (0..t.rank())
            .filter(|i| keep || !joined.contains(i))
            .map(|i| if joined.contains(&i) { 1 } else { t.shape()[i] })
            .collect();
        let moved = view.copy(t)?;
        let count = shape.iter().product();
        let mut out = StringsBuilder::with_capacity(count);
        let mut text = Counted::new();
        for o in 0..count {
            text.clear();
            for i in 0..n {
                if i > 0 {
                    text.extend_from_slice(&separator);
                }
                text.extend_from_slice(moved.str_at(o * n + i));
            }
            out.push(&text);
        }
        Ok(out.tensor(shape))
    });
    Made::new(Leaf::tensor(DType::String, dims), kernel)
}

fn make_substr(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<3>(args)?;
    let chars = by_chars(attrs)?;
    let dims = string_arg(args, 0)?;
    let ((p, dp), (l, dl)) = (dense(args, 1)?, dense(args, 2)?);
    check_integers("pos", p)?;
    check_integers("len", l)?;
    let dims = broadcast_dims(&broadcast_dims(dims, dp)?, dl)?;
    let kernel = Elementwise::new(move |t: Tensors| {
        let shape = broadcast_shape(t[0].shape(), t[1].shape()).and_then(|s| broadcast_shape(&s, t[2].shape()));
        let shape = shape.ok_or_else(|| Error::data("strings, pos and len have shapes that do not broadcast"))?;
        let strings = broadcast_to(&t[0], &shape)?;
        let pos = integers(&broadcast_to(&t[1], &shape)?)?;
        let len = integers(&broadcast_to(&t[2], &shape)?)?;
        let mut out = StringsBuilder::with_capacity(pos.len());
        for ((s, pos), len) in strings.strs().zip(pos).zip(len) {
            out.push(substr(s, pos, len, chars)?);
        }
        Ok(out.tensor(shape))
    });
    Made::new(Leaf::tensor(DType::String, dims), kernel)
}

fn substr(s: &[u8], pos: i64, len: i64, chars: bool) -> Result<&[u8]> {
    let size = if chars { s.iter().filter(|b| begins_char(**b)).count() } else { s.len() };
    let start =
        usize::try_from(if pos < 0 { pos.saturating_add(size as i64) } else { pos }).ok().filter(|p| *p <= size);
    let start = start.ok_or_else(|| Error::data(format!("pos {pos} lies outside a string of length {size}")))?;
    let len = usize::try_from(len).map_err(|_| Error::data(format!("len {len} is negative")))?;
    let end = start.saturating_add(len).min(size);
    if !chars {
        return Ok(&s[start..end]);
    }
    let mut begins = s.iter().enumerate().filter(|(_, b)| begins_char(**b)).map(|(i, _)| i);
    let from = begins.by_ref().nth(start).unwrap_or(s.len());
    let to = if end == start { from } else { begins.nth(end - start - 1).unwrap_or(s.len()) };
    Ok(&s[from..to])
}

fn make_to_number(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let to = attrs.dtype("out_type")?.unwrap_or(DType::Float32);
    fn bad(s: &[u8], to: DType) -> Error {
        Error::data(format!("{:?} is not a number of dtype {to}", String::from_utf8_lossy(s)))
    }
    fn parse<T: Item + std::str::FromStr>(s: &[u8]) -> Result<T> {
        std::str::from_utf8(trim(s)).ok().and_then(|s| s.parse().ok()).ok_or_else(|| bad(s, T::DTYPE))
    }
    match to {
        DType::Float16 | DType::Bfloat16 => {
            let made = to_items(args, parse::<f64>)?;
            let shape = string_arg(args, 0)?.clone();
            let inner = made.kernel().clone();
            let kernel = Elementwise::new(move |t: Tensors| {
                let values: Vec<_> = t.into_iter().map(crate::element::Value::Tensor).collect();
                let out = inner.row(&values, super::super::RowAt { epoch: 0, pos: 0 })?;
                cast(out.tensor().clone(), to)
            });
            Made::new(Leaf::tensor(to, shape), kernel)
        }
        to if to.is_numeric() => numbers!(to, T => int to_items(args, parse::<T>); float to_items(args, parse::<T>)),
        other => Err(Error::usage(format!("out_type must be a number dtype, not {other}"))),
    }
}

fn make_as_string(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    let (scientific, shortest) = (attrs.bool("scientific")?.unwrap_or(false), attrs.bool("shortest")?.unwrap_or(false));
    if scientific && shortest {
        return Err(Error::usage("scientific and shortest exclude each other"));
    }
    let precision = attrs.i64("precision")?.and_then(|p| usize::try_from(p).ok());
    if !dtype.is_float() && (scientific || shortest || precision.is_some()) {
        return Err(Error::usage(format!("precision, scientific and shortest are for floats, not {dtype}")));
    }
    let fill = attrs.str("fill")?.filter(|f| !f.is_empty());
    if fill.is_some_and(|f| !["0", " ", "+", "-"].contains(&f)) {
        return Err(Error::usage(format!("fill must be one of \"0\", \" \", \"+\" and \"-\", not {fill:?}")));
    }
    let width = attrs.i64("width")?.and_then(|w| usize::try_from(w).ok()).unwrap_or(0);
    if width > 1000 || precision.is_some_and(|p| p > 1000) {
        return Err(Error::usage("width and precision must be at most 1000"));
    }
    let kind = if scientific {
        b'e'
    } else if shortest {
        b'g'
    } else {
        b'f'
    };
    let style = Style { precision, width, fill: fill.map(|f| f.as_bytes()[0]), kind };
    let kernel = Elementwise::new(move |t: Tensors| {
        let t = &t[0];
        if dtype == DType::String {
            return Ok(t.clone());
        }
        let mut out = StringsBuilder::with_capacity(t.len());
        let mut text = Vec::new();
        let plain = style.width == 0 && style.fill.is_none();
        let mut push = |s: &str, out: &mut StringsBuilder| {
            if plain {
                return out.push(s.as_bytes());
            }
            text.clear();
            style.pad(s, &mut text);
            out.push(&text);
        };
        let mut digits = String::new();
        match dtype {
            DType::Bool => {
                t.items::<B8>().iter().for_each(|b| push(if b.get() { "true" } else { "false" }, &mut out));
            }
            d if d.is_int() => numbers!(d, T => int {
                for x in t.items::<T>() {
                    digits.clear();
                    write!(digits, "{x}").map_err(|e| Error::internal(e.to_string()))?;
                    push(&digits, &mut out);
                }
                Ok(())
            })?,
            _ => {
                let t = cast(t.clone(), DType::Float64)?;
                t.items::<f64>().iter().for_each(|x| push(&style.float(*x), &mut out));
            }
        }
        Ok(out.tensor(t.shape()))
    });
    Made::new(Leaf::tensor(DType::String, shape.clone()), kernel)
}

fn compile(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|e| Error::usage(format!("the pattern {pattern:?} cannot be used: {e}")))
}

/// A rewrite in RE2's notation: plain bytes and group numbers.
enum Piece {
    Bytes(Vec<u8>),
    Group(usize),
}

fn pieces(rewrite: &str, groups: usize) -> Result<Vec<Piece>> {
    let mut out = Vec::new();
    let mut plain = Vec::new();
    let mut bytes = rewrite.bytes();
    while let Some(b) = bytes.next() {
        match (b, if b == b'\\' { bytes.next() } else { None }) {
            (b'\\', Some(d @ b'0'..=b'9')) => {
                let k = usize::from(d - b'0');
                if k >= groups {
                    return Err(Error::usage(format!(
                        "the rewrite {rewrite:?} refers to group {k}, which the pattern does not have"
                    )));
                }
                out.push(Piece::Bytes(std::mem::take(&mut plain)));
                out.push(Piece::Group(k));
            }
            (b'\\', Some(b'\\')) => plain.push(b'\\'),
            (b'\\', _) => {
                return Err(Error::usage(format!(
                    "the rewrite {rewrite:?} has a backslash that is followed by neither a digit nor a backslash"
                )));
            }
            (b, _) => plain.push(b),
        }
    }
    out.push(Piece::Bytes(plain));
    Ok(out)
}

fn make_replace(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let regex = compile(attrs.need("pattern", attrs.str("pattern")?)?)?;
    let rewrite = pieces(attrs.need("rewrite", attrs.str("rewrite")?)?, regex.captures_len())?;
    let global = attrs.bool("replace_global")?.unwrap_or(true);
    to_strings(args, move |s, out| {
        let mut at = 0;
        for found in regex.captures_iter(s).take(if global { usize::MAX } else { 1 }) {
            let Some(whole) = found.get(0) else { break };
            out.extend_from_slice(&s[at..whole.start()]);
            for piece in &rewrite {
                match piece {
                    Piece::Bytes(b) => out.extend_from_slice(b),
                    Piece::Group(k) => out.extend_from_slice(found.get(*k).map_or(&[][..], |m| m.as_bytes())),
                }
            }
            at = whole.end();
        }
        out.extend_from_slice(&s[at..]);
    })
}

fn make_full_match(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let pattern = attrs.need("pattern", attrs.str("pattern")?)?;
    compile(pattern)?;
    let regex = compile(&format!(r"\A(?:{pattern})\z"))?;
    to_items(args, move |s| Ok(B8::from(regex.is_match(s))))
}

fn make_bucket(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let n = attrs.need("num_buckets", attrs.i64("num_buckets")?)?;
    let n = u64::try_from(n).ok().filter(|n| *n > 0);
    let n = n.ok_or_else(|| Error::usage("num_buckets must be positive"))?;
    to_items(args, move |s| Ok((fingerprint64(s) % n) as i64))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use serde_json::json;

    fn s(items: &[&str]) -> Tensor {
        Tensor::strings([items.len()], items)
    }
    fn one(name: &str, text: &str, attrs: serde_json::Value) -> String {
        String::from_utf8(call(name, &[Tensor::string(text.as_bytes())], attrs).str_at(0).to_vec()).unwrap()
    }

    #[test]
    fn lengths_and_cases() {
        let x = s(&["né", "", "abc"]);
        assert_eq!(call("strings.length", &[x.clone()], json!({})).items::<i32>(), [3, 0, 3]);
        assert_eq!(call("strings.length", &[x], json!({"unit": "UTF8_CHAR"})).items::<i32>(), [2, 0, 3]);
        assert_eq!(one("strings.upper", "né", json!({})), "Né");
        assert_eq!(one("strings.upper", "né", json!({"encoding": "utf-8"})), "NÉ");
        assert_eq!(one("strings.lower", "ABC", json!({})), "abc");
        assert_eq!(one("strings.strip", " \t a b\n", json!({})), "a b");
        assert!(refused("strings.strip", &[Tensor::scalar(1i32)], json!({})).message().contains("as_string"));
    }

    #[test]
    fn joins() {
        let r = call("strings.join", &[s(&["a", "b"]), Tensor::string(b"x")], json!({"separator": "-"}));
        assert_eq!(r, s(&["a-x", "b-x"]));
        let m = Tensor::strings([2, 2], &["a", "b", "c", "d"]);
        assert_eq!(call("strings.reduce_join", &[m.clone()], json!({"separator": " "})), Tensor::string(b"a b c d"));
        assert_eq!(call("strings.reduce_join", &[m.clone()], json!({"axis": 0})), s(&["ac", "bd"]));
        let kept = call("strings.reduce_join", &[m], json!({"axis": -1, "keepdims": true}));
        assert_eq!(kept, Tensor::strings([2, 1], &["ab", "cd"]));
        assert_eq!(call("strings.reduce_join", &[s(&[])], json!({})), Tensor::string(b""));
    }

    #[test]
    fn parts() {
        let sub = |x: &str, p: i64, l: i64, unit: &str| {
            let args = [Tensor::string(x.as_bytes()), Tensor::scalar(p), Tensor::scalar(l)];
            String::from_utf8(call("strings.substr", &args, json!({"unit": unit})).str_at(0).to_vec()).unwrap()
        };
        assert_eq!(sub("hello", 1, 3, "BYTE"), "ell");
        assert_eq!(sub("hello", -3, 9, "BYTE"), "llo");
        assert_eq!(sub("hello", 5, 1, "BYTE"), "");
        assert_eq!(sub("néél", 1, 2, "UTF8_CHAR"), "éé");
        assert_eq!(sub("néél", -1, 2, "UTF8_CHAR"), "l");
        let args = [Tensor::string(b"ab"), Tensor::scalar(3i32), Tensor::scalar(1i32)];
        assert!(fails("strings.substr", &args, json!({})).message().contains("outside"));
        let args = [Tensor::string(b"ab"), Tensor::scalar(i64::MIN), Tensor::scalar(1i64)];
        fails("strings.substr", &args, json!({}));
    }

    #[test]
    fn numbers_and_back() {
        assert_eq!(call("strings.to_number", &[s(&[" 1.5 ", "-2e3"])], json!({})).items::<f32>(), [1.5, -2000.0]);
        assert_eq!(call("strings.to_number", &[s(&["7"])], json!({"out_type": "int64"})).items::<i64>(), [7]);
        let h = call("strings.to_number", &[s(&["0.5"])], json!({"out_type": "float16"}));
        assert_eq!(h.items::<half::f16>()[0].to_f32(), 0.5);
        assert!(fails("strings.to_number", &[s(&["x1"])], json!({})).message().contains("x1"));
        assert!(fails("strings.to_number", &[s(&["300"])], json!({"out_type": "uint8"})).message().contains("uint8"));
        let text = |t: Tensor, a: serde_json::Value| {
            String::from_utf8(call("strings.as_string", &[t], a).str_at(0).to_vec()).unwrap()
        };
        assert_eq!(text(Tensor::scalar(i64::MIN), json!({})), "-9223372036854775808");
        assert_eq!(text(Tensor::scalar(1.5f32), json!({})), "1.500000");
        assert_eq!(text(Tensor::scalar(2.716f64), json!({"precision": 2})), "2.72");
        assert_eq!(text(Tensor::scalar(1.5f64), json!({"shortest": true})), "1.5");
        assert_eq!(text(Tensor::scalar(7i32), json!({"width": 3, "fill": "0"})), "007");
        assert_eq!(text(Tensor::scalar(B8(2)), json!({})), "true");
    }

    #[test]
    fn patterns() {
        let replaced = |p: &str, r: &str, x: &str, all: bool| {
            one("strings.regex_replace", x, json!({"pattern": p, "rewrite": r, "replace_global": all}))
        };
        assert_eq!(replaced("(a)(b)", r"\2\1", "abxab", true), "baxba");
        assert_eq!(replaced("a", r"[\0]\\", "aa", false), r"[a]\a");
        assert_eq!(replaced(r"\s+", " ", "a \t b", true), "a b");
        let m = call("strings.regex_full_match", &[s(&["abc", "xabc"])], json!({"pattern": "a|abc"}));
        assert_eq!(m.items::<B8>(), [B8(1), B8(0)]);
        assert!(
            refused("strings.regex_replace", &[s(&[])], json!({"pattern": "(", "rewrite": ""}))
                .message()
                .contains("pattern")
        );
        assert!(
            refused("strings.regex_replace", &[s(&[])], json!({"pattern": "a", "rewrite": "\\1"}))
                .message()
                .contains("group 1")
        );
    }

    #[test]
    fn buckets_are_tensorflows() {
        let r = call("strings.to_hash_bucket_fast", &[s(&["Hello", "TensorFlow", "2.x"])], json!({"num_buckets": 3}));
        assert_eq!(r.items::<i64>(), [0, 2, 2]);
    }
}
