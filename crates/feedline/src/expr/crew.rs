//! Host functions that are called elsewhere, many rows at a time: the treaty between an operator that sends rows away and
//! whoever has processes to call functions in.

use crate::element::{Column, Pos, Slots};
use crate::error::Error;
use feedline_io::Account;
use serde::{Deserialize, Serialize};

/// What is wanted of a crew.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// How many call the function at once; at least 1.
    pub workers: usize,
    pub on_death: OnDeath,
    /// The pass before may have had another function: one that refers to values which have changed since is told apart.
    /// False inside of another operator's function, where crews are asked for thousands of times.
    pub anew: bool,
}

/// What becomes of a pipeline when a worker dies in the middle of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDeath {
    /// An error, and the end.
    #[default]
    Raise,
    /// Another worker does its rows again. A row that kills that one too is an error in its place.
    Restart,
}

/// Those who call a host function elsewhere.
pub trait Crew: Send + Sync {
    /// Has rows worked on by whoever is free. Does not wait: the answer may come from any thread, at any time.
    fn send(&self, errand: Errand, reply: Box<dyn Reply>);
}

/// Rows to work on: the arguments, and where each row stands.
pub struct Errand {
    pub columns: Vec<Column>,
    pub rows: usize,
    pub epoch: u64,
    pub pos: Pos,
    /// Where results belong, if that is known: room for exactly these rows, or nothing.
    pub slots: Slots,
    /// Who has the memory that it takes to send them and to get the results.
    pub account: Option<&'static Account>,
}

impl Errand {
    /// The same for one of its rows.
    pub fn row(&self, row: usize) -> Errand {
        let columns = self.columns.iter().map(|c| c.slice(row..row + 1)).collect();
        let (pos, slots) = (Pos::Run(self.pos.at(row)), Slots::new());
        Errand { columns, rows: 1, epoch: self.epoch, pos, slots, account: self.account }
    }
    /// Bytes of its rows.
    pub fn nbytes(&self) -> usize {
        self.columns.iter().map(|column| column.nbytes()).sum()
    }
}

/// Whoever waits for an answer. One that is dropped unanswered says so to whoever waits.
pub trait Reply: Send {
    /// False once nobody wants the answer any more: the rows need not be worked on.
    fn is_wanted(&self) -> bool;
    /// Whether the pass has nothing to go on with until it comes: then it gets what others would wait for.
    fn is_awaited(&self) -> bool {
        true
    }
    /// Bytes that one element may take, beside what operators of the pass keep.
    fn most(&self) -> usize {
        usize::MAX
    }
    fn give(self: Box<Self>, answer: Answer);
}

/// What became of the rows of an errand.
pub struct Answer {
    /// As many rows and errors as there were rows, in order.
    pub parts: Vec<Part>,
    /// The time that the calls took.
    pub busy_ns: u64,
    /// Nothing more can come: the errors are the end of the pipeline.
    pub is_end: bool,
}

/// Rows that came out, with a column for each result, or an error in the place of one.
pub enum Part {
    Rows(usize, Vec<Column>),
    Fail(Error),
}
