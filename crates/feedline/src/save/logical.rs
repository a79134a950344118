//! Types of columns that elements do not have (instants, dates, decimals), for whoever writes again what was read from such
//! columns: elements have their plain numbers, which are called here what they were.

use crate::error::{Error, Result};
use feedline_formats::columnar::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use feedline_formats::columnar::cast::{CastOptions, cast_with_options};
use feedline_formats::columnar::schema::{DataType, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Columns of single values, and their types in Arrow's words.
pub type Types = BTreeMap<String, String>;

/// The schema with these types.
pub fn typed(schema: &SchemaRef, types: &Types) -> Result<SchemaRef> {
    let mut fields = schema.fields().to_vec();
    for (name, told) in types {
        let field = fields.iter_mut().find(|field| field.name() == name);
        let field = field.ok_or_else(|| Error::usage(format!("there is no column {name:?} to be {told}")))?;
        let data_type: DataType = told.parse().map_err(|_| Error::usage(format!("{told} is no type of a column")))?;
        if plain(&data_type).as_ref() != Some(field.data_type()) {
            return Err(Error::usage(format!("the column {name:?} is {}, which is not {told}", field.data_type())));
        }
        *field = Arc::new(field.as_ref().clone().with_data_type(data_type));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// What elements have of it.
fn plain(data_type: &DataType) -> Option<DataType> {
    use DataType::*;
    match data_type {
        Date32 | Time32(_) => Some(Int32),
        Date64 | Time64(_) | Timestamp(..) | Duration(_) => Some(Int64),
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => Some(Float64),
        _ => None,
    }
}

/// Plain rows in a schema that `typed` made.
pub fn called(rows: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = rows.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| as_type(array, field.data_type())).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(|e| Error::data(e.to_string()))
}

fn as_type(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let failed = |e: &dyn std::fmt::Display| Error::data(e.to_string());
    match array.data_type() {
        same if same == to => Ok(array.clone()),
        // What does not fit is an error, and no null.
        DataType::Float64 => {
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(array, to, &options).map_err(|e| failed(&e))
        }
        // The same memory.
        _ => Ok(make_array(array.to_data().into_builder().data_type(to.clone()).build().map_err(|e| failed(&e))?)),
    }
}
