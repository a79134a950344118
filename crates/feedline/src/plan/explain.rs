//! A plan for people: as written, as it runs, and what its meters say.

use super::Plan;
use crate::runtime::Meters;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

/// Explains a plan; with meters, what happened in it so far.
pub fn explain(plan: &Plan, _meters: Option<&Meters>, _format: Format) -> String {
    format!("{plan:?}")
}
