//! Where elements go that failed: a TFRecord file of Examples, one for each, so that anything that reads TFRecord files
//! reads what is there.
//!
//! | feature | |
//! |---|---|
//! | `reason`, `kind` | the message, and the kind of error (`data`, `loss`, `io`, `function`, `range`) |
//! | `operator`, `number` | which operator failed, and its place in the plan as it ran (-1: inside a function) |
//! | `epoch`, `position` | the pass, and the place of the element in the stream that it came from (-1: not known) |
//! | `key` | what random numbers depend on beside seed and position: the pass, mixed with that of a `repeat` around it |
//! | `file`, `record`, `byte` | where it was read, as far as is known (empty, or -1) |
//! | `raw` | the element that the operator could not treat, if it is one string: a record as it was read, for instance |
//! | `input` | the same element, whatever it is: a serialised tensor (`io.parse_tensor`) for each component |
//!
//! Files are made when they are first needed, one for each pass, and only appended to.

use crate::element::{DType, Element, Tensor, Value};
use crate::error::{Error, Result};
use feedline_formats::example::Wanted;
use feedline_formats::example_writer::{Values, put_example};
use feedline_formats::records::{Copies, Cut, Records};
use feedline_formats::tfrecord::{self, AfterBad, Reader};
use feedline_io::{Append, Blocks, brief};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// What files are called: `quarantine-` and a number.
const STEM: &str = "quarantine";
const ENDING: &str = ".tfrecord";

pub struct Quarantine {
    folder: String,
    file: Mutex<Option<Append>>,
}

/// An element that failed.
pub struct Entry<'a> {
    pub op: &'static str,
    pub number: Option<u64>,
    pub epoch: u64,
    pub key: u64,
    pub error: &'a Error,
}

impl Quarantine {
    pub fn new(folder: &str) -> Quarantine {
        Quarantine { folder: folder.into(), file: Mutex::new(None) }
    }
    /// Makes the folder: what cannot be written to is to be known before anything fails.
    pub fn prepare(&self) -> Result<()> {
        Append::folder(&self.folder)
    }
    pub fn put(&self, entry: &Entry<'_>) -> Result<()> {
        let (mut example, mut framed) = (Vec::new(), Vec::new());
        entry.write(&mut example);
        tfrecord::frame(&example, &mut framed);
        let _brief = brief();
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *file {
            Some(file) => file,
            none => none.insert(Append::new(&self.folder, STEM, ENDING)?),
        };
        file.put(&framed)
    }
}

impl Entry<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let at = self.error.at();
        let known = |n: Option<u64>| [n.map_or(-1, |n| n as i64)];
        let reason = self.error.to_string();
        let input = self.error.row().and_then(|row| row.downcast_ref::<Element>());
        let raw: Vec<&[u8]> = input.map_or(vec![], |e| match &e[..] {
            [Value::Tensor(t)] if t.dtype() == DType::String && t.rank() == 0 => vec![t.str_at(0)],
            _ => vec![],
        });
        let serialized = |v: &Value| v.as_tensor().map(|t| t.serialized());
        let tensors = input.and_then(|e| e.iter().map(serialized).collect::<Option<Vec<_>>>()).unwrap_or_default();
        let tensors: Vec<&[u8]> = tensors.iter().map(|t| &t[..]).collect();
        let numbers = [self.number, Some(self.epoch), Some(self.key), at.element, at.record, at.byte].map(known);
        let file = at.file.as_deref().unwrap_or_default();
        let texts =
            [[reason.as_bytes()], [self.error.kind().name().as_bytes()], [self.op.as_bytes()], [file.as_bytes()]];
        let features: &[(&[u8], Values<'_>)] = &[
            (b"reason", Values::Bytes(&texts[0])),
            (b"kind", Values::Bytes(&texts[1])),
            (b"operator", Values::Bytes(&texts[2])),
            (b"file", Values::Bytes(&texts[3])),
            (b"number", Values::Ints(&numbers[0])),
            (b"epoch", Values::Ints(&numbers[1])),
            (b"key", Values::Ints(&numbers[2])),
            (b"position", Values::Ints(&numbers[3])),
            (b"record", Values::Ints(&numbers[4])),
            (b"byte", Values::Ints(&numbers[5])),
            (b"raw", Values::Bytes(&raw)),
            (b"input", Values::Bytes(&tensors)),
        ];
        put_example(out, Some(features));
    }
}

/// An element that failed, as it was found in a quarantine. What is not known is empty.
#[derive(Clone, Debug, Default)]
pub struct Quarantined {
    pub reason: String,
    pub kind: String,
    pub operator: String,
    pub number: Option<u64>,
    pub epoch: u64,
    pub key: u64,
    pub position: Option<u64>,
    pub file: Option<String>,
    pub record: Option<u64>,
    pub byte: Option<u64>,
    pub raw: Option<Vec<u8>>,
    pub input: Option<Element>,
}

const TEXTS: [&str; 4] = ["reason", "kind", "operator", "file"];
const NUMBERS: [&str; 6] = ["number", "epoch", "key", "position", "record", "byte"];

impl Quarantined {
    fn read(example: &[u8]) -> Result<Quarantined> {
        let wanted = Wanted::new(TEXTS.into_iter().chain(NUMBERS).chain(["raw", "input"]));
        let mut found = vec![None; wanted.len()];
        wanted.read(example, &mut Default::default(), &mut found).map_err(|e| e.within(example, "Example"))?;
        let of = |name: &str| wanted.find(name.as_bytes()).and_then(|at| found[at].as_ref());
        let bytes = |name: &str| {
            let mut all = Vec::new();
            of(name)
                .map(|f| f.each_bytes(|b| all.push(b.to_vec())))
                .transpose()
                .map_err(|e| e.within(example, "Example"))?;
            Ok::<_, Error>(all)
        };
        let text = |name: &str| {
            Ok::<_, Error>(bytes(name)?.first().map_or(String::new(), |b| String::from_utf8_lossy(b).into_owned()))
        };
        let number = |name: &str| {
            let mut all = Vec::new();
            of(name).map(|f| f.ints_onto(&mut all)).transpose().map_err(|e| e.within(example, "Example"))?;
            Ok::<_, Error>(all.first().copied().unwrap_or(-1))
        };
        let known = |name: &str| Ok::<_, Error>(u64::try_from(number(name)?).ok());
        let tensors =
            bytes("input")?.iter().map(|b| Tensor::parsed(b).map(Value::Tensor)).collect::<Result<Element>>()?;
        Ok(Quarantined {
            reason: text("reason")?,
            kind: text("kind")?,
            operator: text("operator")?,
            number: known("number")?,
            epoch: number("epoch")? as u64,
            key: number("key")? as u64,
            position: known("position")?,
            file: Some(text("file")?).filter(|f| !f.is_empty()),
            record: known("record")?,
            byte: known("byte")?,
            raw: bytes("raw")?.into_iter().next(),
            input: Some(tensors).filter(|e| !e.is_empty()),
        })
    }
}

/// All that is in a quarantine, in the order in which it failed. A pass that was resumed made some of it again: each is
/// given once. A record that a killed process cut off is left out; anything else that is no such file is an error.
pub fn quarantined(folder: &str) -> Result<Vec<Quarantined>> {
    let names = feedline_io::files_in(folder)?;
    let is_ours = |name: &&String| {
        let last = name.rsplit('/').next().unwrap_or_default();
        last.starts_with(STEM) && last.ends_with(ENDING)
    };
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    for name in names.iter().filter(is_ours) {
        let found = records(name).map_err(|e| e.in_file(name, None))?;
        for entry in found.iter().map(|record| Quarantined::read(record)) {
            let entry = entry.map_err(|e| e.in_file(name, None))?;
            let Quarantined { operator, number, epoch, position, file, record, byte, reason, .. } = &entry;
            let same = format!("{operator} {number:?} {epoch} {position:?} {file:?} {record:?} {byte:?} {reason}");
            if seen.insert(same) {
                all.push(entry);
            }
        }
    }
    Ok(all)
}

/// The whole records of a file.
fn records(name: &str) -> Result<Vec<Vec<u8>>> {
    let source = feedline_io::open(name)?;
    let len = source.clone().stat().wait()?.len;
    let mut blocks = Blocks::new(source, 0, None);
    let mut reader = Reader::new(tfrecord::Options { check: true, after_bad: AfterBad::End }, Some(len));
    let mut found = Copies::default();
    loop {
        match reader.cut(1024, &mut found) {
            Cut::Records(_) => {}
            // The process that wrote it was killed: whatever was whole is there.
            Cut::Fail(error) if error.kind() == crate::error::Kind::Loss => return Ok(found.0),
            Cut::Fail(error) => return Err(error),
            Cut::End => return Ok(found.0),
            Cut::More => match blocks.next_block().transpose()? {
                Some(block) => reader.feed(block),
                None => reader.finish(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_is_put_is_found_once_and_a_cut_off_end_does_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        let quarantine = Quarantine::new(folder);
        assert!(quarantined(folder).unwrap().is_empty());
        let row: Element = [Value::Tensor(Tensor::string(b"raw")), Tensor::from_items([2], &[1i64, 2]).into()].into();
        let fails: Vec<Error> = vec![
            Error::data("bad").at_element(7).with_row(Arc::new(Element::from_iter([row[0].clone()]))),
            Error::loss("torn").at_byte(12).at_record(3).in_file("a.tfrecord", None),
            Error::func("no").with_row(Arc::new(row)),
        ];
        for error in fails.iter().chain(&fails) {
            quarantine.put(&Entry { op: "map", number: Some(2), epoch: 1, key: u64::MAX, error }).unwrap();
        }
        let all = quarantined(folder).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].raw.as_deref(), all[0].position, all[0].key), (Some(&b"raw"[..]), Some(7), u64::MAX));
        assert_eq!((all[1].file.as_deref(), all[1].byte, all[1].record), (Some("a.tfrecord"), Some(12), Some(3)));
        assert_eq!((&all[1].kind[..], all[1].input.is_none()), ("loss", true));
        let input = all[2].input.as_ref().unwrap();
        assert_eq!((input[1].tensor().items::<i64>(), all[2].raw.is_none()), (&[1i64, 2][..], true));
        let file = feedline_io::expand(&format!("{folder}/*")).unwrap().remove(0);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() - 5]).unwrap();
        assert_eq!(quarantined(folder).unwrap().len(), 3, "the last was there before");
        std::fs::write(&file, &bytes[..bytes.len() / 2 - 5]).unwrap();
        assert_eq!(quarantined(folder).unwrap().len(), 2);
    }
}
