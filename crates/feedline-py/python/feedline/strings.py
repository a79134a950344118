"""`fl.strings`: functions on byte strings, under the names of `tf.strings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .calls import as_tensor, call, dtype_of
from .dtypes import as_dtype, float32, string

__all__ = [
    "as_string",
    "bytes_split",
    "join",
    "length",
    "lower",
    "ngrams",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_hash_bucket",
    "to_hash_bucket_fast",
    "to_number",
    "unicode_decode",
    "unicode_encode",
    "unicode_split",
    "upper",
]


def _unit(unit: str) -> str | None:
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise ValueError(f"unit must be 'BYTE' or 'UTF8_CHAR', not {unit!r}")
    return None if unit == "BYTE" else unit


def length(input: Any, unit: str = "BYTE", name: str | None = None) -> Any:
    """The number of bytes, or of UTF-8 characters.

    >>> import feedline as fl
    >>> fl.strings.length(["a", "bcd"]).tolist()
    [1, 3]
    """
    return call("strings.length", [as_tensor(input)], unit=_unit(unit))


def upper(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Letters in upper case: ASCII ones, or all with encoding="utf-8"."""
    return call("strings.upper", [as_tensor(input)], encoding=encoding or None)


def lower(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Letters in lower case: ASCII ones, or all with encoding="utf-8"."""
    return call("strings.lower", [as_tensor(input)], encoding=encoding or None)


def strip(input: Any, name: str | None = None) -> Any:
    """Without white space at both ends."""
    return call("strings.strip", [as_tensor(input)])


def join(inputs: Sequence[Any], separator: str = "", name: str | None = None) -> Any:
    """Several strings as one, item by item.

    >>> import feedline as fl
    >>> fl.strings.join(["a", "b"], separator="-")
    b'a-b'
    """
    return call("strings.join", [as_tensor(value) for value in inputs], separator=separator or None)


def split(input: Any, sep: str | bytes | None = None, maxsplit: int = -1, name: str | None = None) -> Any:
    """The parts of a string between separators (white space if none is given)."""
    return call("strings.split", [as_tensor(input)], sep=sep, maxsplit=maxsplit if maxsplit >= 0 else None)


def bytes_split(input: Any, name: str | None = None) -> Any:
    """The single bytes of a string."""
    return call("strings.bytes_split", [as_tensor(input)])


def substr(input: Any, pos: Any, len: Any, unit: str = "BYTE", name: str | None = None) -> Any:
    """A part of each string: where it begins (negative from the end) and how long it is."""
    return call("strings.substr", [as_tensor(input), as_tensor(pos), as_tensor(len)], unit=_unit(unit))


def to_number(input: Any, out_type: Any = float32, name: str | None = None) -> Any:
    """The number that a string spells.

    >>> import feedline as fl
    >>> fl.strings.to_number("12.5")
    np.float32(12.5)
    """
    return call("strings.to_number", [as_tensor(input)], out_type=as_dtype(out_type))


def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Any:
    """Numbers and truth values as text."""
    input = as_tensor(input)
    if dtype_of(input) == string or isinstance(input, bytes):
        return input
    return call(
        "strings.as_string",
        [input],
        precision=precision if precision >= 0 else None,
        scientific=scientific or None,
        shortest=shortest or None,
        width=width if width >= 0 else None,
        fill=fill or None,
    )


def regex_replace(
    input: Any, pattern: str, rewrite: str, replace_global: bool = True, name: str | None = None
) -> Any:
    r"""The matches of a pattern replaced; `\1` in `rewrite` is the first group."""
    return call(
        "strings.regex_replace",
        [as_tensor(input)],
        pattern=pattern,
        rewrite=rewrite,
        replace_global=replace_global,
    )


def regex_full_match(input: Any, pattern: str, name: str | None = None) -> Any:
    """Whether the whole string matches a pattern."""
    return call("strings.regex_full_match", [as_tensor(input)], pattern=pattern)


def reduce_join(
    inputs: Any, axis: Any = None, keepdims: bool = False, separator: str = "", name: str | None = None
) -> Any:
    """The strings along axes joined to one."""
    return call(
        "strings.reduce_join",
        [as_tensor(inputs)],
        axis=axis,
        keepdims=keepdims or None,
        separator=separator or None,
    )


def to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """A number below `num_buckets` for each string: equal strings get equal numbers, on every machine."""
    return call("strings.to_hash_bucket_fast", [as_tensor(input)], num_buckets=num_buckets)


to_hash_bucket = to_hash_bucket_fast


def unicode_split(input: Any, input_encoding: str = "UTF-8", name: str | None = None) -> Any:
    """The UTF-8 characters of a string."""
    _utf8(input_encoding)
    return call("strings.unicode_split", [as_tensor(input)])


def unicode_decode(input: Any, input_encoding: str = "UTF-8", name: str | None = None) -> Any:
    """The code points of a string."""
    _utf8(input_encoding)
    return call("strings.unicode_decode", [as_tensor(input)])


def unicode_encode(input: Any, output_encoding: str = "UTF-8", name: str | None = None) -> Any:
    """The string of a vector of code points."""
    _utf8(output_encoding)
    return call("strings.unicode_encode", [as_tensor(input)])


def _utf8(encoding: str) -> None:
    if encoding.upper().replace("_", "-") not in ("UTF-8", "UTF8"):
        raise ValueError(f"the encoding must be UTF-8, not {encoding!r}")


def ngrams(data: Any, ngram_width: int, separator: str = " ", name: str | None = None) -> Any:
    """Every run of `ngram_width` neighbouring strings, joined."""
    return call("strings.ngrams", [as_tensor(data)], width=ngram_width, separator=separator)
