"""When which matrix needs its memory: spans of command numbers, followed through swaps, gotos and compression."""

from __future__ import annotations

from collections import defaultdict

from nnet3.computation.commands import (
    AllocMatrix,
    CompressMatrix,
    DeallocMatrix,
    DecompressMatrix,
    Goto,
    Label,
    SwapMatrix,
)
from nnet3.computation.computation import NnetComputation
from nnet3.errors import ExecutionError

Span = tuple[int, int]  # first and last command, both included


def matrix_spans(computation: NnetComputation) -> dict[int, list[Span]]:
    """Where each matrix is in memory, as disjoint increasing spans; key -m is the compressed form of matrix m.

    A matrix that no command allocates is in memory throughout. Matrices of unreachable commands do not occur.
    With gotos there is one span for each key, since contents may be carried from its last command to its first.
    Raises ExecutionError for a goto to a label that does not exist.
    """
    labels = label_positions(computation)
    allocated = {_matrix(computation, c.matrix) for c in computation.commands if isinstance(c, AllocMatrix)}
    always = frozenset(range(1, len(computation.matrices))) - allocated
    spans: dict[int, list[Span]] = defaultdict(list)
    pending, seen = [(0, always)], set()
    while pending:
        entry = pending.pop()
        if entry in seen:
            continue
        seen.add(entry)
        target, resident = _walk(computation, *entry, spans)
        if target is not None:
            pending.append((find_label(labels, target), resident))
    if any(isinstance(command, Goto) for command in computation.commands):
        return {key: [(min(found)[0], max(last for _, last in found))] for key, found in spans.items()}
    return {key: sorted(found) for key, found in spans.items()}


def label_positions(computation: NnetComputation) -> dict[str, int]:
    return {c.name: number for number, c in enumerate(computation.commands) if isinstance(c, Label)}


def find_label(labels: dict[str, int], name: str) -> int:
    if name not in labels:
        raise ExecutionError(f"a goto names label '{name}', but the labels are: {', '.join(labels) or 'none'}")
    return labels[name]


def _walk(
    computation: NnetComputation, start: int, resident: frozenset[int], spans: dict[int, list[Span]]
) -> tuple[str | None, frozenset[int]]:
    """Go from `start` to the next goto or the end, adding spans; returns the goto's label and what is in memory there.

    A key that is begun twice or ended without having begun is left alone: the checker reports such programs.
    """
    begun = dict.fromkeys(resident, start)

    def end(key: int, number: int) -> None:
        if key in begun:
            spans[key].append((begun.pop(key), number))

    target, number = None, start
    for number in range(start, len(computation.commands)):
        command = computation.commands[number]
        if isinstance(command, AllocMatrix):
            begun.setdefault(_matrix(computation, command.matrix), number)
        elif isinstance(command, DeallocMatrix):
            end(_matrix(computation, command.matrix), number)
        elif isinstance(command, SwapMatrix):
            first, second = _matrix(computation, command.first), _matrix(computation, command.second)
            if (first in begun) != (second in begun):
                alive, other = (first, second) if first in begun else (second, first)
                end(alive, number)
                begun[other] = number
        elif isinstance(command, CompressMatrix):
            matrix = _matrix(computation, command.matrix)
            end(matrix, number)
            begun[-matrix] = number
        elif isinstance(command, DecompressMatrix):
            matrix = _matrix(computation, command.matrix)
            end(-matrix, number)
            begun[matrix] = number
        elif isinstance(command, Goto):
            target = command.label
            break
    at_end = frozenset(begun)
    for key in at_end:
        end(key, number)
    return target, at_end


def _matrix(computation: NnetComputation, submatrix: int) -> int:
    return computation.submatrices[submatrix].matrix
