//! Whole files by name.

use super::super::{Arg, Attrs, Func, Kernel, Made, RowAt, RowsAt, arity, dense};
use crate::element::{Column, DType, Dims, Leaf, StringsBuilder, Tensor, Value};
use crate::error::{Error, Result};
use feedline_io::{Buf, Source, Step};
use std::sync::Arc;

pub static FUNCS: &[Func] = &[
    Func {
        name: "io.read_file",
        doc: "The contents of a file, as a byte string.",
        make: make_read,
        // A file may change.
        pure: false,
    },
    Func {
        name: "io.matching_files",
        doc: "The files that match one or more patterns, sorted.",
        make: make_matching,
        pure: false,
    },
];

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes)
        .map_err(|_| Error::data(format!("the file name {:?} is not UTF-8", String::from_utf8_lossy(bytes))))
}

/// All of a file. Whoever asks waits; what the page cache has is there at once.
fn read(source: &Arc<dyn Source>) -> Result<Buf> {
    let len = source.clone().stat().wait()?.len;
    let len = usize::try_from(len).map_err(|_| Error::data("the file is too large"))?;
    let read = || source.clone().read(0, len).wait();
    Step::elsewhere(len, read).map_err(|e| e.in_file(source.name(), None))
}

struct ReadFile;

impl ReadFile {
    fn push(&self, name: &[u8], out: &mut StringsBuilder) -> Result<()> {
        let buf = read(&feedline_io::open(text(name)?)?)?;
        out.push_view(&buf, 0..buf.len());
        Ok(())
    }
}

impl Kernel for ReadFile {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        let name = args[0].tensor();
        if name.rank() != 0 {
            return Err(Error::data(format!("expects the name of one file, not a tensor of shape {:?}", name.shape())));
        }
        let mut out = StringsBuilder::with_capacity(1);
        self.push(name.str_at(0), &mut out)?;
        Ok(Value::Tensor(out.tensor([])))
    }
    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        let Arg::Rows(Column::Dense(names)) = &args[0] else { return Ok(None) };
        if names.rank() != 1 {
            return Ok(None);
        }
        let mut out = StringsBuilder::with_capacity(rows);
        names.strs().try_for_each(|name| self.push(name, &mut out))?;
        Ok(Some(Column::Dense(out.tensor([rows]))))
    }
}

fn make_read(args: &[Leaf], _: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    match dense(args, 0)? {
        (DType::String, shape) if shape.rank().is_none_or(|r| r == 0) => {
            Made::new(Leaf::Tensor { dtype: DType::String, shape: Dims::scalar() }, ReadFile)
        }
        (dtype, shape) => Err(Error::usage(format!("expects the name of a file (a string), not {dtype}{shape}"))),
    }
}

struct Matching;

impl Kernel for Matching {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        let mut found = Vec::new();
        for pattern in args[0].tensor().strs() {
            found.extend(feedline_io::glob(text(pattern)?)?);
        }
        found.sort_unstable();
        Ok(Value::Tensor(Tensor::strings([found.len()], &found)))
    }
}

fn make_matching(args: &[Leaf], _: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    match dense(args, 0)? {
        (DType::String, _) => Made::new(Leaf::Tensor { dtype: DType::String, shape: Dims::of([None]) }, Matching),
        (dtype, _) => Err(Error::usage(format!("expects patterns of file names (strings), not {dtype}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails};
    use super::*;

    #[test]
    fn files_are_read_and_found() {
        let dir = tempfile::tempdir().unwrap();
        let name = |n: &str| dir.path().join(n).to_str().unwrap().to_owned();
        std::fs::write(name("b.txt"), b"two\n").unwrap();
        std::fs::write(name("a.txt"), b"").unwrap();
        let read = |n: &str| call("io.read_file", &[Tensor::string(name(n).as_bytes())], serde_json::json!({}));
        assert_eq!((read("b.txt").str_at(0), read("a.txt").str_at(0)), (&b"two\n"[..], &b""[..]));
        let error = fails("io.read_file", &[Tensor::string(name("c.txt").as_bytes())], serde_json::json!({}));
        assert!(error.to_string().contains("c.txt"), "{error}");
        let found = call("io.matching_files", &[Tensor::string(name("*.txt").as_bytes())], serde_json::json!({}));
        assert_eq!(found, Tensor::strings([2], &[name("a.txt"), name("b.txt")]));
    }
}
