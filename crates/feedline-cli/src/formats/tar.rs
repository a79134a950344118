//! Tar files of samples, as `webdataset` lays them out.

use super::records::is_damage;
use super::{Checked, Format, compressed, files_param};
use crate::file::File;
use crate::session::Watch;
use feedline::{Error, Result};
use feedline_formats::tar::{Member, Step, Tar};
use feedline_formats::webdataset::Samples;
use serde_json::{Value as Json, json};

pub static FORMAT: Format = Format {
    name: "tar",
    about: "samples in tar files (WebDataset): files of one name and several endings are a row",
    endings: &["tar"],
    likely: |head| is_tar(head).into(),
    op: "web_dataset",
    params,
    writer: "tar",
    options: compressed,
    reader: None,
    check,
    count,
    holds_records: false,
    is_table: false,
};

/// A first header of a right checksum.
fn is_tar(head: &[u8]) -> bool {
    let Some(header) = head.get(..512).filter(|h| h.iter().any(|b| *b != 0)) else { return false };
    let digits = header[148..156].split(|b| *b == 0).next().unwrap_or_default().trim_ascii();
    let sum = std::str::from_utf8(digits).ok().and_then(|d| u64::from_str_radix(d, 8).ok());
    let bytes = header[..148].iter().chain(&header[156..]).map(|b| u64::from(*b)).sum::<u64>();
    sum == Some(bytes + 8 * u64::from(b' '))
}

fn params(files: &[File]) -> Result<Json> {
    Ok(json!({ "files": files_param(files)?, "compression_type": files[0].compression.name() }))
}

/// Calls `each` with every member, or with what stands in the place of one.
pub fn each_member(file: &File, watch: &Watch<'_>, each: &mut dyn FnMut(Result<Member>)) -> Result<()> {
    let (mut tar, mut contents) = (Tar::default(), file.contents(watch)?);
    loop {
        match tar.next(&mut |_| false) {
            Step::Member(member, _) => each(Ok(member)),
            Step::Fail(error) => each(Err(error.in_file(&file.name, None))),
            Step::End => return Ok(()),
            Step::More => match contents.next() {
                Some(Ok(block)) => tar.feed(block),
                None => tar.finish(),
                Some(Err(error)) if is_damage(&error) => {
                    each(Err(error.in_file(&file.name, None)));
                    return Ok(());
                }
                Some(Err(error)) => return Err(error.in_file(&file.name, None)),
            },
        }
    }
}

/// Headers have checksums, contents do not.
fn check(file: &File, watch: &Watch<'_>) -> Result<Checked> {
    let (mut checked, mut number) = (Checked::default(), 0);
    each_member(file, watch, &mut |member| {
        match member {
            Ok(member) => checked.good(member.header),
            Err(error) => checked.bad(error, number),
        }
        number += 1;
    })?;
    Ok(checked)
}

/// How many samples there are.
fn count(file: &File, watch: &Watch<'_>) -> Result<u64> {
    let (mut samples, mut count) = (Samples::<()>::default(), 0);
    let mut broken: Option<Error> = None;
    each_member(file, watch, &mut |member| match member {
        Ok(member) => count += u64::from(samples.push(&member, ()).is_some()),
        Err(error) => broken = broken.take().or(Some(error)),
    })?;
    match broken {
        Some(error) => Err(error),
        None => Ok(count + u64::from(samples.finish().is_some())),
    }
}
