//! Functions in processes of their own: what `map(function, workers=n)` runs on. Which interpreter they are, and what a
//! function is there, is left to whoever uses this (`feedline-py`).
//!
//! 1. A **crew** (`crew.rs`) is n fresh processes and one thread that starts them, reads their answers and ends them.
//!    It belongs to a function, outlives iterators by some seconds, and is shared by those that run side by side.
//! 2. A worker gets the function once, says that it is ready, then answers messages one by one (`worker.rs`). It has at
//!    most two of them: one that it works on, and one that waits.
//! 3. A **message** (`link.rs`) is a header on a socket. What is small follows it there; what is large lies in memory
//!    that both sides have mapped (`memory.rs`), of which each side has two pieces to write to, in turn: message n is
//!    sent only after the answer to n - 2 was read, so whoever writes a piece again knows that nobody needs it.
//! 4. Values lie there as bytes (`wire.rs`) and are copied out by whoever gets them, on the way back straight into the
//!    memory of the batch where that is known: nobody ever holds the memory of somebody else.
//! 5. What is shared is memory of the pass that sends (`pages.rs`): while a message lies in it it is charged to that pass, and
//!    in between it is kept as long as there is room. Rows are sent, and a worker that has more to say than a little is let
//!    write it, when the pass has room for it and for as much again; whoever waits for them, and has nothing else to go on
//!    with, gets what there is. One element that takes more than the limit, where a worker leaves it and where it is copied
//!    to, is an error in its place.
//! 6. No thread of the pool waits for a worker, and no thread here needs an interpreter.
//! 7. A worker ends when its socket does, and (on Linux) when the thread that started it is gone, however that came about.
//!    Whoever does not end by itself within a second is killed. All are waited for: none stays behind as a zombie.
//! 8. The child of a fork touches nothing of this. It makes a crew of its own.
#![cfg(unix)]

mod crew;
mod link;
mod memory;
mod pages;
mod wire;
mod worker;

pub use crew::{Slot, Start, end_all};
pub use wire::Told;
pub use worker::{Worker, follow_parent};
