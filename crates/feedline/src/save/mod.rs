//! A dataset into files: one pass, dealt out to shards, each of which appears under its name only when all are whole.
//!
//! 1. A format is a `Writer` (one file each here): rows in, bytes out.
//! 2. `save` opens a temporary file for each shard and collects rows into blocks, of which each shard has its portion.
//!    Portions are encoded, compressed and written by the pool, those of different shards side by side (`portions.rs`).
//!    Then it finishes every writer, and gives all files their names together (`feedline-io/src/shards.rs`). A run that
//!    breaks off leaves nothing behind. What a killed process leaves is not read, and the next run removes it.
//! 3. Where a block ends is a matter of its rows alone, and so is what a writer is asked to do: files have the same bytes
//!    for any number of workers and any size of chunks.

#[cfg(feature = "columnar")]
mod arrays;
#[cfg(feature = "columnar")]
mod columnar;
mod csv;
#[cfg(feature = "columnar")]
mod folder;
mod json_lines;
#[cfg(feature = "columnar")]
mod lease;
#[cfg(feature = "columnar")]
mod logical;
mod npy;
mod output;
mod portions;
#[cfg(feature = "columnar")]
mod set;
#[cfg(feature = "columnar")]
mod stored;
mod tar;
mod tf_record;

pub use csv::names as column_names;
#[cfg(feature = "columnar")]
pub use folder::new_run;
#[cfg(feature = "columnar")]
pub use lease::Leased;
pub use output::{Output, Staged};
pub use portions::Portions;
#[cfg(feature = "columnar")]
pub use set::{
    MANIFEST, MOST_SHARDS, Manifest, SEEN, SetWriter, check_storable, compression, save_set, shard_numbers, tell_seen,
    within, without_numbers,
};
#[cfg(feature = "columnar")]
pub use stored::from_stored;
pub use tf_record::TfRecordWriter;

use crate::dataset::iterate;
use crate::element::{Chunk, Spec};
use crate::error::{Error, Result};
use crate::plan::{Bound, Card};
use crate::runtime::Iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows into one file.
pub trait Writer: Send {
    fn write(&mut self, rows: &Chunk) -> Result<()>;
    /// Rows that lie in several chunks; where they are cut must not be seen in the file.
    fn write_all(&mut self, pieces: &[Chunk]) -> Result<()> {
        pieces.iter().try_for_each(|rows| self.write(rows))
    }
    /// Bytes of rows that it collects, a row group for instance. They are charged to whoever writes.
    fn held_bytes(&self) -> usize {
        0
    }
    /// Writes them, however few they are.
    fn let_go(&mut self) -> Result<()> {
        Ok(())
    }
    /// Writes what is left and the end of the file.
    fn finish(self: Box<Self>) -> Result<Box<dyn Output>>;
}

/// How a format opens a file: on an output, for rows of this spec.
pub type Open<'a> = dyn Fn(Box<dyn Output>, &Spec) -> Result<Box<dyn Writer>> + Send + Sync + 'a;

/// A format that datasets can be written in.
pub struct Format {
    pub name: &'static str,
    /// What files of it are called.
    pub endings: &'static [&'static str],
    /// Reads the options and makes the function that opens files.
    pub make: fn(&serde_json::Value) -> Result<Box<Open<'static>>>,
}

/// Every format that can be written. Adding one: a file here, and its line.
pub static FORMATS: &[&Format] = &[
    #[cfg(feature = "columnar")]
    &columnar::ARROW,
    &csv::FORMAT,
    &json_lines::FORMAT,
    &npy::FORMAT,
    #[cfg(feature = "columnar")]
    &columnar::PARQUET,
    &tar::FORMAT,
    &tf_record::FORMAT,
];

/// The function that opens files of a format, under these options.
pub fn format(name: &str, options: &serde_json::Value) -> Result<Box<Open<'static>>> {
    let found = FORMATS.iter().find(|f| f.name == name).ok_or_else(|| {
        let names: Vec<&str> = FORMATS.iter().map(|f| f.name).collect();
        Error::usage(format!("there is no format {name:?} to write; there are {}", names.join(", ")))
    })?;
    (found.make)(options).map_err(|e| e.in_op("save"))
}

/// Where to write.
#[derive(Clone, Debug)]
pub struct Target {
    pub path: String,
    /// None: one file under that very name. `Some(n)`: `name-00000-of-0000n.ending`.
    pub shards: Option<usize>,
    /// Replace files that exist already.
    pub overwrite: bool,
}

impl Target {
    pub fn names(&self) -> Result<Vec<String>> {
        let Some(shards) = self.shards else { return Ok(vec![self.path.clone()]) };
        if shards == 0 || shards > 99_999 {
            return Err(Error::usage(format!("shards must be between 1 and 99999, not {shards}")));
        }
        let cut = self.path.rfind('/').map_or(0, |i| i + 1);
        let (folder, name) = self.path.split_at(cut);
        // The whole ending moves behind the number: `train.tfrecord.gz` has two parts.
        let (stem, ending) = match name.find('.').filter(|i| *i > 0) {
            Some(dot) => name.split_at(dot),
            None => (name, ""),
        };
        Ok((0..shards).map(|i| format!("{folder}{stem}-{i:05}-of-{shards:05}{ending}")).collect())
    }
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    pub files: Vec<String>,
    pub elements: u64,
    pub bytes: u64,
}

/// How far a pass has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub elements: u64,
    pub bytes: u64,
}

/// Writes all elements. The first error ends it; `watch` hears of it ten times a second, and its error ends it too.
pub fn save(
    bound: &Bound,
    target: &Target,
    open: &Open<'_>,
    watch: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Saved> {
    save_from(bound, &|| iterate(bound), target, open, watch)
}

/// The same with a pass that is started once the files are there.
fn save_from(
    bound: &Bound,
    start: &dyn Fn() -> Result<Iter>,
    target: &Target,
    open: &Open<'_>,
    watch: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Saved> {
    if bound.plan.card == Card::Infinite {
        return Err(Error::usage("the dataset is endless; cut it with take(n)").in_op("save"));
    }
    let names = target.names()?;
    feedline_io::sweep(&names);
    if !target.overwrite {
        for name in &names {
            output::refuse_existing(name)?;
        }
    }
    let spec = &bound.plan.spec;
    let open = |name: &String| {
        let writer = open(Box::new(Staged::create(name)?), spec).map_err(|e| e.in_file(name, None))?;
        Ok(OpenFile { name: name.clone(), writer: Some(writer), output: None })
    };
    let files = names.iter().map(open).collect::<Result<Vec<_>>>().map_err(|e| e.in_op("save"))?;
    let (elements, outputs) = write(start()?, files, watch)?;
    let (sinks, sizes): (Vec<_>, Vec<u64>) = outputs.into_iter().map(Output::into_sink).unzip();
    feedline_io::commit_together(sinks).map_err(|e| e.in_op("save"))?;
    let bytes = sizes.iter().sum();
    Ok(Saved { files: names, elements, bytes })
}

/// Rows of a portion take about so much: what is less is not worth a worker's while.
const PORTION_BYTES: usize = 1 << 20;
const PORTION_ROWS: usize = 8 << 10;
/// The part of the memory limit that a block may take. There are up to three: one that is being collected, and two under way.
const BLOCK_PART: usize = 64;
/// The part of the memory limit that the rows may take which all writers together collect.
const SHARE: usize = 8;

/// A file that is being written.
struct OpenFile {
    name: String,
    writer: Option<Box<dyn Writer>>,
    output: Option<Box<dyn Output>>,
}

impl OpenFile {
    fn named(&self, error: Error) -> Error {
        error.in_file(&self.name, None).in_op("save")
    }
    /// The next rows. What it collects of them takes no more than so many bytes.
    fn write(&mut self, pieces: &[Chunk], most: usize) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Err(Error::internal("the file is finished")) };
        let mut written = writer.write_all(pieces);
        if written.is_ok() && writer.held_bytes() > most {
            written = writer.let_go();
        }
        written.map_err(|e| self.named(e))
    }
    fn finish(&mut self) -> Result<()> {
        let writer = self.writer.take().ok_or_else(|| Error::internal("the file is finished"))?;
        self.output = Some(writer.finish().map_err(|e| self.named(e))?);
        Ok(())
    }
}

/// All rows of a pass, dealt out to files, and how many there were. The files are whole then, without their names.
fn write(
    mut iter: Iter,
    files: Vec<OpenFile>,
    watch: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<(u64, Vec<Box<dyn Output>>)> {
    let (limit, shards) = (iter.memory_limit(), files.len());
    let held = limit / SHARE / shards;
    let (pool, most) = iter.workers();
    // Parts of an object are waited for, which no worker may do.
    let pool = files.iter().all(|file| feedline_io::is_local(&file.name)).then_some(pool);
    let entered = iter.enter();
    let portions = Portions::new(pool, most);
    for file in files {
        portions.add(file);
    }
    drop(entered);
    let mut blocks = Blocks::new((PORTION_BYTES * shards).min(limit / BLOCK_PART).max(1), PORTION_ROWS * shards);
    let (mut elements, mut looked) = (0u64, Instant::now());
    loop {
        let mut stopped = false;
        let next = iter.next_chunk(&mut || watch(Progress { elements, bytes: 0 }).inspect_err(|_| stopped = true));
        // What writers make of the rows counts as the pipeline's.
        let entered = iter.enter();
        let (full, end) = match next {
            Ok(Some(chunk)) => (blocks.push(chunk), None),
            Ok(None) => (blocks.rest(), Some(Ok(()))),
            Err(error) if stopped => return Err(error),
            Err(error) => (blocks.rest(), Some(Err(error))),
        };
        for block in full {
            elements += block.rows as u64;
            deal(&portions, Arc::new(block), shards, held);
            portions.wait(blocks.bytes, &mut || watch(Progress { elements, bytes: 0 }))?;
        }
        if let Some(end) = end {
            // What is wrong with rows in front of an error is said first.
            portions.settle(&mut || watch(Progress { elements, bytes: 0 }))?;
            end?;
            break;
        }
        drop(entered);
        if looked.elapsed() > Duration::from_millis(100) {
            looked = Instant::now();
            watch(Progress { elements, bytes: 0 })?;
        }
    }
    let entered = iter.enter();
    (0..shards).for_each(|shard| portions.push(shard, 0, OpenFile::finish));
    let settled = portions.settle(&mut || watch(Progress { elements, bytes: 0 }));
    drop(entered);
    settled?;
    Ok((elements, portions.into_writers().into_iter().filter_map(|file| file.output).collect()))
}

/// Row `i` of everything goes to shard `i` modulo their number.
fn deal(portions: &Portions<OpenFile>, block: Arc<Block>, shards: usize, held: usize) {
    for shard in 0..shards {
        let rows = block.dealt(shard, shards).1;
        if rows == 0 {
            continue;
        }
        let (bytes, block) = ((block.bytes as u128 * rows as u128 / block.rows as u128) as usize, block.clone());
        portions.push(shard, bytes, move |file| file.write(&block.portion(shard, shards), held));
    }
}

/// Rows of all shards.
#[derive(Default)]
struct Block {
    /// How many there were before it.
    first: u64,
    chunks: Vec<Chunk>,
    rows: usize,
    bytes: usize,
}

impl Block {
    /// The first of its rows that is of a shard, and how many are.
    fn dealt(&self, shard: usize, shards: usize) -> (usize, usize) {
        let start = (shard + shards - (self.first % shards as u64) as usize) % shards;
        (start, self.rows.saturating_sub(start).div_ceil(shards))
    }
    fn portion(&self, shard: usize, shards: usize) -> Vec<Chunk> {
        if shards == 1 {
            return self.chunks.clone();
        }
        // Where the next row is, counted from the beginning of the chunk.
        let (mut at, _) = self.dealt(shard, shards);
        let mut pieces = Vec::with_capacity(self.chunks.len());
        for chunk in &self.chunks {
            let rows: Vec<usize> = (at..chunk.rows()).step_by(shards).collect();
            at = at + rows.len() * shards - chunk.rows();
            if !rows.is_empty() {
                pieces.push(chunk.take(&rows));
            }
        }
        pieces
    }
}

/// Collects rows into blocks of about so many bytes, by what is in them alone.
struct Blocks {
    bytes: usize,
    rows: usize,
    filling: Block,
}

impl Blocks {
    fn new(bytes: usize, rows: usize) -> Blocks {
        Blocks { bytes, rows, filling: Block::default() }
    }
    /// One more chunk, and the blocks that are full with it.
    fn push(&mut self, chunk: Chunk) -> Vec<Block> {
        let (mut full, mut from) = (Vec::new(), 0);
        for (row, bytes) in chunk.row_bytes().into_iter().enumerate() {
            self.filling.rows += 1;
            self.filling.bytes += bytes;
            if self.filling.bytes >= self.bytes || self.filling.rows >= self.rows {
                self.filling.chunks.push(chunk.slice(from..row + 1));
                from = row + 1;
                full.extend(self.rest());
            }
        }
        match from {
            0 => self.filling.chunks.push(chunk),
            from if from < chunk.rows() => self.filling.chunks.push(chunk.slice(from..chunk.rows())),
            _ => {}
        }
        full
    }
    /// What is left.
    fn rest(&mut self) -> Vec<Block> {
        let first = self.filling.first + self.filling.rows as u64;
        let full = std::mem::replace(&mut self.filling, Block { first, ..Block::default() });
        if full.rows > 0 { vec![full] } else { vec![] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;
    use crate::element::{DType, Tensor};
    use crate::ops::testing::failing;
    use crate::runtime::Pool;
    use serde_json::json;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    fn bound(ds: &Dataset) -> Bound {
        Bound { plan: ds.plan().clone(), env: Arc::new([]) }
    }
    fn strings(n: i64) -> Dataset {
        let text = |e: crate::element::Element| {
            Ok([Tensor::string(e[0].tensor().item::<i64>().to_string().as_bytes()).into()].into_iter().collect())
        };
        Dataset::range(n).unwrap().map_fn(Spec::scalar(DType::String), text).unwrap()
    }
    fn target(dir: &tempfile::TempDir, shards: Option<usize>) -> Target {
        Target { path: dir.path().join("a.tfrecord").to_str().unwrap().into(), shards, overwrite: false }
    }
    fn write(ds: &Dataset, target: &Target) -> Result<Saved> {
        save(&bound(ds), target, &*format("tf_record", &serde_json::json!({}))?, &mut |_| Ok(()))
    }

    #[test]
    fn shards_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let target = target(&dir, Some(3));
        let saved = write(&strings(10), &target).unwrap();
        assert_eq!((saved.elements, saved.files.len()), (10, 3));
        assert!(saved.files[1].ends_with("a-00001-of-00003.tfrecord"));
        let read = |name: &String| -> Vec<String> {
            let ds = Dataset::tf_record(&[name], "").unwrap();
            ds.iter().unwrap().map(|e| String::from_utf8(e.unwrap()[0].tensor().str_at(0).to_vec()).unwrap()).collect()
        };
        assert_eq!(
            saved.files.iter().map(read).collect::<Vec<_>>(),
            [vec!["0", "3", "6", "9"], vec!["1", "4", "7"], vec!["2", "5", "8"]]
        );
        let again = write(&strings(2), &target);
        assert!(again.unwrap_err().to_string().contains("exists"));
        assert!(write(&strings(2), &Target { overwrite: true, ..target }).is_ok());
    }

    #[test]
    fn text_formats_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let spec = |names: [&str; 3]| {
            let leaf = |dtype| crate::element::Tree::Leaf(crate::element::Leaf::scalar(dtype));
            let dtypes = [DType::String, DType::Int64, DType::Float64];
            let items = names.iter().zip(dtypes).map(|(name, dtype)| ((*name).into(), leaf(dtype))).collect();
            crate::element::Tree::Map { tag: None, items }
        };
        let row = |e: crate::element::Element| {
            let n = e[0].tensor().item::<i64>();
            let text = Tensor::string(format!("k{n},\"\n").as_bytes());
            let key = Tensor::string(format!("k{n}").as_bytes());
            let text = if n < 100 { text } else { key };
            Ok([text.into(), Tensor::scalar(n).into(), Tensor::scalar(n as f64 / 4.0).into()].into_iter().collect())
        };
        let shown = |ds: Dataset| -> Vec<String> { ds.iter().unwrap().map(|e| format!("{:?}", e.unwrap())).collect() };
        let written = |name: &str, ds: &Dataset, form: &str| {
            let path = dir.path().join(name).to_str().unwrap().to_owned();
            let target = Target { path, shards: Some(2), overwrite: false };
            let open = format(form, &serde_json::json!({})).unwrap();
            save(&bound(ds), &target, &*open, &mut |_| Ok(())).map(|saved| saved.files)
        };
        let ds = Dataset::range(5).unwrap().map_fn(spec(["t", "n", "x"]), row).unwrap();
        let even = Dataset::range_from(0, 5, 2).unwrap().map_fn(spec(["t", "n", "x"]), row).unwrap();
        let files = written("a.jsonl", &ds, "json_lines").unwrap();
        assert_eq!(shown(Dataset::json_lines(&files[..1]).unwrap()), shown(even));
        let files = written("a.csv", &ds, "csv").unwrap();
        let first = Dataset::csv(&files).unwrap().iter().unwrap().next().unwrap().unwrap();
        assert_eq!((first[0].tensor().str_at(0), first[1].tensor().item::<i32>()), (&b"k0,\"\n"[..], 0));
        let ds = Dataset::range_from(100, 103, 1).unwrap().map_fn(spec(["__key__", "cls", "x.txt"]), row).unwrap();
        let files = written("a.tar", &ds, "tar").unwrap();
        let sample = Dataset::web_dataset(&files[1..], false).unwrap().iter().unwrap().next().unwrap().unwrap();
        let parts: Vec<&[u8]> = sample.iter().map(|v| v.tensor().str_at(0)).collect();
        assert_eq!(parts, [&b"k101"[..], b"101", b"25.25"]);
        for (form, why) in [("csv", "rows of scalars"), ("json_lines", "is an object"), ("tar", "is a dictionary")] {
            let vectors = Dataset::range(4).unwrap().batch(2, false).unwrap();
            let said = written(&format!("bad.{form}"), &vectors, form).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }

    /// Saves on a pool of so many workers, in chunks of so many rows.
    fn save_on(
        workers: usize,
        chunk_rows: Option<usize>,
        memory_limit: Option<usize>,
        ds: &Dataset,
        target: &Target,
        open: &Open<'_>,
        watch: &mut dyn FnMut(Progress) -> Result<()>,
    ) -> Result<Saved> {
        let options = crate::Options { chunk_rows, memory_limit, ..Default::default() };
        let ds = bound(&ds.with_options(options).unwrap());
        let pool = Pool::new(workers);
        let saved = save_from(&ds, &|| Iter::new(&ds, 0, pool.clone()), target, open, watch);
        pool.stop();
        saved
    }
    fn contents(dir: &tempfile::TempDir) -> BTreeMap<String, Vec<u8>> {
        let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        files.map(|path| (path.file_name().unwrap().to_str().unwrap().into(), std::fs::read(path).unwrap())).collect()
    }
    /// Rows of a text, a number and a key, about 200 bytes each, which compress somewhat.
    fn rows(n: i64, only: &'static str) -> Dataset {
        let leaf = |dtype| crate::element::Tree::Leaf(crate::element::Leaf::scalar(dtype));
        let all = [("__key__", DType::String), ("n", DType::Int64), ("text", DType::String)];
        let items = all.map(|(name, dtype)| (name.into(), leaf(dtype)));
        let spec = match only {
            "" => crate::element::Tree::Map { tag: None, items: items.into() },
            "text" => Spec::scalar(DType::String),
            _ => Spec::scalar(DType::Int64),
        };
        let row = move |e: crate::element::Element| {
            let n = e[0].tensor().item::<i64>();
            let noise = (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let text = Tensor::string(format!("{noise:064b}").repeat(1 + noise as usize % 5).as_bytes());
            let key = Tensor::string(format!("{n:08}").as_bytes());
            Ok(match only {
                "" => vec![key.into(), Tensor::scalar(n).into(), text.into()],
                "text" => vec![text.into()],
                _ => vec![Tensor::scalar(noise as i64).into()],
            }
            .into())
        };
        Dataset::range(n).unwrap().map_fn(spec, row).unwrap()
    }

    #[test]
    fn files_are_the_same_for_any_number_of_workers_and_any_chunks() {
        const ROWS: i64 = 1500;
        let gzip = json!({ "compression_type": "GZIP" });
        let zstd = json!({ "compression_type": "ZSTD" });
        let cases = [
            ("tf_record", "text", json!({})),
            ("tf_record", "text", gzip.clone()),
            ("tf_record", "text", zstd.clone()),
            ("csv", "", json!({})),
            ("csv", "", gzip.clone()),
            ("json_lines", "", json!({})),
            ("json_lines", "", zstd),
            ("tar", "", json!({})),
            ("tar", "", gzip),
            ("npy", "n", json!({})),
            #[cfg(feature = "columnar")]
            ("parquet", "", json!({ "compression": "zstd", "row_group_rows": 300 })),
            #[cfg(feature = "columnar")]
            ("arrow", "", json!({ "compression": "zstd", "batch_rows": 100 })),
        ];
        for (name, only, options) in cases {
            let open = format(name, &options).unwrap();
            for shards in [None, Some(3)] {
                let ds = rows(ROWS, only);
                let mut first = None;
                // Blocks of 8 KiB: each shard gets many portions.
                for (workers, chunk_rows) in [(1, None), (2, Some(3)), (4, Some(77)), (4, None)] {
                    let dir = tempfile::tempdir().unwrap();
                    let path = dir.path().join("a.x").to_str().unwrap().into();
                    let target = Target { path, shards, overwrite: false };
                    let limit = Some(BLOCK_PART << 13);
                    let saved = save_on(workers, chunk_rows, limit, &ds, &target, &*open, &mut |_| Ok(())).unwrap();
                    assert_eq!((saved.elements, saved.files.len()), (ROWS as u64, shards.unwrap_or(1)));
                    let files = contents(&dir);
                    let same = first.get_or_insert_with(|| files.clone()) == &files;
                    assert!(same, "{name} {options}: {shards:?}, {workers} workers, chunks of {chunk_rows:?}");
                }
                // The same as one writer makes of the rows of a shard one by one, where that is not seen in the file.
                let is_packed_text = matches!(name, "csv" | "json_lines") && options != json!({});
                if matches!(name, "parquet" | "arrow") || is_packed_text {
                    continue;
                }
                let dir = tempfile::tempdir().unwrap();
                for shard in 0..shards.unwrap_or(1) {
                    let path = dir.path().join(shard.to_string());
                    let output = Box::new(Staged::create(path.to_str().unwrap()).unwrap());
                    let mut writer = open(output, ds.spec()).unwrap();
                    for row in ds.iter().unwrap().skip(shard).step_by(shards.unwrap_or(1)) {
                        writer.write(&Chunk::one(0, row.unwrap())).unwrap();
                    }
                    writer.finish().unwrap().commit().unwrap();
                }
                assert!(contents(&dir).values().eq(first.unwrap().values()), "{name} {options}: {shards:?}");
            }
        }
    }

    /// A writer of numbers that does something else at some of them.
    struct Odd<F> {
        output: Box<dyn Output>,
        at: F,
    }
    impl<F: Fn(i64) -> Result<()> + Send> Writer for Odd<F> {
        fn write(&mut self, rows: &Chunk) -> Result<()> {
            use std::io::Write;
            for row in 0..rows.rows() {
                let n = rows.element(row)[0].tensor().item::<i64>();
                (self.at)(n)?;
                self.output.write_all(&n.to_le_bytes()).map_err(|e| Error::io(&e))?;
            }
            Ok(())
        }
        fn finish(self: Box<Self>) -> Result<Box<dyn Output>> {
            Ok(self.output)
        }
    }
    fn odd(at: impl Fn(i64) -> Result<()> + Send + Sync + Clone + 'static) -> Box<Open<'static>> {
        Box::new(move |output, _| Ok(Box::new(Odd { output, at: at.clone() })))
    }

    #[test]
    fn the_first_error_of_a_writer_is_said_with_its_file_and_nothing_is_left() {
        let numbers = Dataset::range(20_000).unwrap();
        for (workers, chunk_rows) in [(1, None), (2, Some(7)), (4, Some(1)), (4, None)] {
            let run = |ds: &Dataset, open: &Open<'_>, watch: &mut dyn FnMut(Progress) -> Result<()>| {
                let dir = tempfile::tempdir().unwrap();
                let limit = Some(BLOCK_PART << 12);
                let said = save_on(workers, chunk_rows, limit, ds, &target(&dir, Some(3)), open, watch);
                assert_eq!(contents(&dir).len(), 0);
                said.unwrap_err()
            };
            // Shard 1 fails in an early block, the others in later ones.
            let fails = odd(|n| match n {
                1000 | 9000 | 9001 => Err(Error::data(format!("{n} is odd"))),
                _ => Ok(()),
            });
            let said = run(&numbers, &*fails, &mut |_| Ok(()));
            assert!(said.message().contains("1000 is odd"), "{said}");
            assert!(said.at().file.as_deref().unwrap().ends_with("a-00001-of-00003.tfrecord"), "{said}");
            // Also if the rows behind it cannot be read.
            let failing = failing(3000, &[1001]);
            let said = run(&failing, &*fails, &mut |_| Ok(()));
            assert!(said.message().contains("1000 is odd"), "{said}");
            let said = run(&failing, &*odd(|_| Ok(())), &mut |_| Ok(()));
            assert!(said.at().element == Some(1001), "{said:?}");
            let panics = odd(|n| if n == 5000 { panic!("planted") } else { Ok(()) });
            let said = run(&numbers, &*panics, &mut |_| Ok(()));
            assert!(said.kind() == crate::Kind::Internal && said.message().contains("planted"), "{said}");
            // Whoever watches can end it.
            let slow = odd(|n| {
                if n % 100 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(())
            });
            let said = run(&numbers, &*slow, &mut |_| Err(Error::new(crate::Kind::Cancelled, "enough")));
            assert!(said.message().contains("enough"), "{said}");
        }
    }

    #[test]
    fn what_waits_is_charged_and_bounded() {
        const LIMIT: usize = 8 << 20;
        let spec = Spec::leaf(crate::element::Leaf::tensor(DType::Int64, crate::element::Dims::of([Some(1024)])));
        let ds = Dataset::range(8000).unwrap().map_fn(spec, |e| {
            let row = [e[0].tensor().item::<i64>(); 1024];
            Ok([crate::element::Value::Tensor(Tensor::from_items([1024], &row))].into_iter().collect())
        });
        let most: &'static AtomicUsize = Box::leak(Box::default());
        let open: Box<Open<'static>> = Box::new(move |output, _| {
            struct Looks(Box<dyn Output>, &'static AtomicUsize);
            impl Writer for Looks {
                fn write(&mut self, _: &Chunk) -> Result<()> {
                    let account = feedline_io::Account::current().ok_or_else(|| Error::internal("for nobody"))?;
                    self.1.fetch_max(account.live() + account.out(), Relaxed);
                    std::thread::sleep(Duration::from_micros(100));
                    Ok(())
                }
                fn finish(self: Box<Self>) -> Result<Box<dyn Output>> {
                    Ok(self.0)
                }
            }
            Ok(Box::new(Looks(output, most)))
        });
        let dir = tempfile::tempdir().unwrap();
        save_on(4, None, Some(LIMIT), &ds.unwrap(), &target(&dir, Some(4)), &*open, &mut |_| Ok(())).unwrap();
        let most = most.load(Relaxed);
        assert!((1..LIMIT + (1 << 20)).contains(&most), "{most}");
    }

    #[test]
    fn a_run_that_breaks_off_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let numbers = failing(100, &[50]);
        let text = |e: crate::element::Element| {
            Ok([Tensor::string(&e[0].tensor().item::<i64>().to_le_bytes()).into()].into_iter().collect())
        };
        let ds = numbers.map_fn(Spec::scalar(DType::String), text).unwrap();
        assert!(write(&ds, &target(&dir, Some(2))).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let refused = write(&Dataset::range(3).unwrap(), &target(&dir, None));
        assert!(refused.unwrap_err().to_string().contains("byte strings"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
