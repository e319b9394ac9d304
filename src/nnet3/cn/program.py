"""Program: what a network is asked, lowered to an NnetComputation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from nnet3.base.options.compiling import CompileOptions
from nnet3.cn.graph import NodeGraph
from nnet3.cn.node import Node
from nnet3.cn.node_text import structure_line
from nnet3.cn.samples import SampleLayout
from nnet3.cn.source import PROBE, SEQUENCE, CnSource
from nnet3.engine.driver import (
    FEWEST_MORE,
    FEWEST_SEQUENCES,
    CompileTask,
    ComputationCache,
    LengthSeries,
    SequencesSeries,
    increments_beyond,
    prove_made_of_others,
    rounded_up,
    rows_apart,
)
from nnet3.engine.families.ragged_check import CheckedLengths
from nnet3.engine.families.ragged_rows import NotRaggedError
from nnet3.engine.families.restriction import restricted
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.build_graph import build_graph
from nnet3.engine.lowering.graph import ComputationGraph
from nnet3.engine.lowering.source import LoweringRequest, NodeKind, RequestedRows
from nnet3.engine.lowering.structure import structure_of
from nnet3.errors import ComputationCheckError

_NO_ROWS = np.zeros((0, 3), np.int32)


@dataclass(frozen=True, eq=False)
class Question:
    """A question to a network, whose nodes `graph` holds.

    `outputs`: nodes whose values are wanted. `given`: computed nodes with known values. `criteria`: the outputs to be
    differentiated, with respect to the nodes marked in `flags`. `probes` and `training`: see `CnSource`. With
    `stores_statistics` components take test mode's normalization from the samples. `accumulates`: whether gradients of
    stored nodes are added to the contents of memory, or overwrite the contents. `apart`: names of nodes that stay
    separate kernels; None for all (see `fusing`). `by_frames`: whether frames are computed one by one (see `steps`).
    `hoists`: see `find_sums`.
    """

    graph: NodeGraph
    outputs: tuple[Node, ...]
    layout: SampleLayout | None
    given: tuple[Node, ...] = ()
    criteria: tuple[Node, ...] = ()
    flags: Mapping[Node, bool] = field(default_factory=dict)
    probes: tuple[Node, ...] = ()
    training: bool = False
    stores_statistics: bool = False
    accumulates: bool = True
    apart: tuple[str, ...] | None = ()
    by_frames: bool = False
    hoists: bool = True

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for questions answered by one program of a network."""
        names = self.graph.names
        flagged = (node for node, flag in self.flags.items() if flag)
        groups = (self.outputs, self.given, self.criteria, self.probes, flagged)
        named = (tuple(names[node] for node in nodes) for nodes in groups)
        layout = None if self.layout is None else self.layout.sorted
        modes = self.training, self.stores_statistics, self.accumulates, self.apart, self.by_frames, self.hoists
        return (layout, *named, *modes)


class Program:
    """The answer to one question: every stage can be looked at."""

    #: Of which it was made for other lengths, if it was.
    ragged: CheckedLengths | None = None

    def __init__(
        self,
        question: Question,
        *,
        options: CompileOptions,
        cache: ComputationCache,
        source: CnSource | None = None,
    ):
        """`source`: the source of a program for an equal question about other samples."""
        if question.layout is not None:
            question = replace(question, layout=question.layout.sorted)
        self.question, self.options, self.cache = question, options, cache
        self.source = source or CnSource(
            question.graph,
            question.outputs,
            question.flags,
            question.given,
            question.probes,
            question.training,
            question.accumulates,
            question.apart if options.optimize and options.level >= 3 else None,  # sums are rounded otherwise
            question.by_frames,
            hoists=question.hoists,
        )

    def layout_of(self, node: Node) -> SampleLayout:
        """Returns the samples of a node with samples."""
        return self.question.graph.layout_of(node, self.question.layout)

    @cached_property
    def provided(self) -> list[Node]:
        """Nodes with samples whose rows are inputs of every run."""
        nodes = self.source.nodes
        return [
            node
            for node, number in self.source.number.items()
            if nodes[number].kind is NodeKind.PROVIDED and nodes[number].num_rows is None
        ]

    @cached_property
    def sample_probes(self) -> list[Node]:
        return [node for node in self.source.probe if node.shape.has_samples]

    @cached_property
    def request(self) -> LoweringRequest:
        question, number, names = self.question, self.source.number, self.source.names
        inputs = [
            RequestedRows(number[node], names[node], self.layout_of(node).indexes, question.flags.get(node, False))
            for node in self.provided
        ]
        inputs += [
            RequestedRows(self.source.probe[node], names[node] + PROBE, self.layout_of(node).indexes, has_deriv=True)
            for node in self.sample_probes
        ]
        if self.source.sequence >= 0:
            assert question.layout is not None, "frames have samples"
            inputs.append(RequestedRows(self.source.sequence, SEQUENCE, question.layout.indexes))
        outputs = [
            RequestedRows(
                number[node],
                names[node],
                self.layout_of(node).indexes if node.shape.has_samples else _NO_ROWS,
                node in question.criteria,
            )
            for node in question.outputs
        ]
        samples = None if question.layout is None else question.layout.indexes
        needs_model = bool(question.criteria) and any(info.updatable for info in self.source.kernel_infos())
        stores = question.stores_statistics
        return LoweringRequest(inputs, outputs, needs_model, stores, samples, watches_others=True)

    @cached_property
    def graph(self) -> ComputationGraph:
        return build_graph(self.source, self.request)

    @cached_property
    def computation(self) -> NnetComputation:
        return self._restricted() or self.cache.program(self.task)

    def _restricted(self) -> NnetComputation | None:
        """Returns the program for sequences of different lengths, made of a program for more sequences, all longer.

        None without such a program, or if values at the end of a sequence are not zeros.
        """
        layout = self.question.layout
        if layout is None or not layout.is_ragged or not self.source.ends_in_zeros:
            return None
        length, count = rounded_up(layout.lengths[0]), rounded_up(len(layout.lengths))
        question = replace(self.question, layout=SampleLayout((length,) * count))
        key = (*question.key, question.graph.variants(question.training), self.options, id(self.cache))
        ragged = question.graph.ragged.get(key)
        if ragged is None:
            apart = partial(self._task_apart, question)
            ragged = self.cache.ragged(self._task_of(question)[0], apart, length)
            if ragged is None:
                return None
            question.graph.ragged[key] = ragged
        missing = [length - each for each in layout.lengths]
        try:
            computation = restricted(ragged.program, missing)
            ragged.check(missing, computation)
        except (NotRaggedError, ComputationCheckError):  # rows are left without what they are computed from
            return None
        prove_made_of_others(lambda: (self.source, self.request), self.options, computation, layout.lengths)
        self.cache.counts.restricted += 1
        self.ragged = ragged
        return computation

    @property
    def task(self) -> CompileTask:
        # With shapes, for of given nodes the operands are not among the lines.
        lines = sorted(
            f"{structure_line(node, self.source.names, operation)} {node.shape}"
            for node, operation in self.source.operations.items()
        )
        promises = sorted(map(repr, self.source.kernel_infos()))  # operations may be made anew under an old name
        key = {"cn": lines, "promises": promises, "question": self.question.key}
        signature = "cn", *lines, *promises, self.question.key[1:]  # all but the layout
        series = partial(self._series, key)
        return CompileTask(
            key,
            lambda: (self.source, self.request),
            self.options,
            series=series,
            signature=signature,
            rows=lambda: self.rows,
        )

    def _series(self, key: Mapping[str, object]) -> LengthSeries | None:
        """Returns the series of questions for sequences some frames longer or shorter, or for fewer sequences."""
        layout = self.question.layout
        if layout is None:
            return None
        if not layout.are_sequences:
            return self._series_of_sequences(key, layout)
        period = self.source.period or 1
        increment = math.lcm(period, structure_of(self.source).lag)
        k = increments_beyond(min(layout.lengths) // period, increment // period)
        if k < 0:
            return self._series_of_sequences(key, layout)

        def asked(j: int, more: int | None = None) -> Question:
            of_few = layout if more is None else layout.first_sequences(FEWEST_SEQUENCES + more)
            return replace(self.question, layout=of_few.shorter((k - j) * increment))

        def sequences() -> SequencesSeries | None:
            if layout.num_alike <= FEWEST_SEQUENCES:
                return None
            few = {**key, "question": asked(0, 0).key, "increment": increment}
            return SequencesSeries(few, layout.num_alike - FEWEST_SEQUENCES, lambda j, n: self._task_of(asked(j, n)))

        short = {**key, "question": asked(0).key, "increment": increment}
        return LengthSeries(short, k, self.rows, lambda j: self._task_of(asked(j)), (0, increment, 0), sequences)

    def _series_of_sequences(self, key: Mapping[str, object], layout: SampleLayout) -> LengthSeries | None:
        """Returns the question for few frames or lone samples as one of those for more or fewer sequences."""
        more = layout.num_alike - FEWEST_SEQUENCES
        if more < FEWEST_MORE:
            return None

        def asked(n: int) -> Question:
            return replace(self.question, layout=layout.first_sequences(FEWEST_SEQUENCES + n))

        few = {**key, "question": asked(0).key, "increment": 0}
        return LengthSeries(few, more, self.rows, lambda n: self._task_of(asked(n)), (1, 0, 0))

    def _task_of(self, question: Question) -> tuple[CompileTask, list[np.ndarray]]:
        """Returns the task of another question, and the task's indexes."""
        program = Program(question, options=self.options, cache=self.cache, source=self.source)
        return program.task, program.rows

    def _task_apart(self, question: Question) -> CompileTask:
        """Returns the task of another question, compiled so that rows of different times never share memory."""
        return Program(question, options=rows_apart(self.options), cache=self.cache, source=self.source).task

    @property
    def rows(self) -> list[np.ndarray]:
        """The indexes that the request names."""
        request = self.request
        samples = [] if request.samples is None else [request.samples]
        return [*(rows.indexes for rows in (*request.inputs, *request.outputs)), *samples]
