"""StreamProgram: a network as the requests of a stream: a few for the first chunks, then some that come round."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nnet3.base.index import IndexTable, N, find_rows, indexes_at, shift_indexes
from nnet3.base.options.compiling import CompileOptions
from nnet3.base.options.editing import CollapseOptions
from nnet3.base.options.utterances import StreamOptions
from nnet3.engine.driver import default_cache
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.carried_rows import Carried, ChunkRows, find_carried
from nnet3.errors import NetworkError
from nnet3.inference.inputs import check_simple
from nnet3.inference.long_utterances import OPTIONAL
from nnet3.model.edits import prepare_for_test
from nnet3.model.nnet import Nnet
from nnet3.model.requests import IoSpecification, StateRequest, nnet_source
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode

_FIXED, _FIXED_END = "ReplaceIndex(", ", t, 0)"


@dataclass(frozen=True, eq=False)
class StreamChunk:
    """The request of a chunk, for one sequence. Index tables are by node, rows by time.

    `new`: the rows of inputs brought by the chunk. `before`, `after`: the state, rows of input nodes and component
    nodes given to the chunk and handed on by it; `after` of a chunk is `before` of the next chunk, moved in time.
    Nothing is given to the first chunk. `output`: the rows of `output`.
    """

    new: Mapping[str, IndexTable]
    before: Mapping[str, IndexTable]
    after: Mapping[str, IndexTable]
    output: IndexTable

    @cached_property
    def inputs(self) -> dict[str, IndexTable]:
        """The rows of each input and of each component node with rows in `before`: rows of `before`, then of `new`."""
        joined = {name: [table] for name, table in self.before.items()}
        for name, table in self.new.items():
            joined.setdefault(name, []).append(table)
        return {name: np.concatenate(tables) for name, tables in joined.items()}

    @cached_property
    def kept(self) -> dict[str, npt.NDArray[np.int64]]:
        """The rows of each input that are part of the state after the chunk."""
        names = [name for name in self.new if name in self.after]
        return {name: find_rows(self.inputs[name], self.after[name]).astype(np.int64) for name in names}

    def kept_of(self, name: str, values: Tensor, width: int) -> Tensor:
        """Returns these rows of an input's matrix (rows * width, dim), copied."""
        rows = self.kept[name]
        if rows[-1] - rows[0] == len(rows) - 1:
            return values[int(rows[0]) * width : int(rows[-1] + 1) * width].clone()
        return values.unflatten(0, (-1, width))[torch.from_numpy(rows).to(values.device)].flatten(0, 1)

    def request(self, sequences: int = 1) -> StateRequest:
        """Returns the request for `sequences` sequences; rows go by time, rows of one time by sequence."""

        def io(name: str, table: IndexTable) -> IoSpecification:
            rows = np.repeat(table, sequences, axis=0)
            rows[:, N] = np.tile(np.arange(sequences), len(table))
            return IoSpecification(name, rows)

        outputs = [io("output", self.output)]
        outputs += [io(name, table) for name, table in self.after.items() if name not in self.new]
        return StateRequest([io(name, table) for name, table in self.inputs.items()], outputs)

    def is_as(self, other: StreamChunk) -> bool:
        """Returns true if two chunks have equal requests and hand on equal states."""
        mine, others = (
            [
                [(name, table.tobytes()) for name, table in part.items()]
                for part in (each.new, each.before, each.after, {"": each.output})
            ]
            for each in (self, other)
        )
        return mine == others


@dataclass(frozen=True, eq=False)
class StreamProgram:
    """The chunks of a stream: `head`, one chunk after the other, then the chunks of `cycle` again and again.

    `nnet` is the network to run: in test mode, collapsed, with ivectors that may change (see `for_streams`).
    `frames_per_chunk` is the number of frames of every chunk but the first; the first chunk takes in addition
    `left_context` frames before t = 0 and `right_context` frames behind.
    """

    nnet: Nnet
    frames_per_chunk: int
    frame_subsampling_factor: int
    left_context: int
    right_context: int
    head: Sequence[StreamChunk]
    cycle: Sequence[StreamChunk]

    @classmethod
    def of(cls, model: Nnet, options: StreamOptions) -> StreamProgram:
        """Returns the program of a network. Raises NetworkError if it cannot be run in chunks for ever."""
        check_simple(model, "in streams")
        nnet = model.in_test_mode()
        prepare_for_test(nnet, CollapseOptions(batchnorm=False))  # lines with several ivectors are then those of Kaldi
        return cls._of(nnet, options, in_test_mode=True)

    @classmethod
    def of_modes(cls, nnet: Nnet, options: StreamOptions) -> StreamProgram:
        """Returns the program of a network without ivectors, in the modes of its components; the network may get nodes.

        Raises NetworkError as `of` does.
        """
        check_simple(nnet, "in streams")
        return cls._of(nnet, options, in_test_mode=False)

    @classmethod
    def _of(cls, nnet: Nnet, options: StreamOptions, *, in_test_mode: bool) -> StreamProgram:
        factor = options.frame_subsampling_factor
        period = math.lcm(factor, nnet.modulus)
        frames = -(-options.frames_per_chunk // period) * period
        left, right = nnet.left_context + options.extra_left_context_initial, nnet.right_context
        nnet = with_fixed_operands(for_streams(nnet, frames) if in_test_mode else nnet)
        requests = _Requests(nnet, frames, factor, left, right)
        carried = find_carried(nnet_source(nnet), requests.chunk, frames)
        chunks = list(_chunks(nnet, requests, carried))
        head, cycle = chunks[: carried.num_head], chunks[carried.num_head :]
        while head and head[-1].is_as(cycle[-1]):
            cycle = [head.pop(), *cycle[:-1]]
        return cls(nnet, frames, factor, left, right, head, cycle)

    def chunk_index(self, number: int) -> int:
        """Returns the position in `chunks` of chunk `number` = 0, 1, ... of a stream."""
        head = len(self.head)
        return number if number < head else head + (number - head) % len(self.cycle)

    @cached_property
    def chunks(self) -> list[StreamChunk]:
        """All different chunks."""
        return [*self.head, *self.cycle]

    def computation(
        self, chunk: StreamChunk, sequences: int = 1, options: CompileOptions | None = None
    ) -> NnetComputation:
        """Returns the program of a chunk. Inputs and outputs of component nodes are the state."""
        return default_cache().compile(self.nnet, chunk.request(sequences), options)

    def frames_until(self, number: int) -> int:
        """Returns how many frames there must be for chunk `number` = 0, 1, ..."""
        return (number + 1) * self.frames_per_chunk + self.right_context


def for_streams(nnet: Nnet, frames: int) -> Nnet:
    """Returns the network with ivectors that may change every so many frames; parameters are shared.

    As Kaldi does, in the line of each component node the first `ReplaceIndex(X, t, 0)` becomes `Round(X, frames)`, if
    the network has an input `ivector`. Raises NetworkError for other uses of ReplaceIndex in such a line.
    """
    twin = nnet.in_test_mode()
    if "ivector" not in twin.input_names:
        return twin
    lines = [line for line in twin.config_lines() if line.startswith("component-node ") and _FIXED in line]
    twin.apply_config("\n".join(_with_round(line, frames) for line in lines), source="<network>")
    return twin


def _with_round(line: str, frames: int) -> str:
    before, _, rest = line.partition(_FIXED)
    inner, found, after = rest.partition(_FIXED_END)
    if not found:
        raise NetworkError(
            "a network with ivectors can be run in a stream only if ReplaceIndex sets t to 0, which is how they are "
            f"read; got '{line}'"
        )
    return f"{before}Round({inner}, {frames}){after}"


def with_fixed_operands(nnet: Nnet) -> Nnet:
    """Adds a NoOpComponent before each component that reads several rows, if rows read depend on available rows.

    Rows of a descriptor with IfDefined or Failover could change when more rows come; rows of a component node are
    computed once, and a stream may keep them. Changes and returns `nnet`.
    """
    lines = []
    for number, node in enumerate(nnet.nodes):
        if not isinstance(node, ComponentNode) or nnet.component_of(node).identity_indexes:
            continue
        hidden = nnet.nodes[number - 1]
        assert isinstance(hidden, DescriptorNode)
        if not OPTIONAL.search(str(hidden.descriptor)):
            continue
        name = f"{node.name}.fixed"
        while name in nnet.node_number or name in nnet.components:
            name += "_"
        lines += [
            f"component name={name} type=NoOpComponent dim={nnet.node_dim(hidden.name)}",
            f"component-node name={name} component={name} input={hidden.descriptor}",
            f"component-node name={node.name} component={node.component} input={name}",
        ]
    if lines:
        nnet.apply_config("\n".join(lines), source="<network>")
    return nnet


@dataclass(frozen=True)
class _Requests:
    """The rows given and asked for in each chunk, as in Kaldi; times are true times."""

    nnet: Nnet
    frames: int
    factor: int
    left: int
    right: int

    def chunk(self, number: int) -> ChunkRows:
        """Returns the rows of chunk `number` = 1, 2, ...: new frames of input, ivectors, and frames of output.

        Chunk 1 also takes the frames of left context. Ivectors have the times of multiples of `frames`.
        """
        start, end = (number - 1) * self.frames, number * self.frames + self.right
        first = -self.left if number == 1 else start + self.right
        number_of = self.nnet.node_number
        given = {number_of["input"]: indexes_at(np.arange(first, end))}
        if "ivector" in number_of:
            lowest = first // self.frames if number == 1 else -(-first // self.frames)
            given[number_of["ivector"]] = indexes_at(np.arange(lowest * self.frames, end, self.frames))
        return ChunkRows(given, {number_of["output"]: indexes_at(np.arange(start, start + self.frames, self.factor))})


def _chunks(nnet: Nnet, requests: _Requests, carried: Carried) -> Iterator[StreamChunk]:
    """Yields the chunks, moved in time so that equal chunks have equal requests."""
    names = [node.name for node in nnet.nodes]
    for number in range(1, carried.num_chunks + 1):
        earlier, rows = carried.earlier(number), requests.chunk(number)
        new = {names[node]: shift_indexes(table, -earlier) for node, table in rows.given.items()}
        before, after = (
            {names[node]: table for node, table in carried.before(each, earlier).items()}
            for each in (number, number + 1)
        )
        (output,) = rows.wanted.values()
        yield StreamChunk(new, before, after, shift_indexes(output, -earlier))


def few_widths(number: int) -> int:
    """Returns for how many streams a program is run: one of few numbers, so that few programs serve all."""
    width = 1
    while width < number:
        width += max(1, (1 << width.bit_length()) // 4)  # 1, 2, 3, 4, 6, 8, 12, 16, 24, ...
    return width
