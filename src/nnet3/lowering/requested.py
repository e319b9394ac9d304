"""Where the rows that a user gives and asks for lie in the matrices of their nodes."""

from __future__ import annotations

import numpy as np

from nnet3.index import N, distinct
from nnet3.lowering.schedule import Schedule, Step
from nnet3.lowering.source import LoweringRequest, RequestedRows


def output_block(schedule: Schedule, io: RequestedRows) -> Step:
    """The stretch of the node's rows that holds what is asked for.

    Of rows 5, 3 and 4 of node 1 the stretch is 3 rows from row 3 on: Step(1, 3, 3).
    """
    if schedule.nodes[io.node].num_rows is not None:
        return Step(io.node, 0, 1)
    rows = distinct(_rows(schedule, io) // schedule.graph.multiplicity)
    return Step(io.node, int(rows[0]), int(rows[-1] - rows[0]) + 1)


def user_rows(schedule: Schedule, request: LoweringRequest, io: RequestedRows) -> np.ndarray | None:
    """For each of the user's rows, (rows,), the row of the output's stretch or of the rows that an input has.

    None if they are the same. Whoever asks for rows 5, 3 and 4 of a node gets [2, 0, 1].
    """
    if schedule.nodes[io.node].num_rows is not None:
        return None
    m = schedule.graph.multiplicity
    is_input = any(io is each for each in request.inputs)
    _, first, count = Step(io.node, 0, schedule.num_given[io.node]) if is_input else output_block(schedule, io)
    rows = _rows(schedule, io) - first * m
    return None if len(rows) == count * m and (rows == np.arange(len(rows))).all() else rows


def _rows(schedule: Schedule, io: RequestedRows) -> np.ndarray:
    """The row of each of the user's rows in the node's matrix, members of classes included."""
    graph = schedule.graph
    if graph.multiplicity == 1:
        return schedule.row_of_item[graph.cindex_ids(io.node, io.indexes)].astype(np.int64)
    ns = graph.members.reshape(-1)
    order = np.argsort(ns)
    place = order[np.searchsorted(ns, io.indexes[:, N], sorter=order)]
    representative, member = np.divmod(place, graph.multiplicity)
    table = io.indexes.copy()
    table[:, N] = graph.members[representative, 0]
    first_member = member == 0
    if first_member.sum() * graph.multiplicity == len(table):
        ids = _spread(schedule, table, first_member, io.node)
    else:
        ids = graph.cindex_ids(io.node, table).astype(np.int64)
    return schedule.row_of_item[ids] * graph.multiplicity + member


def _spread(schedule: Schedule, table: np.ndarray, first: np.ndarray, node: int) -> np.ndarray:
    """The ids of the rows of a table, looked up for first members alone where the others follow the same order."""
    m = schedule.graph.multiplicity
    found = schedule.graph.cindex_ids(node, table[first])
    if (np.repeat(table[first], m, axis=0) == table).all():
        return np.repeat(found, m).astype(np.int64)  # members side by side
    if len(schedule.graph.members) == 1 and (np.tile(table[first], (m, 1)) == table).all():
        return np.tile(found, m).astype(np.int64)  # sequence by sequence
    return schedule.graph.cindex_ids(node, table).astype(np.int64)
