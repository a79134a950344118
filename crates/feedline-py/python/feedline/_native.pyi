"""The compiled part. Everything here is private; `feedline` wraps it."""

from collections.abc import Callable, Iterator as PyIterator, Mapping, Sequence
from typing import Any

__version__: str

# A "structure" is nested tuples, dicts, NamedTuples and dataclasses around leaves.
# A "spec" is a structure of `feedline.spec` objects (TensorSpec, RaggedTensorSpec, SparseTensorSpec, NoneSpec, DatasetSpec).

class Plan:
    """An immutable description of a pipeline: an operator and its inputs."""

    @property
    def op(self) -> str: ...
    @property
    def params(self) -> str:
        """The operator's parameters as a person reads them, such as `batch_size=32, drop_remainder=True`."""
    @property
    def inputs(self) -> list[Plan]: ...
    @property
    def spec(self) -> Any: ...
    @property
    def cardinality(self) -> int:
        """-1 infinite, -2 unknown."""
    @property
    def indexed(self) -> bool:
        """Whether elements can be had by number."""
    @property
    def symbolic(self) -> bool:
        """Whether it refers to symbolic values of a function being traced (then it cannot be iterated)."""
    def iter(
        self,
        options: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        epoch: int | None = None,
    ) -> Iterator:
        """A new iterator, from a state on or for the pass of that number if one is given. `options` are those of
        `Options`, flattened (see make_options)."""
    def at(self, index: int) -> Any:
        """Element number `index` (negative is refused) of an indexed plan; errors if the plan is not indexed."""
    def explain(self, format: str = "text") -> str: ...
    def lint(self, fixed_shapes: bool = False) -> list[tuple[str, str, str, str]]:
        """What is wrong with it: code, operator, sentence, fix."""
    def lint_once(self) -> list[tuple[str, str, str, str]]:
        """The same when it is asked for the first time, and nothing after that."""
    def diagnosis(self) -> str | None:
        """What the last pass was like (ceiling, model, findings), as JSON; None if there was none."""
    def replayed(self, id: int, times: int, ends: bool) -> Plan:
        """The same with the first element of an operator, `times` x `times` of it, in place of all it gives."""
    def without(self, id: int) -> Plan:
        """The same without that operator; errors if its elements are other ones than its input's."""
    def options(self) -> dict[str, Any]:
        """The options in force at this node: merged from all with_options below, later wins."""
    def written(self) -> str:
        """The written form, as JSON (large arrays and Python functions are refused)."""
    def fingerprint(self) -> str: ...
    def pickled(self) -> tuple[str, list[Any]]:
        """The written form and its attachments: arrays and Python functions."""

def what_if(model: str, change: str) -> str:
    """The ceiling of a model, as `diagnosis` gives it, with a change: all as JSON."""

def unpickled(written: str, attachments: list[Any]) -> Plan: ...
def make(op: str, params: Mapping[str, Any], inputs: Sequence[Plan]) -> Plan:
    """Builds an operator on inputs, checking everything.

    Values in params: None, bool, int, float, str, bytes, lists and dicts of them; `Function`; `Packed`; `Plan`; a
    DType is given by its name; a symbolic scalar as `Symbol node` {"symbol": export_number}.
    Raises ValueError or TypeError for what is wrong, naming the operator.
    """

def read_plan(written: str) -> Plan: ...

class Packed:
    """Values with their structure, flattened once."""

    @property
    def spec(self) -> Any: ...
    def unpack(self) -> Any: ...

def pack(value: Any, spec: Any = None) -> Packed:
    """Python data to values: lists become one tensor, tuples, dicts, NamedTuples and dataclasses are structure.

    int -> int32 (int64 if it does not fit), float -> float32, str/bytes -> string, bool -> bool; NumPy keeps its dtype
    and is not copied where it is contiguous and aligned. With a spec: converted to it, refusing what would lose data.
    """

class Iterator(PyIterator[Any]):
    def __next__(self) -> Any: ...
    @property
    def spec(self) -> Any: ...
    def close(self) -> None: ...
    def explain(self, format: str = "text") -> str:
        """The plan as it runs, with its meters."""
    def debug(self) -> str: ...
    def delivered(self) -> int: ...
    def state_dict(self) -> dict[str, Any]: ...
    def moment(self) -> Moment: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

def merge_states(states: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The state of all ranks of one, made of the states of each."""

class Moment:
    """Where an iterator was: its state, told later."""

    def state_dict(self) -> dict[str, Any]: ...

class Pass:
    """A pass that has an iterator, for whoever looks at it. It does not keep the iterator alive."""

    def debug(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def pipeline(self) -> int:
        """The same number for all passes over a dataset."""
    @property
    def errors(self) -> list[tuple[float, str]]:
        """The newest errors that went to the consumer: when (seconds since 1970), and what."""
    def explain(self, format: str = "text") -> str: ...
    def want(self, wanted: bool) -> None:
        """Asks for the next element that is delivered, or no longer."""
    def take(self) -> Any | None:
        """The element that was kept, once."""

def passes() -> list[Pass]:
    """The passes of this process that have an iterator now, oldest first."""

def start_spans(most: int) -> bool:
    """Begins to record which thread works for which operator, the newest `most` spans; False if it is on already."""

def stop_spans() -> tuple[list[tuple[str, int, int, int, int]], list[str], int] | None:
    """Ends it: spans (operator, thread, rows, start and length in ns), names of threads, spans that made room."""

class Function:
    """A finished traced function."""

    @property
    def spec(self) -> Any:
        """The spec of its result."""
    @property
    def is_pure(self) -> bool: ...
    @property
    def is_python(self) -> bool:
        """Whether it calls Python anywhere."""

class Trace:
    """A function being traced. Nodes are numbers; node i < number of leaves is leaf i of the argument."""

    def __init__(self, spec: Any) -> None: ...
    @property
    def leaf_count(self) -> int: ...
    def leaf(self, node: int) -> Any:
        """The spec object of a node."""
    def constant_value(self, node: int) -> Any | None:
        """The value as NumPy if the node is a constant, else None."""
    def const(self, value: Any, dtype: str | None = None) -> int: ...
    def call(self, name: str, args: Sequence[int], attrs: Mapping[str, Any]) -> int: ...
    def call_parts(self, name: str, args: Sequence[int], attrs: Mapping[str, Any]) -> list[int]:
        """The same for a function of several results: a node for each."""
    def host(
        self, func: Callable[..., Any], args: Sequence[int], outputs: Sequence[Any], structure: Any = None
    ) -> list[int]:
        """Calls Python with the arguments' real values. `outputs`: leaf specs. The function returns a structure whose
        leaves are converted to the outputs (a single leaf if there is one output and no structure)."""
    def export(self, node: int) -> int:
        """Makes a node visible to inner functions and to parameters of datasets made in this function."""
    def capture(self, export: int, spec: Any) -> int:
        """In an inner trace: a value that the trace around it exported."""
    def dataset(self, plan: Plan) -> int:
        """A node whose value is that (symbolic) dataset."""
    def cond(self, pred: int, then: Function, otherwise: Function) -> list[int]: ...
    def finish(self, outputs: Any) -> Function:
        """`outputs`: a structure of node numbers."""

def host_function(spec: Any, func: Callable[..., Any], output_spec: Any, unpack: bool = True) -> Function:
    """The whole function runs as Python, per element. A tuple argument is unpacked into positional arguments when
    `unpack`. Output leaves are checked against `output_spec`."""

def call(name: str, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Runs a function of the table on real values at once; the result is NumPy (or ragged, sparse)."""

def call_parts(name: str, args: Sequence[Any], attrs: Mapping[str, Any]) -> list[Any]:
    """The same for a function of several results."""

def expand_files(names: Sequence[str], endings: Sequence[str] = ...) -> list[str]:
    """A folder is its files (those that end so), a pattern what matches it, any other name itself.

    Nothing found is an error.
    """

def glob_files(patterns: Sequence[str]) -> list[str]:
    """What matches each of the patterns, sorted by full path; a file that two patterns match comes twice.

    Without the indexes that lie beside record files, unless a pattern asks for them.
    """

class RecordWriter:
    """A TFRecord file being written; it has its name only after `close`."""

    def __init__(self, path: str, compression_type: str, level: int | None) -> None: ...
    def write(self, record: bytes) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def discard(self) -> None:
        """Leaves nothing of the file."""
    @property
    def closed(self) -> bool: ...

def save_dataset(
    plan: Plan,
    format: str,
    path: str,
    shards: int | None,
    overwrite: bool,
    options: Mapping[str, Any],
    watch: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Writes all elements; gives `files`, `elements`, `bytes`. `watch(elements)` is called now and then."""

def save_set(
    plan: Plan,
    path: str,
    compression: str,
    sharded: bool,
    watch: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """The same as a set that `load` reads; if `sharded`, elements are tuples of a shard's number and what is saved."""

def shards_of_set(path: str) -> int:
    """How many shards a saved set has."""

def cli(argv: Sequence[str]) -> int:
    """Runs a command line, whose first word is the name of the program; gives the exit code."""

def functions() -> list[tuple[str, str]]:
    """Name and one-sentence doc of each function that expressions can call."""

def operators() -> list[dict[str, Any]]:
    """Name, doc, parameters of each operator: the table behind the reference page."""

def configure(
    cpu_budget: int | None = None,
    memory_limit: int | None = None,
    seed: int | None = None,
    leave_cores: int | None = None,
) -> None: ...
def configuration() -> dict[str, Any]: ...
def reduce(
    plan: Plan, initial: Packed, function: Function, options: Mapping[str, Any] | None = None
) -> Any: ...
def locate(
    plan: Plan, step: int, row: int | None = None, state: Mapping[str, Any] | None = None
) -> dict[str, Any]: ...
def quarantined(folder: str) -> list[dict[str, Any]]: ...
def retry(folder: str, plan: Plan) -> list[tuple[dict[str, Any], str, Any]]: ...
def shutdown() -> None:
    """Stops the pool's work in Python functions; called at interpreter exit."""

def serve(
    socket: int,
    parent: int,
    load: Callable[[bytes, int], tuple[Callable[..., Any], Any, Any, bool, Callable[[int], None]]],
    describe: Callable[[BaseException], tuple[str, bytes, str]],
) -> None:
    """The loop of a worker process: gets a function through the socket and calls it for the rows that come, until
    nobody sends any more."""

def register_class(tag: str, cls: type) -> None:
    """A NamedTuple or dataclass to give back for structures with that tag (`module:qualname`)."""

# Of `fl.train`. A feature is a pair: the number of its field (0 unset, 1 bytes, 2 floats, 3 integers) and its values.
def write_example(features: dict[str, tuple[int, list[Any]]] | None = None) -> bytes: ...
def read_example(record: bytes) -> dict[str, tuple[int, list[Any]]]: ...
def write_sequence_example(
    context: dict[str, tuple[int, list[Any]]] | None = None,
    lists: dict[str, list[tuple[int, list[Any]]]] | None = None,
) -> bytes: ...
def read_sequence_example(
    record: bytes,
) -> tuple[dict[str, tuple[int, list[Any]]], dict[str, list[tuple[int, list[Any]]]]]: ...
