//! An errand that is done row by row, after a worker died of it or where it is too large to send.

use super::lock;
use feedline::expr::{Answer, Part, Reply};
use std::sync::{Arc, Mutex};

/// A reply for each row.
pub fn one_by_one(reply: Box<dyn Reply>, rows: usize) -> Vec<Box<dyn Reply>> {
    let parts = Parts { reply, rows: (0..rows).map(|_| None).collect(), left: rows, busy_ns: 0 };
    let all = Arc::new(Apart(Mutex::new(Some(parts))));
    (0..rows).map(|row| Box::new(OneRow { all: all.clone(), row }) as Box<dyn Reply>).collect()
}

/// The rows of an errand that are done one by one. The last answer completes it.
struct Apart(Mutex<Option<Parts>>);

struct Parts {
    reply: Box<dyn Reply>,
    rows: Vec<Option<Part>>,
    left: usize,
    busy_ns: u64,
}

struct OneRow {
    all: Arc<Apart>,
    row: usize,
}

impl Reply for OneRow {
    fn is_wanted(&self) -> bool {
        lock(&self.all.0).as_ref().is_some_and(|parts| parts.reply.is_wanted())
    }
    fn is_awaited(&self) -> bool {
        lock(&self.all.0).as_ref().is_some_and(|parts| parts.reply.is_awaited())
    }
    fn most(&self) -> usize {
        lock(&self.all.0).as_ref().map_or(usize::MAX, |parts| parts.reply.most())
    }
    fn give(self: Box<Self>, mut answer: Answer) {
        let mut guard = lock(&self.all.0);
        let Some(parts) = guard.as_mut() else { return };
        parts.rows[self.row] = answer.parts.pop();
        parts.busy_ns += answer.busy_ns;
        parts.left -= 1;
        if parts.left > 0 && !answer.is_end {
            return;
        }
        let Some(Parts { reply, mut rows, busy_ns, .. }) = guard.take() else { return };
        drop(guard);
        // The end comes at once, without the rows that were done meanwhile.
        let rows = if answer.is_end { vec![rows.swap_remove(self.row)] } else { rows };
        let parts = rows.into_iter().flatten().collect();
        reply.give(Answer { parts, busy_ns, is_end: answer.is_end });
    }
}
