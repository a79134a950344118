//! `feedline inspect FILE…`: what is this file?

use crate::examples::Inference;
use crate::file::{File, Inputs, compression_name, open_some};
use crate::formats::{Kind, Scan, is_damage, sample, table};
use crate::head;
use crate::rows::{self, Records, SEEN_RECORDS};
use crate::session::{Session, Unit, Watch, bytes, count, error_json};
use crate::show::Limit;
use clap::Args;
use feedline::save::column_names;
use feedline::{Error, Result};
use feedline_formats::side_index::SideIndex;
use feedline_formats::tfrecord_index::Index;
use serde_json::{Value as Json, json};

/// Files up to this size are gone through to count their records; of larger ones the number is estimated.
const COUNTED_BYTES: u64 = 256 << 20;

/// Tell what a file is: format, records, schema, sizes, a few rows
///
/// The format is told by the contents. The schema of TFRecord files of Examples is that of their first 100 records, in
/// the form that `feedline convert --schema` takes. Of large files the number of records is estimated.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  feedline inspect train.tfrecord
  feedline inspect --full s3://bucket/train.tar
  feedline inspect --json data/ | jq '.files[] | {file, format, records}'")]
pub struct Inspect {
    #[command(flatten)]
    inputs: Inputs,
    /// Count all records, however large the file is
    #[arg(long)]
    full: bool,
    /// How many rows to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3)]
    rows: usize,
}

/// What was found out.
#[derive(Default)]
struct Found {
    /// What the elements are.
    holds: Option<&'static str>,
    records: Option<u64>,
    /// The number of records is counted, not estimated.
    is_exact: bool,
    /// Names and types.
    schema: table::Schema,
    /// The shortest, the middle and the longest record, and of how many.
    sizes: Option<([u64; 3], usize)>,
    index: Option<String>,
    rows: Vec<Json>,
    damage: Option<Error>,
}

impl Inspect {
    pub fn run(self, session: &Session<'_>) -> Result<bool> {
        let files = open_some(session, &self.inputs)?;
        let watch = session.watch("reading", 0, Unit::Bytes);
        let found = session.each(&files, |(_, file)| file.as_ref().ok().map(|file| self.look(file, &watch)));
        watch.finish();
        session.go_on()?;
        let (mut fine, mut listed) = (true, Vec::new());
        for (at, ((name, file), found)) in files.iter().zip(found).enumerate() {
            let (file, found) = match (file, found) {
                (Ok(file), Some(found)) => (file, found),
                (Err(error), _) => {
                    fine = false;
                    match session.json {
                        true => listed.push(json!({ "file": name, "error": error_json(error) })),
                        false => session.line(format!(
                            "{}{name}\n  {:<12}{}",
                            if at > 0 { "\n" } else { "" },
                            "error",
                            error
                        ))?,
                    }
                    continue;
                }
                (Ok(_), None) => unreachable!("what is open was looked at"),
            };
            let found = found.unwrap_or_else(|error| Found { damage: Some(error), ..Found::default() });
            let found = Found { damage: found.damage.map(|e| e.in_file(&file.name, None)), ..found };
            fine &= found.damage.is_none();
            match session.json {
                true => listed.push(found.as_json(file)),
                false => {
                    if at > 0 {
                        session.line("")?;
                    }
                    found.as_text(file, session)?;
                }
            }
        }
        if session.json {
            session.document(&json!({ "files": listed }))?;
        }
        Ok(fine)
    }

    fn look(&self, file: &File, watch: &Watch<'_>) -> Result<Found> {
        let mut found = Found::default();
        let kept = file.format.index.as_ref().filter(|_| file.is_plain()).and_then(|index| (index.kept)(file));
        found.index = kept.map(|(_, place)| place.display().to_string());
        if file.format.reader.is_some() {
            self.records(file, &mut found, watch)?;
        } else {
            (found.records, found.is_exact) = (Some((file.format.count)(file, watch)?), true);
        }
        if file.format.kind != Kind::Records {
            match rows::of_file(file, watch) {
                Ok(None) => {}
                Ok(Some(ds)) => {
                    let types = ds.spec().leaves().into_iter().map(|leaf| leaf.to_string());
                    found.schema = column_names(ds.spec()).into_iter().zip(types).collect();
                }
                Err(error) => found.schema = table::schema(file, error)?,
            }
        }
        if let Some(show) = file.format.show {
            let shown = show(file, 0..self.rows, Limit::SHORT, watch)?;
            found.rows = shown.rows;
            found.damage = shown.damage.map(|(_, error)| error).or(found.damage);
        } else if self.rows > 0 {
            let (rows, damage) = head::first(file, self.rows, Limit::SHORT, watch)?;
            found.rows = rows;
            found.damage = found.damage.or(damage);
        }
        Ok(found)
    }

    /// Formats that are a row of records: what the first ones tell, and how many there are.
    fn records(&self, file: &File, found: &mut Found, watch: &Watch<'_>) -> Result<()> {
        let seen = sample(file, SEEN_RECORDS, watch)?;
        let mut sizes: Vec<u64> = seen.records.iter().map(|r| r.len() as u64).collect();
        let is_whole = seen.damage.is_none() && seen.records.len() < SEEN_RECORDS;
        if file.format.kind == Kind::Records {
            let mut inference = Inference::default();
            seen.records.iter().for_each(|record| inference.record(record));
            found.holds = Some(if inference.has_sequences() { "tf.train.SequenceExample" } else { "bytes" });
            if let Records::Examples(schema) = inference.finish()? {
                found.holds = Some("tf.train.Example");
                found.schema = schema.0.iter().map(|f| (f.name.clone(), f.to_string())).collect();
            }
        }
        let may_count = self.full || file.stat.len <= COUNTED_BYTES;
        if seen.damage.is_some() {
            found.damage = seen.damage;
        } else if is_whole {
            (found.records, found.is_exact) = (Some(seen.records.len() as u64), true);
        } else if file.format.kind == Kind::Records && file.is_plain() && (found.index.is_some() || may_count) {
            let kept = Index::kept(&file.source, &file.stat);
            let index = kept.map_or_else(|| Index::scan_file(file, watch), |(index, _)| Ok(index));
            match index {
                Ok(index) => {
                    (found.records, found.is_exact) = (Some(index.len() as u64), true);
                    let frame = (feedline_formats::tfrecord::HEADER + feedline_formats::tfrecord::FOOTER) as u64;
                    sizes = (0..index.len()).map(|i| index.span(i)).map(|s| s.end - s.start - frame).collect();
                }
                Err(error) => found.damage = Some(error),
            }
        } else if may_count {
            match (file.format.count)(file, watch) {
                Ok(records) => (found.records, found.is_exact) = (Some(records), true),
                Err(error) => found.damage = Some(error),
            }
        } else if file.is_plain() && seen.bytes > 0 {
            let per_record = seen.bytes as f64 / seen.records.len() as f64;
            found.records = Some((file.stat.len as f64 / per_record).round() as u64);
        }
        sizes.sort_unstable();
        if let (Some(first), Some(last)) = (sizes.first(), sizes.last()) {
            found.sizes = Some(([*first, sizes[sizes.len() / 2], *last], sizes.len()));
        }
        Ok(())
    }
}

impl Found {
    fn as_json(&self, file: &File) -> Json {
        let schema: serde_json::Map<String, Json> =
            self.schema.iter().map(|(name, ty)| (name.clone(), ty.as_str().into())).collect();
        let sizes =
            self.sizes.map(|([min, median, max], of)| json!({ "min": min, "median": median, "max": max, "of": of }));
        json!({
            "file": file.name, "format": file.format.name, "compression": compression_name(file.compression),
            "bytes": file.stat.len, "holds": self.holds, "records": self.records, "records_are_exact": self.is_exact,
            "schema": schema, "record_bytes": sizes, "index": self.index, "rows": self.rows,
            "error": self.damage.as_ref().map(error_json),
        })
    }

    fn as_text(&self, file: &File, session: &Session<'_>) -> Result<()> {
        let line = |what: &str, text: String| session.line(format!("  {what:<12}{text}"));
        session.line(&file.name)?;
        let packed = if file.is_plain() { String::new() } else { format!(", {}", compression_name(file.compression)) };
        line("format", format!("{}{packed} ({})", file.format.name, file.format.about))?;
        line("size", format!("{} ({} bytes)", bytes(file.stat.len), count(file.stat.len)))?;
        if let Some(records) = self.records {
            line("records", format!("{}{}", if self.is_exact { "" } else { "about " }, count(records)))?;
        }
        if let Some(holds) = self.holds {
            line("each is", holds.into())?;
        }
        if let Some(([min, median, max], of)) = self.sizes {
            let range = format!("{} to {} bytes, half of them up to {}", count(min), count(max), count(median));
            line("sizes", format!("{range} (of {} records)", count(of as u64)))?;
        }
        if let Some(index) = &self.index {
            line("index", index.clone())?;
        }
        let width = self.schema.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (i, (name, ty)) in self.schema.iter().enumerate() {
            line(
                if i == 0 { "schema" } else { "" },
                format!("{:<width$}  {ty}", format!("{name}:"), width = width + 1),
            )?;
        }
        for (i, row) in self.rows.iter().enumerate() {
            line(if i == 0 { "rows" } else { "" }, row.to_string())?;
        }
        match &self.damage {
            Some(damage) if is_damage(damage) => {
                line("broken", format!("{damage}; `feedline verify` lists all damage"))?;
            }
            Some(error) => line("error", error.to_string())?,
            None => {}
        }
        Ok(())
    }
}
