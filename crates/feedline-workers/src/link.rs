//! Messages between a process and its worker: a header on a socket, and a body behind it or in shared memory.

use super::memory::Memory;
use std::collections::VecDeque;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// To a worker, first: the function.
    Setup = 1,
    /// To a worker: rows to work on.
    Work = 2,
    /// From a worker, first: the function is there.
    Ready = 3,
    /// From a worker, first: the function cannot be had.
    Refused = 4,
    /// From a worker: what became of the rows.
    Done = 5,
    /// From a worker: what became of the rows up to one takes so many bytes, and that one so many. May it be written?
    Ask = 6,
    /// To a worker that asked: yes, up to so many bytes.
    Granted = 7,
    /// To a worker that asked: no, one may take so many.
    Denied = 8,
}

impl Kind {
    fn of(byte: u8) -> io::Result<Kind> {
        use Kind::*;
        let all = [Setup, Work, Ready, Refused, Done, Ask, Granted, Denied];
        all.into_iter().find(|k| *k as u8 == byte).ok_or_else(|| broken(format!("a message of kind {byte}")))
    }
}

/// Bodies up to this size travel on the socket, whose buffer has room for several.
const INLINE: usize = 16 << 10;
const HEADER: usize = 24;
/// Where a body lies: behind the header, or in one of two pieces of memory. Or there is none, but another number.
const BEHIND: u8 = 2;
const NOWHERE: u8 = 3;

fn broken(what: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("a message between processes is broken: {what}"))
}

/// The side that writes: a body is put together piece by piece, then sent.
pub struct Outbox {
    socket: UnixStream,
    /// The pieces of memory, and whether the other side has them.
    memory: [Option<(Memory, bool)>; 2],
    /// Which of them is next.
    turn: usize,
    small: Vec<u8>,
    /// Bytes of the body so far.
    used: usize,
}

impl Outbox {
    pub fn new(socket: UnixStream) -> Outbox {
        Outbox { socket, memory: [None, None], turn: 0, small: Vec::with_capacity(INLINE), used: 0 }
    }
    /// Forgets a body that was not sent.
    pub fn begin(&mut self) {
        self.small.clear();
        self.used = 0;
    }
    /// Bytes of the body so far.
    pub fn len(&self) -> usize {
        self.used
    }
    /// Which piece of memory the body lies in, if it is large.
    pub fn turn(&self) -> usize {
        self.turn
    }
    /// The piece that this body lies in; `None` if it travels on the socket.
    pub fn file(&self) -> Option<&Arc<OwnedFd>> {
        let (memory, _) = self.memory[self.turn].as_ref().filter(|_| self.used > INLINE)?;
        Some(memory.fd())
    }
    /// The next `len` bytes of the body, to be written.
    pub fn room(&mut self, len: usize) -> io::Result<&mut [u8]> {
        let (from, to) = (self.used, self.used.checked_add(len).ok_or_else(|| broken("too long"))?);
        self.used = to;
        if to <= INLINE {
            self.small.resize(to, 0);
            return Ok(&mut self.small[from..]);
        }
        let (memory, _) = match &mut self.memory[self.turn] {
            Some(piece) => piece,
            none => none.insert((Memory::new()?, false)),
        };
        memory.grow(to)?;
        if from <= INLINE {
            // It was small until now.
            memory.bytes_mut()[..from].copy_from_slice(&self.small[..from]);
        }
        Ok(&mut memory.bytes_mut()[from..to])
    }
    pub fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
    pub fn number(&mut self, n: u64) -> io::Result<()> {
        self.put(&n.to_le_bytes())
    }
    /// Text or bytes with their length.
    pub fn text(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.number(bytes.len() as u64)?;
        self.put(bytes)
    }
    /// Sends what was put together, with a number that its kind gives a meaning to.
    pub fn send(&mut self, kind: Kind, number: u64) -> io::Result<()> {
        let (turn, len) = (self.turn, self.used);
        self.turn ^= 1;
        let mut header = [0u8; HEADER];
        header[0] = kind as u8;
        header[1] = BEHIND;
        header[8..16].copy_from_slice(&(len as u64).to_le_bytes());
        header[16..24].copy_from_slice(&number.to_le_bytes());
        if len <= INLINE {
            return write(&self.socket, &header, &self.small[..len], None);
        }
        let Some((memory, known)) = &mut self.memory[turn] else { return Err(broken("a body without memory")) };
        header[1] = turn as u8;
        header[2] = u8::from(!*known);
        let fd = (!*known).then(|| &**memory.fd());
        *known = true;
        write(&self.socket, &header, &[], fd)
    }
    /// Sends two numbers, whatever body is being put together.
    pub fn signal(&self, kind: Kind, number: u64, other: u64) -> io::Result<()> {
        let mut header = [0u8; HEADER];
        (header[0], header[1]) = (kind as u8, NOWHERE);
        header[8..16].copy_from_slice(&other.to_le_bytes());
        header[16..24].copy_from_slice(&number.to_le_bytes());
        write(&self.socket, &header, &[], None)
    }
}

/// The side that reads.
pub struct Inbox {
    pub line: Line,
    pub bodies: Bodies,
}

/// What comes in.
pub struct Line {
    socket: UnixStream,
    /// Messages that came before an answer that was waited for.
    early: VecDeque<(Header, Vec<u8>)>,
}

/// Where bodies lie.
pub struct Bodies {
    memory: [Option<Memory>; 2],
    small: Vec<u8>,
}

/// A message without its body.
struct Header {
    kind: Kind,
    place: u8,
    /// The length of the body, or another number.
    len: u64,
    number: u64,
    /// A piece of memory that was not there before.
    fd: Option<OwnedFd>,
}

/// A message, whose body stays readable until the next one is received.
pub struct Message<'a> {
    pub kind: Kind,
    pub number: u64,
    /// The second number of a message without a body.
    pub other: u64,
    pub body: &'a [u8],
    /// Which piece the body lies in, if it is in one.
    pub piece: Option<&'a Arc<OwnedFd>>,
}

impl Inbox {
    pub fn new(socket: UnixStream) -> Inbox {
        let (early, small) = (VecDeque::new(), Vec::new());
        Inbox { line: Line { socket, early }, bodies: Bodies { memory: [None, None], small } }
    }
    pub fn socket(&self) -> &UnixStream {
        &self.line.socket
    }
    /// Waits for a message; `None` at the end.
    pub fn receive(&mut self) -> io::Result<Option<Message<'_>>> {
        self.bodies.receive(&mut self.line)
    }
}

impl Line {
    /// The next message; a body that follows it is read.
    fn read(&mut self, small: &mut Vec<u8>) -> io::Result<Option<Header>> {
        let mut header = [0u8; HEADER];
        let (first, fd) = read_first(&self.socket, &mut header)?;
        if first == 0 {
            return Ok(None);
        }
        io::Read::read_exact(&mut &self.socket, &mut header[first..])?;
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let (kind, place, len) = (Kind::of(header[0])?, header[1], number(8));
        match place {
            BEHIND if len > INLINE as u64 => return Err(broken(format!("{len} bytes on a socket"))),
            BEHIND => {
                small.resize(len as usize, 0);
                io::Read::read_exact(&mut &self.socket, small)?;
            }
            0 | 1 if header[2] == 1 && fd.is_none() => return Err(broken("memory without a descriptor")),
            0 | 1 | NOWHERE => {}
            other => return Err(broken(format!("a body in place {other}"))),
        }
        Ok(Some(Header { kind, place, len, number: number(16), fd: fd.filter(|_| header[2] == 1) }))
    }
    /// Waits for the answer to what was asked, and keeps for later what comes before it. `None` at the end.
    pub fn answer(&mut self) -> io::Result<Option<(Kind, u64)>> {
        loop {
            let mut small = Vec::new();
            match self.read(&mut small)? {
                None => return Ok(None),
                Some(Header { kind: kind @ (Kind::Granted | Kind::Denied), number, .. }) => {
                    return Ok(Some((kind, number)));
                }
                Some(header) => self.early.push_back((header, small)),
            }
        }
    }
}

impl Bodies {
    /// Waits for a message; `None` at the end.
    pub fn receive(&mut self, line: &mut Line) -> io::Result<Option<Message<'_>>> {
        let header = match line.early.pop_front() {
            Some((header, small)) => {
                self.small = small;
                Some(header)
            }
            None => line.read(&mut self.small)?,
        };
        let Some(Header { kind, place, len, number, fd }) = header else { return Ok(None) };
        let message = Message { kind, number, other: 0, body: &[], piece: None };
        Ok(Some(match place {
            NOWHERE => Message { other: len, ..message },
            BEHIND => Message { body: &self.small, ..message },
            place => {
                let piece = &mut self.memory[usize::from(place)];
                if let Some(fd) = fd {
                    *piece = Some(Memory::of(fd));
                }
                let memory = piece.as_mut().ok_or_else(|| broken("memory that was never sent"))?;
                let len = usize::try_from(len).map_err(|_| broken("too long"))?;
                memory.see(len)?;
                Message { body: &memory.bytes()[..len], piece: Some(memory.fd()), ..message }
            }
        }))
    }
}

/// Room for one descriptor beside the bytes, aligned as the system wants it.
#[repr(C, align(8))]
struct Beside([u8; 64]);

#[cfg(target_os = "linux")]
const NO_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const NO_SIGNAL: libc::c_int = 0;

fn write(socket: &UnixStream, header: &[u8], body: &[u8], fd: Option<&OwnedFd>) -> io::Result<()> {
    let (mut sent, whole) = (0, header.len() + body.len());
    while sent < whole {
        let (head, tail) = (&header[sent.min(header.len())..], &body[sent.saturating_sub(header.len())..]);
        let iov =
            [head, tail].map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        let mut beside = Beside([0; 64]);
        // SAFETY: the message points at slices and a buffer that outlive the call; the control header is written into
        // that buffer, which has room for it.
        let n = unsafe {
            let mut message: libc::msghdr = zeroed();
            message.msg_iov = iov.as_ptr().cast_mut();
            message.msg_iovlen = iov.len() as _;
            if let Some(fd) = fd.filter(|_| sent == 0) {
                message.msg_control = beside.0.as_mut_ptr().cast();
                message.msg_controllen = libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) as _;
                let control = libc::CMSG_FIRSTHDR(&message);
                (*control).cmsg_level = libc::SOL_SOCKET;
                (*control).cmsg_type = libc::SCM_RIGHTS;
                (*control).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as _;
                libc::CMSG_DATA(control).cast::<libc::c_int>().write_unaligned(fd.as_raw_fd());
            }
            libc::sendmsg(socket.as_raw_fd(), &message, NO_SIGNAL)
        };
        match n {
            n if n >= 0 => sent += n as usize,
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// The first bytes of a message, and the descriptor that came with them. None at the end.
fn read_first(socket: &UnixStream, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    loop {
        let mut iov = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let mut beside = Beside([0; 64]);
        // SAFETY: as in `write`; a descriptor that arrives is ours from then on.
        unsafe {
            let mut message: libc::msghdr = zeroed();
            message.msg_iov = &mut iov;
            message.msg_iovlen = 1;
            message.msg_control = beside.0.as_mut_ptr().cast();
            message.msg_controllen = beside.0.len() as _;
            #[cfg(target_os = "linux")]
            let n = libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC);
            #[cfg(not(target_os = "linux"))]
            let n = libc::recvmsg(socket.as_raw_fd(), &mut message, 0);
            if n < 0 {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::Interrupted => continue,
                    // The other process died before it had read everything.
                    io::ErrorKind::ConnectionReset => return Ok((0, None)),
                    _ => return Err(error),
                }
            }
            let control = libc::CMSG_FIRSTHDR(&message);
            let has = !control.is_null()
                && (*control).cmsg_level == libc::SOL_SOCKET
                && (*control).cmsg_type == libc::SCM_RIGHTS
                && (*control).cmsg_len as usize >= libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as usize;
            let fd = has.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(control).cast::<libc::c_int>().read_unaligned()));
            return Ok((n as usize, fd));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Outbox, Inbox) {
        let (a, b) = UnixStream::pair().unwrap();
        (Outbox::new(a), Inbox::new(b))
    }

    #[test]
    fn bodies_of_all_sizes_arrive() {
        let (mut out, mut inbox) = pair();
        for (n, len) in [0, 1, INLINE, INLINE + 1, 5, 1 << 20, 3 << 20, 40_000, 0, 100].into_iter().enumerate() {
            let body: Vec<u8> = (0..len).map(|i| (i * 7 + n) as u8).collect();
            out.begin();
            for part in body.chunks(len / 3 + 1) {
                out.put(part).unwrap();
            }
            out.send(Kind::Work, n as u64).unwrap();
            let got = inbox.receive().unwrap().unwrap();
            assert_eq!((got.kind, got.number, got.body), (Kind::Work, n as u64, &body[..]), "{len} bytes");
        }
        drop(out);
        assert!(inbox.receive().unwrap().is_none());
    }

    #[test]
    fn two_bodies_wait_side_by_side() {
        let (mut out, mut inbox) = pair();
        for n in 0..2u8 {
            out.begin();
            out.room(100_000).unwrap().fill(n);
            out.send(Kind::Done, 0).unwrap();
        }
        for n in 0..2u8 {
            assert!(inbox.receive().unwrap().unwrap().body.iter().all(|b| *b == n));
        }
    }

    #[test]
    fn an_answer_overtakes_what_came_before_it() {
        let (mut out, mut inbox) = pair();
        for body in [&b"one"[..], &[7; INLINE + 1]] {
            out.begin();
            out.put(body).unwrap();
            out.send(Kind::Work, 0).unwrap();
        }
        out.begin();
        out.put(b"half").unwrap();
        out.signal(Kind::Granted, 5, 0).unwrap();
        out.put(b" and whole").unwrap();
        out.send(Kind::Work, 0).unwrap();
        assert_eq!(inbox.line.answer().unwrap(), Some((Kind::Granted, 5)));
        assert_eq!(inbox.receive().unwrap().unwrap().body, b"one");
        let large = inbox.receive().unwrap().unwrap();
        assert!(large.body == [7; INLINE + 1] && large.piece.is_some());
        assert_eq!(inbox.receive().unwrap().unwrap().body, b"half and whole");
        out.signal(Kind::Ask, 5, 6).unwrap();
        let asked = inbox.receive().unwrap().unwrap();
        assert_eq!((asked.kind, asked.number, asked.other, asked.body), (Kind::Ask, 5, 6, &[][..]));
        drop(out);
        assert_eq!(inbox.line.answer().unwrap(), None);
    }

    #[test]
    fn nonsense_is_refused() {
        use std::io::Write;
        for header in [vec![9u8; HEADER], vec![2, 0, 0], [&[2, 0, 0, 0, 0, 0, 0, 0][..], &[1; 16]].concat()] {
            let (mut a, b) = UnixStream::pair().unwrap();
            a.write_all(&header).unwrap();
            drop(a);
            assert!(Inbox::new(b).receive().is_err());
        }
    }
}
