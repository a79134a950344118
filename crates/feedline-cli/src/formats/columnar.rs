//! Parquet and Arrow files straight from their arrays: rows as JSON, since elements have no place for nulls and people
//! have; and all that is asked of files with columns that have no place in an element (maps, lists of structures).

use super::records::is_damage;
use super::{Checked, Shown};
use crate::file::File;
use crate::session::Watch;
use crate::show::{self, Limit};
use feedline::{Error, Result};
use feedline_formats::arrow_ipc::ArrowFile;
use feedline_formats::columnar::array::cast::AsArray;
use feedline_formats::columnar::array::{Array, ArrayRef, types};
use feedline_formats::columnar::cast::{cast, display};
use feedline_formats::columnar::schema::{DataType, SchemaRef};
use feedline_formats::columnar::{Values, guarded};
use feedline_formats::parquet::{Group, ParquetFile};
use serde_json::Value as Json;
use std::ops::Range;
use std::sync::Arc;

/// So many rows are decoded at once.
const PIECE_ROWS: usize = 1024;
/// What their strings may be.
const PIECE_BYTES: usize = 1 << 30;
/// Pages that were unpacked are kept between the pieces up to here.
const KEEP_BYTES: usize = 64 << 20;

pub fn parquet(file: &File, rows: Range<usize>, limit: Limit, watch: &Watch<'_>) -> Result<Shown> {
    let opened = Arc::new(ParquetFile::open(file.source.clone())?);
    let names: Vec<String> = opened.schema().fields().iter().map(|f| f.name().clone()).collect();
    let projection = opened.projection(&(0..names.len()).collect::<Vec<_>>());
    let blocks = (0..opened.groups()).map(|group| opened.group_rows(group) as usize);
    shown(&names, blocks, rows, limit, watch, |group, rows| {
        let array = |values| match values {
            Values::Array(array) => Ok(array),
            Values::Numbers(_) => Err(Error::internal("numbers where arrays were asked for")),
        };
        Group::new(&opened, group, &projection, vec![], 0, PIECE_BYTES).decode(rows)?.into_iter().map(array).collect()
    })
}

pub fn arrow(file: &File, rows: Range<usize>, limit: Limit, watch: &Watch<'_>) -> Result<Shown> {
    let opened = ArrowFile::open(file.source.clone())?;
    let names: Vec<String> = opened.schema().fields().iter().map(|f| f.name().clone()).collect();
    let columns: Vec<usize> = (0..names.len()).collect();
    let blocks = (0..opened.batches()).map(|batch| opened.batch_rows(batch));
    shown(&names, blocks, rows, limit, watch, |batch, rows| opened.decode(batch, &columns, rows, None))
}

/// A file whatever its columns are.
pub enum Opened {
    Parquet(Arc<ParquetFile>),
    Arrow(ArrowFile),
}

impl Opened {
    pub fn new(file: &File) -> Result<Opened> {
        match file.format.name {
            "parquet" => Ok(Opened::Parquet(Arc::new(ParquetFile::open(file.source.clone())?))),
            _ => Ok(Opened::Arrow(ArrowFile::open(file.source.clone())?)),
        }
    }
    pub fn schema(&self) -> SchemaRef {
        match self {
            Opened::Parquet(file) => file.schema().clone(),
            Opened::Arrow(file) => Arc::new(file.schema()),
        }
    }
    /// How many rows each row group or batch has.
    fn blocks(&self) -> Vec<u64> {
        match self {
            Opened::Parquet(file) => (0..file.groups()).map(|group| file.group_rows(group)).collect(),
            Opened::Arrow(file) => (0..file.batches()).map(|batch| file.batch_rows(batch) as u64).collect(),
        }
    }
    /// Decodes all columns of a block, some rows at a time.
    fn decode(&self, block: usize, rows: u64, each: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let columns: Vec<usize> = (0..self.schema().fields().len()).collect();
        match self {
            Opened::Parquet(file) => {
                let group = Group::new(file, block, &file.projection(&columns), vec![], KEEP_BYTES, PIECE_BYTES);
                for from in (0..rows as usize).step_by(PIECE_ROWS) {
                    let piece = from..(from + PIECE_ROWS).min(rows as usize);
                    let count = piece.len() as u64;
                    group.decode(piece)?;
                    each(count)?;
                }
                Ok(())
            }
            // A batch is decoded as a whole in any case if it is compressed.
            Opened::Arrow(file) => {
                file.decode(block, &columns, 0..rows as usize, None)?;
                each(rows)
            }
        }
    }
}

/// How many rows there are.
pub fn count(file: &File) -> Result<u64> {
    Ok(Opened::new(file)?.blocks().into_iter().sum())
}

/// The names of the columns, and their types in Arrow's words.
pub fn schema(file: &File) -> Result<super::table::Schema> {
    let schema = Opened::new(file)?.schema();
    Ok(schema.fields().iter().map(|f| (f.name().clone(), f.data_type().to_string())).collect())
}

/// Reads everything; what is damaged costs the rest of its block.
pub fn check(file: &File, watch: &Watch<'_>) -> Result<Checked> {
    let mut checked = Checked::default();
    let opened = match Opened::new(file) {
        Ok(opened) => opened,
        Err(error) if is_damage(&error) => {
            checked.bad(error.in_file(&file.name, None), 0);
            return Ok(checked);
        }
        Err(error) => return Err(error),
    };
    let mut first = 0;
    for (block, rows) in opened.blocks().into_iter().enumerate() {
        let decoded = opened.decode(block, rows, &mut |rows| {
            checked.records += rows;
            watch.done(0)
        });
        match decoded {
            Err(error) if is_damage(&error) => checked.bad(error.in_file(&file.name, None), first),
            done => done?,
        }
        first += rows;
    }
    Ok(checked)
}

/// Rows of blocks that have so many each.
fn shown(
    names: &[String],
    blocks: impl Iterator<Item = usize>,
    wanted: Range<usize>,
    limit: Limit,
    watch: &Watch<'_>,
    decode: impl Fn(usize, Range<usize>) -> Result<Vec<ArrayRef>>,
) -> Result<Shown> {
    let (mut shown, mut first) = (Shown::default(), 0);
    for (block, len) in blocks.enumerate() {
        let (from, to) = (wanted.start.max(first), wanted.end.min(first + len));
        for start in (from..to).step_by(PIECE_ROWS) {
            watch.done(0)?;
            let piece = start - first..(start + PIECE_ROWS).min(to) - first;
            let rows = piece.len();
            let made = decode(block, piece).and_then(|arrays| {
                guarded("a piece of rows", || Ok((0..rows).map(|row| object(names, &arrays, row, limit)).collect()))
            });
            match made {
                Ok(made) => shown.rows.extend::<Vec<Json>>(made),
                Err(error) if is_damage(&error) => {
                    shown.damage = Some((start, error));
                    return Ok(shown);
                }
                Err(error) => return Err(error),
            }
        }
        first += len;
    }
    Ok(shown)
}

fn object(names: &[String], arrays: &[ArrayRef], row: usize, limit: Limit) -> Json {
    names.iter().zip(arrays).map(|(name, array)| (name.clone(), cell(array, row, limit))).collect()
}

/// One value, as an element would have it: dates and times are numbers in the type's unit, decimals floats.
fn cell(array: &ArrayRef, row: usize, limit: Limit) -> Json {
    use DataType::*;
    let of_list = |items: ArrayRef| show::list(items.len(), limit, |i| cell(&items, i, limit));
    let as_type = |to: DataType| match cast(&array.slice(row, 1), &to) {
        Ok(one) => cell(&one, 0, limit),
        Err(_) => in_words(array, row),
    };
    macro_rules! item {
        ($t:ty) => {
            array.as_primitive::<$t>().value(row)
        };
    }
    if array.is_null(row) {
        return Json::Null;
    }
    match array.data_type() {
        Null => Json::Null,
        Boolean => array.as_boolean().value(row).into(),
        Int64 => item!(types::Int64Type).into(),
        UInt64 => item!(types::UInt64Type).into(),
        Float64 => show::float(item!(types::Float64Type)),
        Float32 => show::float32(item!(types::Float32Type)),
        Float16 => as_type(Float32),
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => as_type(Float64),
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 => as_type(Int64),
        Date32 | Time32(_) => as_type(Int32),
        Date64 | Time64(_) | Timestamp(..) | Duration(_) => as_type(Int64),
        Utf8 => show::text(array.as_string::<i32>().value(row).as_bytes(), limit),
        LargeUtf8 => show::text(array.as_string::<i64>().value(row).as_bytes(), limit),
        Utf8View => show::text(array.as_string_view().value(row).as_bytes(), limit),
        Binary => show::text(array.as_binary::<i32>().value(row), limit),
        LargeBinary => show::text(array.as_binary::<i64>().value(row), limit),
        BinaryView => show::text(array.as_binary_view().value(row), limit),
        FixedSizeBinary(_) => show::text(array.as_fixed_size_binary().value(row), limit),
        List(_) => of_list(array.as_list::<i32>().value(row)),
        LargeList(_) => of_list(array.as_list::<i64>().value(row)),
        FixedSizeList(..) => of_list(array.as_fixed_size_list().value(row)),
        Dictionary(_, values) => as_type((**values).clone()),
        Struct(fields) => {
            let columns = array.as_struct().columns();
            fields.iter().zip(columns).map(|(f, column)| (f.name().clone(), cell(column, row, limit))).collect()
        }
        _ => in_words(array, row),
    }
}

/// Types that elements do not have.
fn in_words(array: &ArrayRef, row: usize) -> Json {
    display::array_value_to_string(array, row).map_or(Json::Null, Json::from)
}
