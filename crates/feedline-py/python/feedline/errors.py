"""The exceptions that feedline raises, under TensorFlow's names and as Python's own kinds at once.

`except fl.errors.InvalidArgumentError` and `except ValueError` both catch a bad value; a missing file is a
`NotFoundError` and a `FileNotFoundError`. An exception of the user's own function is raised as it is.
"""

from __future__ import annotations

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "FeedlineError",
    "FileError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
    "by_kind",
]


class FeedlineError(Exception):
    """Any error that feedline raises itself. Where it happened is in the message, and in its attributes.

    Attributes:
        operator: The operator or the function that failed, such as `"map"`.
        file: The file that was read.
        byte: Where in the file, in bytes from its beginning; of a compressed one, in what it unpacks to,
            unless it cannot be unpacked there.
        record: The number of the record or row in the file, from 0; of many that are lost, of the first.
        element: The number of the element in the stream that the operator read, from 0.

    Each of them is None where it is not known or makes no sense.
    """

    operator: str | None = None
    file: str | None = None
    byte: int | None = None
    record: int | None = None
    element: int | None = None


class OpError(FeedlineError):
    """An error of an operator: which one, and where in the data, is in the message and in attributes."""

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(self)


class InvalidArgumentError(OpError, ValueError):
    """An argument or a value does not fit."""


class DataError(InvalidArgumentError):
    """An element or a record is wrong. The iterator stays usable and goes on after it."""


class DataLossError(DataError):
    """Data is damaged, or would be cut off."""


class OutOfRangeError(OpError, IndexError):
    """A position beyond the end of the data was asked for."""


class FileError(OpError, OSError):
    """A file or a store failed."""


class NotFoundError(FileError, FileNotFoundError):
    """A file, or another thing asked for by name, is not there."""


class AlreadyExistsError(FileError, FileExistsError):
    """A thing to be made exists already."""


class PermissionDeniedError(FileError, PermissionError):
    """Reading or writing is not permitted."""


class UnavailableError(FileError, ConnectionError):
    """A store does not answer now; trying again may help."""


class DeadlineExceededError(OpError, TimeoutError):
    """It took longer than was allowed."""


class FailedPreconditionError(OpError, RuntimeError):
    """The state does not allow it: for instance the data has not the number of elements that was promised."""


class UnimplementedError(OpError, NotImplementedError):
    """This dataset cannot do that."""


class ResourceExhaustedError(OpError, MemoryError):
    """Something does not fit into the memory that was allowed."""


class CancelledError(OpError):
    """The work was stopped, for instance because the iterator was closed."""


class AbortedError(OpError):
    """The work was given up."""


class UnknownError(OpError, RuntimeError):
    """An error of no other kind."""


class InternalError(OpError, RuntimeError):
    """A mistake in feedline. Please report it."""


_BY_KIND: dict[str, type[FeedlineError]] = {
    "usage": InvalidArgumentError,
    "data": DataError,
    "loss": DataLossError,
    "io": FileError,
    "not_found": NotFoundError,
    "permission": PermissionDeniedError,
    "exists": AlreadyExistsError,
    "unavailable": UnavailableError,
    "function": InvalidArgumentError,
    "budget": ResourceExhaustedError,
    "range": OutOfRangeError,
    "precondition": FailedPreconditionError,
    "unimplemented": UnimplementedError,
    "cancelled": CancelledError,
    "aborted": AbortedError,
    "internal": InternalError,
}


def by_kind(kind: str) -> type[FeedlineError]:
    """The class for a kind of error of the compiled part: who can act on it."""
    return _BY_KIND.get(kind, UnknownError)
