//! The worker's side: it gets a function, and calls it for the rows that come, until nobody sends any more.

use crate::link::{Inbox, Kind, Outbox};
use crate::wire::{Rows, Told, row_bytes, write_refused, write_row, write_told};
use feedline::element::Element;
use feedline::runtime::mix;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

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
        unless_gone(self.outbox.send(Kind::Refused, 0))
    }
    /// Calls the function for all rows that come. It also gets a seed, which depends on nothing but the element.
    pub fn serve(&mut self, call: &mut dyn FnMut(Element, u64) -> Result<Element, Told>) -> io::Result<()> {
        unless_gone(self.answer_all(call))
    }
    fn answer_all(&mut self, call: &mut dyn FnMut(Element, u64) -> Result<Element, Told>) -> io::Result<()> {
        let Worker { inbox, outbox } = self;
        outbox.begin();
        outbox.send(Kind::Ready, 0)?;
        while let Some(message) = inbox.bodies.receive(&mut inbox.line)? {
            let (start, mut waited, mut allowed) = (Instant::now(), Duration::ZERO, message.number);
            let rows = Rows::read(message.body).map_err(io::Error::other)?;
            outbox.begin();
            for (row, pos) in rows.pos.iter().enumerate() {
                let made = call(rows.element(row), mix(rows.key, pos.wrapping_add(1)));
                let bytes = row_bytes(&made) as u64;
                let all = bytes.saturating_add(outbox.len() as u64);
                if all > allowed {
                    let asked = Instant::now();
                    outbox.signal(Kind::Ask, all, bytes)?;
                    let Some((said, number)) = inbox.line.answer()? else { return Ok(()) };
                    waited += asked.elapsed();
                    if said == Kind::Denied {
                        write_refused(outbox, bytes, number)?;
                        continue;
                    }
                    allowed = number;
                }
                // Written at once: the function may return the same array each time.
                write_row(outbox, &made)?;
            }
            outbox.send(Kind::Done, start.elapsed().saturating_sub(waited).as_nanos() as u64)?;
        }
        Ok(())
    }
}

/// Nobody who listens any more is the usual end of a worker.
fn unless_gone(said: io::Result<()>) -> io::Result<()> {
    said.or_else(|e| if e.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(e) })
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
