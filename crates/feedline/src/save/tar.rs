//! Tar files as `webdataset` reads them: an element is a dictionary with `__key__`; each other field becomes a member
//! `key.field`. Byte strings are written as they are, numbers and truth values as text.

use super::{Format, Open, Output, Writer};
use crate::element::{Chunk, DType, Spec, Tree, Value};
use crate::error::{Error, Result};
use feedline_formats::compress::{Compression, Deflate};
use feedline_formats::{tar, webdataset};
use serde::Deserialize;
use std::collections::HashSet;

pub static FORMAT: Format = Format { name: "tar", endings: &["tar"], make };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(default)]
    compression_type: String,
    compression_level: Option<i32>,
    /// Of the members, in seconds since 1970. Files of the same data are the same by default.
    #[serde(default)]
    mtime: u64,
}

fn make(options: &serde_json::Value) -> Result<Box<Open<'static>>> {
    let Options { compression_type, compression_level, mtime } = Options::deserialize(options)?;
    let compression = Compression::parse(&compression_type)?;
    Ok(Box::new(move |output, spec| {
        let names = names(spec)?;
        let out = tar::Writer::new(Deflate::new(output, compression, compression_level)?);
        Ok(Box::new(TarWriter { out, names, mtime, keys: HashSet::new() }))
    }))
}

/// The names of the leaves, if they can be members.
fn names(spec: &Spec) -> Result<Vec<String>> {
    let Tree::Map { items, .. } = spec else {
        return Err(Error::usage(format!(
            "a sample in a tar file is a dictionary, but the elements are {spec}; map them to one with \"__key__\""
        )));
    };
    if !items.iter().any(|(name, _)| &**name == "__key__") {
        return Err(Error::usage(
            "the elements have no field \"__key__\", which names a sample in a tar file; add one, for instance with \
             enumerate() and fl.strings.as_string",
        ));
    }
    // Readers of these files do not tell them apart.
    let folded = |name: &str| name.to_ascii_lowercase();
    let twice = items.iter().enumerate().find_map(|(i, (name, _))| {
        let (other, _) = items[..i].iter().find(|(other, _)| folded(other) == folded(name))?;
        Some((other, name))
    });
    if let Some((a, b)) = twice {
        return Err(Error::usage(format!(
            "the fields {a:?} and {b:?} differ only in capital letters, and extensions in a tar file are read without \
             regard to them; rename one"
        )));
    }
    items
        .iter()
        .map(|(name, item)| match item {
            Tree::Leaf(_) => Ok(name.to_string()),
            _ => Err(Error::usage(format!("the field {name:?} has fields itself; a sample in a tar file is flat"))),
        })
        .collect()
}

struct TarWriter {
    out: tar::Writer<Deflate<Box<dyn Output>>>,
    names: Vec<String>,
    mtime: u64,
    /// A key that came before would be two samples under one name.
    keys: HashSet<Vec<u8>>,
}

fn bytes(name: &str, value: &Value) -> Result<Vec<u8>> {
    let bad =
        || Error::data(format!("the field {name:?} is {value:?}; a member of a tar file is one string or number"));
    let t = value.as_tensor().filter(|t| t.len() == 1).ok_or_else(bad)?;
    Ok(match t.dtype() {
        DType::String => t.str_at(0).to_vec(),
        DType::Bool => u8::from(t.item::<crate::element::B8>().get()).to_string().into_bytes(),
        dtype => crate::with_item!(dtype, T => format!("{:?}", t.item::<T>()).into_bytes(); String => Vec::new()),
    })
}

impl Writer for TarWriter {
    fn write(&mut self, chunk: &Chunk) -> Result<()> {
        for row in 0..chunk.rows() {
            let element = chunk.element(row);
            let at = self.names.iter().position(|n| n == "__key__").expect("checked when the file was opened");
            let key = bytes("__key__", &element[at])?;
            let shown = String::from_utf8_lossy(&key).into_owned();
            let reads_back = webdataset::split_name(&[&key[..], b".x"].concat()).is_some_and(|(k, _)| k == key);
            if !reads_back {
                return Err(Error::data(format!(
                    "{shown:?} cannot be a key: its last part is empty or has a dot in it"
                )));
            }
            if !self.keys.insert(key.clone()) {
                return Err(Error::data(format!("two samples have the key {shown:?}")));
            }
            for (name, value) in self.names.iter().zip(&element) {
                if !name.starts_with("__") {
                    let member = [&key[..], b".", name.as_bytes()].concat();
                    self.out.append(&member, &bytes(name, value)?, self.mtime)?;
                }
            }
        }
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<Box<dyn Output>> {
        self.out.finish()?.finish().map_err(|e| Error::io(&e))
    }
}
