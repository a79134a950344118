//! What the formats that are a row of records share: going through all records of a file, counting them, looking at the
//! first ones.

use crate::file::File;
use crate::session::Watch;
use feedline::{Error, Kind, Result};
use feedline_formats::records::{Cut, Out, Records};
use feedline_io::Buf;
use std::ops::Range;

/// Calls `each` with every record, or with what stands in the place of one, and the byte at which it begins. Gives the
/// bytes of the contents.
pub fn each_record(
    file: &File,
    records: &mut dyn Records,
    watch: &Watch<'_>,
    each: &mut dyn FnMut(u64, Result<&[u8]>),
) -> Result<u64> {
    first_records(file, records, usize::MAX, watch, each)
}

/// The same up to so many records, those not counted that are broken.
pub fn first_records(
    file: &File,
    records: &mut dyn Records,
    most: usize,
    watch: &Watch<'_>,
    each: &mut dyn FnMut(u64, Result<&[u8]>),
) -> Result<u64> {
    let mut contents = file.contents(watch)?;
    let mut out = Each { base: 0, byte: 0, each };
    let (mut given, mut bytes) = (0, 0);
    while given < most {
        out.base = records.base();
        match records.cut(most - given, &mut out) {
            Cut::Records(n) => given += n,
            Cut::Fail(error) => {
                let byte = error.at().byte.unwrap_or(out.byte);
                (out.each)(byte, Err(error.in_file(&file.name, None)));
            }
            Cut::End => break,
            Cut::More => match contents.next() {
                Some(Ok(block)) => {
                    bytes += block.len() as u64;
                    records.feed(block);
                }
                None => records.finish(),
                Some(Err(error)) if is_damage(&error) => {
                    (out.each)(out.byte, Err(error.in_file(&file.name, None)));
                    break;
                }
                Some(Err(error)) => return Err(error.in_file(&file.name, None)),
            },
        }
    }
    Ok(bytes)
}

/// Whether the data is broken, rather than the way to it.
pub fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), Kind::Data | Kind::Loss)
}

struct Each<'a> {
    base: u64,
    /// Where the last record began.
    byte: u64,
    each: &'a mut dyn FnMut(u64, Result<&[u8]>),
}

impl Out for Each<'_> {
    fn view(&mut self, block: &Buf, range: Range<usize>) {
        self.byte = self.base + range.start as u64;
        (self.each)(self.byte, Ok(&block.as_slice()[range]));
    }
    fn copy(&mut self, byte: u64, record: &[u8]) {
        self.byte = byte;
        (self.each)(self.byte, Ok(record));
    }
}

/// How many records a file has. The first damage is an error: nobody knows how many are lost.
pub fn count_records(file: &File, watch: &Watch<'_>) -> Result<u64> {
    let mut reader = reader(file)?;
    let (mut count, mut broken) = (0, None);
    each_record(file, &mut *reader, watch, &mut |_, record| match record {
        Ok(_) => count += 1,
        Err(error) => broken = broken.take().or(Some(error)),
    })?;
    broken.map_or(Ok(count), Err)
}

fn reader(file: &File) -> Result<Box<dyn Records>> {
    let make = file.format.reader.ok_or_else(|| Error::internal("the format has no records"))?;
    make(file)
}

/// The first records of a file.
#[derive(Debug, Default)]
pub struct Sample {
    pub records: Vec<Vec<u8>>,
    /// The bytes of the file that they take, frames included.
    pub bytes: u64,
    /// What is broken before there were enough.
    pub damage: Option<Error>,
}

/// At most `count` records from the front of a file. Of a file that is damaged: those before the damage; of text also
/// those behind it.
pub fn sample(file: &File, count: usize, watch: &Watch<'_>) -> Result<Sample> {
    let mut reader = reader(file)?;
    let mut contents = file.contents(watch)?;
    let mut found = Sample::default();
    while found.records.len() < count {
        let mut out = Take { sample: &mut found, base: reader.base() };
        match reader.cut(count - out.sample.records.len(), &mut out) {
            Cut::Records(_) => {}
            Cut::End => break,
            Cut::Fail(error) => {
                found.damage = found.damage.or(Some(error.in_file(&file.name, None)));
                if file.format.kind != super::Kind::Text {
                    break;
                }
            }
            Cut::More => match contents.next() {
                Some(Ok(block)) => reader.feed(block),
                None => reader.finish(),
                Some(Err(error)) if is_damage(&error) => {
                    found.damage = found.damage.or(Some(error.in_file(&file.name, None)));
                    break;
                }
                Some(Err(error)) => return Err(error.in_file(&file.name, None)),
            },
        }
    }
    Ok(found)
}

struct Take<'a> {
    sample: &'a mut Sample,
    base: u64,
}

impl Out for Take<'_> {
    fn view(&mut self, block: &Buf, range: Range<usize>) {
        self.sample.bytes = self.base + range.end as u64;
        self.sample.records.push(block.as_slice()[range].to_vec());
    }
    fn copy(&mut self, _: u64, record: &[u8]) {
        self.sample.bytes += record.len() as u64;
        self.sample.records.push(record.to_vec());
    }
}
