"""Operators that bring several datasets together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import resampling
from ..lazy_numpy import np
from ..params import check_name
from ..seeds import get_seed
from .core import Core

if TYPE_CHECKING:
    from typing_extensions import Self


class Mixing(Core):
    """Methods of `Dataset` that combine datasets."""

    __slots__ = ()

    def concatenate(self, dataset: Core, name: str | None = None) -> Self:
        """The elements of this dataset, then those of another of the same structure and dtypes.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(2).concatenate(fl.Dataset.range(7, 8)).as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(7)]
        """
        check_name("concatenate", name)
        return self._make("concatenate", {}, [self, _dataset("concatenate", dataset)])

    @classmethod
    def choose_from_datasets(
        cls, datasets: Sequence[Core], choice_dataset: Core, stop_on_empty_dataset: bool = True
    ) -> Self:
        """Elements of several datasets, in the order that a dataset of int64 numbers says.

        >>> import feedline as fl
        >>> datasets = [fl.Dataset.from_tensors(word).repeat() for word in ("a", "b")]
        >>> choice = fl.Dataset.from_tensor_slices(fl.constant([0, 1, 1], fl.int64))
        >>> list(fl.Dataset.choose_from_datasets(datasets, choice).as_numpy_iterator())
        [b'a', b'b', b'b']

        Args:
            datasets: The datasets.
            choice_dataset: For each element the place of its dataset in the list.
            stop_on_empty_dataset: End when a chosen dataset has no more; else pass over it.
        """
        inputs = _datasets("choose_from_datasets", datasets)
        choice = _dataset("choose_from_datasets", choice_dataset)
        return cls._make(
            "choose_from_datasets", {"stop_on_empty_dataset": bool(stop_on_empty_dataset)}, [choice, *inputs]
        )

    @classmethod
    def sample_from_datasets(
        cls,
        datasets: Sequence[Core],
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Self:
        """Elements of several datasets in random turns.

        Args:
            datasets: The datasets.
            weights: How likely each is, as floats, or a dataset of such vectors; equally likely if not given.
            seed: Makes the turns reproducible.
            stop_on_empty_dataset: End when the chosen dataset has no more; else go on with the others.
            rerandomize_each_iteration: With a seed: True gives other turns in each pass.
        """
        op = "sample_from_datasets"
        inputs = _datasets(op, datasets)
        if isinstance(weights, Core):
            return resampling.sample_by_dataset(
                cls, inputs, weights, seed, stop_on_empty_dataset, rerandomize_each_iteration
            )
        first, second = get_seed(seed, "sample_from_datasets")
        params = {
            "weights": None if weights is None else _weights(op, weights, len(inputs)),
            "seed": first,
            "seed2": second,
            "stop_on_empty_dataset": bool(stop_on_empty_dataset),
            "rerandomize_each_iteration": bool(rerandomize_each_iteration),
        }
        return cls._make(op, params, inputs)

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Leaves elements out at random, so that classes come as often as wanted. Gives (class, element).

        Args:
            class_func: The class of an element, a whole-number scalar.
            target_dist: How often each class should come.
            initial_dist: How often each class comes in the data; counted on the way if it is not given.
            seed: Makes the choice reproducible.
            name: A name for the operator, an identifier.
        """
        check_name("rejection_resample", name)
        return resampling.rejection_resample(self, class_func, target_dist, initial_dist, seed)

    def apply(self, transformation_func: Callable[[Any], Any]) -> Any:
        """Calls a function on the dataset; it must return a dataset.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(3).apply(lambda ds: ds.skip(1)).as_numpy_iterator())
        [np.int64(1), np.int64(2)]
        """
        if not callable(transformation_func):
            raise TypeError(f"apply takes a function of a dataset, not {transformation_func!r}")
        result = transformation_func(self)
        if not isinstance(result, Core):
            raise TypeError(f"apply: the function must return a dataset, but returned {result!r}")
        return result


def _dataset(op: str, value: Any) -> Core:
    if not isinstance(value, Core):
        raise TypeError(f"{op} takes a dataset, not {value!r}")
    return value


def _datasets(op: str, values: Any) -> list[Core]:
    if not isinstance(values, Iterable) or isinstance(values, Core):
        raise TypeError(f"{op} takes a list of datasets, not {values!r}")
    found = [_dataset(op, value) for value in values]
    if not found:
        raise ValueError(f"{op} needs at least one dataset")
    return found


def _weights(op: str, weights: Any, count: int) -> list[float]:
    array = np.asarray(weights)
    if array.dtype.kind != "f":
        raise TypeError(f"{op}: weights must be floats, not {weights!r}")
    if array.shape != (count,):
        raise ValueError(f"{op}: there must be a weight for each of the {count} datasets, not {weights!r}")
    if not np.isfinite(array).all():
        raise ValueError(f"{op}: weights must be finite numbers, not {weights!r}")
    return array.astype(float).tolist()
