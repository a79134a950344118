"""Methods that hand a dataset to a training framework, which is imported only then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .core import Core

if TYPE_CHECKING:
    from ..frameworks.jax import Arrays
    from ..frameworks.keras import Data
    from ..frameworks.torch import Items, Stream


class Exports(Core):
    """Methods of `Dataset` for frameworks."""

    __slots__ = ()

    def to_torch(
        self, device: Any = None, pin_memory: bool = False, shard: Any = None, equal: str | None = "drop"
    ) -> Stream:
        """The elements as PyTorch tensors: an iterable, which is also a `torch.utils.data.IterableDataset`.

        Tensors lie in the memory in which the pipeline made them, without a copy, and can be written to. Text
        stays bytes and NumPy arrays of bytes. No DataLoader is needed: `for x, y in ds.to_torch():`. In one
        with workers, batches are shared out among them and come in the same order.

        Args:
            device: Where tensors go. To a GPU the next element is copied while the last one is used.
            pin_memory: Tensors lie in memory that a GPU can copy from by itself.
            shard: The part of this process among several that train together: `(count, rank)`; or "auto": as
                torch.distributed says, or the variables RANK and WORLD_SIZE.
            equal: How ranks get equally many elements: "drop" leaves out the last few, "wrap" uses the first
                few twice. None: they may differ by one.
        """
        from ..frameworks.torch import Stream

        return Stream(self, device, pin_memory, shard, equal)  # type: ignore[arg-type]

    def to_torch_dataset(self) -> Items:
        """The elements by number, as PyTorch tensors: a map-style `torch.utils.data.Dataset`.

        Raises:
            UnimplementedError: An operator has to read in order.
        """
        from ..frameworks.torch import Items

        return Items(self)  # type: ignore[arg-type]

    def to_keras(self) -> Data:
        """The dataset for `fit`, `evaluate` and `predict` of Keras 3, on any backend.

        `model.fit(ds)` works as well if Keras was imported before the dataset was made.
        """
        from ..frameworks.keras import Data

        return Data(self)  # type: ignore[arg-type]

    def to_jax(self, sharding: Any = None) -> Arrays:
        """The elements as arrays on JAX's devices: an iterable that puts the next one while the last is used.

        Args:
            sharding: Where arrays go: None for JAX's default device; a device; a `jax.sharding.Sharding`; or
                "data": batches are cut along their first axis, a piece for each local device.
        """
        from ..frameworks.jax import Arrays

        return Arrays(self, sharding)  # type: ignore[arg-type]

    def to_tf(self) -> Any:
        """A `tf.data.Dataset` of the same elements."""
        from ..frameworks.tensorflow import to_tf

        return to_tf(self)  # type: ignore[arg-type]
