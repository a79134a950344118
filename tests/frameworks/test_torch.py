"""PyTorch: tensors without copies, PyTorch's loader, ranks, and PyTorch's datasets in this engine."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import feedline as fl
import feedline.torch
import numpy as np
import pytest
import torch
from feedline.frameworks.torch import _Job, _tensor
from torch.utils import data as torch_data

torch.set_num_threads(1)


def numbers(count: int = 103, size: int = 10) -> fl.Dataset:
    """Shuffled numbers with a random one beside each, in batches."""
    ds = fl.Dataset.range(count).shuffle(seed=1).map(lambda x: (x, fl.random.uniform([3], seed=2)))
    return ds.batch(size)


def listed(batches: Any) -> list[Any]:
    return [[part.tolist() for part in batch] for batch in batches]


# Tensors.


def test_a_tensor_lies_where_the_pipeline_made_it() -> None:
    (array,) = fl.Dataset.range(64).map(lambda x: x * 2).batch(64)
    tensor = _tensor(array)
    assert tensor.data_ptr() == array.ctypes.data
    tensor += 1
    assert array[0] == 1


def test_kinds_of_elements() -> None:
    ds = fl.Dataset.from_tensor_slices({"n": [1, 2], "name": ["a", "b"], "x": np.ones((2, 3), np.float16)})
    first = next(iter(ds.to_torch()))
    assert first["n"].shape == () and first["n"].dtype == torch.int32
    assert first["name"] == b"a"
    assert first["x"].dtype == torch.float16
    batch = next(iter(ds.batch(2).to_torch()))
    assert batch["name"].tolist() == [b"a", b"b"]
    (half,) = fl.Dataset.range(3).map(lambda x: fl.cast(x, fl.bfloat16)).batch(3).to_torch()
    assert half.dtype == torch.bfloat16 and half.tolist() == [0, 1, 2]
    (ragged,) = fl.Dataset.range(3).map(lambda x: fl.range(x)).ragged_batch(3).to_torch()
    assert [row.tolist() for row in ragged.unbind()] == [[], [0], [0, 1]]
    indices = fl.SparseTensor([[0, 1]], [5.0], [2, 3])
    (sparse,) = fl.Dataset.from_tensors(indices).to_torch()
    assert sparse.to_dense().tolist() == [[0, 5, 0], [0, 0, 0]]


def test_text_in_ragged_and_sparse_leaves() -> None:
    words = fl.Dataset.from_tensor_slices(["a b", "c"]).map(lambda x: fl.strings.split(x)).ragged_batch(2)
    (ragged,) = words.to_torch()
    assert isinstance(ragged, fl.RaggedTensor) and ragged.flat_values.tolist() == [b"a", b"b", b"c"]
    (sparse,) = fl.Dataset.from_tensors(fl.SparseTensor([[0, 1]], ["a"], [2, 3])).to_torch()
    assert isinstance(sparse, fl.SparseTensor) and sparse.values.tolist() == [b"a"]


def test_ragged_and_sparse_leaves_of_all_kinds() -> None:
    rows = fl.Dataset.range(3).map(lambda x: fl.cast(fl.range(x), fl.bfloat16)).ragged_batch(3).cache()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="The given NumPy array is not writable")
        for _ in range(2):
            (ragged,) = rows.to_torch()
            assert ragged.dtype == torch.bfloat16 and [len(row) for row in ragged.unbind()] == [0, 1, 2]
        places = fl.Dataset.from_tensors(fl.SparseTensor([[0, 1]], np.ones(1, np.float32), [2, 3])).cache()
        for _ in range(2):
            (sparse,) = places.to_torch()
            assert sparse.to_dense().tolist() == [[0, 1, 0], [0, 0, 0]]
            sparse._values().add_(1)


def test_batches_of_a_cache_can_be_written_to() -> None:
    ds = fl.Dataset.from_tensors(np.zeros(1 << 16, np.float32)).map(lambda x: x + 1).cache()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            (tensor,) = ds.to_torch()
            assert tensor[0] == 1
            tensor += 1


def test_a_device() -> None:
    batch, name = next(iter(fl.Dataset.from_tensors(([1, 2], "a")).to_torch(device="meta")))
    assert batch.device.type == "meta" and name == b"a"


def test_length_and_epochs() -> None:
    stream = numbers().to_torch()
    assert len(stream) == 11
    first, second = listed(stream), listed(stream)
    assert first != second
    stream.set_epoch(0)
    assert listed(stream) == first
    stream.set_epoch(1)
    assert listed(stream) == second
    with pytest.raises(TypeError, match="not known without reading"):
        len(fl.Dataset.range(3).filter(lambda x: x > 1).to_torch())


# Inside PyTorch's loader.


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_give_what_one_process_gives(start: str) -> None:
    stream = numbers().to_torch()
    stream.set_epoch(3)
    alone = listed(stream)
    stream.set_epoch(3)
    loader = torch_data.DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context=start)
    assert len(loader) == 11
    assert listed(loader) == alone


def test_workers_shuffle_anew_in_each_epoch() -> None:
    torch.manual_seed(1)
    loader = torch_data.DataLoader(numbers().to_torch(), batch_size=None, num_workers=2)
    epochs = [[n for x, _ in loader for n in x.tolist()] for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(103))


def test_workers_that_stay() -> None:
    stream = numbers().to_torch()
    loader = torch_data.DataLoader(stream, batch_size=None, num_workers=2, persistent_workers=True)
    epochs = [[n for x, _ in loader for n in x.tolist()] for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(103))


def loaded(stream: Any, **how: Any) -> Any:
    return torch_data.DataLoader(stream, batch_size=None, num_workers=2, **how)


def test_epochs_of_workers_are_the_passes_of_one_process() -> None:
    ds = numbers()
    stream = ds.to_torch()
    passes = [listed(stream) for _ in range(4)]
    torch.manual_seed(1)
    assert [listed(loaded(numbers().to_torch())) for _ in range(2)] == [passes[0]] * 2
    loader = loaded(stream)
    assert [listed(loader) for _ in range(2)] == passes[:2]
    # Another stream of the same dataset counts on, as without workers.
    assert listed(loaded(ds.to_torch())) == passes[2]


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("stay", [False, True])
def test_an_epoch_that_is_set_reaches_all_workers(stay: bool, start: str) -> None:
    stream = numbers(40).to_torch()
    passes = [listed(stream) for _ in range(5)]
    loader = loaded(stream, persistent_workers=stay, multiprocessing_context=start)
    found = []
    for epoch in (3, None, 1, 1):
        if epoch is not None:
            stream.set_epoch(epoch)
        found.append(passes.index(listed(loader)))
    assert found == [3, 4, 1, 1]


@pytest.mark.parametrize("stay", [False, True])
def test_workers_agree_after_an_epoch_was_left(stay: bool) -> None:
    """Near the end of an epoch one worker has reached the end of its part and the other has not."""
    stream = numbers(50).to_torch()
    passes = [listed(stream) for _ in range(6)]
    loader = loaded(stream, persistent_workers=stay, prefetch_factor=1)
    for left in range(1, 6):
        iterator = iter(loader)
        assert listed(next(iterator) for _ in range(left)) == passes[left - 1][:left]
        del iterator
    assert listed(loader) == passes[5]


def test_epochs_that_overlap() -> None:
    stream = numbers(40).to_torch()
    passes = [listed(stream) for _ in range(2)]
    loader = loaded(stream)
    first = iter(loader)
    given = listed([next(first)])
    second = iter(loader)
    assert listed([next(second)]) == passes[1][:1]
    assert given + listed(first) == passes[0]
    assert listed(second) == passes[1][1:]


def test_the_map_runs_in_one_worker_only(tmp_path: Path) -> None:
    def note(x: Any) -> Any:
        with open(tmp_path / f"{os.getpid()}", "a") as file:
            file.write(f"{int(x)}\n")
        return x

    signature = fl.TensorSpec((), fl.int64)
    ds = fl.Dataset.range(40).map(note, python=True, output_signature=signature).batch(4)
    loader = torch_data.DataLoader(ds.to_torch(), batch_size=None, num_workers=2)
    assert [n for batch in loader for n in batch.tolist()] == list(range(40))
    calls = [[int(n) for n in file.read_text().split()] for file in tmp_path.iterdir()]
    assert len(calls) == 2
    assert sorted(n for part in calls for n in part) == list(range(40))


def test_work_that_every_worker_does_is_told() -> None:
    from feedline.frameworks import parts

    costly = fl.Dataset.range(10).map(lambda x: x + 1).shuffle(4).batch(2)
    with pytest.warns(fl.warnings.WorkTwice, match=r"FL005: each of the 2 workers runs all of map"):
        parts.of_worker(costly, 2, 0)


def test_batches_of_pytorch_from_single_elements() -> None:
    loader = torch_data.DataLoader(fl.Dataset.range(10).to_torch(), batch_size=5)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_the_first_batch_again_and_again() -> None:
    ds = fl.Dataset.range(10).batch(2)
    with pytest.warns(fl.warnings.FirstElementAgain, match="FL002") as given:
        for _ in range(5):
            next(iter(ds.to_torch()))
    assert [warning.filename for warning in given] == [__file__]


def test_elements_by_number() -> None:
    items = fl.Dataset.range(10).map(lambda x: (x, x * x)).to_torch_dataset()
    assert len(items) == 10
    assert [part.item() for part in items[3]] == [3, 9]
    assert [part.item() for part in items[-1]] == [9, 81]
    loader = torch_data.DataLoader(items, batch_size=4, shuffle=True, num_workers=2)
    assert sorted(n for x, _ in loader for n in x.tolist()) == list(range(10))
    with pytest.raises(NotImplementedError, match="filter"):
        fl.Dataset.range(10).filter(lambda x: x > 1).to_torch_dataset()


def test_streams_pickle() -> None:
    stream = pickle.loads(pickle.dumps(numbers().to_torch()))
    assert len(listed(stream)) == 11


# Ranks.


@pytest.mark.parametrize(
    ("equal", "sizes", "distinct"),
    [("drop", [51, 51], 102), ("wrap", [52, 52], 103), (None, [52, 51], 103)],
)
def test_parts_of_ranks(equal: str | None, sizes: list[int], distinct: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fl.warnings.UnequalRanks)
        parts = [numbers().to_torch(shard=(2, rank), equal=equal) for rank in range(2)]
    found = [[n for x, _ in part for n in x.tolist()] for part in parts]
    assert [len(part) for part in found] == sizes
    assert len(set(found[0] + found[1])) == distinct
    assert len(parts[0]) == len(parts[1]) == 6


def test_uneven_ranks_are_told() -> None:
    with pytest.warns(fl.warnings.UnequalRanks, match="FL003: 103 elements for 2 ranks"):
        numbers().to_torch(shard=(2, 0), equal=None)
    some = fl.Dataset.range(9).filter(lambda x: x > 1)
    with pytest.warns(fl.warnings.UnequalRanks, match="an unknown number of elements"):
        some.to_torch(shard=(2, 0), equal=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [len(list(some.to_torch(shard=(2, rank)))) for rank in range(2)] == [3, 3]
    with pytest.raises(ValueError, match="cut"):
        numbers().to_torch(shard=(2, 0), equal="cut")


def test_ranks_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert [int(x) for x in fl.Dataset.range(6).to_torch(shard="auto")] == [1, 3, 5]
    monkeypatch.delenv("RANK")
    with pytest.raises(ValueError, match="torchrun"):
        fl.Dataset.range(6).to_torch(shard="auto")


@pytest.mark.parametrize("stay", [False, True])
def test_ranks_with_workers_run_the_same_passes(stay: bool) -> None:
    """Their loaders draw different seeds, as those of different processes do."""
    ds = fl.Dataset.range(96).shuffle(seed=5).batch(4)
    loaders = [loaded(ds.to_torch(shard=(2, rank)), persistent_workers=stay) for rank in range(2)]
    orders = []
    for _ in range(3):
        found = [[n for batch in loader for n in batch.tolist()] for loader in loaders]
        assert sorted(found[0] + found[1]) == list(range(96))
        orders.append(found[0])
    assert orders[0] != orders[1] != orders[2]


def run_ranks(tmp_path: Path, body: str, count: int = 2) -> list[str]:
    """What each of some processes prints that have joined a group."""
    program = tmp_path / "rank.py"
    program.write_text(
        textwrap.dedent("""
            import sys, torch, torch.distributed as dist, feedline as fl, numpy as np
            rank, count = int(sys.argv[1]), int(sys.argv[3])
            dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=count)
        """)
        + textwrap.dedent(body)
        + "\ndist.destroy_process_group()\n"
    )
    group = tmp_path / f"group-{time.monotonic_ns()}"
    started = [
        subprocess.Popen(
            [sys.executable, str(program), str(rank), str(group), str(count)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    said = []
    try:
        for process in started:
            out, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
            said.append(out)
    finally:
        for process in started:
            process.kill()
    return said


def test_two_ranks_share_the_data(tmp_path: Path) -> None:
    said = run_ranks(
        tmp_path,
        """
        ds = fl.Dataset.range(96).shuffle(seed=5).map(lambda x: x * 1).batch(8)
        steps = 0
        for epoch in range(2):
            seen = []
            for batch in ds.to_torch(shard="auto"):
                seen += batch.tolist()
                # Hangs if the other rank has fewer steps.
                dist.all_reduce(torch.ones(1))
                steps += 1
            print(*seen)
        assert steps == 12, steps
        """,
    )
    epochs = [[[int(n) for n in line.split()] for line in out.splitlines()] for out in said]
    for epoch in range(2):
        assert sorted(epochs[0][epoch] + epochs[1][epoch]) == list(range(96))
    assert epochs[0][0] != epochs[0][1]


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_ranks_goes_on(count: int, tmp_path: Path) -> None:
    """Two ranks stop after three steps; one or three take up what is left, in equally many steps."""
    pipeline = "ds = fl.Dataset.range(96).shuffle(seed=5).map(lambda x: x * 1).batch(4)"
    said = run_ranks(
        tmp_path,
        f"""
        import json
        {pipeline}
        data = ds.to_torch(shard="auto")
        batches = iter(data)
        print(*[n for _ in range(3) for n in next(batches).tolist()])
        if rank == 0:
            open({str(tmp_path / "state")!r}, "w").write(json.dumps(data.state_dict()))
        """,
    )
    seen = [int(n) for out in said for n in out.split()]
    said = run_ranks(
        tmp_path,
        f"""
        import json
        {pipeline}
        data = ds.to_torch(shard="auto")
        data.load_state_dict(json.load(open({str(tmp_path / "state")!r})))
        rest = []
        for batch in data:
            rest += batch.tolist()
            # Hangs if another rank has fewer steps.
            dist.all_reduce(torch.ones(1))
        print(*rest)
        # The next epoch is whole again.
        assert sum(len(batch) for batch in data) == 96 // count
        """,
        count,
    )
    rest = [[int(n) for n in out.split()] for out in said]
    assert len(seen) == 24 and {len(part) for part in rest} == {72 // count}
    assert sorted(seen + [n for part in rest for n in part]) == list(range(96))


def test_ranks_with_different_orders_are_refused(tmp_path: Path) -> None:
    said = run_ranks(
        tmp_path,
        """
        try:
            fl.Dataset.range(96).shuffle(seed=rank).batch(8).to_torch(shard="auto")
        except ValueError as error:
            print(error)
        """,
    )
    assert all("different datasets" in out and "seed" in out for out in said)


# PyTorch's datasets, with this engine.


class Squares(torch_data.Dataset):
    def __len__(self) -> int:
        return 25

    def __getitem__(self, index: int) -> Any:
        return {"x": torch.full((2,), index * index), "name": str(index)}


class Count(torch_data.IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


LOADERS: dict[str, dict[str, Any]] = {
    "batches": {"batch_size": 4},
    "drop_last": {"batch_size": 4, "drop_last": True},
    "shuffle": {"batch_size": 4, "shuffle": True},
    "sampler": {"batch_size": 2, "sampler": [3, 1, 2]},
    "batch_sampler": {"batch_sampler": [[1], [2, 3]]},
    "no batches": {"batch_size": None},
    "collate_fn": {"batch_size": 3, "collate_fn": lambda samples: [s["name"] for s in samples]},
}


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, torch.Tensor) else value


PLACES: dict[str, dict[str, Any]] = {
    "here": {},
    "threads": {"num_workers": 2, "threads": True},
    "processes": {"num_workers": 2},
}


@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("how", LOADERS.values(), ids=LOADERS)
def test_the_loader_gives_what_pytorchs_gives(how: dict[str, Any], where: dict[str, Any]) -> None:
    theirs, ours = torch_data.DataLoader(Squares(), **how), None
    ours = feedline.torch.DataLoader(Squares(), **where, **how)
    assert len(ours) == len(theirs)
    for _ in range(2):
        torch.manual_seed(7)
        expected = [plain(batch) for batch in theirs]
        torch.manual_seed(7)
        assert [plain(batch) for batch in ours] == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_is_read_once_whatever_the_workers(workers: int) -> None:
    loader = feedline.torch.DataLoader(Count(), batch_size=3, num_workers=workers)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    short = feedline.torch.DataLoader(Count(), batch_size=3, num_workers=workers, drop_last=True)
    assert len(list(short)) == 3
    assert list(feedline.torch.DataLoader(Count(), batch_size=None, num_workers=workers)) == list(range(10))


def test_samples_together() -> None:
    class Together(Squares):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [-i for i in indices]

    batches = feedline.torch.DataLoader(Together(), batch_size=5, num_workers=2)
    assert next(iter(batches)).tolist() == [0, -1, -2, -3, -4]


def test_errors_of_a_dataset_come_out_as_they_are() -> None:
    class Broken(Squares):
        def __getitem__(self, index: int) -> Any:
            if index == 9:
                raise KeyError("nine")
            return index

    got = []
    with pytest.raises(KeyError, match="nine"):
        for batch in feedline.torch.DataLoader(Broken(), batch_size=4, num_workers=2):
            got.append(batch.tolist())
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_workers_begin_once_each() -> None:
    begun: list[int] = []
    lock = threading.Lock()

    def begin(number: int) -> None:
        with lock:
            begun.append(number)

    loader = feedline.torch.DataLoader(
        Squares(), batch_size=1, num_workers=2, worker_init_fn=begin, threads=True
    )
    assert len(list(loader)) == 25
    assert sorted(begun) == list(range(len(begun))) and 1 <= len(begun) <= 2


def once(order: list[int]) -> Any:
    """A sampler that can be read once, as a generator can."""

    class Once(torch_data.Sampler):
        left = iter(order)

        def __iter__(self) -> Iterator[int]:
            return self.left

        def __len__(self) -> int:
            return len(order)

    return Once()


def test_what_cannot_be_pickled_loses_nothing_of_its_sampler() -> None:
    lock = threading.Lock()

    def collated(samples: list[Any]) -> list[str]:
        with lock:
            return [sample["name"] for sample in samples]

    loader = feedline.torch.DataLoader(
        Squares(), batch_size=2, num_workers=2, sampler=once([3, 1, 2]), collate_fn=collated
    )
    assert list(loader) == [["3", "1"], ["2"]]

    # The first epoch has PyTorch's order too.
    orders = []
    for kind in (torch_data.DataLoader, feedline.torch.DataLoader):
        torch.manual_seed(7)
        shuffled = kind(Squares(), batch_size=5, shuffle=True, num_workers=2, collate_fn=collated)
        orders.append([list(shuffled) for _ in range(2)])
    assert orders[0] == orders[1]


@pytest.mark.parametrize("where", [{}, {"num_workers": 2}, {"num_workers": 2, "threads": True}])
def test_the_seed_is_drawn_when_an_epoch_begins(where: dict[str, Any]) -> None:
    """As PyTorch does it, so that other draws of a program do not change places with it."""
    drawn = []
    for kind, how in ((torch_data.DataLoader, {}), (feedline.torch.DataLoader, where)):
        workers = {"num_workers": where["num_workers"]} if where else {}
        loader = kind(Squares(), batch_size=5, shuffle=True, **{**workers, **how})
        torch.manual_seed(7)
        batches = iter(loader)
        between = torch.rand(1).item()
        drawn.append((between, [batch["name"] for batch in batches], torch.rand(1).item()))
    assert drawn[0] == drawn[1]


class Seeds(torch_data.Dataset):
    """Which seed a worker was told, and how often it was begun."""

    begun = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[int, int]:
        worker = torch_data.get_worker_info()
        return worker.seed - worker.id, self.begun


def count_begin(number: int) -> None:
    torch_data.get_worker_info().dataset.begun += 1


def fail_begin(number: int) -> None:
    raise ValueError("no begin")


@pytest.mark.parametrize(("stay", "begun"), [(False, [1, 2, 3]), (True, [1, 1, 1])])
def test_kept_workers_begin_each_epoch(stay: bool, begun: list[int]) -> None:
    loader = feedline.torch.DataLoader(
        Seeds(), num_workers=1, collate_fn=list, worker_init_fn=count_begin, persistent_workers=stay
    )
    epochs = [{sample for batch in loader for sample in batch} for _ in range(3)]
    # One seed in each epoch, and another in each.
    assert [len(epoch) for epoch in epochs] == [1, 1, 1]
    seeds, times = zip(*(next(iter(epoch)) for epoch in epochs), strict=True)
    assert len(set(seeds)) == 3 and list(times) == begun


def test_a_worker_that_cannot_begin_makes_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feedline.frameworks.torch.worker_info", lambda: SimpleNamespace(id=0))
    monkeypatch.setattr(torch_data._utils.worker, "_worker_info", None)
    job = _Job(feedline.torch.DataLoader(Squares(), num_workers=1, worker_init_fn=fail_begin))
    for number in range(2):
        with pytest.raises(ValueError, match="no begin"):
            job(pickle.dumps((5, number, [0])))


class Told(torch_data.Dataset):
    """What a sample knows of where it is made, and what is left of tensors of all kinds."""

    def __init__(self) -> None:
        self.begun: int | None = None

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        worker = torch_data.get_worker_info()
        return {
            "process": os.getpid(),
            "worker": (worker.id, worker.num_workers, worker.dataset is self, self.begun),
            "random": (torch.rand(2), np.random.rand(), random.random()),
            "tensors": [
                torch.tensor(index),
                torch.ones(3, 2).T,
                torch.empty(0),
                torch.ones(2, dtype=torch.bfloat16),
            ],
            "array": np.full((2, 2), index),
            "text": f"n{index}",
        }


def begin(number: int) -> None:
    torch_data.get_worker_info().dataset.begun = number


def test_workers_are_processes() -> None:
    loader = feedline.torch.DataLoader(
        Told(), batch_size=2, num_workers=2, worker_init_fn=begin, collate_fn=list, persistent_workers=True
    )
    epochs = [[sample for batch in loader for sample in batch] for _ in range(2)]
    for i, sample in enumerate(epochs[0]):
        number, count, same, begun = sample["worker"]
        assert count == 2 and same and begun == number and sample["process"] != os.getpid()
        scalar, turned, empty, half = sample["tensors"]
        assert (
            scalar.item() == i
            and turned.shape == (2, 3)
            and empty.shape == (0,)
            and half.dtype == torch.bfloat16
        )
        assert (sample["array"] == i).all() and sample["text"] == f"n{i}"
        turned += 1
        sample["array"] += 1
    # The same in both, of which one may have been too late for the first.
    assert len({sample["process"] for samples in epochs for sample in samples}) <= 2


def test_random_numbers_do_not_depend_on_the_number_of_workers() -> None:
    drawn = []
    for workers in (1, 3):
        torch.manual_seed(5)
        loader = feedline.torch.DataLoader(Told(), batch_size=2, num_workers=workers, collate_fn=list)
        drawn.append([repr(sample["random"]) for batch in loader for sample in batch])
    assert drawn[0] == drawn[1] and len(set(drawn[0])) == 12


def test_what_cannot_be_pickled_runs_on_threads(caplog: Any) -> None:
    lock = threading.Lock()

    def collated(samples: list[Any]) -> int:
        with lock:
            return len(samples)

    loader = feedline.torch.DataLoader(Squares(), batch_size=10, num_workers=2, collate_fn=collated)
    assert list(loader) == [10, 10, 5]
    assert "threads" in caplog.text


def test_transforms_of_torch_run_in_workers() -> None:
    def turned(x: Any) -> Any:
        return torch.from_numpy(x).flip(0).mul(2)

    rows = np.arange(40, dtype=np.float32).reshape(10, 4)
    ds = fl.Dataset.from_tensor_slices(rows).map(turned, workers=2).batch(10)
    assert next(iter(ds)).tolist() == (rows[:, ::-1] * 2).tolist()


def test_digits_are_learned(digits: Any) -> None:
    torch.manual_seed(1)
    (images, labels), (unseen, answers) = digits
    train = fl.Dataset.from_tensor_slices((images, labels)).shuffle(seed=1).batch(50)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(12):
        for x, y in train.to_torch():
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
    right = model(torch.from_numpy(unseen)).argmax(1).numpy() == answers
    assert right.mean() > 0.94


# States.


def told(state: Any) -> Any:
    """The state as it comes back from a file."""
    return json.loads(json.dumps(state))


def test_a_stream_goes_on_where_another_was() -> None:
    stream = numbers().to_torch()
    iterator = iter(stream)
    for _ in range(4):
        next(iterator)
    state = told(stream.state_dict())
    rest, after = listed(iterator), listed(stream)
    again = numbers().to_torch()
    again.load_state_dict(state)
    assert listed(again) == rest
    assert listed(again) == after


def test_after_a_pass_that_had_ended_comes_the_next() -> None:
    stream = numbers().to_torch()
    listed(stream)
    state = told(stream.state_dict())
    second = listed(stream)
    again = numbers().to_torch()
    again.load_state_dict(state)
    assert listed(again) == second


@pytest.mark.parametrize("workers", [0, 2])
def test_torchdatas_loader_resumes(workers: int) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    def loader() -> Any:
        torch.manual_seed(1)
        return StatefulDataLoader(numbers().to_torch(), batch_size=None, num_workers=workers)

    first = loader()
    iterator = iter(first)
    for _ in range(5):
        next(iterator)
    state = first.state_dict()
    rest = listed(iterator)
    again = loader()
    again.load_state_dict(state)
    assert len(rest) == 6
    assert listed(again) == rest


def test_epochs_behind_a_resumed_one_are_counted_from_there() -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    def loader() -> Any:
        return StatefulDataLoader(numbers(40).to_torch(), batch_size=None, num_workers=2)

    stream = numbers(40).to_torch()
    passes = [listed(stream) for _ in range(3)]
    first = loader()
    assert listed(first) == passes[0]
    iterator = iter(first)
    assert listed(next(iterator) for _ in range(2)) == passes[1][:2]
    again = loader()
    again.load_state_dict(first.state_dict())
    assert listed(again) == passes[1][2:]
    assert listed(again) == passes[2]


def test_training_goes_on_to_the_same_weights(digits: Any) -> None:
    """Stopped within an epoch and taken up by new objects: equal bit for bit."""

    def pipeline() -> Any:
        ds = fl.Dataset.from_tensor_slices(digits[0]).shuffle(200, seed=1)
        ds = ds.map(lambda x, y: (x + fl.random.normal([64], stddev=0.1, seed=3), y)).batch(50)
        return ds.to_torch()

    def model() -> tuple[Any, Any]:
        torch.manual_seed(1)
        made = torch.nn.Linear(64, 10)
        return made, torch.optim.Adam(made.parameters(), 5e-3)

    def train(net: Any, optimiser: Any, batches: Any, steps: int) -> None:
        for _, (x, y) in zip(range(steps), batches, strict=False):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimiser.step()

    def epochs(stream: Any) -> Iterator[Any]:
        while True:
            yield from stream

    whole, optimiser = model()
    train(whole, optimiser, epochs(pipeline()), 70)

    part, optimiser = model()
    stream = pipeline()
    train(part, optimiser, epochs(stream), 43)
    kept = pickle.dumps((part.state_dict(), optimiser.state_dict(), told(stream.state_dict())))

    resumed, optimiser = model()
    weights, moments, state = pickle.loads(kept)
    resumed.load_state_dict(weights)
    optimiser.load_state_dict(moments)
    stream = pipeline()
    stream.load_state_dict(state)
    train(resumed, optimiser, epochs(stream), 27)
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_ranks_of_another_number_take_over() -> None:
    """Two ranks stop after three steps each; three go on with what is left."""
    ds = fl.Dataset.range(96).shuffle(seed=5).batch(4)
    two = [ds.to_torch(shard=(2, rank)) for rank in range(2)]
    seen, states = [], []
    for stream in two:
        iterator = iter(stream)
        seen += [n for _ in range(3) for n in next(iterator).tolist()]
        states.append(told(stream.state_dict()))
    # Ranks that have gone equally far can go on from the state of any of them.
    for state in states:
        rest = []
        for rank in range(3):
            stream = ds.to_torch(shard=(3, rank))
            stream.load_state_dict(state)
            rest += [n for batch in stream for n in batch.tolist()]
        assert sorted(seen + rest) == list(range(96))
