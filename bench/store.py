"""A slow store on loopback: files by ranges over HTTP, with a wait before the first byte and a bound on the bytes a
second of all connections together. `store.py FOLDER FIRST_BYTE_S BYTES_A_SECOND` prints its port."""
from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PIECE = 256 << 10
SERVERS: list[subprocess.Popen[str]] = []


class Line:
    """The cable that all connections share: each piece gets its place in time."""

    def __init__(self, bytes_a_second: float) -> None:
        self.rate, self.free, self.lock = bytes_a_second, 0.0, threading.Lock()

    def wait(self, size: int) -> None:
        with self.lock:
            self.free = through = max(time.monotonic(), self.free) + size / self.rate
        time.sleep(max(0.0, through - time.monotonic()))


@functools.cache
def opened(path: Path) -> tuple[int, int]:
    """A file and its length: few steps of Python a request, which would be the bottleneck."""
    return os.open(path, os.O_RDONLY), path.stat().st_size


def serve(folder: Path, first_byte_s: float, bytes_a_second: float) -> None:
    line = Line(bytes_a_second)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            file, length = opened(folder / Path(self.path).name)
            time.sleep(first_byte_s)
            asked = self.headers.get("Range", "").removeprefix("bytes=")
            first, _, last = asked.partition("-")
            begin, end = int(first or 0), min(int(last or length - 1) + 1, length)
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{length}")
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", f'"{length}"')
            self.send_header("Content-Length", str(end - begin))
            self.end_headers()
            for at in range(begin, end if body else begin, PIECE):
                piece = os.pread(file, min(PIECE, end - at), at)
                line.wait(len(piece))
                self.wfile.write(piece)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    # When whoever started it is gone, so is its end of the pipe.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print(server.server_port, flush=True)
    server.serve_forever()


def served(files: list[str], first_byte_s: float, bytes_a_second: float = 100e6) -> list[str]:
    """The files at their addresses, as long as this process lives."""
    folder = Path(files[0]).parent
    command = [sys.executable, __file__, str(folder), str(first_byte_s), str(bytes_a_second)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    SERVERS.append(server)
    port = int(server.stdout.readline())
    return [f"http://127.0.0.1:{port}/{Path(name).name}" for name in files]


if __name__ == "__main__":
    serve(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
