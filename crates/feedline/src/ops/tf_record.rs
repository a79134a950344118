//! `TFRecordDataset(filenames)`: the records of TFRecord files, in the order of the files, or by number.

use super::record_files::{
    Files, Reading, RecordFiles, block_bytes, check_unchanged, find_in_each, longest_told, record_spec,
};
use crate::dataset::Dataset;
use crate::element::{Chunk, Column, Pos, Spec, StringsBuilder};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Param, read};
use crate::options::OnError;
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Index};
use feedline_formats::compress::Compression;
use feedline_formats::records::Records;
use feedline_formats::tfrecord::{self, AfterBad, Reader};
use feedline_formats::tfrecord_index;
use feedline_io::{Ranges, Source, Stat, Want};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "tf_record",
    doc: "The records of TFRecord files, as byte strings.",
    params: &[
        Param::new("files", "", "a file name or a vector of them"),
        Param::new("compression_type", "\"\"", "\"\", \"GZIP\", \"ZLIB\" or \"ZSTD\": how the files are compressed"),
        Param::new("buffer_size", "None", "bytes of one read; None: what suits where the files lie"),
        Param::new("check", "True", "compare the checksum of each record"),
        Param::new(
            "on_error",
            "None",
            "\"skip\" or \"quarantine\": go on behind damaged records; \"raise\": leave the file",
        ),
        Param::new("index", "False", "find all records first, so that they can be reached by number"),
    ],
    read: read::<TfRecord>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TfRecord {
    files: Files,
    #[serde(default)]
    compression_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    buffer_size: Option<i64>,
    #[serde(default = "yes")]
    check: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_error: Option<OnError>,
    #[serde(default)]
    index: bool,
    /// Where the records lie, once they were looked for.
    #[serde(skip)]
    found: OnceLock<Result<Numbered>>,
}

fn yes() -> bool {
    true
}

impl Dataset {
    /// The records of TFRecord files. `Dataset::tf_record_by_number` reaches them in any order.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// # let path = std::env::temp_dir().join("feedline-doc.tfrecord");
    /// # let mut bytes = Vec::new();
    /// # feedline_formats::tfrecord::frame(b"hello", &mut bytes);
    /// # std::fs::write(&path, bytes).unwrap();
    /// let ds = Dataset::tf_record(&[path.to_str().unwrap()], "")?;
    /// assert_eq!(ds.iter()?.next().unwrap()?[0].tensor().str_at(0), b"hello");
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn tf_record<S: AsRef<[u8]>>(files: &[S], compression_type: &str) -> Result<Dataset> {
        Dataset::source(TfRecord::new(files, compression_type, false))
    }
    /// The same through an index, which is made if there is none yet: `shuffle` over everything, `len`, `skip`.
    pub fn tf_record_by_number<S: AsRef<[u8]>>(files: &[S]) -> Result<Dataset> {
        Dataset::source(TfRecord::new(files, "", true))
    }
}

impl TfRecord {
    fn new<S: AsRef<[u8]>>(files: &[S], compression_type: &str, index: bool) -> TfRecord {
        TfRecord {
            files: Files::new(files),
            compression_type: compression_type.into(),
            buffer_size: None,
            check: true,
            on_error: None,
            index,
            found: OnceLock::new(),
        }
    }
    fn stage(&self, cx: &BuildCx, node: &Plan) -> Result<RecordFiles> {
        let after_bad = match cx.on_error(self.on_error) {
            OnError::Raise => AfterBad::End,
            OnError::Skip | OnError::Quarantine => AfterBad::Resync,
        };
        let (check, compression) = (self.check, Compression::parse(&self.compression_type)?);
        let reader = move |len| {
            let reader = Reader::new(tfrecord::Options { check, after_bad }, len);
            Ok(Box::new(reader.longest(longest_told(compression))) as Box<dyn Records>)
        };
        let reading = Reading {
            compression,
            buffer: block_bytes(self.buffer_size)?,
            parts: 1,
            places: false,
            reader: Box::new(reader),
        };
        let stage = RecordFiles::new(self.files.get(cx)?, reading).traced(cx, node);
        if !self.index {
            return Ok(stage);
        }
        // What was counted is what comes.
        let files = self.numbered()?.files.clone();
        Ok(stage.unchanged(move |number| (files[number].source.clone(), files[number].stat.clone())))
    }
    fn numbered(&self) -> Result<&Numbered> {
        let found = self.found.get_or_init(|| {
            let names = self.files.known().ok_or_else(|| Error::usage("an index needs names that are known now"))?;
            Numbered::find(&names?, self.check, self.on_error.unwrap_or_default())
        });
        found.as_ref().map_err(Clone::clone)
    }
}

impl Op for TfRecord {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        self.files.check()?;
        let compression = Compression::parse(&self.compression_type)?;
        block_bytes(self.buffer_size)?;
        if self.index && compression != Compression::None {
            crate::bail!(
                Usage,
                "compressed files have no places to jump to, so index=True cannot be; `feedline convert` unpacks them"
            );
        }
        if self.index {
            self.numbered()?;
        }
        Ok(record_spec())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        match self.index {
            true => super::after_errors(self.numbered().map_or(Card::Unknown, |n| Card::Known(n.len())), self.on_error),
            false => Card::Unknown,
        }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(self.stage(cx, node)?)))
    }
    fn build_behind(&self, cx: &BuildCx, node: &Plan, rows: u64) -> Result<Option<Built>> {
        if !self.index {
            return Ok(None);
        }
        let (numbered, mut stage) = (self.numbered()?, self.stage(cx, node)?);
        match rows < numbered.len() {
            true => {
                let (file, record) = numbered.place(rows);
                let index = &numbered.files[file].index;
                stage.begin(rows, file, index.span(record).start, index.number(record));
            }
            false => stage.begin(numbered.len(), numbered.files.len(), 0, 0),
        }
        Ok(Some(Built::Stage(Box::new(stage))))
    }
    fn index(&self, _: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
        match self.index {
            true => Ok(Some(Arc::new(self.numbered()?.clone()))),
            false => Ok(None),
        }
    }
    fn on_error(&self) -> Option<OnError> {
        self.on_error
    }
    fn tunables(&self) -> &'static [&'static str] {
        &["buffer_size"]
    }
    fn files(&self) -> Vec<String> {
        self.files.listed()
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
    fn show(&self) -> String {
        let packed =
            if self.compression_type.is_empty() { String::new() } else { format!(", {}", self.compression_type) };
        format!("{}{packed}{}", self.files.show(), if self.index { ", by number" } else { "" })
    }
}

/// Records by number, over all files.
#[derive(Clone, Debug)]
struct Numbered {
    files: Arc<[File]>,
    /// The number of each file's first record, and behind the last one the number of all.
    starts: Arc<[u64]>,
    check: bool,
}

#[derive(Debug)]
struct File {
    source: Arc<dyn Source>,
    /// What it was when its records were found.
    stat: Stat,
    index: tfrecord_index::Index,
}

impl File {
    fn find(name: &str, check: bool, on_error: OnError) -> Result<File> {
        let source = feedline_io::open(name)?;
        let stat = source.clone().stat().wait()?;
        let index = match on_error {
            OnError::Raise => tfrecord_index::Index::of(&source, &stat)?,
            OnError::Skip | OnError::Quarantine => tfrecord_index::Index::around_damage(&source, &stat, check)?,
        };
        Ok(File { source, stat, index })
    }
}

impl Numbered {
    fn find(names: &[Arc<str>], check: bool, on_error: OnError) -> Result<Numbered> {
        let files = find_in_each(names, move |name| File::find(name, check, on_error))?;
        let mut starts = vec![0];
        files.iter().for_each(|f| starts.push(starts[starts.len() - 1] + f.index.len() as u64));
        Ok(Numbered { files: files.into(), starts: starts.into(), check })
    }
    /// The file of a record, and its number there.
    fn place(&self, row: u64) -> (usize, usize) {
        let at = self.starts.partition_point(|s| *s <= row) - 1;
        (at, (row - self.starts[at]) as usize)
    }
}

impl Index for Numbered {
    fn len(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }
    fn place(&self, row: u64) -> Option<(Arc<str>, u64, u64)> {
        let (file, record) = (row < self.len()).then(|| Numbered::place(self, row))?;
        let File { source, index, .. } = &self.files[file];
        Some((source.name().into(), index.number(record), index.span(record).start + tfrecord::HEADER as u64))
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let mut checked = HashSet::new();
        for file in rows.iter().map(|&row| self.place(row).0) {
            if checked.insert(file) {
                check_unchanged(&self.files[file].source, &self.files[file].stat)?;
            }
        }
        let longest = longest_told(Compression::None);
        let want = |&row: &u64| {
            let (source, record) = self.place(row);
            let File { source: file, index, .. } = &self.files[source];
            let span = index.span(record);
            let here = |e: Error| e.at_byte(span.start).at_record(index.number(record)).in_file(file.name(), None);
            longest.check(span.end - span.start).map_err(here)?;
            Ok(Want { source, at: span.start, len: (span.end - span.start) as usize })
        };
        let wants: Vec<Want> = rows.iter().map(want).collect::<Result<_>>()?;
        let sources = self.files.iter().map(|f| f.source.clone()).collect();
        let mut reads = Ranges::many(sources, wants.clone());
        let mut strings = StringsBuilder::with_capacity(rows.len());
        for (&row, want) in rows.iter().zip(wants) {
            let (source, record) = self.place(row);
            let File { source, index, .. } = &self.files[source];
            let (name, record) = (source.name(), index.number(record));
            let read = reads.next_range().ok_or_else(|| Error::internal("a read is missing"))?;
            let read = read.map_err(|e| e.in_file(name, None))?;
            let here = |text| Error::loss(text).at_byte(want.at).at_record(record).in_file(name, None);
            let data = tfrecord::unframe(&read, self.check).map_err(here)?;
            let start = read.range().start;
            strings.push_view(read.buf(), start + data.start..start + data.end);
        }
        Ok(Chunk::new(rows.len(), Pos::List(rows.into()), [Column::Dense(strings.tensor([rows.len()]))]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::ops::testing::in_chunks;

    fn file(dir: &tempfile::TempDir, name: &str, records: &[&[u8]]) -> String {
        let mut bytes = Vec::new();
        records.iter().for_each(|r| tfrecord::frame(r, &mut bytes));
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().into()
    }
    fn events(ds: &Dataset) -> Vec<String> {
        let show = |e: Result<crate::element::Element>| match e {
            Ok(e) => String::from_utf8_lossy(e[0].tensor().str_at(0)).into_owned(),
            Err(e) => format!("!{:?} {}", e.kind(), e.at().byte.map_or(String::new(), |b| b.to_string())),
        };
        ds.iter().unwrap().map(show).collect()
    }

    #[test]
    fn a_record_that_is_longer_than_the_limit_allows_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let name = file(&dir, "a", &[b"1", &vec![b'x'; 7 << 20], b"3"]);
        let events = |ds: &Dataset, limit: usize| {
            let options = crate::Options { memory_limit: Some(limit), ..Default::default() };
            let show = |e: Result<crate::element::Element>| {
                e.map_or_else(|e| e.to_string(), |e| e[0].tensor().str_at(0).len().to_string())
            };
            ds.with_options(options).unwrap().iter().unwrap().map(show).collect::<Vec<_>>()
        };
        for ds in [Dataset::tf_record(&[&name], "").unwrap(), Dataset::tf_record_by_number(&[&name]).unwrap()] {
            let found = events(&ds, 8 << 20);
            assert_eq!((&found[0][..], &found[2][..], found.len()), ("1", "1", 3));
            for part in [
                "a record of 7.3 MB is longer than the 6.3 MB that one may have of a memory_limit of 8.4 MB: raise it to 9.9 MB",
                "record 1",
                &name,
                "17",
            ] {
                assert!(found[1].contains(part), "{}", found[1]);
            }
            assert_eq!(events(&ds, 10 << 20), ["1", "7340032", "1"], "what is said to be enough is");
        }
        let shuffled = Dataset::tf_record_by_number(&[&name]).unwrap().shuffle(None, Some(1), true).unwrap();
        assert_eq!(events(&shuffled, 8 << 20).iter().filter(|text| text.contains("a record of 7.3 MB")).count(), 1);
    }

    #[test]
    fn files_in_order_and_by_number() {
        let dir = tempfile::tempdir().unwrap();
        let names = [file(&dir, "a", &[b"1", b"22"]), file(&dir, "b", &[]), file(&dir, "c", &[b"333"])];
        let ds = Dataset::tf_record(&names, "").unwrap();
        for rows in [1, 2, 100] {
            assert_eq!(events(&in_chunks(&ds, rows)), ["1", "22", "333"]);
        }
        assert!(ds.shuffle(None, Some(1), true).is_err());
        let ds = Dataset::tf_record_by_number(&names).unwrap();
        assert_eq!((ds.cardinality(), events(&ds)), (Card::Known(3), vec!["1".into(), "22".into(), "333".into()]));
        for (count, rest) in [(1, &["22", "333"][..]), (2, &["333"]), (3, &[]), (9, &[])] {
            let skipped = ds.skip(count).unwrap();
            assert_eq!(
                (events(&skipped), skipped.cardinality()),
                (rest.iter().map(|s| s.to_string()).collect(), Card::Known(rest.len() as u64))
            );
        }
        let got = ds.index().unwrap().get(&[2, 0]).unwrap();
        assert_eq!(
            (got.element(0)[0].tensor().str_at(0), got.element(1)[0].tensor().str_at(0)),
            (&b"333"[..], &b"1"[..])
        );
        let mut mixed = events(&ds.shuffle(None, Some(1), true).unwrap());
        mixed.sort();
        assert_eq!(mixed, ["1", "22", "333"]);
    }

    #[test]
    fn a_missing_file_is_passed_by() {
        let dir = tempfile::tempdir().unwrap();
        let names = [dir.path().join("none").to_str().unwrap().to_owned(), file(&dir, "a", &[b"x"])];
        assert_eq!(events(&Dataset::tf_record(&names, "").unwrap()), ["!Io ", "x"]);
    }

    #[test]
    fn damage_is_raised_or_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let name = file(&dir, "a", &[b"one", b"two", b"three"]);
        let mut bytes = std::fs::read(&name).unwrap();
        bytes[19 + 12] ^= 1;
        std::fs::write(&name, bytes).unwrap();
        let op = |on_error| TfRecord { on_error: Some(on_error), ..TfRecord::new(&[&name], "", false) };
        assert_eq!(events(&Dataset::source(op(OnError::Raise)).unwrap()), ["one", "!Loss 19"]);
        assert_eq!(events(&Dataset::source(op(OnError::Skip)).unwrap()), ["one", "three"]);
        let by_number = Dataset::tf_record_by_number(&[&name]).unwrap();
        assert_eq!(events(&by_number.skip(2).unwrap()), ["three"], "what is passed over is not read");
        let error = by_number.index().unwrap().get(&[1]).unwrap_err();
        assert_eq!((error.kind(), error.at().byte), (Kind::Loss, Some(19)));
    }

    #[test]
    fn damage_is_left_out_by_number_too() {
        let dir = tempfile::tempdir().unwrap();
        let records: Vec<Vec<u8>> = (0..20).map(|i| format!("{i:02}").into_bytes()).collect();
        let name = file(&dir, "a", &records.iter().map(|r| &r[..]).collect::<Vec<_>>());
        let sound = std::fs::read(&name).unwrap();
        let op = |on_error| TfRecord { on_error, ..TfRecord::new(&[&name], "", true) };
        // A length, contents, the end of the file: one record each.
        let (mut length, mut contents) = (sound.clone(), sound.clone());
        length[5 * 18] ^= 1;
        contents[5 * 18 + 12] ^= 1;
        for (bytes, lost) in [(length, 5), (contents.clone(), 5), (sound[..sound.len() - 3].to_vec(), 19)] {
            std::fs::write(&name, bytes).unwrap();
            let whole: Vec<String> = (0..20).filter(|i| *i != lost).map(|i| format!("{i:02}")).collect();
            let ds = Dataset::source(op(Some(OnError::Skip))).unwrap();
            assert_eq!(events(&ds), whole);
            for rows in [1, 7, 100] {
                let mut mixed = events(&in_chunks(&ds.shuffle(None, Some(1), true).unwrap(), rows));
                mixed.sort();
                assert_eq!(mixed, whole);
            }
        }
        // Where the source raises, or an operator behind it fails, it is raised.
        std::fs::write(&name, contents).unwrap();
        let ds = Dataset::source(op(None)).unwrap();
        let failed = events(&ds.shuffle(None, Some(1), true).unwrap()).iter().filter(|e| e.starts_with('!')).count();
        assert_eq!(failed, 1);
    }

    #[test]
    fn a_damaged_file_without_a_policy_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let name = file(&dir, "a", &[b"one", b"two"]);
        let mut bytes = std::fs::read(&name).unwrap();
        bytes[19] ^= 1;
        std::fs::write(&name, bytes).unwrap();
        // Also after one was made that leaves it out.
        let skip = TfRecord { on_error: Some(OnError::Skip), ..TfRecord::new(&[&name], "", true) };
        assert_eq!(events(&Dataset::source(skip).unwrap()), ["one"]);
        let error = Dataset::tf_record_by_number(&[&name]).unwrap_err().to_string();
        assert!(error.contains("at byte 19") && error.contains("on_error=\"skip\""), "{error}");
    }

    #[test]
    fn a_file_that_changed_is_not_read_by_an_old_index() {
        let dir = tempfile::tempdir().unwrap();
        let name = file(&dir, "a", &[b"1", b"2", b"3"]);
        let ds = Dataset::tf_record_by_number(&[&name]).unwrap();
        // Replaced under its name: the old one is read on.
        std::fs::rename(&name, dir.path().join("old")).unwrap();
        file(&dir, "a", &[b"new"]);
        assert_eq!(events(&ds), ["1", "2", "3"]);
        // Written over: an error, however it is read.
        file(&dir, "old", &[b"x", b"y"]);
        let error = ds.index().unwrap().get(&[0]).unwrap_err();
        assert_eq!(error.kind(), Kind::Precondition);
        assert!(error.to_string().contains("has changed since the dataset was made"), "{error}");
        for ds in [&ds, &ds.skip(1).unwrap()] {
            assert_eq!(events(ds), ["!Precondition "]);
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(Dataset::tf_record(&["a"], "gzip").unwrap_err().to_string().contains("\"GZIP\""));
        let packed = TfRecord::new(&["a"], "GZIP", true);
        assert!(Dataset::source(packed).unwrap_err().to_string().contains("index=True"));
        assert!(Dataset::tf_record_by_number(&["not/there"]).unwrap_err().to_string().contains("not/there"));
    }
}
