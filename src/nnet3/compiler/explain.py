"""Why requested outputs are not computable, in terms of input frames."""

from __future__ import annotations

import numpy as np

from nnet3.compiler.graph_builder import GraphBuilder
from nnet3.errors import NotComputableError
from nnet3.index import format_time_span, format_times


def check_outputs_computable(builder: GraphBuilder) -> None:
    """Raise NotComputableError naming the outputs and the input times that they need, if any is not computable."""
    complaints = []
    for io, ids, computable in zip(
        builder.request.outputs, builder.output_ids, builder.outputs_computable(), strict=True
    ):
        if not computable.all():
            failing = ids[~computable]
            rows = "all" if not computable.any() else format_times(io.indexes[~computable], max_items=20)
            complaints.append(f"{io.name} {rows} {_needs(builder, failing)}")
    if complaints:
        raise NotComputableError("not computable: " + "; ".join(complaints))


def _needs(builder: GraphBuilder, failing: np.ndarray) -> str:
    """ "needs input t=-2..17; given 0..14" for every input that something required is missing from."""
    rules, request = builder.rules, builder.request
    given = {io.name: io.indexes for io in request.inputs}
    parts = []
    for node, indexes, missing in builder.required_inputs(failing):
        if not missing.any():
            continue
        name = rules.names[node]
        if name not in given:
            parts.append(f"needs {name} {format_time_span(indexes)}; none is given")
            continue
        wanted = format_time_span(indexes)
        have = format_time_span(given[name]).removeprefix("t=")
        part = f"needs {name} {wanted}; given {have}"
        if wanted.removeprefix("t=") == have or _within(indexes[missing], given[name]):
            lacking = indexes[missing]
            first = ", ".join(f"({n}, {t}, {x})" for n, t, x in lacking[:3].tolist())
            part += f", but {len(lacking)} of these are missing, first (n, t, x) = {first}"
        parts.append(part)
    if parts:
        return ", ".join(parts)
    return "depends on itself: a recurrence with no way to start (IfDefined or Failover lets it begin)"


def _within(missing: np.ndarray, given: np.ndarray) -> bool:
    """Whether some missing time lies inside the span of what is given."""
    low, high = given[:, 1].min(), given[:, 1].max()
    return bool(((missing[:, 1] >= low) & (missing[:, 1] <= high)).any())
