"""RecordedRandoms: random elements for noted commands, drawn all at once after the last command.

Random elements of a kernel have the kernel's name, and random numbers of a node the node's name. A template noted for
one kernel of one node requests elements without these names, to serve all kernels with equal promises.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from nnet3.engine.ir.proof.field import Elements
from nnet3.engine.ir.proof.randoms import ROW_NUMBERS, Randoms
from nnet3.engine.ir.proof.recording import DRAWN, NUMBERS, OPERANDS, ElementRecording, Recorded, Words

KERNEL, NODE = "kernel", "node"  # stand for the names of one


class RandomRequest(NamedTuple):
    """A request for random elements, by combinations of blocks, or for a word to choose a random function."""

    what: tuple[Hashable, ...]
    spans: tuple[ColumnSpan, ...] = ()
    is_zero: bool = False  # a zero instead, to which a program adds: (kind, name, number)
    of_node: tuple[str, ...] = ()  # the node whose random numbers are requested

    def renamed(self, old: str, new: str, node: str) -> RandomRequest:
        """Returns the request with another name of the kernel, and with another node if it is of a node."""
        position = 1 if self.is_zero else 0
        spans = tuple([ColumnSpan(_renamed(span.space, 1, old, new), *span[1:]) for span in self.spans])
        return RandomRequest(_renamed(self.what, position, old, new), spans, self.is_zero, self.of_node and (node,))


def _renamed(fields: Any, position: int, old: str, new: str) -> Any:
    if not isinstance(fields, tuple) or len(fields) <= position or fields[position] != old:
        return fields
    return (*fields[:position], new, *fields[position + 1 :])


class RecordedRandoms(Randoms):
    """Random elements of the compared programs. `recording` has the notes of their commands."""

    def __init__(self, columns: Columns, seed: int) -> None:
        super().__init__(columns, seed)
        self.recording = ElementRecording()
        self._name = KERNEL
        self._first_space = 0
        self._wanted: dict[RandomRequest, tuple[int, tuple[int, ...]]] = {}
        self._first: dict[RandomRequest, int] = {}
        self._bases, self._counts = list[int](), list[int]()
        self._one, self._other = list[int](), list[int]()
        self._size = 0

    # ---- the command that is noted ----

    def begin(self, name: str, num_addresses: int) -> None:
        """Begin to note a command of kernel `name`, "" for no kernel, with `num_addresses` besides the requests."""
        self._name, self._first_space, self._wanted = name, OPERANDS + num_addresses, {}

    def wanted(self) -> dict[RandomRequest, tuple[int, ...]]:
        """Returns the command's requests and lengths, in the order of their addresses, the last of the command."""
        return {request: lengths for request, (_, lengths) in self._wanted.items()}

    def first(self, request: RandomRequest, lengths: tuple[int, ...] | None = None) -> int:
        """Returns the first position of the elements of a request among all drawn elements; `lengths` are checked."""
        found = self._first.get(request)
        if found is None:
            found = self._first[request] = self._size
            one, other = [*[self.columns.first_columns(span) for span in request.spans], [-1], [-1]][:2]
            self._one += [number for number in one for _ in other]
            self._other += other * len(one)
            self._bases.append(0 if request.is_zero else int(self.key(*request.what, *request.of_node)))
            assert lengths is None or prod(lengths) == len(one) * len(other)
            self._counts.append(len(one) * len(other))
            self._size += self._counts[-1]
        return found

    def asked(self, request: RandomRequest) -> Recorded:
        """Returns the elements of a request; a kernel's own elements lie at an address of the noted command."""
        lengths = self.lengths(request)
        general = request.renamed(self._name, KERNEL, NODE)
        if general == request:
            return Recorded.whole(self.recording, DRAWN, self.first(request), lengths)
        number, _ = self._wanted.setdefault(general, (len(self._wanted), lengths))
        return Recorded.whole(self.recording, self._first_space + number, 0, lengths)

    def lengths(self, request: RandomRequest) -> tuple[int, ...]:
        """Returns the number of blocks along each axis of a request."""
        return tuple([len(self.columns.first_columns(span)) for span in request.spans])

    def drawn(self) -> Words:
        """Returns all requested elements."""
        bases = np.repeat(np.array(self._bases, np.uint64), self._counts)
        one, other = np.array(self._one, np.int64), np.array(self._other, np.int64)
        of_one, of_both = field.words(field.drawn(bases, one)), field.words(field.drawn(bases, one, other))
        return np.where(one < 0, bases, np.where(other < 0, of_one, of_both))

    def drawn_numbers(self, count: int) -> Words:
        """Returns the elements for the numbers of rows."""
        return field.words(field.drawn(self.key(*ROW_NUMBERS), np.arange(count)))

    # ---- as `Randoms` ----

    def of_blocks(self, what: tuple[Hashable, ...], *spans: ColumnSpan) -> Any:
        return self.asked(RandomRequest(what, spans))

    def of_rows(self, what: tuple[Hashable, ...], count: int) -> Any:
        return self.recording.rows(self.asked(RandomRequest(what)), count)

    def numbers(self, count: int) -> Any:
        return Recorded.whole(self.recording, NUMBERS, 0, (count,))

    def number(self, row: int) -> Any:
        return Recorded.whole(self.recording, NUMBERS, row, ())

    def zeros(self, *lengths: int) -> Any:
        return self.recording.zeros(lengths)

    def hashed(self, values: Elements, *what: Hashable) -> Any:
        base: Any = self.asked(RandomRequest(what))
        return field.hashed(values, base)
