"""RaggedFamily: programs for sequences that end at different times, made of a program for equal, longer sequences.

No row of a sequence looks at rows of a second sequence, so a graph is the graphs of its sequences side by side. Before
giving a program, `RaggedFamily` compares the graph of each new length with the graph of the longer sequence. The
shorter graph must be the longer graph without the rows beyond the sequence's end, and without the slots that look at
rows beyond the end. Then the longer program, restricted to the existing rows (`families.ragged`), computes each row
from exactly the rows of the shorter graph: a slot without a row counts as zero, like an unused slot of a gathered
node. Derivatives come from the existing users; updates and statistics see the existing rows. Kernels precompute their
tables anew, from existing rows.

A sequence may be so short that its graph lacks further rows: if outputs look at t - 20 and t + 20, three outputs need
nothing at t = 3. The restricted program computes unneeded rows for nobody. The program is refused where unneeded rows
would matter: with derivatives or statistics, or with kernels that look at all rows together. (Kernels with self-repair
change even zero derivatives.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from nnet3.base.index import IndexTable, N, T
from nnet3.engine.driver.task import CompileTask, RaggedRelation
from nnet3.engine.families.precomputed import KernelRules
from nnet3.engine.families.ragged_check import CheckedLengths
from nnet3.engine.families.ragged_program import RaggedProgram
from nnet3.engine.families.ragged_rows import ALWAYS, NEVER, NotRaggedError
from nnet3.engine.families.restriction import restricted
from nnet3.engine.families.row_order import with_row_order
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import present
from nnet3.engine.ir.program_tables import MatrixInfo
from nnet3.engine.lowering.build_graph import build_graph
from nnet3.engine.lowering.continuation import EarlierEnds
from nnet3.engine.lowering.graph import ComputationGraph
from nnet3.engine.lowering.scheduler import schedule
from nnet3.engine.lowering.source import GraphSource, LoweringRequest, NodeKind, RequestedRows
from nnet3.engine.lowering.structure import structure_of


class RaggedFamily:
    """Restricts the program of a task for equal sequences to shorter sequences of any lengths."""

    def __init__(self, relation: RaggedRelation, program: NnetComputation) -> None:
        """`program`: the program of the relation's longer task. Raises NotRaggedError."""
        source, request = relation.longer.lowered_from()
        one = _of_sequences(request, [0])
        self._graph = build_graph(source, one)
        if self._graph.all_samples:
            raise NotRaggedError("a node looks at all rows at once")
        self._granularity, self._ending = relation.granularity, partial(_ending_earlier, one, relation.lasting)
        times = range(relation.granularity, relation.period + 1, relation.granularity)
        shorter = [build_graph(source, self._ending(time)) for time in times]
        self._period, self._units = relation.period, len(times)
        learns = request.needs_backward or request.store_component_stats
        #: Rows that nobody needs would make a difference to others, or to what is learned.
        self._mixes_rows = learns or any(kernel.uses_memo for kernel in program.kernels)
        self._rows = {rows.name: rows.indexes for rows in (*request.inputs, *request.outputs)}
        self._nodes = set(self._graph.node_names)
        #: The last time of each node in sequences that are 0, 1, ... units shorter, up to a period. Other nodes have
        #: the same rows in all of them.
        self._ends: dict[str, np.ndarray] = {}
        self._before_end = np.full(self._graph.num_cindexes, ALWAYS)
        for node, name in enumerate(self._graph.node_names):
            of_graphs = [
                graph.indexes[slice(*graph.first[node : node + 2]), T].astype(np.int64)
                for graph in (self._graph, *shorter)
            ]
            if len(of_graphs[0]) != len(of_graphs[-1]):
                self._ends[name] = np.array([times.max(initial=-NEVER) for times in of_graphs[:-1]])
                if (np.diff(self._ends[name], append=of_graphs[-1].max(initial=-NEVER)) > 0).any():
                    raise NotRaggedError(f"{name} ends later in some shorter sequences")
                rows = slice(*self._graph.first[node : node + 2].tolist())
                self._before_end[rows] = self._units_before_end(name, of_graphs[0])
        self._program = RaggedProgram(program, self._distances, _recurrent_steps(source, request))
        self._program.locate_entries(KernelRules(source))
        rows, added = self._program.rows.before_end, 0
        series = None if program.member is None else relation.longer.series()
        if program.member is not None and series is not None:
            added = program.member.k * series.increment[T] // relation.granularity
        #: The units that sequences may lack to end among the periods that the smallest program lacks.
        self._repeating = 1 + int(rows[rows < ALWAYS].max(initial=-1)) - added, added
        self._checked = CheckedLengths(self._program, self._checked_as)
        self._late: set[int] = set()  # nodes that are computed for some time beyond their end
        self._check_rows_of_kernels()
        self._ends_alike = EarlierEnds(self._ending, relation.period)
        self._known: dict[tuple[int, ...], str] = {}  # why sequences have other graphs, "" if they have not

    def _checked_as(self, missing: int) -> int:
        """Returns the fewest units that a sequence may lack for the program to do the same at its end.

        The program is the smallest of its family with periods in addition, which are alike.
        """
        first, end = self._repeating
        return first + (missing - first) % self._units if first <= missing <= end else missing

    def _distances(self, info: MatrixInfo) -> np.ndarray:
        """Returns how many units before the end of its node each row of a matrix lies."""
        node = info.node if info.node in self._nodes else info.node.rpartition("[")[0]  # a detour's name ends in [0]
        if node not in self._nodes:
            raise NotRaggedError(f"rows of several nodes are brought together ({info.node})")
        times = present(info.indexes)[:, T].astype(np.int64)
        return self._units_before_end(node, times) if node in self._ends else np.full(len(times), ALWAYS)

    def _units_before_end(self, node: str, times: np.ndarray) -> np.ndarray:
        """Returns by how many units a sequence may be shorter with the node still having rows of these times."""
        ends = self._ends[node]
        periods, rest = np.divmod(ends[0] - times, self._period)
        return periods * self._units + np.searchsorted(ends[0] - ends, rest, side="right") - 1

    def program(self, relation: RaggedRelation, task: CompileTask) -> NnetComputation:
        """Returns the program of a task of this relation. Raises NotRaggedError or ComputationCheckError for a task
        without one.
        """
        self._check(relation, task)
        rules = KernelRules(task.lowered_from()[0])
        program = restricted(self._program, relation.missing, rules, relation.numbers)
        inside, number_of_n = dict[tuple[str, bool], np.ndarray](), np.array(relation.numbers)
        for (name, is_deriv), exists in self._program.existing_rows(relation.missing).items():
            rows = self._rows[name][exists]
            rows[:, N] = number_of_n[rows[:, N]]
            inside[name, is_deriv] = rows
        program = with_row_order(program, inside, relation.rows)
        self._checked.check(relation.missing, program, rules)
        return program

    # ---- the proof ----

    def _check_rows_of_kernels(self) -> None:
        """Raise NotRaggedError unless kernels certainly work on the rows of their node, each row once.

        Rows with shared memory have no fixed times, and some values lie in the matrix of a user. A
        kernel that does not learn may work on later rows too, if nobody looks at absent rows (see `_fault`).
        """
        for (name, does, _, _), found in self._program.operands.rows_of_kernels().items():
            node = self._graph.node_names.index(name) if name in self._nodes else -1
            expected = self._before_end[slice(*self._graph.first[node : node + 2].tolist())] if node >= 0 else found[:0]
            late = not does.startswith("learn") and len(found) == len(expected)
            if np.array_equal(np.sort(found), np.sort(expected)):
                continue
            if late and (np.sort(found) > np.sort(expected)).all():
                self._late.add(node)
            elif not _are_rows_of_node(found, expected, does):
                raise NotRaggedError(f"it is not certain on which rows the kernel of {name} works")

    def _check(self, relation: RaggedRelation, task: CompileTask) -> None:
        """Raise NotRaggedError unless each sequence's graph is the longer graph without the rows beyond its end."""
        counts = [
            np.bincount(rows[:, N], minlength=len(relation.numbers))[list(relation.numbers)]
            for rows in relation.rows.values()
        ]
        keys = list(zip(relation.missing, *(count.tolist() for count in counts), strict=True))
        new = {key: number for key, number in zip(keys, relation.numbers, strict=True) if key not in self._known}
        if new:
            self._look_up(new, *task.lowered_from())
        for key in keys:
            if self._known[key]:
                raise NotRaggedError(self._known[key])

    def _look_up(self, new: Mapping[tuple[int, ...], int], source: GraphSource, request: LoweringRequest) -> None:
        """Find the faults of sequences by how many units they lack and how many rows they have.

        A sequence that ends as the longer one does is looked at as the longest one of which the same is found.
        """
        alike, asked = dict(zip(new, new, strict=True)), dict[tuple[int, ...], LoweringRequest]()
        for key, number in new.items():
            own = self._ending(key[0] * self._granularity)
            if _key(key[0], own) == key:
                time = self._ends_alike.alike(source, key[0] * self._granularity)
                own = self._ending(time)
                alike[key] = _key(time // self._granularity, own)
            else:
                own = _of_sequences(request, [number])
            asked[alike[key]] = own
        asked = {key: own for key, own in asked.items() if key not in self._known}
        if asked:
            fault = self._fault(source, _side_by_side(list(asked.values())), np.array([key[0] for key in asked]))
            self._known |= dict.fromkeys(asked, fault)
        self._known |= {key: self._known[alike[key]] for key in new}

    def _fault(self, source: GraphSource, request: LoweringRequest, missing: np.ndarray) -> str:
        """Returns the fault of the graphs of sequences that lack `missing` units; "" without a fault."""
        graph = build_graph(source, request).told_apart()
        long, exists = self._graph, self._before_end[:, np.newaxis] >= missing
        ids = np.flatnonzero(~self._is_beyond(graph, missing))
        ends = np.searchsorted(graph.node[ids], np.arange(len(long.node_names) + 1)).tolist()
        cells, which = self._cells_of(graph, ids, ends), graph.indexes[ids, N]
        if (cells < 0).any() or not exists[cells, which].all():
            return "what shorter sequences need does not end where they do"
        has_more = len(ids) < exists.sum()
        if has_more and self._mixes_rows:
            return "shorter sequences need fewer rows before their end, and all rows together make a difference"
        id_of_cell = np.full((long.num_cindexes + 1, len(missing)), -1, dtype=np.int32)  # the last for slots not in use
        id_of_cell[cells, which] = ids
        for node, name in enumerate(long.node_names):
            own = slice(ends[node], ends[node + 1])
            if own.start == own.stop or not long.slots[node].shape[1]:
                continue
            used = long.slots[node][cells[own] - long.first[node]]
            left = id_of_cell[used, which[own, np.newaxis]]
            is_lost = (used >= 0) & (left < 0)
            is_same = np.array_equal(left, graph.slots[node][ids[own] - graph.first[node]])
            if not is_same or (has_more and (is_lost & exists[used, which[own, np.newaxis]]).any()):
                return f"rows of {name} use something else at the end of a sequence"
            if self._late and self._late.intersection(
                _seen(source, each) for each in np.unique(long.node[used[is_lost]])
            ):
                return f"rows of {name} look beyond the end of rows that share a buffer"
            lost = is_lost.any(axis=0)
            parts = source.nodes[node].parts
            if any(each.default and lost[each.first_slot : each.first_slot + each.num_slots].any() for each in parts):
                return f"rows of {name} are not zero beyond the end of a sequence"
        return ""

    def _cells_of(self, graph: ComputationGraph, ids: np.ndarray, ends: Sequence[int]) -> np.ndarray:
        """Returns the cindexes of the longer sequence for the given ones, -1 for none; `ends`: where nodes begin."""
        cells = np.full(len(ids), -1)
        for node, (first, end) in enumerate(pairwise(ends)):
            if first < end:
                indexes = graph.indexes[ids[first:end]]
                indexes[:, N] = 0
                cells[first:end] = self._graph.cindex_ids(node, indexes)
        return cells

    def _is_beyond(self, graph: ComputationGraph, missing: np.ndarray) -> np.ndarray:
        """Returns a mask of given cindexes later than the inputs of the longer request, shortened alike, would be."""
        always = np.full(self._units, ALWAYS)
        ends = np.array([self._ends.get(name, always) for name in graph.node_names])
        periods, units = np.divmod(missing[graph.indexes[:, N]], self._units)
        last = ends[graph.node, units] - self._period * periods
        return np.asarray(graph.is_input & (graph.indexes[:, T] > last))


def program_of_frames(task: CompileTask, program: NnetComputation, length: int) -> RaggedProgram:
    """Returns the program of a task whose sequences all have frames 0 to `length` - 1, as a program for all lengths.

    A node has equal frames in a sequence alone, so that no proof about graphs is needed. Raises NotRaggedError
    unless each kernel works on the rows of its node, and the kernel's operands have the rows.
    """

    def distances(info: MatrixInfo) -> np.ndarray:
        return length - 1 - present(info.indexes)[:, T].astype(np.int64)

    source, request = task.lowered_from()
    graph = build_graph(source, request)
    ragged = RaggedProgram(program, distances, _recurrent_steps(source, request, graph))
    for (name, does, _, _), found in ragged.operands.rows_of_kernels(apart=True).items():
        expected = found[:0]
        if name in graph.node_names:
            node = graph.node_names.index(name)
            rows = graph.indexes[graph.first[node] : graph.first[node + 1]]
            expected = length - 1 - rows[rows[:, N] == 0, T].astype(np.int64)
        if not _are_rows_of_node(found, expected, does):
            raise NotRaggedError(f"it is not certain on which rows the kernel of {name} works")
    if any(not ragged.operands.has_rows(each) for unlike in ragged.unlike_of.values() for each in unlike.values()):
        raise NotRaggedError("a kernel reads rows that end before its own")
    return ragged


def _are_rows_of_node(found: np.ndarray, expected: np.ndarray, does: str) -> bool:
    """Tells whether a kernel works on its node's rows, each once; going backward without learning, on some."""
    values, counts = np.unique(found, return_counts=True)
    of_node = (expected[:, np.newaxis] == values).sum(axis=0)
    return bool((counts <= of_node).all() if does == "backward" else np.array_equal(np.sort(found), np.sort(expected)))


def _seen(source: GraphSource, node: int) -> int:
    """Returns the node under a chain of views; the node itself unless it is a view."""
    while source.nodes[node].kind is NodeKind.VIEW:
        node = source.nodes[node].operands[0].node
    return node


def _of_sequences(request: LoweringRequest, numbers: Sequence[int]) -> LoweringRequest:
    """Returns the request for these sequences alone."""

    def cut(rows: RequestedRows) -> RequestedRows:
        return replace(rows, indexes=rows.indexes[np.isin(rows.indexes[:, N], numbers)])

    return replace(request, inputs=list(map(cut, request.inputs)), outputs=list(map(cut, request.outputs)))


def _side_by_side(requests: Sequence[LoweringRequest]) -> LoweringRequest:
    """Returns the request for the sequences of requests for one sequence each, as sequences 0, 1, ...."""

    def joined(all_rows: tuple[RequestedRows, ...]) -> RequestedRows:
        indexes = np.concatenate([rows.indexes for rows in all_rows])
        indexes[:, N] = np.repeat(np.arange(len(all_rows)), [len(rows.indexes) for rows in all_rows])
        return replace(all_rows[0], indexes=indexes)

    inputs, outputs = (
        list(map(joined, zip(*sides, strict=True)))
        for sides in zip(*((each.inputs, each.outputs) for each in requests), strict=True)
    )
    return replace(requests[0], inputs=inputs, outputs=outputs)


def _key(missing: int, request: LoweringRequest) -> tuple[int, ...]:
    """Returns what sequences of one key have in common: how many units they lack, and their numbers of rows."""
    return missing, *(len(rows.indexes) for rows in (*request.inputs, *request.outputs))


def _recurrent_steps(
    source: GraphSource, request: LoweringRequest, graph: ComputationGraph | None = None
) -> dict[str, list[IndexTable]]:
    """Returns the rows of each step of the kernels in recurrences, by the name of the node."""
    result: dict[str, list[IndexTable]] = {}
    if any(structure_of(source).is_recurrent):
        made = schedule(source, graph or build_graph(source, request))
        for epoch in made.epoch_steps:
            for step in made.steps[epoch.first : epoch.end] if epoch.is_recurrent else ():
                if made.nodes[step.node].kind is NodeKind.KERNEL:
                    result.setdefault(made.nodes[step.node].name, []).append(made.step_indexes(step))
    return result


def _ending_earlier(request: LoweringRequest, lasting: frozenset[str], time: int) -> LoweringRequest:
    def cut(rows: RequestedRows) -> RequestedRows:
        if rows.name in lasting:
            return rows
        times = rows.indexes[:, T]
        return replace(rows, indexes=rows.indexes[times <= times.max() - time])

    return replace(request, inputs=list(map(cut, request.inputs)), outputs=list(map(cut, request.outputs)))
