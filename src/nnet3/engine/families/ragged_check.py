"""CheckedLengths: checks of a ragged program for some lengths hold for every set of the checked lengths.

The checker looks at rows: a command must find the rows to read, and operands must have equal numbers of rows.
Each row belongs to one sequence, whose length alone decides whether a command has the row; and all sequences of the
program are alike. So a set of lengths breaks a rule only if one length does. A check covers as many lengths as
the program has sequences; after a few checks all lengths are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnet3.engine.families.precomputed import KernelRules
from nnet3.engine.families.ragged_program import RaggedProgram
from nnet3.engine.families.ragged_rows import NotRaggedError
from nnet3.engine.families.restriction import restricted
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.errors import ComputationCheckError, RequestError


class CheckedLengths:
    """A ragged program, and the lengths checked for it."""

    def __init__(self, program: RaggedProgram) -> None:
        self.program = program
        self._known: set[int] = set()
        self._looks_ahead = True

    def check(self, missing: Sequence[int], computation: NnetComputation, rules: KernelRules | None = None) -> None:
        """Raise ComputationCheckError if the program is wrong for the lengths; `computation` is the lengths' program.

        `missing` (sequences,): the frames that each sequence lacks, ascending. Lengths between are checked as well,
        until a length is wrong. Where kernels want their rows in an order of their own, the first program of each
        variant is checked too. `rules`: see `restricted`.
        """
        new = set(missing) - self._known
        if new and self._looks_ahead:
            between = [each for each in range(missing[0], missing[-1]) if each not in self._known and each not in new]
            together = sorted([*new, *between[: self.program.num_sequences - len(new)]])
            try:
                check_computation(restricted(self.program, together, rules))
                self._known.update(together)
                new = set()
            except (ComputationCheckError, NotRaggedError, RequestError):
                self._looks_ahead = False
        orders_rows = any(entry is not None and entry.orders_rows for entry in self.program.entries)
        if new or (orders_rows and not computation.is_lazy):
            check_computation(computation)
            self._known.update(missing)
