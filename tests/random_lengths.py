"""Requests of many lengths for one network: a function of a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

import nnet3
from tests.random_networks import computable_request
from tests.seeds import shifted


@dataclass(frozen=True)
class _Times:
    """The times of an input or output in a request that ends at `end`."""

    first: int
    beyond: int  # the last time, after `end`; None stands for `last`
    last: int | None
    step: int
    missing: tuple[int, ...]  # times that are left out, counted from the first if >= 0, else from the last

    def until(self, end: int) -> np.ndarray:
        times = np.arange(self.first, (end + self.beyond if self.last is None else self.last) + 1, self.step)
        missing = [number for number in self.missing if -len(times) < number < len(times) - 1]
        return np.delete(times, missing) if len(times) > 1 else times


class RandomLengths:
    """Requests for a network that differ in their length, and options for all of them."""

    def __init__(self, nnet: nnet3.Nnet, seed: int) -> None:
        rng = random.Random(shifted(seed))
        self._nnet, self._rng, self._unit = nnet, rng, nnet.modulus
        self._ns = rng.choice([[0], [0], [0, 1], [0, 1, 2], [7, 3]])
        self._xs = rng.choice([[0], [0], [0], [0, 1], [-1, 0, 1]])
        self._order = rng.choice(["tnx", "tnx", "tnx", "ntx", "xnt"])
        self._backward = rng.random() < 0.6
        self._derivs = {name for name in nnet.input_names if self._backward and rng.random() < 0.3}
        self._model = self._backward and rng.random() < 0.8
        self._stats = rng.random() < 0.3
        first = rng.choice([0, 0, 0, -3, 5, 1000])
        step = rng.choice([1, 1, 1, 3])
        self._outputs = {
            name: _Times(first + rng.choice([0, 0, 2]), rng.choice([0, 0, -3]), None, step, self._gaps(0.1))
            for name in nnet.output_names
        }
        self._inputs = {name: self._input(first) for name in nnet.input_names}
        self.first = first
        derivs = (
            (rng.choice([None, 3, first + 40]), rng.choice([None, 0, -4, 20])) if rng.random() < 0.3 else (None, None)
        )
        self.options = nnet3.CompileOptions(
            optimize=rng.random() < 0.85,
            check=rng.random() < 0.1,
            min_deriv_time=derivs[0],
            max_deriv_time_relative=derivs[1],
        )

    def _gaps(self, chance: float) -> tuple[int, ...]:
        rng = self._rng
        return tuple({rng.randint(-6, 6) for _ in range(rng.randint(1, 3))}) if rng.random() < chance else ()

    def _input(self, first: int) -> _Times:
        rng = self._rng
        begin = first - rng.choice([40, 40, 8, 8, 3, 0])
        kind = rng.random()
        if kind < 0.12:  # as an ivector
            return _Times(rng.choice([0, first]), 0, first + rng.choice([0, 3, 30, 60]), 1, ())
        if kind < 0.2:  # every ten frames
            return _Times(first - first % 10 - 20, 10, None, 10, ())
        return _Times(begin, rng.choice([40, 40, 8, 8, 3, 0, -3]), None, 1, self._gaps(0.1))

    def __call__(self, frames: int) -> nnet3.ComputationRequest | None:
        """The request for this many frames, with those of its outputs that can be computed; None if there are none."""
        end = self.first + frames - 1
        axes = {"n": np.array(self._ns), "x": np.array(self._xs)}

        def io(name: str, times: _Times, has_deriv: bool) -> nnet3.IoSpecification:
            grid = np.meshgrid(*({**axes, "t": times.until(end)}[axis] for axis in self._order), indexing="ij")
            columns = dict(zip(self._order, grid, strict=True))
            return nnet3.IoSpecification(name, np.stack([columns[axis].ravel() for axis in "ntx"], axis=1), has_deriv)

        request = nnet3.ComputationRequest(
            [io(name, times, name in self._derivs) for name, times in self._inputs.items()],
            [io(name, times, self._backward) for name, times in self._outputs.items()],
            self._model,
            self._stats,
        )
        if any(len(each.indexes) == 0 for each in (*request.inputs, *request.outputs)):
            return None
        return computable_request(self._nnet, request)
