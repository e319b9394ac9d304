"""Why requested outputs are not computable, in terms of input frames."""

from __future__ import annotations

from typing import NoReturn

from nnet3.errors import NotComputableError
from nnet3.index import format_times
from nnet3.lowering.sweeps import Sweeps


def complain_not_computable(sweeps: Sweeps) -> NoReturn:
    """Raise NotComputableError naming the outputs and the times that are out of reach."""
    complaints = []
    for rows, computable in zip(sweeps.request.outputs, sweeps.outputs_computable(), strict=True):
        if not computable.all():
            shown = "all" if not computable.any() else format_times(rows.indexes[~computable], max_items=20)
            complaints.append(f"{rows.name} {shown}")
    raise NotComputableError("not computable: " + "; ".join(complaints))
