"""Flat parameters: one buffer for a whole network, for norms, sums and scales in one operation."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from nnet3.errors import NetworkError
from nnet3.model.components.base import Component

K = TypeVar("K")


class Piece(NamedTuple):
    """Parameters of a component in a buffer: elements [start, end)."""

    component: str
    buffer: int
    start: int
    end: int


@dataclass
class FlatParameters:
    """Buffers, a buffer for each dtype and device, and the components' ranges in the buffers, in order."""

    buffers: list[Tensor] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)  # of all parameters, in order

    def add_(self, other: FlatParameters, factors: Mapping[str, float]) -> None:
        """Adds the parameters of a network of equal structure, a component's parameters times its factor."""
        if self.shapes != other.shapes:
            raise NetworkError("networks to be added must have parameters of the same sizes")
        if self.pieces != other.pieces:
            raise NetworkError("networks to be added must have the same dtypes and devices in the same components")
        for piece in self._runs(factors):
            mine, theirs = (flat.buffers[piece.buffer][piece.start : piece.end] for flat in (self, other))
            mine.add_(theirs.to(mine.device), alpha=factors[piece.component])

    def squared_norms(self) -> dict[str, float]:
        """Returns the sum of squares of each component's parameters, added up in float64."""
        norms = [
            torch.linalg.vector_norm(self.buffers[p.buffer][p.start : p.end], dtype=torch.float64) for p in self.pieces
        ]
        squares = dict.fromkeys((piece.component for piece in self.pieces), 0.0)
        on_one_device = [norm.to(norms[0].device) for norm in norms]
        values = torch.stack(on_one_device).square().tolist() if norms else []
        for piece, value in zip(self.pieces, values, strict=True):
            squares[piece.component] += value
        return squares

    def _runs(self, factors: Mapping[str, float]) -> Iterator[Piece]:
        """Yields the pieces, with neighbours of equal factors joined."""
        by_buffer = sorted(self.pieces, key=lambda piece: (piece.buffer, piece.start))
        run: Piece | None = None
        for piece in by_buffer:
            if run is not None and run.buffer == piece.buffer and factors[run.component] == factors[piece.component]:
                run = run._replace(end=piece.end)
                continue
            if run is not None:
                yield run
            run = piece
        if run is not None:
            yield run


def flatten(components: Mapping[str, Component], old: FlatParameters) -> FlatParameters:
    """Moves the parameters of components, in order, into buffers; keeps the buffers of `old` if the parameters lie
    there.

    Tensor objects are kept: their memory becomes part of a buffer. A tensor that occurs twice is stored once.
    """
    parameters = {id(t): (name, t) for name, c in components.items() for t in c.parameters().values()}
    numbers: dict[tuple[torch.dtype, torch.device], int] = {}
    ends: list[int] = []
    pieces: list[Piece] = []
    tensors: list[list[Tensor]] = []  # of each buffer
    for name, tensor in parameters.values():
        number = numbers.setdefault((tensor.dtype, tensor.device), len(numbers))
        if number == len(ends):
            ends.append(0)
            tensors.append([])
        start, end = ends[number], ends[number] + tensor.numel()
        ends[number] = end
        tensors[number].append(tensor)
        if pieces and pieces[-1].component == name and pieces[-1].buffer == number:
            pieces[-1] = pieces[-1]._replace(end=end)
        else:
            pieces.append(Piece(name, number, start, end))
    shapes = [tuple(tensor.shape) for _, tensor in parameters.values()]
    if len(old.buffers) == len(tensors) and all(map(_is_flat, tensors, old.buffers)):
        return FlatParameters(old.buffers, pieces, shapes)
    return FlatParameters([_into_one_buffer(group) for group in tensors], pieces, shapes)


def sent_by_value(kind: type[K]) -> type[K]:
    """Lets objects of a class go to other processes as bytes, as into a file.

    PyTorch sends handles of tensors instead, and handles of copies made by pickling are closed before they arrive.
    """
    ForkingPickler.register(kind, lambda value: (pickle.loads, (pickle.dumps(value),)))
    return kind


def _is_flat(tensors: list[Tensor], buffer: Tensor) -> bool:
    """Returns True if the tensors fill the buffer in order."""
    address, size = buffer.data_ptr(), buffer.element_size()
    for tensor in tensors:
        if tensor.numel() == 0:
            continue
        if tensor.data_ptr() != address or not tensor.is_contiguous() or tensor.dtype != buffer.dtype:
            return False
        address += tensor.numel() * size
    return address == buffer.data_ptr() + buffer.numel() * size


def _into_one_buffer(tensors: list[Tensor]) -> Tensor:
    buffer = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    start = 0
    for tensor in tensors:
        end = start + tensor.numel()
        tensor.data = buffer[start:end].view(tensor.shape)
        start = end
    return buffer
