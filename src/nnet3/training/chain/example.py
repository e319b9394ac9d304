"""Examples of sequence training (Kaldi: NnetChainExample), in files and merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError, TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.chain.numerator import pdf_weights
from nnet3.training.chain.supervision import ChainTarget, merge_targets
from nnet3.training.chain.supervision_file import read_target, write_target
from nnet3.training.examples.example import ExampleKind, NnetIo, describe_rows, merge_ios, read_io, write_io
from nnet3.training.train.lda_stats import Labelled
from nnet3.training.train.minibatch import Minibatch, WantedOutput
from nnet3.training.train.to_minibatch import to_input

TOKEN = "<Nnet3ChainEg>"
_MOST_IOS = 1_000_000
_CARRIED_ALONG = "__"  # what names of inputs begin with that are not for the network


@dataclass(frozen=True, eq=False)
class ChainExample:
    """Inputs, and targets of outputs."""

    inputs: tuple[NnetIo, ...]
    outputs: tuple[ChainTarget, ...]

    def input(self, name: str) -> NnetIo | None:
        """The first input of a name; None without one."""
        return next((io for io in self.inputs if io.name == name), None)


def read_example(reader: Reader) -> ChainExample:
    """Reads the `<Nnet3ChainEg>` at the reader's position. Raises ModelFormatError if it is damaged."""
    reader.expect(TOKEN)
    inputs = tuple(read_io(reader) for _ in range(_count(reader, "<NumInputs>")))
    outputs = tuple(read_target(reader) for _ in range(_count(reader, "<NumOutputs>")))
    reader.expect("</Nnet3ChainEg>")
    return ChainExample(inputs, outputs)


def _count(reader: Reader, token: str) -> int:
    reader.expect(token)
    start = reader.position
    count = reader.int32()
    if not 1 <= count <= _MOST_IOS:
        raise reader.error_at(start, f"an example cannot have {count} inputs or outputs")
    return count


def write_example(writer: Writer, example: ChainExample) -> None:
    """Writes what `read_example` reads, byte for byte as Kaldi does."""
    writer.token(TOKEN)
    writer.token("<NumInputs>")
    writer.int32(len(example.inputs))
    writer.newline()
    for io in example.inputs:
        write_io(writer, io)
        writer.newline()
    writer.token("<NumOutputs>")
    writer.int32(len(example.outputs))
    writer.newline()
    for target in example.outputs:
        write_target(writer, target)
        writer.newline()
    writer.token("</Nnet3ChainEg>")


def structure(example: ChainExample) -> tuple[object, ...]:
    """Returns a value that is equal for examples that may be merged: equal inputs, and outputs of equal indexes."""
    outputs = tuple((target.name, target.indexes.tobytes()) for target in example.outputs)
    return tuple(io.structure for io in example.inputs), outputs


def describe(example: ChainExample) -> str:
    """Returns the structure of an example in words."""
    rows = [(io.name, io.indexes) for io in example.inputs] + [(each.name, each.indexes) for each in example.outputs]
    return ", ".join(describe_rows(*each) for each in rows)


def size(example: ChainExample) -> int:
    """Returns the largest number of indexes of an input or output."""
    return max([len(io.indexes) for io in example.inputs] + [len(target.indexes) for target in example.outputs])


def merge(examples: Sequence[ChainExample], compress: bool = False) -> ChainExample:
    """Returns one example with the sequences of all, in order. Raises ModelFormatError if they do not fit together."""
    names = [target.name for target in examples[0].outputs]
    if any([target.name for target in example.outputs] != names for example in examples):
        raise ModelFormatError("examples can be merged only if they have the same outputs")
    outputs = [merge_targets([example.outputs[k] for example in examples]) for k in range(len(names))]
    inputs = merge_ios([example.inputs for example in examples], 1, compress)
    return ChainExample(tuple(inputs), tuple(outputs))


def weighted(example: ChainExample, factor: float) -> ChainExample:
    """Multiplies the weight of the supervision of `output` by a factor, in float32."""

    def change(target: ChainTarget) -> ChainTarget:
        supervision = target.supervision
        weight = float(np.float32(supervision.weight) * np.float32(factor))
        return replace(target, supervision=replace(supervision, weight=weight))

    return _with_output(example, change)


def renamed(example: ChainExample, name: str) -> ChainExample:
    """Returns the example with another name for `output`."""
    return _with_output(example, lambda target: replace(target, name=name))


def _with_output(example: ChainExample, change: Callable[[ChainTarget], ChainTarget]) -> ChainExample:
    names = [target.name for target in example.outputs]
    if "output" not in names:
        raise TrainingError(f"this example has no 'output', but {', '.join(names)}")
    return replace(
        example, outputs=tuple(change(target) if target.name == "output" else target for target in example.outputs)
    )


CHAIN_EXAMPLES: ExampleKind[ChainExample] = ExampleKind(
    *(TOKEN, read_example, write_example, structure, describe, size, merge, weighted, renamed)
)


def chain_minibatch(example: ChainExample, input_dims: Mapping[str, int], key: str = "") -> Minibatch:
    """Returns the minibatch of an example; `input_dims`: the columns of the network's inputs. All outputs are targets.

    Raises TrainingError if the example has none of the network's inputs, one that the network does not have, one with
    another number of columns, or something twice. Inputs with names that begin with __ are left out.
    """
    given = [io for io in example.inputs if not io.name.startswith(_CARRIED_ALONG)]
    names = ", ".join(io.name for io in given)
    if not any(io.name in input_dims for io in given):
        raise TrainingError(f"the example has none of the network's inputs {', '.join(input_dims)}, but {names}")
    if any(io.name not in input_dims for io in given):
        raise TrainingError(f"the example has the inputs {names}, but the network has {', '.join(input_dims)}")
    for found in ([io.name for io in given], [target.name for target in example.outputs]):
        if len(set(found)) < len(found):
            raise TrainingError(f"the example has something twice: {', '.join(found)}")
    return Minibatch([to_input(io, input_dims) for io in given], example.outputs, key)


def labelled_by_pdf(nnet: Nnet) -> Callable[[str, ChainExample], Labelled]:
    """Returns a function from an example of one sequence to the rows of `output` to compute and their pdf weights."""

    def labelled(key: str, example: ChainExample) -> Labelled:
        if len(example.outputs) != 1:
            raise TrainingError(f"a chain example of one output is expected, not of {len(example.outputs)}")
        target = example.outputs[0]
        inputs = [to_input(io, nnet.input_dims) for io in example.inputs if io.name in nnet.input_dims]
        return Minibatch(inputs, [WantedOutput("output", target.indexes)], key), pdf_weights(target.supervision)

    return labelled
