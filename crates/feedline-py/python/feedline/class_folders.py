"""Folders whose sub-folders are classes: which files there are, in which order, and what class each has.

The order is that of Keras, so that labels and splits come out as users know them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .dataset import Dataset
from .dataset.pickling import pickled
from .paths import path_text

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ClassFolderDataset", "Files", "LabelledDataset", "files_below", "files_of_classes"]


@dataclass(frozen=True)
class Files:
    """Files and the number of the class of each."""

    paths: list[str]
    labels: list[int]
    class_names: list[str]

    def empty_classes(self) -> list[str]:
        """The classes that have no file."""
        seen = set(self.labels)
        return [name for number, name in enumerate(self.class_names) if number not in seen]


class LabelledDataset(Dataset):
    """A dataset of files that belong to classes. What is made of it knows the classes too.

    Attributes:
        class_names: The names of the classes, in the order of their numbers; None without labels.
        file_paths: The files, in the order in which they were listed. A shuffled dataset has another one.
    """

    class_names: list[str] | None
    file_paths: list[str]

    @property
    def class_indices(self) -> dict[str, int]:
        """The number of each class, by its name."""
        return {name: number for number, name in enumerate(self.class_names or ())}

    @classmethod
    def of(cls, dataset: Dataset, class_names: list[str] | None, file_paths: Sequence[str]) -> Self:
        """The dataset, with these facts about it."""
        made = cls(dataset._plan)
        made.class_names, made.file_paths = class_names, list(file_paths)
        return made

    def _then(self, op: str, **params: Any) -> Self:
        made = super()._then(op, **params)
        if hasattr(self, "class_names"):
            made.class_names = self.class_names
        return made

    def __reduce__(self) -> Any:
        return *pickled(self), dict(self.__dict__)


def folder_of(op: str, directory: Any) -> str:
    """The path of a folder that is there."""
    if not isinstance(directory, (str, bytes, os.PathLike)):
        raise TypeError(f"{op}: directory must be a path, not {directory!r}")
    folder = path_text(op, directory).removeprefix("file://")
    if "://" in folder:
        raise ValueError(
            f"{op}: {folder} is not on a local disk; list the files with fl.io.matching_files and give them "
            "to fl.Dataset.from_tensor_slices"
        )
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{op}: there is no folder {folder!r}")
    return folder


def files_below(folder: str, extensions: tuple[str, ...] | None, follow_links: bool) -> Iterator[str]:
    """The files in a folder and below it: folders by name, then names as text; endings count in any case."""
    for root, names in sorted(_walk(folder, follow_links)):
        for name in sorted(names):
            if extensions is None or name.lower().endswith(extensions):
                yield os.path.join(root, name)


def _raised(error: OSError) -> None:
    """Folders that cannot be listed are not passed over."""
    raise error


def _walk(folder: str, follow_links: bool) -> Iterator[tuple[str, list[str]]]:
    """All folders with the names in them. A link back to a folder that it lies in is not followed."""
    start = os.path.realpath(folder)
    above = {folder: {start} | {start[:i] or os.sep for i, c in enumerate(start) if c == os.sep}}
    for root, folders, names in os.walk(folder, onerror=_raised, followlinks=follow_links):
        yield root, names
        if follow_links:
            here = above.pop(root)
            real = {name: os.path.realpath(os.path.join(root, name)) for name in folders}
            folders[:] = [name for name in folders if real[name] not in here]
            above.update((os.path.join(root, name), here | {real[name]}) for name in folders)


def files_of_classes(
    op: str,
    folder: str,
    extensions: tuple[str, ...] | None,
    class_names: Sequence[str] | None = None,
    follow_links: bool = False,
    hidden: bool = False,
) -> Files:
    """The files of each class, class by class.

    Args:
        op: Who asks, for messages.
        folder: The folder of the classes.
        extensions: How names of files end, in lower case; None takes all.
        class_names: Which classes, in which order; None takes all, sorted.
        follow_links: Whether links to folders are followed.
        hidden: Whether folders whose names begin with a dot are classes.
    """
    found = sorted(
        entry.name for entry in os.scandir(folder) if entry.is_dir() and (hidden or entry.name[0] != ".")
    )
    names = found if class_names is None else list(class_names)
    if len(set(names)) != len(names):
        raise ValueError(f"{op}: class_names has a name twice: {names}")
    unknown = sorted(set(names) - set(found))
    if unknown:
        raise ValueError(f"{op}: there is no folder for the classes {unknown} in {folder}; there are {found}")
    paths: list[str] = []
    labels: list[int] = []
    for number, name in enumerate(names):
        below = [
            path_text(op, path) for path in files_below(os.path.join(folder, name), extensions, follow_links)
        ]
        paths += below
        labels += [number] * len(below)
    return Files(paths, labels, names)


def ClassFolderDataset(
    root: Any,
    extensions: Iterable[str] | None = None,
    class_names: Sequence[str] | None = None,
    contents: bool = False,
    follow_links: bool = False,
) -> LabelledDataset:
    """The files of a folder of class folders, each with the number of its class: `root/cat/1.png`, ...

    >>> import os, feedline as fl
    >>> for name in ("cat/1.txt", "cat/2.txt", "dog/1.txt"):
    ...     os.makedirs(os.path.dirname(f"pets/{name}"), exist_ok=True)
    ...     _ = open(f"pets/{name}", "w").write(name)
    >>> ds = fl.ClassFolderDataset("pets", contents=True)
    >>> ds.class_names
    ['cat', 'dog']
    >>> list(ds.as_numpy_iterator())
    [(b'cat/1.txt', np.int32(0)), (b'cat/2.txt', np.int32(0)), (b'dog/1.txt', np.int32(1))]

    Elements can be had by number, so `shuffle()` needs no buffer. The order is class by class: shuffle before
    taking a part of it.

    Args:
        root: The folder.
        extensions: How the names of files end, such as [".jpg", ".png"], in any case; None takes all.
        class_names: Which sub-folders are taken, in which order; None takes all, sorted by name.
        contents: The bytes of each file in place of its path.
        follow_links: Whether links to folders are followed; not those that lead back to where they lie.

    Raises:
        FileNotFoundError: There is no such folder, or no file in it.
        ValueError: A class has no folder, or a file has a name that is not UTF-8.
    """
    op = "ClassFolderDataset"
    folder = folder_of(op, root)
    if isinstance(extensions, (str, bytes)):
        raise TypeError(f"{op}: extensions must be a list, such as ['.jpg'], not {extensions!r}")
    endings = None if extensions is None else tuple(ending.lower() for ending in extensions)
    files = files_of_classes(op, folder, endings, class_names, follow_links)
    if not files.paths:
        wanted = "file" if endings is None else f"file that ends with {' or '.join(endings)}"
        raise FileNotFoundError(f"{op}: there is no {wanted} in the folders of {folder}")
    import numpy as np

    ds = Dataset.from_tensor_slices((files.paths, np.asarray(files.labels, np.int32)))
    if contents:
        from .io import read_file

        ds = ds.map(lambda path, label: (read_file(path), label))
    return LabelledDataset.of(ds, files.class_names, files.paths)
