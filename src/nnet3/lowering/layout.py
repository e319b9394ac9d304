"""Layout: all decisions about a task, made in stages before a command is written.

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> layout = lay_out(each.task, NnetComputation())
>>> for stage in layout.reading, layout.needs, layout.writers:
...     print(stage)
node 3: rows 0.. of node 2
node 1: 2 slots
nodes with a derivative: 0, 1, 2, 3
affine learns once from nodes [2]
derivative of node 2: 0 rows to clear
derivative of node 0: 0 rows to clear
derivative of node 1: 0 rows to clear
>>> sorted(layout.values.matrix), sorted(layout.derivs.matrix)  # the nodes that have matrices of their own
([0, 1, 2], [0, 1, 2])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from nnet3.ir.computation import NnetComputation
from nnet3.lowering.first_writers import FirstWriters, find_first_writers, receivers
from nnet3.lowering.needs import BackwardNeeds, find_needs
from nnet3.lowering.places import RowPlace, Storage, find_places
from nnet3.lowering.reading import Reading, find_reading
from nnet3.lowering.schedule import LayoutTask
from nnet3.lowering.sharing import shared_derivs, shared_values
from nnet3.lowering.source import NodeKind


@dataclass(frozen=True, eq=False)
class Layout:
    """The results of the stages; each is a value that can be printed.

    `reading`: the sources of values. `needs`: the derivatives there are. `writers`: their places and first writers.
    `values`, `derivs`: the matrices, declared in the computation.
    """

    task: LayoutTask
    reading: Reading
    needs: BackwardNeeds
    writers: FirstWriters
    values: Storage
    derivs: Storage

    @cached_property
    def step_numbers(self) -> list[int]:
        """The number of each step of the schedule among the steps of its node."""
        count = [0] * len(self.task.schedule.nodes)
        numbers = []
        for step in self.task.schedule.steps:
            numbers.append(count[step.node])
            count[step.node] += 1
        return numbers

    def receivers(self, node: int) -> list[int]:
        """Returns the nodes to whose derivatives this one writes."""
        return [] if node in self.writers.views else receivers(self.task, self.reading, self.needs, node)


def lay_out(task: LayoutTask, computation: NnetComputation) -> Layout:
    """Decides where everything lies, and declares the matrices in the computation."""
    reading = find_reading(task.schedule)
    needs = find_needs(task, reading)
    writers = find_first_writers(task, reading, needs)
    places = find_places(task.schedule, reading.views)
    shared = shared_values(task, reading, needs, places)
    values = Storage(task.schedule, computation, False, places, shared)
    derivs = Storage(task.schedule, computation, True, writers.places, shared_derivs(task, needs, writers))
    _declare(task, needs, values, derivs)
    return Layout(task, reading, needs, writers, values, derivs)


def _declare(task: LayoutTask, needs: BackwardNeeds, values: Storage, derivs: Storage) -> None:
    """Declare a matrix for each root that has rows, and for its derivative where one is needed."""
    schedule = task.schedule
    for number, node in enumerate(schedule.nodes):
        if schedule.num_rows(number) == 0:
            continue
        if node.kind is NodeKind.PROVIDED and node.num_rows is not None:
            values.bind(number, node.memory)
            if needs.needed[number]:
                derivs.bind(number, node.gradient)
            continue
        if values.places[number] == RowPlace(number):
            values.declare(number)
        if needs.needed[number] and derivs.places[number] == RowPlace(number):
            derivs.declare(number)
