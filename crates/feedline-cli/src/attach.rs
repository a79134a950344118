//! Processes that can be looked at, and what they tell: those that called `fl.serve` or `fl.dashboard`, or were started
//! with FEEDLINE_SERVE=1.
//!
//! Each has left a file with its address and token, which only its user can read (`feedline/live/announce.py` writes it).

use feedline::{Error, Kind, Result, bail};
use serde::Deserialize;
use serde_json::Value as Json;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Debug, Deserialize)]
pub struct Process {
    pub pid: u32,
    host: String,
    port: u16,
    token: String,
    pub program: String,
}

/// A process on this machine answers at once, or is in trouble.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any answer has.
const MOST_BYTES: u64 = 64 << 20;

/// Where processes leave their files.
fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        Some(runtime) => Path::new(&runtime).join("feedline"),
        // SAFETY: it cannot fail, and touches no memory.
        None => std::env::temp_dir().join(format!("feedline-{}", unsafe { libc::geteuid() })),
    }
}

/// The process of that number, or the only one there is.
pub fn find(pid: Option<u32>) -> Result<Process> {
    let mut found = all(&folder());
    if let Some(pid) = pid {
        found.retain(|p| p.pid == pid);
    }
    match (found.len(), pid) {
        (1, _) => Ok(found.remove(0)),
        (0, Some(pid)) => bail!(
            Usage,
            "process {pid} cannot be looked at; it must call fl.serve() or fl.dashboard(), or be started with FEEDLINE_SERVE=1"
        ),
        (0, None) => bail!(
            Usage,
            "no process of yours can be looked at; call fl.serve() or fl.dashboard() in one, or start it with FEEDLINE_SERVE=1"
        ),
        _ => {
            let list: Vec<_> = found.iter().map(|p| format!("\n  {}  {}", p.pid, p.program)).collect();
            bail!(Usage, "which process? Say its number:{}", list.concat())
        }
    }
}

/// Processes that live, by number. Files that cannot be read are not ours; those of the dead are left-overs.
fn all(folder: &Path) -> Vec<Process> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let read = |path: PathBuf| {
        let mut text = String::new();
        let wanted = path.extension().is_some_and(|e| e == "json");
        std::fs::File::open(path).ok().filter(|_| wanted)?.take(1 << 16).read_to_string(&mut text).ok()?;
        serde_json::from_str::<Process>(&text).ok()
    };
    let mut found: Vec<Process> = files.filter_map(read).filter(Process::lives).collect();
    found.sort_by_key(|p| p.pid);
    found
}

impl Process {
    pub fn lives(&self) -> bool {
        let Ok(pid) = libc::pid_t::try_from(self.pid) else { return false };
        // SAFETY: signal 0 is not sent: it asks whether it could be.
        pid > 0 && unsafe { libc::kill(pid, 0) } == 0
    }
    fn host(&self) -> &str {
        match self.host.as_str() {
            "0.0.0.0" => "127.0.0.1",
            "::" => "::1",
            host => host,
        }
    }
    /// The address of its page.
    pub fn url(&self) -> String {
        let host = self.host();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        format!("http://{host}:{}/?token={}", self.port, self.token)
    }
    /// Asks for a page that is JSON.
    pub fn ask(&self, path: &str) -> Result<Json> {
        let failed = |e: std::io::Error| {
            Error::new(Kind::Io, format!("process {} does not answer on port {}: {e}", self.pid, self.port))
        };
        let nowhere = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let address = (self.host(), self.port).to_socket_addrs().map_err(failed)?.next().ok_or_else(nowhere);
        let mut stream = TcpStream::connect_timeout(&address.map_err(failed)?, PATIENCE).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        // 1.0: the answer ends with the connection.
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n", self.token);
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut answer = Vec::new();
        stream.take(MOST_BYTES).read_to_end(&mut answer).map_err(failed)?;
        read_answer(&answer).ok_or_else(|| {
            Error::new(Kind::Io, format!("process {} does not answer like feedline on port {}", self.pid, self.port))
        })
    }
}

/// The body of an answer that says that all is well.
fn read_answer(answer: &[u8]) -> Option<Json> {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n")?;
    let status = std::str::from_utf8(answer[..end].split(|b| *b == b'\r').next()?).ok()?;
    if status.split(' ').nth(1)? != "200" {
        return None;
    }
    serde_json::from_slice(&answer[end + 4..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn written(folder: &Path, name: &str, pid: u32, port: u16) {
        let text = format!(r#"{{"pid":{pid},"host":"127.0.0.1","port":{port},"token":"t","program":"p","more":1}}"#);
        std::fs::write(folder.join(name), text).unwrap();
    }

    #[test]
    fn only_the_living_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let me = std::process::id();
        written(folder.path(), "a.json", me, 1);
        written(folder.path(), "b.json", i32::MAX as u32, 1);
        written(folder.path(), "c.json", 0, 1);
        written(folder.path(), "d.draft", me, 1);
        std::fs::write(folder.path().join("e.json"), "{").unwrap();
        let found = all(folder.path());
        assert_eq!(found.iter().map(|p| p.pid).collect::<Vec<_>>(), [me]);
        assert_eq!(found[0].url(), "http://127.0.0.1:1/?token=t");
        assert!(all(&folder.path().join("none")).is_empty());
    }

    #[test]
    fn answers_are_read_or_refused() {
        let ask = |answer: &'static [u8]| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let thread = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 1024];
                let n = stream.read(&mut asked).unwrap();
                stream.write_all(answer).unwrap();
                String::from_utf8_lossy(&asked[..n]).into_owned()
            });
            let process = Process { pid: 1, host: "127.0.0.1".into(), port, token: "t".into(), program: "p".into() };
            let answer = process.ask("/state");
            assert!(thread.join().unwrap().contains("Authorization: Bearer t\r\n"));
            answer
        };
        assert_eq!(ask(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n{\"a\":1}").unwrap()["a"], 1);
        for bad in [
            &b""[..],
            b"HTTP/1.0 403 No\r\n\r\n{}",
            b"HTTP/1.0 200 OK\r\n\r\n{",
            b"\r\n\r\n",
            b"\xff\xff 200\r\n\r\n{}",
        ] {
            assert!(ask(bad).unwrap_err().message().contains("does not answer like"), "{bad:?}");
        }
    }
}
