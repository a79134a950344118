//! Rows as .npy files, and as .npz for elements with several components: a stored .npy for each.

use super::Sink;
use super::file::Unfinished;
use crate::element::{Chunk, DType, Leaf, Spec, Tensor, Tree};
use crate::error::{Error, Result};
use feedline_formats::{npy, npz};
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

pub fn open(name: &Path, spec: &Spec) -> Result<Box<dyn Sink>> {
    let plain = matches!(spec, Tree::Leaf(_));
    let suffix = name.extension().and_then(|e| e.to_str()).unwrap_or("");
    if plain != (suffix == "npy") {
        return Err(Error::usage(match plain {
            true => format!("{} should end with .npy: the elements are single arrays", name.display()),
            false => format!("{} should end with .npz: the elements have several components", name.display()),
        }));
    }
    let names = columns(spec)?;
    let leaves = spec.leaves();
    let arrays = names.into_iter().zip(leaves).map(|(column, leaf)| {
        let at = if plain { name.to_path_buf() } else { name.with_file_name(format!("{column}.npy")) };
        Array::create(&at, column, leaf)
    });
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    Ok(Box::new(NpySink { arrays, archive: if plain { None } else { Some(Unfinished::create(name)?) } }))
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

struct NpySink {
    arrays: Vec<Array>,
    archive: Option<Unfinished>,
}

impl Sink for NpySink {
    fn write(&mut self, chunk: &Chunk) -> Result<()> {
        for (array, column) in self.arrays.iter_mut().zip(chunk.columns()) {
            match column.stack()? {
                crate::element::Value::Tensor(t) => array.write(&t)?,
                _ => return Err(Error::usage("only dense arrays can be saved as .npy")),
            }
        }
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<Unfinished> {
        let NpySink { mut arrays, archive } = *self;
        arrays.iter_mut().try_for_each(|a| a.complete())?;
        let Some(mut archive) = archive else {
            return arrays.pop().map(|a| a.file).ok_or_else(|| Error::internal("no array"));
        };
        let packed = (|| {
            let mut zip = npz::Writer::new(&mut archive);
            for array in &mut arrays {
                let (size, crc) = array.checksum()?;
                let file = array.file.writer().get_mut();
                zip.member(&format!("{}.npy", array.name), size, crc, BufReader::new(file))?;
            }
            zip.finish().map(|_| ())
        })();
        packed.map_err(|e: std::io::Error| archive.failed(&e))?;
        Ok(archive)
    }
}

struct Array {
    name: String,
    file: Unfinished,
    descr: String,
    dtype: DType,
    inner: Vec<usize>,
    rows: u64,
}

impl Array {
    fn create(at: &Path, name: String, leaf: &Leaf) -> Result<Array> {
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
        let mut array =
            Array { name, file: Unfinished::create(at)?, descr: format!("'{code}'"), dtype: *dtype, inner, rows: 0 };
        // Written again with the number of rows when it is known; it has the same length then.
        let head = npy::header(&array.descr, 0, &array.inner);
        array.put(&head)?;
        Ok(array)
    }
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| self.file.failed(&e))
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
    /// The header once more, with the number of rows.
    fn complete(&mut self) -> Result<()> {
        let head = npy::header(&self.descr, self.rows, &self.inner);
        let file = self.file.writer();
        let done = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&head)).and_then(|_| file.flush());
        done.map_err(|e| self.file.failed(&e))
    }
    /// Size and checksum of the file, which is left at its beginning.
    fn checksum(&mut self) -> std::io::Result<(u64, u32)> {
        let file = self.file.writer().get_mut();
        file.seek(SeekFrom::Start(0))?;
        let (mut sum, mut size) = (npz::Checksum::default(), 0u64);
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
        Ok((size, sum.value()))
    }
}
