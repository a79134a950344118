//! `WebDataset(filenames)`: samples in tar files. Members that follow each other and share a key are one element, with a
//! field for each extension; in order, or by number where the files are not compressed.

use super::record_files::{
    Contents, Files, Places, Reading, RecordFiles, block_bytes, check_unchanged, find_in_each, longest_told,
};
use crate::dataset::Dataset;
use crate::element::{Chunk, Column, DType, Leaf, Pos, Spec, StringsBuilder, Tree};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Param, read};
use crate::options::OnError;
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, ChunkFn, Index, Item};
use feedline_formats::compress::Compression;
use feedline_formats::tar::MAX_MEMBER_BYTES;
use feedline_formats::tar_index;
use feedline_formats::webdataset::{Reader, first_fields};
use feedline_io::{Source, Stat};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "web_dataset",
    doc: "Samples in tar files: a byte string for each extension of a key.",
    params: &[
        Param::new("files", "", "a file name or a vector of them"),
        Param::new("fields", "None", "the wanted extensions, \"jpg;png\" for either; None: those of the first sample"),
        Param::new("url", "False", "add __url__, the name of the file"),
        Param::new("compression_type", "\"\"", "\"\", \"GZIP\", \"ZLIB\" or \"ZSTD\": how the files are compressed"),
        Param::new("buffer_size", "None", "bytes of one read; None: what suits where the files lie"),
        Param::new("on_error", "None", "what becomes of damaged samples: \"raise\", \"skip\", \"quarantine\""),
        Param::new("index", "False", "find all samples first, so that they can be reached by number"),
    ],
    read: read::<WebDataset>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebDataset {
    files: Files,
    #[serde(default)]
    fields: Option<Vec<String>>,
    #[serde(default)]
    url: bool,
    #[serde(default)]
    compression_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    buffer_size: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_error: Option<OnError>,
    #[serde(default)]
    index: bool,
    /// Fields that are not wanted are refused: for commands that write the samples again, and no parameter of Python's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
    #[serde(skip)]
    learned: OnceLock<Result<Vec<String>>>,
    #[serde(skip)]
    found: OnceLock<Result<Numbered>>,
}

impl Dataset {
    /// Samples in tar files, with the fields of the first one. With `index` they can be reached by number, through an
    /// index, which is made if there is none yet.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// # let path = std::env::temp_dir().join("feedline-doc.tar");
    /// let mut tar = feedline_formats::tar::Writer::new(Vec::new());
    /// tar.append(b"0.txt", b"hello", 0)?;
    /// tar.append(b"0.cls", b"7", 0)?;
    /// std::fs::write(&path, tar.finish()?).unwrap();
    /// let sample = Dataset::web_dataset(&[path.to_str().unwrap()], true)?.iter()?.next().unwrap()?;
    /// let parts: Vec<&[u8]> = sample.iter().map(|v| v.tensor().str_at(0)).collect();
    /// assert_eq!(parts, [&b"0"[..], b"hello", b"7"]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn web_dataset<S: AsRef<[u8]>>(files: &[S], index: bool) -> Result<Dataset> {
        Dataset::source(WebDataset {
            files: Files::new(files),
            fields: None,
            url: false,
            compression_type: String::new(),
            buffer_size: None,
            on_error: None,
            index,
            strict: false,
            learned: OnceLock::new(),
            found: OnceLock::new(),
        })
    }
}

impl WebDataset {
    fn fields(&self) -> Result<&[String]> {
        match &self.fields {
            Some(fields) => Ok(fields),
            // The index has them: nothing else has to be read.
            None if self.index => Ok(&self.numbered()?.names),
            None => self.learned.get_or_init(|| self.learn()).as_deref().map_err(Clone::clone),
        }
    }
    /// The extensions of the first sample; of the first that is whole where damage is left out.
    fn learn(&self) -> Result<Vec<String>> {
        let files = self.files.known().ok_or_else(|| Error::usage("fields cannot be learned from unknown files"))??;
        let compression = Compression::parse(&self.compression_type)?;
        let around_damage = self.on_error.unwrap_or_default() != OnError::Raise;
        for name in &files {
            let blocks = Contents::open(name, compression)?.map(|b| b.map(|b| b.as_slice().to_vec()));
            let fields = first_fields(blocks, around_damage).map_err(|e| e.in_file(name, None))?;
            if !fields.is_empty() {
                return Ok(fields);
            }
        }
        Err(self.nothing_to_learn_from())
    }
    fn nothing_to_learn_from(&self) -> Error {
        Error::usage(format!("{} has no samples to learn from: say which fields are wanted", self.files.show()))
    }
    fn reading(&self) -> Result<Reading> {
        let (fields, compression) = (extensions(self.fields()?), Compression::parse(&self.compression_type)?);
        let strict = self.strict;
        Ok(Reading {
            compression,
            buffer: block_bytes(self.buffer_size)?,
            parts: fields.len() + 1,
            places: self.url,
            reader: Box::new(move |_| {
                let reader = Reader::new(fields.clone()).strict(strict);
                Ok(Box::new(reader.longest(longest_told(compression))))
            }),
        })
    }
    fn numbered(&self) -> Result<&Numbered> {
        let found = self.found.get_or_init(|| {
            let names = self.files.known().ok_or_else(|| Error::usage("an index needs names that are known now"))?;
            let on_error = self.on_error.unwrap_or_default();
            let files = find_in_each(&names?, move |name| File::find(name, on_error))?;
            let first = || files.iter().find(|file| !file.index.is_empty()).map(|file| file.index.sample(0));
            let names = match &self.fields {
                Some(fields) => fields.clone(),
                None => first().ok_or_else(|| self.nothing_to_learn_from())?.field_names(),
            };
            Ok(Numbered::new(files, names, self.url, on_error))
        });
        found.as_ref().map_err(Clone::clone)
    }
}

fn extensions(fields: &[String]) -> Vec<Vec<u8>> {
    fields.iter().map(|f| f.to_ascii_lowercase().into_bytes()).collect()
}

impl Op for WebDataset {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        self.files.check()?;
        if Compression::parse(&self.compression_type)? != Compression::None && self.index {
            crate::bail!(Usage, "compressed files have no places to jump to, so index=True cannot be; unpack them");
        }
        self.reading()?;
        let text = || Tree::Leaf(Leaf::scalar(DType::String));
        let mut all: Vec<(Arc<str>, Spec)> = vec![("__key__".into(), text())];
        if self.url {
            all.push(("__url__".into(), text()));
        }
        for field in self.fields()? {
            // Of several extensions the first gives the name.
            let name = field.split(';').next().unwrap_or_default();
            if name.is_empty() || all.iter().any(|(n, _)| **n == *name) {
                return Err(Error::usage(format!("{field:?} cannot be a field: it is empty, or there twice")));
            }
            all.push((name.into(), text()));
        }
        if self.index {
            self.numbered()?;
        }
        Ok(Tree::Map { tag: None, items: all })
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        match self.index {
            true => self.numbered().map_or(Card::Unknown, |n| Card::Known(n.len())),
            false => Card::Unknown,
        }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let files = self.files.get(cx)?;
        let places = self.url.then(|| Places(files.clone().into()));
        let mut head = RecordFiles::new(files, self.reading()?).traced(cx, node);
        if self.index {
            // What was counted is what comes.
            let files = self.numbered()?.files.clone();
            head = head.unchanged(move |number| (files[number].source.clone(), files[number].stat.clone()));
        }
        Ok(cx.open(node, Box::new(head), Arc::new(TakeApart { places })))
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
        let mut json = serde_json::to_value(self)?;
        // What was learned stays so, wherever the plan is read.
        if self.fields.is_none() {
            json["fields"] = serde_json::to_value(self.fields()?)?;
        }
        Ok(json)
    }
    fn show(&self) -> String {
        let fields = self.fields().map_or(String::new(), |f| format!(", {}", f.join(" ")));
        format!("{}{fields}{}", self.files.show(), if self.index { ", by number" } else { "" })
    }
}

/// Records of several parts to a column for each part.
struct TakeApart {
    places: Option<Places>,
}

impl ChunkFn for TakeApart {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        let rows = chunk.rows();
        let Some(Column::Dense(records)) = chunk.columns().first() else {
            return out.push(Item::Fail(Error::internal("samples that are not strings")));
        };
        let parts = records.shape()[1..].iter().product::<usize>();
        let part = |part: usize| {
            let mut strings = StringsBuilder::with_capacity(rows);
            (0..rows).for_each(|row| records.push_str(&mut strings, row * parts + part));
            Column::Dense(strings.tensor([rows]))
        };
        let mut columns: Vec<Column> = (0..parts).map(part).collect();
        if let (Some(places), Some(column)) = (&self.places, chunk.columns().get(1)) {
            let mut urls = StringsBuilder::with_capacity(rows);
            (0..rows).for_each(|row| urls.push(places.file(column, row).map_or(b"", |name| name.as_bytes())));
            columns.insert(1, Column::Dense(urls.tensor([rows])));
        }
        out.push(Item::Rows(Chunk::new(rows, chunk.pos.clone(), columns)));
    }
    fn repeats(&self) -> bool {
        true
    }
}

/// Samples by number, over all files.
#[derive(Clone, Debug)]
struct Numbered {
    files: Arc<[File]>,
    /// The number of each file's first sample, and behind the last one the number of all.
    starts: Arc<[u64]>,
    /// The fields as they were asked for, or as they are in the first sample.
    names: Arc<[String]>,
    fields: Arc<[Vec<u8>]>,
    url: bool,
}

#[derive(Debug)]
struct File {
    source: Arc<dyn Source>,
    /// What it was when its samples were found.
    stat: Stat,
    index: tar_index::Index,
}

impl File {
    fn find(name: &str, on_error: OnError) -> Result<File> {
        let source = feedline_io::open(name)?;
        let stat = source.clone().stat().wait()?;
        let index = match on_error {
            OnError::Raise => tar_index::Index::of(&source, &stat)?,
            OnError::Skip | OnError::Quarantine => tar_index::Index::around_damage(&source, &stat)?,
        };
        Ok(File { source, stat, index })
    }
}

impl Numbered {
    fn new(mut files: Vec<File>, names: Vec<String>, url: bool, on_error: OnError) -> Numbered {
        let fields = extensions(&names);
        let mut starts = vec![0];
        for file in &mut files {
            // What is wanted of it; the index that is kept has everything.
            let (index, left_out) = file.index.narrowed(&fields, on_error != OnError::Raise);
            if left_out > 0 {
                log::warn!("left out of the index: {left_out} incomplete samples of {}", file.source.name());
            }
            file.index = index;
            starts.push(starts[starts.len() - 1] + file.index.len() as u64);
        }
        Numbered { files: files.into(), starts: starts.into(), names: names.into(), fields: fields.into(), url }
    }
}

impl Index for Numbered {
    fn len(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let mut keys = StringsBuilder::with_capacity(rows.len());
        let mut urls = StringsBuilder::with_capacity(rows.len());
        let mut columns: Vec<StringsBuilder> =
            self.fields.iter().map(|_| StringsBuilder::with_capacity(rows.len())).collect();
        // All reads begin before the first is waited for.
        let mut reads = Vec::with_capacity(rows.len() * columns.len());
        let (mut checked, longest) = (HashSet::new(), longest_told(Compression::None));
        for &row in rows {
            let at = self.starts.partition_point(|s| *s <= row) - 1;
            let file = &self.files[at];
            if checked.insert(at) {
                check_unchanged(&file.source, &file.stat)?;
            }
            let record = row - self.starts[at];
            let sample = file.index.sample(record as usize);
            let failed = |e: Error| e.at_byte(sample.header).at_record(record).in_file(file.source.name(), None);
            sample.check().map_err(failed)?;
            keys.push(&sample.key);
            if self.url {
                urls.push(file.source.name().as_bytes());
            }
            for field in &*self.fields {
                let place = sample.field(field).ok_or_else(|| failed(sample.missing(field)))?.clone();
                let bytes = place.end - place.start;
                longest.check(bytes).map_err(failed)?;
                if bytes > MAX_MEMBER_BYTES {
                    let most = format!("has {bytes} bytes, more than the {MAX_MEMBER_BYTES} that one member may have");
                    return Err(failed(Error::data(format!(
                        "the sample {:?} {most}",
                        String::from_utf8_lossy(&sample.key)
                    ))));
                }
                let len = bytes as usize;
                reads.push((file, record, place.start, len, file.source.clone().read(place.start, len)));
            }
        }
        let parts = columns.len().max(1);
        for (i, (file, record, start, len, read)) in reads.into_iter().enumerate() {
            let bytes = read.wait()?;
            if bytes.len() < len {
                let gone = Error::loss(format!("has become shorter: {} of {len} bytes are there", bytes.len()));
                return Err(gone.at_byte(start).at_record(record).in_file(file.source.name(), None));
            }
            columns[i % parts].push_view(&bytes, 0..len);
        }
        let dense = |b: StringsBuilder| -> Column { Column::Dense(b.tensor([rows.len()])) };
        let all = std::iter::once(keys).chain(self.url.then_some(urls)).chain(columns).map(dense);
        Ok(Chunk::new(rows.len(), Pos::List(rows.into()), all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{in_chunks, source};
    use feedline_formats::tar::Writer;
    use serde_json::json;

    fn file(dir: &tempfile::TempDir, name: &str, members: &[(&str, &str)]) -> String {
        let mut tar = Writer::new(Vec::new());
        members.iter().for_each(|(name, text)| tar.append(name.as_bytes(), text.as_bytes(), 0).unwrap());
        let path = dir.path().join(name);
        std::fs::write(&path, tar.finish().unwrap()).unwrap();
        path.to_str().unwrap().into()
    }
    fn events(ds: &Dataset) -> Vec<String> {
        let text = |v: &crate::element::Value| String::from_utf8_lossy(v.tensor().str_at(0)).into_owned();
        let show = |e: Result<crate::element::Element>| match e {
            Ok(e) => e.iter().map(text).collect::<Vec<_>>().join("|"),
            Err(e) => format!("!{e}"),
        };
        ds.iter().unwrap().map(show).collect()
    }

    #[test]
    fn in_order_and_by_number() {
        let dir = tempfile::tempdir().unwrap();
        let a = file(&dir, "a.tar", &[("x.jpg", "X"), ("x.cls", "1"), ("y.jpg", "Y"), ("y.cls", "2")]);
        let b = file(&dir, "b.tar", &[("z.png", "Z"), ("z.cls", "3"), ("z.txt", "?")]);
        let params = |index: bool| json!({ "files": Files::new(&[&a, &b]), "fields": ["jpg;png", "cls"], "url": true, "index": index });
        let expected = [format!("x|{a}|X|1"), format!("y|{a}|Y|2"), format!("z|{b}|Z|3")];
        let ds = source("web_dataset", params(false)).unwrap();
        for rows in [1, 2, 100] {
            assert_eq!(events(&in_chunks(&ds, rows)), expected);
        }
        let ds = source("web_dataset", params(true)).unwrap();
        assert_eq!((ds.cardinality(), &events(&ds)[..]), (Card::Known(3), &expected[..]));
        let got = ds.index().unwrap().get(&[2, 0]).unwrap();
        assert_eq!(got.element(0)[2].tensor().str_at(0), b"Z");
        assert_eq!(got.element(1)[3].tensor().str_at(0), b"1");
    }

    #[test]
    fn incomplete_samples_are_raised_or_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let a = file(&dir, "a.tar", &[("x.jpg", "X"), ("x.cls", "1"), ("y.jpg", "Y"), ("z.jpg", "Z"), ("z.cls", "3")]);
        let run = |params: serde_json::Value| events(&source("web_dataset", params).unwrap());
        let all = run(json!({ "files": Files::new(&[&a]) }));
        assert_eq!((all.len(), &*all[2]), (3, "z|Z|3"));
        assert!(all[1].contains("\"y\" has no \"cls\", only jpg") && all[1].contains("a.tar at byte 2048"), "{all:?}");
        for index in [false, true] {
            let params = json!({ "files": Files::new(&[&a]), "on_error": "skip", "index": index });
            assert_eq!(run(params), ["x|X|1", "z|Z|3"]);
        }
        let by_number = source("web_dataset", json!({ "files": Files::new(&[&a]), "index": true })).unwrap();
        let said = by_number.index().unwrap().get(&[1]).unwrap_err().to_string();
        assert!(said.contains("has no \"cls\"") && said.contains("byte 2048"), "{said}");
    }

    #[test]
    fn fields_are_learned_around_damage_that_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let members = ["a.cls", "a.jpg", "b.cls", "b.jpg", "c.cls", "c.jpg"].map(|name| (name, "1"));
        let path = file(&dir, "a.tar", &members);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[1024] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let made =
            |on_error: &str| source("web_dataset", json!({ "files": Files::new(&[&path]), "on_error": on_error }));
        assert!(made("raise").unwrap_err().to_string().contains("at byte 1024)"));
        let ds = made("skip").unwrap();
        assert_eq!(ds.spec().to_string(), "{__key__: string, cls: string, jpg: string}");
        assert_eq!(events(&ds).len(), 2);
    }

    #[test]
    fn an_index_is_found_by_headers_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (long, large) = ("n".repeat(150), "x".repeat(300_000));
        let members: Vec<(String, &str)> =
            (0..20).flat_map(|i| [(format!("{long}{i}.cls"), "1"), (format!("{long}{i}.jpg"), &large[i..])]).collect();
        let members: Vec<(&str, &str)> = members.iter().map(|(name, text)| (&name[..], *text)).collect();
        let path = file(&dir, "a.tar", &members);
        let params = |index: bool| json!({ "files": Files::new(&[&path]), "index": index });
        let ds = source("web_dataset", params(true)).unwrap();
        assert_eq!(events(&ds), events(&source("web_dataset", params(false)).unwrap()));
        // What was hopped over is there: a file that is cut is noticed.
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 100_000]).unwrap();
        let said = source("web_dataset", params(true)).unwrap_err().to_string();
        assert!(said.contains("the tar file is cut"), "{said}");
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let empty = file(&dir, "empty.tar", &[]);
        let refused = |params: serde_json::Value| source("web_dataset", params).unwrap_err().to_string();
        assert!(refused(json!({ "files": Files::new(&[&empty]) })).contains("no samples to learn from"));
        assert!(refused(json!({ "files": Files::new(&[&empty]), "fields": ["a", "a"] })).contains("twice"));
        let packed =
            json!({ "files": Files::new(&[&empty]), "fields": ["a"], "compression_type": "GZIP", "index": true });
        assert!(refused(packed).contains("index=True"));
    }
}
