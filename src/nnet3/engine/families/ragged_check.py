"""CheckedLengths: checks of a ragged program for some lengths hold for every set of the checked lengths.

The checker looks at rows: a command must find the rows to read, and operands must have equal numbers of rows.
Each row belongs to one sequence, whose length alone decides whether a command has the row; and all sequences of the
program are alike. So a set of lengths breaks a rule only if one length does. A check covers as many lengths as
the program has sequences; after a few checks all lengths are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnet3.engine.families.precomputed import KernelRules
from nnet3.engine.families.ragged_program import RaggedProgram
from nnet3.engine.families.ragged_rows import NotRaggedError
from nnet3.engine.families.restriction import restricted
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.errors import ComputationCheckError, RequestError


class CheckedLengths:
    """A ragged program, and the lengths checked for it."""

    def __init__(self, program: RaggedProgram, alike: Callable[[int], int] = int) -> None:
        """`alike`: from a length to one for which the program is as right, the same for all lengths alike."""
        self.program, self._alike = program, alike
        self._known: set[int] = set()
        self._looks_ahead = True

    def check(self, missing: Sequence[int], computation: NnetComputation, rules: KernelRules | None = None) -> None:
        """Raise ComputationCheckError if the program is wrong for the lengths; `computation` is the lengths' program.

        `missing` (sequences,): the frames that each sequence lacks, ascending. Lengths between are checked as well,
        until a length is wrong. Where kernels want their rows in an order of their own, the first program of each
        variant is checked too. `rules`: see `restricted`.
        """
        new = set(map(self._alike, missing)) - self._known
        if new and self._looks_ahead:
            chosen = {self._alike(missing[0]): missing[0]}  # kernels have orders for the longest sequence of the set
            for each in (*missing, *range(missing[0], missing[-1])):
                if len(chosen) < self.program.num_sequences and self._alike(each) not in self._known:
                    chosen.setdefault(self._alike(each), each)
            together = sorted([*chosen.values(), *[missing[0]] * (len(missing) - len(chosen))])
            try:
                check_computation(restricted(self.program, together, rules, is_lazy=False))
                self._known.update(chosen)
                new = set()
            except (ComputationCheckError, NotRaggedError, RequestError):
                self._looks_ahead = False
        orders_rows = any(entry is not None and entry.orders_rows for entry in self.program.entries)
        if new or (orders_rows and not computation.is_lazy):
            check_computation(computation)
            self._known.update(map(self._alike, missing))
