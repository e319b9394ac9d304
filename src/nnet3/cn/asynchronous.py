"""Asynchronous evaluation (Algorithm 1.3): units of a network computed by several workers as operands become ready.

Gradients are computed likewise, in the opposite direction: the gradient of a unit is ready when the unit's value and
the gradients of all its users are known. So one graph of tasks, two for each unit, holds both directions.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from nnet3.base.text import did_you_mean
from nnet3.cn.copying import copy_contents
from nnet3.cn.differentiation import Differentiated
from nnet3.cn.network import Network
from nnet3.cn.node import Node
from nnet3.cn.order import needed_nodes
from nnet3.cn.program import Program, Question
from nnet3.cn.runners import Runner, Runners, UnitRunner
from nnet3.cn.samples import Layouts, SampleLayout
from nnet3.cn.units import Unit, find_units
from nnet3.errors import NetworkError, check_kind


@dataclass(eq=False)
class Task:
    """The values or the gradients of a unit in one evaluation.

    `children`: numbers of the tasks that come before; `finished_children` counts up to the number of children.
    """

    number: int
    unit: Unit
    cost: int
    children: tuple[int, ...] = ()
    is_gradient: bool = False
    finished_children: int = 0


@dataclass(frozen=True)
class WantedGradients:
    """Weighted criteria to differentiate, with respect to the nodes with `flags` and to `probes`.

    `seed`: of random numbers, which are the unit's, on every worker.
    """

    criteria: Mapping[Node, float]
    flags: Mapping[Node, bool]
    probes: Collection[Node]
    training: bool
    stores_statistics: bool
    seed: int


@dataclass
class Worker:
    """A thread that computes on a device, with a copy of the network if the network lies on another device."""

    number: int
    device: torch.device
    network: Network
    runners: Runners


Policy: TypeAlias = Callable[[Sequence[Task], "Evaluation", Worker], Task]


def first_come(ready: Sequence[Task], evaluation: Evaluation, worker: Worker) -> Task:
    """Returns the task that has waited longest."""
    return ready[0]


def shortest_task(ready: Sequence[Task], evaluation: Evaluation, worker: Worker) -> Task:
    """Returns the task with the least work, by a count of multiplications."""
    return min(ready, key=lambda task: task.cost)


def least_data_movement(ready: Sequence[Task], evaluation: Evaluation, worker: Worker) -> Task:
    """Returns the task whose operands need the fewest numbers computed by another worker."""

    def moved(task: Task) -> int:
        makers, values = evaluation.maker, evaluation.values
        return sum(
            values[node].numel() for node in task.unit.operands if makers.get(node, worker.number) != worker.number
        )

    return min(ready, key=moved)


_MOST_WORKERS = 1000
POLICIES: dict[str, Policy] = {
    "first come": first_come,
    "shortest task": shortest_task,
    "least data movement": least_data_movement,
}


def _runners_of_units(network: Network) -> Runners:
    """Returns runners of parts of the network's graph, see `UnitRunner`."""

    def runner_of(program: Program) -> Runner:
        return UnitRunner(program, network.dtype, network.device)

    return Runners(network._state_of_runners, network._program_of, runner_of)


@dataclass(frozen=True)
class Dispatched:
    """One line of the record of an evaluation: which worker computed the values, or gradients, of a unit, and when
    (seconds from the beginning).
    """

    worker: int
    nodes: tuple[str, ...]
    start: float
    end: float
    is_gradient: bool = False


class AsynchronousEvaluator:
    """Evaluates and differentiates a network with several workers, each a thread; results equal those of `Network`.

    `policy`: "first come", "shortest task" or "least data movement". `devices`: one for each worker; by default
    `workers` threads on the network's device. PyTorch's own threads multiply with the workers: with as many workers as
    cores, call `torch.set_num_threads(1)`. `record` lists the work of the last evaluation.
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
        if not 1 <= workers <= _MOST_WORKERS and not devices:
            raise NetworkError(f"expected at least one worker and at most {_MOST_WORKERS}, got {workers}")
        self.network, self.policy = network, POLICIES[policy]
        self.record: list[Dispatched] = []
        self._devices = [torch.device(device) for device in devices] if devices else [None] * workers
        self._copies: dict[torch.device, Network] = {}
        self._workers: list[Worker] = []
        self._find_workers()

    def _find_workers(self) -> None:
        """Makes workers with networks like the present network, anew only after its move to another device."""
        network = self.network
        devices = [network.device if device is None else device for device in self._devices]
        if [worker.device for worker in self._workers] != devices:
            missing = set(devices) - {network.device, *self._copies}
            self._copies |= {device: network.copy().to(device=device) for device in missing}
            networks = [network if device == network.device else self._copies[device] for device in devices]
            self._workers = [
                Worker(number, device, each, _runners_of_units(each))
                for number, (device, each) in enumerate(zip(devices, networks, strict=True))
            ]
        for worker_network in {id(worker.network): worker.network for worker in self._workers}.values():
            if worker_network is not network:
                copy_contents(network, worker_network)

    def evaluate(self, node: Node | str | Sequence[Node | str], inputs: Mapping[str, Any] | None = None) -> Any:
        """Returns values like `Network.evaluate`. An error in a worker stops the rest and is raised here."""
        if not isinstance(node, Sequence) or isinstance(node, str):
            return self.evaluate([node], inputs)[0]
        network = self.network
        roots = [network.find(each) for each in node]
        evaluation, layouts = self._run(roots, {} if inputs is None else inputs, None)
        return [network.shown(root, evaluation.values, layouts) for root in roots]

    def criterion_and_gradients(
        self, inputs: Mapping[str, Any], *, wrt: Sequence[Node | str] = (), training: bool | None = None
    ) -> tuple[float, dict[str, Any]]:
        """Returns criterion and gradients like `Network.criterion_and_gradients`, with different masks of dropout."""
        extra = self.network.nodes_wrt(wrt)
        found = self._differentiate(inputs, extra, training)
        return found.criterion, self.network.shown_gradients(found, extra)

    def backward(self, inputs: Mapping[str, Any], *, training: bool | None = None) -> float:
        """Computes gradients like `Network.backward`, in the memory shown by `Network.tensors`."""
        value = self._differentiate(inputs, (), training, stores_statistics=True).criterion
        self.network.tensors()
        return value

    def _run(
        self, roots: Sequence[Node], inputs: Mapping[str, Any], wanted: WantedGradients | None
    ) -> tuple[Evaluation, Layouts]:
        network = self.network
        if network._nodes.is_staged:
            raise NetworkError("nodes of whole sequences and samples on several axes are evaluated by Network.evaluate")
        layouts, values = network.given_values(roots, inputs)
        self._find_workers()
        units = find_units(network.composites, needed_nodes(network.nodes, roots, ()), set(roots))
        evaluation = Evaluation(self, units, layouts.on(""), values, wanted)
        evaluation.run()
        self.record = sorted(evaluation.record, key=lambda each: each.start)
        return evaluation, layouts

    def _differentiate(
        self,
        inputs: Mapping[str, Any],
        extra: tuple[Node, ...],
        training: bool | None,
        *,
        stores_statistics: bool = False,
    ) -> Differentiated:
        network, criteria = self.network, self.network.criteria
        if not criteria or not all(node.is_evaluated for node in criteria):
            raise NetworkError("the network has no criterion that is computed")
        if network._nodes.components and any(worker.network is not network for worker in self._workers):
            raise NetworkError("gradients of components are computed by workers on the network's own device")
        training = network.training if training is None else training
        stores = stores_statistics and training and any(op.stores_statistics for _, op in network._nodes.components)
        flags = network._nodes.gradient_flags(tuple(criteria), extra)
        seed = int(torch.randint(2**40, (1,), generator=network.generator)) if training else 0
        probes = [node for node in extra if node.is_evaluated]
        network._clear_gradients(extra)
        wanted = WantedGradients(criteria, flags, probes, training, stores, seed)
        evaluation, layouts = self._run(list(criteria), inputs, wanted)
        for _, runner in sorted(evaluation.runners.items()):  # always in one order: sums are the same in each run
            for node, gradient in runner.gradients.items():
                network._gradient(evaluation.ours(node, runner)).add_(gradient.to(network.device))
        values = evaluation.values
        value = sum(weight * float(values[node]) for node, weight in criteria.items())
        network._take_statistics(stores and math.isfinite(value))
        parts = {node: evaluation.sum_of_parts(node) for node in extra if node in evaluation.parts}
        return Differentiated(value, layouts, {**parts, **evaluation.probed}, {node: values[node] for node in criteria})


class Evaluation:
    """One evaluation: the waiting and the ready set of Algorithm 1.3, guarded by one lock."""

    def __init__(
        self,
        evaluator: AsynchronousEvaluator,
        units: Sequence[Unit],
        layout: SampleLayout | None,
        values: dict[Node, Tensor],
        wanted: WantedGradients | None,
    ):
        self.evaluator, self.layout, self.values, self.wanted = evaluator, layout, values, wanted
        self.runners: dict[int, UnitRunner] = {}  # of units whose gradients are computed
        self.parts: dict[Node, dict[int, Tensor]] = {}  # of gradients, by the task that gives them
        self.probed: dict[Node, Tensor] = {}  # whole gradients of probes
        self.maker: dict[Node, int] = {}
        self.record: list[Dispatched] = []
        samples = 1 if layout is None else layout.num_samples
        tasks = [Task(number, unit, unit.cost(samples), unit.children) for number, unit in enumerate(units)]
        if wanted is not None:
            tasks += _gradient_tasks(tasks, wanted.flags)
        self.parents: dict[int, list[Task]] = {task.number: [] for task in tasks}
        for task in tasks:
            for child in task.children:
                self.parents[child].append(task)
        self.ready = [task for task in tasks if not task.children]
        self.waiting = {task for task in tasks if task.children}
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
                found = self._differentiate(task) if task.is_gradient else self._compute(task, worker)
            except BaseException as error:
                self._stop(error)
                return
            names = tuple(self.evaluator.network.names[node] for node in task.unit.nodes)
            times = (start - self.began, time.perf_counter() - self.began)
            self._signal_complete(task, found, Dispatched(worker.number, names, *times, task.is_gradient))

    def _next_task(self, worker: Worker) -> Task | None:
        """ScheduleComputation: returns the ready task that the policy takes, or waits; None when no more will come."""
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
        """SignalComplete: makes parents ready whose children are all finished."""
        with self.changed:
            if task.is_gradient:
                for node, gradient in found.items():
                    if node in task.unit.nodes:
                        self.probed[node] = gradient
                    else:
                        self.parts.setdefault(node, {})[task.number] = gradient
            else:
                self.values.update(found)
                self.maker.update(dict.fromkeys(found, line.worker))
            self.record.append(line)
            self.num_running -= 1
            for parent in self.parents[task.number]:
                parent.finished_children += 1
                if parent.finished_children == len(parent.children):
                    self.waiting.discard(parent)
                    self.ready.append(parent)
            self.changed.notify_all()

    def _compute(self, task: Task, worker: Worker) -> dict[Node, Tensor]:
        unit, network, main, wanted = task.unit, worker.network, self.evaluator.network, self.wanted

        def theirs(nodes: Iterable[Node]) -> tuple[Node, ...]:
            return tuple(nodes) if network is main else tuple(network.find(main.names[node]) for node in nodes)

        given = tuple(node for node in unit.operands if node.operands)
        question = Question(network._nodes, theirs(unit.outputs), self.layout, theirs(given))
        if wanted is not None:
            used = dict.fromkeys((*unit.nodes, *(operand for node in unit.nodes for operand in node.operands)))
            question = replace(
                question,
                criteria=theirs(node for node in unit.outputs if wanted.flags.get(node, False)),
                flags=dict.fromkeys(theirs(node for node in used if wanted.flags.get(node, False)), True),
                probes=theirs(node for node in unit.nodes if node in wanted.probes),
                training=wanted.training,
                stores_statistics=wanted.stores_statistics and any(node.operation.parameters() for node in unit.nodes),
                accumulates=False,
            )
        runner = worker.runners.find(question)
        assert isinstance(runner, UnitRunner)
        if wanted is not None:
            runner.generator.manual_seed(wanted.seed + task.number)
        values = dict(
            zip(theirs(unit.operands), (self.values[n].to(worker.device) for n in unit.operands), strict=True)
        )
        found = runner.forward(values)
        if question.criteria:
            self.runners[task.number] = runner
        return dict(zip(unit.outputs, (found[node].to(main.device) for node in theirs(unit.outputs)), strict=True))

    def _differentiate(self, task: Task) -> dict[Node, Tensor]:
        """Returns the parts of gradients given by a unit to its operands, from the gradients of its outputs."""
        runner = self.runners[task.children[0]]
        seeds: dict[Node, float | Tensor] = {}
        for node in runner.program.question.criteria:
            ours = self.ours(node, runner)
            total = self.sum_of_parts(ours) if ours in self.parts else torch.zeros_like(self.values[ours])
            assert self.wanted is not None, "gradients are wanted"
            seeds[node] = (total + self.wanted.criteria.get(ours, 0.0)).to(runner.device)
        main = self.evaluator.network.device
        return {self.ours(node, runner): part.to(main) for node, part in runner.backward(seeds).items()}

    def sum_of_parts(self, node: Node) -> Tensor:
        """Sums a node's gradient from its users' parts in the order of units: to equal bits in each run."""
        first, *others = (part for _, part in sorted(self.parts[node].items()))
        return sum(others, first)

    def ours(self, node: Node, runner: UnitRunner) -> Node:
        """Maps a runner's node, which may be of a copy, to the node of the evaluated network."""
        return self.evaluator.network.find(runner.names[node])


def _gradient_tasks(tasks: Sequence[Task], flags: Mapping[Node, bool]) -> list[Task]:
    """Returns the tasks of gradients: after the values of the unit and the gradients of its users."""
    count = len(tasks)
    needed = [task for task in tasks if any(flags.get(node, False) for node in task.unit.outputs)]
    users: dict[int, list[int]] = {task.number: [] for task in tasks}
    for task in needed:
        for child in task.unit.children:
            users[child].append(count + task.number)
    made = [(task, (task.number, *users[task.number])) for task in needed]
    return [Task(count + task.number, task.unit, 2 * task.cost, children, True) for task, children in made]
