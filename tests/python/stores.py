"""Stores for tests: a real S3 server (moto) on the loopback.

    from stores import S3

    @pytest.fixture(scope="module")
    def s3():
        with S3() as s3:
            yield s3

    def test_reads(s3, monkeypatch):
        s3.use(monkeypatch)
        s3.put("some/key.tfrecord", data)
        fl.TFRecordDataset(s3.url("some/key.tfrecord"))

The server is a process of its own: it is started on a port that the system chooses, and ended by its number.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

_READY = 60.0
_ENDED = 10.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class S3:
    """An S3 server with one bucket. Signatures are not checked, so plain HTTP puts and gets do."""

    def __init__(self, bucket: str = "bucket") -> None:
        self.bucket = bucket
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What feedline (and boto3) need to find the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
        }

    def use(self, monkeypatch: object) -> None:
        """Sets the environment for one test; `monkeypatch` is pytest's fixture."""
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)  # type: ignore[attr-defined]

    def url(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"

    def http(self, key: str) -> str:
        """The same object as a web address."""
        return f"{self.endpoint}/{self.bucket}/{urllib.parse.quote(key)}"

    def put(self, key: str, data: bytes) -> str:
        self._request("PUT", self.http(key), data)
        return self.url(key)

    def put_files(self, paths: Iterable[Path], folder: str = "") -> list[str]:
        return [self.put(folder + path.name, path.read_bytes()) for path in paths]

    def get(self, key: str) -> bytes:
        return self._request("GET", self.http(key))

    def delete(self, key: str) -> None:
        self._request("DELETE", self.http(key))

    @staticmethod
    def _request(method: str, url: str, data: bytes | None = None) -> bytes:
        headers = {
            # Without a type of its own the body would be taken for a form.
            "Content-Type": "application/octet-stream",
            # Somebody, though nobody checks who; and what is put may be read by anybody, as a web address.
            "Authorization": "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, "
            "SignedHeaders=host, Signature=none",
            "x-amz-acl": "public-read",
        }
        request = urllib.request.Request(url, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    def __enter__(self) -> S3:
        self.port = _free_port()
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        # Its log goes nowhere: a full pipe would stop it.
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._wait_until_ready()
            self._request("PUT", f"{self.endpoint}/{self.bucket}")
        except BaseException:
            self._end()
            raise
        return self

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        end = time.monotonic() + _READY
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(
                    f"moto ended with {self._process.returncode}; is moto[s3,server] installed?"
                )
            try:
                self._request("GET", f"{self.endpoint}/moto-api/data.json")
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_ENDED)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
