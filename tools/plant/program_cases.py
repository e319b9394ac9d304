"""Cases without a network: random programs, of which passes or plans are tried."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, settings
from torch import Tensor

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes.pipeline import optimize
from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from nnet3.engine.runtime import NnetComputer, Plan
from nnet3.errors import ProofError
from nnet3.options import HIGHEST_LEVEL
from tests.ir.programs import run
from tests.ir.random_programs import ProgramWriter
from tests.runtime.programs import random_programs
from tests.runtime.toy_kernels import Product, net
from tools.plant.cases import Case


class _WithoutNativeCode(Case):
    def native_numbers(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        return []


class OptimizedPrograms(_WithoutNativeCode):
    """Programs with every command, forward and backward, which passes change; what runs them is an interpreter."""

    def __init__(self, seeds: range) -> None:
        super().__init__(f"optimized programs {seeds.start} to {seeds.stop}")
        written = [ProgramWriter(Random(seed)).program() for seed in seeds]
        self._written = [each for each in written if _means_something(each)]

    def programs(self) -> list[NnetComputation]:
        return [optimize(each, level=HIGHEST_LEVEL, prove=True) for each in self._written]

    def numbers(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        results = [run(program) for program in programs]
        named = [[*each.outputs, *each.stats, *each.outside.items(), *each.gradients.items()] for each in results]
        return [torch.as_tensor(np.asarray(value)) for pairs in named for _, value in pairs]

    def plans(self, programs: Sequence[NnetComputation]) -> list[Plan]:
        """Returns nothing: no runtime knows these kernels."""
        return []


class PlannedPrograms(_WithoutNativeCode):
    """Programs that move rows in all ways, scaled, in loops, which are planned."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} planned programs")
        self._programs = list[NnetComputation]()

        @settings(
            max_examples=count,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(random_programs())
        def keep(program: NnetComputation) -> None:
            self._programs.append(program)

        keep()

    def programs(self) -> list[NnetComputation]:
        return self._programs

    def numbers(self, programs: Sequence[NnetComputation]) -> list[Tensor]:
        found = list[Tensor]()
        for program in programs:
            computer = NnetComputer(program, net(product=Product()), dtype=torch.float64, check_finite=False)
            for number, port in enumerate(computer.wanted()):
                rng = np.random.default_rng(number)
                computer.accept_input(port.name, rng.standard_normal(port.shape))
            computer.run()
            found += [computer.get_output(io.name).clone() for io in program.outputs]
        return found


def _means_something(program: NnetComputation) -> bool:
    """A backward pass may use a memo of other rows than its own in random programs."""
    with suppress(ProofError):
        prove_equal([PassResult("", program)])
        return True
    return False
