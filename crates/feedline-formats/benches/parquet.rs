//! Rows of a Parquet file of 40 columns, as `decode` reads them and as the Arrow reader does: nanoseconds a row, one thread.
//! `cargo bench -p feedline-formats --features columnar --bench parquet`

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use feedline_formats::columnar::Values;
use feedline_formats::parquet::ParquetFile;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::sync::Arc;
use std::time::Instant;

const ROWS: usize = 25_000;
const TURNS: usize = 31;

/// 13 columns of floats, nearly all different, and 27 of whole numbers, of which some are common.
fn table() -> RecordBatch {
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
                let items: Vec<i64> = (0..ROWS).map(|_| (most * random().powi(3)) as i64).collect();
                (format!("C{j}"), Arc::new(Int64Array::from(items)), true)
            }
            _ => {
                let items: Vec<f32> = (0..ROWS).map(|_| (random() * 3.).exp() as f32).collect();
                (format!("I{j}"), Arc::new(Float32Array::from(items)), true)
            }
        }
    };
    RecordBatch::try_from_iter_with_nullable((0..40).map(column)).unwrap()
}

fn main() {
    let batch = table();
    let ways = [
        ("dictionaries, snappy", true, Compression::SNAPPY),
        ("dictionaries, zstd", true, Compression::ZSTD(ZstdLevel::default())),
        ("plain, no compression", false, Compression::UNCOMPRESSED),
    ];
    for (what, dictionaries, compression) in ways {
        let properties =
            WriterProperties::builder().set_compression(compression).set_dictionary_enabled(dictionaries).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let bytes = bytes::Bytes::from(writer.into_inner().unwrap());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let file = ParquetFile::open(feedline_io::open(file.path().to_str().unwrap()).unwrap()).unwrap();
        let projection = file.projection(&(0..40).collect::<Vec<_>>());
        let read = |range: std::ops::Range<u64>| {
            let buf = file.source().clone().read(range.start, (range.end - range.start) as usize).wait().unwrap();
            (range.start, buf)
        };
        let read: Vec<_> = file.ranges(0, &projection).into_iter().map(read).collect();
        let (mut here, mut there) = (vec![], vec![]);
        for _ in 0..TURNS {
            let start = Instant::now();
            let values = file.decode(0, &projection, 0..ROWS, read.clone()).unwrap();
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
        here.sort_unstable();
        there.sort_unstable();
        let (here, there) = (here[TURNS / 2] as f64 / ROWS as f64, there[TURNS / 2] as f64 / ROWS as f64);
        println!("{what:24} {here:6.0} ns a row, the Arrow reader {there:6.0}: {:.2} x", there / here);
    }
}
