//! Messages between a process and its worker: a header on a socket, and a body behind it or in shared memory.

use super::memory::Memory;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

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
}

impl Kind {
    fn of(byte: u8) -> io::Result<Kind> {
        use Kind::*;
        let all = [Setup, Work, Ready, Refused, Done];
        all.into_iter().find(|k| *k as u8 == byte).ok_or_else(|| broken(format!("a message of kind {byte}")))
    }
}

/// Bodies up to this size travel on the socket, whose buffer has room for several.
const INLINE: usize = 16 << 10;
const HEADER: usize = 24;
/// Where a body lies: behind the header, or in one of two pieces of memory.
const BEHIND: u8 = 2;

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
        let fd = (!*known).then(|| memory.fd());
        *known = true;
        write(&self.socket, &header, &[], fd)
    }
}

/// The side that reads.
pub struct Inbox {
    socket: UnixStream,
    memory: [Option<Memory>; 2],
    small: Vec<u8>,
}

/// A message, whose body stays readable until the next one is received.
pub struct Message<'a> {
    pub kind: Kind,
    pub number: u64,
    pub body: &'a [u8],
}

impl Inbox {
    pub fn new(socket: UnixStream) -> Inbox {
        Inbox { socket, memory: [None, None], small: Vec::new() }
    }
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }
    /// Waits for a message; `None` at the end.
    pub fn receive(&mut self) -> io::Result<Option<Message<'_>>> {
        let mut header = [0u8; HEADER];
        let (first, fd) = read_first(&self.socket, &mut header)?;
        if first == 0 {
            return Ok(None);
        }
        io::Read::read_exact(&mut &self.socket, &mut header[first..])?;
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let kind = Kind::of(header[0])?;
        let (len, n) = (number(8) as usize, number(16));
        let body = match header[1] {
            BEHIND if len > INLINE => return Err(broken(format!("{len} bytes on a socket"))),
            BEHIND => {
                self.small.resize(len, 0);
                io::Read::read_exact(&mut &self.socket, &mut self.small)?;
                &self.small[..]
            }
            place @ (0 | 1) => {
                let piece = &mut self.memory[usize::from(place)];
                if header[2] == 1 {
                    *piece = Some(Memory::of(fd.ok_or_else(|| broken("memory without a descriptor"))?));
                }
                let memory = piece.as_mut().ok_or_else(|| broken("memory that was never sent"))?;
                memory.see(len)?;
                &memory.bytes()[..len]
            }
            other => return Err(broken(format!("a body in place {other}"))),
        };
        Ok(Some(Message { kind, number: n, body }))
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
