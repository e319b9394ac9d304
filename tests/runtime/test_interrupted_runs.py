"""Ctrl-C at any moment of a run: the computer begins again, in any thread, and gives what it gave."""

from __future__ import annotations

import itertools
import threading

import torch
from torch import Tensor

import nnet3
from nnet3.engine.runtime.second_use_cache import SecondUseCache
from nnet3.training.train.minibatch import grid
from tests.interrupts import interrupted, num_moments

CONFIG = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=3
component-node name=affine component=affine input=Append(Offset(input, -1), input)
component name=tanh type=TanhComponent dim=3
component-node name=tanh component=tanh input=affine
output-node name=output input=tanh
"""


class Key:
    """Looked up by functions in Python, as a dataclass is."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.number == self.number


def test_values_are_kept_after_an_interruption() -> None:
    kept = SecondUseCache[int](most=3, once=2)

    def use() -> None:
        for number in (1, 2, 1, 3, 4, 1, 5, 3, 2):
            if (found := kept.find(Key(number))) is None:
                found = kept.keep(Key(number), number)
            assert found == number

    for moment in range(1, 3 * num_moments(use)):
        interrupted(use, moment)
        use()
        assert len(kept) <= 5


def test_a_computer_that_was_interrupted_runs_again_in_any_thread() -> None:
    nnet = nnet3.Nnet.from_config(CONFIG)
    inputs = nnet3.IoSpecification("input", grid(2, range(-1, 6)), has_deriv=True)
    outputs = nnet3.IoSpecification("output", grid(2, range(6)), has_deriv=True)
    program = nnet3.compile(nnet, nnet3.ComputationRequest([inputs], [outputs], need_model_derivative=True))
    computer, features, results = nnet3.NnetComputer(program, nnet, nnet.copy()), torch.randn(14, 2), list[Tensor]()

    def run() -> None:
        computer.reset()
        computer.accept_input("input", features)
        computer.run()
        computer.accept_input("output", computer.get_output("output"))
        computer.run()
        results.append(computer.get_output("input").clone())

    run()
    (expected,) = results
    results.clear()
    for moment in itertools.count(1):
        if not interrupted(run, moment):
            break
        results.clear()
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert len(results) == 1, f"moment {moment}"
        assert torch.equal(results[0], expected)
