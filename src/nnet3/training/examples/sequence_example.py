"""Examples whose supervision is of whole sequences: inputs, and targets of outputs; in files, copied and merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError, TrainingError
from nnet3.training.examples.example import (
    ExampleKind,
    NnetIo,
    describe_rows,
    merge_ios,
    read_io,
    structure_of_ios,
    write_io,
)
from nnet3.training.examples.queues import ExampleStructure, number_of_rows
from nnet3.training.examples.sequence_target import S, T, TargetFormat, merge_targets, weighted

_MOST_IOS = 1_000_000


@dataclass(frozen=True, eq=False)
class SequenceExample(Generic[T]):
    """Inputs, and targets of outputs."""

    inputs: tuple[NnetIo, ...]
    outputs: tuple[T, ...]

    def input(self, name: str) -> NnetIo | None:
        """Returns the first input of a name; None without one."""
        return next((io for io in self.inputs if io.name == name), None)


E = TypeVar("E", bound=SequenceExample)  # type: ignore[type-arg]


def structure(example: SequenceExample[T]) -> ExampleStructure:
    """Returns a value that is equal for examples that may be merged: equal inputs, and outputs of equal indexes."""
    number, inputs = structure_of_ios(example.inputs)
    for target in example.outputs:
        number = number * 17957 + number_of_rows(target.name, target.indexes)
    outputs = tuple((target.name, target.indexes.tobytes()) for target in example.outputs)
    return ExampleStructure(number % 2**64, (inputs, outputs))


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
    targets: TargetFormat[T, S],
    merge_supervisions: Callable[[Sequence[S]], S],
) -> ExampleKind[E]:
    """Returns a kind of examples, given its first token in files, such as <Nnet3ChainEg>, and its kind of targets."""
    end = token.replace("<", "</")

    def read(reader: Reader) -> E:
        reader.expect(token)
        inputs = tuple(read_io(reader) for _ in range(_count(reader, "<NumInputs>")))
        outputs = tuple(targets.read(reader) for _ in range(_count(reader, "<NumOutputs>")))
        reader.expect(end)
        return make(inputs, outputs)

    def write(writer: Writer, example: E) -> None:
        writer.token(token)
        _write_all(writer, "<NumInputs>", example.inputs, write_io)
        _write_all(writer, "<NumOutputs>", example.outputs, targets.write)
        writer.token(end)

    def merge(examples: Sequence[E], compress: bool = False) -> E:
        names = [target.name for target in examples[0].outputs]
        if any([target.name for target in example.outputs] != names for example in examples):
            raise ModelFormatError("examples can be merged only if they have the same outputs")
        outputs = [
            merge_targets([example.outputs[k] for example in examples], merge_supervisions) for k in range(len(names))
        ]
        inputs = merge_ios([example.inputs for example in examples], 1, compress)
        return make(tuple(inputs), tuple(outputs))

    def weigh(example: E, factor: float) -> E:
        return with_output(example, lambda target: weighted(target, factor))

    def rename(example: E, name: str) -> E:
        return with_output(example, lambda target: replace(target, name=name))

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
    writer.token(token).int32(len(items))
    writer.newline()
    for item in items:
        write(writer, item)
        writer.newline()
