//! Columns of numbers beside what the Arrow reader makes of them, whole and damaged.

use super::group::Fetched;
use super::numbers::{Numbers, Room, are_there};
use super::pages::Pages;
use super::*;
use crate::columnar::Values;
use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_schema::TimeUnit;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReaderBuilder, RowSelector};
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use proptest::prelude::*;

/// Rows of all kinds of columns that are read as numbers, and of some that are not.
fn batch(rows: usize, distinct: u64, seed: u64) -> RecordBatch {
    let at = |i: usize, column: u64| {
        let mut z = (i as u64 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(column << 32);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        // Some runs of equal values among others.
        let z = if (i / 50).is_multiple_of(3) { seed } else { z ^ (z >> 31) };
        z % distinct
    };
    let all = 0..rows;
    let ints: Int32Array = all.clone().map(|i| at(i, 1) as i32 - 5).collect::<Vec<_>>().into();
    let longs: Int64Array = all.clone().map(|i| at(i, 2) as i64 * -7_000_000_000).collect::<Vec<_>>().into();
    let floats: Float32Array = all.clone().map(|i| at(i, 3) as f32 / 3.).collect::<Vec<_>>().into();
    let doubles: Float64Array = all.clone().map(|i| at(i, 4) as f64 / 7.).collect::<Vec<_>>().into();
    let unsigned: UInt32Array = all.clone().map(|i| u32::MAX - at(i, 5) as u32).collect::<Vec<_>>().into();
    let times: TimestampMicrosecondArray = all.clone().map(|i| at(i, 6) as i64).collect::<Vec<_>>().into();
    let seconds: TimestampSecondArray = all.clone().map(|i| at(i, 7) as i64).collect::<Vec<_>>().into();
    let holes: Int64Array = all.clone().map(|i| (at(i, 8) % 3 > 0).then(|| at(i, 8) as i64)).collect();
    let late: Float32Array = all.clone().map(|i| (i + 1 < rows).then(|| at(i, 9) as f32)).collect();
    let small: Int16Array = all.clone().map(|i| at(i, 10) as i16).collect::<Vec<_>>().into();
    let text: StringArray = all.clone().map(|i| Some(at(i, 11).to_string())).collect();
    let maybe: StringArray = all.clone().map(|i| (at(i, 12) % 4 > 0).then(|| format!("words {}", at(i, 12)))).collect();
    let mut words = ListBuilder::new(StringBuilder::new());
    for i in all {
        (0..at(i, 13) % 4).for_each(|k| words.values().append_option((k < 3).then(|| format!("{:05}", at(i, 14) + k))));
        words.append(at(i, 13) % 5 > 0);
    }
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("text", Arc::new(text), false),
        ("ints", Arc::new(ints), false),
        ("longs", Arc::new(longs), true),
        ("floats", Arc::new(floats), true),
        ("doubles", Arc::new(doubles), false),
        ("unsigned", Arc::new(unsigned), true),
        ("times", Arc::new(times), true),
        ("seconds", Arc::new(seconds), true),
        ("holes", Arc::new(holes), true),
        ("late", Arc::new(late), true),
        ("small", Arc::new(small), false),
        ("maybe", Arc::new(maybe), true),
        ("words", Arc::new(words.finish()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Of the columns, those that are read as numbers, and those that would be if there were no nulls.
const NUMBERS: [usize; 6] = [1, 2, 3, 4, 5, 6];
const MAY_BE_NULL: [usize; 2] = [8, 9];

#[derive(Clone, Copy, Debug)]
struct Way {
    compression: Compression,
    version: WriterVersion,
    page_bytes: usize,
    dictionary_bytes: usize,
    dictionary: bool,
    /// Whether the footer has the places of pages.
    index: bool,
}

fn ways() -> impl Strategy<Value = Way> {
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let (gzip, brotli) = (Compression::GZIP(GzipLevel::default()), Compression::BROTLI(BrotliLevel::default()));
    let ours = vec![Compression::UNCOMPRESSED, Compression::SNAPPY, zstd];
    let theirs = vec![Compression::LZ4_RAW, gzip, brotli];
    let compression = prop_oneof![3 => prop::sample::select(ours), 1 => prop::sample::select(theirs)];
    let version = prop::sample::select(vec![WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]);
    (compression, version, 64..5000usize, 64..4000usize, prop::bool::weighted(0.8), any::<bool>()).prop_map(
        |(compression, version, page_bytes, dictionary_bytes, dictionary, index)| Way {
            compression,
            version,
            page_bytes,
            dictionary_bytes,
            dictionary,
            index,
        },
    )
}

fn written(batch: &RecordBatch, way: Way) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(way.compression)
        .set_writer_version(way.version)
        .set_data_page_size_limit(way.page_bytes)
        .set_dictionary_page_size_limit(way.dictionary_bytes)
        .set_dictionary_enabled(way.dictionary)
        .set_statistics_enabled(if way.index { EnabledStatistics::Page } else { EnabledStatistics::Chunk })
        .set_offset_index_disabled(!way.index)
        .set_write_batch_size(64)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

/// What the strings of a piece may be.
const PIECE_BYTES: usize = 1 << 20;

/// A file that is open.
fn opened(bytes: &[u8]) -> Result<Arc<ParquetFile>> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    let (_, path) = file.keep().unwrap();
    let opened = ParquetFile::open(feedline_io::open(path.to_str().unwrap()).unwrap());
    std::fs::remove_file(path).unwrap();
    opened.map(Arc::new)
}

/// The row group, with everything read ahead.
fn group(file: &Arc<ParquetFile>, fields: &[usize], keep_bytes: usize) -> Result<Group> {
    let projection = file.projection(fields);
    let read = file.ranges(0, &projection).into_iter().map(|r| Ok((r.start, exact(file.source(), r)?)));
    Ok(Group::new(file, 0, &projection, read.collect::<Result<_>>()?, keep_bytes, PIECE_BYTES))
}

/// The same, of which nothing was read.
fn group_in_file(file: &Arc<ParquetFile>, fields: &[usize], keep_bytes: usize) -> Group {
    Group::new(file, 0, &file.projection(fields), vec![], keep_bytes, PIECE_BYTES)
}

fn decoded_here(file: &Arc<ParquetFile>, fields: &[usize], rows: Range<usize>) -> Result<Vec<Values>> {
    group(file, fields, 0)?.decode(rows)
}

/// The same by the Arrow reader alone, whose own way of reading pages it is.
fn decoded_there(file: &Arc<ParquetFile>, fields: &[usize], rows: Range<usize>) -> Result<Vec<ArrayRef>> {
    let fetched = Fetched { read: vec![], source: file.source().clone(), len: file.stat.len };
    let schema = file.meta.parquet_schema();
    let batch = guarded("there", || {
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(fetched, file.meta.clone());
        let reader = reader.with_row_groups(vec![0]).with_batch_size(rows.len());
        let reader = reader.with_projection(ProjectionMask::roots(schema, fields.iter().copied()));
        let rows = vec![RowSelector::skip(rows.start), RowSelector::select(rows.len())];
        let mut reader = reader.with_row_selection(rows.into()).build().map_err(|e| words(&e))?;
        reader.next().ok_or("there is nothing")?.map_err(|e| crate::columnar::words(&e))
    })?;
    if batch.num_rows() != rows.len() {
        return Err(Error::data("there are fewer rows"));
    }
    let mut in_file = fields.to_vec();
    in_file.sort_unstable();
    Ok(fields.iter().map(|field| batch.column(in_file.binary_search(field).unwrap()).clone()).collect())
}

fn same(here: &Values, there: &ArrayRef) -> bool {
    match here {
        Values::Array(array) => array == there,
        Values::Numbers(buf) => {
            let data = there.to_data();
            let size = there.data_type().primitive_width().unwrap();
            let bytes = &data.buffers()[0].as_slice()[data.offset() * size..][..there.len() * size];
            there.null_count() == 0 && buf.as_slice() == bytes
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_are_what_the_arrow_reader_gives(
        rows in 1..1500usize, distinct in 1..3000u64, seed: u16, way in ways(), cut in 0.0..1.0f64, len in 0.0..1.0f64
    ) {
        let batch = batch(rows, distinct, seed.into());
        let file = opened(&written(&batch, way)).unwrap();
        let start = (cut * rows as f64) as usize;
        let end = (start + 1 + (len * (rows - start) as f64) as usize).min(rows);
        // The order is the projection's, not the file's.
        let fields: Vec<usize> = (0..batch.num_columns()).rev().collect();
        let here = decoded_here(&file, &fields, start..end).unwrap();
        let there = decoded_there(&file, &fields, start..end).unwrap();
        let in_file = group_in_file(&file, &fields, 1 << 20).decode(start..end).unwrap();
        prop_assert!(in_file.iter().zip(&there).all(|(here, there)| same(here, there)));
        for ((field, here), there) in fields.iter().zip(&here).zip(&there) {
            prop_assert!(same(here, there), "{}", batch.schema().field(*field));
            // With version 2, plain numbers are stored as differences.
            let is_ours = super::pages::unpacks(way.compression) && way.version == WriterVersion::PARQUET_1_0;
            if is_ours && batch.column(*field).null_count() == there.null_count() {
                prop_assert_eq!(matches!(here, Values::Numbers(_)),
                    NUMBERS.contains(field) || MAY_BE_NULL.contains(field) && there.null_count() == 0, "{}", field);
            }
        }
    }

    #[test]
    fn damage_is_an_error_or_other_values(
        seed: u16, way in ways(), places in prop::collection::vec((0.0..1.0f64, any::<u8>()), 1..4)
    ) {
        let batch = batch(700, 200, seed.into());
        let mut bytes = written(&batch, way);
        for (place, byte) in places {
            let at = (place * (bytes.len() - 8) as f64) as usize;
            bytes[at] = byte;
        }
        let Ok(file) = opened(&bytes) else { return Ok(()) };
        let rows = file.group_rows(0).min(5000) as usize;
        if file.groups() == 0 || rows == 0 || file.schema().fields().len() < batch.num_columns() {
            return Ok(());
        }
        for field in NUMBERS {
            let (Ok(here), Ok(there)) = (decoded_here(&file, &[field], 0..rows), decoded_there(&file, &[field], 0..rows))
            else { continue };
            prop_assert!(same(&here[0], &there[0]));
        }
    }
}

#[test]
fn levels_say_whether_there_are_nulls() {
    let batch = batch(400, 50, 1);
    let way = Way {
        compression: Compression::SNAPPY,
        version: WriterVersion::PARQUET_1_0,
        page_bytes: 5000,
        dictionary_bytes: 4000,
        dictionary: true,
        index: true,
    };
    let file = opened(&written(&batch, way)).unwrap();
    for (field, expected) in [("longs", true), ("holes", false), ("late", false), ("small", false), ("seconds", false)]
    {
        let root = batch.schema().index_of(field).unwrap();
        let values = decoded_here(&file, &[root], 0..400).unwrap();
        assert_eq!(matches!(values[0], Values::Numbers(_)), expected, "{field}");
    }
    let times = batch.column_by_name("times").unwrap().as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
}

fn zigzag(out: &mut Vec<u8>, n: i32) {
    crate::wire::put_varint(out, u64::from((n << 1 ^ n >> 31) as u32));
}

/// A page header: kind, sizes, and the struct of its kind.
fn header(kind: i32, size: i32, packed: i32, number: u8, fields: &[(u8, i32)]) -> Vec<u8> {
    let mut out = Vec::new();
    for n in [kind, size, packed] {
        out.push(0x15);
        zigzag(&mut out, n);
    }
    out.push((number - 3) << 4 | 12);
    let mut last = 0;
    for (field, n) in fields {
        out.push((field - last) << 4 | 5);
        zigzag(&mut out, *n);
        last = *field;
    }
    out.extend([0, 0]);
    out
}

fn read_all(chunk: &[u8], compression: Compression, rows: usize) -> Result<Option<Vec<i32>>> {
    let mut out = vec![[0; 4]; rows];
    let numbers = Numbers::new(Pages::new(chunk.to_vec().into(), 1000, compression), false).expect("a few pages");
    let is_read = numbers.read::<4>(0..rows, &mut out, &Room::new(0))?;
    Ok(is_read.then(|| out.into_iter().map(i32::from_le_bytes).collect()))
}

fn message(chunk: &[u8], compression: Compression) -> String {
    read_all(chunk, compression, 3).unwrap_err().to_string()
}

#[test]
fn pages_by_hand() {
    let plain = |values: &[i32]| {
        let body: Vec<u8> = values.iter().flat_map(|n| n.to_le_bytes()).collect();
        let n = body.len() as i32;
        [header(0, n, n, 5, &[(1, values.len() as i32), (2, 0), (3, 3), (4, 3)]), body].concat()
    };
    let none = Compression::UNCOMPRESSED;
    assert_eq!(read_all(&[plain(&[1, 2]), plain(&[3])].concat(), none, 3).unwrap(), Some(vec![1, 2, 3]));
    assert!(message(&plain(&[1, 2]), none).contains("fewer rows than it says"));
    // A page that has fewer values than its header says.
    let short = [header(0, 8, 8, 5, &[(1, 3), (2, 0)]), vec![0; 8]].concat();
    assert!(message(&short, none).contains("fewer values than it says"), "{}", message(&short, none));
    assert_eq!(read_all(&short, none, 3).unwrap_err().at().byte, Some(1000));
    // By a dictionary: one run of place 1, then places 0, 1, 0 packed into two bits each.
    let dictionary = [header(2, 8, 8, 7, &[(1, 2), (2, 0)]), [7i32, 9].iter().flat_map(|n| n.to_le_bytes()).collect()];
    let places = |bytes: &[u8], values: i32| {
        let n = bytes.len() as i32;
        [header(0, n, n, 5, &[(1, values), (2, 8), (3, 3), (4, 3)]), bytes.to_vec()].concat()
    };
    let by_places = |bytes: &[u8], values| [dictionary.concat(), places(bytes, values)].concat();
    let runs = [2, 4, 1, 3, 0b0100];
    assert_eq!(read_all(&by_places(&runs, 5), none, 5).unwrap(), Some(vec![9, 9, 7, 9, 7]));
    assert!(message(&places(&runs, 5), none).contains("there is none"));
    assert!(message(&by_places(&[2, 6, 2], 3), none).contains("a place that the dictionary does not have"));
    assert!(message(&by_places(&[2, 3, 0xff], 3), none).contains("a place that the dictionary does not have"));
    assert!(message(&by_places(&[33, 6, 0, 0, 0, 0, 0], 3), none).contains("more than 32 bits"));
    assert!(message(&by_places(&[2, 2], 3), none).contains("fewer values"));
    assert!(message(&by_places(&[], 3), none).contains("it is empty"));
    // No bits at all: each place is the first.
    assert_eq!(read_all(&by_places(&[0, 6], 3), none, 3).unwrap(), Some(vec![7, 7, 7]));
    assert_eq!(read_all(&by_places(&[0, 3], 3), none, 3).unwrap(), Some(vec![7, 7, 7]));
    let longer = [header(2, 8, 8, 7, &[(1, 3), (2, 0)]), vec![0; 8], places(&runs, 5)].concat();
    assert!(message(&longer, none).contains("a dictionary has 2 values of 3"));
    // Encodings that are left to others.
    assert_eq!(read_all(&[header(0, 4, 4, 5, &[(1, 3), (2, 5)]), vec![0; 4]].concat(), none, 3).unwrap(), None);
}

#[test]
fn sizes_that_cannot_be_are_refused_before_anything_is_taken_for_them() {
    let page = |size, packed, body: &[u8]| [header(0, size, packed, 5, &[(1, 3), (2, 0)]), body.to_vec()].concat();
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())] {
        let text = message(&page(i32::MAX, 12, &[0; 12]), compression);
        assert!(text.contains("12 bytes cannot be 2147483647 bytes"), "{text}");
        assert!(message(&page(12, 900, &[0; 12]), compression).contains("claims to have 900 bytes"));
        assert!(message(&page(-1, 12, &[0; 12]), compression).contains("negative"));
        assert!(message(&page(12, -1, &[0; 12]), compression).contains("negative"));
    }
    let text = message(&page(100, 12, &[7; 12]), Compression::SNAPPY);
    assert!(text.contains("cannot be decompressed") && text.contains("a page is damaged"), "{text}");
    assert!(message(&page(13, 12, &[7; 12]), Compression::UNCOMPRESSED).contains("has 12 bytes and claims to have 13"));
    // Levels of version 2 beyond the page.
    let levels = header(3, 12, 12, 8, &[(1, 3), (2, 0), (3, 3), (4, 0), (5, 10), (6, 10)]);
    assert!(message(&[levels, vec![0; 12]].concat(), Compression::UNCOMPRESSED).contains("levels are longer"));
    // Headers that end early, are nested without end, or have lists of more than there is.
    for bytes in [&[0x15][..], &[0x1c; 100], &[0x19, 0xf5, 0xff, 0xff, 0xff, 0x7f], &[0x1b, 0xff, 0x7f, 0x55]] {
        assert!(message(bytes, Compression::UNCOMPRESSED).contains("its header cannot be read"));
    }
}

#[test]
fn checksums_of_pages_are_checked() {
    let body: Vec<u8> = [1i32, 2, 3].iter().flat_map(|n| n.to_le_bytes()).collect();
    let with = |crc: u32| {
        let plain = header(0, 12, 12, 5, &[(1, 3), (2, 0)]);
        // Field 4 stands between the sizes and the struct.
        let mut out = plain[..6].to_vec();
        out.push(0x15);
        zigzag(&mut out, crc as i32);
        out.push(0x1c);
        out.extend(&plain[7..]);
        [out, body.clone()].concat()
    };
    let right = crc32fast::hash(&body);
    assert_eq!(read_all(&with(right), Compression::UNCOMPRESSED, 3).unwrap(), Some(vec![1, 2, 3]));
    assert!(message(&with(right ^ 1), Compression::UNCOMPRESSED).contains("checksum does not fit"));
}

const SMALL_PAGES: Way = Way {
    compression: Compression::SNAPPY,
    version: WriterVersion::PARQUET_1_0,
    page_bytes: 600,
    dictionary_bytes: 4000,
    dictionary: true,
    index: true,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn pieces_by_many_threads_are_what_the_whole_is(
        rows in 1..1500usize, distinct in 1..3000u64, way in ways(), piece in 1..700usize, keep in 0..40_000usize
    ) {
        let batch = batch(rows, distinct, 7);
        let file = opened(&written(&batch, way)).unwrap();
        let fields: Vec<usize> = (0..batch.num_columns()).collect();
        let whole = decoded_there(&file, &fields, 0..rows).unwrap();
        let group = group(&file, &fields, keep).unwrap();
        let start = &std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| loop {
                    let from = start.fetch_add(piece, std::sync::atomic::Ordering::Relaxed);
                    if from >= rows {
                        break;
                    }
                    let to = (from + piece).min(rows);
                    for (here, there) in group.decode(from..to).unwrap().iter().zip(&whole) {
                        assert!(same(here, &there.slice(from, to - from)));
                    }
                });
            }
        });
    }
}

#[test]
fn pages_are_kept_for_the_next_piece_and_no_longer() {
    let batch = batch(1000, 300, 3);
    let file = opened(&written(&batch, SMALL_PAGES)).unwrap();
    let kept = |keep_bytes, pieces: &[(usize, usize)]| {
        let group = group(&file, &[2], keep_bytes).unwrap();
        pieces.iter().for_each(|&(from, to)| drop(group.decode(from..to).unwrap()));
        group.kept_bytes()
    };
    // Nothing for one piece; a dictionary and a page between two.
    assert_eq!(kept(1 << 20, &[(0, 1000)]), 0);
    assert!((2000..6000).contains(&kept(1 << 20, &[(0, 500)])), "{}", kept(1 << 20, &[(0, 500)]));
    assert_eq!(kept(1 << 20, &[(0, 500), (500, 1000)]), 0);
    assert_eq!(kept(1 << 20, &[(500, 1000), (0, 500)]), 0);
    assert!(kept(2000, &[(0, 500)]) <= 2000);
}

#[test]
fn damage_costs_the_rows_behind_it() {
    let batch = batch(1000, 300, 3);
    let mut bytes = written(&batch, Way { dictionary: false, ..SMALL_PAGES });
    let file = opened(&bytes).unwrap();
    let (start, len) = file.meta.metadata().row_group(0).column(2).byte_range();
    let chunk = bytes::Bytes::from(bytes[start as usize..][..len as usize].to_vec());
    let mut pages = Pages::new(chunk, 0, Compression::SNAPPY);
    (0..6).for_each(|_| drop(pages.next().unwrap()));
    assert!(pages.left() > 100);
    let at = (start + len - pages.left()) as usize;
    bytes[at] = 0xff;
    let group = group(&opened(&bytes).unwrap(), &[2], 1 << 20).unwrap();
    assert!(matches!(group.decode(0..300).unwrap()[0], Values::Numbers(_)));
    let error = group.decode(500..1000).err().unwrap();
    assert!(error.message().contains("column \"longs\": a page is damaged: its header cannot be read"), "{error}");
    assert_eq!(error.at().byte, Some(at as u64));
}

#[test]
fn pages_without_number_are_left_to_others() {
    let page = [header(0, 4, 4, 5, &[(1, 1), (2, 0), (3, 3), (4, 3)]), vec![7, 0, 0, 0]].concat();
    let numbers = |pages: usize| {
        let chunk = page.repeat(pages).into();
        Numbers::new(Pages::new(chunk, 0, Compression::UNCOMPRESSED), false)
    };
    assert!(numbers(200).is_some() && numbers(2000).is_none());
}

/// A source that counts what is read of it.
#[derive(Debug)]
struct Counted(Arc<dyn Source>, std::sync::atomic::AtomicUsize);

impl Source for Counted {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn stat(self: Arc<Self>) -> feedline_io::Task<Result<Stat>> {
        self.0.clone().stat()
    }
    fn read(self: Arc<Self>, at: u64, len: usize) -> feedline_io::Task<Result<Buf>> {
        self.1.fetch_add(len, std::sync::atomic::Ordering::Relaxed);
        self.0.clone().read(at, len)
    }
}

#[test]
fn pieces_of_a_row_group_that_is_not_read_ahead_share_its_pages() {
    let (rows, fields) = (20_000, [1, 2, 3, 4]);
    for (dictionary, compression) in [(true, Compression::SNAPPY), (false, Compression::UNCOMPRESSED)] {
        let (version, page_bytes, dictionary_bytes) = (WriterVersion::PARQUET_1_0, 8000, 16_000);
        let way = Way { compression, version, page_bytes, dictionary_bytes, dictionary, index: true };
        let file = opened(&written(&batch(rows, 500, 3), way)).unwrap();
        let counted = Arc::new(Counted(file.source().clone(), Default::default()));
        let file = Arc::new(ParquetFile::open(counted.clone()).unwrap());
        let read = |keep_bytes: usize, piece: usize| {
            counted.1.store(0, std::sync::atomic::Ordering::Relaxed);
            let group = group_in_file(&file, &fields, keep_bytes);
            for start in (0..rows).step_by(piece) {
                let values = group.decode(start..start + piece).unwrap();
                assert_eq!(values.iter().all(|v| matches!(v, Values::Numbers(_))), keep_bytes > 0);
                let there = decoded_there(&file, &fields, start..start + piece).unwrap();
                assert!(values.iter().zip(&there).all(|(here, there)| same(here, there)));
            }
            assert_eq!(group.kept_bytes(), 0, "all rows were read");
            counted.1.load(std::sync::atomic::Ordering::Relaxed)
        };
        // Less what the comparison reads.
        let compared = |piece: usize| {
            counted.1.store(0, std::sync::atomic::Ordering::Relaxed);
            (0..rows).step_by(piece).for_each(|start| {
                decoded_there(&file, &fields, start..start + piece).unwrap();
            });
            counted.1.load(std::sync::atomic::Ordering::Relaxed)
        };
        let once = read(1 << 20, rows) - compared(rows);
        assert_eq!(read(1 << 20, 500) - compared(500), once);
        assert!(read(0, 500) - compared(500) > 2 * once, "what it is compared with reads pages again and again");
    }
}

/// Strings of which each is the one before, and one of a few letters in front: a file of some kilobytes.
fn alike(rows: usize, length: usize, compression: Compression) -> Vec<u8> {
    let long = "x".repeat(length);
    let mut strings = arrow_array::builder::StringViewBuilder::new().with_fixed_block_size(1 << 20);
    let block = strings.append_block(long.as_bytes().to_vec().into());
    strings.append_value("a");
    (1..rows).for_each(|_| strings.try_append_view(block, 0, length as u32).unwrap());
    let batch = RecordBatch::try_from_iter([("s", Arc::new(strings.finish()) as ArrayRef)]).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_compression(compression)
        .set_encoding(parquet::basic::Encoding::DELTA_BYTE_ARRAY)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn strings_that_become_more_than_there_is_room_for_are_refused() {
    let (rows, length) = (2000, 5000);
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4_RAW] {
        let bytes = alike(rows, length, compression);
        assert!(bytes.len() < 20_000, "{} bytes", bytes.len());
        let file = opened(&bytes).unwrap();
        for group in
            [group(&file, &[0], 0).unwrap(), group_in_file(&file, &[0], 0), group_in_file(&file, &[0], 1 << 20)]
        {
            // All of them are ten times as much; a few are not.
            let error = group.decode(0..rows).err().unwrap();
            assert_eq!((error.kind(), error.at().byte), (Kind::Budget, Some(4)), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("row group 0 cannot be decoded: column \"s\"") && text.contains("bytes of strings"),
                "{text}"
            );
            for start in [0, 1, 700, rows - 100] {
                let values = group.decode(start..start + 100).unwrap();
                let Values::Array(array) = &values[0] else { panic!("strings are arrays") };
                let strings: Vec<&str> = array.as_string_view().iter().map(Option::unwrap).collect();
                assert!(strings[1..].iter().all(|s| s.len() == length));
                assert_eq!(strings[0].len(), if start == 0 { 1 } else { length });
            }
        }
    }
}

#[test]
fn dictionaries_that_claim_too_much_are_refused() {
    let text: StringArray = (0..50).map(|i| Some((i % 3).to_string())).collect();
    let batch = RecordBatch::try_from_iter([("s", Arc::new(text) as ArrayRef)]).unwrap();
    let properties = WriterProperties::builder().build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let mut bytes = writer.into_inner().unwrap();
    // The number of its values, in the header of the first page.
    let at = bytes[4..].windows(3).position(|w| w == [0x4c, 0x15, 6]).unwrap() + 4;
    bytes[at + 2] = 100;
    let error = decoded_here(&opened(&bytes).unwrap(), &[0], 0..50).err().unwrap();
    assert!(error.to_string().contains("a dictionary of 15 bytes claims to have 50 values"), "{error}");
}

#[test]
fn the_pieces_of_a_row_group_share_its_dictionary() {
    let (rows, length) = (64, 10_000);
    let text = |i: usize| format!("{i:02}").repeat(length / 2);
    let strings: StringArray = (0..rows).map(|i| Some(text(i))).collect();
    let batch = RecordBatch::try_from_iter([("s", Arc::new(strings) as ArrayRef)]).unwrap();
    for (compression, page_rows) in
        [(Compression::SNAPPY, 8), (Compression::SNAPPY, 1 << 20), (Compression::UNCOMPRESSED, 8)]
    {
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_dictionary_page_size_limit(1 << 20)
            .set_write_batch_size(8)
            .set_data_page_row_count_limit(page_rows)
            .build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let file = opened(&writer.into_inner().unwrap()).unwrap();
        let account = feedline_io::Account::open(1 << 30, usize::MAX);
        let entered = feedline_io::Account::enter(Some(account));
        let group = group_in_file(&file, &[0], 1 << 20);
        // The first of them passes pages over, the last does not.
        let blocks: Vec<*const u8> = [16..32, 48..64, 0..16]
            .map(|piece: Range<usize>| {
                let values = group.decode(piece.clone()).unwrap();
                let Values::Array(array) = &values[0] else { panic!("strings are arrays") };
                let strings = array.as_string_view();
                assert!(strings.iter().map(Option::unwrap).eq(piece.map(text)));
                assert_eq!(strings.data_buffers().len(), 1);
                strings.data_buffers()[0].as_ptr()
            })
            .to_vec();
        assert!(blocks.iter().all(|block| *block == blocks[0]), "each has its own: {blocks:?}");
        let bytes = group.dictionary_bytes();
        assert_eq!(bytes, rows * (length + 4));
        drop(entered);
        assert!(account.live() >= bytes, "{} of {bytes} bytes are charged", account.live());
        drop(group);
        assert!(account.live() < bytes / 4, "{}", account.live());
        account.close();
    }
}

#[test]
fn pages_of_strings_count_while_somebody_has_them() {
    let text = |i: usize| format!("{i:05}").repeat(20);
    let strings: StringArray = (0..2000).map(|i| Some(text(i))).collect();
    let batch = RecordBatch::try_from_iter([("s", Arc::new(strings) as ArrayRef)]).unwrap();
    for compression in [Compression::SNAPPY, Compression::LZ4_RAW] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let (page_bytes, dictionary_bytes) = (20_000, 1000);
            let way = Way { compression, version, page_bytes, dictionary_bytes, dictionary: false, index: false };
            let file = opened(&written(&batch, way)).unwrap();
            let account = feedline_io::Account::open(1 << 30, usize::MAX);
            let entered = feedline_io::Account::enter(Some(account));
            let values = group_in_file(&file, &[0], 0).decode(0..2000).unwrap();
            drop(entered);
            let live = account.live();
            assert!((200_000..350_000).contains(&live), "{compression:?} {version:?}: {live} bytes of 200,000");
            drop(values);
            // A thread counts some for itself before it adds them up.
            assert!(account.live() <= 64 << 10, "{}", account.live());
            account.close();
        }
    }
}

/// The Arrow reader would wait for the levels of the others forever.
#[test]
fn lists_whose_levels_end_early_are_refused() {
    let mut lists = ListBuilder::new(Int64Builder::new());
    for i in 0..60 {
        lists.values().append_value(i);
        lists.append(true);
    }
    let batch = RecordBatch::try_from_iter([("l", Arc::new(lists.finish()) as ArrayRef)]).unwrap();
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let way = Way {
            compression: Compression::UNCOMPRESSED,
            version,
            page_bytes: 1 << 20,
            dictionary_bytes: 1 << 20,
            dictionary: false,
            index: false,
        };
        let mut bytes = written(&batch, way);
        let read = |bytes: &[u8], rows: Range<usize>| {
            let file = Arc::new(ParquetFile::open(crate::fuzzing::File::of(bytes)).unwrap());
            Group::new(&file, 0, &file.projection(&[0]), vec![], 0, 1 << 20).decode(rows).map(drop)
        };
        assert!(read(&bytes, 5..9).is_ok());
        // A run of 60 levels that are 0, and behind it that of definition levels.
        let levels: &[u8] = match version {
            WriterVersion::PARQUET_1_0 => &[2, 0, 0, 0, 120, 0, 2, 0, 0, 0, 120, 2],
            WriterVersion::PARQUET_2_0 => &[120, 0, 120, 2],
        };
        let at = bytes.windows(levels.len()).position(|b| b == levels).unwrap();
        let at = at + levels.iter().position(|b| *b == 120).unwrap();
        for run in [2, 0] {
            bytes[at] = run;
            for rows in [5..9, 0..60, 0..4] {
                let error = read(&bytes, rows).unwrap_err();
                assert!(error.message().contains("its levels end early"), "{error}");
            }
        }
    }
    // 32 bits of this number of levels are none.
    assert!(!are_there(&[0x80, 0x80, 0x80, 0x80, 0x20, 0], 1, 5));
}
