"""build_graph: which cindexes a request involves and what each uses, by two sweeps over arrays of times."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.lowering.explain import complain_not_computable
from nnet3.lowering.graph import ComputationGraph
from nnet3.lowering.numbering import number_cindexes
from nnet3.lowering.source import GraphRules, LoweringRequest
from nnet3.lowering.sweeps import Sweeps


def build_graph(source: GraphRules, request: LoweringRequest) -> ComputationGraph:
    """The cindexes of a request. The source must not change afterwards: what follows from it alone is kept with it.

    Raises NotComputableError for outputs out of reach, RequestError for a recurrence that never ends and for indexes
    near the limits of int32.
    """
    sweeps = Sweeps(source, request)
    sweeps.run()
    if not all(rows.all() for rows in sweeps.outputs_computable()):
        complain_not_computable(sweeps)
    return number_cindexes(
        sweeps.domain,
        sweeps.tables,
        sweeps.need,
        sweeps.computability.used,
        sweeps.given,
        sweeps.samples,
        sweeps.classes,
    )


def computable_outputs(source: GraphRules, request: LoweringRequest) -> list[npt.NDArray[np.bool_]]:
    """For each requested output, which of its rows (rows,) are computable. One without samples counts as one row."""
    sweeps = Sweeps(source, request)
    sweeps.run_computable()
    return sweeps.outputs_computable()
