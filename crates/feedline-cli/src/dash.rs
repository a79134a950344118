//! `feedline dash`: the address of the page of a running process.

use crate::attach;
use crate::session::Session;
use clap::Args;
use feedline::Result;
use serde_json::json;

/// The address of the page that shows a running process
///
/// The process must let itself be looked at: by fl.dashboard() or fl.serve(), or FEEDLINE_SERVE=1 in its environment.
/// The address has a token in it: whoever knows it can look, on this machine.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  feedline dash           the only process of yours that can be looked at
  feedline dash 4711      one of several
  xdg-open $(feedline dash)")]
pub struct Dash {
    /// Number of the process; not needed if there is only one
    pid: Option<u32>,
}

impl Dash {
    pub fn run(self, session: &Session<'_>) -> Result<bool> {
        let process = attach::find(self.pid)?;
        // Nobody is sent to a page that does not answer.
        process.ask("/state?most=1")?;
        match session.json {
            true => session.document(&json!({ "pid": process.pid, "url": process.url() }))?,
            false => session.line(process.url())?,
        }
        Ok(true)
    }
}
