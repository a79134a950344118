//! `FixedLengthRecordDataset(filenames, record_bytes)`: records of one length, in order or by number.

use super::record_files::{Files, Reading, RecordFiles, block_bytes, longest_told, record_spec};
use crate::dataset::Dataset;
use crate::element::{Chunk, Column, Pos, Spec, StringsBuilder};
use crate::error::{Error, Result};
use crate::op::{Int, Op, OpInfo, Param, read};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Index};
use feedline_formats::compress::Compression;
use feedline_formats::fixed::{Fixed, Layout};
use feedline_io::Source;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "fixed_length_record",
    doc: "Records of one length from files, between a header and a footer that each file may have.",
    params: &[
        Param::new("files", "", "a file name or a vector of them"),
        Param::new("record_bytes", "", "the length of a record"),
        Param::new("header_bytes", "0", "bytes to pass over at the beginning of each file"),
        Param::new("footer_bytes", "0", "bytes to leave out at the end of each file"),
        Param::new("compression_type", "\"\"", "\"\", \"GZIP\", \"ZLIB\" or \"ZSTD\": how the files are compressed"),
        Param::new("buffer_size", "None", "bytes of one read; None: what suits where the files lie"),
        Param::new("index", "False", "ask for the sizes of all files first, so that records have numbers"),
    ],
    read: read::<FixedLengthRecord>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedLengthRecord {
    files: Files,
    record_bytes: Int,
    #[serde(default = "zero")]
    header_bytes: Int,
    #[serde(default = "zero")]
    footer_bytes: Int,
    #[serde(default)]
    compression_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    buffer_size: Option<i64>,
    #[serde(default)]
    index: bool,
    #[serde(skip)]
    found: OnceLock<Result<Numbered>>,
}

fn zero() -> Int {
    0.into()
}

impl Dataset {
    /// The records of files in which all have one length. With `index` they can be reached by number.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// # let path = std::env::temp_dir().join("feedline-doc.fixed");
    /// std::fs::write(&path, "Haabbcc").unwrap();
    /// let ds = Dataset::fixed_length_record(&[path.to_str().unwrap()], 2, 1, 0, true)?;
    /// assert_eq!(ds.iter()?.count(), 3);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn fixed_length_record<S: AsRef<[u8]>>(
        files: &[S],
        record_bytes: i64,
        header_bytes: i64,
        footer_bytes: i64,
        index: bool,
    ) -> Result<Dataset> {
        Dataset::source(FixedLengthRecord {
            files: Files::new(files),
            record_bytes: record_bytes.into(),
            header_bytes: header_bytes.into(),
            footer_bytes: footer_bytes.into(),
            compression_type: String::new(),
            buffer_size: None,
            index,
            found: OnceLock::new(),
        })
    }
}

impl FixedLengthRecord {
    /// The layout, if it is known before anything runs.
    fn known(&self) -> Option<Result<Layout>> {
        Some(Layout::new(self.record_bytes.known()?, self.header_bytes.known()?, self.footer_bytes.known()?))
    }
    fn numbered(&self) -> Result<&Numbered> {
        let found = self.found.get_or_init(|| {
            let (Some(names), Some(layout)) = (self.files.known(), self.known()) else {
                return Err(Error::usage("index=True needs names and lengths that are known now"));
            };
            Numbered::find(&names?, layout?)
        });
        found.as_ref().map_err(Clone::clone)
    }
}

impl Op for FixedLengthRecord {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        self.files.check()?;
        self.known().transpose()?;
        block_bytes(self.buffer_size)?;
        let compression = Compression::parse(&self.compression_type)?;
        if self.index && compression != Compression::None {
            crate::bail!(Usage, "compressed files have no places to jump to, so index=True cannot be");
        }
        if self.index {
            self.numbered()?;
        }
        Ok(record_spec())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        match self.index {
            true => self.numbered().map_or(Card::Unknown, |n| Card::Known(n.len())),
            false => Card::Unknown,
        }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let layout = Layout::new(self.record_bytes.get(cx)?, self.header_bytes.get(cx)?, self.footer_bytes.get(cx)?)?;
        let compression = Compression::parse(&self.compression_type)?;
        let reading = Reading {
            compression,
            buffer: block_bytes(self.buffer_size)?,
            parts: 1,
            places: false,
            reader: Box::new(move |len| {
                len.map(|len| layout.records(len)).transpose()?;
                longest_told(compression).check(layout.record)?;
                Ok(Box::new(Fixed::new(layout)))
            }),
        };
        Ok(Built::Stage(Box::new(RecordFiles::new(self.files.get(cx)?, reading).traced(cx, node))))
    }
    fn index(&self, _: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
        match self.index {
            true => Ok(Some(Arc::new(self.numbered()?.clone()))),
            false => Ok(None),
        }
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
        let bytes = self.record_bytes.known().map_or(String::new(), |n| format!(", {n} bytes a record"));
        format!("{}{bytes}{}", self.files.show(), if self.index { ", by number" } else { "" })
    }
}

/// Records by number, over all files.
#[derive(Clone, Debug)]
struct Numbered {
    files: Arc<[Arc<dyn Source>]>,
    /// The number of each file's first record, and behind the last one the number of all.
    starts: Arc<[u64]>,
    layout: Layout,
}

impl Numbered {
    fn find(names: &[Arc<str>], layout: Layout) -> Result<Numbered> {
        let files = names.iter().map(|name| feedline_io::open(name)).collect::<Result<Vec<_>>>()?;
        let stats: Vec<_> = files.iter().map(|file| file.clone().stat()).collect();
        let mut starts = vec![0];
        for (stat, name) in stats.into_iter().zip(names) {
            let records = stat.wait().and_then(|stat| layout.records(stat.len)).map_err(|e| e.in_file(name, None))?;
            starts.push(starts[starts.len() - 1] + records);
        }
        Ok(Numbered { files: files.into(), starts: starts.into(), layout })
    }
}

impl Index for Numbered {
    fn len(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        longest_told(Compression::None).check(self.layout.record)?;
        let record = self.layout.record as usize;
        // All reads begin before the first is waited for.
        let reads: Vec<_> = rows
            .iter()
            .map(|&row| {
                let file = self.starts.partition_point(|s| *s <= row) - 1;
                let at = self.layout.offset(row - self.starts[file]);
                (row, file, at, self.files[file].clone().read(at, record))
            })
            .collect();
        let mut strings = StringsBuilder::with_capacity(rows.len());
        for (row, file, at, read) in reads {
            let bytes = read.wait()?;
            if bytes.len() < record {
                let gone = Error::loss(format!("has become shorter: {} of {record} bytes are there", bytes.len()));
                let gone = gone.at_byte(at).at_record(row - self.starts[file]);
                return Err(gone.in_file(self.files[file].name(), None));
            }
            strings.push_view(&bytes, 0..record);
        }
        Ok(Chunk::new(rows.len(), Pos::List(rows.into()), [Column::Dense(strings.tensor([rows.len()]))]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::in_chunks;

    #[test]
    fn in_order_and_by_number() {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = [("a", "Habcd"), ("b", "H"), ("c", "Hef")]
            .iter()
            .map(|(name, text)| {
                let path = dir.path().join(name);
                std::fs::write(&path, text).unwrap();
                path.to_str().unwrap().to_owned()
            })
            .collect();
        let records = |ds: &Dataset| -> Vec<String> {
            ds.iter().unwrap().map(|e| String::from_utf8_lossy(e.unwrap()[0].tensor().str_at(0)).into()).collect()
        };
        let ds = Dataset::fixed_length_record(&names, 2, 1, 0, false).unwrap();
        for rows in [1, 2, 100] {
            assert_eq!(records(&in_chunks(&ds, rows)), ["ab", "cd", "ef"]);
        }
        let ds = Dataset::fixed_length_record(&names, 2, 1, 0, true).unwrap();
        assert_eq!((ds.cardinality(), records(&ds)), (Card::Known(3), records(&in_chunks(&ds, 1))));
        let got = ds.index().unwrap().get(&[2, 0]).unwrap();
        assert_eq!(got.element(0)[0].tensor().str_at(0), b"ef");
        assert_eq!(got.element(1)[0].tensor().str_at(0), b"ab");
    }

    #[test]
    fn files_that_do_not_fit_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("odd");
        std::fs::write(&path, "abc").unwrap();
        let name = path.to_str().unwrap();
        let failed = Dataset::fixed_length_record(&[name], 2, 0, 0, true).unwrap_err().to_string();
        assert!(failed.contains("odd") && failed.contains("multiple"), "{failed}");
        let ds = Dataset::fixed_length_record(&[name, name], 2, 0, 0, false).unwrap();
        assert_eq!(ds.iter().unwrap().filter(|e| e.is_err()).count(), 2);
        assert!(Dataset::fixed_length_record(&[name], 0, 0, 0, false).is_err());
    }
}
