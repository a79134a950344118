"""To look at running pipelines: the server and who may ask it, samples, metrics, reports, traces, logs."""

from __future__ import annotations

import base64
import contextlib
import gc
import http.client
import json
import os
import re
import stat
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
from feedline import _native
from feedline.live import passes
from feedline.live.pictures import contact_sheet, png
from feedline.live.sampler import PIPELINES, Sampler
from prometheus_client.parser import text_string_to_metric_families

PATIENCE = 30.0
"""Seconds after which something that must happen counts as not happening."""


def wait_for(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def get(address: str, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=PATIENCE) as answer:
        return answer.read()


def get_json(server: fl.live.Server, path: str, **query: Any) -> Any:
    more = "".join(f"&{key}={value}" for key, value in query.items())
    return json.loads(get(server.url.replace("/?", f"/{path}?") + more))


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "feedline"


@pytest.fixture
def server() -> Iterator[fl.live.Server]:
    with fl.serve() as running:
        yield running


@contextlib.contextmanager
def reading(dataset: fl.Dataset) -> Iterator[fl.Iterator]:
    """A consumer on a thread of its own, until the block ends."""
    iterator, stop = iter(dataset), threading.Event()

    def consume() -> None:
        while not stop.is_set():
            try:
                if next(iterator, None) is None:
                    return
            except fl.errors.InvalidArgumentError:
                pass
            time.sleep(0.001)

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        yield iterator
    finally:
        stop.set()
        thread.join()
        iterator.close()


def of(state: dict[str, Any], last: str) -> dict[str, Any] | None:
    """The pipeline whose last operator has that name and parameters, if the page knows it by now."""
    found = [
        p
        for p in state["pipelines"]
        if p["nodes"][0]["op"] + p["nodes"][0]["params"] == last and p["samples"]
    ]
    return found[-1] if found else None


# Passes.


def test_a_pass_is_known_as_long_as_its_iterator() -> None:
    before = {one.id for one in _native.passes()}
    iterator = iter(fl.Dataset.range(10).batch(2))
    (new,) = [one for one in _native.passes() if one.id not in before]
    assert passes.told(new)["pass"]["delivered"] == 0 and not passes.told(new)["pass"]["ended"]
    list(iterator)
    told = passes.told(new)
    assert (told["pass"]["delivered"], told["pass"]["ended"]) == (5, True)
    del iterator, new
    gc.collect()
    assert {one.id for one in _native.passes()} <= before


def test_two_passes_over_one_dataset_are_told_apart() -> None:
    dataset = fl.Dataset.range(10)
    first, second = iter(dataset), iter(dataset)
    list(first)
    next(second)
    assert json.loads(first.explain("json"))["pass"]["ended"]
    assert not json.loads(second.explain("json"))["pass"]["ended"]
    ours = [one for one in _native.passes() if '"range"' in one.explain("json")][-2:]
    assert ours[0].pipeline == ours[1].pipeline and ours[0].id != ours[1].id


def test_options_of_a_pass_show_its_own_operators() -> None:
    dataset = fl.Dataset.range(100).map(lambda x: x + 1).map(lambda x: x * 2)
    iterator = dataset.iter(rewrite=False)
    list(iterator)
    rows = [
        node["meter"]["rows"]
        for node in passes.operators(json.loads(iterator.explain("json")))
        if node["op"] == "map"
    ]
    assert rows == [100, 100]


def test_after_a_state_was_loaded_the_new_pass_is_shown() -> None:
    iterator = iter(fl.Dataset.range(100))
    state = iterator.state_dict()
    list(iterator)
    iterator.load_state_dict(state)
    assert not json.loads(iterator.explain("json"))["pass"]["ended"]


def test_an_element_is_kept_only_when_wanted() -> None:
    iterator = iter(fl.Dataset.range(10))
    pass_ = _native.passes()[-1]
    next(iterator)
    assert pass_.take() is None
    pass_.want(True)
    next(iterator), next(iterator)
    assert pass_.take() == 1
    assert pass_.take() is None
    next(iterator)
    assert pass_.take() is None


def test_errors_of_the_consumer_are_remembered() -> None:
    dataset = fl.Dataset.range(50).map(lambda x: fl.debugging.assert_less(x, 1, "too much"))
    iterator = iter(dataset)
    pass_ = _native.passes()[-1]
    for _ in range(50):
        with contextlib.suppress(fl.errors.InvalidArgumentError):
            next(iterator)
    assert len(pass_.errors) == 20
    assert all("too much" in text and time.time() - when < PATIENCE for when, text in pass_.errors)
    assert "49" in pass_.errors[-1][1]


# Samples.


def counted(seconds: float, delivered: int, waited: float, *rows_busy: tuple[int, float]) -> dict[str, Any]:
    """What a pass would tell; operators from the consumer's side on."""
    below: list[dict[str, Any]] = []
    for number, (rows, busy) in enumerate(reversed(rows_busy)):
        meter = {"rows": rows, "busy_ns": int(busy * 1e9)}
        node = {"id": number, "op": "some", "params": "", "spec": "", "cardinality": -2, "meter": meter}
        below = [{**node, "inputs": below}]
    told = {"seconds": seconds, "delivered": delivered, "waited_seconds": waited, "ended": False}
    return {"time": seconds, "id": 1, "runs": below[0], "written": below[0], "rules": [], "pass": told}


def test_rates_are_of_the_time_between_two_readings() -> None:
    track = passes.Track()
    first = track.sample(counted(1.0, 10, 0.5, (10, 0.1), (100, 0.8)))
    assert (first["rate"], first["waited"], first["span"]) == (10.0, 0.5, 1.0)
    second = track.sample(counted(3.0, 50, 0.5, (50, 0.2), (500, 4.8)))
    assert (second["rate"], second["waited"], second["span"]) == (20.0, 0.0, 2.0)
    assert [node["rate"] for node in second["nodes"]] == [20.0, 200.0]
    assert second["nodes"][1]["busy"] == pytest.approx(2.0)
    assert second["nodes"][1]["row_ns"] == pytest.approx(1e7)


@pytest.mark.parametrize(
    ("waited", "busy", "holding"),
    [(0.01, (0.1, 0.9), "consumer"), (0.9, (0.1, 0.9), 1), (0.9, (0.9, 0.1), 0), (0.9, (0.0, 0.0), None)],
)
def test_who_holds_it(waited: float, busy: tuple[float, float], holding: Any) -> None:
    sample = passes.Track().sample(counted(1.0, 10, waited, (10, busy[0]), (10, busy[1])))
    assert sample["holding"] == holding


def test_what_the_model_knows_is_used() -> None:
    reading = counted(1.0, 10, 0.9, (10, 0.9), (10, 0.1))
    reading["ceiling"] = {"rate": 25.0, "headroom": 2.5, "limit": {"id": 0, "limit": "lock"}}
    queue = {"fill": 0.5, "input_ns": 5e8, "io_ns": 0, "room_ns": 1e8, "order_ns": 0}
    reading["runs"]["meter"]["queue"] = queue
    sample = passes.Track().sample(reading)
    assert (sample["holding"], sample["ceiling"], sample["headroom"]) == (1, 25.0, 2.5)
    assert sample["limit"] == "Python's lock lets one function run at a time"
    assert sample["nodes"][0]["fill"] == 0.5 and sample["nodes"][1]["fill"] is None
    assert sample["nodes"][0]["waits"] == pytest.approx(
        {"input": 0.5, "files": 0.0, "room": 0.1, "order": 0.0}
    )


def test_a_ceiling_below_what_was_measured_is_not_shown() -> None:
    reading = counted(1.0, 10, 0.9, (10, 0.9), (10, 0.1))
    reading["ceiling"] = {
        "rate": 5.0,
        "measured": 10.0,
        "headroom": 0.5,
        "limit": {"id": 1, "limit": "cores"},
    }
    sample = passes.Track().sample(reading)
    assert (sample["ceiling"], sample["headroom"]) == (None, None)


def test_memory_and_what_was_left_out() -> None:
    reading = counted(1.0, 10, 0.9, (10, 0.9), (10, 0.1))
    sample = passes.Track().sample(reading)
    assert (sample["held"], sample["limit_bytes"], passes.left_out(reading)) == (0, None, [])
    reading["pass"]["memory"] = {
        "limit_bytes": 100,
        "held_bytes": 50,
        "held_bytes_peak": 60,
        "consumer_bytes": 7,
    }
    bad = {"operator": "map", "number": 1, "on_error": "skip", "elements": 3, "first": ["too much"]}
    reading["pass"]["left_out"] = [bad, {**bad, "elements": 0}]
    sample = passes.Track().sample(reading)
    assert (sample["held"], sample["limit_bytes"], sample["given"]) == (50, 100, 7)
    assert passes.left_out(reading) == [{"operator": "map", "elements": 3, "first": "too much"}]


def test_bad_elements_are_told() -> None:
    dataset = fl.Dataset.range(10).map(lambda x: fl.debugging.assert_less(x, 7, "too much"), on_error="skip")
    iterator = iter(dataset)
    assert len(list(iterator)) == 7
    (entry,) = passes.left_out(json.loads(iterator.explain("json")))
    assert entry["elements"] == 3 and "too much" in entry["first"]


def test_nothing_is_known_at_the_start() -> None:
    sample = passes.Track().sample(counted(0.0, 0, 0.0, (0, 0.0), (0, 0.0)))
    assert (sample["holding"], sample["rate"]) == (None, 0.0)


def test_a_plan_that_is_read_twice_is_one_operator() -> None:
    shared = fl.Dataset.range(5).map(lambda x: x + 1)
    iterator = iter(fl.Dataset.zip((shared, shared)))
    shape = passes.shape(json.loads(iterator.explain("json")))
    assert [node["op"] for node in shape] == ["zip", "map", "range"]
    assert [node["inputs"] for node in shape] == [[1, 1], [2], []]


# The server.


def test_it_shows_what_runs(server: fl.live.Server) -> None:
    dataset = fl.Dataset.range(10**9).map(lambda x: x * 2).batch(7)
    with reading(dataset):
        state = wait_for(lambda: of(get_json(server, "state"), "batchbatch_size=7"))
        assert [node["op"] for node in state["nodes"]] == ["batch", "map", "range"]
        assert state["alive"] and state["name"] == "range → map → batch"
        number = get_json(server, "state")["number"]
        # Only what is new comes again, and it goes on.
        more = wait_for(lambda: of(get_json(server, "state", since=number), "batchbatch_size=7"))
        assert all(sample["number"] > number for sample in more["samples"])
        wait_for(lambda: of(get_json(server, "state"), "batchbatch_size=7")["samples"][-1]["delivered"] > 20)


def test_epochs_are_one_pipeline(server: fl.live.Server) -> None:
    dataset = fl.Dataset.range(10**9).batch(11)

    def shown() -> dict[str, Any]:
        return of(get_json(server, "state"), "batchbatch_size=11") or {"passes": 0}

    for epoch in (1, 2):
        with reading(dataset):
            wait_for(lambda: shown()["passes"] == epoch)  # noqa: B023
    passes = [sample["pass"] for sample in shown()["samples"]]
    assert set(passes) == {passes[0], passes[-1]}
    wait_for(lambda: not shown()["alive"])


def test_of_many_pipelines_the_newest_are_remembered() -> None:
    sampler = Sampler()
    kept = [iter(fl.Dataset.range(100 + n)) for n in range(PIPELINES + 4)]
    dataset = fl.Dataset.range(10**6).batch(13)
    for epoch in (1, 2):
        kept.append(iter(dataset))
        for iterator in kept:
            next(iterator)
        for _ in range(3):
            sampler.look()
            found = [p for p in sampler.told()["pipelines"] if "13" in p["nodes"][0]["params"]]
            assert [p["passes"] for p in found] == [epoch]
    assert len(sampler.told()["pipelines"]) == PIPELINES
    del kept[-2:], iterator  # its passes end, while older pipelines run on
    gc.collect()
    sampler.look()
    found = [p for p in sampler.told()["pipelines"] if "13" in p["nodes"][0]["params"]]
    assert [p["alive"] for p in found] == [False]


def test_errors_are_shown(server: fl.live.Server) -> None:
    with reading(fl.Dataset.range(10**9).map(lambda x: fl.debugging.assert_less(x, 3, "beyond three"))):
        wait_for(
            lambda: any("beyond three" in error["text"] for error in get_json(server, "state")["errors"])
        )


def test_pictures_of_the_next_batch(server: fl.live.Server) -> None:
    pixels = np.arange(8 * 32 * 32 * 3, dtype=np.uint8).reshape(8, 32, 32, 3)
    dataset = fl.Dataset.from_tensor_slices((pixels, np.arange(8))).repeat().batch(4)
    with reading(dataset):
        state = wait_for(lambda: of(get_json(server, "state"), "batchbatch_size=4"))
        answer = get_json(server, "picture", pipeline=state["id"])
        picture = base64.b64decode(answer["picture"].removeprefix("data:image/png;base64,"))
        assert fl.image.decode_png(picture).shape == (66, 66, 3)
    assert "does not run" in get_json(server, "picture", pipeline="none")["why"]


def test_a_batch_without_pictures_says_so(server: fl.live.Server) -> None:
    dataset = fl.Dataset.range(10**9).batch(3)
    with reading(dataset):
        state = wait_for(lambda: of(get_json(server, "state"), "batchbatch_size=3"))
        assert "looks like pictures" in get_json(server, "picture", pipeline=state["id"])["why"]


@pytest.mark.parametrize("path", ["", "state", "metrics", "picture", "nowhere"])
@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?token=é", "?token[]=1"])
def test_without_the_token_there_is_nothing(server: fl.live.Server, path: str, query: str) -> None:
    address = f"http://127.0.0.1:{server.port}/{path}{query}".replace("é", "%C3%A9")
    with pytest.raises(urllib.error.HTTPError) as error:
        get(address)
    assert error.value.code == 403
    assert server.token not in error.value.read().decode()


def test_the_token_may_come_in_a_header(server: fl.live.Server) -> None:
    address = f"http://127.0.0.1:{server.port}/state"
    assert json.loads(get(address, Authorization=f"Bearer {server.token}"))["process"]["pid"] == os.getpid()
    with pytest.raises(urllib.error.HTTPError):
        get(address + f"?token={server.token}", Authorization="Bearer wrong")


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "localhost.evil"]
)
def test_a_foreign_name_gets_nothing(server: fl.live.Server, name: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as error:
        get(server.url, Host=name)
    assert error.value.code == 403


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]:8000", "LOCALHOST:1"])
def test_our_names_are_answered(server: fl.live.Server, name: str) -> None:
    assert b"<title>feedline</title>" in get(server.url, Host=name)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_only_get(server: fl.live.Server, method: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request(method, f"/?token={server.token}", body=b"x" if method == "POST" else None)
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Allow"]) == (405, "GET")
    connection.close()


def test_the_page_needs_nothing_from_elsewhere(server: fl.live.Server) -> None:
    with urllib.request.urlopen(server.url, timeout=PATIENCE) as answer:
        policy = answer.headers["Content-Security-Policy"]
        text = answer.read().decode()
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)|@import|url\(", text)
    assert server.token not in text
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_numbers_that_make_no_sense(server: fl.live.Server) -> None:
    for since in ("x", "-5", "9" * 400, "²"):
        assert "pipelines" in json.loads(
            get(server.url.replace("/?", "/state?") + "&since=" + urllib.request.quote(since))
        )


def test_it_listens_on_this_machine_only(server: fl.live.Server) -> None:
    assert server._listener.server_address[0] == "127.0.0.1"


def test_a_port_that_is_taken_says_so(server: fl.live.Server) -> None:
    with pytest.raises(OSError, match="port=0 finds one"):
        fl.dashboard(port=server.port)
    with pytest.raises(ValueError, match="65535"):
        fl.dashboard(port=70000)


def test_after_close_nobody_answers() -> None:
    server = fl.serve()
    server.close()
    with pytest.raises(urllib.error.URLError):
        get(server.url)


def test_the_dashboard_has_an_address() -> None:
    with fl.dashboard() as page:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{20,}", str(page))
        assert page.url in page._repr_html_()
        assert b"<title>feedline</title>" in get(page.url)


def test_a_token_may_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEEDLINE_TOKEN", "quite-long-enough")
    with fl.serve() as server:
        assert b"<title>feedline</title>" in get(server.url)
        address = f"http://127.0.0.1:{server.port}/metrics"
        assert b"feedline_cpu_budget" in get(address, Authorization="Bearer quite-long-enough")
    for bad in ("short", "quite long enough", "quite/long/enough"):
        monkeypatch.setenv("FEEDLINE_TOKEN", bad)
        with pytest.raises(ValueError, match="at least 16"):
            fl.serve()


# Being found.


def test_the_file_of_a_process_is_its_users_own(server: fl.live.Server, runtime_folder: Path) -> None:
    file = runtime_folder / f"{os.getpid()}.json"
    told = json.loads(file.read_text())
    assert (told["port"], told["token"]) == (server.port, server.token)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(runtime_folder.stat().st_mode) == 0o700
    server.close()
    assert not file.exists()


def test_a_folder_of_somebody_else_is_not_used(runtime_folder: Path) -> None:
    runtime_folder.mkdir()
    runtime_folder.chmod(0o777)
    with pytest.raises(PermissionError, match="0700"):
        fl.serve()


def test_a_program_can_be_asked_from_outside(program: Any, tmp_path: Path) -> None:
    source = """
        import json, os, pathlib, urllib.request
        import feedline as fl
        file = pathlib.Path(os.environ["XDG_RUNTIME_DIR"], "feedline", f"{os.getpid()}.json")
        told = json.loads(file.read_text())
        address = f"http://127.0.0.1:{told['port']}/state?token={told['token']}"
        print(json.load(urllib.request.urlopen(address))["process"]["pid"] == os.getpid())
    """
    done = program(source, env={"FEEDLINE_SERVE": "1", "XDG_RUNTIME_DIR": str(tmp_path)})
    assert done.stdout == "True\n"
    assert list((tmp_path / "feedline").iterdir()) == [], "the file goes with the process"


def test_a_program_trains_even_if_nobody_can_look(program: Any, tmp_path: Path) -> None:
    (tmp_path / "feedline").write_text("in the way")
    done = program(
        "import feedline; print(1)",
        env={"FEEDLINE_SERVE": "1", "XDG_RUNTIME_DIR": str(tmp_path)},
        clean=False,
    )
    assert done.stdout == "1\n" and "FEEDLINE_SERVE" in done.stderr
    wrong = program("import feedline", env={"FEEDLINE_SERVE": "yes"}, code=1, clean=False)
    assert "FEEDLINE_SERVE is 1 or the number of a port, not 'yes'" in wrong.stderr


def test_the_child_of_a_fork_leaves_the_server_alone(program: Any, tmp_path: Path) -> None:
    source = """
        import os, sys, urllib.request
        import feedline as fl
        server = fl.serve()
        it = iter(fl.Dataset.range(10))
        urllib.request.urlopen(server.url).read()
        child = os.fork()
        if child == 0:
            from feedline import _native
            from feedline.live.sampler import SAMPLER
            sys.exit(len(_native.passes()) + len(SAMPLER.state()["pipelines"]))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        urllib.request.urlopen(server.url).read()
        print(len(os.listdir(os.environ["XDG_RUNTIME_DIR"] + "/feedline")))
    """
    assert program(source, env={"XDG_RUNTIME_DIR": str(tmp_path)}).stdout == "0\n1\n"


def test_import_does_not_load_it(program: Any) -> None:
    source = "import sys, feedline; print({'feedline.live', 'http.server', 'logging'} & set(sys.modules))"
    assert program(source).stdout == "set()\n"


# Metrics.


def test_metrics_are_what_prometheus_reads(server: fl.live.Server) -> None:
    dataset = fl.Dataset.range(10**9).map(lambda x: x + 1).batch(13)
    with reading(dataset) as iterator:
        wait_for(lambda: json.loads(iterator.explain("json"))["pass"]["delivered"] > 3)
        with urllib.request.urlopen(server.metrics_url, timeout=PATIENCE) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = answer.read().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["feedline_operator_rows"].type == "counter"
    assert families["feedline_cpu_budget"].samples[0].value >= 1
    rows = {s.labels["operator"]: s.value for s in families["feedline_operator_rows"].samples}
    assert rows["map"] >= rows["batch"] * 13 > 0
    chosen = {(s.labels["what"], s.labels["operator"]): s.value for s in families["feedline_tuning"].samples}
    assert chosen["workers", ""] >= 1 and chosen["chunk_rows", "map"] >= 13
    assert chosen["queue_bytes", "batch"] > 1 << 20
    delivered = [s.value for s in families["feedline_elements_delivered"].samples]
    assert max(delivered) > 3
    for family in families.values():
        assert family.documentation
        keys = [(s.name, tuple(sorted(s.labels.items()))) for s in family.samples]
        assert len(keys) == len(set(keys)), "each only once"


# Reports.


def recorded(path: Path) -> dict[str, Any]:
    text = path.read_text()
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_a_report_of_a_dataset(tmp_path: Path) -> None:
    dataset = fl.Dataset.range(1000).map(lambda x: x * 2).batch(10)
    with pytest.raises(ValueError, match="not been read"):
        fl.report(dataset, tmp_path / "none.html")
    list(dataset)
    path = fl.report(dataset, tmp_path / "report.html")
    (pipeline,) = recorded(path)["pipelines"]
    assert pipeline["samples"][-1]["delivered"] == 100 and pipeline["samples"][-1]["ended"]
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)|@import|url\(", path.read_text())


def test_a_report_of_readings(tmp_path: Path) -> None:
    iterator = iter(fl.Dataset.range(1000).batch(10))
    readings = []
    for _ in range(5):
        for _ in range(20):
            next(iterator)
        readings.append({"time": time.time(), **json.loads(iterator.explain("json"))})
    (pipeline,) = recorded(fl.report(readings, tmp_path / "r.html"))["pipelines"]
    assert [sample["number"] for sample in pipeline["samples"]] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="no readings"):
        fl.report([], tmp_path / "r.html")


def test_a_report_of_a_profile(tmp_path: Path) -> None:
    profile = fl.Dataset.range(10**9).map(lambda x: x * 2).batch(10).profile(seconds=0.1)
    (pipeline,) = recorded(profile.report(tmp_path / "profile.html"))["pipelines"]
    assert pipeline["samples"][-1]["delivered"] == profile.delivered


def test_text_in_a_report_cannot_leave_its_place(tmp_path: Path) -> None:
    dataset = fl.Dataset.from_tensor_slices({"</script><script>alert(1)</script>": [1, 2]})
    list(dataset)
    path = fl.report(dataset, tmp_path / "report.html")
    assert "<script>alert" not in path.read_text()
    assert "</script><script>alert(1)" in json.dumps(recorded(path))


# Pictures.


@pytest.mark.parametrize(
    ("shape", "dtype", "sheet"),
    [
        ((4, 10, 12, 3), np.uint8, (22, 26, 3)),
        ((4, 10, 12, 3), np.float32, (22, 26, 3)),
        ((10, 12, 3), np.uint8, (10, 12, 3)),
        ((3, 10, 12), np.uint8, (22, 26, 3)),
        ((1, 3, 10, 12), np.float64, (10, 12, 3)),
        ((100, 10, 10, 1), np.int64, (46, 46, 3)),
        ((1, 500, 1000, 4), np.uint8, (46, 91, 3)),
        ((4, 3), np.uint8, None),
        ((4,), np.float32, None),
        ((0, 10, 10, 3), np.uint8, None),
        ((2, 2, 2, 2, 2), np.uint8, None),
    ],
)
def test_what_looks_like_pictures(shape: tuple[int, ...], dtype: Any, sheet: tuple[int, ...] | None) -> None:
    found = contact_sheet({"a": np.zeros(3), "b": (np.ones(shape, dtype), b"text")})
    assert (None if found is None else found.shape) == sheet


def test_pictures_have_their_colors() -> None:
    pixels = np.zeros((1, 8, 8, 3), np.uint8)
    pixels[0, :, :, 1] = 200
    decoded = fl.image.decode_png(png(contact_sheet(pixels)))
    assert np.array_equal(decoded, pixels[0])
    floats = contact_sheet(pixels.astype(np.float32) / 255)
    assert np.abs(floats.astype(int) - pixels[0]).max() <= 1
    assert contact_sheet(np.full((1, 8, 8, 3), np.nan)).max() == 0


# Traces.


def test_a_trace_is_what_viewers_read(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    dataset = fl.Dataset.range(2000).map(lambda x: x * 2).batch(10)
    # It began before, and does nothing until it is asked.
    before = fl.Dataset.range(100).filter(lambda x: x % 2 == 0).iter(prefetch=False)
    with fl.chrome_trace(file):
        list(dataset)
        list(before)
        with pytest.raises(fl.errors.FailedPreconditionError), fl.chrome_trace(tmp_path / "second.json"):
            pass
    trace = json.loads(file.read_text())
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    threads = {event["tid"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert {span["tid"] for span in spans} <= threads
    assert {"range", "map", "batch", "filter"} <= {span["name"] for span in spans}
    assert all(span["dur"] >= 0 and span["ts"] >= 0 for span in spans)
    rows = sum(span["args"]["rows"] for span in spans if span["name"] == "map")
    assert rows >= 2000
    assert trace["otherData"]["lost_spans"] == 0


def test_a_trace_keeps_the_newest(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    with fl.chrome_trace(file, most=5):
        list(fl.Dataset.range(2000).map(lambda x: x * 2).with_options(chunk_rows=10))
    trace = json.loads(file.read_text())
    assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == 5
    assert trace["otherData"]["lost_spans"] > 0


def test_a_trace_of_a_loop_that_fails_is_written(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    with pytest.raises(KeyError), fl.chrome_trace(file):
        list(fl.Dataset.range(10))
        raise KeyError
    assert json.loads(file.read_text())["traceEvents"]
    with pytest.raises(ValueError, match="at least 1"), fl.chrome_trace(file, most=0):
        pass
    with pytest.raises(OSError), fl.chrome_trace(tmp_path / "no" / "trace.json"):
        pass


# Logs.

IGNORES = """
    import feedline as fl
    ds = fl.Dataset.range(3).map(lambda x: fl.debugging.assert_less(x, 2, "too much"))
    print(len(list(ds.ignore_errors(log_warning=True))))
"""


def test_messages_of_the_core_come_to_logging(program: Any) -> None:
    done = program(IGNORES, clean=False)
    assert done.stdout == "2\n"
    assert re.fullmatch(r"ignore_errors: left out an element: .*too much.*\n", done.stderr)
    source = """
    import logging
    logging.basicConfig(format="%(levelname)s %(name)s %(message)s")
    """
    named = program(source + IGNORES, clean=False)
    assert named.stderr.startswith("WARNING feedline.ops.ignore_errors ignore_errors: left out")


def test_logs_can_be_silenced_and_asked_for(program: Any) -> None:
    assert program(IGNORES, env={"FEEDLINE_LOG": "ERROR"}).stdout == "2\n"
    assert (
        "WARNING:feedline.ops.ignore_errors"
        in program(IGNORES, env={"FEEDLINE_LOG": "debug"}, clean=False).stderr
    )
    wrong = program(IGNORES, env={"FEEDLINE_LOG": "loud"}, code=1, clean=False)
    assert "FEEDLINE_LOG is a level of Python's logging" in wrong.stderr


def test_a_usual_program_says_nothing(program: Any) -> None:
    source = """
        import feedline as fl
        ds = fl.Dataset.range(100).cache().shuffle(10).map(lambda x: x * 2).batch(8).prefetch(2)
        for _ in range(2):
            list(ds)
    """
    assert program(source).stdout == ""


def test_messages_that_came_too_fast_are_counted(program: Any) -> None:
    source = """
        import logging, threading
        import feedline as fl
        read, told = threading.Event(), threading.Event()
        class Slow(logging.Handler):
            def emit(self, record):
                read.wait(5)
                if "came too fast" in record.getMessage():
                    print(int(record.getMessage().split()[0]) >= 1999)
                    told.set()
        logging.getLogger("feedline").addHandler(Slow())
        ds = fl.Dataset.range(4000).map(lambda x: fl.debugging.assert_less(x, 0, "no"))
        list(ds.ignore_errors(log_warning=True))
        read.set()
        told.wait(5)
    """
    assert program(source).stdout == "True\n"


def test_a_fork_while_messages_come(program: Any) -> None:
    source = """
        import logging, os, threading
        import feedline as fl
        logging.getLogger("feedline").addHandler(logging.NullHandler())
        logging.getLogger("feedline").propagate = False
        ds = fl.Dataset.range(100).map(lambda x: fl.debugging.assert_less(x, 0, "no"))
        ds = ds.ignore_errors(log_warning=True)
        stop = threading.Event()
        def talk():
            while not stop.is_set():
                list(ds)
        thread = threading.Thread(target=talk)
        thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                list(ds)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        thread.join()
        print("done")
    """
    assert program(source).stdout == "done\n"


def test_the_page_does_not_take_messages_away(program: Any, tmp_path: Path) -> None:
    source = "import feedline as fl\nfl.dashboard()\n" + re.sub("^    ", "", IGNORES, flags=re.MULTILINE)
    done = program(source, env={"XDG_RUNTIME_DIR": str(tmp_path)}, clean=False)
    assert "left out an element" in done.stderr


def test_nothing_prints() -> None:
    """Only where Keras's helpers promise it, with `verbose`."""
    root = Path(fl.__file__).parent
    found = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"^\s*print\(", path.read_text(), re.MULTILINE)
    ]
    assert found == ["utils/directories.py"]


def _event_class() -> Any:
    """TensorFlow's `Event`, as far as scalars go, made from the numbers in event.proto and summary.proto."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="events", syntax="proto3")
    fields = {
        "Value": [("tag", 1, kinds.TYPE_STRING), ("simple_value", 2, kinds.TYPE_FLOAT)],
        "Summary": [("value", 1, "Value")],
        "Event": [
            ("wall_time", 1, kinds.TYPE_DOUBLE),
            ("step", 2, kinds.TYPE_INT64),
            ("file_version", 3, kinds.TYPE_STRING),
            ("summary", 5, "Summary"),
        ],
    }
    for name, members in fields.items():
        message = file.message_type.add(name=name)
        for field, number, kind in members:
            label = kinds.LABEL_REPEATED if kind == "Value" else kinds.LABEL_OPTIONAL
            if isinstance(kind, str):
                of = {"type": kinds.TYPE_MESSAGE, "type_name": f".events.{kind}"}
            else:
                of = {"type": kind}
            message.field.add(name=field, number=number, label=label, **of)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("events.Event"))


def test_tensorboard_gets_scalars(tmp_path: Path) -> None:
    made = _event_class()
    ds = fl.Dataset.range(4000).map(lambda x: x + 1).batch(4)
    with fl.tensorboard(tmp_path / "logs" / "input", every=0.05) as log:
        # A pass is seen as long as somebody has its iterator.
        iterators = []
        for _ in range(2):
            iterators.append(iter(ds))
            assert sum(1 for _ in iterators[-1]) == 1000
            fl.live.sampler.SAMPLER.look()
            written = log.path.stat().st_size
            wait_for(lambda size=written: log.path.stat().st_size > size)
        assert log.path.parent == tmp_path / "logs" / "input" and log.path.name.startswith(
            "events.out.tfevents."
        )
    log.close()
    first, *events = (made.FromString(r) for r in fl.TFRecordDataset(str(log.path)).as_numpy_iterator())
    assert first.file_version == "brain.Event:2" and events
    assert all(abs(e.wall_time - time.time()) < 3600 for e in (first, *events))
    # Other tests may have left pipelines behind; this one is the last that came.
    number = max(int(e.summary.value[0].tag.split("/")[1]) for e in events)
    ours = [e for e in events if e.summary.value[0].tag.startswith(f"feedline/{number}/")]
    steps = [e.step for e in ours]
    assert steps == sorted(steps) and steps[-1] == 2000
    values = {v.tag.split("/", 2)[2]: v.simple_value for v in ours[-1].summary.value}
    assert {"elements per second", "consumer waits", "held bytes", "1 range/rows per second"} <= set(values)
    assert 0 <= values["consumer waits"] <= 1 and 0 <= values["3 batch/queue fill"] <= 1


def test_tensorboard_refuses_what_is_no_time(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every must be positive"):
        fl.tensorboard(tmp_path / "logs", every=0)
    assert not (tmp_path / "logs").exists()
