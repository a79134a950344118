//! What a piece of shared memory takes: it is charged to a pass while a message lies in it, and counts as what is kept for
//! later in between (`feedline_io::Spare`). Its pages are given back where there is no room to keep them; the piece stays as
//! long as it is, so that whoever mapped it finds zeros.

use feedline_io::{Account, Scratch, make_room, may_keep_spare, note_spare, taken};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// The pages of one piece.
#[derive(Default)]
pub struct Pages {
    file: Option<Arc<OwnedFd>>,
    /// As far as it was written since pages were given back.
    bytes: usize,
    charge: Option<Scratch>,
}

impl Pages {
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// From now on a message for this pass lies in it, of so many bytes or more.
    pub fn hold(&mut self, bytes: usize, account: Option<&'static Account>) {
        let more = bytes.saturating_sub(self.bytes);
        if self.charge.take().is_none() {
            note_spare(-(self.bytes as isize));
        }
        if more > 0 {
            make_room(more);
        }
        self.bytes += more;
        self.charge = Some(taken(self.bytes, account));
    }
    /// Where it lies, once that is known.
    pub fn lie_in(&mut self, file: &Arc<OwnedFd>) {
        self.file.get_or_insert_with(|| file.clone());
    }
    /// Nobody needs what lies in it.
    pub fn let_go(&mut self) {
        if self.charge.take().is_some() {
            match may_keep_spare(self.bytes) {
                true => note_spare(self.bytes as isize),
                false => self.clear(),
            }
        }
    }
    /// Gives the pages back, if nothing lies in them.
    pub fn give_back(&mut self) {
        if self.charge.is_none() && self.bytes > 0 {
            let bytes = self.bytes as isize;
            self.clear();
            note_spare(self.bytes as isize - bytes);
        }
    }
    fn clear(&mut self) {
        let Some(file) = &self.file else { return };
        if punched(file) {
            self.bytes = 0;
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.charge.is_none() {
            note_spare(-(self.bytes as isize));
        }
    }
}

/// Gives back all pages of a file, which stays as long as it is.
#[cfg(target_os = "linux")]
fn punched(file: &OwnedFd) -> bool {
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a plain call on a descriptor of ours. Whoever has the pages mapped sees zeros from then on.
    unsafe { libc::fallocate(file.as_raw_fd(), how, 0, libc::off_t::MAX) == 0 }
}

/// Elsewhere there is no such call: they are kept as long as the worker is.
#[cfg(not(target_os = "linux"))]
fn punched(_: &OwnedFd) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::memory::Memory;

    fn blocks(memory: &Memory) -> u64 {
        use std::os::unix::fs::MetadataExt;
        std::fs::File::from(memory.fd().try_clone().unwrap()).metadata().unwrap().blocks()
    }

    #[test]
    fn pages_are_charged_while_something_lies_in_them() {
        let account = Account::open(8 << 20, usize::MAX);
        let mut memory = Memory::new().unwrap();
        let mut pages = Pages::default();
        pages.lie_in(memory.fd());
        pages.hold(1 << 20, Some(account));
        memory.grow(1 << 20).unwrap();
        memory.bytes_mut()[..1 << 20].fill(1);
        assert_eq!((account.live(), pages.bytes(), blocks(&memory)), (1 << 20, 1 << 20, 2048));
        // A smaller message leaves the pages where they are.
        pages.hold(1 << 19, Some(account));
        assert_eq!(account.live(), 1 << 20);
        pages.let_go();
        assert_eq!(account.live(), 0);
        pages.give_back();
        assert_eq!((pages.bytes(), blocks(&memory), memory.bytes()[5]), (0, 0, 0));
        account.close();
    }
}
