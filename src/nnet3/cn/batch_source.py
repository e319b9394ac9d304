"""BatchSource: minibatches of a computational network as the data of a run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from operator import length_hint
from typing import Any, TypeAlias

from nnet3.cn.network_in_training import Batch
from nnet3.errors import TrainingError
from nnet3.runs.plugs import DataSource, Placed

Batches: TypeAlias = Callable[[], Iterable[Batch]] | Iterable[Batch]


class BatchSource(DataSource):
    """A list of minibatches; a function that begins anew for each epoch; or a reader, which has `epoch(number)`.

    A list and a reader may be gone on with at any minibatch of an epoch; what a function gives may depend on what was
    done with the minibatches before. With `by_number` a reader is asked for epochs by their numbers.
    """

    def __init__(self, minibatches: Batches, validation: Batches | None, *, by_number: bool = False):
        for batches, what in ((minibatches, "minibatches"), (validation, "held-out minibatches")):
            if batches is not None and not callable(batches):
                _begun(batches, what)
        if isinstance(validation, Sequence) and not validation:
            raise TrainingError("validation holds no held-out minibatches: give some, or leave it out")
        self._minibatches, self._validation = minibatches, validation
        self._by_number = by_number and hasattr(minibatches, "epoch")
        self.per_epoch = length_hint(minibatches)  # 0: not known yet

    @property
    def goes_on(self) -> bool:
        """True if an epoch can be gone on with in its midst."""
        return isinstance(self._minibatches, Sequence) or self._by_number

    def count(self) -> None:
        """Find out how many minibatches the first epoch has, by going through it if that can be done twice."""
        if not self.per_epoch and not isinstance(self._minibatches, Iterator):
            reader: Any = self._minibatches
            self.per_epoch = sum(1 for _ in (reader.epoch(0) if hasattr(reader, "epoch") else self._epoch(0)))

    def training(self, epoch: int, position: Any) -> Generator[Placed]:
        number = 0
        for number, batch in enumerate(self._epoch(epoch), 1):
            if number > (position or 0):
                done = number / self.per_epoch if self.per_epoch else 0.0
                yield Placed(batch, number, min(done, 1.0))
        if number == 0:
            raise TrainingError(f"epoch {epoch + 1}: no minibatches (a generator can be gone through only once)")
        self.per_epoch = number

    def _epoch(self, number: int) -> Iterable[Batch]:
        if self._by_number:
            found: Iterable[Batch] = self._minibatches.epoch(number)  # type: ignore[union-attr]
            return found
        return _begun(self._minibatches, "minibatches")

    def validation(self) -> Iterator[Batch]:
        if self._validation is None:
            return
        has_any = False
        for batch in _begun(self._validation, "held-out minibatches"):
            has_any = True
            yield batch
        if not has_any:
            raise TrainingError("no held-out minibatches (a generator can be gone through only once)")

    def combination(self) -> Iterable[Batch]:
        return ()

    def identity(self) -> dict[str, Any]:
        return {"minibatches": self.per_epoch} if isinstance(self._minibatches, Sequence) else {}

    def counts(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        """Does nothing: minibatches are the caller's."""


def _begun(batches: Batches, what: str) -> Iterable[Batch]:
    """Returns the minibatches of an epoch, not begun yet. Raises TrainingError for what cannot be minibatches."""
    found = batches() if callable(batches) else batches
    if isinstance(found, Mapping | str) or not isinstance(found, Iterable):
        raise TrainingError(f"expected a list of {what}, each {{'x': X, ...}}, got a {type(found).__name__}")
    return found
