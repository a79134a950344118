"""The server behind the page, `feedline top` and Prometheus.

1. It listens on this machine only, unless told otherwise, and answers GET only.
2. Every request needs the token: in its address (`?token=`) or as `Authorization: Bearer`. It is compared in
   constant time.
3. The name that a browser believes to speak to (`Host`) must be one of ours: a foreign site whose name was
   made to lead here gets nothing.
4. It runs in threads of its own, a bounded number, and ends with the process.
"""

from __future__ import annotations

import base64
import hmac
import http.server
import ipaddress
import json
import logging
import os
import re
import secrets
import socket
import socketserver
import threading
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .. import _native
from .announce import announce, withdraw
from .prometheus import CONTENT_TYPE, metrics
from .sampler import SAMPLER, SAMPLES

__all__ = ["POLICY", "Server", "dashboard", "page", "serve"]

LOG = logging.getLogger("feedline.live")

REQUESTS = 16
"""Requests that are answered at once; others are closed."""
PATIENCE = 10.0
"""Seconds that a client may take to say what it wants."""
SHORTEST = 16
"""Characters of a token that somebody chose: fewer can be tried out."""
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)
"""Nothing comes from elsewhere, and nothing goes there."""


def page(data: str = "null") -> str:
    """The page; with `data` (JSON) it shows that, without it asks the server."""
    text = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
    # A text in the data must not end the element around it.
    safe = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return text.replace("{{POLICY}}", POLICY).replace("{{DATA}}", safe)


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Listener
    server_version = f"feedline/{_native.__version__}"
    sys_version = ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        path, _, words = self.path.partition("?")
        try:
            query = {key: values[-1] for key, values in parse_qs(words, max_num_fields=20).items()}
        except ValueError:
            self._answer("this is not an address\n", HTTPStatus.BAD_REQUEST)
            return
        if not self.server.knows_host(self.headers.get("Host", "")):
            self._answer("this is not the name of this server\n", HTTPStatus.FORBIDDEN)
        elif not self._has_token(query):
            self._answer(
                "the token is missing or wrong; use the whole address that was printed\n",
                HTTPStatus.FORBIDDEN,
            )
        elif path == "/":
            self._answer(page(), kind="text/html; charset=utf-8")
        elif path == "/state":
            most = max(_number(query, "most", SAMPLES), 1)
            state = SAMPLER.state(_number(query, "since", -1), most)
            self._answer(json.dumps(state), kind="application/json")
        elif path == "/picture":
            self._answer(json.dumps(_picture(query.get("pipeline", ""))), kind="application/json")
        elif path == "/metrics":
            self._answer(metrics(), kind=CONTENT_TYPE)
        else:
            self._answer("there is no such page\n", HTTPStatus.NOT_FOUND)

    def _refuse(self) -> None:
        self.send_response(HTTPStatus.METHOD_NOT_ALLOWED)
        self.send_header("Allow", "GET")
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = _refuse

    def _has_token(self, query: dict[str, str]) -> bool:
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer":
            given = query.get("token", "")
        return hmac.compare_digest(given.strip().encode(), self.server.token.encode())

    def _answer(self, text: str, status: HTTPStatus = HTTPStatus.OK, kind: str = "text/plain") -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            # The address has the token in it.
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", f"{POLICY}; frame-ancestors 'none'"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        # Without the address: it has the token in it.
        LOG.debug("%s asked for a page", self.client_address[0])


def _number(query: dict[str, str], name: str, otherwise: int) -> int:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else otherwise


def _picture(pipeline: str) -> dict[str, Any]:
    """Pictures of the next batch of a pipeline, or why there are none."""
    from .pictures import contact_sheet, next_element, png

    running = [one for one in _native.passes() if str(one.pipeline) == pipeline]
    if not running:
        return {"why": "the pipeline does not run now"}
    element = next_element(running[-1])
    if element is None:
        return {"why": "no batch was delivered while we waited"}
    sheet = contact_sheet(element)
    if sheet is None:
        return {"why": "nothing in a batch of this pipeline looks like pictures"}
    return {"picture": "data:image/png;base64," + base64.b64encode(png(sheet)).decode()}


class _Listener(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """The socket, and who may ask."""

    daemon_threads = True
    # A port that somebody else listens on must not be shared with them.
    allow_reuse_address = os.name == "posix"

    def __init__(self, host: str, port: int, token: str) -> None:
        self.token = token
        self.host = host
        self.slots = threading.BoundedSemaphore(REQUESTS)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer would ask the network for our name.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def knows_host(self, header: str) -> bool:
        """Whether a browser that sends this `Host` knows whom it speaks to. Numbers lead to nobody else."""
        try:
            name = urlsplit(f"//{header}").hostname or ""
            if name in ("localhost", self.host.lower(), socket.gethostname().lower()):
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A browser that went away is no error, and nothing here may write to the terminal of a training run.
        LOG.debug("a request failed", exc_info=True)


class Server:
    """A server that runs. Its text is its address, token included."""

    def __init__(self, host: str, port: int) -> None:
        if not 0 <= port < 2**16:
            raise ValueError(f"port must be from 0 (any that is free) to 65535, not {port}")
        self.token = os.environ.get("FEEDLINE_TOKEN") or secrets.token_urlsafe(18)
        if not re.fullmatch(f"[A-Za-z0-9_-]{{{SHORTEST},}}", self.token):
            raise ValueError(f"FEEDLINE_TOKEN must be at least {SHORTEST} letters, digits, - or _")
        try:
            self._listener = _Listener(host, port, self.token)
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot listen on {host} port {port} ({error.strerror}); port=0 finds one that is free",
            ) from error
        self.host, self.port = host, self._listener.server_address[1]
        self._file: Path | None = None
        self._pid = os.getpid()
        threading.Thread(target=self._listener.serve_forever, name="feedline-server", daemon=True).start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._listener.socket.close)

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}/?token={self.token}"

    @property
    def metrics_url(self) -> str:
        """The address for Prometheus, with the token."""
        return self.url.replace("/?", "/metrics?")

    def announce(self) -> None:
        """Lets `feedline top` and `feedline dash` of the same user find this process."""
        if self._file is None:
            self._file = announce(self.host, self.port, self.token)

    def close(self) -> None:
        """Stops it."""
        if self._pid == os.getpid():
            self._listener.shutdown()
        self._listener.server_close()
        if self._file is not None:
            withdraw(self._file, self._pid)
            self._file = None

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"<feedline page at {self.url}>"

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank" rel="noopener noreferrer">{self.url}</a>'


def dashboard(port: int = 0, host: str = "127.0.0.1") -> Server:
    """A page that shows the pipelines of this process while they run.

    Open the address in a browser: the plan with rates and the operator that holds it back, throughput, waits
    and memory over time, recent errors, and, on request, pictures of the current batch. `feedline top` and
    `feedline dash` of the same user find it, too.

    >>> import feedline as fl
    >>> page = fl.dashboard()
    >>> print(page)  # doctest: +ELLIPSIS
    http://127.0.0.1:.../?token=...
    >>> page.close()

    Args:
        port: Where to listen; 0: any port that is free.
        host: Who may connect. The default is this machine only; "0.0.0.0" is everybody who knows the token,
            without encryption.

    Returns:
        The server. It ends with the process, or with `close()`.
    """
    server = Server(host, port)
    server.announce()
    SAMPLER.start(stay=True)
    LOG.info("the page of process %d is at port %d", os.getpid(), server.port)
    return server


def serve(port: int = 0, host: str = "127.0.0.1") -> Server:
    """Lets `feedline top`, `feedline dash` and Prometheus look at this process.

    The same server as `dashboard`, which reads counters only while somebody asks. With FEEDLINE_SERVE=1 in
    its environment a program calls it when it imports feedline; another number is the port. FEEDLINE_TOKEN is
    the token, where it must be known before.

    >>> import feedline as fl
    >>> with fl.serve() as server:
    ...     print(server.metrics_url)  # doctest: +ELLIPSIS
    http://127.0.0.1:.../metrics?token=...
    """
    server = Server(host, port)
    server.announce()
    return server
