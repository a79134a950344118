//! A dataset into files: one pass, dealt out to shards, each of which appears under its name only when all are whole.
//!
//! 1. A format is a `Writer` (one file each here): rows in, bytes out.
//! 2. `save` opens a temporary file for each shard, deals rows out in turn, finishes every writer, then gives all files
//!    their names. A run that breaks off leaves nothing behind but, at worst, temporary files of a killed process.

#[cfg(feature = "columnar")]
mod arrays;
#[cfg(feature = "columnar")]
mod columnar;
mod csv;
#[cfg(feature = "columnar")]
mod folder;
mod json_lines;
mod npy;
mod output;
#[cfg(feature = "columnar")]
mod set;
#[cfg(feature = "columnar")]
mod stored;
mod tar;
mod tf_record;

pub use csv::names as column_names;
#[cfg(feature = "columnar")]
pub use folder::new_run;
pub use output::{Output, Staged};
#[cfg(feature = "columnar")]
pub use set::{
    MANIFEST, MOST_SHARDS, Manifest, SetWriter, check_storable, compression, save_set, shard_numbers, within,
    without_numbers,
};
#[cfg(feature = "columnar")]
pub use stored::from_stored;
pub use tf_record::TfRecordWriter;

use crate::dataset::iterate;
use crate::element::{Chunk, Spec};
use crate::error::{Error, Result};
use crate::plan::{Bound, Card};
use std::time::{Duration, Instant};

/// Rows into one file.
pub trait Writer: Send {
    fn write(&mut self, rows: &Chunk) -> Result<()>;
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
    if bound.plan.card == Card::Infinite {
        return Err(Error::usage("the dataset is endless; cut it with take(n)").in_op("save"));
    }
    let names = target.names()?;
    if !target.overwrite {
        for name in &names {
            output::refuse_existing(name)?;
        }
    }
    let spec = &bound.plan.spec;
    let mut writers = names
        .iter()
        .map(|name| open(Box::new(Staged::create(name)?), spec).map_err(|e| e.in_file(name, None)))
        .collect::<Result<Vec<_>>>()?;
    let mut iter = iterate(bound)?;
    let share = iter.memory_limit() / SHARE;
    let (mut elements, mut looked) = (0u64, Instant::now());
    while let Some(chunk) = iter.next_chunk(&mut || watch(Progress { elements, bytes: 0 }))? {
        // What writers make of the rows counts as the pipeline's.
        let entered = iter.enter();
        for piece in pieces(&chunk, share) {
            deal(&piece, elements, &mut writers, &names).map_err(|e| e.in_op("save"))?;
            relieve(&mut writers, &names, share).map_err(|e| e.in_op("save"))?;
            elements += piece.rows() as u64;
        }
        drop(entered);
        if looked.elapsed() > Duration::from_millis(100) {
            looked = Instant::now();
            watch(Progress { elements, bytes: 0 })?;
        }
    }
    let _entered = iter.enter();
    let mut outputs = Vec::with_capacity(names.len());
    for (writer, name) in writers.into_iter().zip(&names) {
        outputs.push(writer.finish().map_err(|e| e.in_file(name, None).in_op("save"))?);
    }
    let mut bytes = 0;
    for output in outputs {
        bytes += output.commit()?;
    }
    Ok(Saved { files: names, elements, bytes })
}

/// The part of the memory limit that the rows may take which all writers together collect.
const SHARE: usize = 8;

/// The rows in pieces of about so many bytes.
fn pieces(chunk: &Chunk, bytes: usize) -> impl Iterator<Item = Chunk> {
    let rows = chunk.rows();
    let step = rows.saturating_mul(bytes).checked_div(chunk.nbytes()).unwrap_or(rows).clamp(1, rows.max(1));
    (0..rows).step_by(step).map(move |from| chunk.slice(from..rows.min(from + step)))
}

/// Lets the fullest writers write until all of them together hold no more than this.
fn relieve(writers: &mut [Box<dyn Writer>], names: &[String], most: usize) -> Result<()> {
    let mut held: Vec<usize> = writers.iter().map(|writer| writer.held_bytes()).collect();
    while held.iter().sum::<usize>() > most
        && let Some(fullest) = (0..held.len()).max_by_key(|k| held[*k])
    {
        writers[fullest].let_go().map_err(|e| e.in_file(&names[fullest], None))?;
        held[fullest] = 0;
    }
    Ok(())
}

/// Row `i` of everything goes to shard `i` modulo their number.
fn deal(chunk: &Chunk, first: u64, writers: &mut [Box<dyn Writer>], names: &[String]) -> Result<()> {
    let shards = writers.len();
    for (k, writer) in writers.iter_mut().enumerate() {
        let named = |e: Error| e.in_file(&names[k], None);
        if shards == 1 {
            writer.write(chunk).map_err(named)?;
            continue;
        }
        let start = (k as u64 + shards as u64 - first % shards as u64) as usize % shards;
        let rows: Vec<usize> = (start..chunk.rows()).step_by(shards).collect();
        if !rows.is_empty() {
            writer.write(&chunk.take(&rows)).map_err(named)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;
    use crate::element::{DType, Tensor};
    use crate::ops::testing::failing;
    use std::sync::Arc;

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
