//! Columns of Parquet and Arrow files whose types elements do not have: instants, dates, times, decimals. Whoever writes
//! them again keeps the type, or says what became of it.

use super::columnar::Opened;
use crate::file::File;
use crate::session::Watch;
use feedline::{Error, Result};
use feedline_formats::columnar::schema::DataType;

/// So many digits a float64 keeps of any decimal.
const EXACT_DIGITS: u8 = f64::DIGITS as u8;

/// A column, or a part of one, whose type elements do not have.
#[derive(Clone, Debug, PartialEq)]
pub struct Logical {
    pub path: String,
    /// In Arrow's words.
    pub stored: String,
    /// What elements have of it.
    pub plain: &'static str,
    /// A column of single values, of the same type in all files: files of columns can have it again.
    pub is_kept: bool,
}

/// Those among the wanted columns. Decimals of more digits than a float64 keeps are refused.
pub fn of(files: &[File], columns: &[String], watch: &Watch<'_>) -> Result<Vec<Logical>> {
    let mut all: Vec<Logical> = Vec::new();
    for (at, file) in files.iter().enumerate() {
        watch.done(0)?;
        let schema = Opened::new(file).map_err(|e| e.in_file(&file.name, None))?.schema();
        let mut here = Vec::new();
        for field in schema.fields().iter().filter(|f| columns.is_empty() || columns.contains(f.name())) {
            look(field.name(), field.data_type(), true, &mut here).map_err(|e| e.in_file(&file.name, None))?;
        }
        if at == 0 {
            all = here;
            continue;
        }
        all.iter_mut().for_each(|one| one.is_kept &= here.contains(one));
        for one in here {
            if !all.iter().any(|other| other.path == one.path) {
                all.push(Logical { is_kept: false, ..one });
            }
        }
    }
    Ok(all)
}

fn look(path: &str, data_type: &DataType, is_column: bool, out: &mut Vec<Logical>) -> Result<()> {
    use DataType::*;
    let plain = match data_type {
        Struct(fields) => {
            return fields.iter().try_for_each(|f| look(&format!("{path}.{}", f.name()), f.data_type(), false, out));
        }
        List(f) | LargeList(f) | FixedSizeList(f, _) => return look(path, f.data_type(), false, out),
        Dictionary(_, values) => return look(path, values, false, out),
        Date32 | Time32(_) => "int32",
        Date64 | Time64(_) | Timestamp(..) | Duration(_) => "int64",
        Decimal32(digits, _) | Decimal64(digits, _) | Decimal128(digits, _) | Decimal256(digits, _) => {
            if *digits > EXACT_DIGITS {
                return Err(Error::data(format!(
                    "the column {path:?} is {data_type}, and a float64, which is what is read of it, keeps \
                     {EXACT_DIGITS} digits; --columns NAME,… leaves it out"
                )));
            }
            "float64"
        }
        _ => return Ok(()),
    };
    let stored = data_type.to_string();
    // What is written is told in words.
    let is_kept = is_column && stored.parse::<DataType>().is_ok_and(|told| told == *data_type);
    out.push(Logical { path: path.into(), stored, plain, is_kept });
    Ok(())
}
