//! Memory that two processes share. It has no name: it is handed over as a file descriptor, and gone when the last
//! process that has it is.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// A piece of shared memory, as it is mapped here.
pub struct Memory {
    fd: Arc<OwnedFd>,
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: plain bytes; who writes them and when is agreed upon by messages.
unsafe impl Send for Memory {}

impl Memory {
    /// An empty piece.
    pub fn new() -> io::Result<Memory> {
        Ok(Memory::of(unnamed()?))
    }
    /// What another process made.
    pub fn of(fd: OwnedFd) -> Memory {
        Memory { fd: Arc::new(fd), ptr: NonNull::dangling(), len: 0 }
    }
    pub fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// Makes it at least so large; what is written stays. It never shrinks, so that whoever mapped it can read it.
    pub fn grow(&mut self, len: usize) -> io::Result<()> {
        if len <= self.len {
            return Ok(());
        }
        // Pages are had when they are written: room to spare costs nothing.
        let len = len.checked_next_power_of_two().unwrap_or(len).max(1 << 16);
        // SAFETY: a plain call on a descriptor of ours.
        if unsafe { libc::ftruncate(self.fd.as_raw_fd(), len as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.map(len)
    }

    /// Maps the first `len` bytes of what another process made.
    pub fn see(&mut self, len: usize) -> io::Result<()> {
        if len <= self.len {
            return Ok(());
        }
        // SAFETY: fills in a struct of plain numbers.
        let size = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(self.fd.as_raw_fd(), &mut stat) != 0 {
                return Err(io::Error::last_os_error());
            }
            stat.st_size as usize
        };
        // To read behind its end would end the process.
        if len > size {
            return Err(io::Error::other(format!("{len} bytes were announced, but there are {size}")));
        }
        self.map(size)
    }

    fn map(&mut self, len: usize) -> io::Result<()> {
        self.unmap();
        let how = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the system's choice.
        let ptr = unsafe { libc::mmap(std::ptr::null_mut(), len, how, libc::MAP_SHARED, self.fd.as_raw_fd(), 0) };
        if ptr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.ptr = NonNull::new(ptr.cast()).ok_or_else(|| io::Error::other("memory at address 0"))?;
        self.len = len;
        Ok(())
    }

    fn unmap(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping was made by `map`, and slices of it borrow this.
            unsafe { libc::munmap(self.ptr.as_ptr().cast::<c_void>(), self.len) };
            self.len = 0;
        }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for `len` bytes. The other side does not write them between its message and the answer.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the other side does not read them before the message.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.unmap();
    }
}

#[cfg(target_os = "linux")]
fn unnamed() -> io::Result<OwnedFd> {
    // SAFETY: the name is only shown to people; the descriptor is ours alone.
    unsafe {
        let fd = libc::memfd_create(c"feedline".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// A file that is nowhere any more: the name is gone before anybody else can know it.
#[cfg(not(target_os = "linux"))]
fn unnamed() -> io::Result<OwnedFd> {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("/feedline-{}-{}\0", std::process::id(), COUNT.fetch_add(1, Relaxed));
    // SAFETY: the name ends with a zero; the descriptor is ours alone.
    unsafe {
        let fd = libc::shm_open(name.as_ptr().cast(), libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, 0o600);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::shm_unlink(name.as_ptr().cast());
        libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_writes_the_other_sees() {
        let mut here = Memory::new().unwrap();
        here.grow(10).unwrap();
        here.bytes_mut()[..3].copy_from_slice(b"abc");
        let mut there = Memory::of(here.fd().try_clone().unwrap());
        there.see(3).unwrap();
        assert_eq!(&there.bytes()[..3], b"abc");
        here.grow(1 << 20).unwrap();
        here.bytes_mut()[(1 << 20) - 1] = 7;
        there.see(1 << 20).unwrap();
        assert_eq!((there.bytes()[0], there.bytes()[(1 << 20) - 1]), (b'a', 7));
        assert!(there.see(1 << 30).is_err(), "more than there is");
    }
}
