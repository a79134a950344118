//! A plan for people: as written, as it runs, and what its meters say.

use super::Plan;
use crate::error::{Error, Result};
use crate::runtime::Meters;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

impl Format {
    pub fn parse(name: &str) -> Result<Format> {
        match name {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            other => Err(Error::usage(format!("there is no format {other:?}; the formats are text and json"))),
        }
    }
}

/// Explains a plan; with meters, what happened in it so far.
pub fn explain(plan: &Plan, _meters: Option<&Meters>, _format: Format) -> String {
    format!("{plan:?}")
}
