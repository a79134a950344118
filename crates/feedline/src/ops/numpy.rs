//! `numpy(files)`: the rows of arrays in .npy and .npz files. Rows are read where they lie, some at a time, never the whole
//! file: by ranged reads rather than by a mapping, because a mapped file that somebody cuts off ends the process.

use super::table::{self, Allowed, Decoded, Pieces, Table, TableIndex};
use crate::dataset::Dataset;
use crate::element::{
    Chunk, Column, DType, Dims, Element, Leaf, Pos, Spec, StringsBuilder, Tensor, Tree, Value, check_room,
};
use crate::error::{Error, Kind, Result};
use crate::op::{Narrowed, Op, OpInfo, Param};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Index, Over, bytes_text};
use feedline_formats::npy::{self, Field, Npy};
use feedline_formats::npz::{self, Member};
use feedline_io::{Account, Buf, Source, Stat};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "numpy",
    doc: "The rows along the first axis of arrays in .npy and .npz files.",
    params: &[
        Param::new("files", "", "paths, in the order in which they are read"),
        Param::new("columns", "None", "the arrays of an .npz or the fields of a structured array to read; None: all"),
    ],
    read: crate::op::read::<Numpy>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numpy {
    files: Vec<String>,
    #[serde(default)]
    columns: Option<Vec<String>>,
    #[serde(skip)]
    table: OnceLock<NumpyTable>,
    #[serde(skip)]
    pieces: Arc<Pieces>,
}

impl Dataset {
    /// The rows of arrays in .npy and .npz files.
    pub fn numpy(files: &[&str], columns: Option<&[&str]>) -> Result<Dataset> {
        Dataset::source(Numpy {
            files: files.iter().map(|f| f.to_string()).collect(),
            columns: columns.map(|c| c.iter().map(|c| c.to_string()).collect()),
            table: OnceLock::new(),
            pieces: Default::default(),
        })
    }
}

/// Rows of about this many bytes are read at once.
const BLOCK_BYTES: usize = 4 << 20;
/// Rows without bytes are counted only so far: nothing in the file says how many there are.
const MOST_EMPTY_ROWS: usize = 1 << 32;

/// One array of a file.
struct Array {
    /// The member's name; empty for an .npy file.
    name: String,
    npy: Npy,
    place: Place,
}

enum Place {
    /// The items begin at this byte of the file.
    File(u64),
    /// They are compressed: unpacked as a whole when the first of them is wanted.
    Packed(Packed),
}

struct Packed {
    member: Member,
    /// The byte of the unpacked member at which the items begin.
    start: usize,
    unpacked: OnceLock<Result<Buf>>,
}

struct File {
    source: Arc<dyn Source>,
    stat: Stat,
    arrays: Vec<Array>,
    /// The wanted fields: array, and field in it.
    wanted: Vec<(usize, usize)>,
    rows: usize,
}

#[derive(Clone)]
struct NumpyTable(Arc<Files>);

struct Files {
    files: Vec<File>,
    spec: Spec,
    /// Top-level columns with their specs; an array that is no dict has one without a name.
    columns: Vec<(String, Spec)>,
    /// File and first row of each block.
    blocks: Vec<(usize, usize)>,
    starts: Vec<u64>,
}

impl std::fmt::Debug for NumpyTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} files", self.0.files.len())
    }
}

/// The array that begins at `at` of a file, or of a member that was compressed.
fn header(read: &dyn Fn(usize) -> Result<Buf>) -> Result<Npy> {
    let head = read(12)?;
    let len = npy::header_len(head.as_slice())?;
    npy::parse(read(len)?.as_slice())
}

fn open_member(source: &Arc<dyn Source>, member: Member) -> Result<Array> {
    let at = member.range.start;
    let size = usize::try_from(member.size).map_err(|_| Error::data("a member is too large for this machine"))?;
    let stored = |len: usize| source.clone().read(at, len).wait();
    let npy = match member.compressed {
        true => header(&|len| npz::inflated_head(&member, len, &stored).map(|bytes| Buf::copied(&bytes)))?,
        false => header(&|len| stored(len.min(size)))?,
    };
    if npy.start as u64 + npy.bytes() > member.size {
        return Err(Error::loss(format!("has {} bytes; its header says more", member.size)).at_byte(at));
    }
    let (name, start) = (array_name(&member.name).to_string(), npy.start);
    let place = match member.compressed {
        true => Place::Packed(Packed { member, start, unpacked: OnceLock::new() }),
        false => Place::File(at + start as u64),
    };
    Ok(Array { name, npy, place })
}

/// What NumPy calls a member.
fn array_name(member: &str) -> &str {
    member.strip_suffix(".npy").unwrap_or(member)
}

impl Packed {
    /// The items, from the byte that is given with them on.
    fn items(&self, file: &File) -> Result<(&Buf, usize)> {
        let unpack = || {
            let Member { range, size, .. } = &self.member;
            check_room(DType::Uint8, &[*size as usize])?;
            // It stays when the pass is over.
            let _nobody = Account::enter(None);
            let stored = file.source.clone().read(range.start, (range.end - range.start) as usize).wait()?;
            npz::inflated(&self.member, stored.as_slice())
        };
        let unpacked = self
            .unpacked
            .get_or_init(|| file.check().and_then(|()| unpack()).map_err(|e| e.in_file(file.source.name(), None)));
        unpacked.as_ref().map(|buf| (buf, self.start)).map_err(Clone::clone)
    }
}

impl File {
    fn open(name: &str, columns: Option<&[String]>) -> Result<File> {
        let source = feedline_io::open(name)?;
        File::read(source, columns).map_err(|e| e.in_file(name, None))
    }
    /// Of an archive, only the arrays that are wanted are looked at.
    fn read(source: Arc<dyn Source>, columns: Option<&[String]>) -> Result<File> {
        let stat = source.clone().stat().wait()?;
        let head = source.clone().read(0, 4).wait()?;
        let arrays = if head.as_slice().starts_with(b"PK") {
            let wanted = |name: &str| columns.is_none_or(|c| c.iter().any(|c| c == array_name(name)));
            let (members, names) = npz::members(&source, stat.len, &wanted)?;
            let names: Vec<&str> = names.iter().map(|name| array_name(name)).collect();
            if let Some(missing) = columns.into_iter().flatten().find(|c| !names.contains(&c.as_str())) {
                return Err(Error::usage(format!("there is no column {missing:?}; there are {names:?}")));
            }
            let arrays = members.into_iter().map(|m| {
                let (name, at) = (m.name.clone(), m.range.start);
                open_member(&source, m).map_err(|e| e.near_byte(at).reworded(|said| format!("member {name:?}: {said}")))
            });
            arrays.collect::<Result<Vec<_>>>()?
        } else {
            let npy = header(&|len| source.clone().read(0, len).wait()).map_err(|e| e.near_byte(0))?;
            let need = npy.start as u64 + npy.bytes();
            if need > stat.len {
                let text = format!("{need} bytes are needed for the shape {:?}; the file has {}", npy.shape, stat.len);
                return Err(Error::loss(text).in_file(source.name(), Some(stat.len)));
            }
            let start = npy.start as u64;
            vec![Array { name: String::new(), npy, place: Place::File(start) }]
        };
        let rows = rows_of(&arrays)?;
        Ok(File { source, stat, arrays, wanted: vec![], rows })
    }
    /// Refuses a file that is another one by now.
    fn check(&self) -> Result<()> {
        if self.source.clone().stat().wait()? == self.stat {
            return Ok(());
        }
        let text = "the file has changed since the dataset was made; make it again";
        Err(Error::new(Kind::Precondition, text).in_file(self.source.name(), None))
    }
    /// Fields with their names from the outside in.
    fn fields(&self) -> impl Iterator<Item = (usize, usize, Vec<&str>)> {
        self.arrays.iter().enumerate().flat_map(|(a, array)| {
            array.npy.fields.iter().enumerate().map(move |(f, field)| {
                let own = field.path.iter().map(|p| p.as_str());
                (a, f, Some(array.name.as_str()).filter(|n| !n.is_empty()).into_iter().chain(own).collect())
            })
        })
    }
    /// What of the file is wanted, as columns with their specs.
    fn choose(&mut self, columns: Option<&[String]>) -> Result<Vec<(String, Spec)>> {
        let mut out: Vec<(String, Spec)> = Vec::new();
        let mut wanted = Vec::new();
        let all: Vec<(usize, usize, Vec<String>)> =
            self.fields().map(|(a, f, p)| (a, f, p.into_iter().map(String::from).collect())).collect();
        let mut tops: Vec<&str> = all.iter().map(|(_, _, p)| p.first().map_or("", |p| p)).collect();
        tops.dedup();
        let names: Vec<&str> = columns.map_or(tops.clone(), |c| c.iter().map(|c| c.as_str()).collect());
        for name in names {
            if !tops.contains(&name) || out.iter().any(|(n, _)| n == name) {
                let what = if tops == [""] { "the array has no fields".into() } else { format!("there are {tops:?}") };
                return Err(Error::usage(format!("there is no column {name:?}, or it is named twice; {what}")));
            }
            let mut spec: Option<Spec> = None;
            for (a, f, path) in all.iter().filter(|(_, _, p)| p.first().map_or("", |p| p) == name) {
                let (array, field) = (&self.arrays[*a], &self.arrays[*a].npy.fields[*f]);
                let shape: Vec<usize> = array.npy.shape[1..].iter().chain(&field.shape).copied().collect();
                let leaf = Tree::Leaf(Leaf::tensor(dtype_of(field), Dims::known(&shape)));
                insert(&mut spec, path.get(1..).unwrap_or(&[]), leaf);
                wanted.push((*a, *f));
            }
            out.push((name.to_string(), spec.ok_or_else(|| Error::data("a structure without fields"))?));
        }
        if out.is_empty() {
            return Err(Error::usage("there is nothing to read: no arrays, or columns=[]"));
        }
        self.wanted = wanted;
        Ok(out)
    }
    fn row_bytes(&self) -> usize {
        let one = |a: &Array| a.npy.shape[1..].iter().product::<usize>() * a.npy.item;
        self.wanted_arrays().map(|a| one(&self.arrays[a])).sum()
    }
    /// The arrays of which something is wanted, each once.
    fn wanted_arrays(&self) -> impl Iterator<Item = usize> {
        let mut last = None;
        self.wanted.iter().map(|(a, _)| *a).filter(move |a| last.replace(*a) != Some(*a))
    }
}

/// Puts a leaf at its place in nested dicts.
fn insert(spec: &mut Option<Spec>, path: &[String], leaf: Spec) {
    let Some((first, rest)) = path.split_first() else {
        *spec = Some(leaf);
        return;
    };
    let tree = spec.get_or_insert_with(|| Tree::Map { tag: None, items: vec![] });
    let Tree::Map { items, .. } = tree else { return };
    let at = match items.iter().position(|(k, _)| **k == **first) {
        Some(at) => at,
        None => {
            items.push((first.as_str().into(), Tree::Map { tag: None, items: vec![] }));
            items.len() - 1
        }
    };
    let mut inner = Some(items[at].1.clone());
    insert(&mut inner, rest, leaf);
    items[at].1 = inner.expect("made above");
}

fn rows_of(arrays: &[Array]) -> Result<usize> {
    let mut common: Option<(usize, &str)> = None;
    for array in arrays {
        let named =
            |text: String| Error::data(if array.name.is_empty() { text } else { format!("{:?} {text}", array.name) });
        let Some(&rows) = array.npy.shape.first() else {
            return Err(named("is a single value, which has no rows".into()));
        };
        if array.npy.bytes() == 0 && rows > MOST_EMPTY_ROWS {
            return Err(named(format!("claims to have {rows} rows without any bytes")));
        }
        match common {
            Some((n, other)) if n != rows => {
                return Err(Error::data(format!(
                    "{:?} has {rows} rows and {other:?} has {n}; leave one out with columns=[...]",
                    array.name
                )));
            }
            _ => common = Some((rows, &array.name)),
        }
    }
    common.map(|(rows, _)| rows).ok_or_else(|| Error::data("the archive has no arrays"))
}

fn dtype_of(field: &Field) -> DType {
    match (field.kind, field.size) {
        (npy::Kind::Bool, _) => DType::Bool,
        (npy::Kind::Int, 1) => DType::Int8,
        (npy::Kind::Int, 2) => DType::Int16,
        (npy::Kind::Int, 4) => DType::Int32,
        (npy::Kind::Uint, 1) => DType::Uint8,
        (npy::Kind::Uint, 2) => DType::Uint16,
        (npy::Kind::Uint, 4) => DType::Uint32,
        (npy::Kind::Uint, _) => DType::Uint64,
        (npy::Kind::Float, 2) => DType::Float16,
        (npy::Kind::Float, 4) => DType::Float32,
        (npy::Kind::Float, _) => DType::Float64,
        (npy::Kind::Int | npy::Kind::Time, _) => DType::Int64,
        (npy::Kind::Bytes | npy::Kind::Text, _) => DType::String,
    }
}

impl Files {
    fn open(names: &[String], columns: Option<&[String]>) -> Result<Files> {
        let mut files = names.iter().map(|name| File::open(name, columns)).collect::<Result<Vec<_>>>()?;
        let first = files.first_mut().ok_or_else(|| Error::usage("no files were given"))?;
        let wanted = first.choose(columns).map_err(|e| e.in_file(first.source.name(), None))?;
        let spec = match wanted.as_slice() {
            [(name, spec)] if name.is_empty() => spec.clone(),
            _ => Tree::Map { tag: None, items: wanted.iter().map(|(k, s)| (k.as_str().into(), s.clone())).collect() },
        };
        let (mut blocks, mut starts) = (vec![], vec![0]);
        let mut rows = 0u64;
        for (i, file) in files.iter_mut().enumerate() {
            let own = file.choose(columns).map_err(|e| e.in_file(file.source.name(), None))?;
            if own != wanted {
                let odd = own.iter().zip(&wanted).find(|(a, b)| a != b);
                let text = odd.map_or("other arrays are in here".into(), |((name, a), (other, b))| {
                    format!("{name:?} is {a} here, but {other:?} is {b} in the first file")
                });
                return Err(
                    Error::data(format!("{text}; files of one dataset must agree")).in_file(file.source.name(), None)
                );
            }
            let step = (BLOCK_BYTES / file.row_bytes().max(1)).clamp(1, 1 << 16);
            for row in (0..file.rows).step_by(step) {
                rows += step.min(file.rows - row) as u64;
                blocks.push((i, row));
                starts.push(rows);
            }
        }
        Ok(Files { files, spec, columns: wanted, blocks, starts })
    }
}

/// The byte ranges of some rows of an array, from the first item on: one, or in Fortran's order one a column.
fn ranges(npy: &Npy, rows: Range<usize>) -> Vec<Range<u64>> {
    let columns: usize = npy.shape[1..].iter().product();
    let (item, total) = (npy.item as u64, npy.shape[0] as u64);
    if !npy.fortran || columns <= 1 || rows.len() == npy.shape[0] {
        let row = if npy.fortran && rows.len() != npy.shape[0] { item } else { item * columns as u64 };
        let one = rows.start as u64 * row..rows.end as u64 * row;
        return [one].to_vec();
    }
    let run = |c: u64| (c * total + rows.start as u64) * item..(c * total + rows.end as u64) * item;
    (0..columns as u64).map(run).collect()
}

impl Table for Files {
    type Block = Vec<Buf>;
    fn starts(&self) -> &[u64] {
        &self.starts
    }
    fn row_bytes(&self, _: usize) -> u64 {
        // Blocks are cut to the size of pieces already.
        1
    }
    fn source(&self, block: usize) -> &Arc<dyn Source> {
        &self.files[self.blocks[block].0].source
    }
    fn ranges(&self, block: usize) -> Vec<Range<u64>> {
        let (file, rows) = self.rows(block);
        let mut out = Vec::new();
        for array in file.wanted_arrays().map(|a| &file.arrays[a]) {
            if let Place::File(start) = array.place {
                out.extend(ranges(&array.npy, rows.clone()).into_iter().map(|r| start + r.start..start + r.end));
            }
        }
        out
    }
    fn check(&self, block: usize) -> Result<()> {
        self.files[self.blocks[block].0].check()
    }
    fn block(&self, _: usize, read: Vec<Buf>, _: Allowed) -> Vec<Buf> {
        read
    }
    fn decode(&self, block: usize, piece: Range<usize>, read: &Vec<Buf>) -> Result<Decoded> {
        let (file, rows) = self.rows(block);
        let mut read = read.iter();
        let mut columns = Vec::with_capacity(file.wanted.len());
        for a in file.wanted_arrays() {
            let array = &file.arrays[a];
            let parts: Result<Vec<(Buf, usize)>> = ranges(&array.npy, rows.clone())
                .into_iter()
                .map(|range| match &array.place {
                    Place::File(_) => Ok((read.next().expect("a read for each range").clone(), 0)),
                    Place::Packed(packed) => {
                        packed.items(file).map(|(buf, start)| (buf.clone(), start + range.start as usize))
                    }
                })
                .collect();
            let parts = parts?;
            let items = Items { npy: &array.npy, rows: rows.len(), parts };
            for (_, f) in file.wanted.iter().filter(|(b, _)| *b == a) {
                columns.push(Column::Dense(items.field(&array.npy.fields[*f])?.slice(piece.clone())));
            }
        }
        Ok(Decoded { columns, bad: vec![] })
    }
}

impl Files {
    /// The file of a row and its number there.
    fn row(&self, row: u64) -> (&File, usize) {
        let block = self.starts.partition_point(|start| *start <= row) - 1;
        let (file, first) = self.blocks[block];
        (&self.files[file], first + (row - self.starts[block]) as usize)
    }
    /// The file of a block and its rows there.
    fn rows(&self, block: usize) -> (&File, Range<usize>) {
        let (file, first) = self.blocks[block];
        let rows = (self.starts[block + 1] - self.starts[block]) as usize;
        (&self.files[file], first..first + rows)
    }
}

/// Rows of an array: the bytes of one range, or of one a column.
struct Items<'a> {
    npy: &'a Npy,
    rows: usize,
    parts: Vec<(Buf, usize)>,
}

impl Items<'_> {
    fn field(&self, field: &Field) -> Result<Tensor> {
        let dtype = dtype_of(field);
        let inner = &self.npy.shape[1..];
        let shape: Vec<usize> =
            [self.rows].into_iter().chain(inner.iter().copied()).chain(field.shape.iter().copied()).collect();
        let whole = self.npy.is_plain() && !self.npy.fortran && dtype != DType::String && !field.swapped;
        if whole
            && let [(buf, start)] = self.parts.as_slice()
            && (buf.as_slice().as_ptr() as usize + start).is_multiple_of(field.size.max(1))
            && field.kind != npy::Kind::Bool
        {
            return Tensor::from_buf(dtype, shape, buf.clone(), *start);
        }
        let values: usize = field.shape.iter().product();
        if dtype == DType::String {
            let mut out = StringsBuilder::with_capacity(self.rows);
            self.for_each(field.offset, values * field.size, |_, bytes| {
                for value in bytes.chunks_exact(field.size.max(1)).take(values) {
                    match field.kind {
                        npy::Kind::Text => out.push(text(value, field.swapped).as_bytes()),
                        _ => out.push(trimmed(value)),
                    }
                }
                (field.size == 0).then(|| (0..values).for_each(|_| out.push(&[])));
            });
            return Ok(out.tensor(shape));
        }
        let mut tensor = Tensor::new(dtype, shape);
        let size = values * field.size;
        let to = tensor.bytes_mut();
        self.for_each(field.offset, size, |i, bytes| {
            let slot = &mut to[i * size..(i + 1) * size];
            slot.copy_from_slice(bytes);
            if field.swapped {
                slot.chunks_exact_mut(field.size).for_each(|value| value.reverse());
            }
            if field.kind == npy::Kind::Bool {
                slot.iter_mut().for_each(|b| *b = u8::from(*b != 0));
            }
        });
        Ok(tensor)
    }
    /// Calls with each item's number in row-major order and its bytes `from..from + len`.
    fn for_each(&self, from: usize, len: usize, mut f: impl FnMut(usize, &[u8])) {
        let inner = &self.npy.shape[1..];
        let columns: usize = inner.iter().product();
        let item = self.npy.item;
        if !self.npy.fortran {
            let (buf, start) = &self.parts[0];
            for i in 0..self.rows * columns {
                let at = start + i * item + from;
                f(i, &buf.as_slice()[at..at + len]);
            }
            return;
        }
        // One part a column, or all columns in one part, one after the other.
        for row in 0..self.rows {
            for c in 0..columns {
                let place = fortran_place(inner, c);
                let (buf, start) = if self.parts.len() > 1 { &self.parts[place] } else { &self.parts[0] };
                let i = if self.parts.len() > 1 { row } else { place * self.rows + row };
                let at = start + i * item + from;
                f(row * columns + c, &buf.as_slice()[at..at + len]);
            }
        }
    }
}

/// Where the item that is number `c` in row-major order stands in Fortran's.
fn fortran_place(shape: &[usize], mut c: usize) -> usize {
    let mut place = 0;
    let mut stride: usize = shape.iter().product();
    for &size in shape.iter().rev() {
        stride /= size.max(1);
        place += (c % size.max(1)) * stride;
        c /= size.max(1);
    }
    place
}

/// NumPy fills fixed lengths up with zeros, and leaves them out when it reads.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
    &bytes[..end]
}

fn text(bytes: &[u8], swapped: bool) -> String {
    let chars = bytes.as_chunks::<4>().0.iter().map(|b| {
        let code = u32::from_ne_bytes(*b);
        char::from_u32(if swapped { code.swap_bytes() } else { code }).unwrap_or(char::REPLACEMENT_CHARACTER)
    });
    let text: String = chars.collect();
    text.trim_end_matches('\0').to_string()
}

/// Access by number where a row is worth a read of its own.
struct RowReads {
    files: Arc<Files>,
    blocks: TableIndex<Files>,
}

/// From here on a row is read alone: a read costs about as much as copying this many bytes.
const LARGE_ROW: usize = 4 << 10;

impl Files {
    /// What the arrays that are compressed take when they are not.
    fn packed_bytes(&self) -> usize {
        let arrays = self.files.iter().flat_map(|file| &file.arrays);
        let packed = arrays.map(|array| match &array.place {
            Place::Packed(packed) => usize::try_from(packed.member.size).unwrap_or(usize::MAX),
            Place::File(_) => 0,
        });
        packed.fold(0, usize::saturating_add)
    }
    fn has_large_rows(&self) -> bool {
        let direct = |f: &File| f.wanted_arrays().all(|a| !f.arrays[a].npy.fortran || f.arrays[a].npy.shape.len() == 1);
        self.files.iter().all(|f| direct(f) && f.row_bytes() >= LARGE_ROW)
    }
}

impl Index for RowReads {
    fn len(&self) -> u64 {
        self.blocks.len()
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let files = &*self.files;
        // All reads are on their way before the first is waited for.
        let mut reads = Vec::with_capacity(rows.len());
        for &row in rows {
            let (file, at) = files.row(row);
            let started = file.wanted_arrays().map(|a| {
                let array = &file.arrays[a];
                let range = ranges(&array.npy, at..at + 1).remove(0);
                Ok(match &array.place {
                    Place::File(start) => {
                        let len = (range.end - range.start) as usize;
                        (a, len, Ok((start + range.start, file.source.clone().read(start + range.start, len))))
                    }
                    Place::Packed(packed) => {
                        let (buf, start) = packed.items(file)?;
                        (a, 0, Err((buf.clone(), start + range.start as usize)))
                    }
                })
            });
            reads.push((file, started.collect::<Result<Vec<_>>>()?));
        }
        let mut elements = Vec::with_capacity(rows.len());
        for (file, started) in reads {
            let mut element = Element::new();
            for (a, len, read) in started {
                let part = match read {
                    Ok((start, task)) => match task.wait()? {
                        buf if buf.len() == len => (buf, 0),
                        buf => {
                            let end = Some(start + buf.len() as u64);
                            return Err(Error::loss("ends early: it is cut off").in_file(file.source.name(), end));
                        }
                    },
                    Err(part) => part,
                };
                let items = Items { npy: &file.arrays[a].npy, rows: 1, parts: vec![part] };
                for (_, f) in file.wanted.iter().filter(|(b, _)| *b == a) {
                    element.push(Value::Tensor(items.field(&file.arrays[a].npy.fields[*f])?.row(0)));
                }
            }
            elements.push(element);
        }
        Ok(Chunk::from_elements(Pos::List(rows.into()), elements))
    }
}

impl Numpy {
    fn table(&self) -> Result<&NumpyTable> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = NumpyTable(Arc::new(Files::open(&self.files, self.columns.as_deref())?));
        Ok(self.table.get_or_init(|| table))
    }
    /// The files for a pass, which must have room for what is compressed in them: it is unpacked, and kept.
    fn files_for(&self, cx: &BuildCx) -> Result<Arc<Files>> {
        let files = &self.table()?.0;
        let budget = &cx.run.budget;
        let (bytes, most, limit) = (files.packed_bytes(), budget.most(), budget.limit());
        if bytes <= most {
            return Ok(files.clone());
        }
        let what = format!("compressed arrays of {} are unpacked as a whole", bytes_text(bytes));
        let instead = "save them uncompressed (np.savez), or leave some out with columns=[...]";
        Err(Over { bytes, most, limit, ..Over::default() }.error(&what, instead).in_op(INFO.name))
    }
}

impl Op for Numpy {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        Ok(self.table()?.0.spec.clone())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        self.table().map_or(Card::Unknown, |t| Card::Known(*t.0.starts.last().expect("starts with 0")))
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(table::build(self.files_for(cx)?, cx, node, 0))
    }
    fn build_behind(&self, cx: &BuildCx, node: &Plan, rows: u64) -> Result<Option<Built>> {
        Ok(Some(table::build(self.files_for(cx)?, cx, node, rows)))
    }
    fn index(&self, cx: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let files = self.files_for(cx)?;
        let blocks = TableIndex::new(files.clone(), self.pieces.clone(), cx);
        Ok(Some(if files.has_large_rows() { Arc::new(RowReads { files, blocks }) } else { Arc::new(blocks) }))
    }
    fn narrowed(&self, reads: &[bool]) -> Result<Option<Narrowed>> {
        let table = &self.table()?.0;
        let specs = table.columns.iter().map(|(_, spec)| spec);
        let Some((columns, leaves)) = table::read_columns(specs, reads, true) else { return Ok(None) };
        let columns = Some(columns.iter().map(|&c| table.columns[c].0.clone()).collect());
        let pieces = Default::default();
        let source = Numpy { files: self.files.clone(), columns, table: OnceLock::new(), pieces };
        Ok(Some((Arc::new(source), leaves)))
    }
    fn files(&self) -> Vec<String> {
        self.files.clone()
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
    fn show(&self) -> String {
        super::show_files(&self.files, self.columns.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::ints;

    fn dataset(bytes: &[u8]) -> Result<Dataset> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        std::fs::write(&path, bytes).unwrap();
        // Opened now: its file may go afterwards.
        Dataset::numpy(&[path.to_str().unwrap()], None)
    }

    #[test]
    fn fortran_places() {
        // A (2, 3, 4) array: item (i, j, k) stands at i + 2 j + 6 k.
        let all: Vec<usize> = (0..24).map(|c| fortran_place(&[2, 3, 4], c)).collect();
        let wanted: Vec<usize> = (0..24).map(|c| c / 12 + 2 * (c / 4 % 3) + 6 * (c % 4)).collect();
        assert_eq!(all, wanted);
    }

    #[test]
    fn blocks_cover_all_rows_once() {
        let mut bytes = npy::header("'<i8'", 300_000, &[]);
        (0..300_000i64).for_each(|n| bytes.extend(n.to_le_bytes()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        std::fs::write(&path, &bytes).unwrap();
        let ds = Dataset::numpy(&[path.to_str().unwrap()], None).unwrap();
        assert_eq!(ints(&ds), (0..300_000).collect::<Vec<_>>());
        // Cut off while it is read: an error, not a signal.
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(ds.iter().unwrap().any(|e| e.is_err()));
    }

    #[test]
    fn claims_are_checked() {
        let short = dataset(&npy::header("'<i8'", 5, &[])).unwrap_err();
        assert_eq!(short.kind(), Kind::Loss, "{short}");
        let empty = dataset(&npy::header("'<i8'", 1 << 40, &[0])).unwrap_err();
        assert!(empty.to_string().contains("without any bytes"), "{empty}");
        assert_eq!(dataset(&npy::header("'<i8'", 0, &[3])).unwrap().cardinality(), Card::Known(0));
    }
}
