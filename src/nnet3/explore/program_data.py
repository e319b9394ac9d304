"""The stages of a task as plain data for a page: graph and steps, the program after each pass, memory, profile."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnet3.base.options.compiling import DEFAULT_LEVEL
from nnet3.engine.driver import CompileTask
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Command
from nnet3.engine.ir.passes.pipeline import PIPELINE, optimize
from nnet3.engine.lowering.build_graph import build_graph
from nnet3.engine.lowering.generate import generate
from nnet3.engine.lowering.graph import ComputationGraph
from nnet3.engine.lowering.schedule import Schedule
from nnet3.engine.lowering.scheduler import schedule
from nnet3.engine.runtime.planning import unplaced_plan
from nnet3.engine.runtime.profile import ProfileReport, node_of_command


class NumberedTexts:
    """Numbers texts; `all` is the list of them."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Returns the number of a text; adds an unknown text."""
        number = self._numbers.setdefault(text, len(self.all))
        if number == len(self.all):
            self.all.append(text)
        return number


GIVEN, VIEW = -1, -2  # instead of the step of a cindex
ALL_PASSES = f"all {sum(each.level <= DEFAULT_LEVEL for each in PIPELINE)} passes"
MOST_CINDEXES = 40_000  # that a page shows
MOST_COMMANDS = 20_000  # in all programs together; of longer ones the first and the last are shown


def program_data(task: CompileTask) -> tuple[dict[str, Any], NnetComputation]:
    """Returns `graph`, `programs`, `matrices` and `memory`, and the optimized program."""
    source, request = task.lowered_from()
    graph = build_graph(source, request)
    steps = schedule(source, graph)
    stages: list[tuple[str, NnetComputation]] = []
    computation = optimize(generate(source, request, steps), dump=lambda name, made: stages.append((name, made)))
    if sum(len(made.commands) for _, made in stages) > MOST_COMMANDS:
        stages = [stages[0], (ALL_PASSES, stages[-1][1])]
    computation.fingerprint = dict(task.fingerprint)
    texts = NumberedTexts()
    data = {
        "graph": graph_data(graph, steps),
        "programs": _programs(stages, texts),
        "memory": memory_data(computation),
        "texts": texts.all,
    }
    return data, computation


def graph_data(graph: ComputationGraph, steps: Schedule) -> dict[str, Any]:
    """Returns the cindexes with their times, steps and dependencies, and the epoch of each step.

    Cindexes first[k] .. first[k + 1] - 1 belong to node k; cindex i uses the cindexes
    used[start[i] .. start[i + 1] - 1]. A given cindex has step -1, a cindex of a view -2. Large graphs have only
    `counts`.
    """
    start, used = graph.dependencies
    counts = {"cindexes": graph.num_cindexes, "dependencies": len(used), "steps": len(steps.steps)}
    counts |= {"epochs": len(steps.epoch_steps), "sequences": graph.multiplicity}
    if graph.num_cindexes > MOST_CINDEXES:
        return {"counts": counts}
    step_of = np.where(graph.is_input, GIVEN, VIEW)
    for node in range(len(steps.nodes)):
        items, given = steps.items[node], steps.num_given[node]
        computed = items[given:]
        positions = steps.position_of_row(node)
        if len(positions) == len(computed):
            step_of[computed[computed >= 0]] = positions[computed >= 0]
    epoch_of = np.repeat(np.arange(len(steps.epoch_steps)), [epoch.end - epoch.first for epoch in steps.epoch_steps])
    return {
        "counts": counts,
        "names": list(graph.node_names),
        "first": graph.first.tolist(),
        "indexes": graph.indexes.tolist(),
        "start": start.tolist(),
        "used": used.tolist(),
        "step": step_of.tolist(),
        "epoch": epoch_of.tolist(),
        "recurrent": [epoch.is_recurrent for epoch in steps.epoch_steps],
    }


def _programs(stages: list[tuple[str, NnetComputation]], texts: NumberedTexts) -> list[dict[str, Any]]:
    """Returns a record for each pass; the record of a pass without changes has neither commands nor matrices."""
    records: list[dict[str, Any]] = []
    before = None
    for name, computation in stages:
        record: dict[str, Any] = {"pass": name or "as generated", "count": len(computation.commands)}
        if computation is not before:
            record["commands"] = [_command(computation, command, texts) for command in computation.commands]
            numbers = sorted(computation.used_matrices() | set(computation.outside_by_matrix()))
            record["matrices"] = dict(zip(numbers, map(texts.number, computation.introductions()), strict=False))
        before = computation
        records.append(record)
    return records


def _command(computation: NnetComputation, command: Command, texts: NumberedTexts) -> list[Any]:
    """Returns a command's text, kind, node and matrices; texts by number."""
    named = [*command.schema.operands(command), *(access.submatrix for access in command.accesses(computation))]
    matrices = {computation.submatrices[number].matrix for number in named if number}
    words = (command.text(computation), type(command).__name__, node_of_command(computation, command))
    return [*map(texts.number, words), sorted(matrices)]


def memory_data(computation: NnetComputation) -> dict[str, Any]:
    """Returns the size of the arena in bytes, its blocks (matrix, first and last command, offset, bytes), the peak.

    A matrix number below 0 is the matrix's compressed contents, 0 is scratch memory. `live` is the bytes in use at each
    command.
    """
    made = unplaced_plan(computation)
    offsets, num_bytes = made.packed()
    blocks = np.column_stack([made.blocks[:, :3], offsets, made.num_bytes])
    live = np.zeros(len(computation.commands) + 1, np.int64)
    np.add.at(live, blocks[:, 1], blocks[:, 4])
    np.subtract.at(live, blocks[:, 2] + 1, blocks[:, 4])
    live = np.cumsum(live)[:-1]
    peak = int(live.argmax()) if len(live) else 0
    return {
        "bytes": int(num_bytes),
        "blocks": blocks.tolist(),
        "peak": {"command": peak, "bytes": int(live[peak]) if len(live) else 0},
    }


def profile_data(report: ProfileReport) -> list[list[Any]]:
    """Returns of each command: kind, type, node, microseconds, calls, bytes."""
    return [
        [each.kind, each.type, each.node, round(each.seconds * 1e6, 2), each.iterations, each.num_bytes]
        for each in report.times
    ]
