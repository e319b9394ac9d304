"""Looks at networks in stages: their programs one after the other, and where their time goes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from nnet3.cn.node import Node
from nnet3.cn.node_text import describe_node
from nnet3.cn.program import Runner
from nnet3.runtime.profile import CommandTime, Profiler, ProfileReport
from nnet3.text.html import folded

Seen = TypeVar("Seen")


@dataclass(frozen=True)
class InStages(Generic[Seen]):
    """The parts of a network in stages, in order: titles, each with a program, or None where PyTorch computes.

    In the place of a program there may be its graph, or the task of compiling it.
    """

    parts: tuple[tuple[str, Seen | None], ...]

    @property
    def programs(self) -> list[Seen]:
        return [program for _, program in self.parts if program is not None]

    def __str__(self) -> str:
        shown = [f"# {title}" + ("" if program is None else f"\n{program}") for title, program in self.parts]
        return "\n\n".join(shown)

    def _repr_html_(self) -> str:
        return "".join(folded(title, "" if program is None else str(program)) for title, program in self.parts)


def title_of_whole(node: Node, names: Mapping[Node, str]) -> str:
    return f"PyTorch: {describe_node(node, names)}"


class StagesProfiler:
    """Times the programs of a network in stages, and what PyTorch computes between them."""

    def __init__(self, names: Mapping[Node, str]) -> None:
        self._names = names
        self._programs: dict[Runner, Profiler] = {}
        self._wholes: dict[Node, list[tuple[float, float]]] = {}
        self._runs: list[tuple[float, float]] = []

    @contextmanager
    def program(self, runner: Runner) -> Iterator[None]:
        """Observe one run of a program, or of its backward part."""
        profiler = self._programs.setdefault(runner, Profiler(runner.computer.computation))
        with runner.computer.observed(profiler):
            yield

    @contextmanager
    def whole(self, node: Node) -> Iterator[None]:
        """Time a node that PyTorch computes."""
        begin = time.perf_counter()
        yield
        self._wholes.setdefault(node, []).append((begin, time.perf_counter() - begin))

    @contextmanager
    def run(self) -> Iterator[None]:
        """Time one run of all stages."""
        begin = time.perf_counter()
        yield
        self._runs.append((begin, time.perf_counter() - begin))

    def report(self) -> ProfileReport:
        """The times of commands, of nodes of whole sequences, and of the rest, in which PyTorch goes back."""
        times = [timing for profiler in self._programs.values() for timing in profiler.report().times]
        for node, found in self._wholes.items():
            times.append(_time(describe_node(node, self._names), "Whole", node.type, self._names[node], found))
        begin, last = self._runs[-1]
        known = sum(timing.seconds for timing in times)
        rest = sum(seconds for _, seconds in self._runs) / len(self._runs) - known
        known_last = sum(timing.last_seconds for timing in times)
        text = "what lies between stages: autograd, values that go from one to the other"
        times.append(
            CommandTime(0, 0, text, "Between", "", "", "", 0, begin, max(0.0, last - known_last), max(0.0, rest))
        )
        return ProfileReport(tuple(times), len(self._runs))


def _time(text: str, kind: str, type: str, node: str, found: list[tuple[float, float]]) -> CommandTime:
    begin, last = found[-1]
    return CommandTime(0, 0, text, kind, "", type, node, 0, begin, last, sum(each for _, each in found) / len(found))
