//! The schema of JSON lines as the operator takes it, for whoever writes the rows again: what is null or missing has
//! nothing in its place, unless the command line says what.

use crate::file::File;
use crate::formats::{each_record, first_records};
use crate::wanted::Wanted;
use feedline::element::DType;
use feedline::{Error, Result};
use feedline_formats::jsonl::{self, Inference, Kind, Leaf, Node};
use feedline_formats::lines::Lines;
use serde_json::{Value as Json, json};

/// The wanted fields, as the lines have them. Lines that are broken are said by whoever reads them.
pub fn learned(files: &[File], wanted: &Wanted<'_>) -> Result<Json> {
    let (mut found, most) = (Inference::default(), wanted.rows(files));
    for file in files {
        let left = most.saturating_sub(found.lines());
        first_records(file, &mut Lines::default().skip_blank(), left, wanted.watch, &mut |_, line| {
            let _ = line.and_then(|line| found.line(line));
        })?;
    }
    let changed = found.changed();
    let mut fields: Vec<Option<(String, Node)>> = found.fields().into_iter().map(Some).collect();
    if fields.is_empty() {
        return Err(Error::usage("has no lines that tell its fields").in_file(&files[0].name, None));
    }
    let names: Vec<String> = fields.iter().flatten().map(|(name, _)| name.clone()).collect();
    let mut learning = Learning { files, wanted, changed };
    let fields = wanted.places(&names)?.into_iter().filter_map(|i| fields[i].take());
    fields.map(|(name, node)| learning.field(&mut vec![name], node)).collect()
}

struct Learning<'a> {
    files: &'a [File],
    wanted: &'a Wanted<'a>,
    /// Fields whose numbers no type keeps, each with one of these.
    changed: Vec<(String, String)>,
}

impl Learning<'_> {
    /// A field as a parameter; `keys` lead to it.
    fn field(&mut self, keys: &mut Vec<String>, node: Node) -> Result<Json> {
        let name = keys.last().cloned().unwrap_or_default();
        match node {
            Node::Leaf(leaf) => self.leaf(&name, keys, &leaf),
            Node::Fields(inner) => {
                let mut fields = Vec::new();
                for (name, node) in inner {
                    keys.push(name);
                    fields.push(self.field(keys, node)?);
                    keys.pop();
                }
                Ok(json!({ "name": name, "fields": fields }))
            }
        }
    }
    fn leaf(&self, name: &str, keys: &[String], leaf: &Leaf) -> Result<Json> {
        let changed = self.changed.iter().find(|(path, _)| self.wanted.strict && *path == leaf.path);
        if let Some((path, number)) = changed {
            return Err(self.unheld(path, number)?);
        }
        let dtype = match leaf.kind {
            Kind::Bool => DType::Bool,
            Kind::Int { .. } => DType::Int64,
            Kind::Uint64 => DType::Uint64,
            Kind::Float => DType::Float64,
            Kind::Text | Kind::Json => DType::String,
        };
        let fill = self.wanted.fill.of(&leaf.path, dtype)?;
        // Something stands for a list that is null: an empty one does.
        let fill = fill.map(|fill| if leaf.rank > 0 { json!([]) } else { fill });
        let is_there = leaf.fill.is_none();
        if self.wanted.strict && !is_there && fill.is_none() {
            return Err(self.missing(&leaf.path, keys)?);
        }
        let mut json = json!({ "name": name, "dtype": dtype, "shape": vec![Json::Null; leaf.rank] });
        if leaf.kind == Kind::Json {
            json["json"] = true.into();
            let remark =
                format!("{} is of several kinds, or of one without a type; its JSON is kept as text", leaf.path);
            self.wanted.remarks.borrow_mut().push(remark);
        }
        if let Some(fill) = fill {
            json["default"] = fill;
        }
        Ok(json)
    }
    /// Looks for the first line with a number that no type keeps.
    fn unheld(&self, path: &str, number: &str) -> Result<Error> {
        let said = |place: &str| {
            Error::data(format!(
                "the field {path:?} {}{place}; in quotes it is kept as text, --columns NAME,… leaves the field out",
                jsonl::changes(number)
            ))
        };
        for file in self.files {
            let (mut found, mut count) = (None, 0);
            each_record(file, &mut Lines::default().skip_blank(), self.wanted.watch, &mut |byte, line| {
                if found.is_none()
                    && let Ok(line) = line
                    && let Some(column) = jsonl::column_of(number, line)
                {
                    let place = format!(", in line {count} of the file, column {column}");
                    found = Some(said(&place).in_file(&file.name, Some(byte)));
                }
                count += 1;
            })?;
            if let Some(error) = found {
                return Ok(error);
            }
        }
        Ok(said(""))
    }
    /// Looks for the first line in which a field is not there, or null.
    fn missing(&self, path: &str, keys: &[String]) -> Result<Error> {
        let said = |place: &str, is: &str| {
            Error::data(format!(
                "the field {path:?} is {is}{place}; --fill {path}=VALUE says what stands for it, --columns NAME,… leaves \
                 the field out"
            ))
        };
        for file in self.files {
            let (mut found, mut number) = (None, 0);
            each_record(file, &mut Lines::default().skip_blank(), self.wanted.watch, &mut |byte, line| {
                if found.is_none()
                    && let Ok(line) = line
                    && let Ok(row) = serde_json::from_slice::<Json>(line)
                {
                    let value = keys.iter().try_fold(&row, |at, key| at.get(key));
                    let is = value.map_or("missing", |_| "null");
                    if value.is_none_or(Json::is_null) {
                        found =
                            Some(said(&format!(" in line {number} of the file"), is).in_file(&file.name, Some(byte)));
                    }
                }
                number += 1;
            })?;
            if let Some(error) = found {
                return Ok(error);
            }
        }
        Ok(said(" in some lines", "null or missing"))
    }
}
