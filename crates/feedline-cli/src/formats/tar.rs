//! Tar files of samples, as `webdataset` lays them out.

use super::records::is_damage;
use super::{Checked, Format, Indexed, Kind, Scan, compressed, files_param, no_fill};
use crate::file::File;
use crate::session::Watch;
use crate::wanted::Wanted;
use feedline::element::{DType, Spec, Tensor, Tree};
use feedline::{Dataset, Error, Result};
use feedline_formats::tar::{Member, Step, Tar, is_header};
use feedline_formats::tar_index::Index;
use feedline_formats::webdataset::Samples;
use serde_json::{Value as Json, json};

pub static FORMAT: Format = Format {
    name: "tar",
    about: "samples in tar files (WebDataset): files of one name and several endings are a row",
    endings: &["tar"],
    likely: |head| is_header(head).into(),
    op: "web_dataset",
    params,
    writer: "tar",
    options: compressed,
    reader: None,
    check,
    count,
    index: Some(Indexed::new::<Index>()),
    kind: Kind::Members,
    show: None,
    prepare: with_keys,
};

fn params(files: &[File], wanted: &Wanted<'_>) -> Result<Json> {
    no_fill(files, wanted)?;
    let mut params = json!({ "files": files_param(files)?, "compression_type": files[0].compression.name() });
    let named: Vec<&String> = wanted.columns.iter().filter(|name| *name != "__key__").collect();
    if !named.is_empty() {
        params["fields"] = json!(named);
    }
    // Fields that the first sample does not have would be lost.
    params["strict"] = (wanted.strict && wanted.columns.is_empty()).into();
    Ok(params)
}

/// With a `__key__`, which names a sample in a tar file: the number of the row, unless rows have one.
fn with_keys(rows: Dataset) -> Result<(Dataset, Vec<String>)> {
    let Tree::Map { tag: None, items } = rows.spec() else {
        feedline::bail!(Usage, "a sample in a tar file has named fields, but the rows are {}", rows.spec());
    };
    if items.iter().any(|(name, _)| &**name == "__key__") {
        return Ok((rows, vec![]));
    }
    let key = ("__key__".into(), Spec::scalar(DType::String));
    let spec = Tree::Map { tag: None, items: std::iter::once(key).chain(items.iter().cloned()).collect() };
    let keyed = rows.enumerate(0)?.map_fn(spec, |mut row| {
        let number = row[0].tensor().item::<i64>();
        row[0] = Tensor::string(format!("{number:09}").as_bytes()).into();
        Ok(row)
    })?;
    Ok((keyed, vec![]))
}

/// Calls `each` with every member, or with what stands in the place of one. Gives the byte of the end if nothing marks it.
fn each_member(file: &File, watch: &Watch<'_>, each: &mut dyn FnMut(Result<Member>)) -> Result<Option<u64>> {
    let (mut tar, mut contents) = (Tar::default(), file.contents(watch)?);
    loop {
        match tar.next(&mut |_| false) {
            Step::Member(member, _) => each(Ok(member)),
            Step::Fail(error) => each(Err(error.in_file(&file.name, None))),
            Step::End => return Ok(tar.unmarked_end()),
            Step::More => match contents.next() {
                Some(Ok(block)) => tar.feed(block),
                None => tar.finish(),
                Some(Err(error)) if is_damage(&error) => {
                    each(Err(error.in_file(&file.name, None)));
                    return Ok(None);
                }
                Some(Err(error)) => return Err(error.in_file(&file.name, None)),
            },
        }
    }
}

/// Headers have checksums, contents do not. Whoever reads a file without the mark at its end reads it all; that more was in
/// it is for people to know.
fn check(file: &File, watch: &Watch<'_>) -> Result<Checked> {
    let (mut checked, mut samples) = (Checked::default(), Samples::<()>::default());
    let (mut whole, mut ends_broken) = (0, false);
    let end = each_member(file, watch, &mut |member| {
        ends_broken = member.is_err();
        match member {
            Ok(member) => {
                checked.good(member.header);
                whole += u64::from(samples.push(&member, ()).is_some());
            }
            Err(error) => {
                // What is left of a sample around it is not known to be all of it.
                samples.finish();
                checked.bad(error, whole);
            }
        }
    })?;
    whole += u64::from(samples.finish().is_some());
    if let Some(byte) = end.filter(|_| !ends_broken) {
        let text = "the end mark is missing: the file may be cut off, and members behind the last one lost";
        checked.bad(Error::loss(text).at_byte(byte).in_file(&file.name, None), whole);
    }
    checked.members = Some(checked.records);
    checked.records = whole;
    Ok(checked)
}

impl Scan for Index {
    fn scan(file: &File, watch: &mut dyn FnMut(u64) -> Result<()>) -> Result<Index> {
        Index::scan_watched(&file.source, file.stat.len, watch, &mut Err)
    }
}

/// How many samples there are.
fn count(file: &File, watch: &Watch<'_>) -> Result<u64> {
    if file.is_plain() {
        return <Index as Scan>::count(file, watch);
    }
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
