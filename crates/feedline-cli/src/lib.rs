//! The command `feedline`: look at files of training data, check them, index them, convert them; look at running
//! pipelines.
//!
//! 1. One file a command; `run` reads the command line and calls it. Python installs the same through `run`.
//! 2. `formats/` has a table of formats: how a file is recognised, read, checked, counted and written.
//! 3. `session.rs` is what commands share with the outside: output, progress, threads, and being stopped.
//!
//! A command gives `Ok(true)` (exit code 0), `Ok(false)` where it found data broken (1), or an error (1; 2 for wrong
//! usage; 130 when it was interrupted).

mod attach;
mod completions;
mod convert;
mod count;
mod dash;
mod examples;
mod file;
mod formats;
mod head;
mod index;
mod inspect;
mod record;
mod retry;
mod rows;
mod saved;
mod session;
mod show;
mod terminal;
mod top;
mod verify;
mod wanted;

use clap::{Args, Parser, Subcommand};
use feedline::{Error, Kind};
use session::Session;
use std::ffi::OsString;

/// What is fine, what is broken, wrong usage, interrupted, and a reader of our output that went away.
const FINE: u8 = 0;
const BROKEN: u8 = 1;
const USAGE: u8 = 2;
const INTERRUPTED: u8 = 130;
const PIPE_CLOSED: u8 = 141;

/// Look at files of training data, check them, index them, convert them.
///
/// Formats: TFRecord, CSV, JSON lines, tar (WebDataset), Parquet, Arrow, NumPy; they are recognised by their contents.
/// A FILE is a path, a folder (the files in it), a pattern ("data/*.tfrecord"), or an address
/// (http://, s3://, gs://, az://) where this build has them.
#[derive(Parser)]
#[command(
    name = "feedline",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 fine, 1 the data is broken or a command failed, 2 wrong usage, 130 interrupted.",
    after_long_help = "\
Examples:
  feedline inspect train-00000.tfrecord       what is this file?
  feedline verify data/                       are all checksums right?
  feedline index 'data/*.tfrecord'            make records reachable by number
  feedline convert data/*.tfrecord all.jsonl  from any format to any other
  feedline head -n 3 train.parquet            the first rows
  feedline count --json data/                 how many records, for scripts
  feedline top                                what does my training's pipeline do?
  feedline show train.tfrecord 17             one record
  feedline retry bad/                         what a pipeline quarantined

Exit codes: 0 fine, 1 the data is broken or a command failed, 2 wrong usage, 130 interrupted."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
    /// No progress bars and no remarks; results and errors only
    #[arg(short, long, global = true)]
    quiet: bool,
    /// How many files or parts are worked on side by side; default: as many as there are CPUs
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

#[derive(Subcommand)]
enum Command {
    Inspect(inspect::Inspect),
    Verify(verify::Verify),
    Index(index::Index),
    Convert(convert::Convert),
    Head(head::Head),
    Count(count::Count),
    Top(top::Top),
    Dash(dash::Dash),
    Show(record::Show),
    Retry(retry::Retry),
    Completions(completions::Completions),
}

/// Runs a command line, whose first word is the name of the program. `poll` is asked ten times a second, on this thread,
/// whether to stop. Returns the exit code.
pub fn run(args: impl IntoIterator<Item = OsString>, poll: &mut dyn FnMut() -> bool) -> u8 {
    let Cli { command, common } = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout, mistakes to stderr. If that fails there is nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { USAGE } else { FINE };
        }
    };
    let session = Session::new(common.json, common.quiet, common.threads.map(usize::from), poll);
    let done = match command {
        Command::Inspect(command) => command.run(&session),
        Command::Verify(command) => command.run(&session),
        Command::Index(command) => command.run(&session),
        Command::Convert(command) => command.run(&session),
        Command::Head(command) => command.run(&session),
        Command::Count(command) => command.run(&session),
        Command::Top(command) => command.run(&session),
        Command::Dash(command) => command.run(&session),
        Command::Show(command) => command.run(&session),
        Command::Retry(command) => command.run(&session),
        Command::Completions(command) => command.run(&session),
    };
    match done.and_then(|fine| session.flush().map(|()| fine)) {
        Ok(true) => FINE,
        Ok(false) => BROKEN,
        Err(error) => {
            if is_closed_pipe(&error) {
                return PIPE_CLOSED;
            }
            session.failed(&error);
            match error.kind() {
                Kind::Usage => USAGE,
                Kind::Cancelled => INTERRUPTED,
                _ => BROKEN,
            }
        }
    }
}

/// `feedline head … | head -1`: nobody reads on, which is no error.
fn is_closed_pipe(error: &Error) -> bool {
    let cause = error.cause().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_long_help().map(|h| h.to_string()).unwrap_or_default();
            assert!(help.contains(&format!("feedline {}", command.get_name())), "{}", command.get_name());
        }
    }
}
