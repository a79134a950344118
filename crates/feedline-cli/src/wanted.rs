//! What is wanted of files that are read as rows: which columns, how types are learned, and what stands for nulls.

use crate::file::File;
use crate::rows::SEEN_RECORDS;
use crate::session::Watch;
use clap::Args;
use feedline::element::DType;
use feedline::{Error, Result};
use serde_json::{Value as Json, json};
use std::cell::RefCell;

/// The columns of a command line.
#[derive(Args, Clone, Default)]
pub struct Columns {
    /// The columns to read, in this order; default: all
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub columns: Vec<String>,
}

pub struct Wanted<'a> {
    /// Empty: all.
    pub columns: &'a [String],
    pub fill: &'a Fill,
    /// Types of text are learned from so many rows; 0: from all. `None`: from all where files are near.
    pub infer: Option<usize>,
    /// Nulls that nothing stands for are refused as soon as they are seen.
    pub strict: bool,
    pub watch: &'a Watch<'a>,
    /// What is read otherwise than it stands in the files.
    pub remarks: RefCell<Vec<String>>,
}

/// Nothing stands for nulls.
static NO_FILL: Fill = Fill { all: None, columns: vec![] };

impl<'a> Wanted<'a> {
    /// All columns, as the first rows show them.
    pub fn all(watch: &'a Watch<'a>) -> Wanted<'a> {
        Wanted {
            columns: &[],
            fill: &NO_FILL,
            infer: Some(SEEN_RECORDS),
            strict: false,
            watch,
            remarks: RefCell::default(),
        }
    }
    /// How many rows types are learned from.
    pub fn rows(&self, files: &[File]) -> usize {
        match self.infer {
            Some(0) => usize::MAX,
            Some(rows) => rows,
            // Far files would be fetched twice.
            None if files.iter().any(File::is_far) => SEEN_RECORDS,
            None => usize::MAX,
        }
    }
    /// The places of the wanted columns among all.
    pub fn places(&self, all: &[String]) -> Result<Vec<usize>> {
        self.fill.check(all)?;
        if self.columns.is_empty() {
            return Ok((0..all.len()).collect());
        }
        places(self.columns, all)
    }
}

/// Where columns are among all.
pub fn places(wanted: &[String], all: &[String]) -> Result<Vec<usize>> {
    let place = |(i, name): (usize, &String)| {
        if wanted[..i].contains(name) {
            feedline::bail!(Usage, "--columns has {name:?} twice");
        }
        all.iter().position(|n| n == name).ok_or_else(|| no_column("--columns", name, all))
    };
    wanted.iter().enumerate().map(place).collect()
}

fn no_column(option: &str, name: &str, all: &[String]) -> Error {
    Error::usage(format!("{option}: there is no column {name:?}; the columns are {}", all.join(", ")))
}

/// What stands for nulls, for empty fields of numbers in CSV files, and for fields that a line does not have.
#[derive(Clone, Debug, Default)]
pub struct Fill {
    /// In every column that it fits.
    all: Option<String>,
    columns: Vec<(String, String)>,
}

impl Fill {
    /// From the command line: each is `COLUMN=VALUE` or `VALUE`.
    pub fn parse(given: &[String]) -> Result<Fill> {
        let mut fill = Fill::default();
        for text in given {
            match text.split_once('=') {
                Some((name, _)) if fill.columns.iter().any(|(n, _)| n == name) => {
                    feedline::bail!(Usage, "--fill says twice what stands for nulls of {name:?}");
                }
                Some((name, value)) => fill.columns.push((name.into(), value.into())),
                None if fill.all.is_some() => {
                    feedline::bail!(Usage, "--fill says twice what stands for nulls of all columns");
                }
                None => fill.all = Some(text.clone()),
            }
        }
        Ok(fill)
    }
    pub fn is_empty(&self) -> bool {
        self.all.is_none() && self.columns.is_empty()
    }
    /// Refuses names that are no columns; a part of a column is `column.part`.
    pub fn check(&self, all: &[String]) -> Result<()> {
        let is_part = |name: &str, of: &str| name.strip_prefix(of).is_some_and(|rest| rest.starts_with('.'));
        match self.columns.iter().find(|(name, _)| !all.iter().any(|n| n == name || is_part(name, n))) {
            Some((name, _)) => Err(no_column("--fill", name, all)),
            None => Ok(()),
        }
    }
    /// What stands for nulls of a column; `None`: nothing does.
    pub fn of(&self, name: &str, dtype: DType) -> Result<Option<Json>> {
        let named = self.named(name, dtype)?;
        Ok(named.or_else(|| self.all.as_ref().and_then(|text| value(text, dtype))))
    }
    /// The same if the column was named.
    pub fn named(&self, name: &str, dtype: DType) -> Result<Option<Json>> {
        match self.columns.iter().find(|(n, _)| n == name) {
            None => Ok(None),
            Some((_, text)) => match value(text, dtype) {
                None => Err(Error::usage(format!("--fill: {text:?} cannot stand in the column {name:?} of {dtype}"))),
                some => Ok(some),
            },
        }
    }
}

/// A value of a type as operators take it: floats that JSON does not have are text.
fn value(text: &str, dtype: DType) -> Option<Json> {
    match dtype {
        DType::String => Some(text.into()),
        DType::Bool => text.parse::<bool>().ok().map(Json::from),
        dtype if dtype.is_float() => {
            let x: f64 = text.parse().ok()?;
            Some(if x.is_finite() { json!(x) } else { text.into() })
        }
        DType::Uint64 => text.parse::<u64>().ok().map(Json::from),
        _ => text.parse::<i64>().ok().map(Json::from),
    }
}

/// Words of the core about nulls and columns, which advise for Python, in those of the command line.
pub fn in_our_words(error: &Error) -> Option<String> {
    const NULLS: &str = "; --fill COLUMN=VALUE says what stands for it, --columns NAME,… leaves the column out";
    const TYPES: &str = "; --columns NAME,… says which columns to read, without it";
    let text = error.message();
    let advice = [
        ("; say what stands for nulls with fill=", "ignore_errors()", NULLS),
        ("; a default for the column", "would take its place", NULLS),
        ("; give it a default in the schema", "if that may be", NULLS),
        ("; leave it out with columns=[", "as another type", TYPES),
        ("; leave one out with columns=[", "]", TYPES),
        ("; say which columns are meant with columns=[", "]", "; --columns NAME,… says which are meant"),
        ("; say which fields are wanted with fields=[", "\"skip\"", "; --columns NAME,… says which fields are read"),
    ];
    advice.into_iter().find_map(|(begin, end, ours)| {
        let from = text.find(begin)?;
        let to = from + text[from..].find(end)? + end.len();
        Some(format!("{}{}{ours}", &text[..from], &text[to..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(given: &[&str]) -> Result<Fill> {
        Fill::parse(&given.iter().map(|t| t.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn values_stand_where_they_fit() {
        let fill = fill(&["0", "name=-", "x=nan"]).unwrap();
        assert_eq!(fill.of("n", DType::Int64).unwrap(), Some(json!(0)));
        assert_eq!(fill.of("n", DType::Float64).unwrap(), Some(json!(0.0)));
        assert_eq!(fill.of("n", DType::Bool).unwrap(), None);
        assert_eq!(fill.of("name", DType::String).unwrap(), Some(json!("-")));
        assert_eq!(fill.of("x", DType::Float32).unwrap(), Some(json!("nan")));
        assert!(fill.of("name", DType::Int64).unwrap_err().to_string().contains("cannot stand"));
        assert!(fill.check(&["name".into(), "x".into()]).is_ok());
        assert!(fill.check(&["name".into()]).unwrap_err().to_string().contains("no column \"x\""));
    }

    #[test]
    fn wrong_words_are_refused() {
        assert!(fill(&["1", "2"]).is_err() && fill(&["a=1", "a=2"]).is_err());
        let all = ["a".to_string(), "b".to_string()];
        assert_eq!(places(&["b".into(), "a".into()], &all).unwrap(), [1, 0]);
        assert!(places(&["c".into()], &all).is_err() && places(&["a".into(), "a".into()], &all).is_err());
    }

    #[test]
    fn advice_is_that_of_the_command_line() {
        let said = |text: &str| in_our_words(&Error::data(text)).unwrap_or_default();
        let text = said("the field \"a\" is null; give it a default in the schema if that may be");
        assert!(text.starts_with("the field \"a\" is null; --fill"), "{text}");
        assert!(in_our_words(&Error::data("checksum")).is_none());
    }
}
