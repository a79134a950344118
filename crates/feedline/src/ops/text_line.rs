//! `TextLineDataset(filenames)`: the lines of text files, without their line ends.

use super::record_files::{Files, Reading, RecordFiles, block_bytes, longest, record_spec};
use crate::dataset::Dataset;
use crate::element::Spec;
use crate::error::Result;
use crate::op::{Op, OpInfo, Param, read};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built};
use feedline_formats::compress::Compression;
use feedline_formats::lines::{Lines, MAX_LINE_BYTES};
use serde::{Deserialize, Serialize};

pub static INFO: OpInfo = OpInfo {
    name: "text_line",
    doc: "The lines of text files, as byte strings without their line ends; every carriage return is removed.",
    params: &[
        Param::new("files", "", "a file name or a vector of them"),
        Param::new("compression_type", "\"\"", "\"\", \"GZIP\", \"ZLIB\" or \"ZSTD\": how the files are compressed"),
        Param::new("buffer_size", "None", "bytes of one read; None: what suits where the files lie"),
    ],
    read: read::<TextLine>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextLine {
    files: Files,
    #[serde(default)]
    compression_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    buffer_size: Option<i64>,
}

impl Dataset {
    /// The lines of text files. Blank lines count, and so does a last line without a newline.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// # let path = std::env::temp_dir().join("feedline-doc.txt");
    /// std::fs::write(&path, "one\r\ntwo").unwrap();
    /// let ds = Dataset::text_line(&[path.to_str().unwrap()], "")?;
    /// let lines: Vec<Vec<u8>> = ds.iter()?.map(|e| e.unwrap()[0].tensor().str_at(0).to_vec()).collect();
    /// assert_eq!(lines, [b"one", b"two"]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn text_line<S: AsRef<[u8]>>(files: &[S], compression_type: &str) -> Result<Dataset> {
        let files = Files::new(files);
        Dataset::source(TextLine { files, compression_type: compression_type.into(), buffer_size: None })
    }
}

impl TextLine {
    fn reading(&self) -> Result<Reading> {
        Ok(Reading {
            compression: Compression::parse(&self.compression_type)?,
            buffer: block_bytes(self.buffer_size)?,
            parts: 1,
            places: false,
            reader: Box::new(|_| Ok(Box::new(Lines::default().max_bytes(longest(MAX_LINE_BYTES))))),
        })
    }
}

impl Op for TextLine {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        self.files.check()?;
        self.reading()?;
        Ok(record_spec())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(RecordFiles::new(self.files.get(cx)?, self.reading()?).traced(cx, node))))
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
        self.files.show()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::in_chunks;

    #[test]
    fn a_line_without_an_end_keeps_to_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        std::fs::write(&path, [vec![b'x'; 4 << 20], b"\ny\n".to_vec()].concat()).unwrap();
        let ds = Dataset::text_line(&[path.to_str().unwrap()], "").unwrap();
        let lines = |limit: usize| -> Vec<Result<usize>> {
            let options = crate::Options { memory_limit: Some(limit), ..Default::default() };
            let lines = ds.with_options(options).unwrap().iter().unwrap();
            lines.map(|line| line.map(|line| line[0].tensor().str_at(0).len())).collect()
        };
        let long = lines(8 << 20);
        let said = long[0].as_ref().unwrap_err().to_string();
        assert!(said.contains("longer than 2097152 bytes (a larger memory_limit"), "{said}");
        assert_eq!(long[1].as_ref().ok(), Some(&1));
        assert_eq!(lines(64 << 20)[0].as_ref().ok(), Some(&(4 << 20)));
    }

    #[test]
    fn lines_of_files_in_order_for_any_chunking() {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = [("a", "1\n\n2"), ("b", ""), ("c", "3\r4\n")]
            .iter()
            .map(|(name, text)| {
                let path = dir.path().join(name);
                std::fs::write(&path, text).unwrap();
                path.to_str().unwrap().to_owned()
            })
            .collect();
        let ds = Dataset::text_line(&names, "").unwrap();
        for rows in [1, 2, 100] {
            let lines: Vec<String> = in_chunks(&ds, rows)
                .iter()
                .unwrap()
                .map(|e| String::from_utf8_lossy(e.unwrap()[0].tensor().str_at(0)).into())
                .collect();
            assert_eq!(lines, ["1", "", "2", "34"]);
        }
        assert!(Dataset::text_line(&names, "BZ2").unwrap_err().to_string().contains("compression_type"));
    }
}
