"""Examples whose supervision is of whole sequences: inputs, and targets of outputs; in files, copied and merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError, TrainingError
from nnet3.training.examples.example import ExampleKind, NnetIo, describe_rows, merge_ios, read_io, write_io

_MOST_IOS = 1_000_000


class SequenceTarget(Protocol):
    """The supervision of an output node: its name and its rows, (rows, 3) n, t, x."""

    @property
    def name(self) -> str: ...

    @property
    def indexes(self) -> np.ndarray: ...

    @property
    def is_finite(self) -> bool: ...


T = TypeVar("T", bound=SequenceTarget)


@dataclass(frozen=True, eq=False)
class SequenceExample(Generic[T]):
    """Inputs, and targets of outputs."""

    inputs: tuple[NnetIo, ...]
    outputs: tuple[T, ...]

    def input(self, name: str) -> NnetIo | None:
        """The first input of a name; None without one."""
        return next((io for io in self.inputs if io.name == name), None)


E = TypeVar("E", bound=SequenceExample)  # type: ignore[type-arg]


def structure(example: SequenceExample[T]) -> tuple[object, ...]:
    """Returns a value that is equal for examples that may be merged: equal inputs, and outputs of equal indexes."""
    outputs = tuple((target.name, target.indexes.tobytes()) for target in example.outputs)
    return tuple(io.structure for io in example.inputs), outputs


def describe(example: SequenceExample[T]) -> str:
    """Returns the structure of an example in words."""
    rows = [(io.name, io.indexes) for io in example.inputs] + [(each.name, each.indexes) for each in example.outputs]
    return ", ".join(describe_rows(*each) for each in rows)


def size(example: SequenceExample[T]) -> int:
    """Returns the largest number of indexes of an input or output."""
    return max([len(io.indexes) for io in example.inputs] + [len(target.indexes) for target in example.outputs])


def with_output(example: E, change: Callable[[T], T]) -> E:
    """Returns the example with a change of the target of `output`. Raises TrainingError without an `output`."""
    names = [target.name for target in example.outputs]
    if "output" not in names:
        raise TrainingError(f"this example has no 'output', but {', '.join(names)}")
    outputs = tuple(change(target) if target.name == "output" else target for target in example.outputs)
    return replace(example, outputs=outputs)


def sequence_examples(
    token: str,
    make: Callable[[tuple[NnetIo, ...], tuple[T, ...]], E],
    read_target: Callable[[Reader], T],
    write_target: Callable[[Writer, T], None],
    merge_targets: Callable[[Sequence[T]], T],
    weighted: Callable[[T, float], T],
    renamed: Callable[[T, str], T],
) -> ExampleKind[E]:
    """Returns a kind of examples, given its first token in files, such as <Nnet3ChainEg>, and its kind of targets.

    `weighted`, `renamed`: the target with its weight times a factor, and with another name.
    """
    end = token.replace("<", "</")

    def read(reader: Reader) -> E:
        reader.expect(token)
        inputs = tuple(read_io(reader) for _ in range(_count(reader, "<NumInputs>")))
        outputs = tuple(read_target(reader) for _ in range(_count(reader, "<NumOutputs>")))
        reader.expect(end)
        return make(inputs, outputs)

    def write(writer: Writer, example: E) -> None:
        writer.token(token)
        _write_all(writer, "<NumInputs>", example.inputs, write_io)
        _write_all(writer, "<NumOutputs>", example.outputs, write_target)
        writer.token(end)

    def merge(examples: Sequence[E], compress: bool = False) -> E:
        names = [target.name for target in examples[0].outputs]
        if any([target.name for target in example.outputs] != names for example in examples):
            raise ModelFormatError("examples can be merged only if they have the same outputs")
        outputs = [merge_targets([example.outputs[k] for example in examples]) for k in range(len(names))]
        inputs = merge_ios([example.inputs for example in examples], 1, compress)
        return make(tuple(inputs), tuple(outputs))

    def weigh(example: E, factor: float) -> E:
        return with_output(example, lambda target: weighted(target, factor))

    def rename(example: E, name: str) -> E:
        return with_output(example, lambda target: renamed(target, name))

    return ExampleKind(token, read, write, structure, describe, size, merge, weigh, rename)


def _count(reader: Reader, token: str) -> int:
    reader.expect(token)
    start = reader.position
    count = reader.int32()
    if not 1 <= count <= _MOST_IOS:
        raise reader.error_at(start, f"an example cannot have {count} inputs or outputs")
    return count


I = TypeVar("I")


def _write_all(writer: Writer, token: str, items: Sequence[I], write: Callable[[Writer, I], None]) -> None:
    writer.token(token)
    writer.int32(len(items))
    writer.newline()
    for item in items:
        write(writer, item)
        writer.newline()


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
