"""A headless Chromium, driven by its DevTools protocol over two pipes: no port, nothing to install."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMAND = Path(__file__).parents[2] / ".tools" / "bin" / "chromium-headless"
START = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""It reads from descriptor 3 and writes to 4."""
PATIENCE = 30.0
"""Seconds after which the browser counts as hanging."""


class Page:
    """A tab. Everything that the console says, and every address that is asked for, is kept."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.console: list[str] = []
        self.addresses: list[str] = []
        browser.listen(session, self._hear)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.send(method, params, self._session)

    def _hear(self, event: dict[str, Any]) -> None:
        params = event["params"]
        match event["method"]:
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.console.append(f"{params['type']}: {params['args']}")
            case "Runtime.exceptionThrown":
                self.console.append(f"exception: {params['exceptionDetails']}")
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.console.append(f"{params['entry']['level']}: {params['entry']}")
            case "Network.requestWillBeSent":
                self.addresses.append(params["request"]["url"])

    def look_like(self, *, width: int, height: int, dark: bool = False, phone: bool = False) -> None:
        """A screen of that size, with the user's taste in colors."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def go(self, address: str) -> None:
        answer = self.send("Page.navigate", url=address)
        assert "errorText" not in answer, answer

    def value(self, expression: str) -> Any:
        """What JavaScript makes of an expression."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Until an expression is true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            value = self.value(expression)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"in vain: {expression}; the page says {self.text()!r}; console: {self.console}")

    def text(self) -> str:
        return self.value("document.body ? document.body.innerText : ''")

    def press(self, key: str, text: str = "") -> None:
        code = {"Tab": 9, "Enter": 13, "ArrowLeft": 37}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **typed)

    def screenshot(self, path: Path) -> None:
        """The whole page, however long it is."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))


class Browser:
    """A running Chromium."""

    def __init__(self, home: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            "--hide-scrollbars",
        ]
        flags += ["--disable-dev-shm-usage", f"--user-data-dir={home}", "about:blank"]
        with open(home / "log", "wb") as log:
            command = [sys.executable, "-c", START, str(to_read), str(to_write), str(COMMAND), *flags]
            self._process = subprocess.Popen(command, pass_fds=(to_read, to_write), stdout=log, stderr=log)
        os.close(to_read)
        os.close(to_write)
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._listeners: dict[str, Any] = {}
        self._number = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        rest = b""
        while data := os.read(self._read, 1 << 16):
            *messages, rest = (rest + data).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers[message["id"]].put(message)
                elif listener := self._listeners.get(message.get("sessionId", "")):
                    listener(message)

    def listen(self, session: str, listener: Any) -> None:
        self._listeners[session] = listener

    def send(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._number += 1
        number = self._number
        answer = self._answers[number] = queue.SimpleQueue()
        message = {
            "id": number,
            "method": method,
            "params": params,
            **({"sessionId": session} if session else {}),
        }
        os.write(self._write, json.dumps(message).encode() + b"\0")
        told = answer.get(timeout=PATIENCE)
        del self._answers[number]
        assert "error" not in told, f"{method}: {told['error']}"
        return told["result"]

    def page(self) -> Page:
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        return Page(self, session)

    def close(self) -> None:
        with contextlib.suppress(AssertionError, OSError, queue.Empty):
            self.send("Browser.close", {})
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)


@contextlib.contextmanager
def browser(home: Path) -> Iterator[Browser]:
    """A Chromium for some tests."""
    running = Browser(home)
    try:
        yield running
    finally:
        running.close()
