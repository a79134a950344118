"""Features: lists of bytes, floats or integers, alone, by name, and step by step.

They behave as protobuf's messages do: an empty one comes into being when it is looked at
(`example.features.feature["x"].int64_list.value.append(3)`), and of the three lists of a feature the one that
was set last counts.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from ..lazy_numpy import np

__all__ = ["BytesList", "Feature", "FeatureList", "FeatureLists", "Features", "FloatList", "Int64List"]

Written = tuple[int, list[Any]]
"""A feature for the compiled part: the number of its list (0 if none is set) and the values."""


class _List:
    """A list of values of one type."""

    __slots__ = ("value",)

    NUMBER: ClassVar[int]

    value: list[Any]
    """The values: a list, to be read and changed."""

    def __init__(self, value: Any = ()) -> None:
        self.value = self._checked(value.value if type(value) is type(self) else value)

    @classmethod
    def _checked(cls, values: Any) -> list[Any]:
        raise NotImplementedError

    def _written(self) -> Written:
        return self.NUMBER, self._checked(self.value)

    def __eq__(self, other: object) -> Any:
        return self._written() == other._written() if isinstance(other, type(self)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"


class BytesList(_List):
    """A list of byte strings.

    >>> BytesList([b"one", b"two"]).value
    [b'one', b'two']
    """

    __slots__ = ()
    NUMBER = 1

    @classmethod
    def _checked(cls, values: Any) -> list[Any]:
        if isinstance(values, (str, bytes, bytearray)):
            raise TypeError(f"BytesList takes a list of byte strings; write [{values!r}]")
        checked = [bytes(v) if isinstance(v, (bytearray, memoryview)) else v for v in values]
        for value in checked:
            if not isinstance(value, bytes):
                hint = "; write value.encode()" if isinstance(value, str) else ""
                raise TypeError(f"BytesList holds byte strings, not {value!r}{hint}")
        return checked


class FloatList(_List):
    """A list of floats, kept as float32.

    >>> FloatList([1, 2.5]).value
    [1.0, 2.5]
    """

    __slots__ = ()
    NUMBER = 2

    @classmethod
    def _checked(cls, values: Any) -> list[Any]:
        array = np.asarray(values if isinstance(values, np.ndarray) else list(values))
        if array.ndim != 1 or (array.size and array.dtype.kind not in "fiub"):
            raise TypeError(f"FloatList takes a flat list of numbers, not {values!r}")
        with np.errstate(over="ignore"):
            return array.astype(np.float32).tolist()


class Int64List(_List):
    """A list of integers of 64 bits.

    >>> Int64List(range(3)).value
    [0, 1, 2]
    """

    __slots__ = ()
    NUMBER = 3

    @classmethod
    def _checked(cls, values: Any) -> list[Any]:
        checked = [operator.index(value) for value in values]
        for value in checked:
            if not -(2**63) <= value < 2**63:
                raise ValueError(f"Int64List holds integers of 64 bits, which {value} does not fit")
        return checked


_LISTS = {"bytes_list": BytesList, "float_list": FloatList, "int64_list": Int64List}
_NAMES = {kind.NUMBER: name for name, kind in _LISTS.items()}


class Feature:
    """A list of bytes, floats or integers, or nothing.

    >>> Feature(int64_list=Int64List([1, 2]))
    Feature(int64_list=Int64List([1, 2]))
    """

    __slots__ = ("_kind", "_lists")

    def __init__(
        self,
        bytes_list: BytesList | Iterable[bytes] | None = None,
        float_list: FloatList | Iterable[float] | None = None,
        int64_list: Int64List | Iterable[int] | None = None,
    ) -> None:
        given = {"bytes_list": bytes_list, "float_list": float_list, "int64_list": int64_list}
        named = [name for name, values in given.items() if values is not None]
        if len(named) > 1:
            raise ValueError(f"a Feature holds one list, not {' and '.join(named)}")
        self._lists: dict[str, _List] = {}
        self._kind: str | None = None
        for name in named:
            self._set(name, given[name])

    def _set(self, name: str, values: Any) -> None:
        self._kind, self._lists = name, {name: _LISTS[name](values)}

    def _list(self, name: str) -> Any:
        # It is kept, so that whoever appends to it sets it.
        return self._lists.setdefault(name, _LISTS[name]())

    @property
    def bytes_list(self) -> BytesList:
        """The byte strings."""
        return self._list("bytes_list")

    @bytes_list.setter
    def bytes_list(self, values: Any) -> None:
        self._set("bytes_list", values)

    @property
    def float_list(self) -> FloatList:
        """The floats."""
        return self._list("float_list")

    @float_list.setter
    def float_list(self, values: Any) -> None:
        self._set("float_list", values)

    @property
    def int64_list(self) -> Int64List:
        """The integers."""
        return self._list("int64_list")

    @int64_list.setter
    def int64_list(self, values: Any) -> None:
        self._set("int64_list", values)

    def WhichOneof(self, oneof_group: str = "kind") -> str | None:
        """The name of the list that is set, or None."""
        if oneof_group != "kind":
            raise ValueError(f"a Feature has the group 'kind', not {oneof_group!r}")
        filled = [name for name, values in self._lists.items() if name != self._kind and values.value]
        return filled[-1] if filled else self._kind

    def HasField(self, field_name: str) -> bool:
        """Whether that list is set."""
        if field_name not in _LISTS:
            raise ValueError(f"a Feature has the fields {', '.join(_LISTS)}, not {field_name!r}")
        return self.WhichOneof() == field_name

    def _written(self) -> Written:
        kind = self.WhichOneof()
        return (0, []) if kind is None else self._lists[kind]._written()

    @classmethod
    def _read(cls, written: Written) -> Feature:
        feature = cls()
        number, values = written
        if number:
            name = _NAMES[number]
            feature._kind, made = name, _LISTS[name]()
            made.value = values  # checked already
            feature._lists = {name: made}
        return feature

    def __eq__(self, other: object) -> Any:
        return self._written() == other._written() if isinstance(other, Feature) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = self.WhichOneof()
        return "Feature()" if kind is None else f"Feature({kind}={self._lists[kind]!r})"


class _Map(dict[str, Any]):
    """A map of messages, which come into being when they are looked at."""

    __slots__ = ("_make",)

    def __init__(self, make: Any, items: Mapping[str, Any]) -> None:
        self._make = make
        super().__init__()
        for key, value in items.items():
            self[key] = value

    def __missing__(self, key: str) -> Any:
        made = self[key] = self._make()
        return made

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"names are strings, not {key!r}")
        if not isinstance(value, self._make):
            raise TypeError(f"{key!r} must be a {self._make.__name__}, not {value!r}")
        super().__setitem__(key, value)


class Features:
    """Features by name.

    >>> sorted(Features({"x": Feature(int64_list=[1])}).feature)
    ['x']
    """

    __slots__ = ("feature",)

    feature: dict[str, Feature]
    """The features: a dict, to be read and changed."""

    def __init__(self, feature: Mapping[str, Feature] | None = None) -> None:
        self.feature = _Map(Feature, feature or {})

    def _written(self) -> dict[str, Written]:
        return {name: feature._written() for name, feature in self.feature.items()}

    @classmethod
    def _read(cls, written: Mapping[str, Written]) -> Features:
        return cls({name: Feature._read(feature) for name, feature in written.items()})

    def __eq__(self, other: object) -> Any:
        return self._written() == other._written() if isinstance(other, Features) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Features({dict(self.feature)!r})"


class FeatureList:
    """A feature for each step."""

    __slots__ = ("feature",)

    feature: list[Feature]
    """The features: a list, to be read and changed."""

    def __init__(self, feature: Iterable[Feature] = ()) -> None:
        self.feature = list(feature)

    def _written(self) -> list[Written]:
        return [step._written() for step in self.feature]

    def __eq__(self, other: object) -> Any:
        return self._written() == other._written() if isinstance(other, FeatureList) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"FeatureList({self.feature!r})"


class FeatureLists:
    """Feature lists by name."""

    __slots__ = ("feature_list",)

    feature_list: dict[str, FeatureList]
    """The lists: a dict, to be read and changed."""

    def __init__(self, feature_list: Mapping[str, FeatureList] | None = None) -> None:
        self.feature_list = _Map(FeatureList, feature_list or {})

    def _written(self) -> dict[str, list[Written]]:
        return {name: steps._written() for name, steps in self.feature_list.items()}

    @classmethod
    def _read(cls, written: Mapping[str, list[Written]]) -> FeatureLists:
        return cls({name: FeatureList(map(Feature._read, steps)) for name, steps in written.items()})

    def __eq__(self, other: object) -> Any:
        return self._written() == other._written() if isinstance(other, FeatureLists) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"FeatureLists({dict(self.feature_list)!r})"
