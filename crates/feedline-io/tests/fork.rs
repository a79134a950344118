//! A child that is forked while the threads of its parent read far and near files reads as well.

use feedline_io::open;
use std::io::{Read, Write};
use std::net::TcpListener;

const LEN: usize = 100_000;

/// Answers every ranged read with zeros.
fn serve(listener: TcpListener) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        std::thread::spawn(move || -> std::io::Result<()> {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while stream.read(&mut byte)? == 1 {
                head.push(byte[0]);
                if head.ends_with(b"\r\n\r\n") {
                    let answer = format!(
                        "HTTP/1.1 206 Here\r\nContent-Length: {LEN}\r\nContent-Range: bytes 0-{}/{LEN}\r\n\r\n",
                        LEN - 1
                    );
                    stream.write_all(answer.as_bytes())?;
                    stream.write_all(&[0; LEN])?;
                    head.clear();
                }
            }
            Ok(())
        });
    }
}

#[test]
fn children_read_too() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    std::thread::spawn(move || serve(listener));
    let read = || open(&url).unwrap().read(0, LEN).wait().is_ok_and(|buf| buf.len() == LEN);
    assert!(read());
    for _ in 0..3 {
        // SAFETY: the child reads, and ends without running anything of the parent's.
        match unsafe { libc::fork() } {
            -1 => panic!("no fork"),
            0 => {
                // SAFETY: plain system calls. A child that hangs is ended by the system.
                unsafe {
                    libc::alarm(60);
                    libc::_exit(if read() { 0 } else { 1 })
                }
            }
            child => {
                let mut status = 0;
                // SAFETY: our own child.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with {status}");
                assert!(read(), "the parent reads on");
            }
        }
    }
}
