//! What a file says of itself in Thrift, looked at before the library believes it: the footer, the places of pages, and the
//! headers of the pages that are left to it.
//!
//! The library trusts its bytes in five ways, each of which makes minutes, gigabytes or an overflowing stack of a few of them:
//!
//! 1. It passes over a list of booleans without taking bytes for them: a count costs a step for each that is claimed.
//! 2. It takes memory for as many children as a group of the schema claims to have, and for as many pages as an index does.
//! 3. It goes into the groups of a schema as deep as they are.
//! 4. It reads a field as what the format says that it is, whatever type stands in front of it. So bytes can be one thing to
//!    whoever goes by the types, and another to the library: both ways have to be the same.
//! 5. It takes memory for all row groups or columns of a list before it reads the first, some hundred times the bytes that
//!    a struct without fields has.
//!
//! One pass over the bytes, which takes no memory. Fields that the format does not have (yet) are passed over.

use super::thrift::{BINARY, BYTE, Compact, DOUBLE, FALSE, I16, I32, I64, LIST, Read, STRUCT, TRUE};
use Shape::{Any, Binary, Bool, Byte, Double, Int, List, Schema, Struct};
use feedline_io::{Error, Result};

/// Groups inside of groups of a schema, at most. A list of lists is two of them, and other readers end at 64 lists.
const MOST_GROUPS: usize = 200;

/// Items of a list, at most: as many as Arrow's own reader takes.
const MOST_ITEMS: usize = 1 << 20;

/// What a field is written as.
#[derive(Clone, Copy)]
enum Shape {
    Bool,
    Byte,
    /// Of any width: each is read in the same way.
    Int,
    Double,
    Binary,
    List(&'static Shape),
    /// Its fields, from number 1 on. Unions are structs with one of them.
    Struct(&'static [Shape]),
    /// The list of the schema's elements.
    Schema,
    /// Nothing that the library looks at.
    Any,
}

const EMPTY: Shape = Struct(&[]);

const FOOTER: Shape = Struct(&[Int, Schema, Int, List(&ROW_GROUP), List(&KEY_VALUE), Binary, List(&COLUMN_ORDER)]);
/// Of a schema, without the number of children, which is the fifth.
const ELEMENT: &[Shape] = &[Int, Int, Int, Binary, Any, Int, Int, Int, Int, LOGICAL_TYPE];
const CHILDREN: i16 = 5;
const LOGICAL_TYPE: Shape = Struct(&[
    EMPTY, EMPTY, EMPTY, EMPTY, DECIMAL, EMPTY, TIME, TIME, Any, INTEGER, EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, VARIANT,
    GEOMETRY, GEOGRAPHY,
]);
const DECIMAL: Shape = Struct(&[Int, Int]);
const TIME: Shape = Struct(&[Bool, Struct(&[EMPTY, EMPTY, EMPTY])]);
const INTEGER: Shape = Struct(&[Byte, Bool]);
const VARIANT: Shape = Struct(&[Byte]);
const GEOMETRY: Shape = Struct(&[Binary]);
const GEOGRAPHY: Shape = Struct(&[Binary, Int]);
const KEY_VALUE: Shape = Struct(&[Binary, Binary]);
const COLUMN_ORDER: Shape = Struct(&[EMPTY, EMPTY, EMPTY]);
const ROW_GROUP: Shape = Struct(&[List(&COLUMN_CHUNK), Int, Int, List(&SORTING_COLUMN), Int, Int, Int]);
const SORTING_COLUMN: Shape = Struct(&[Int, Bool, Bool]);
const COLUMN_CHUNK: Shape = Struct(&[Binary, Int, COLUMN, Int, Int, Int, Int]);
const COLUMN: Shape = Struct(&[
    Int,
    List(&Int),
    List(&Binary),
    Int,
    Int,
    Int,
    Int,
    List(&KEY_VALUE),
    Int,
    Int,
    Int,
    STATISTICS,
    List(&Struct(&[Int, Int, Int])),
    Int,
    Int,
    Struct(&[Int, List(&Int), List(&Int)]),
    Struct(&[BOX, List(&Int)]),
]);
const STATISTICS: Shape = Struct(&[Binary, Binary, Int, Int, Binary, Binary, Bool, Bool, Int]);
const BOX: Shape = Struct(&[Double; 8]);

const OFFSET_INDEX: Shape = Struct(&[List(&Struct(&[Int, Int, Int])), List(&Int)]);

const PAGE_HEADER: Shape = Struct(&[Int, Int, Int, Int, DATA_PAGE, EMPTY, DICTIONARY_PAGE, DATA_PAGE_V2]);
const DATA_PAGE: Shape = Struct(&[Int, Int, Int, Int, STATISTICS]);
const DICTIONARY_PAGE: Shape = Struct(&[Int, Int, Bool]);
const DATA_PAGE_V2: Shape = Struct(&[Int, Int, Int, Int, Int, Int, Bool, STATISTICS]);

/// Refuses a footer, which lies at byte `at` of its file, that the library must not see.
pub fn check_footer(bytes: &[u8], at: u64) -> Result<()> {
    check("the footer", &FOOTER, bytes, at)
}

/// The same for the places of a column's pages.
pub fn check_offset_index(bytes: &[u8], at: u64) -> Result<()> {
    check("an index of pages", &OFFSET_INDEX, bytes, at)
}

/// The same for the header of a page.
pub fn check_page_header(bytes: &[u8], at: u64) -> Result<()> {
    check("the header of a page", &PAGE_HEADER, bytes, at)
}

fn check(what: &str, shape: &Shape, bytes: &[u8], at: u64) -> Result<()> {
    let mut reader = Compact::new(bytes);
    value(&mut reader, shape, STRUCT).map_err(|why| {
        let byte = at + (bytes.len() - reader.left()) as u64;
        Error::data(format!("{what} cannot be read: {why}")).at_byte(byte)
    })
}

fn value(reader: &mut Compact, shape: &Shape, ty: u8) -> Read<()> {
    match (shape, ty) {
        (Struct(fields), STRUCT) => reader.fields(|reader, number, ty| field(reader, fields, number, ty)),
        (List(item), LIST) => {
            let (n, ty) = items(reader)?;
            (0..n).try_for_each(|_| match item {
                Struct([_, ..]) if reader.is_empty_struct() => Err(NOTHING),
                item => value(reader, item, ty),
            })
        }
        (Schema, LIST) => schema(reader),
        (Bool, TRUE | FALSE) | (Byte, BYTE) | (Int, I16 | I32 | I64) => reader.skip(ty),
        (Double, DOUBLE) | (Binary, BINARY) | (Any, _) => reader.skip(ty),
        _ => Err("a field has another type than the format gives it"),
    }
}

fn field(reader: &mut Compact, fields: &[Shape], number: i16, ty: u8) -> Read<bool> {
    let known = usize::try_from(number).ok().and_then(|n| fields.get(n.checked_sub(1)?));
    value(reader, known.unwrap_or(&Any), ty).map(|()| true)
}

const NOTHING: &str = "an item of a list has none of the fields that it must have";

/// How many items a list has that the library reads, and their type.
fn items(reader: &mut Compact) -> Read<(usize, u8)> {
    let (n, ty) = reader.list()?;
    if n > MOST_ITEMS { Err("a list has more than a million items") } else { Ok((n, ty)) }
}

/// The elements of a schema, where those of a group stand behind it, and it says how many they are.
fn schema(reader: &mut Compact) -> Read<()> {
    let (n, ty) = items(reader)?;
    // The groups that the next element is in, and how many more each of them has.
    let (mut open, mut depth) = ([0; MOST_GROUPS], 0);
    for left in (0..n).rev() {
        if ty != STRUCT {
            return Err("the schema is no list of columns");
        }
        if reader.is_empty_struct() {
            return Err(NOTHING);
        }
        let mut children = 0;
        reader.fields(|reader, number, ty| match (number, ty) {
            (CHILDREN, I16 | I32 | I64) => {
                children = reader.i32()?;
                Ok(true)
            }
            (CHILDREN, _) => Err("a group of the schema does not say how many columns it has"),
            _ => field(reader, ELEMENT, number, ty),
        })?;
        let children = usize::try_from(children).ok().filter(|children| *children <= left);
        let children = children.ok_or("a group of the schema claims more columns than there are")?;
        while depth > 0 && open[depth - 1] == 0 {
            depth -= 1;
        }
        if depth > 0 {
            open[depth - 1] -= 1;
        }
        if children > 0 {
            *open.get_mut(depth).ok_or("the groups of the schema are nested too deep")? = children;
            depth += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::thrift::{MAP, SET, UUID};
    use super::super::{End, ParquetFile, with_places};
    use super::*;
    use crate::fuzzing::File;
    use crate::wire::put_varint;
    use arrow_array::{Int64Array, RecordBatch, StringArray};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::ColumnChunkMetaData;
    use std::sync::Arc;

    /// A file that can be read, up to its footer, and its footer without the byte that ends it.
    fn parts() -> (Vec<u8>, Vec<u8>) {
        let (words, ints) = (StringArray::from(vec!["a", "b"]), Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([("s", Arc::new(words) as _), ("i", Arc::new(ints) as _)]).unwrap();
        let mut out = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        out.write(&batch).unwrap();
        let mut bytes = out.into_inner().unwrap();
        let size = bytes[bytes.len() - 8..][..4].try_into().map(u32::from_le_bytes).unwrap() as usize;
        let mut footer = bytes.split_off(bytes.len() - 8 - size);
        footer.truncate(size - 1);
        (bytes, footer)
    }

    fn open(mut bytes: Vec<u8>, footer: &[u8]) -> Result<ParquetFile> {
        bytes.extend(footer);
        bytes.extend((footer.len() as u32).to_le_bytes());
        bytes.extend(b"PAR1");
        ParquetFile::open(File::of(&bytes))
    }

    /// Opens a file whose footer has more fields than the format knows.
    fn with_fields(fields: &[u8]) -> Result<ParquetFile> {
        let (bytes, footer) = parts();
        open(bytes, &[&footer, fields, &[0]].concat())
    }

    fn count(n: u64) -> Vec<u8> {
        let mut out = vec![];
        put_varint(&mut out, n);
        out
    }

    /// A footer with nothing but a schema: groups of so many children, and columns that have none.
    fn schema_of(elements: &[i64]) -> Vec<u8> {
        let mut out = [&[0x15, 4, 0x19, 0xfc][..], &count(elements.len() as u64)].concat();
        for &children in elements {
            out.extend([0x35, 0, 0x18, 1, b'x']);
            if children != 0 {
                out.push(0x15);
                out.extend(count((children << 1 ^ children >> 63) as u64));
            }
            out.push(0);
        }
        out.extend([0x16, 0, 0x19, 0x0c, 0]);
        out
    }

    #[test]
    fn fields_that_nobody_knows_are_passed_over() {
        let mut fields = vec![0xf1, 0x12, 0x13, 9, 0x14, 2, 0x15, 2, 0x16, 2, 0x17];
        fields.extend([0; 8]);
        fields.extend([0x18, 3, 1, 2, 3]);
        // Lists of numbers, of lists, of structs; none of anything, and of booleans; sets and maps; structs in structs.
        fields.extend([0x19, 0x35, 2, 4, 6, 0x19, 0x29, 0x15, 2, 0x06, 0x19, 0x2c, 0x15, 2, 0, 0]);
        fields.extend([0x19, 0x00, 0x19, 0x01, 0x10 | SET, 0x18, 1, b'x', 0x10 | MAP, 0]);
        fields.extend([0x10 | MAP, 2, 0x58, 2, 1, b'x', 4, 1, b'y', 0x1c, 0x1c, 0x1c, 0, 0, 0, 0x10 | UUID]);
        fields.extend([7; 16]);
        // A number that is written out.
        fields.extend([0x05, 0xfe, 0xff, 3, 2]);
        assert_eq!(with_fields(&fields).unwrap().groups(), 1);
    }

    #[test]
    fn lists_that_claim_what_they_cannot_have_are_refused() {
        // Each is a count that the library would step through, without a byte for a step: hours for all of them.
        let steps = count(i32::MAX as u64);
        let of_booleans = [&[0x19, 0xf1][..], &steps].concat().repeat(1000);
        let in_a_map = [&[0x1b][..], &steps, &[0x11]].concat().repeat(1000);
        let in_a_struct = [&[0x1c, 0x19, 0xf2][..], &steps, &[0]].concat().repeat(1000);
        let in_lists = [&[0x19, 0x19, 0xf2][..], &steps].concat().repeat(1000);
        for fields in [of_booleans, in_a_map, in_a_struct, in_lists] {
            let error = with_fields(&fields).unwrap_err();
            assert!(error.message().contains("more items than there are bytes"), "{error}");
            let (bytes, footer) = parts();
            let at = (bytes.len() + footer.len()) as u64;
            assert!(error.at().byte.is_some_and(|byte| byte > at && byte < at + 10), "{error}");
        }
        // As many as there are bytes would be believed; but the library would take what follows for something else.
        let hidden = [&[0x19, 0xf2][..], &count(1007), &[0x19, 0xf2], &steps, &[0; 1000]].concat();
        let error = with_fields(&hidden).unwrap_err();
        assert!(error.message().contains("list of booleans"), "{error}");
    }

    #[test]
    fn footers_that_end_early_or_nest_too_deep_are_refused() {
        let (bytes, footer) = parts();
        let error = open(bytes, &footer).unwrap_err();
        assert!(error.message().contains("it ends early"), "{error}");
        let error = with_fields(&vec![0x1c; 10_000]).unwrap_err();
        assert!(error.message().contains("nested too deep"), "{error}");
    }

    #[test]
    fn fields_are_what_the_format_says() {
        // The library reads the version as a number, even if it is said to be a string, whose bytes nobody would look at.
        let steps = [&[0x19, 0xf2][..], &count(i32::MAX as u64)].concat().repeat(1000);
        let footer = [&[0x18][..], &count(steps.len() as u64), &steps, &[0]].concat();
        let error = open(parts().0, &footer).unwrap_err();
        assert!(error.message().contains("another type"), "{error}");
        // A page's checksum likewise.
        let header = [&[0x15, 0, 0x15, 2, 0x15, 2, 0x18][..], &count(steps.len() as u64), &steps, &[0]].concat();
        let error = check_page_header(&header, 100).unwrap_err();
        assert!(error.message().contains("another type"), "{error}");
        assert_eq!(error.at().byte, Some(107));
    }

    #[test]
    fn schemas_have_the_columns_that_they_claim() {
        let refused = |elements: &[i64]| open(parts().0, &schema_of(elements)).unwrap_err();
        // The library would take 16 GB for the children of each.
        for children in [i64::from(i32::MAX), 2, -1] {
            let error = refused(&[1, children, 0]);
            assert!(error.message().contains("claims more columns than there are"), "{error}");
        }
        let nested = |groups: usize| [&vec![1; groups][..], &[0]].concat();
        let error = refused(&nested(1_000_000));
        assert!(error.message().contains("nested too deep"), "{error}");
        // What may be there is no question of the stack, of a small thread either.
        let deep = nested(MOST_GROUPS);
        let small = std::thread::Builder::new().stack_size(1 << 20);
        small
            .spawn(move || assert_eq!(open(parts().0, &schema_of(&deep)).unwrap().groups(), 0))
            .unwrap()
            .join()
            .unwrap();
        // Groups that are complete do not count.
        let wide: Vec<i64> = [2000].into_iter().chain([1, 1, 0].repeat(2000)).collect();
        assert!(check_footer(&schema_of(&wide), 0).is_ok());
    }

    #[test]
    fn items_without_fields_are_refused() {
        // A byte each in the file, and a hundred in memory.
        let of = |list: &[u8], n: usize| {
            let footer = schema_of(&[1, 0]);
            let start = &footer[..footer.len() - 3];
            open(parts().0, &[start, list, &[0xfc], &count(n as u64), &vec![0; n], &[0]].concat()).unwrap_err()
        };
        let (groups, pairs) = (&[0x19][..], &[0x19, 0x0c, 0x19][..]);
        for (list, n) in [(groups, 1), (groups, 1000), (pairs, 1000)] {
            let error = of(list, n);
            assert!(error.message().contains("none of the fields"), "{error}");
        }
        assert!(of(groups, MOST_ITEMS + 1).message().contains("more than a million"));
    }

    /// Says how much was read of it.
    #[derive(Debug)]
    struct Counting(Arc<dyn feedline_io::Source>, std::sync::atomic::AtomicUsize);

    impl feedline_io::Source for Counting {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn stat(self: Arc<Self>) -> feedline_io::Task<Result<feedline_io::Stat>> {
            self.0.clone().stat()
        }
        fn read(self: Arc<Self>, at: u64, len: usize) -> feedline_io::Task<Result<feedline_io::Buf>> {
            self.1.fetch_add(len, std::sync::atomic::Ordering::Relaxed);
            self.0.clone().read(at, len)
        }
    }

    #[test]
    fn what_lies_between_indexes_is_not_read() {
        let (mut bytes, mut footer) = parts();
        footer.push(0);
        let file = open(bytes.clone(), &footer).unwrap();
        let (len, meta) = (file.stat.len, file.meta.metadata().as_ref().clone());
        let place = meta.row_group(0).column(1).offset_index_range().unwrap();
        // The index of the second column lies far behind that of the first.
        let index = bytes[place.start as usize..place.end as usize].to_vec();
        let far = len + (32 << 20);
        bytes.resize(far as usize, 0);
        bytes.extend(index);
        let group = meta.row_group(0).clone();
        let second = group.column(1).clone().into_builder().set_offset_index_offset(Some(far as i64)).build().unwrap();
        let group = group.clone().into_builder().set_column_metadata(vec![group.column(0).clone(), second]);
        let meta = meta.into_builder().set_row_groups(vec![group.build().unwrap()]).build();
        let source = Arc::new(Counting(File::of(&bytes), Default::default()));
        let (len, as_source) = (bytes.len() as u64, source.clone() as Arc<dyn feedline_io::Source>);
        let end = End { source: &as_source, bytes: Bytes::new(), at: len };
        // Pages are found by their headers.
        with_places(meta, &end, len).unwrap();
        assert_eq!(source.1.load(std::sync::atomic::Ordering::Relaxed), 0);
    }

    #[test]
    fn indexes_have_the_pages_that_they_claim() {
        let (mut bytes, mut footer) = parts();
        footer.push(0);
        let file = open(bytes.clone(), &footer).unwrap();
        let meta = file.meta.metadata();
        assert!(
            meta.page_index().is_some_and(|index| index.page_locations(0, 1).is_some_and(|pages| pages.len() == 1))
        );
        // The library would take 50 GB for so many.
        let place = meta.row_group(0).column(1).offset_index_range().unwrap();
        let claim = [&[0x19, 0xfc][..], &count(i32::MAX as u64)].concat();
        bytes[place.start as usize..][..claim.len()].copy_from_slice(&claim);
        let error = open(bytes, &footer).unwrap_err();
        assert!(error.message().contains("more items than there are bytes"), "{error}");
        assert_eq!(error.at().byte, Some(place.start + claim.len() as u64));
    }

    #[test]
    fn indexes_do_not_lie_over_each_other() {
        let (bytes, mut footer) = parts();
        footer.push(0);
        let file = open(bytes, &footer).unwrap();
        let (len, meta) = (file.stat.len, file.meta.metadata());
        // Each has half of the file and a little more: all of many columns would be much memory for few bytes.
        let share = |column: &ColumnChunkMetaData| {
            let column = column.clone().into_builder().set_offset_index_offset(Some(4));
            column.set_offset_index_length(Some(len as i32 / 2 + 1)).build().unwrap()
        };
        let group = meta.row_group(0).clone();
        let columns = group.columns().iter().map(share).collect();
        let group = group.into_builder().set_column_metadata(columns).build().unwrap();
        let meta = meta.as_ref().clone().into_builder().set_row_groups(vec![group]).build();
        let end = End { source: &file.source, bytes: Bytes::new(), at: len };
        let error = with_places(meta, &end, len).unwrap_err();
        assert!(error.message().contains("all so far have"), "{error}");
    }
}
