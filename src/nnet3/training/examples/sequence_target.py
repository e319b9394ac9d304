"""The supervision of sequences for an output node, with its rows: checked, merged, in files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError


class SequenceSupervision(Protocol):
    """The right answer for sequences of equal length; `weight` scales the objective."""

    @property
    def weight(self) -> float: ...

    @property
    def num_sequences(self) -> int: ...

    @property
    def frames_per_sequence(self) -> int: ...


S = TypeVar("S", bound=SequenceSupervision)


@dataclass(frozen=True, eq=False)
class SequenceTarget(Generic[S]):
    """The supervision of an output node, with its rows.

    `indexes` (rows, 3): for each frame t = t0, t0 + step, ... all sequences n = 0 .. S - 1, with x = 0.
    `deriv_weights`: one number >= 0 a row to scale derivatives; or none.
    """

    name: str
    indexes: np.ndarray
    supervision: S
    deriv_weights: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))

    def __post_init__(self) -> None:
        sequences, frames = self.supervision.num_sequences, self.supervision.frames_per_sequence
        check_rows(self.name, self.indexes, sequences, frames, self.deriv_weights)

    @property
    def is_finite(self) -> bool:
        """True: a target that is not finite cannot be made."""
        return True


T = TypeVar("T", bound=SequenceTarget[Any])


@dataclass(frozen=True)
class TargetFormat(Generic[T, S]):
    """The form of targets in files, between `token`, such as <NnetChainSup>, and its end token.

    `make`: the class of targets. The other functions read and write the supervision, and the weights with their token.
    """

    token: str
    make: Callable[[str, np.ndarray, S, np.ndarray], T]
    read_supervision: Callable[[Reader], S]
    write_supervision: Callable[[Writer, S], None]
    read_weights: Callable[[Reader], np.ndarray]
    write_weights: Callable[[Writer, np.ndarray], None]

    @property
    def end(self) -> str:
        return self.token.replace("<", "</")

    def read(self, reader: Reader) -> T:
        """Reads the target at the reader's position. Raises ModelFormatError."""
        start = reader.position
        reader.expect(self.token)
        name = reader.token()
        indexes = reader.index_vector()
        supervision, weights = self.read_supervision(reader), self.read_weights(reader)
        reader.expect(self.end)
        try:
            return self.make(name, indexes, supervision, weights)
        except ModelFormatError as error:
            raise reader.error_at(start, error.message) from None

    def write(self, writer: Writer, target: T) -> None:
        """Writes what `read` reads."""
        writer.token(self.token)
        writer.token(target.name)
        writer.index_vector(target.indexes)
        self.write_supervision(writer, target.supervision)
        self.write_weights(writer, target.deriv_weights)
        writer.token(self.end)


def merge_targets(targets: Sequence[T], merge_supervisions: Callable[[Sequence[Any]], Any]) -> T:
    """Merges targets of one sequence each: target n gives sequence n. ModelFormatError for targets that do not fit."""
    first = targets[0]
    if len(targets) == 1:
        return first
    supervision = merge_supervisions([target.supervision for target in targets])
    rows = [target.indexes for target in targets], [target.deriv_weights for target in targets]
    indexes, weights = merged_rows(first.name, *rows)
    return replace(first, indexes=indexes, supervision=supervision, deriv_weights=weights)


def weighted(target: T, factor: float) -> T:
    """Multiplies the weight of a supervision by a factor, in float32."""
    weight = float(np.float32(target.supervision.weight) * np.float32(factor))
    return replace(target, supervision=replace(target.supervision, weight=weight))


def check_rows(name: str, indexes: np.ndarray, sequences: int, frames: int, weights: np.ndarray) -> None:
    """Raises ModelFormatError unless the indexes of an output are those of sequences of several frames.

    For each frame t = t0, t0 + step, ... come all sequences n = 0 .. `sequences` - 1, with x = 0. `weights`: none, or
    a finite number >= 0 for each row.
    """
    if len(indexes) != sequences * frames or frames < 2:
        raise ModelFormatError(
            f"output '{name}' has {len(indexes)} indexes, its supervision {sequences} sequences of "
            f"{frames} frames: there must be at least two frames, and an index for each"
        )
    times = indexes[::sequences, 1].astype(np.int64)
    step = times[1] - times[0]
    expected = np.repeat(times[0] + step * np.arange(frames), sequences)
    n, t, x = indexes.T
    if (n != np.tile(np.arange(sequences), frames)).any() or (t != expected).any() or x.any() or step <= 0:
        raise ModelFormatError(
            f"the indexes of output '{name}' must be, for each of {frames} frames at equal distances, the "
            f"sequences 0 to {sequences - 1}"
        )
    if len(weights) not in (0, len(indexes)):
        raise ModelFormatError(f"output '{name}' has {len(indexes)} indexes and {len(weights)} deriv-weights")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ModelFormatError(f"the deriv-weights of output '{name}' must be finite and >= 0")


def merged_rows(
    name: str, indexes: Sequence[np.ndarray], weights: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns indexes and weights of an output of one sequence each, of several examples: example n gives sequence n.

    Raises ModelFormatError for other times, or for weights in some of the examples only.
    """
    first, count = indexes[0], len(indexes)
    if any((each[:, 1:] != first[:, 1:]).any() for each in indexes):
        raise ModelFormatError(f"output '{name}' has other indexes in some of the examples that are to be merged")
    merged = np.repeat(first, count, axis=0)
    merged[:, 0] = np.tile(np.arange(count), len(first))
    if not len(weights[0]):
        return merged, weights[0]
    if any(len(each) != len(weights[0]) for each in weights):
        raise ModelFormatError(f"some of the examples that are to be merged have no deriv-weights of '{name}'")
    return merged, np.stack(weights, axis=1).reshape(-1)
