"""The page and the report in a headless Chromium: they load, go on, obey keys, and complain of nothing."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
from feedline.live.passes import process
from feedline.live.sampler import SAMPLER

from .browser import Page

SCREENS = {
    "light": {"width": 1280, "height": 900},
    "dark": {"width": 1280, "height": 900, "dark": True},
    "phone": {"width": 390, "height": 844, "phone": True},
}
# Elements that stick out of the page to the right, other than those in boxes that scroll.
STICKS_OUT = """
[...document.querySelectorAll("body *")].filter((e) => !e.closest(".table, .graph") && e.clientWidth > 0
    && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80))
"""


def pictures() -> fl.Dataset:
    """Pictures with labels from a second source: a plan with a fork, and with one operator that costs."""
    y, x = np.mgrid[0:32, 0:32]
    pixels = np.stack([np.stack([x * 8, y * 8, (x + y) * 4 + n], -1) for n in range(64)]).astype(np.uint8)
    labels = fl.Dataset.range(10**9).map(lambda n: n % 10)

    def prepare(picture: fl.Symbol, label: fl.Symbol) -> tuple[fl.Symbol, fl.Symbol]:
        light = fl.cast(picture, fl.float32) / 255.0
        for _ in range(8):
            light = fl.sqrt(light * light)
        return light, label

    both = fl.Dataset.zip((fl.Dataset.from_tensor_slices(pixels).repeat(), labels))
    return both.shuffle(50).map(prepare).batch(16)


def failing() -> fl.Dataset:
    return (
        fl.Dataset.range(10**9)
        .map(lambda n: fl.debugging.assert_none_equal(n % 50, 49, "<b>not</b> this one"))
        .batch(5)
    )


@contextlib.contextmanager
def reading(*datasets: fl.Dataset) -> Iterator[None]:
    """Consumers on threads of their own, until the block ends."""
    stop = threading.Event()

    def consume(dataset: fl.Dataset) -> None:
        with iter(dataset) as iterator:
            while not stop.is_set():
                with contextlib.suppress(fl.errors.InvalidArgumentError):
                    next(iterator)
                time.sleep(0.005)

    threads = [threading.Thread(target=consume, args=[dataset]) for dataset in datasets]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.fixture
def dashboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fl.live.Server]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    SAMPLER.forget()
    with fl.dashboard() as server:
        yield server


def choose(page: Page, name: str) -> None:
    """Looks at the newest pipeline of that name; with one only, there is nothing to choose."""
    page.wait_for(f"[...document.querySelectorAll('nav button')].some((b) => b.textContent === {name!r})")
    page.value(
        f"[...document.querySelectorAll('nav button')].findLast((b) => b.textContent === {name!r}).click()"
    )


PICTURES = "zip → shuffle → map → batch"


@pytest.mark.parametrize("screen", SCREENS)
def test_it_loads_and_goes_on(page: Page, dashboard: fl.live.Server, artefacts: Path, screen: str) -> None:
    page.look_like(**SCREENS[screen])
    with reading(failing(), pictures()):
        page.go(dashboard.url)
        choose(page, PICTURES)
        page.wait_for("document.querySelectorAll('#graph .node').length === 9")
        first = page.value("document.querySelectorAll('#tiles b')[2].textContent")
        page.wait_for(f"document.querySelectorAll('#tiles b')[2].textContent !== {first!r}")
        page.wait_for("document.querySelectorAll('#charts path').length > 4")
        assert page.value("document.getElementById('status').textContent") == "live"
        assert page.value("document.querySelectorAll('#rows tr').length") == 8
        # Text of the data is text.
        page.wait_for("document.getElementById('list').textContent.includes('<b>not</b> this one')")
        page.value("document.getElementById('look').click()")
        page.wait_for("document.getElementById('sheet').naturalWidth === 134")
        page.wait_for("document.querySelectorAll('.node.holds, tr.holds').length >= 1")
        assert page.value(STICKS_OUT) == []
        page.screenshot(artefacts / f"dashboard-{screen}.png")
    assert page.console == []
    assert {
        address.split("?")[0].rsplit("/", 1)[0]
        for address in page.addresses
        if not address.startswith("data:")
    } == {f"http://127.0.0.1:{dashboard.port}"}


def test_keys_are_enough(page: Page, dashboard: fl.live.Server) -> None:
    page.look_like(**SCREENS["light"])
    with reading(pictures()):
        page.go(dashboard.url)
        page.wait_for("document.querySelectorAll('#graph .node').length > 2")
        seen = set()
        for _ in range(60):
            page.press("Tab")
            seen.add(
                page.value(
                    "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
                )
            )
            if page.value("document.activeElement.classList.contains('node')"):
                break
        assert "Pause" in seen
        page.press("Enter", "\r")
        page.wait_for("!document.getElementById('details').hidden")
        assert "rows a chunk" in page.text()
        # What has the focus keeps it while numbers change.
        time.sleep(1.5)
        assert page.value("document.activeElement.classList.contains('node')")
        page.value("document.querySelector('#charts [tabindex]').focus()")
        page.wait_for("document.querySelectorAll('#charts path').length > 4")
        page.press("ArrowLeft")
        page.wait_for("document.getElementById('charts').textContent.includes('before')")
        page.press("p", "p")
        page.wait_for("document.getElementById('status').textContent === 'paused'")
        page.press("p", "p")
        page.wait_for("document.getElementById('status').textContent === 'live'")
    assert page.console == []


def test_before_anything_runs_it_says_so(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "empty.html"
    state = {"number": 0, "process": process(), "pipelines": [], "errors": []}
    file.write_text(fl.live.server.page(json.dumps(state)))
    page.go(file.as_uri())
    page.wait_for("document.body && document.body.innerText.includes('No pipeline runs in this process yet')")
    assert page.console == []


@pytest.mark.parametrize("screen", SCREENS)
def test_a_report_stands_alone(page: Page, tmp_path: Path, artefacts: Path, screen: str) -> None:
    dataset = pictures().take(30)
    for _ in dataset:
        pass
    file = fl.report(dataset, tmp_path / "report.html")
    page.look_like(**SCREENS[screen])
    page.go(file.as_uri())
    page.wait_for("document.querySelectorAll('#rows tr').length === 9")
    assert page.value("document.querySelectorAll('#tiles b')[2].textContent") == "30"
    assert page.value("document.getElementById('status').textContent").startswith("recorded")
    assert page.value(STICKS_OUT) == []
    page.screenshot(artefacts / f"report-{screen}.png")
    assert page.console == []
    assert [address for address in page.addresses if not address.startswith("data:")] == [file.as_uri()]


def test_a_wrong_token_shows_nothing(page: Page, dashboard: fl.live.Server) -> None:
    page.go(f"http://127.0.0.1:{dashboard.port}/?token=wrong")
    page.wait_for("document.body && document.body.innerText.includes('the token is missing or wrong')")
