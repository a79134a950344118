//! `feedline completions SHELL`: what a shell needs to complete command lines.

use crate::Cli;
use crate::session::{Session, unwritable};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use feedline::Result;
use serde_json::json;
use std::io::Write;

/// Print completions for a shell
///
/// The shell's own name says where its file belongs.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  feedline completions bash > ~/.local/share/bash-completion/completions/feedline
  feedline completions zsh > ~/.zfunc/_feedline
  feedline completions fish > ~/.config/fish/completions/feedline.fish")]
pub struct Completions {
    shell: Shell,
}

impl Completions {
    pub fn run(self, session: &Session<'_>) -> Result<bool> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "feedline", &mut script);
        if session.json {
            session
                .document(&json!({ "shell": self.shell.to_string(), "script": String::from_utf8_lossy(&script) }))?;
        } else {
            std::io::stdout().write_all(&script).map_err(unwritable)?;
        }
        Ok(true)
    }
}
