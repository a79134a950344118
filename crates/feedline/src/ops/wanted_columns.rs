//! The columns that are wanted of files with an Arrow schema, Parquet's and Arrow's own. Not an operator.

use super::arrow_arrays::{Fill, Nulls, check_field, columns_of, leaf_paths, spec_of};
use super::table::Decoded;
use crate::element::{Column, Leaf, Spec, Tensor, Tree};
use crate::error::{Error, Result};
use feedline_formats::columnar::Values;
use feedline_formats::columnar::schema::{DataType, Field, Schema};
use std::sync::Arc;

pub struct Wanted {
    /// By name, with their specs.
    pub columns: Vec<(String, Spec)>,
    /// Their types in the first file.
    types: Vec<DataType>,
    fill: Fill,
    /// Nobody said which: all files must have the same.
    all: bool,
    /// Whether only the number of rows matters: then nulls do not.
    rows_only: bool,
}

impl Wanted {
    /// Those that are named, or all, as the first file has them.
    pub fn new(schema: &Schema, file: &str, columns: Option<&[String]>, fill: &Fill) -> Result<Wanted> {
        let all: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        let here = |e: Error| e.in_file(file, None);
        let (fill_here, all_of_them) = (fill.clone(), columns.is_none());
        let mut wanted = Wanted { columns: vec![], types: vec![], fill: fill_here, all: all_of_them, rows_only: false };
        for name in columns.unwrap_or(&all) {
            let field = schema.fields().iter().find(|f| f.name() == name).ok_or_else(|| {
                here(Error::usage(format!("there is no column {name:?}; the columns are {}", all.join(", "))))
            })?;
            if wanted.columns.iter().any(|(n, _)| n == name) {
                return Err(here(Error::usage(format!("column {name:?} is there twice"))));
            }
            wanted.columns.push((name.clone(), spec_of(field).map_err(here)?));
            wanted.types.push(field.data_type().clone());
        }
        // Of columns that have no place in an element, only the name is known.
        let paths = |f: &Arc<Field>| spec_of(f).map_or(vec![f.name().clone()], |spec| leaf_paths(f.name(), &spec));
        let paths: Vec<String> = schema.fields().iter().flat_map(paths).collect();
        fill.check(&paths, &wanted.spec())?;
        Ok(wanted)
    }
    pub fn rows_only(self, rows_only: bool) -> Wanted {
        Wanted { rows_only, ..self }
    }
    pub fn spec(&self) -> Spec {
        let items = self.columns.iter().map(|(name, spec)| (name.as_str().into(), spec.clone()));
        Tree::Map { tag: None, items: items.collect() }
    }
    /// Where they are in a file; they must be what they are in the first.
    pub fn places(&self, schema: &Schema, file: &str) -> Result<Vec<usize>> {
        let place = |((name, spec), first): (&(String, Spec), &DataType)| {
            let at = schema.fields().iter().position(|f| f.name() == name);
            let at =
                at.ok_or_else(|| Error::data(format!("there is no column {name:?} here, as the first file has")))?;
            check_field(&schema.fields()[at], spec, first)?;
            Ok(at)
        };
        let is_new = |name: &String| self.all && !self.columns.iter().any(|(n, _)| n == name);
        let places = self.columns.iter().zip(&self.types).map(place).collect::<Result<_>>();
        match schema.fields().iter().map(|f| f.name()).find(|name| is_new(name)) {
            Some(new) if places.is_ok() => Err(Error::data(format!(
                "column {new:?} is here and not in the first file; say which columns are meant with columns=[...]"
            ))),
            _ => places,
        }
        .map_err(|e| e.in_file(file, None))
    }
    /// Their values, in the same order, as columns of elements.
    pub fn decoded(&self, values: impl IntoIterator<Item = Values>) -> Result<Decoded> {
        let (mut columns, mut nulls) = (Vec::new(), Nulls::default());
        for (values, (name, spec)) in values.into_iter().zip(&self.columns) {
            match (values, spec) {
                (Values::Array(array), _) => columns_of(array, None, name, &self.fill, &mut columns, &mut nulls)?,
                (Values::Numbers(buf), Tree::Leaf(Leaf::Tensor { dtype, .. })) => {
                    let rows = buf.len() / dtype.size();
                    columns.push(Column::Dense(Tensor::from_buf(*dtype, [rows], buf, 0)?));
                }
                (Values::Numbers(_), _) => return Err(Error::internal("numbers in a column of something else")),
            }
        }
        Ok(Decoded { columns, bad: if self.rows_only { vec![] } else { nulls.errors() } })
    }
}
