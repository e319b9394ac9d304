"""build_graph: which cindexes a request involves and what each uses, by two sweeps over arrays of times.

Output rows t = 0..3 of y(t) = W [x(t-1), x(t)] + b involve 17 cindexes:

>>> from tests.lowering.examples import splice
>>> each = splice()
>>> print(build_graph(each.source, each.request))
17 cindexes, 16 dependencies, 5 provided
0..4: x [ (0, -1:3) ] provided
5..8: y_input [ (0, 0:3) ] uses x
9..12: y [ (0, 0:3) ] uses y_input
13..16: output [ (0, 0:3) ] uses y
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.lowering.explain import complain_not_computable
from nnet3.lowering.graph import ComputationGraph
from nnet3.lowering.numbering import number_cindexes
from nnet3.lowering.source import GraphRules, LoweringRequest
from nnet3.lowering.sweeps import Sweeps


def build_graph(source: GraphRules, request: LoweringRequest) -> ComputationGraph:
    """Returns the cindexes of a request. What follows from the source alone is kept, so it must not change afterwards.

    Raises NotComputableError for outputs out of reach, RequestError for a recurrence that never ends and for indexes
    near the limits of int32.
    """
    sweeps = Sweeps(source, request)
    sweeps.run()
    if not all(rows.all() for rows in sweeps.outputs_computable()):
        complain_not_computable(sweeps)
    return number_cindexes(sweeps)


def computable_outputs(source: GraphRules, request: LoweringRequest) -> list[npt.NDArray[np.bool_]]:
    """Returns for each requested output which of its rows (rows,) are computable; without samples it is one row."""
    sweeps = Sweeps(source, request)
    sweeps.run_computable()
    return sweeps.outputs_computable()
