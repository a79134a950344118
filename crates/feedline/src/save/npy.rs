//! Rows as .npy files, and as .npz for elements with several components: a stored .npy for each.

use super::{Format, Open, Output, Writer};
use crate::element::{Chunk, DType, Leaf, Spec, Tensor, Tree};
use crate::error::{Error, Result};
use feedline_formats::{npy, npz};
use serde::Deserialize;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};

pub static FORMAT: Format = Format { name: "npy", endings: &["npy", "npz"], make };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    /// Several arrays in one .npz; None: as the elements are.
    #[serde(default)]
    archive: Option<bool>,
}

fn make(options: &serde_json::Value) -> Result<Box<Open<'static>>> {
    let Options { archive } = Options::deserialize(options)?;
    Ok(Box::new(move |output, spec| {
        let archive = archive.unwrap_or(!matches!(spec, Tree::Leaf(_)));
        let mut names = columns(spec)?;
        match (archive, &mut names[..]) {
            // As NumPy calls an array without a name.
            (true, [name]) if name.is_empty() => *name = "arr_0".into(),
            (false, [_, _, ..]) => crate::bail!(
                Usage,
                "an .npy file has one array, and the elements have {}: {}; an .npz file takes them all",
                names.len(),
                names.join(", ")
            ),
            _ => {}
        }
        let arrays = names.into_iter().zip(spec.leaves()).map(|(name, leaf)| Array::new(name, leaf));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        Ok(Box::new(NpyWriter { output, arrays, archive }))
    }))
}

/// A name for each leaf.
fn columns(spec: &Spec) -> Result<Vec<String>> {
    match spec {
        Tree::Leaf(_) => Ok(vec![String::new()]),
        Tree::Map { items, .. } if items.iter().all(|(_, t)| matches!(t, Tree::Leaf(_))) => {
            match items.iter().find(|(k, _)| k.contains(['/', '\\', '\0'])) {
                Some((odd, _)) => Err(Error::usage(format!("{odd:?} cannot be the name of an array in an .npz"))),
                None => Ok(items.iter().map(|(k, _)| k.to_string()).collect()),
            }
        }
        Tree::Tuple { items, .. } if items.iter().all(|t| matches!(t, Tree::Leaf(_))) => {
            Ok((0..items.len()).map(|i| format!("arr_{i}")).collect())
        }
        other => Err(Error::usage(format!("an .npz has no structures inside of structures, but elements are {other}"))),
    }
}

struct NpyWriter {
    output: Box<dyn Output>,
    arrays: Vec<Array>,
    /// Several arrays in one .npz.
    archive: bool,
}

impl Writer for NpyWriter {
    fn write(&mut self, rows: &Chunk) -> Result<()> {
        for (array, column) in self.arrays.iter_mut().zip(rows.columns()) {
            match column.stack()? {
                crate::element::Value::Tensor(t) => array.write(&t)?,
                _ => return Err(Error::usage("only dense arrays can be saved as .npy")),
            }
        }
        Ok(())
    }
    fn finish(mut self: Box<Self>) -> Result<Box<dyn Output>> {
        let failed = |e: std::io::Error| Error::io(&e);
        if !self.archive {
            let array = self.arrays.pop().ok_or_else(|| Error::internal("no array"))?;
            let mut whole = array.whole().map_err(failed)?;
            std::io::copy(&mut whole, &mut self.output).map_err(failed)?;
            return Ok(self.output);
        }
        let mut zip = npz::Writer::new(&mut self.output);
        for array in self.arrays.drain(..) {
            let name = format!("{}.npy", array.name);
            let (size, crc, whole) = array.checked().map_err(failed)?;
            zip.member(&name, size, crc, whole).map_err(failed)?;
        }
        zip.finish().map(|_| ()).map_err(failed)?;
        Ok(self.output)
    }
}

/// One array. Its rows wait in a nameless file until their number is known: it stands in front of them.
struct Array {
    name: String,
    rows_file: BufWriter<File>,
    descr: String,
    dtype: DType,
    inner: Vec<usize>,
    rows: u64,
}

impl Array {
    fn new(name: String, leaf: &Leaf) -> Result<Array> {
        let what = if name.is_empty() { "the elements".into() } else { format!("{name:?}") };
        let Leaf::Tensor { dtype, shape } = leaf else {
            return Err(Error::usage(format!("{what}: {leaf} cannot be saved as .npy, only dense arrays can")));
        };
        let inner = shape.full().ok_or_else(|| {
            Error::usage(format!(
                "{what}: rows of an .npy have one shape, but {leaf} does not say which; use ensure_shape"
            ))
        })?;
        let code = match dtype {
            DType::Bool => "|b1",
            DType::Int8 => "|i1",
            DType::Uint8 => "|u1",
            DType::Int16 => "<i2",
            DType::Int32 => "<i4",
            DType::Int64 => "<i8",
            DType::Uint16 => "<u2",
            DType::Uint32 => "<u4",
            DType::Uint64 => "<u8",
            DType::Float16 => "<f2",
            DType::Float32 => "<f4",
            DType::Float64 => "<f8",
            DType::String | DType::Bfloat16 => {
                let help = if *dtype == DType::String { "save them as Parquet" } else { "cast them to float32" };
                return Err(Error::usage(format!("{what}: .npy has no place for {dtype}; {help}")));
            }
        };
        let file = tempfile::tempfile().map_err(|e| Error::io(&e))?;
        let rows_file = BufWriter::with_capacity(1 << 20, file);
        Ok(Array { name, rows_file, descr: format!("'{code}'"), dtype: *dtype, inner, rows: 0 })
    }
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.rows_file.write_all(bytes).map_err(|e| Error::io(&e))
    }
    fn write(&mut self, rows: &Tensor) -> Result<()> {
        if rows.dtype() != self.dtype || rows.shape()[1..] != self.inner {
            return Err(Error::data(format!("rows of shape {:?} came, {:?} was said", &rows.shape()[1..], self.inner)));
        }
        self.rows += rows.rows() as u64;
        match cfg!(target_endian = "little") {
            true => self.put(rows.bytes()),
            false => {
                let mut bytes = rows.bytes().to_vec();
                bytes.chunks_exact_mut(self.dtype.size()).for_each(|b| b.reverse());
                self.put(&bytes)
            }
        }
    }
    /// The header, then the rows from the first one on.
    fn whole(self) -> std::io::Result<impl Read> {
        let head = npy::header(&self.descr, self.rows, &self.inner);
        let mut file = self.rows_file.into_inner().map_err(|e| e.into_error())?;
        file.seek(SeekFrom::Start(0))?;
        Ok(std::io::Cursor::new(head).chain(file))
    }
    /// Size and checksum of the whole, and the whole.
    fn checked(self) -> std::io::Result<(u64, u32, impl Read)> {
        let head = npy::header(&self.descr, self.rows, &self.inner);
        let mut file = self.rows_file.into_inner().map_err(|e| e.into_error())?;
        file.seek(SeekFrom::Start(0))?;
        let (mut sum, mut size) = (npz::Checksum::default(), head.len() as u64);
        sum.add(&head);
        let mut block = vec![0; 1 << 20];
        loop {
            let n = file.read(&mut block)?;
            if n == 0 {
                break;
            }
            sum.add(&block[..n]);
            size += n as u64;
        }
        file.seek(SeekFrom::Start(0))?;
        Ok((size, sum.value(), std::io::Cursor::new(head).chain(file)))
    }
}
