"""The rows given and asked for by a user, in the matrices of the nodes.

Rows 3, 1 and 2 of a node lie in the stretch of 3 rows from row 1 on, as rows 2, 0 and 1 of the stretch:

>>> from tests.lowering.examples import splice
>>> each = splice()
>>> io = RequestedRows(3, "output", np.array([(0, 3, 0), (0, 1, 0), (0, 2, 0)], np.int32))
>>> output_block(each.schedule, io)
Step(node=3, first=1, num_rows=3)
>>> user_rows(each.schedule, each.request, io).tolist()
[2, 0, 1]
"""

from __future__ import annotations

import numpy as np

from nnet3.base.index import N, distinct
from nnet3.engine.lowering.schedule import Schedule, Step
from nnet3.engine.lowering.source import LoweringRequest, RequestedRows


def output_block(schedule: Schedule, io: RequestedRows) -> Step:
    """Returns the stretch of the node's rows that holds the requested rows."""
    if schedule.nodes[io.node].num_rows is not None:
        return Step(io.node, 0, 1)
    rows = distinct(_rows(schedule, io) // schedule.graph.multiplicity)
    return Step(io.node, int(rows[0]), int(rows[-1] - rows[0]) + 1)


def user_rows(schedule: Schedule, request: LoweringRequest, io: RequestedRows) -> np.ndarray | None:
    """Returns the position of each of the user's rows in the output's stretch or among the input's rows, (rows,).

    None if they are in order and complete.
    """
    if schedule.nodes[io.node].num_rows is not None:
        return None
    m = schedule.graph.multiplicity
    is_input = any(io is each for each in request.inputs)
    _, first, count = Step(io.node, 0, schedule.num_given[io.node]) if is_input else output_block(schedule, io)
    rows = _rows(schedule, io) - first * m
    return None if len(rows) == count * m and (rows == np.arange(len(rows))).all() else rows


def _rows(schedule: Schedule, io: RequestedRows) -> np.ndarray:
    """Returns the row of each of the user's rows in the node's matrix, members of classes included."""
    graph = schedule.graph
    if graph.multiplicity == 1:
        return schedule.row_of_item[graph.cindex_ids(io.node, io.indexes)].astype(np.int64)
    ns = graph.members.reshape(-1)
    order = np.argsort(ns)
    position = order[np.searchsorted(ns, io.indexes[:, N], sorter=order)]
    representative, member = np.divmod(position, graph.multiplicity)
    table = io.indexes.copy()
    table[:, N] = graph.members[representative, 0]
    rows = schedule.row_of_item[graph.cindex_ids(io.node, table)]
    return rows.astype(np.int64) * graph.multiplicity + member
