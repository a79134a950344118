//! A terminal that is drawn on: a screen of its own, keys one by one, and everything as it was when it is dropped.

use std::io::{IsTerminal, Write};
use std::time::Duration;

pub struct Terminal {
    before: libc::termios,
}

const IN: libc::c_int = 0;
const OUT: libc::c_int = 1;

impl Terminal {
    /// `None` if a person is not there at both ends.
    pub fn take() -> Option<Terminal> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return None;
        }
        // SAFETY: an all-zero termios is a valid one, and the call writes nothing but it.
        let before = unsafe {
            let mut before: libc::termios = std::mem::zeroed();
            (libc::tcgetattr(IN, &mut before) == 0).then_some(before)?
        };
        let mut keys = before;
        // Ctrl-C stays a signal.
        keys.c_lflag &= !(libc::ICANON | libc::ECHO);
        // SAFETY: a termios that the system gave, with two flags changed.
        unsafe { libc::tcsetattr(IN, libc::TCSANOW, &keys) };
        print("\x1b[?1049h\x1b[?25l");
        Some(Terminal { before })
    }
    /// Columns and lines now.
    pub fn size(&self) -> (usize, usize) {
        // SAFETY: an all-zero winsize is a valid one, and the call writes nothing but it.
        let size = unsafe {
            let mut size: libc::winsize = std::mem::zeroed();
            libc::ioctl(OUT, libc::TIOCGWINSZ, &mut size);
            size
        };
        match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => (80, 24),
            (columns, lines) => (columns.into(), lines.into()),
        }
    }
    /// Replaces what is shown. Lines must fit.
    pub fn draw(&self, lines: &[String]) {
        print(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\n")));
    }
    /// A key, if one is pressed in that time; `Some(None)` if nobody can press one any more.
    pub fn key(&self, wait: Duration) -> Option<Option<u8>> {
        let mut poll = libc::pollfd { fd: IN, events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, and the number says so.
        if unsafe { libc::poll(&mut poll, 1, wait.as_millis() as libc::c_int) } <= 0 {
            return None;
        }
        let mut key = 0u8;
        // SAFETY: one byte, and the number says so.
        match unsafe { libc::read(IN, (&raw mut key).cast(), 1) } {
            1 => Some(Some(key)),
            _ => Some(None),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        print("\x1b[?25h\x1b[?1049l");
        // SAFETY: what the system gave before.
        unsafe { libc::tcsetattr(IN, libc::TCSANOW, &self.before) };
    }
}

/// A terminal that has gone away cannot be told so.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
