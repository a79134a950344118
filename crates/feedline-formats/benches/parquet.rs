//! Rows of a Parquet file of 40 columns, as a `Group` reads them and as the Arrow reader does: nanoseconds a row, one
//! thread; and those of a row group of a million rows in pieces of 31,250, with and without pages that are kept, of bytes
//! that were read ahead and from the file.
//! `cargo bench -p feedline-formats --features columnar --bench parquet`

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use feedline_formats::columnar::Values;
use feedline_formats::parquet::{Group, ParquetFile, Projection};
use feedline_io::Buf;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::sync::Arc;
use std::time::Instant;

const ROWS: usize = 25_000;
const LARGE_ROWS: usize = 1_000_000;
const PIECE_ROWS: usize = 31_250;
const TURNS: usize = 31;

/// 13 columns of floats, nearly all different, and 27 of whole numbers, of which some are common.
fn table(rows: usize) -> RecordBatch {
    let mut state = 1u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let column = |j: usize| -> (String, ArrayRef, bool) {
        let most = 4. * 250_000f64.powf(j as f64 / 26.);
        match j {
            0..27 => {
                let items: Vec<i64> = (0..rows).map(|_| (most * random().powi(3)) as i64).collect();
                (format!("C{j}"), Arc::new(Int64Array::from(items)), true)
            }
            _ => {
                let items: Vec<f32> = (0..rows).map(|_| (random() * 3.).exp() as f32).collect();
                (format!("I{j}"), Arc::new(Float32Array::from(items)), true)
            }
        }
    };
    RecordBatch::try_from_iter_with_nullable((0..40).map(column)).unwrap()
}

fn written(batch: &RecordBatch, dictionaries: bool, compression: Compression) -> bytes::Bytes {
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_dictionary_enabled(dictionaries)
        .set_max_row_group_row_count(Some(LARGE_ROWS))
        .set_data_page_row_count_limit(LARGE_ROWS)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap().into()
}

/// An open file, its columns, and what was read of its only row group.
struct Read {
    file: Arc<ParquetFile>,
    projection: Projection,
    read: Vec<(u64, Buf)>,
}

impl Read {
    fn new(bytes: &[u8]) -> Read {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let file = Arc::new(ParquetFile::open(feedline_io::open(file.path().to_str().unwrap()).unwrap()).unwrap());
        let projection = file.projection(&(0..40).collect::<Vec<_>>());
        let read = |range: std::ops::Range<u64>| {
            let buf = file.source().clone().read(range.start, (range.end - range.start) as usize).wait().unwrap();
            (range.start, buf)
        };
        let read: Vec<_> = file.ranges(0, &projection).into_iter().map(read).collect();
        Read { file, projection, read }
    }
    fn group(&self, keep_bytes: usize) -> Group {
        Group::new(&self.file, 0, &self.projection, self.read.clone(), keep_bytes, usize::MAX)
    }
    /// The same, of which nothing was read.
    fn in_file(&self, keep_bytes: usize) -> Group {
        Group::new(&self.file, 0, &self.projection, vec![], keep_bytes, usize::MAX)
    }
}

/// The median, in nanoseconds a row.
fn per_row(mut times: Vec<u128>, rows: usize) -> f64 {
    times.sort_unstable();
    times[times.len() / 2] as f64 / rows as f64
}

fn main() {
    let batch = table(ROWS);
    let ways = [
        ("dictionaries, snappy", true, Compression::SNAPPY),
        ("dictionaries, zstd", true, Compression::ZSTD(ZstdLevel::default())),
        ("plain, no compression", false, Compression::UNCOMPRESSED),
    ];
    for (what, dictionaries, compression) in ways {
        let bytes = written(&batch, dictionaries, compression);
        let read = Read::new(&bytes);
        let (mut here, mut there) = (vec![], vec![]);
        for _ in 0..TURNS {
            let start = Instant::now();
            let values = read.group(0).decode(0..ROWS).unwrap();
            here.push(start.elapsed().as_nanos());
            assert!(values.iter().all(|v| matches!(v, Values::Numbers(_))));
            drop(values);
            let start = Instant::now();
            let mut reader =
                ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap().with_batch_size(ROWS).build().unwrap();
            let arrays = reader.next().unwrap().unwrap();
            there.push(start.elapsed().as_nanos());
            assert_eq!(arrays.num_rows(), ROWS);
        }
        let (here, there) = (per_row(here, ROWS), per_row(there, ROWS));
        println!("{what:24} {here:6.0} ns a row, the Arrow reader {there:6.0}: {:.2} x", there / here);
    }
    let bytes = written(&table(LARGE_ROWS), true, Compression::SNAPPY);
    let read = Read::new(&bytes);
    let (mut kept, mut anew, mut there, mut far, mut far_anew) = (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..3 {
        let groups: [(&dyn Fn() -> Group, _); 4] = [
            (&|| read.group(256 << 20), &mut kept),
            (&|| read.group(0), &mut anew),
            (&|| read.in_file(256 << 20), &mut far),
            (&|| read.in_file(0), &mut far_anew),
        ];
        for (group, times) in groups {
            let start = Instant::now();
            let group = group();
            (0..LARGE_ROWS).step_by(PIECE_ROWS).for_each(|row| drop(group.decode(row..row + PIECE_ROWS).unwrap()));
            times.push(start.elapsed().as_nanos());
        }
        let start = Instant::now();
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap();
        let rows: usize = builder.with_batch_size(PIECE_ROWS).build().unwrap().map(|b| b.unwrap().num_rows()).sum();
        there.push(start.elapsed().as_nanos());
        assert_eq!(rows, LARGE_ROWS);
    }
    let (kept, anew, there) = (per_row(kept, LARGE_ROWS), per_row(anew, LARGE_ROWS), per_row(there, LARGE_ROWS));
    println!("a million rows in pieces {kept:6.0} ns a row, {anew:.0} if nothing is kept; the Arrow reader, one after");
    println!("the other                {there:6.0}: {:.2} x", there / kept);
    let (far, far_anew) = (per_row(far, LARGE_ROWS), per_row(far_anew, LARGE_ROWS));
    println!("the same from the file   {far:6.0} ns a row, {far_anew:.0} if nothing is kept: {:.2} x", far_anew / far);
}
