//! CSV records to typed columns.

use super::super::{Arg, Attrs, Func, Made, RowAt, RowsAt, Several, arity, dense};
use crate::element::{Column, DType, Element, Leaf, StringsBuilder, Tensor, Value};
use crate::error::{Error, Result};
use feedline_formats::csv::{self, Dialect, Fill, Parser, Schema, Sink, Type};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::ops::Range;

pub(super) static FUNCS: &[Func] = &[Func {
    name: "io.decode_csv",
    doc: "The fields of CSV records, each as a tensor of the records' shape.",
    pure: true,
    make: |args, attrs| {
        let [_] = arity::<1>(args)?;
        let (dtype, shape) = dense(args, 0)?;
        if dtype != DType::String {
            return Err(Error::usage(format!("expects strings, not {dtype}")));
        }
        let (schema, columns) = of_attrs(attrs)?;
        let specs = columns.iter().map(|c| Leaf::tensor(c.dtype, shape.clone())).collect();
        Made::several(specs, DecodeCsv { schema: schema.blank_has_no_field() })
    },
}];

/// A column as parameters have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsvColumn {
    /// For messages, and for elements that are dictionaries.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub dtype: DType,
    /// What stands in for an empty field; without one it is required. Text may stand for numbers that JSON lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
}

impl CsvColumn {
    fn column(&self) -> Result<csv::Column> {
        let ty = csv_type(self.dtype)?;
        let bad = |d: &Json| Error::usage(format!("the default {d} is not of the dtype {}", self.dtype));
        let fill = match (&self.default, ty) {
            (None, _) => Fill::Required,
            (Some(Json::String(text)), Type::String) => Fill::Text(text.as_bytes().to_vec()),
            (Some(d), Type::Int32) => {
                Fill::Int(d.as_i64().filter(|n| i32::try_from(*n).is_ok()).ok_or_else(|| bad(d))?)
            }
            (Some(d), Type::Int64) => Fill::Int(d.as_i64().ok_or_else(|| bad(d))?),
            (Some(Json::String(text)), Type::Float32 | Type::Float64) => {
                Fill::Float(text.parse().map_err(|_| bad(&Json::String(text.clone())))?)
            }
            (Some(d), Type::Float32 | Type::Float64) => Fill::Float(d.as_f64().ok_or_else(|| bad(d))?),
            (Some(d), Type::String) => return Err(bad(d)),
        };
        Ok(csv::Column { name: self.name.clone(), ty, default: fill })
    }
}

fn csv_type(dtype: DType) -> Result<Type> {
    Ok(match dtype {
        DType::Int32 => Type::Int32,
        DType::Int64 => Type::Int64,
        DType::Float32 => Type::Float32,
        DType::Float64 => Type::Float64,
        DType::String => Type::String,
        other => {
            let only = "int32, int64, float32, float64 or string";
            return Err(Error::usage(format!("columns are {only}, not {other}; read it as one of these and cast it")));
        }
    })
}

fn dtype(ty: Type) -> DType {
    match ty {
        Type::Int32 => DType::Int32,
        Type::Int64 => DType::Int64,
        Type::Float32 => DType::Float32,
        Type::Float64 => DType::Float64,
        Type::String => DType::String,
    }
}

/// Columns of which some rows were looked at: empty fields are 0 or empty text.
pub fn inferred(names: Vec<String>, types: &[Type]) -> Vec<CsvColumn> {
    let column = |(name, ty): (String, &Type)| {
        let default = if *ty == Type::String { Json::from("") } else { Json::from(0) };
        CsvColumn { name, dtype: dtype(*ty), default: Some(default) }
    };
    names.into_iter().zip(types).map(column).collect()
}

pub fn schema(dialect: Dialect, columns: &[CsvColumn], select: Option<&[i64]>, na: &str) -> Result<Schema> {
    let columns = columns.iter().map(CsvColumn::column).collect::<Result<Vec<_>>>()?;
    if columns.is_empty() {
        return Err(Error::usage("record_defaults is empty: at least one column is needed"));
    }
    Schema::new(dialect, columns, select.map(<[i64]>::to_vec), na.as_bytes().to_vec())
}

fn of_attrs(attrs: &Attrs) -> Result<(Schema, Vec<CsvColumn>)> {
    let columns: Vec<CsvColumn> = serde_json::from_value(attrs.get("columns").cloned().unwrap_or_default())?;
    let delim = attrs.str("field_delim")?.unwrap_or(",");
    let dialect = Dialect::new(delim, attrs.bool("use_quote_delim")?.unwrap_or(true))?;
    let select = attrs.i64s("select_cols")?;
    let schema = schema(dialect, &columns, select.as_deref(), attrs.str("na_value")?.unwrap_or(""))?;
    Ok((schema, columns))
}

/// Cells go straight into the memory of their columns.
struct Cells<'a> {
    /// A slice for each column of numbers; strings have an empty one.
    numbers: Vec<&'a mut [u8]>,
    texts: Vec<StringsBuilder>,
    /// The row of the results.
    row: usize,
    records: &'a Tensor,
    /// The number of the record.
    record: usize,
}

impl Sink for Cells<'_> {
    #[inline]
    fn number<const N: usize>(&mut self, column: usize, bytes: [u8; N]) {
        self.numbers[column].as_chunks_mut::<N>().0[self.row] = bytes;
    }
    fn view(&mut self, column: usize, range: Range<usize>) {
        self.records.push_part(&mut self.texts[column], self.record, range);
    }
    fn copy(&mut self, column: usize, text: &[u8]) {
        self.texts[column].push(text);
    }
}

/// The columns of all records that can be read, one after the other, and what is wrong with the others.
pub fn parse(schema: &Schema, records: &Tensor) -> (Vec<Tensor>, Vec<(usize, Error)>) {
    let n = records.len();
    let dtypes: Vec<DType> = schema.columns().iter().map(|c| dtype(c.ty)).collect();
    let mut numbers: Vec<Tensor> = dtypes
        .iter()
        .map(|d| if *d == DType::String { Tensor::new(DType::Uint8, [0]) } else { Tensor::new(*d, [n]) })
        .collect();
    let texts = dtypes.iter().map(|d| StringsBuilder::with_capacity(if *d == DType::String { n } else { 0 })).collect();
    let mut failed = Vec::new();
    let numbers_mut = numbers.iter_mut().map(|t| t.bytes_mut()).collect();
    let mut cells = Cells { numbers: numbers_mut, texts, row: 0, records, record: 0 };
    let mut parser = Parser::new(schema);
    for record in 0..n {
        cells.record = record;
        match parser.row(records.str_at(record), &mut cells) {
            Ok(()) => cells.row += 1,
            Err(error) => failed.push((record, error)),
        }
    }
    let (rows, texts) = (cells.row, cells.texts);
    let columns = numbers.into_iter().zip(texts).zip(&dtypes).map(|((number, text), dtype)| match dtype {
        DType::String => text.tensor([rows]),
        _ if rows == n => number,
        _ => number.slice(0..rows),
    });
    (columns.collect(), failed)
}

struct DecodeCsv {
    schema: Schema,
}

impl DecodeCsv {
    fn decode(&self, records: &Tensor) -> Result<Vec<Tensor>> {
        let (columns, mut failed) = parse(&self.schema, records);
        match failed.is_empty() {
            true => Ok(columns.into_iter().map(|c| c.into_reshaped(records.shape())).collect()),
            false if records.rank() == 0 => Err(failed.swap_remove(0).1),
            false => {
                let (at, error) = failed.swap_remove(0);
                Err(Error::data(format!("record {at}: {}", error.message())))
            }
        }
    }
}

impl Several for DecodeCsv {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Element> {
        Ok(self.decode(args[0].tensor())?.into_iter().map(Value::Tensor).collect())
    }
    fn rows(&self, args: &mut [Arg], _: usize, _: RowsAt<'_>) -> Result<Option<Vec<Column>>> {
        match &args[0] {
            Arg::Rows(Column::Dense(records)) => {
                Ok(Some(self.decode(records)?.into_iter().map(Column::Dense).collect()))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{find, testing::attrs};
    use super::*;
    use crate::element::Pos;
    use serde_json::json;

    fn made(json: Json) -> Result<Made> {
        (find("io.decode_csv").unwrap().make)(
            &[Leaf::tensor(DType::String, crate::element::Dims::unknown())],
            &attrs(json),
        )
    }

    #[test]
    fn columns_have_the_shape_of_the_records() {
        let json = json!({"columns": [{"dtype": "int32"}, {"dtype": "string", "default": "k"}], "field_delim": ";"});
        let made = made(json).unwrap();
        let records = Tensor::strings([2, 1], &["1;\"a\"\"\"", "2;"]);
        let at = RowAt { epoch: 0, pos: 0 };
        let row = made.work.row(&[Value::Tensor(records.clone())], at).unwrap();
        assert_eq!(row[0].tensor(), &Tensor::from_items([2, 1], &[1i32, 2]));
        assert_eq!(row[1].tensor(), &Tensor::strings([2, 1], &["a\"", "k"]));
        let crate::expr::Work::Several(_, kernel) = &made.work else { panic!("one result") };
        let args = &mut [Arg::Rows(Column::Dense(records))];
        let columns = kernel.rows(args, 2, RowsAt { epoch: 0, pos: &Pos::Run(0) }).unwrap().unwrap();
        assert!(matches!(&columns[0], Column::Dense(t) if t.shape() == [2, 1]));
        let bad = Tensor::strings([2], &["1;a", "x;b"]);
        let said = made.work.row(&[Value::Tensor(bad)], at).unwrap_err().to_string();
        assert!(said.contains("record 1: field 0 is \"x\""), "{said}");
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for json in [
            json!({"columns": []}),
            json!({"columns": [{"dtype": "bool"}]}),
            json!({"columns": [{"dtype": "int32", "default": "x"}]}),
            json!({"columns": [{"dtype": "int32", "default": 1i64 << 40}]}),
            json!({"columns": [{"dtype": "string"}], "field_delim": ";;"}),
            json!({"columns": [{"dtype": "string"}], "select_cols": [1, 2]}),
        ] {
            assert!(made(json.clone()).is_err(), "{json}");
        }
        assert!(made(json!({"columns": [{"dtype": "float32", "default": "nan"}]})).is_ok());
    }
}
