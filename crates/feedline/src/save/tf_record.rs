//! TFRecord files: an element is one byte string, or several leaves that were made into an Example before.

use super::{Format, Open, Output, Writer};
use crate::element::{Chunk, DType, Spec};
use crate::error::{Error, Result};
use feedline_formats::compress::{Compression, Deflate};
use feedline_formats::tfrecord::frame;
use serde::Deserialize;
use std::io::Write;

pub static FORMAT: Format = Format { name: "tf_record", endings: &["tfrecord", "tfrecords"], make };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(default)]
    compression_type: String,
    compression_level: Option<i32>,
}

fn make(options: &serde_json::Value) -> Result<Box<Open<'static>>> {
    let Options { compression_type, compression_level } = Options::deserialize(options)?;
    Compression::parse(&compression_type)?;
    Ok(Box::new(move |output, spec| {
        Ok(Box::new(TfRecordWriter::new(output, spec, &compression_type, compression_level)?))
    }))
}

pub struct TfRecordWriter {
    out: Deflate<Box<dyn Output>>,
    frame: Vec<u8>,
}

impl TfRecordWriter {
    pub fn new(output: Box<dyn Output>, spec: &Spec, compression: &str, level: Option<i32>) -> Result<TfRecordWriter> {
        if !spec.may_be_scalar(DType::String) {
            return Err(Error::usage(format!(
                "a TFRecord file holds byte strings, but the elements are {spec}; make Examples of them first"
            )));
        }
        let out = Deflate::new(output, Compression::parse(compression)?, level)?;
        Ok(TfRecordWriter { out, frame: Vec::new() })
    }
    /// One record.
    pub fn record(&mut self, record: &[u8]) -> Result<()> {
        self.frame.clear();
        frame(record, &mut self.frame);
        self.out.write_all(&self.frame).map_err(|e| Error::io(&e))
    }
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|e| Error::io(&e))
    }
    pub fn end(self) -> Result<Box<dyn Output>> {
        self.out.finish().map_err(|e| Error::io(&e))
    }
}

impl Writer for TfRecordWriter {
    fn write(&mut self, rows: &Chunk) -> Result<()> {
        for row in 0..rows.rows() {
            let element = rows.element(row);
            let tensor = element[0].tensor();
            if tensor.len() != 1 {
                return Err(Error::data(format!("a record is one string, not {:?}", tensor.shape())));
            }
            self.record(tensor.str_at(0))?;
        }
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<Box<dyn Output>> {
        self.end()
    }
}
