"""StreamProgress: how far a stream is, and what its next chunks need; batches: states of several streams."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from nnet3.inference.stream_program import StreamProgram

_serials = itertools.count()


class Batch:
    """States of streams run together: a matrix (rows * width, dim) per node, as in programs.

    A node's row stands for `width` columns, side by side. A stream has a column; columns of no stream may hold
    anything.
    """

    def __init__(self, state: dict[str, Tensor], width: int) -> None:
        self.state, self.width, self.serial = state, width, next(_serials)
        self.members: weakref.WeakSet[StreamProgress] = weakref.WeakSet()

    def columns(self, columns: Sequence[int]) -> dict[str, Tensor]:
        """Returns some columns of each node, copied, (rows, columns, dim)."""
        return {
            name: value.unflatten(0, (-1, self.width)).index_select(1, torch.tensor(columns, device=value.device))
            for name, value in self.state.items()
        }

    def shrink(self) -> None:
        """Keeps no more than twice as many columns as are in use."""
        if 0 < 2 * len(self.members) <= self.width:
            members = list(self.members)
            columns = self.columns([each.column for each in members])
            smaller = Batch({name: value.flatten(0, 1) for name, value in columns.items()}, len(members))
            for column, each in enumerate(members):
                each.go_to(smaller, column)


def gathered(streams: Sequence[StreamProgress], width: int) -> dict[str, Tensor]:
    """Returns the states of streams side by side, (rows * width, dim) of each node, in a new dictionary.

    Nothing is copied if the streams have run together before.
    """
    batch = streams[0].batch
    assert batch is not None
    columns = [each.column for each in streams]
    if batch.width == width and all(each.batch is batch for each in streams) and columns == list(range(len(columns))):
        return dict(batch.state)
    streams = [*streams, *[streams[0]] * (width - len(streams))]
    parts = [
        each.columns([stream.column for stream in group])
        for each, group in groupby(streams, key=lambda stream: stream.batch)
        if each is not None
    ]
    return {name: torch.cat([part[name] for part in parts], dim=1).flatten(0, 1) for name in batch.state}


class StreamProgress:
    """A stream: `number` chunks are done, `num_frames` frames were given, `num_rows` rows were taken.

    `frames` (frames, dim): frames for later chunks; `last` (1, dim): the last frame; `rows`: rows not yet taken. The
    state is a column of a batch. Frames wait in the processor's memory, state and rows on the `device`. All is changed
    by the computer, one thread at a time.
    """

    def __init__(self, program: StreamProgram, dtype: torch.dtype, device: torch.device) -> None:
        self.program, self.device = program, device
        self.number, self.num_frames, self.num_rows = 0, 0, 0
        self.frames = torch.empty(0, program.nnet.node_dim("input"), dtype=dtype)
        self.last: Tensor | None = None
        self.ivector: Tensor | None = None
        self.rows: list[Tensor] = []
        self.batch: Batch | None = None
        self.column = 0

    @property
    def chunk_index(self) -> int:
        """The position of the next chunk among those of the program."""
        return self.program.chunk_index(self.number)

    @property
    def order(self) -> tuple[int, int, int]:
        """A sorting key: streams at one chunk, and streams in one batch, stand together."""
        return self.chunk_index, -1 if self.batch is None else self.batch.serial, self.column

    def runs_with(self, more: int) -> bool:
        """Returns true if the next chunk can be run with `more` further frames."""
        return self.num_frames + more >= self.program.frames_until(self.number)

    # ---- frames ----

    def add(self, frames: Tensor) -> None:
        """Appends frames; a stream without frames begins with copies of the first frame."""
        if len(frames) == 0:
            return
        copies = frames[:1].expand(self.program.left_context if self.num_frames == 0 else 0, -1)
        self.frames = torch.cat([self.frames, copies, frames])
        self.last = frames[-1:].clone()
        self.num_frames += len(frames)

    def new(self, name: str, count: int) -> Tensor:
        """Returns `count` new rows of an input for the next chunk, (count, dim)."""
        if name == "ivector":
            assert self.ivector is not None
            return self.ivector.expand(count, -1)
        return self.frames[:count]

    def end(self) -> int:
        """Appends copies of the last frame until enough chunks are full; returns the number of rows in all."""
        program = self.program
        total = -(-self.num_frames // program.frame_subsampling_factor)
        chunks = -(-total * program.frame_subsampling_factor // program.frames_per_chunk)
        more = program.frames_until(chunks - 1) - self.num_frames
        if chunks > self.number and more > 0:
            assert self.last is not None
            self.add(self.last.expand(more, -1))
        return total

    # ---- state and rows ----

    def go_on(self, batch: Batch, column: int, rows: Tensor) -> None:
        """Takes the results of a chunk and drops the chunk's frames."""
        self.frames = self.frames[len(self.program.chunks[self.chunk_index].new["input"]) :]
        self.go_to(batch, column)
        self.rows.append(rows)
        self.number += 1

    def go_to(self, batch: Batch | None, column: int = 0) -> None:
        """Moves the stream from its batch to a new batch."""
        if self.batch is not None:
            self.batch.members.discard(self)
        self.batch, self.column = batch, column
        if batch is not None:
            batch.members.add(self)

    def ready(self) -> Tensor:
        """Returns the rows that nobody has taken, (rows, outputs)."""
        if len(self.rows) != 1:
            empty = self.frames.new_empty(0, self.program.nnet.node_dim("output"), device=self.device)
            self.rows = [torch.cat([empty, *self.rows])]
        return self.rows[0]

    def taken(self) -> None:
        """Counts these rows as taken."""
        self.num_rows += sum(map(len, self.rows))
        self.rows = []
