//! The worker's side: it gets a function, and calls it for the rows that come, until nobody sends any more.

use crate::link::{Inbox, Kind, Outbox};
use crate::wire::{Rows, Told, write_row, write_told};
use feedline::element::Element;
use feedline::runtime::mix;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// A worker's end of the socket.
pub struct Worker {
    inbox: Inbox,
    outbox: Outbox,
}

impl Worker {
    pub fn new(socket: UnixStream) -> io::Result<Worker> {
        Ok(Worker { inbox: Inbox::new(socket.try_clone()?), outbox: Outbox::new(socket) })
    }
    /// The function, as whoever started this process wrote it down, and the number of this worker. `None` if nobody is
    /// there any more.
    pub fn setup(&mut self) -> io::Result<Option<(Vec<u8>, u64)>> {
        match self.inbox.receive()? {
            Some(message) if message.kind == Kind::Setup => Ok(Some((message.body.to_vec(), message.number))),
            Some(_) => Err(io::Error::other("a worker that was not set up")),
            None => Ok(None),
        }
    }
    /// Says why it cannot work.
    pub fn refuse(&mut self, told: &Told) -> io::Result<()> {
        self.outbox.begin();
        write_told(&mut self.outbox, told)?;
        self.outbox.send(Kind::Refused, 0)
    }
    /// Calls the function for all rows that come. It also gets a seed, which depends on nothing but the element.
    pub fn serve(&mut self, call: &mut dyn FnMut(Element, u64) -> Result<Element, Told>) -> io::Result<()> {
        let Worker { inbox, outbox } = self;
        outbox.begin();
        outbox.send(Kind::Ready, 0)?;
        while let Some(message) = inbox.receive()? {
            let start = Instant::now();
            let rows = Rows::read(message.body).map_err(io::Error::other)?;
            outbox.begin();
            for (row, pos) in rows.pos.iter().enumerate() {
                // Written at once: the function may return the same array each time.
                write_row(outbox, &call(rows.element(row), mix(rows.key, pos.wrapping_add(1))))?;
            }
            outbox.send(Kind::Done, start.elapsed().as_nanos() as u64)?;
        }
        Ok(())
    }
}

/// Ends this process together with the thread that started it, whatever becomes of the socket: a process that was forked
/// may hold the other end. False if it is gone already.
pub fn follow_parent(parent: u32) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: plain calls.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    std::os::unix::process::parent_id() == parent
}
