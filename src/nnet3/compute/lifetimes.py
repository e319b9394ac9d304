"""When which matrix needs its memory: spans of command numbers, interrupted where it is compressed."""

from __future__ import annotations

from collections import defaultdict

from nnet3.computation.commands import AllocMatrix, CompressMatrix, DeallocMatrix, DecompressMatrix, Goto
from nnet3.computation.computation import NnetComputation

Span = tuple[int, int]  # first and last command, both included
_MATTER = {AllocMatrix, DeallocMatrix, CompressMatrix, DecompressMatrix, Goto}


def matrix_spans(computation: NnetComputation) -> dict[int, list[Span]]:
    """Where each matrix is in memory, as increasing spans; key -m is the compressed form of matrix m.

    A loop needs no care: the checker demands that what is allocated in it is deallocated in it, so that what lives
    at the goto was alive before the label.
    """
    begun: dict[int, int] = {}
    spans: dict[int, list[Span]] = defaultdict(list)

    def end(key: int, number: int) -> None:
        if key in begun:
            spans[key].append((begun.pop(key), number))

    last = len(computation.commands) - 1
    for number in [n for n, command in enumerate(computation.commands) if type(command) in _MATTER]:
        command = computation.commands[number]
        if isinstance(command, AllocMatrix):
            begun[_matrix(computation, command.matrix)] = number
        elif isinstance(command, DeallocMatrix):
            end(_matrix(computation, command.matrix), number)
        elif isinstance(command, CompressMatrix):
            matrix = _matrix(computation, command.matrix)
            end(matrix, number)
            begun[-matrix] = number
        elif isinstance(command, DecompressMatrix):
            matrix = _matrix(computation, command.matrix)
            end(-matrix, number)
            begun[matrix] = number
        elif isinstance(command, Goto):
            last = number
            break
    for key in list(begun):
        end(key, last)
    return dict(spans)


def _matrix(computation: NnetComputation, submatrix: int) -> int:
    return computation.submatrices[submatrix].matrix
