"""Iterators over a dataset. The class is the compiled one, so that a loop pays nothing for Python; the
methods that are asked for now and then are added to it here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _native
from .errors import InvalidArgumentError, OutOfRangeError

__all__ = ["Iterator", "Optional"]


class Optional:
    """A value that may be absent, as `get_next_as_optional` gives them."""

    __slots__ = ("_has", "_value")

    def __init__(self, has: bool, value: Any = None) -> None:
        self._has = has
        self._value = value

    @classmethod
    def from_value(cls, value: Any) -> Optional:
        """An optional that has a value."""
        return cls(True, value)

    @classmethod
    def empty(cls, element_spec: Any = None) -> Optional:
        """An optional without a value."""
        return cls(False)

    def has_value(self, name: str | None = None) -> bool:
        """Whether there is a value."""
        return self._has

    def get_value(self, name: str | None = None) -> Any:
        """The value.

        Raises:
            InvalidArgumentError: There is none.
        """
        if not self._has:
            raise InvalidArgumentError("this optional has no value; ask has_value() first")
        return self._value

    def __repr__(self) -> str:
        return f"Optional({self._value!r})" if self._has else "Optional.empty()"


class _Methods:
    """Added to the compiled class."""

    def get_next(self: Any, name: str | None = None) -> Any:
        """The next element.

        Raises:
            OutOfRangeError: There is none.
        """
        try:
            return next(self)
        except StopIteration:
            count = self.delivered()
            elements = "element" if count == 1 else "elements"
            raise OutOfRangeError(
                f"the iterator has delivered all {count} {elements} of the dataset; add .repeat() to go on, "
                "or ask for fewer"
            ) from None

    def get_next_as_optional(self: Any) -> Optional:
        """The next element as an `Optional`, which is empty after the last one."""
        try:
            return Optional.from_value(next(self))
        except StopIteration:
            return Optional.empty()

    @property
    def element_spec(self: Any) -> Any:
        """The spec of the elements."""
        return self.spec

    def __enter__(self: Any) -> Any:
        return self

    def __exit__(self: Any, *_: object) -> None:
        self.close()

    def __reduce__(self: Any) -> Any:
        raise TypeError(
            "an iterator cannot be pickled or copied: keep its state_dict(), and go on from that with "
            "dataset.iter(state), in another process too"
        )


for _name in ("get_next", "get_next_as_optional", "element_spec", "__enter__", "__exit__", "__reduce__"):
    setattr(_native.Iterator, _name, _Methods.__dict__[_name])

if TYPE_CHECKING:

    class Iterator(_native.Iterator, _Methods):
        """Goes over a dataset once. Also a context manager that stops the work behind it."""
else:
    Iterator = _native.Iterator
    if not Iterator.__doc__:
        Iterator.__doc__ = "Goes over a dataset once. Also a context manager that stops the work behind it."
