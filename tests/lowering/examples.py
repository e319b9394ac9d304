"""The networks of the examples in lowering's docstrings: four rows of each, at every stage of lowering.

`splice` puts two frames side by side, `loop` is a recurrence, `halves` takes the same row twice, `convolution` is a
kernel that asks for rows by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import nnet3
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.build_graph import build_graph
from nnet3.engine.lowering.carried_rows import ChunkRows
from nnet3.engine.lowering.first_writers import FirstWriters, find_first_writers
from nnet3.engine.lowering.graph import ComputationGraph
from nnet3.engine.lowering.layout import Layout, lay_out
from nnet3.engine.lowering.needs import BackwardNeeds, find_needs
from nnet3.engine.lowering.reading import Reading, find_reading
from nnet3.engine.lowering.schedule import LayoutTask, Schedule
from nnet3.engine.lowering.scheduler import schedule
from nnet3.engine.lowering.source import LoweringRequest
from nnet3.engine.lowering.sweeps import Sweeps
from nnet3.model.requests import NnetSource, lowering_request

SPLICE = """
input-node name=x dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=3
component-node name=y component=affine input=Append(Offset(x, -1), x)
output-node name=output input=y
"""
LOOP = """
input-node name=x dim=3
component name=affine type=AffineComponent input-dim=3 output-dim=3
component-node name=h component=affine input=Sum(x, IfDefined(Offset(h, -1)))
output-node name=output input=h
"""
HALVES = """
input-node name=x dim=3
component name=affine type=AffineComponent input-dim=3 output-dim=3
component-node name=y component=affine input=Round(x, 2)
output-node name=output input=y
"""
CONVOLUTION = """
input-node name=x dim=1
component name=conv type=TimeHeightConvolutionComponent num-filters-in=1 num-filters-out=1 height-in=1 height-out=1 \
height-offsets=0 time-offsets=-1,0 required-time-offsets=0
component-node name=y component=conv input=x
output-node name=output input=y
"""
ECHO = """
input-node name=x dim=1
output-node name=output input=Sum(x, IfDefined(Offset(x, -20)))
"""


@dataclass(frozen=True)
class Example:
    """A network, a request, and what each stage of lowering makes of them, each made when it is asked for."""

    source: NnetSource
    request: LoweringRequest

    @cached_property
    def sweeps(self) -> Sweeps:
        sweeps = Sweeps(self.source, self.request)
        sweeps.run()
        return sweeps

    @cached_property
    def graph(self) -> ComputationGraph:
        return build_graph(self.source, self.request)

    @cached_property
    def schedule(self) -> Schedule:
        return schedule(self.source, self.graph)

    @cached_property
    def task(self) -> LayoutTask:
        return LayoutTask(self.source, self.request, self.schedule)

    @cached_property
    def reading(self) -> Reading:
        return find_reading(self.schedule)

    @cached_property
    def needs(self) -> BackwardNeeds:
        return find_needs(self.task, self.reading)

    @cached_property
    def writers(self) -> FirstWriters:
        return find_first_writers(self.task, self.reading, self.needs)

    @cached_property
    def computation(self) -> NnetComputation:
        """The computation in which `layout` declares its matrices, without commands."""
        return NnetComputation(need_model_derivative=self.request.need_model_derivative)

    @cached_property
    def layout(self) -> Layout:
        return lay_out(self.task, self.computation)


def _example(
    config: str,
    given: Iterable[int],
    wanted: Iterable[int] = range(4),
    *,
    sequences: int = 1,
    deriv_times: tuple[int, int] | None = None,
    backward: bool = True,
) -> Example:
    nnet = nnet3.Nnet.from_config(config)

    def rows(name: str, times: Iterable[int]) -> nnet3.IoSpecification:
        return nnet3.IoSpecification(name, [(n, t, 0) for t in times for n in range(sequences)], backward)

    request = nnet3.ComputationRequest([rows("x", given)], [rows("output", wanted)], need_model_derivative=backward)
    return Example(NnetSource(nnet), lowering_request(nnet, request, deriv_times))


def splice(given: Iterable[int] = range(-1, 4), *, sequences: int = 1) -> Example:
    """y(t) = W [x(t-1), x(t)] + b at t = 0..3, from x at t = -1..3."""
    return _example(SPLICE, given, sequences=sequences)


def loop(
    last: int = 3, *, sequences: int = 1, deriv_times: tuple[int, int] | None = None, backward: bool = True
) -> Example:
    """h(t) = W (x(t) + h(t-1)) + b at t = 0..last; nothing comes before h(0)."""
    times = range(last + 1)
    return _example(LOOP, times, times, sequences=sequences, deriv_times=deriv_times, backward=backward)


def halves() -> Example:
    """y(t) = W x(t rounded down to an even number) + b at t = 0..3."""
    return _example(HALVES, (0, 2))


def convolution() -> Example:
    """y(t) = w x(t-1) + v x(t) + b at t = 0, 1, 3; what is missing of x counts as zero."""
    return _example(CONVOLUTION, (0, 1, 3), (0, 1, 3))


def echo(length: int) -> Example:
    """y(t) = x(t) + x(t-20), as far as there is x, from x at t = 0..length-1."""
    return _example(ECHO, range(length), range(length))


def chunks(frames: int, *, first: int) -> Callable[[int], ChunkRows]:
    """Chunks of a stream of `splice`: each brings so many frames of x, the first one those from t = first on too."""

    def rows(times: Iterable[int]) -> np.ndarray:
        return np.array([(0, t, 0) for t in times], np.int32)

    def chunk(number: int) -> ChunkRows:
        start, end = (number - 1) * frames, number * frames
        return ChunkRows({0: rows(range(start if number > 1 else first, end))}, {3: rows(range(start, end))})

    return chunk
