"""Asynchronous evaluation (Algorithm 1.3): units of a network computed by several workers as they become ready."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from nnet3.cn.copying import copy_contents
from nnet3.cn.network import Network
from nnet3.cn.node import Node
from nnet3.cn.order import Composite, needed_nodes
from nnet3.cn.program import Question
from nnet3.cn.runners import Runners
from nnet3.cn.samples import SampleLayout
from nnet3.errors import NetworkError, check_kind
from nnet3.text import did_you_mean


@dataclass(frozen=True, eq=False)
class Unit:
    """Nodes that are computed together: a node, a loop, or a chain of these without branches.

    `outputs`: those whose values others need. `children`: numbers of the units whose values it needs; `operands`: those
    values and inputs.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    operands: tuple[Node, ...]
    children: tuple[int, ...]

    def cost(self, num_samples: int) -> int:
        """Roughly the number of multiplications, or of elements where there are none."""
        return sum(node_cost(node, num_samples) for node in self.nodes)


def node_cost(node: Node, num_samples: int) -> int:
    columns = node.shape.num_cols or num_samples
    if node.operation.weights:  # a matrix product
        return node.shape.rows * columns * (node.operands[node.operation.weights[0]].shape.num_cols or 1)
    largest = max([node.shape.rows, *(operand.shape.rows for operand in node.operands)])
    return largest * max(columns, num_samples if any(o.shape.has_samples for o in node.operands) else 1)


def find_units(composites: Sequence[Composite], needed: Collection[Node], roots: Collection[Node]) -> list[Unit]:
    """The needed nodes that are computed, in units, in forward order.

    A composite joins the unit of its only operand if nobody else uses that, so that a branch is one unit.
    """
    needed_set = set(needed)
    computed = [
        composite for composite in composites if composite.nodes[0] in needed_set and composite.nodes[0].is_evaluated
    ]
    group_of: dict[Node, int] = {}
    users: dict[Node, set[int]] = {}
    for number, composite in enumerate(computed):
        group_of.update(dict.fromkeys(composite.nodes, number))
    for number, composite in enumerate(computed):
        for node in composite.nodes:
            for operand in node.operands:
                if operand in group_of and group_of[operand] != number:
                    users.setdefault(operand, set()).add(number)
    unit_of = list(range(len(computed)))
    members: dict[int, list[Node]] = {}
    for number, composite in enumerate(computed):
        outside = {o for node in composite.nodes for o in node.operands if o in group_of and group_of[o] != number}
        below = {unit_of[group_of[operand]] for operand in outside}
        if len(below) == 1:
            unit = below.pop()
            others = {user for node in members[unit] for user in users.get(node, ()) if unit_of[user] != unit}
            if others == {number} and not any(node in roots for node in members[unit]):
                unit_of[number] = unit
        members.setdefault(unit_of[number], []).extend(composite.nodes)
    numbers = {unit: place for place, unit in enumerate(members)}
    owner = {node: numbers[unit] for unit, nodes in members.items() for node in nodes}
    return [_unit(nodes, owner, numbers[unit], users, unit_of, numbers, roots) for unit, nodes in members.items()]


def _unit(
    nodes: list[Node],
    owner: dict[Node, int],
    number: int,
    users: dict[Node, set[int]],
    unit_of: list[int],
    numbers: dict[int, int],
    roots: Collection[Node],
) -> Unit:
    outputs = [n for n in nodes if n in roots or any(numbers[unit_of[u]] != number for u in users.get(n, ()))]
    operands = dict.fromkeys(o for node in nodes for o in node.operands if owner.get(o) != number)
    given = tuple(operand for operand in operands if not operand.is_stored)
    children = dict.fromkeys(owner[operand] for operand in given if operand in owner)
    return Unit(tuple(nodes), tuple(outputs), given, tuple(children))


@dataclass(eq=False)
class Task:
    """A unit in one evaluation: `finished_children` counts up to the number of its children."""

    number: int
    unit: Unit
    cost: int
    finished_children: int = 0


@dataclass
class Worker:
    """A thread that computes on a device, with its own copy of the network if that lies on another one."""

    number: int
    device: torch.device
    network: Network
    runners: Runners


Policy: TypeAlias = Callable[[Sequence[Task], "Evaluation", Worker], Task]


def first_come(ready: Sequence[Task], evaluation: Evaluation, worker: Worker) -> Task:
    """First come, first served."""
    return ready[0]


def shortest_task(ready: Sequence[Task], evaluation: Evaluation, worker: Worker) -> Task:
    """The least work first, by a count of multiplications."""
    return min(ready, key=lambda task: task.cost)


def least_data_movement(ready: Sequence[Task], evaluation: Evaluation, worker: Worker) -> Task:
    """The one whose operands need the fewest numbers that another worker has computed."""

    def moved(task: Task) -> int:
        makers, values = evaluation.maker, evaluation.values
        return sum(
            values[node].numel() for node in task.unit.operands if makers.get(node, worker.number) != worker.number
        )

    return min(ready, key=moved)


POLICIES: dict[str, Policy] = {
    "first come": first_come,
    "shortest task": shortest_task,
    "least data movement": least_data_movement,
}


@dataclass(frozen=True)
class Dispatched:
    """One line of the record of an evaluation: which worker computed a unit, and when (seconds from the beginning)."""

    worker: int
    nodes: tuple[str, ...]
    start: float
    end: float


class AsynchronousEvaluator:
    """Evaluates a network with several workers, each a thread; results are those of `Network.evaluate`.

    `policy`: "first come", "shortest task" or "least data movement". `devices`: one for each worker; by default
    `workers` threads on the network's own. PyTorch's own threads multiply with the workers: with as many workers as
    cores, call `torch.set_num_threads(1)`. `record` says what the last evaluation did.
    """

    def __init__(
        self,
        network: Network,
        workers: int = 2,
        policy: str = "first come",
        *,
        devices: Sequence[str | torch.device] | None = None,
    ):
        check_kind(network, Network, "what is evaluated", "a network")
        check_kind(workers, int, "workers", "an integer")
        if policy not in POLICIES:
            hint = did_you_mean(policy, POLICIES) or f"there is: {', '.join(POLICIES)}"
            raise NetworkError(f"there is no policy '{policy}'; {hint}")
        if workers < 1 and not devices:
            raise NetworkError(f"expected at least one worker, got {workers}")
        self.network, self.policy = network, POLICIES[policy]
        self.record: list[Dispatched] = []
        self._devices = [torch.device(device) for device in devices] if devices else [None] * workers
        self._copies: dict[torch.device, Network] = {}
        self._workers: list[Worker] = []
        self._find_workers()

    def _find_workers(self) -> None:
        """Workers with networks that are as the network is now, made anew only when it has moved to another device."""
        network = self.network
        places = [network.device if device is None else device for device in self._devices]
        if [worker.device for worker in self._workers] != places:
            missing = set(places) - {network.device, *self._copies}
            self._copies |= {place: network.copy().to(device=place) for place in missing}
            networks = [network if place == network.device else self._copies[place] for place in places]
            self._workers = [
                Worker(number, place, each, Runners(each))
                for number, (place, each) in enumerate(zip(places, networks, strict=True))
            ]
        for worker_network in {id(worker.network): worker.network for worker in self._workers}.values():
            if worker_network is not network:
                copy_contents(network, worker_network)

    def evaluate(self, node: Node | str | Sequence[Node | str], inputs: Mapping[str, Any] | None = None) -> Any:
        """Returns what `Network.evaluate` does. An error in a worker stops the others and is raised here."""
        if not isinstance(node, Sequence) or isinstance(node, str):
            return self.evaluate([node], inputs)[0]
        network = self.network
        roots = [network.find(each) for each in node]
        if network._nodes.is_staged:
            raise NetworkError("nodes of whole sequences and samples on several axes are evaluated by Network.evaluate")
        layouts, values = network.given_values(roots, {} if inputs is None else inputs)
        self._find_workers()
        units = find_units(network.composites, needed_nodes(network.nodes, roots, ()), set(roots))
        evaluation = Evaluation(self, units, layouts.on(""), values)
        evaluation.run()
        self.record = sorted(evaluation.record, key=lambda each: each.start)
        return [network.shown(root, evaluation.values, layouts) for root in roots]


class Evaluation:
    """One evaluation: the waiting and the ready set of Algorithm 1.3, guarded by one lock."""

    def __init__(
        self,
        evaluator: AsynchronousEvaluator,
        units: Sequence[Unit],
        layout: SampleLayout | None,
        values: dict[Node, Tensor],
    ):
        self.evaluator, self.layout, self.values = evaluator, layout, values
        self.maker: dict[Node, int] = {}
        self.record: list[Dispatched] = []
        samples = 1 if layout is None else layout.num_samples
        tasks = [Task(number, unit, unit.cost(samples)) for number, unit in enumerate(units)]
        self.parents: list[list[Task]] = [[] for _ in tasks]
        for task in tasks:
            for child in task.unit.children:
                self.parents[child].append(task)
        self.ready = [task for task in tasks if not task.unit.children]
        self.waiting = {task for task in tasks if task.unit.children}
        self.num_running = 0
        self.error: BaseException | None = None
        self.changed = threading.Condition()
        self.began = time.perf_counter()

    def run(self) -> None:
        workers = self.evaluator._workers
        with ThreadPoolExecutor(len(workers)) as pool:
            try:
                wait([pool.submit(self._work, worker) for worker in workers])
            except BaseException as error:  # Ctrl-C: nobody shall wait for tasks that never come
                self._stop(error)
        if self.error is not None:
            raise self.error

    def _stop(self, error: BaseException) -> None:
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()

    def _work(self, worker: Worker) -> None:
        while (task := self._next_task(worker)) is not None:
            start = time.perf_counter()
            try:
                found = self._compute(task, worker)
            except BaseException as error:
                self._stop(error)
                return
            names = tuple(self.evaluator.network.names[node] for node in task.unit.nodes)
            times = (start - self.began, time.perf_counter() - self.began)
            self._signal_complete(task, found, Dispatched(worker.number, names, *times))

    def _next_task(self, worker: Worker) -> Task | None:
        """ScheduleComputation: a ready task by the policy; waits for one, None when there will be no more."""
        with self.changed:
            while self.error is None and not self.ready and self.num_running:
                self.changed.wait()
            if self.error is not None or not self.ready:
                return None
            task = self.evaluator.policy(self.ready, self, worker)
            self.ready.remove(task)
            self.num_running += 1
            return task

    def _signal_complete(self, task: Task, found: Mapping[Node, Tensor], line: Dispatched) -> None:
        """SignalComplete: parents all of whose children are finished become ready."""
        with self.changed:
            self.values.update(found)
            self.maker.update(dict.fromkeys(found, line.worker))
            self.record.append(line)
            self.num_running -= 1
            for parent in self.parents[task.number]:
                parent.finished_children += 1
                if parent.finished_children == len(parent.unit.children):
                    self.waiting.discard(parent)
                    self.ready.append(parent)
            self.changed.notify_all()

    def _compute(self, task: Task, worker: Worker) -> dict[Node, Tensor]:
        unit, network, main = task.unit, worker.network, self.evaluator.network

        def theirs(nodes: Sequence[Node]) -> tuple[Node, ...]:
            return tuple(nodes) if network is main else tuple(network.find(main.names[node]) for node in nodes)

        given = tuple(node for node in unit.operands if node.operands)
        question = Question(network._nodes, theirs(unit.outputs), self.layout, theirs(given))
        runner = worker.runners.find(question)
        values = dict(
            zip(theirs(unit.operands), (self.values[n].to(worker.device) for n in unit.operands), strict=True)
        )
        found = runner.forward(values)
        return dict(zip(unit.outputs, (found[node].to(main.device) for node in theirs(unit.outputs)), strict=True))
