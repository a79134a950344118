//! A web server on the loopback that does what a test tells it to, right or wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What was asked.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    /// With the query.
    pub path: String,
    /// First and last byte.
    pub range: Option<(u64, u64)>,
    pub body: Vec<u8>,
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Says this length instead of the body's.
    pub says_len: Option<String>,
    /// Waits before the first byte.
    pub first_byte: Duration,
    /// Sends so much of the body and hangs up.
    pub cut: Option<usize>,
    /// Sends the body and then zeros until the other side hangs up.
    pub endless: bool,
    /// Says nothing until the other side hangs up: with the head sent (`Some(true)`) or not.
    pub stuck: Option<bool>,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Reply {
        Reply {
            status,
            headers: Vec::new(),
            body: body.into(),
            says_len: None,
            first_byte: Duration::ZERO,
            cut: None,
            endless: false,
            stuck: None,
        }
    }
    pub fn with(mut self, name: &str, value: impl ToString) -> Reply {
        self.headers.retain(|(n, _)| n != name);
        self.headers.push((name.into(), value.to_string()));
        self
    }
    /// The right answer for an object.
    pub fn of(bytes: &[u8], request: &Request) -> Reply {
        let len = bytes.len() as u64;
        let tag = format!("\"{len}\"");
        let modified = "Tue, 15 Nov 1994 12:45:26 GMT";
        let reply = match request.range {
            Some((first, _)) if first >= len => Reply::new(416, "").with("Content-Range", format!("bytes */{len}")),
            Some((first, last)) => {
                let last = last.min(len - 1);
                Reply::new(206, &bytes[first as usize..=last as usize])
                    .with("Content-Range", format!("bytes {first}-{last}/{len}"))
            }
            None => Reply::new(200, bytes),
        };
        reply.with("ETag", tag).with("Last-Modified", modified)
    }
}

/// Serves until it is dropped.
pub struct Server {
    port: u16,
    log: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
}

impl Server {
    /// `answer` is called with each request and its number.
    pub fn new(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (log, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (answer, count) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
        {
            let (log, stop) = (log.clone(), stop.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let Ok(stream) = stream else { continue };
                    if stop.load(SeqCst) {
                        return;
                    }
                    let (answer, count, log) = (answer.clone(), count.clone(), log.clone());
                    std::thread::spawn(move || {
                        // A client that hangs up ends the connection, and nothing else.
                        let _ = serve(stream, &|request: &Request| {
                            log.lock().unwrap().push(request.clone());
                            answer(request, count.fetch_add(1, SeqCst))
                        });
                    });
                }
            });
        }
        Server { port, log, stop }
    }
    /// An object that is served as it should be.
    pub fn of(bytes: Vec<u8>) -> Server {
        Server::new(move |request, _| Reply::of(&bytes, request))
    }
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
    pub fn log(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// The requests of one connection.
fn serve(mut stream: TcpStream, answer: &dyn Fn(&Request) -> Reply) -> std::io::Result<()> {
    // Nobody waits for ever, whatever a test does.
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.set_write_timeout(Some(Duration::from_secs(60)))?;
    let mut input = BufReader::new(stream.try_clone()?);
    while let Some(request) = read(&mut input)? {
        let reply = answer(&request);
        std::thread::sleep(reply.first_byte);
        if reply.stuck == Some(false) {
            return wait_for_end(&mut input);
        }
        let mut head = format!("HTTP/1.1 {} Some Words\r\n", reply.status);
        let says_len = reply.says_len.clone().unwrap_or_else(|| reply.body.len().to_string());
        head.push_str(&format!("Content-Length: {says_len}\r\n"));
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        if request.method == "HEAD" {
            continue;
        }
        let body = &reply.body[..reply.cut.unwrap_or(usize::MAX).min(reply.body.len())];
        stream.write_all(body)?;
        if reply.stuck == Some(true) {
            return wait_for_end(&mut input);
        }
        if reply.cut.is_some() {
            return stream.shutdown(Shutdown::Both);
        }
        if reply.endless {
            loop {
                stream.write_all(&[0; 64 << 10])?;
            }
        }
    }
    Ok(())
}

fn wait_for_end(input: &mut impl Read) -> std::io::Result<()> {
    std::io::copy(input, &mut std::io::sink()).map(drop)
}

fn read(input: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(String::from);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut request = Request { method, path, ..Request::default() };
    let mut len = 0u64;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => len = value.trim().parse().unwrap(),
            "range" => {
                let (first, last) = value.trim().strip_prefix("bytes=").unwrap().split_once('-').unwrap();
                request.range = Some((first.parse().unwrap(), last.parse().unwrap_or(u64::MAX)));
            }
            _ => {}
        }
    }
    input.take(len).read_to_end(&mut request.body)?;
    Ok(Some(request))
}
