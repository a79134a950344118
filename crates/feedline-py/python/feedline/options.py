"""What can be asked of a whole pipeline: tf.data's options under their names, and feedline's own.

>>> options = Options()
>>> options.deterministic = False
>>> options.memory_limit = "256MB"
>>> options.flat()
{'deterministic': False, 'memory_limit': 268435456}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, ClassVar

from .config import parse_bytes
from .params import on_error

__all__ = [
    "AutoShardPolicy",
    "AutotuneOptions",
    "DistributeOptions",
    "ExternalStatePolicy",
    "OptimizationOptions",
    "Options",
    "ThreadingOptions",
]


class AutoShardPolicy(IntEnum):
    """How tf.data deals a dataset out to workers. feedline shards only where `shard` says so."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class ExternalStatePolicy(IntEnum):
    """What tf.data does about state outside of the pipeline when it saves an iterator."""

    WARN = 0
    IGNORE = 1
    FAIL = 2


class _Fields:
    """Named fields that are None until set, of known types; frozen ones cannot be set."""

    _types: ClassVar[dict[str, tuple[type, ...]]] = {}
    _parts: ClassVar[dict[str, type[_Fields]]] = {}

    def __init__(self) -> None:
        values: dict[str, Any] = dict.fromkeys(self._types)
        values.update({name: part() for name, part in self._parts.items()})
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_frozen", False)

    _values: dict[str, Any]
    _frozen: bool

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._values:
            raise AttributeError(self._unknown(name))
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._values:
            raise AttributeError(self._unknown(name))
        if self._frozen:
            raise ValueError(
                f"these options belong to a dataset and cannot be changed ({name}); make new ones and use "
                "with_options"
            )
        self._values[name] = self._checked(name, value)

    def _unknown(self, name: str) -> str:
        from difflib import get_close_matches

        near = get_close_matches(name, [*self._types, *self._parts], 1)
        return f"{type(self).__name__} has no option {name!r}" + (
            f"; did you mean {near[0]!r}?" if near else ""
        )

    def _checked(self, name: str, value: Any) -> Any:
        allowed = (self._parts[name],) if name in self._parts else self._types[name]
        if value is None and name in self._types:
            return None
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            wanted = " or ".join(t.__name__ for t in allowed)
            raise TypeError(f"the option {name} must be {wanted}, not {value!r}")
        return value

    def flat(self) -> dict[str, Any]:
        """The options that are set, with dotted names."""
        found: dict[str, Any] = {}
        for name, value in self._values.items():
            if isinstance(value, _Fields):
                found.update({f"{name}.{inner}": v for inner, v in value.flat().items()})
            elif value is not None:
                found[name] = value
        return found

    def _freeze(self) -> None:
        for value in self._values.values():
            if isinstance(value, _Fields):
                value._freeze()
        object.__setattr__(self, "_frozen", True)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.flat() == other.flat()  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.flat().items())})"
        )

    def __reduce__(self) -> Any:
        return _rebuilt, (type(self), self.flat(), self._frozen)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._types, *self._parts]


def _rebuilt(cls: type[_Fields], flat: dict[str, Any], frozen: bool) -> _Fields:
    made = cls()
    for name, value in flat.items():
        *path, last = name.split(".")
        target = made
        for part in path:
            target = getattr(target, part)
        setattr(target, last, value)
    if frozen:
        made._freeze()
    return made


def _most(value: float) -> float:
    """A count, or a share from 0 to 1."""
    if value < 0 or (isinstance(value, float) and not value <= 1):
        raise ValueError(
            f"max_errors is a count (a whole number) or a share (a float from 0 to 1), not {value!r}"
        )
    return value


class AutotuneOptions(_Fields):
    """tf.data's tuning options: `enabled`, `cpu_budget`, `ram_budget`; the others decide nothing here."""

    _types: ClassVar[dict[str, tuple[type, ...]]] = {
        "autotune_algorithm": (int, str),
        "cpu_budget": (int,),
        "enabled": (bool,),
        "initial_parallelism": (int,),
        "min_parallelism": (int,),
        "ram_budget": (int,),
    }


class ThreadingOptions(_Fields):
    """tf.data's thread options: `private_threadpool_size` bounds the workers of this pipeline."""

    _types: ClassVar[dict[str, tuple[type, ...]]] = {
        "max_intra_op_parallelism": (int,),
        "private_threadpool_size": (int,),
    }


class OptimizationOptions(_Fields):
    """tf.data's rewrites: `apply_default_optimizations` and `inject_prefetch` decide, others do not."""

    _types: ClassVar[dict[str, tuple[type, ...]]] = dict.fromkeys(
        (
            "apply_default_optimizations",
            "filter_fusion",
            "filter_parallelization",
            "inject_prefetch",
            "map_and_batch_fusion",
            "map_and_filter_fusion",
            "map_fusion",
            "map_parallelization",
            "noop_elimination",
            "parallel_batch",
            "seq_interleave_prefetch",
            "shuffle_and_repeat_fusion",
        ),
        (bool,),
    )


class DistributeOptions(_Fields):
    """tf.data's options for distribution strategies: kept, but they decide nothing here."""

    _types: ClassVar[dict[str, tuple[type, ...]]] = {"auto_shard_policy": (int,), "num_devices": (int,)}


class Options(_Fields):
    """What is asked of a whole pipeline. Every option is None until set: the system decides.

    Attributes:
        deterministic: False lets operators deliver in any order unless they were told otherwise.
        memory_limit: Bytes that this pipeline may hold, in buffers and on their way: a number, or text such
            as "256MB". Batches that the consumer holds are not counted. Text is read in powers of 1024 and
            printed in powers of 1000: "64MB" means 64 MiB, 67108864 bytes, which messages show as "67.1 MB".
        cpu_budget: At most this many workers on this pipeline at once.
        leave_cores: Cores that this pipeline leaves to others.
        prefetch: False does no work ahead of the consumer, but in `prefetch` operators; True does some behind
            a last `prefetch(n)`, too.
        rewrite: False runs the plan as written.
        on_error: What becomes of elements that fail, where an operator does not say otherwise: "raise" (an
            error in their place), "skip" (they are left out and counted), "quarantine" (and written to a
            folder).
        max_errors: How many elements an operator may leave out: a count, or a share of what came to it (a
            float from 0 to 1, looked at from 100 elements on). One more raises.
        quarantine: The folder that on_error="quarantine" writes to.
        stall_seconds: How long a consumer waits for an element before a line in the log says what for; again
            at twice that time, four times, and so on. 10 unless set here or by FEEDLINE_STALL_SECONDS.
        chunk_rows: A fixed number of rows that travel together, for tests: results do not depend on it.
        name: A name for the pipeline in reports.
        autotune: `AutotuneOptions`.
        threading: `ThreadingOptions`.
        experimental_optimization: `OptimizationOptions`.
        experimental_distribute: `DistributeOptions`.
    """

    _types: ClassVar[dict[str, tuple[type, ...]]] = {
        "deterministic": (bool,),
        "memory_limit": (int,),
        "cpu_budget": (int,),
        "leave_cores": (int,),
        "prefetch": (bool,),
        "rewrite": (bool,),
        "chunk_rows": (int,),
        "on_error": (str,),
        "max_errors": (int, float),
        "quarantine": (str, os.PathLike),
        "stall_seconds": (int, float),
        "name": (str,),
        "dataset_name": (str,),
        "experimental_external_state_policy": (int,),
        "experimental_slack": (bool,),
        "experimental_symbolic_checkpoint": (bool,),
        "experimental_warm_start": (bool,),
        "framework_type": (list, str),
    }
    _parts: ClassVar[dict[str, type[_Fields]]] = {
        "autotune": AutotuneOptions,
        "threading": ThreadingOptions,
        "experimental_optimization": OptimizationOptions,
        "experimental_distribute": DistributeOptions,
    }

    def _checked(self, name: str, value: Any) -> Any:
        if name == "memory_limit" and value is not None:
            return parse_bytes(value)
        value = super()._checked(name, value)
        if name == "on_error":
            return on_error("the option on_error", value)
        if name == "quarantine" and value is not None:
            return os.fspath(value)
        if name == "stall_seconds" and value is not None and not value >= 0:
            raise ValueError(f"the option stall_seconds must not be negative, but is {value}")
        if name == "max_errors" and value is not None:
            return _most(value)
        if name in ("cpu_budget", "chunk_rows") and value is not None and not 1 <= value < 2**31:
            raise ValueError(f"the option {name} must be at least 1 and below 2^31, not {value}")
        if name == "leave_cores" and value is not None and not 0 <= value < 2**31:
            raise ValueError(f"the option leave_cores must be at least 0 and below 2^31, not {value}")
        return value

    def merge(self, options: Options) -> Options:
        """New options: these, with every option that the others set taken from them."""
        if not isinstance(options, Options):
            raise TypeError(f"merge takes Options, not {options!r}")
        made = _rebuilt(Options, {**self.flat(), **options.flat()}, False)
        assert isinstance(made, Options)
        return made


# The options that the compiled part acts on.
_OWN = (
    "deterministic",
    "cpu_budget",
    "leave_cores",
    "memory_limit",
    "prefetch",
    "rewrite",
    "chunk_rows",
    "on_error",
    "max_errors",
    "quarantine",
    "stall_seconds",
)

# tf.data's options that mean the same as one of ours; the first of several wins.
_SAME = (
    ("autotune.cpu_budget", "cpu_budget"),
    ("autotune.ram_budget", "memory_limit"),
    ("threading.private_threadpool_size", "cpu_budget"),
    ("experimental_optimization.inject_prefetch", "prefetch"),
    ("experimental_optimization.apply_default_optimizations", "prefetch"),
    ("experimental_optimization.apply_default_optimizations", "rewrite"),
)


def make_options(options: Options | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Options and keywords as the compiled part takes them: its own by name, the rest as `other`."""
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"with_options takes fl.Options, not {options!r}")
    made = _rebuilt(Options, options.flat() if options else {}, False)
    for name, value in keywords.items():
        setattr(made, name, value)
    flat = made.flat()
    for theirs, ours in _SAME:
        # 0 stands for the default in tf.data's numbers.
        value = flat.get(theirs)
        if ours not in flat and (value or isinstance(value, bool)):
            flat[ours] = value
    plain = {name: int(value) if isinstance(value, IntEnum) else value for name, value in flat.items()}
    own = {name: value for name, value in plain.items() if name in _OWN}
    other = {name: value for name, value in plain.items() if name not in _OWN}
    return {**own, "other": other} if other else own


def frozen_options(own: Mapping[str, Any]) -> Options:
    """The options of a dataset, which cannot be changed, from the form that `make_options` gives."""
    flat = {**own, **own.get("other", {})}
    flat.pop("other", None)
    made = _rebuilt(Options, flat, True)
    assert isinstance(made, Options)
    return made
